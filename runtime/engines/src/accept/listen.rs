//! The listening sockets of a shape, and their options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use language::info;
use sys::socket::{self, ListenOptions};

use crate::address::Address;
use crate::axes::{Accept, Wait};
use crate::fault::Fault;
use crate::limits::WAIT;
use crate::shape::Shape;

/// The number of listening sockets of a shape. A path has one, which all workers then share.
pub fn listeners_of(address: &Address, shape: &Shape) -> usize {
    let own = shape.accept == Accept::Reuseport && address.net().is_some();
    if own { shape.workers } else { 1 }
}

/// Whether the workers that accept sleep in accept(2) itself.
fn blocks(shape: &Shape) -> bool {
    match shape.accept {
        Accept::Handoff | Accept::Pass => shape.wait != Wait::Parked,
        // Where each connection has a worker, the supervisor accepts, and waits in poll(2) instead.
        _ if shape.container.is_per_connection() => false,
        _ => matches!(shape.wait, Wait::Blocking | Wait::Uring | Wait::Port),
    }
}

/// The options of `each` listeners of a shape.
pub fn options(shape: &Shape, each: usize) -> ListenOptions {
    ListenOptions {
        backlog: shape.knobs.limits.backlog,
        reuse_port: each > 1,
        nodelay: shape.knobs.limits.nodelay,
        nonblocking: !blocks(shape),
        keepalive: Some(shape.knobs.limits.keepalive).filter(|silence| !silence.is_zero()),
        unsent_max: Some(shape.knobs.limits.unsent_max).filter(|bytes| *bytes > 0),
    }
}

/// Bounds the calls of workers that block.
pub fn set_waits(listener: &OwnedFd, shape: &Shape) -> io::Result<()> {
    if shape.wait == Wait::Blocking {
        // Accepted sockets inherit both, so no call lasts longer than this.
        socket::set_receive_timeout(listener, Some(WAIT))?;
        socket::set_send_timeout(listener, Some(WAIT))?;
    } else if blocks(shape) {
        socket::set_receive_timeout(listener, Some(WAIT))?;
    }
    Ok(())
}

/// One listening socket, or one for each worker on the same port.
pub fn listen(address: &Address, shape: &Shape) -> Result<(Vec<OwnedFd>, Address), Fault> {
    let each = listeners_of(address, shape);
    let options = options(shape, each);
    let mut address = address.clone();
    let mut listeners = Vec::with_capacity(each);
    let alone = ListenOptions { reuse_port: false, ..options };
    let taken = |it: SocketAddr| it.port() != 0 && socket::listen(it, &alone).is_err();
    let is_shared = options.reuse_port && address.net().is_some_and(taken);
    for _ in 0..each {
        let fault = |error| Fault::Listen(address.clone(), error);
        let listener = match &address {
            Address::Net(address) => socket::listen(*address, &options),
            Address::Unix(path, mode) => socket::listen_unix(path, *mode, &options),
        };
        let listener = listener.map_err(fault)?;
        set_waits(&listener, shape).map_err(fault)?;
        if address.net().is_some() {
            address = socket::local_addr(&listener).map_err(fault)?.into();
        }
        listeners.push(listener);
    }
    if is_shared {
        info!(
            "another server listens on {address} too: the kernel divides new connections between \
             both, until one of them stops"
        );
    }
    Ok((listeners, address))
}
