//! The data that the workers of any container share.

use std::time::Duration;

use memory::Board;
use seam::{Dead, WorkerId};
use sys::eventfd::EventFd;

use crate::accept::Listeners;
use crate::admin::Renew;
use crate::axes::{Accept, Wait};
use crate::erased::ErasedService;
use crate::extra::{Extra, ExtraWorkerEntry};
use crate::fault::Fault;
use crate::governor::Mode;
use crate::handover::Epoch;
use crate::knobs::{ClientLimits, InForce, Knobs};
use crate::member::Member;
use crate::server::Host;
use crate::shape::{Shape, WORKERS_MAX};
#[cfg(feature = "bypass")]
use crate::wait::bypass::Queues;

/// The data that the workers of any container share.
pub(crate) struct Common<'a> {
    pub service: &'a dyn ErasedService,
    pub host: &'a Host<'a>,
    pub shape: &'a Shape,
    pub board: &'a Board,
    pub listeners: &'a Listeners,
    pub stop: &'a EventFd,
    pub bell: &'a EventFd,
    pub epoch: Epoch,
    /// In a process of a hybrid: the number of processes among which the connections are divided;
    /// otherwise 1.
    pub parts: usize,
    /// The function that each worker calls after a change of the settings.
    pub renew: Option<&'a Renew<'a>>,
    /// The worker that serves no connections, where there is one.
    pub extra: Option<Extra<'a>>,
    /// The queues of a network interface, where TCP is in user space.
    #[cfg(feature = "bypass")]
    pub queues: Option<&'a Queues>,
}

impl Common<'_> {
    /// The first slot of the entry `index`.
    pub fn slot_of(&self, index: usize) -> usize {
        self.epoch.slot() + index * self.shape.stride()
    }

    /// The worker `id` in the group of all workers.
    pub fn member(&self, id: WorkerId) -> Member {
        Member::of_all(self.epoch.slot(), self.shape.workers, id)
    }

    /// The entries that the supervisor fills from the start: workers, acceptors, the extra
    /// worker.
    pub fn entries(&self) -> usize {
        self.shape.entries() + usize::from(self.extra.is_some())
    }

    /// Whether the entry `index` has a worker from the start.
    pub fn starts_at_once(&self, index: usize) -> bool {
        let start = self.shape.staffing().map_or(usize::MAX, |staffing| staffing.start);
        index < start || index >= self.shape.entries() - self.shape.acceptors()
    }

    /// Whether the entry `index` is the extra worker's.
    pub fn is_extra_entry(&self, index: usize) -> bool {
        self.extra.is_some_and(|extra| extra.slot == self.slot_of(index))
    }

    /// Runs the extra worker, if `id` names it.
    pub fn run_extra(&self, id: WorkerId) -> Option<Result<(), Fault>> {
        let extra = self.extra.filter(|extra| extra.slot == id.slot())?;
        let Common { host, board, stop, bell, .. } = self;
        let entry = ExtraWorkerEntry {
            assets: host.assets,
            board,
            id,
            slots: self.shape.stride(),
            orders: extra.orders,
            stop,
            bell,
            verbose: host.verbose,
            is_successor: host.handover.is_some(),
        };
        Some(extra.worker.run(&entry).map_err(Fault::Extra))
    }

    /// The entry of the worker `id`.
    pub fn entry_of(&self, id: WorkerId) -> usize {
        (id.slot() - self.epoch.slot()) / self.shape.stride()
    }

    /// Frees what the worker `id`, which has ended, and the others of its process held.
    pub fn heal(&self, id: WorkerId) {
        for offset in 0..self.shape.stride() {
            let dead = WorkerId::new(id.slot() + offset, id.generation());
            // SAFETY: the supervisor has seen the end of this worker's process or thread, and it
            // starts a successor only after this.
            self.service.heal(unsafe { Dead::sworn(dead) });
            self.listeners.heal(dead);
            self.board.heal(dead);
        }
    }

    /// The maximum number of connections in the whole server, or in this process of a hybrid.
    pub fn sessions_max(&self) -> usize {
        (self.in_force().sessions_max().unwrap_or(usize::MAX) / self.parts).max(1)
    }

    /// Whether a ring polls its listener, and a call accepts: an accept of a ring names one
    /// listener, and of several accepts on one listener the kernel completes the one armed first.
    pub fn rings_poll(&self) -> bool {
        let Shape { accept, wait, workers, .. } = *self.shape;
        let is_shared = accept == Accept::Shared && workers > 1 && wait != Wait::Port;
        is_shared || accept.has_acceptor() || self.listeners.addresses.len() > 1
    }

    /// The settings in force.
    pub fn in_force(&self) -> InForce<'_> {
        InForce(self.board.settings())
    }

    /// Puts `knobs` in force, with the connections that they leave to the service.
    pub fn put_in_force(&self, knobs: &Knobs) {
        let throttle = self.board.throttle();
        if throttle.limit() == 0 {
            // Until the supervisor's first look.
            throttle.set(u64::MAX, Duration::MAX);
        }
        throttle.begin(knobs.overload.governor == Mode::On, sys::cpu::count());
        let wanted = knobs.limits.sessions_max;
        let all = wanted.unwrap_or(self.service.limits().sessions_max);
        // If each connection has a worker, each also needs a slot.
        let each = self.shape.container.is_per_connection();
        let sessions_max = Some(if each { all.min(WORKERS_MAX) } else { all });
        let limits = ClientLimits { sessions_max, ..knobs.limits };
        self.in_force().put(&Knobs { limits, ..knobs.clone() });
        self.board.settings().set_memory_max(knobs.limits.memory_max.unwrap_or(0));
    }
}
