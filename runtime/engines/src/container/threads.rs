//! Workers that are threads of this process: one, many, or one for each connection.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use seam::WorkerId;
use sys::process::{self, Pid};
use sys::thread::{self, Scope};

use super::{serve, serve_visitor};
use crate::accept::source::Arrival;
use crate::common::Common;
use crate::limits::ACCEPTS;
use crate::parts::lock::lock;
use crate::status::Gauge;
use crate::supervise::crew::{Crew, End, Ended};
use crate::wait::blocking::kept::Kept;
use crate::wait::mechanism::Mechanism;

/// The stack of a worker that stays, as std gives it.
pub(super) const STACK: usize = 2 << 20;
/// The stack of a worker for one connection: small, so that the C library keeps the stacks of 80
/// ended workers for the next ones instead of mapping new ones.
const VISIT_STACK: usize = 512 << 10;

pub(crate) struct Threads<'scope, 'env> {
    common: &'env Common<'env>,
    mechanism: &'env dyn Mechanism,
    scope: &'scope Scope<'scope, 'env>,
    pid: Pid,
    over: &'env Mutex<Over>,
}

/// The ends and the buffers of threads that have ended.
#[derive(Default)]
pub(crate) struct Over {
    ended: Vec<Ended>,
    /// Buffers for the next threads with one connection, at most [`SPARE_MAX`]: memory of a new
    /// thread's own would come from another heap, and be faulted in again.
    spare: Vec<Kept>,
}

/// As many as one turn of the supervisor starts threads.
const SPARE_MAX: usize = ACCEPTS;

impl<'scope, 'env> Threads<'scope, 'env> {
    /// None yet; they start in `scope` and leave what is over in `over`.
    pub fn new(
        common: &'env Common<'env>,
        mechanism: &'env dyn Mechanism,
        scope: &'scope Scope<'scope, 'env>,
        over: &'env Mutex<Over>,
    ) -> Threads<'scope, 'env> {
        Threads { common, mechanism, scope, pid: process::this(), over }
    }
}

impl Crew for Threads<'_, '_> {
    fn start(&mut self, id: WorkerId, visitor: Option<Arrival>) -> std::io::Result<()> {
        let (common, mechanism, over) = (self.common, self.mechanism, self.over);
        let member = common.member(id);
        common.board.sit(id, self.pid);
        let stack = if visitor.is_some() { VISIT_STACK } else { STACK };
        let visit = visitor.map(|visitor| (visitor, lock(over).spare.pop()));
        let work = move || {
            let mut kept = None;
            let live = || match visit {
                Some((visitor, spare)) => {
                    let kept = kept.insert(spare.unwrap_or_else(Kept::new));
                    serve_visitor(common, id, member, kept, visitor)
                }
                None => {
                    thread::set_name(&format!("worker {}", id.slot()));
                    serve(common, mechanism, id, member)
                }
            };
            let end = match catch_unwind(AssertUnwindSafe(live)) {
                Ok(Ok(())) => End::Left,
                Ok(Err(fault)) => End::Failed(fault.to_string()),
                Err(panic) => End::Panicked(message(&*panic).to_owned()),
            };
            let mut over = lock(over);
            over.ended.push(Ended { id, end });
            let is_first = over.ended.len() == 1;
            if over.spare.len() < SPARE_MAX {
                over.spare.extend(kept);
            }
            drop(over);
            if is_first {
                // Later ones are found with the first.
                common.bell.ring();
            }
        };
        let started = self.scope.start(stack, work);
        if started.is_err() {
            common.board.heal(id);
        }
        started
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        // The end of a thread rings the bell.
        None
    }

    fn reap(&mut self) -> Vec<Ended> {
        std::mem::take(&mut lock(self.over).ended)
    }

    fn kill(&mut self) -> bool {
        // A thread cannot be killed; the process can end.
        false
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.mechanism.gauges()
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
