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
use hyper::body::Bytes;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Serves the stock market at `at` until TERM or INT. `burn` is CPU time wasted on each
/// request: a planted slowdown.
///
/// # Errors
/// The book cannot be read, the port is taken, or no runtime can be made.
pub fn market(at: SocketAddr, book: &Path, threads: bool, burn: Duration) -> Result<()> {
    let market = Arc::new(market::Market::open(book, burn)?);
    run(threads, at, move |peer| market::client(peer, Arc::clone(&market)))
}

/// Serves one file as a page at `at` until TERM or INT.
///
/// # Errors
/// The file cannot be read, the port is taken, or no runtime can be made.
pub fn page(at: SocketAddr, file: &Path, threads: bool) -> Result<()> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let body = Bytes::from(body);
    run(threads, at, move |peer| page::client(peer, body.clone()))
}

/// Echoes the packets of a game server's library at `at` until TERM or INT.
///
/// # Errors
/// The port is taken or no runtime can be made.
pub fn echo(at: SocketAddr, threads: bool) -> Result<()> {
    run(threads, at, echo::client)
}

/// Forwards everything from `at` to another server and back, each way `delay` later,
/// until TERM or INT.
///
/// # Errors
/// The port is taken or no runtime can be made.
pub fn delay(at: SocketAddr, to: SocketAddr, delay: Duration, threads: bool) -> Result<()> {
    run(threads, at, move |peer| delay::client(peer, to, delay))
}

/// Makes a task of `talk` for each connection to `at`, until TERM or INT.
fn run<F>(threads: bool, at: SocketAddr, talk: impl Fn(TcpStream) -> F) -> Result<()>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut builder = match threads {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().context("cannot make a tokio runtime")?;
    let serve = async {
        let listener = TcpListener::bind(at).await;
        let listener = listener.with_context(|| format!("cannot listen on {at}"))?;
        loop {
            let Ok((peer, _)) = listener.accept().await else { continue };
            // Without it a reply may wait for the peer's delayed acknowledgement.
            let _ = peer.set_nodelay(true);
            // A peer that disconnects is not an error.
            tokio::spawn(talk(peer));
        }
    };
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate()).context("cannot hear TERM")?;
        let mut int = signal(SignalKind::interrupt()).context("cannot hear INT")?;
        tokio::select! {
            ended = serve => ended,
            _ = term.recv() => Ok(()),
            _ = int.recv() => Ok(()),
        }
    })
}
