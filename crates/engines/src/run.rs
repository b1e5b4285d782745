//! Runs a service on a shape: listeners, scoreboard, workers, supervisor, and the way out.

use memory::{Board, Region};
use seam::{Caster, Service};
use sys::eventfd::EventFd;
use sys::signal;

use crate::accept::Hall;
use crate::admin::Annex;
use crate::axes::Wait;
use crate::casts::{Casting, Troupe};
use crate::container::{processes, threads};
use crate::fault::Fault;
use crate::handover::Epoch;
use crate::house::{Cast, Common, House, Keeper, Ready, Report};
use crate::shape::{Refused, SEATS, Shape};
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
    run_with(house, shape, keeper, Annex::default(), ready)
}

/// The same with what stands beside the house: its administration, and how it is reloaded.
///
/// # Errors
/// As [`run`].
pub fn run_with<S: Service>(
    house: &House<'_, S>,
    shape: &Shape,
    keeper: &mut dyn Keeper<S::State>,
    annex: Annex<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    live(house, shape, None, keeper, annex, ready)
}

/// The same with a worker more, in which a caster sends by the clock what the sessions order: a
/// thread beside threads, a process beside processes.
///
/// # Errors
/// As [`run`].
pub fn run_with_caster<S: Service, C: Caster<State = S::State>>(
    house: &House<'_, S>,
    shape: &Shape,
    casting: &Casting<'_, C>,
    keeper: &mut dyn Keeper<S::State>,
    annex: Annex<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    live(house, shape, Some(casting), keeper, annex, ready)
}

fn live<S: Service>(
    house: &House<'_, S>,
    shape: &Shape,
    troupe: Option<&dyn Troupe<S::State>>,
    keeper: &mut dyn Keeper<S::State>,
    annex: Annex<'_>,
    ready: &mut dyn FnMut(&Ready),
) -> Result<Report, Fault> {
    shape.check().map_err(Fault::Refused)?;
    let mut shape = shape.clone();
    shape.knobs.tactics = Tactics::of(&shape);
    let shape = &shape;
    let rings = probe(shape)?;
    troupe.map_or(Ok(()), Troupe::check).map_err(Fault::Rank)?;
    if house.signals {
        // Workers inherit the blocked signals, so that only the supervisor hears them.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let _ = sys::limits::raise_open_files(u64::MAX);
    let hall = Hall::open(house.address, shape, house.handover)?;
    let mut board: Region<Board> = Region::place(shape.placement()).map_err(Fault::Wait)?;
    board.found(&[]).expect("a scoreboard needs no seed");
    let stop = EventFd::new().map_err(Fault::Wait)?;
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let orders = troupe.map(|_| EventFd::new()).transpose().map_err(Fault::Wait)?;
    let epoch = Epoch::of(house.handover);
    let seat = epoch.seat() + shape.posts() * shape.stride();
    let cast = troupe.zip(orders.as_ref()).map(|(troupe, orders)| Cast { troupe, orders, seat });
    if cast.is_some() && seat + shape.stride() > epoch.seat() + SEATS {
        return Err(Fault::Refused(Refused(format!(
            "a caster needs a seat too, and {} workers take them all: say --workers {}",
            shape.workers,
            shape.workers - shape.stride()
        ))));
    }
    let (board, hall, stop, bell) = (&*board, &hall, &stop, &bell);
    let (lobby, quay, parts, renew) = (None, None, 1, annex.renew);
    let common =
        Common { house, shape, board, hall, stop, bell, epoch, lobby, quay, parts, renew, cast };
    common.put_in_force(&shape.knobs);
    let mut announce = || ready(&Ready { listening: hall.listening, rings: rings.clone() });
    if shape.container.is_processes() {
        processes::run(&common, keeper, annex, &mut announce)
    } else {
        threads::run(&common, keeper, annex, &mut announce)
    }
}

/// Finds out before any worker starts whether the machine has what the shape needs.
fn probe(shape: &Shape) -> Result<Option<Rings>, Fault> {
    match shape.wait {
        Wait::Blocking | Wait::Select | Wait::Poll | Wait::Epoll | Wait::Parked => Ok(None),
        Wait::Uring | Wait::Port => tactics::probe(shape).map(Some).map_err(Fault::Ring),
    }
}
