//! Ctrl-C as a flag: the first one asks the running race to stop and to keep what it knows.

use anyhow::{Context, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use sys::poll::{PollFd, poll};
use sys::signal::{Signal, SignalFd, block};

/// Watches for INT and TERM until the process ends. To be called before any other thread is made,
/// because a signal is blocked thread by thread. Children are not affected: they start with an
/// empty mask, in process groups of their own.
///
/// # Errors
/// If signals cannot be blocked or read.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let signals = [Signal::INT, Signal::TERM];
    block(&signals).context("cannot block signals")?;
    let fd = SignalFd::new(&signals).context("cannot read signals")?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    thread::spawn(move || {
        while poll(&mut [PollFd::new(fd.as_fd(), true, false)], None).is_ok() {
            if let Ok(Some(_)) = fd.read() {
                flag.store(true, Ordering::Relaxed);
            }
        }
    });
    Ok(stop)
}
