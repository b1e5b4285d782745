//! A run as text files: Markdown for people, CSV for tables, JSON for programs, JUnit for builds;
//! and an exhibit as Markdown.

mod csv;
mod exhibit;
mod json;
pub(crate) mod junit;
mod markdown;

pub use csv::csv;
pub use exhibit::exhibit;
pub use json::{SCHEMA, SCHEMA_TEXT, json};
pub use junit::junit;
pub use markdown::{markdown, summary};

#[cfg(test)]
mod tests;
