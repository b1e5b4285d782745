//! The web service through the seam: what each request gets, under any split, warm or cold; what
//! is refused; and what slowness costs.

mod files;
mod memory_files;
mod refusals;
mod slowness;
mod splits;
mod talk;
