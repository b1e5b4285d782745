//! The development tasks as a library, so that tests can call the functions of `cargo xtask`.
//!
//! This crate depends on none of ours: it must build when they do not, to report the reason. It
//! uses them only as a caller of `cargo` and of finished binaries.

pub mod bare;
pub mod bench;
pub mod ci;
pub mod fuzz;
pub mod golden;
pub mod package;
pub mod pictures;
pub mod soak;
pub mod steps;
pub mod suites;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The root of the workspace: the folder above this crate.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("xtask lies in a folder of the workspace").to_path_buf()
}
