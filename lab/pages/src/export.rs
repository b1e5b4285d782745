//! A run as text files: Markdown for people, JSON for programs, JUnit for builds; and an exhibit as
//! Markdown.

mod exhibit;
mod json;
pub(crate) mod junit;
mod markdown;

pub use exhibit::exhibit;
pub use json::{SCHEMA, SCHEMA_TEXT, json};
pub use junit::junit;
pub use markdown::{markdown, summary};

#[cfg(test)]
mod tests;
