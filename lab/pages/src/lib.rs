//! Pages for people: the report of a race, and an exhibit of the museum.
//!
//! ```text
//!   report     a run and its conclusions -> one HTML file, offline
//!   exhibit    a document of the museum, or an account of a search -> one HTML file
//!   checkup    a check-up of a server -> HTML, the lines of a terminal, JUnit
//!   results    what became of each published document -> HTML, Markdown; an exhibit as Markdown
//!   export     a run as Markdown, JSON, JUnit
//!   terminal   the tables of both on a terminal
//!   charts     plotly.js figures with their tables      strip     an interval as a little SVG
//!   sample     a made-up race, for tests and previews
//!   glossary   every term, explained                    words     numbers as people read them
//! ```
//!
//! The tables are the report; the charts are an addition that a script draws from the same numbers.
//! That script is plotly.js, four and a half megabytes in the `plotly` crate. The page carries it
//! compressed and the browser unpacks it (`DecompressionStream`), which keeps the file under two
//! megabytes. This crate draws the small interval strips in the verdict table as plain SVG, so the
//! first screen waits for no script.

pub mod charts;
pub mod checkup;
mod exhibit;
pub mod export;
pub mod glossary;
pub mod motion;
mod report;
mod results;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
mod script;
mod shell;
mod strip;
pub mod terminal;
pub mod words;

pub use exhibit::{account, exhibit};
pub use report::report;
pub use results::{Repeated, results, results_markdown};
pub use shell::PageError;
