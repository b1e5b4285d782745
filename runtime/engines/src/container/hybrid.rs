//! One process of a hybrid: a listener and its workers, all of them threads (Apache's worker MPM).
//!
//! The listener accepts only while a worker of the same process is idle, so a busy process never
//! takes a connection that an idle one could serve. When the process is told to leave, its listener
//! stops first, so no new connection arrives; each worker leaves when it has no connection left. If
//! a thread ends by a fault, the others leave in the same way, and the supervisor starts a new
//! process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use memory::{Board, SlotState};
use seam::WorkerId;
use sys::{process, thread};

use super::serve;
use super::threads::STACK;
use crate::axes::Container;
use crate::common::Common;
use crate::fault::Fault;
use crate::member::Member;
use crate::parts::lock::lock;
use crate::shape::Shape;
use crate::wait;

/// The process's whole life. `id` names its first worker; the slots of the others and of the
/// listener follow.
pub(crate) fn live(common: &Common<'_>, id: WorkerId) -> Result<(), Fault> {
    let threads = common.shape.threads();
    let processes = (common.shape.workers / threads).max(1);
    let shape = Shape { container: Container::Threads, workers: threads, ..common.shape.clone() };
    let listeners = common.listeners.within(&shape).map_err(Fault::Spawn)?;
    let inner = Common { shape: &shape, listeners: &listeners, parts: processes, ..*common };
    let mechanism = wait::of_server(&inner)?;
    let mechanism = &*mechanism;
    let slots = ProcessSlots { first: id.slot(), count: threads + 1, board: common.board };
    let fault = Mutex::new(None);
    let names = (0..slots.count).map(|index| WorkerId::new(slots.first + index, id.generation()));
    thread::scope(|scope| {
        for (index, name) in names.enumerate() {
            if index > 0 {
                common.board.sit(name, process::this());
            }
            let (inner, slots, fault) = (&inner, &slots, &fault);
            let member = Member { first: slots.first, index, workers: threads };
            let work = move || {
                thread::set_name(&format!("worker {}", name.slot()));
                let lived =
                    catch_unwind(AssertUnwindSafe(|| serve(inner, mechanism, name, member)));
                slots.board.slot(name.slot()).set_state(SlotState::Gone);
                if index == threads {
                    mechanism.listener_ended();
                }
                let found = match lived {
                    Ok(Ok(())) => return,
                    Ok(Err(found)) => found,
                    Err(_) => Fault::Panicked,
                };
                slots.dismiss();
                *lock(fault) = Some(found);
            };
            if let Err(error) = scope.start(STACK, work) {
                // The threads that exist leave; otherwise they would wait for a listener that is
                // never started.
                (index..slots.count).for_each(|rest| {
                    common.board.slot(slots.first + rest).set_state(SlotState::Gone);
                });
                slots.dismiss();
                mechanism.listener_ended();
                *lock(fault) = Some(Fault::Spawn(error));
                break;
            }
        }
    });
    match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(fault) => Err(fault),
    }
}

struct ProcessSlots<'a> {
    first: usize,
    count: usize,
    board: &'a Board,
}

impl ProcessSlots<'_> {
    fn dismiss(&self) {
        (self.first..self.first + self.count).for_each(|slot| self.board.slot(slot).dismiss());
    }
}
