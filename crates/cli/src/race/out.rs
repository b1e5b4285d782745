//! A run as text files: Markdown for people, CSV for tables, JSON for programs, JUnit for builds.

mod csv;
mod json;
mod junit;
mod markdown;

pub use csv::csv;
pub use json::{SCHEMA_TEXT, json};
pub use junit::junit;
pub use markdown::markdown;

#[cfg(test)]
mod tests;
