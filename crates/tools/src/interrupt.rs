//! Ctrl-C as a flag: the first one asks the running race to stop and to keep what it knows.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Watches for INT and TERM until the process ends, by handlers. Blocking the signals would do for
/// this process, but a blocked signal stays blocked in every child: redis would never hear the TERM
/// that asks it to end. A handler is forgotten by `execve(2)`.
///
/// # Errors
/// If a handler cannot be set.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        register(signal, Arc::clone(&stop)).context("cannot watch for signals")?;
    }
    Ok(stop)
}
