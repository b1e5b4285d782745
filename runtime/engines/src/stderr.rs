//! The lines of a server on stderr: neither the supervisor nor a worker waits for their reader.
//!
//! A paused terminal or log collector fills the pipe. A write that waited then would stop whatever
//! printed the line: the supervisor, with its signals and its administration, or all clients of a
//! worker. So lines without room are dropped, and their number is printed and counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::os::fd::AsFd;
use std::panic;
use std::sync::OnceLock;

use language::level;
use sys::output::LossyLines;

/// The lines on stderr; `None` where it cannot be opened once more.
static STDERR: OnceLock<Option<LossyLines>> = OnceLock::new();

/// Drops lines on stderr from now on while their reader pauses. The processes that are forked later
/// share the count.
pub fn never_wait() {
    STDERR.get_or_init(|| LossyLines::to(std::io::stderr().as_fd()).ok());
    if lines().is_some() {
        level::print_by(print);
    }
}

/// [`never_wait`], also for the messages of panics: for a program that is only a server.
pub fn never_wait_in_panics() {
    never_wait();
    if lines().is_some() {
        panic::set_hook(Box::new(|panic| {
            let backtrace = Backtrace::capture();
            match backtrace.status() {
                BacktraceStatus::Captured => print(&format!("{panic}\n{backtrace}")),
                _ => print(&panic.to_string()),
            }
        }));
    }
}

/// The lines on stderr that were dropped, of all processes of the server.
pub(crate) fn dropped() -> u64 {
    lines().map_or(0, LossyLines::dropped)
}

fn lines() -> Option<&'static LossyLines> {
    STDERR.get()?.as_ref()
}

fn print(line: &str) {
    if let Some(lines) = lines() {
        lines.print(line);
    }
}
