//! The one entry point of development: `cargo xtask COMMAND`.
fn main() {}
