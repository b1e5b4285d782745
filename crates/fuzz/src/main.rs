//! The registry of every crate's fuzz function.
fn main() {}
