//! A server: its service and its host, how its state is saved, and how it is stopped.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use seam::Service;
use sys::eventfd::EventFd;

use crate::address::Address;
use crate::extra::ExtraWorker;
use crate::handover::Handover;
use crate::parts::assets::Assets;
use crate::status::Gauge;

/// A server: a service with its state, and its host.
pub struct Server<'a, S: Service> {
    /// The protocol.
    pub service: &'a S,
    /// The state that all workers share; it must lie where [`crate::Shape::placement`] says.
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
    /// The addresses to listen on; at least one.
    pub addresses: Vec<Address>,
    /// Called once the server listens, before there is a worker: gives up rights.
    pub settle: Option<&'a (dyn Fn() -> io::Result<()> + Sync)>,
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

    /// The server has ended and no successor continues with the state: nobody changes it any more.
    fn end(&mut self) {}

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
pub struct Started {
    /// The address that peers connect to.
    pub listening: Address,
    /// Further addresses.
    pub also: Vec<Address>,
}

impl Started {
    /// All addresses, for a person.
    pub fn places(&self) -> String {
        let all = std::iter::once(&self.listening).chain(&self.also);
        all.map(Address::to_string).collect::<Vec<_>>().join(", ")
    }
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
