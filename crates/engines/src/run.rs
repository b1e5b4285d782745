//! Runs a service on a shape: listeners, scoreboard, workers, supervisor, and the shutdown.

use memory::{Board, Region};
use seam::Service;
use sys::eventfd::EventFd;
use sys::signal;

use crate::accept::{Listeners, lent};
use crate::admin::Admin;
use crate::axes::Wait;
use crate::container::{processes, threads};
use crate::datagrams;
use crate::erased::{Bound, BoundStore, Object};
use crate::extra::{Extra, ExtraWorker};
use crate::fault::Fault;
use crate::governor::Mode;
use crate::handover::Epoch;
use crate::server::{Common, Ready, Report, Server, StateStore};
use crate::shape::{Refused, SLOTS, Shape};
use crate::supervise::SIGNALS;
use crate::wait::uring::tactics::{self, Rings, Tactics};

/// Serves until the server is stopped.
///
/// `ready` is called once, when every worker can take connections.
///
/// # Errors
/// Why the server could not start. A server that became ready ends only when it is stopped; its
/// report holds later faults.
pub fn run<S: Service>(
    server: &Server<'_, S>,
    shape: &Shape,
    store: &mut dyn StateStore<S::State>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    run_with(server, shape, store, Admin::default(), ready)
}

/// [`run`], with an administration interface and the actions of a reload.
///
/// # Errors
/// As [`run`].
pub fn run_with<S: Service>(
    server: &Server<'_, S>,
    shape: &Shape,
    store: &mut dyn StateStore<S::State>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    live(server, shape, None, store, admin, ready)
}

/// [`run_with`], with an extra worker, which serves no connections.
///
/// # Errors
/// As [`run`].
pub fn run_with_extra<S: Service>(
    server: &Server<'_, S>,
    shape: &Shape,
    extra: &dyn ExtraWorker,
    store: &mut dyn StateStore<S::State>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    live(server, shape, Some(extra), store, admin, ready)
}

/// Erases the service's types, so that the rest is compiled once.
fn live<S: Service>(
    server: &Server<'_, S>,
    shape: &Shape,
    extra: Option<&dyn ExtraWorker>,
    store: &mut dyn StateStore<S::State>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    let (service, state) = (server.service, server.state);
    let bound = Bound { service, state, request_time: shape.knobs.request_time };
    let object: &dyn Object = &bound;
    live_erased(
        &server.with(&object, &()),
        shape,
        extra,
        &mut BoundStore { store, state },
        admin,
        ready,
    )
}

fn live_erased(
    server: &Server<'_, &dyn Object>,
    shape: &Shape,
    extra: Option<&dyn ExtraWorker>,
    store: &mut dyn StateStore<()>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    shape.check().map_err(Fault::Refused)?;
    let are_datagrams = server.service.datagrams().is_some();
    if are_datagrams {
        datagrams::check(shape, &server.address).map_err(Fault::Refused)?;
    }
    check_governor(server, shape)?;
    let mut shape = shape.clone();
    shape.knobs.tactics = Tactics::of(&shape);
    let shape = &shape;
    let rings = probe(shape)?;
    extra.map_or(Ok(()), ExtraWorker::check).map_err(Fault::Extra)?;
    if server.signals {
        // Workers inherit the blocked signals, so only the supervisor receives them.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let _ = sys::limits::raise_open_files(u64::MAX);
    // Only a server that owns its process may take what was passed to the process.
    let lent = match server.signals && server.handover.is_none() {
        true => lent::lent().map_err(|error| Fault::Listen(server.address.clone(), error))?,
        false => None,
    };
    let listeners = Listeners::open(&server.address, shape, server.handover, lent, are_datagrams)?;
    let mut board: Region<Board> = Region::place(shape.placement()).map_err(Fault::Wait)?;
    board.init(&[]).expect("a scoreboard needs no seed");
    let stop = EventFd::new().map_err(Fault::Wait)?;
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let orders = extra.map(|_| EventFd::new()).transpose().map_err(Fault::Wait)?;
    let epoch = Epoch::of(server.handover);
    let slot = epoch.slot() + shape.entries() * shape.stride();
    let extra = extra.zip(orders.as_ref()).map(|(worker, orders)| Extra { worker, orders, slot });
    if extra.is_some() && slot + shape.stride() > epoch.slot() + SLOTS {
        return Err(Fault::Refused(Refused(format!(
            "the extra worker needs a slot too, and {} workers take them all: say --workers {}",
            shape.workers,
            shape.workers - shape.stride()
        ))));
    }
    let (board, listeners, stop, bell) = (&*board, &listeners, &stop, &bell);
    let (parts, renew) = (1, admin.renew);
    let heal = |dead| server.service.heal(dead);
    let common = Common {
        server,
        shape,
        board,
        listeners,
        stop,
        bell,
        epoch,
        parts,
        renew,
        heal: &heal,
        extra,
    };
    common.put_in_force(&shape.knobs);
    let mut announce =
        || ready(&Ready { listening: listeners.listening.clone(), rings: rings.clone() });
    if shape.container.is_processes() {
        processes::run(&common, store, admin, &mut announce)
    } else {
        threads::run(&common, store, admin, &mut announce)
    }
}

/// Checks whether a governor can see the requests, and the service can refuse them.
fn check_governor(server: &Server<'_, &dyn Object>, shape: &Shape) -> Result<(), Fault> {
    if shape.knobs.governor != Mode::Off {
        let why = match shape.wait {
            Wait::Port => "it does not see the requests of --wait port",
            _ if server.service.refuses() => "",
            _ => "this service's protocol has no answer for a refused request",
        };
        if !why.is_empty() {
            return Err(Fault::Refused(Refused(format!("--governor is refused: {why}"))));
        }
    }
    Ok(())
}

/// Checks before any worker starts whether the machine has the features that the shape needs.
fn probe(shape: &Shape) -> Result<Option<Rings>, Fault> {
    match shape.wait {
        Wait::Blocking | Wait::Select | Wait::Poll | Wait::Epoll | Wait::Parked => Ok(None),
        Wait::Uring | Wait::Port => tactics::probe(shape).map(Some).map_err(Fault::Ring),
    }
}
