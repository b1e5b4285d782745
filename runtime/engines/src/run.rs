//! Runs a service on a shape: listeners, scoreboard, workers, supervisor, and the shutdown.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use memory::{Board, Region};
use seam::Service;
use sys::eventfd::EventFd;
use sys::signal;
use sys::uring::{Port, Uring};

use crate::accept::{Listeners, lent};
use crate::admin::Admin;
use crate::axes::Refused;
use crate::axes::Wait;
use crate::common::Common;
use crate::container::processes::Processes;
use crate::container::threads::Threads;
use crate::erased::{Bound, BoundStore, ErasedService};
use crate::extra::{Extra, ExtraWorker};
use crate::fault::Fault;
use crate::governor::Mode;
use crate::handover::Epoch;
use crate::server::{Host, Report, Server, Started, StateStore};
use crate::shape::{SLOTS, Shape};
use crate::supervise::{SIGNALS, supervise};
use crate::wait;
#[cfg(feature = "bypass")]
use crate::wait::bypass::{Queues, check_bypass};

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
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Started),
) -> Result<Report, Fault> {
    let Server { service, state, ref host } = *server;
    let bound = Bound { service, state };
    start(&bound, host, shape, &mut BoundStore { store, state }, admin, ready)
}

/// [`run`] without the service's types, so that it is compiled once.
fn start(
    service: &dyn ErasedService,
    host: &Host<'_>,
    shape: &Shape,
    store: &mut dyn StateStore<()>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(&Started),
) -> Result<Report, Fault> {
    crate::stderr::never_wait();
    check(service, host, shape)?;
    probe(shape)?;
    if host.signals {
        // Workers inherit the blocked signals, so only the supervisor receives them.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let _ = sys::limits::raise_open_files(u64::MAX);
    let lent = lent_to(host)?;
    #[cfg(feature = "bypass")]
    check_bypass(shape, host, &lent).map_err(Fault::Refused)?;
    let listeners = Listeners::open(&host.addresses, shape, host.handover, lent)?;
    // This takes rights that the next step gives up.
    #[cfg(feature = "bypass")]
    let queues = Queues::of(shape, &listeners.addresses)?;
    host.settle.map_or(Ok(()), |settle| settle()).map_err(Fault::Rights)?;
    let mut board: Region<Board> = Region::place(shape.placement()).map_err(Fault::Wait)?;
    board.init(&[]).expect("a scoreboard needs no seed");
    let stop = EventFd::new().map_err(Fault::Wait)?;
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let orders = host.extra.map(|_| EventFd::new()).transpose().map_err(Fault::Wait)?;
    let epoch = Epoch::of(host.handover);
    let extra = place_extra(host, shape, epoch, orders.as_ref())?;
    let common = Common {
        service,
        host,
        shape,
        board: &board,
        listeners: &listeners,
        stop: &stop,
        bell: &bell,
        epoch,
        parts: 1,
        renew: admin.renew,
        extra,
        #[cfg(feature = "bypass")]
        queues: queues.as_ref(),
    };
    common.put_in_force(&shape.knobs);
    let (listening, also) = (listeners.addresses[0].clone(), listeners.addresses[1..].to_vec());
    let started = Started { listening, also };
    let mut announce = || ready(&started);
    if shape.container.is_processes() {
        let mut crew = Processes::new(&common).map_err(Fault::Wait)?;
        return supervise(&common, &mut crew, store, admin, &mut announce);
    }
    let (mechanism, over) = (wait::of_server(&common)?, Mutex::default());
    sys::thread::scope(|scope| {
        let mut crew = Threads::new(&common, &*mechanism, scope, &over);
        supervise(&common, &mut crew, store, admin, &mut announce)
    })
}

/// The sockets of a service manager. Only a server that owns its process may take what was passed
/// to the process.
fn lent_to(host: &Host<'_>) -> Result<Vec<OwnedFd>, Fault> {
    match host.signals && host.handover.is_none() {
        true => lent::lent().map_err(|error| Fault::Listen(host.addresses[0].clone(), error)),
        false => Ok(Vec::new()),
    }
}

fn check(service: &dyn ErasedService, host: &Host<'_>, shape: &Shape) -> Result<(), Fault> {
    shape.check().map_err(Fault::Refused)?;
    check_governor(service, shape)?;
    host.extra.map_or(Ok(()), ExtraWorker::check).map_err(Fault::Extra)
}

/// Gives the extra worker a slot after those of the workers.
fn place_extra<'a>(
    host: &Host<'a>,
    shape: &Shape,
    epoch: Epoch,
    orders: Option<&'a EventFd>,
) -> Result<Option<Extra<'a>>, Fault> {
    let Some((worker, orders)) = host.extra.zip(orders) else { return Ok(None) };
    let slot = epoch.slot() + shape.entries() * shape.stride();
    if slot + shape.stride() > epoch.slot() + SLOTS {
        return Err(Fault::Refused(Refused(format!(
            "the extra worker needs a slot too, and {} workers take them all: say --workers {}",
            shape.workers,
            shape.workers - shape.stride()
        ))));
    }
    Ok(Some(Extra { worker, orders, slot }))
}

/// Checks whether a governor can see the requests, and the service can refuse them.
fn check_governor(service: &dyn ErasedService, shape: &Shape) -> Result<(), Fault> {
    if shape.knobs.overload.governor != Mode::Off {
        let why = match shape.wait {
            Wait::Port => "it does not see the requests of --wait port",
            Wait::Bypass => "it does not see how long input waits with --wait bypass",
            _ if service.refuses() => "",
            _ => "this service's protocol has no answer for a refused request",
        };
        if !why.is_empty() {
            return Err(Fault::Refused(Refused(format!("--governor is refused: {why}"))));
        }
    }
    Ok(())
}

/// Checks before any worker starts whether the machine has the rings that the shape needs.
fn probe(shape: &Shape) -> Result<(), Fault> {
    let ring = &shape.knobs.ring;
    let made = match shape.wait {
        Wait::Uring => Uring::new(ring).map(drop),
        Wait::Port => Port::new(ring).map(drop),
        _ => Ok(()),
    };
    made.map_err(Fault::Ring)
}
