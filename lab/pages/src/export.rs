//! A run as text files: Markdown for people, JSON for programs, JUnit for builds; and an exhibit as
//! Markdown.

mod json;
pub(crate) mod junit;
mod markdown;

pub use crate::results::exhibit_markdown as exhibit;
pub use json::{SCHEMA, SCHEMA_TEXT, json};
pub use junit::junit;
pub use markdown::{markdown, summary};

#[cfg(test)]
mod tests;
