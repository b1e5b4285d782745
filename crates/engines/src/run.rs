//! Runs a service on a shape: listeners, scoreboard, workers, supervisor, and the way out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use memory::{Board, Region};
use seam::Service;
use sys::eventfd::EventFd;
use sys::signal;
use sys::socket::{self, ListenOptions};

use crate::container::{processes, threads};
use crate::fault::Fault;
use crate::handover::{Epoch, Handover};
use crate::house::{Common, House, Keeper, Ready, Report};
use crate::shape::{Accept, Container, Shape, Wait};
use crate::supervise::SIGNALS;
use crate::wait::uring::tactics::{self, Rings, Tactics};

/// Serves until the house is stopped.
///
/// `ready` is called once, when every worker can take connections.
///
/// # Errors
/// Why it could not begin. Once it is ready it ends only by being stopped; what went wrong on the
/// way is in the report.
pub fn run<S: Service>(
    house: &House<'_, S>,
    shape: &Shape,
    keeper: &mut dyn Keeper<S::State>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    shape.check().map_err(Fault::Refused)?;
    let mut shape = shape.clone();
    shape.knobs.tactics = Tactics::of(&shape);
    let shape = &shape;
    let rings = probe(shape)?;
    if house.signals {
        // Workers inherit the blocked signals, so that only the supervisor hears them.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let _ = sys::limits::raise_open_files(u64::MAX);
    let (listeners, listening) = match house.handover {
        Some(handover) => inherit(handover, shape).map_err(Fault::Handover)?,
        None => listen(house.address, shape)?,
    };
    let mut board: Region<Board> = Region::place(shape.placement()).map_err(Fault::Wait)?;
    board.found(&[]).expect("a scoreboard needs no seed");
    let stop = EventFd::new().map_err(Fault::Wait)?;
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let epoch = Epoch::of(house.handover);
    let (board, listeners, stop, bell) = (&*board, &*listeners, &stop, &bell);
    let common = Common { house, shape, board, listeners, stop, bell, epoch };
    let mut announce = || ready(&Ready { listening, rings: rings.clone() });
    match shape.container {
        Container::Solo | Container::Threads => threads::run(&common, keeper, &mut announce),
        Container::Processes => processes::run(&common, keeper, &mut announce),
    }
}

/// Finds out before any worker starts whether the machine has what the shape needs.
fn probe(shape: &Shape) -> Result<Option<Rings>, Fault> {
    match shape.wait {
        Wait::Blocking | Wait::Epoll => Ok(None),
        Wait::Uring => tactics::probe(shape).map(Some).map_err(Fault::Ring),
    }
}

/// The listeners of the predecessor.
fn inherit(handover: &Handover, shape: &Shape) -> io::Result<(Vec<OwnedFd>, SocketAddr)> {
    let listeners = handover.listeners()?;
    let each = listeners_of(shape);
    if listeners.len() != each {
        // A queue that nobody accepts from would strand its connections.
        return Err(io::Error::other(format!(
            "expected {each} listeners for this shape, found {}: keep --workers and --accept",
            listeners.len()
        )));
    }
    let address = socket::local_addr(&listeners[0])?;
    Ok((listeners, address))
}

/// How many listening sockets a shape has.
fn listeners_of(shape: &Shape) -> usize {
    match shape.accept {
        Accept::Shared => 1,
        Accept::Reuseport => shape.workers,
    }
}

/// One listening socket, or one for each worker on the same port. They stay open in the supervisor,
/// so that a worker's death loses no connection that waits.
fn listen(address: SocketAddr, shape: &Shape) -> Result<(Vec<OwnedFd>, SocketAddr), Fault> {
    let each = listeners_of(shape);
    let options = ListenOptions {
        backlog: shape.knobs.backlog,
        reuse_port: each > 1,
        nodelay: true,
        nonblocking: shape.wait == Wait::Epoll,
    };
    let mut address = address;
    let mut listeners = Vec::with_capacity(each);
    if options.reuse_port && address.port() != 0 {
        // A second server of the same user would get the port too, and every other connection.
        let alone = ListenOptions { reuse_port: false, ..options };
        socket::listen(address, &alone).map_err(|error| Fault::Listen(address, error))?;
    }
    for _ in 0..each {
        let fault = |error| Fault::Listen(address, error);
        let listener = socket::listen(address, &options).map_err(fault)?;
        address = socket::local_addr(&listener).map_err(fault)?;
        listeners.push(listener);
    }
    Ok((listeners, address))
}
