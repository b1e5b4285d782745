//! The listening sockets of a shape, and their options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use language::info;
use sys::socket::{self, ListenOptions, SockRef};

use crate::address::Address;
use crate::axes::{Accept, Refused, Wait};
use crate::fault::Fault;
use crate::limits::WAIT;
use crate::shape::Shape;

/// The number of listening sockets of a shape. A path has one, which all workers then share.
pub fn listeners_of(address: &Address, shape: &Shape) -> usize {
    let own =
        shape.accept == Accept::Reuseport && shape.wait != Wait::Bypass && address.net().is_some();
    if own { shape.workers } else { 1 }
}

/// The listening sockets of an address.
pub type SocketsOf = (Vec<OwnedFd>, Address);

/// Whether the workers that accept sleep in a call until a connection comes.
pub fn sleeps(shape: &Shape) -> bool {
    match shape.accept {
        Accept::Handoff | Accept::Pass => shape.wait != Wait::Parked,
        // Where each connection has a worker, the supervisor accepts, and waits in poll(2) instead.
        _ if shape.container.is_per_connection() => false,
        _ => shape.wait == Wait::Blocking,
    }
}

/// Whether workers, or rings for them, sleep in accept(2) itself, which names one listener.
fn blocks(shape: &Shape) -> bool {
    sleeps(shape) || matches!(shape.wait, Wait::Uring | Wait::Port)
}

/// Refuses more than one address where the way of accepting is a property of one listener.
pub fn check_several(count: usize, shape: &Shape) -> Result<(), Fault> {
    if count > 1 && shape.accept == Accept::Exclusive {
        return Err(Fault::Refused(Refused(format!(
            "--accept exclusive is refused with {count} listeners: the kernel wakes one loop for a \
             socket, not for a set of them (EPOLLEXCLUSIVE); say --accept shared or --accept \
             reuseport"
        ))));
    }
    Ok(())
}

/// The options of a listener of a shape; `is_one` of several that the workers watch as a set.
pub fn options(shape: &Shape, is_one: bool) -> ListenOptions {
    ListenOptions {
        backlog: shape.knobs.limits.backlog,
        reuse_port: false,
        v6_only: false,
        nodelay: shape.knobs.limits.nodelay,
        nonblocking: is_one || !blocks(shape),
        keepalive: Some(shape.knobs.limits.keepalive).filter(|silence| !silence.is_zero()),
        unsent_max: Some(shape.knobs.limits.unsent_max).filter(|bytes| *bytes > 0),
    }
}

/// Bounds the calls of workers that block.
pub fn set_waits(listener: &OwnedFd, shape: &Shape) -> io::Result<()> {
    let listener = SockRef::from(listener);
    if shape.wait == Wait::Blocking {
        // Accepted sockets inherit both, so no call lasts longer than this.
        listener.set_read_timeout(Some(WAIT))?;
        listener.set_write_timeout(Some(WAIT))?;
    } else if blocks(shape) {
        listener.set_read_timeout(Some(WAIT))?;
    }
    Ok(())
}

/// For each address one listening socket, or one for each worker on the same port.
pub fn listen(addresses: &[Address], shape: &Shape) -> Result<Vec<SocketsOf>, Fault> {
    let is_one = addresses.len() > 1;
    // An address of IPv6 takes the clients of IPv4 too, unless another one does.
    let is_net4 = |port: u16| {
        let mut all = addresses.iter().filter_map(Address::net);
        all.any(|it| it.is_ipv4() && it.port() == port)
    };
    let group = |address: &Address| {
        let v6_only = address.net().is_some_and(|it| it.is_ipv6() && is_net4(it.port()));
        let options = ListenOptions { v6_only, ..options(shape, is_one) };
        listen_on(address, shape, &options)
    };
    addresses.iter().map(group).collect()
}

fn listen_on(
    address: &Address,
    shape: &Shape,
    options: &ListenOptions,
) -> Result<SocketsOf, Fault> {
    let each = listeners_of(address, shape);
    let mut address = address.clone();
    let mut listeners = Vec::with_capacity(each);
    let taken = |it: SocketAddr| it.port() != 0 && socket::listen(it, options).is_err();
    let is_shared = each > 1 && address.net().is_some_and(taken);
    let options = ListenOptions { reuse_port: each > 1, ..*options };
    for _ in 0..each {
        let fault = |error| Fault::Listen(address.clone(), error);
        let listener = match &address {
            // The frames of its connections do not reach the kernel's TCP.
            Address::Net(SocketAddr::V4(address)) if shape.wait == Wait::Bypass => {
                socket::reserve(*address)
            }
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
