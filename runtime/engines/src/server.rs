//! A server: its service and address, how its state is saved, how it is stopped, and the data that
//! its workers share.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use memory::Board;
use seam::{Dead, Service, WorkerId};
use sys::eventfd::EventFd;

use crate::accept::Listeners;
use crate::address::Address;
use crate::erased::ErasedService;
use crate::extra::{Extra, ExtraWorker, ExtraWorkerEntry};
use crate::fault::Fault;
use crate::governor::Mode;
use crate::handover::{Epoch, Handover};
use crate::knobs::Knobs;
use crate::parts::assets::Assets;
use crate::shape::{Shape, WORKERS_MAX};
use crate::status::Gauge;
use crate::wait::uring::tactics::Rings;

/// A server: a service with its state, and its host.
pub struct Server<'a, S: Service> {
    /// The protocol.
    pub service: &'a S,
    /// The state that all workers share; it must lie where [`Shape::placement`] says.
    pub state: &'a S::State,
    /// Where the service runs.
    pub host: Host<'a>,
}

/// The surroundings of a service: its address and files, the process that it runs in, and what that
/// process hands over.
#[derive(Clone)]
pub struct Host<'a> {
    /// The files that sessions send.
    pub assets: &'a Assets,
    /// The address to listen on.
    pub address: Address,
    /// A worker that serves no connections.
    pub extra: Option<&'a dyn ExtraWorker>,
    /// Print what sessions note (stderr).
    pub verbose: bool,
    /// Print the seconds from the first connection to the last disconnect (stderr).
    pub timer: bool,
    /// Obey `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGUSR2`: for a server that owns its process.
    pub signals: bool,
    /// Stops the server from another thread of the process.
    pub control: &'a Control,
    /// The descriptor of the state, if it lies in shared memory; `SIGUSR2` hands it over.
    pub state_fd: Option<BorrowedFd<'a>>,
    /// Other descriptors to hand over, such as the sockets of an extra worker; the successor finds
    /// them in [`Handover::others`].
    pub others: &'a [BorrowedFd<'a>],
    /// A predecessor's handover: its listeners are used, and it learns when this server is ready.
    pub handover: Option<&'a Handover>,
}

/// Stops a server from another thread.
pub struct Control {
    pub(crate) bell: EventFd,
    stops: AtomicU8,
}

impl Control {
    /// A control that has not been used yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Control> {
        Ok(Control { bell: EventFd::new()?, stops: AtomicU8::new(0) })
    }

    /// As `SIGTERM` does: the first call drains, the second forces.
    pub fn stop(&self) {
        self.stops.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }

    /// The number of calls since the last time.
    pub(crate) fn take(&self) -> u8 {
        self.bell.clear();
        self.stops.swap(0, Ordering::AcqRel)
    }
}

/// Saves the state, so that it outlives the server, and reports on it. By itself it saves nothing.
pub trait StateStore<T>: Send {
    /// Whether the state differs from the last saved one.
    fn is_changed(&mut self, state: &T) -> bool {
        let _ = state;
        false
    }

    /// Saves the state, whole or not at all.
    ///
    /// # Errors
    /// Text that says what went wrong and what to do; the previously saved state is untouched.
    fn save(&mut self, state: &T) -> Result<(), String> {
        let _ = state;
        Ok(())
    }

    /// The interval between saves; the server also saves after the last disconnect and at the end.
    fn every(&self) -> Option<Duration> {
        None
    }

    /// `SIGHUP`: reopens logs and other output files, which may have been moved; never reads data
    /// again. Returns what was done, in words.
    fn reload(&mut self, state: &T) -> Vec<String> {
        let _ = state;
        Vec::new()
    }

    /// Figures of the service besides the usual counts of a server: pools, sessions, logs.
    fn gauges(&self, state: &T) -> Vec<Gauge> {
        let _ = state;
        Vec::new()
    }
}

/// A store that saves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStateStore;

impl<T> StateStore<T> for NoStateStore {}

/// The results of the server's start.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// The address that peers connect to.
    pub listening: Address,
    /// The settings of the rings in force, where there are rings.
    pub rings: Option<Rings>,
}

/// The way in which the server ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The server did not drain in time, or was stopped twice.
    pub forced: bool,
    /// Workers that ended unexpectedly and were replaced.
    pub replaced: u64,
    /// Workers or processes started, including those at the server's start.
    pub spawned: u64,
    /// Processes that left because there were too many idle ones.
    pub retired: u64,
    /// Processes that left because they had served enough.
    pub recycled: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed unserved, or not accepted at once, because a limit was reached.
    pub refused: u64,
    /// Receives that found no buffer in their ring (`ENOBUFS`), and were armed again.
    pub starved: u64,
    /// The reason why the last attempt to save the state failed.
    pub unsaved: Option<String>,
}

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
}

/// Called on a reload, first by the supervisor and then by each worker between two of its turns,
/// with the number of the edition. It rereads data that a process keeps for itself, such as
/// certificates, and returns a report. Only the supervisor's report is printed; later workers are
/// copies of its process.
pub type Renew<'a> = dyn Fn(u32) -> Option<String> + Sync + 'a;

impl Common<'_> {
    /// The first slot of the entry `index`.
    pub fn slot_of(&self, index: usize) -> usize {
        self.epoch.slot() + index * self.shape.stride()
    }

    /// The entries that the supervisor fills from the start: workers, acceptors, the extra
    /// worker.
    pub fn entries(&self) -> usize {
        self.shape.entries() + usize::from(self.extra.is_some())
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
        (self.board.settings().sessions_max() / self.parts).max(1)
    }

    /// Puts the times and the connection limit of `knobs` in force.
    pub fn put_in_force(&self, knobs: &Knobs) {
        let settings = self.board.settings();
        settings.set_times(knobs.idle, knobs.write_stall);
        settings.set_memory_max(knobs.memory_max);
        let throttle = self.board.throttle();
        if throttle.limit() == 0 {
            // Until the supervisor's first look.
            throttle.set(u64::MAX, Duration::MAX);
        }
        throttle.begin(knobs.governor == Mode::On, sys::cpu::count());
        let wanted = knobs.sessions_max;
        let all = wanted.unwrap_or(self.service.limits().sessions_max);
        // If each connection has a worker, each also needs a slot.
        let each = self.shape.container.is_per_connection();
        settings.set_sessions_max(if each { all.min(WORKERS_MAX) } else { all });
    }
}
