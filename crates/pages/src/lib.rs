//! The report: one HTML file that opens offline, reads without script, and prints.
//!
//! The tables are the report; the charts are an addition that a script draws from the same numbers.
//! That script is plotly.js, carried by the `plotly` crate at four and a half megabytes; here it
//! travels compressed inside the page and the browser unpacks it (`DecompressionStream`), which
//! keeps the file under two. The surprising thing is that the small interval strips in the verdict
//! table are plain SVG made here: the first screen must not wait for anything.

mod charts;
mod report;
mod script;
mod strip;
pub mod words;

pub use report::{PageError, report};
