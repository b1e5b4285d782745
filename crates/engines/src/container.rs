//! Where the workers live. A container starts workers, learns of their end and can kill them; the
//! supervisor decides when.

pub mod hybrid;
pub mod processes;
pub mod threads;

use std::cell::Cell;
use std::os::fd::AsFd;

use seam::{Effects, Service, WorkerId};

use crate::accept::{AcceptSource, Arrival, acceptor};
use crate::axes::{Container, Wait};
use crate::context::{Helping, Share, WorkerContext};
use crate::fault::Fault;
use crate::server::Common;
use crate::shape::Shape;
use crate::wait::{blocking, epoll, parked, poll, port, select, uring};

/// Where a worker sits among those who share a listeners.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The slot of the first of them.
    pub first: usize,
    /// How many sit before this one; an acceptor sits behind all workers.
    pub index: usize,
}

/// One worker's life, from its context to the end of the drain, or to the end of its visitor.
pub(crate) fn serve<S: Service>(
    common: &Common<'_, S>,
    id: WorkerId,
    place: Place,
    visitor: Option<Arrival>,
) -> Result<(), Fault> {
    if let Some(ended) = common.run_extra(id) {
        return ended;
    }
    let Place { first, index } = place;
    let accept_source =
        common.listeners.accept_source(place, id, common.board, common.shape.workers);
    let mut context = context(common, id, place, &*accept_source);
    if let Some(visitor) = visitor {
        (context.is_first, context.is_visit) = (false, true);
        blocking::serve_one(&context, visitor);
        return Ok(());
    }
    let workers = common.shape.workers;
    if let Some(parking) = common.parking {
        return match index < workers {
            true => parked::serve(&context, parking, first + workers),
            false => parked::listener::serve(&context, parking, first),
        };
    }
    if index >= workers {
        return acceptor::serve(&context, common.listeners, first);
    }
    match common.shape.wait {
        Wait::Blocking | Wait::Parked => blocking::serve(&context),
        Wait::Select => select::serve(&context),
        Wait::Poll => poll::serve(&context),
        Wait::Epoll => epoll::serve(&context),
        Wait::Uring => uring::serve(&context),
        Wait::Port => match common.completion_port {
            Some(completion_port) => port::serve(&context, completion_port, index),
            None => Err(Fault::Wait(std::io::Error::other("a port belongs to threads"))),
        },
    }
}

/// The context of the worker at `place`.
fn context<'a, S: Service>(
    common: &Common<'a, S>,
    id: WorkerId,
    place: Place,
    accept_source: &'a dyn AcceptSource,
) -> WorkerContext<'a, S> {
    let Common { server, shape, board, listeners, stop, bell, epoch, parking, extra, .. } = *common;
    let Place { first, index } = place;
    WorkerContext {
        service: server.service,
        state: server.state,
        assets: server.assets,
        knobs: &shape.knobs,
        id,
        // The first worker of all moves the world, or the thread that waits for it.
        is_first: first == epoch.slot() && index == parking.map_or(0, |_| shape.workers),
        is_visit: false,
        board,
        listener: listeners.sockets[index % listeners.sockets.len()].as_fd(),
        accept_source,
        stop,
        bell,
        orders: extra.map(|extra| extra.orders),
        effects: Effects::new(shape.carries(), server.verbose),
        share: share(common, index),
        lifetime: lifetime(shape, id, index),
        helping: Helping {
            most: shape.helpers(),
            is_beforehand: shape.container == Container::Helped,
        },
        edition: Cell::new(board.edition()),
        renew: common.renew,
    }
}

/// After how many connections its process is replaced, for the one that counts them: a worker for
/// itself, in a hybrid the listener for all.
fn lifetime(shape: &Shape, id: WorkerId, index: usize) -> u64 {
    let Some(most) = shape.knobs.staff.lifetime else { return u64::MAX };
    if (index >= shape.workers) != (shape.container == Container::Threads) {
        return u64::MAX;
    }
    // Any number that differs between processes does; this is Knuth's multiplicative hash.
    let jitter = id.bits().wrapping_mul(2_654_435_761) % (most / 10 + 1);
    u64::from(most - jitter)
}

/// Which connections the worker in entry `index` may have.
fn share<S: Service>(common: &Common<'_, S>, index: usize) -> Share {
    let parts = common.parts;
    if common.parking.is_some() || common.completion_port.is_some() {
        // The listener, or the port, has all sessions of its process, for as many as there is room.
        return Share { parts, workers: 1, index: 0, most: common.sessions_max() };
    }
    // An acceptor has none of its own; what it asks for is the first worker's.
    let workers = common.shape.workers.max(1);
    let most = if common.shape.wait == Wait::Blocking { 1 } else { usize::MAX };
    Share { parts, workers, index: if index < workers { index } else { 0 }, most }
}
