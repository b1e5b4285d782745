//! One process of a hybrid: a listener and its workers, threads all of them (Apache's worker MPM).
//!
//! The listener accepts only while a worker of this very process waits for somebody, so a busy
//! process never takes a connection that an idle one could serve. When the process is asked to
//! leave, its listener stops first; each worker leaves when it has nobody any more, and nobody can
//! come. A thread that ends by a fault takes the others along in the same gentle way, and the
//! supervisor starts the process anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use memory::{Board, SlotState};
use seam::{Service, WorkerId};
use sys::process;

use super::{Place, serve};
use crate::axes::{Container, Wait};
use crate::fault::Fault;
use crate::server::Common;
use crate::shape::Shape;
use crate::wait::parked::parking::ParkedConnections;

/// The process's whole life. `id` names its first worker; the others and the listener sit behind.
pub(crate) fn live<S: Service>(common: &Common<'_, S>, id: WorkerId) -> Result<(), Fault> {
    let threads = common.shape.threads();
    let processes = (common.shape.workers / threads).max(1);
    let most = (common.sessions_max() / processes).max(1);
    let shape = Shape { container: Container::Threads, workers: threads, ..common.shape.clone() };
    let parking = match shape.wait {
        Wait::Parked => Some(ParkedConnections::new(most).map_err(Fault::Wait)?),
        _ => None,
    };
    let parking = parking.as_ref();
    let listeners = common.listeners.within(&shape).map_err(Fault::Spawn)?;
    let inner =
        Common { shape: &shape, listeners: &listeners, parking, parts: processes, ..*common };
    let crew = Crew { first: id.slot(), count: threads + 1, board: common.board };
    let fault = Mutex::new(None);
    let names = (0..crew.count).map(|index| WorkerId::new(crew.first + index, id.generation()));
    thread::scope(|scope| {
        for (index, name) in names.enumerate() {
            if index > 0 {
                common.board.sit(name, process::this());
            }
            let (inner, crew, fault) = (&inner, &crew, &fault);
            let place = Place { first: crew.first, index };
            let work = move || {
                let lived = catch_unwind(AssertUnwindSafe(|| serve(inner, name, place, None)));
                crew.board.slot(name.slot()).set_state(SlotState::Gone);
                if let Some(parking) = parking.filter(|_| index == threads) {
                    parking.close();
                }
                let found = match lived {
                    Ok(Ok(())) => return,
                    Ok(Err(found)) => found,
                    Err(_) => Fault::Panicked,
                };
                crew.dismiss();
                *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            };
            let thread = thread::Builder::new().name(format!("worker {}", name.slot()));
            if let Err(error) = thread.spawn_scoped(scope, work) {
                // Those that are there leave, and nobody waits for the listener that never comes.
                (index..crew.count).for_each(|rest| {
                    common.board.slot(crew.first + rest).set_state(SlotState::Gone);
                });
                crew.dismiss();
                parking.into_iter().for_each(ParkedConnections::close);
                *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(Fault::Spawn(error));
                break;
            }
        }
    });
    match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(fault) => Err(fault),
    }
}

/// The slots of one process.
struct Crew<'a> {
    first: usize,
    count: usize,
    board: &'a Board,
}

impl Crew<'_> {
    fn dismiss(&self) {
        (self.first..self.first + self.count).for_each(|slot| self.board.slot(slot).dismiss());
    }
}
