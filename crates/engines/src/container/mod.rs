//! Where the workers live. A container starts workers, learns of their end and can kill them; the
//! supervisor decides when.

pub mod processes;
pub mod threads;

use std::os::fd::AsFd;

use seam::{Effects, Service, WorkerId};

use crate::desk::Desk;
use crate::fault::Fault;
use crate::house::Common;
use crate::shape::Wait;
use crate::wait::{blocking, epoll, uring};

/// One worker's life, from its desk to the end of the drain.
pub(crate) fn serve<S: Service>(common: &Common<'_, S>, id: WorkerId) -> Result<(), Fault> {
    let Common { house, shape, board, listeners, stop, bell, epoch } = common;
    let index = id.slot() - epoch.seat();
    let sessions_max = shape.knobs.sessions_max.unwrap_or(house.service.limits().sessions_max);
    // The first workers take what does not divide, so that the sum is the limit.
    let spare = usize::from(index < sessions_max % shape.workers);
    // Only a worker that has all sessions to itself can carry bytes from one to another.
    let carries = shape.workers == 1 && shape.wait != Wait::Blocking;
    let desk = Desk {
        service: house.service,
        state: house.state,
        assets: house.assets,
        knobs: &shape.knobs,
        id,
        is_first: index == 0,
        board,
        listener: listeners[index % listeners.len()].as_fd(),
        stop,
        bell,
        effects: Effects::new(carries, house.verbose),
        sessions_max: (sessions_max / shape.workers + spare).max(1),
    };
    match shape.wait {
        Wait::Blocking => blocking::serve(&desk),
        Wait::Epoll => epoll::serve(&desk),
        Wait::Uring => uring::serve(&desk),
    }
}
