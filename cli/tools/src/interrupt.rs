//! Ctrl-C as a flag: the running command should stop and report its results so far.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Installs handlers for INT and TERM that set the flag. Blocking the signals would not do, because
/// children inherit a blocked signal through `execve(2)`, and a redis would never receive its TERM.
/// Handlers are reset by `execve(2)`.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        register(signal, Arc::clone(&stop)).context("cannot watch for signals")?;
    }
    Ok(stop)
}
