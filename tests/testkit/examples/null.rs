//! The null server as a process: `null http|echo|stock`. It prints its address, serves until TERM
//! or INT, and prints the number of requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use sys::signal::{Signal, SignalFd, block};
use testkit::{NullProtocol, NullServer};

fn main() -> io::Result<()> {
    let protocol = match std::env::args().nth(1).as_deref() {
        Some("http") => NullProtocol::Http,
        Some("echo") => NullProtocol::Echo,
        Some("stock") => NullProtocol::Stock,
        other => panic!("expected http, echo or stock, found {other:?}"),
    };
    let signals = [Signal::INT, Signal::TERM];
    block(&signals)?;
    let stop = SignalFd::new(&signals)?;
    let null = NullServer::listen(protocol, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let (requests, address) = (null.requests(), null.address().to_string());
    println!("{}", serde_json::json!({ "listening": address }));
    null.run(&stop)?;
    println!("{}", serde_json::json!({ "requests": requests.load(Ordering::Relaxed) }));
    Ok(())
}
