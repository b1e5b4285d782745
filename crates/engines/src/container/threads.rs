//! Workers that are threads of this process: one, many, or one for each connection.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use seam::{Service, Share, WorkerId};
use sys::process;

use super::{Member, serve, serve_visitor};
use crate::accept::Arrival;
use crate::admin::Admin;
use crate::fault::Fault;
use crate::server::{Common, Report, StateStore};
use crate::supervise::{Crew, End, Ended, supervise};
use crate::wait::{Mechanism, mechanism};

/// Runs the workers as threads of the supervisor's process.
pub(crate) fn run<S: Service>(
    common: &Common<'_, S>,
    store: &mut dyn StateStore<S::State>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(),
) -> Result<Report, Fault> {
    let mechanism = mechanism(common)?;
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let mut crew = Threads { common, mechanism: &*mechanism, scope, ended: &ended };
        supervise(common, &mut crew, store, admin, ready)
    })
}

struct Threads<'scope, 'env, S: Service> {
    common: &'env Common<'env, S>,
    mechanism: &'env dyn Mechanism<S>,
    scope: &'scope Scope<'scope, 'env>,
    ended: &'env Mutex<Vec<Ended>>,
}

impl<S: Service> Crew for Threads<'_, '_, S> {
    fn start(&mut self, id: WorkerId, visitor: Option<Arrival>) -> std::io::Result<()> {
        let (common, mechanism, ended) = (self.common, self.mechanism, self.ended);
        let member = Member::of_all(common, id);
        common.board.sit(id, process::this());
        let work = move || {
            let live = || match visitor {
                Some(visitor) => serve_visitor(common, id, member, visitor),
                None => serve(common, mechanism, id, member),
            };
            let end = match catch_unwind(AssertUnwindSafe(live)) {
                Ok(Ok(())) => End::Left,
                Ok(Err(fault)) => End::Failed(fault.to_string()),
                Err(panic) => End::Panicked(message(&*panic).to_owned()),
            };
            ended.lock().unwrap_or_else(PoisonError::into_inner).push(Ended { id, end });
            common.bell.ring();
        };
        let name = format!("worker {}", id.slot());
        let started = thread::Builder::new().name(name).spawn_scoped(self.scope, work);
        if started.is_err() {
            common.board.heal(id);
        }
        started.map(drop)
    }

    fn has_room(&self) -> bool {
        // A thread costs no descriptor, and accept(2) itself reports a shortage.
        true
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        // The end of a thread rings the bell.
        Vec::new()
    }

    fn reap(&mut self) -> Vec<Ended> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn kill(&mut self) -> bool {
        // A thread cannot be killed; the process can end.
        false
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
