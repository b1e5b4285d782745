//! Servers on another runtime, run by the hidden command `peer` of our own program.
//!
//! They follow the guides of their runtime, not our style: a task per connection, a mutex around
//! shared state, buffered reads. They share our build, allocator and compiler, so that a difference
//! is one of architecture.

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

/// Serves the stock market at `at` until TERM or INT. `burn` is CPU time wasted on each
/// request: a planted slowdown.
///
/// # Errors
/// The book cannot be read, the port is taken, or no runtime can be made.
pub fn market(at: SocketAddr, book: &Path, threads: bool, burn: Duration) -> Result<()> {
    let market = market::Market::open(book, burn)?;
    runtime(threads)?.block_on(until_told(market::serve(at, market)))
}

/// Serves one file as a page at `at` until TERM or INT.
///
/// # Errors
/// The file cannot be read, the port is taken, or no runtime can be made.
pub fn page(at: SocketAddr, file: &Path, threads: bool) -> Result<()> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    runtime(threads)?.block_on(until_told(page::serve(at, body)))
}

/// Echoes the packets of a game server's library at `at` until TERM or INT.
///
/// # Errors
/// The port is taken or no runtime can be made.
pub fn echo(at: SocketAddr, threads: bool) -> Result<()> {
    runtime(threads)?.block_on(until_told(echo::serve(at)))
}

/// Forwards everything from `at` to another server and back, each way `delay` later,
/// until TERM or INT.
///
/// # Errors
/// The port is taken or no runtime can be made.
pub fn delay(at: SocketAddr, to: SocketAddr, delay: Duration, threads: bool) -> Result<()> {
    runtime(threads)?.block_on(until_told(delay::serve(at, to, delay)))
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
