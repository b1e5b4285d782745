//! The null server as a process, for the generator's own tests and `cargo xtask bench load`.

use ::load::null::NullServer;
use ::load::parse::Scheme;
use anyhow::{Context, Result};
use language::println;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use sys::signal::{Signal, SignalFd, block};

/// Serves until TERM or INT; prints its address, and at the end the number of requests.
pub fn run(scheme: Scheme, port: u16) -> Result<()> {
    let signals = [Signal::INT, Signal::TERM];
    block(&signals).context("cannot block signals")?;
    let stop = SignalFd::new(&signals).context("cannot read signals")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let null =
        NullServer::listen(scheme, address).with_context(|| format!("listen on {address}"))?;
    let (requests, address) = (null.requests(), null.address().to_string());
    println!("{}", serde_json::json!({ "listening": address }));
    std::io::stdout().flush()?;
    null.run(&stop).context("the null server's epoll")?;
    let served = requests.load(Ordering::Relaxed);
    println!("{}", serde_json::json!({ "requests": served }));
    Ok(())
}
