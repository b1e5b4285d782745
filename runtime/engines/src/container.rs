//! The containers: processes and threads of workers. A container starts workers, notices their end
//! and can kill them; the supervisor decides when.

pub mod hybrid;
pub mod processes;
pub mod threads;

use std::cell::Cell;

use seam::{Effects, WorkerId};
use sys::signal;

use crate::accept::acceptor;
use crate::accept::source::{AcceptSource, Arrival};
use crate::axes::{Container, Wait};
use crate::common::Common;
use crate::context::carrier::{Carrier, Governed};
use crate::context::{Helping, Quota, WorkerContext};
use crate::fault::Fault;
use crate::governor::Mode;
use crate::member::Member;
use crate::shape::Shape;
use crate::supervise::SIGNALS;
use crate::wait::blocking;
use crate::wait::blocking::kept::Kept;
use crate::wait::mechanism::Mechanism;

/// One worker's life, from its context to the end of the drain.
pub(crate) fn serve(
    common: &Common<'_>,
    mechanism: &dyn Mechanism,
    id: WorkerId,
    member: Member,
) -> Result<(), Fault> {
    if let Some(ended) = common.run_extra(id) {
        return ended;
    }
    if common.host.signals {
        // A worker inherits this, unless the C library failed to keep the mask of a new thread.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let accept_source = common.listeners.accept_source(member, id, common.board);
    let mut context = context(common, id, member, &*accept_source);
    let waits = if mechanism.has_listener() { member.workers } else { 0 };
    // The first worker of all, or the listener before it, calls the service's tick.
    context.is_first = member.first == common.epoch.slot() && member.index == waits;
    if mechanism.pools_sessions() {
        let (parts, most) = (common.parts, common.sessions_max());
        context.quota = Quota { parts, workers: 1, index: 0, most };
    }
    if member.feeds_workers() && !mechanism.has_listener() {
        return acceptor::serve(&context, common.listeners, member.first);
    }
    mechanism.serve(&context, member)
}

/// The life of a worker of one connection, which the supervisor has accepted.
pub(crate) fn serve_visitor(
    common: &Common<'_>,
    id: WorkerId,
    member: Member,
    kept: &mut Kept,
    visitor: Arrival,
) -> Result<(), Fault> {
    // On the stack: a child that allocates nothing touches no page of the heap.
    let accept_source = common.listeners.first();
    let mut context = context(common, id, member, &accept_source);
    context.is_visit = true;
    blocking::serve_one(&context, kept, visitor);
    Ok(())
}

fn context<'a>(
    common: &Common<'a>,
    id: WorkerId,
    member: Member,
    accept_source: &'a dyn AcceptSource,
) -> WorkerContext<'a> {
    let Common { service, host, shape, board, listeners, stop, bell, extra, .. } = *common;
    WorkerContext {
        service,
        assets: host.assets,
        knobs: &shape.knobs,
        id,
        is_first: false,
        is_visit: false,
        board,
        listener: listeners.of_worker(member.index),
        accept_source,
        polls: common.rings_poll(),
        stop,
        bell,
        orders: extra.map(|extra| extra.orders),
        effects: Effects::new(shape.carries(), host.verbose)
            .within(shape.knobs.limits.request_time),
        quota: quota(common, member.index),
        lifetime: lifetime(shape, id, member.index),
        helping: Helping {
            most: shape.helpers(),
            is_beforehand: shape.container == Container::Helped,
        },
        edition: Cell::new(board.edition()),
        grown: Cell::new(0),
        governed: Governed::new(carrier(shape)),
        renew: common.renew,
    }
}

/// The carrier of the requests of a shape, where a governor watches them.
fn carrier(shape: &Shape) -> Carrier {
    match shape.wait {
        _ if shape.knobs.overload.governor == Mode::Off => Carrier::Unwatched,
        Wait::Blocking => Carrier::Thread,
        Wait::Parked | Wait::Leader | Wait::Staged => Carrier::Pool,
        _ => Carrier::Loop,
    }
}

/// The number of connections after which its process is replaced. A worker counts for itself; in a
/// hybrid the listener counts for all.
fn lifetime(shape: &Shape, id: WorkerId, index: usize) -> u64 {
    let Some(most) = shape.knobs.staff.lifetime else { return u64::MAX };
    if (index >= shape.workers) != (shape.container == Container::Threads) {
        return u64::MAX;
    }
    // Any number that differs between processes works; this is Knuth's multiplicative hash.
    let jitter = id.bits().wrapping_mul(2_654_435_761) % (most / 10 + 1);
    u64::from(most - jitter)
}

/// The share of the connections that the worker `index` may have.
fn quota(common: &Common<'_>, index: usize) -> Quota {
    // An acceptor has no share of its own; it uses the first worker's.
    let workers = common.shape.workers.max(1);
    let most = if common.shape.wait == Wait::Blocking { 1 } else { usize::MAX };
    let index = if index < workers { index } else { 0 };
    Quota { parts: common.parts, workers, index, most }
}
