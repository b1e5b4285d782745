//! Servers on another runtime, run by the hidden command `peer` of our own program.
//!
//! They are written as their runtime's own guides would have it, not as we would: a task for each
//! connection, a mutex around shared state, buffered reads. The surprising thing is what they do
//! share with us: one build, one allocator and one compiler, so that a difference is the
//! architecture's.

mod delay;
mod echo;
mod market;
mod page;

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Serves the stock market at 127.0.0.1:`port` until TERM or INT comes. `burn` is how long it works
/// for nothing at each request: a planted slowdown.
///
/// # Errors
/// If the book cannot be read, the port is taken or no runtime can be made.
pub fn market(port: u16, book: &Path, threads: bool, burn: Duration) -> Result<()> {
    let market = market::Market::open(book, burn)?;
    runtime(threads)?.block_on(until_told(market::serve(port, market)))
}

/// Serves one file as a page at 127.0.0.1:`port` until TERM or INT comes.
///
/// # Errors
/// If the file cannot be read, the port is taken or no runtime can be made.
pub fn page(port: u16, file: &Path, threads: bool) -> Result<()> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    runtime(threads)?.block_on(until_told(page::serve(port, body)))
}

/// Sends the packets of a game server's library back at 127.0.0.1:`port` until TERM or INT comes.
///
/// # Errors
/// If the port is taken or no runtime can be made.
pub fn echo(port: u16, threads: bool) -> Result<()> {
    runtime(threads)?.block_on(until_told(echo::serve(port)))
}

/// Passes everything that comes to 127.0.0.1:`port` on to another server, and back, each way
/// `delay` later, until TERM or INT comes.
///
/// # Errors
/// If the port is taken or no runtime can be made.
pub fn delay(port: u16, to: SocketAddr, delay: Duration, threads: bool) -> Result<()> {
    runtime(threads)?.block_on(until_told(delay::serve(port, to, delay)))
}

fn runtime(threads: bool) -> Result<Runtime> {
    let mut builder = match threads {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    builder.enable_all().build().context("cannot make a tokio runtime")
}

async fn until_told(serve: impl Future<Output = Result<()>>) -> Result<()> {
    let mut term = signal(SignalKind::terminate()).context("cannot hear TERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot hear INT")?;
    tokio::select! {
        ended = serve => ended,
        _ = term.recv() => Ok(()),
        _ = int.recv() => Ok(()),
    }
}
