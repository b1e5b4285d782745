//! Where the workers live. A container starts workers, learns of their end and can kill them; the
//! supervisor decides when.

pub mod processes;
pub mod threads;

use std::os::fd::AsFd;

use seam::{Effects, Service, WorkerId};

use crate::accept::{Arrival, acceptor};
use crate::axes::Wait;
use crate::desk::Desk;
use crate::fault::Fault;
use crate::house::Common;
use crate::wait::{blocking, epoll, poll, select, uring};

/// One worker's life, from its desk to the end of the drain, or to the end of its visitor.
pub(crate) fn serve<S: Service>(
    common: &Common<'_, S>,
    id: WorkerId,
    visitor: Option<Arrival>,
) -> Result<(), Fault> {
    let Common { house, shape, board, hall, stop, bell, epoch } = common;
    let index = id.slot() - epoch.seat();
    let entrance = hall.entrance(index, id, board, *epoch, shape.workers);
    // Only a worker that has all sessions to itself can carry bytes from one to another.
    let carries = shape.workers == 1 && shape.wait != Wait::Blocking;
    let desk = Desk {
        service: house.service,
        state: house.state,
        assets: house.assets,
        knobs: &shape.knobs,
        id,
        is_first: index == 0 && visitor.is_none(),
        is_visit: visitor.is_some(),
        board,
        listener: hall.listeners[index % hall.listeners.len()].as_fd(),
        entrance: &*entrance,
        stop,
        bell,
        effects: Effects::new(carries, house.verbose),
        sessions_max: sessions_max(common, index),
    };
    if let Some(visitor) = visitor {
        blocking::serve_one(&desk, visitor);
        return Ok(());
    }
    if index >= shape.workers {
        let each = if shape.wait == Wait::Blocking { 1 } else { sessions_max(common, 0) as u64 };
        return acceptor::serve(&desk, hall, epoch.seat(), each);
    }
    match shape.wait {
        Wait::Blocking => blocking::serve(&desk),
        Wait::Select => select::serve(&desk),
        Wait::Poll => poll::serve(&desk),
        Wait::Epoll => epoll::serve(&desk),
        Wait::Uring => uring::serve(&desk),
    }
}

/// How many connections the worker in post `index` may have at one time.
fn sessions_max<S: Service>(common: &Common<'_, S>, index: usize) -> usize {
    let workers = common.shape.workers.max(1);
    let all = common.sessions_max();
    // The first workers take what does not divide, so that the sum is the limit.
    let spare = usize::from(index < all % workers);
    (all / workers + spare).max(1)
}
