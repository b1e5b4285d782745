//! Runs a service on a shape: listeners, scoreboard, workers, supervisor, and the way out.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use memory::Board;
use memory::Region;
use seam::Service;
use sys::eventfd::EventFd;
use sys::signal::{self, Signal};
use sys::socket::{self, ListenOptions};
use sys::uring::Uring;

use crate::container::{processes, threads};
use crate::handover::{Epoch, Handover};
use crate::parts::assets::Assets;
use crate::shape::{Accept, Container, Refused, Shape, Wait};

/// What is served, and for whom.
pub struct House<'a, S: Service> {
    /// The protocol.
    pub service: &'a S,
    /// What all workers share; it must lie where [`Shape::placement`] says.
    pub state: &'a S::State,
    /// The files that sessions send.
    pub assets: &'a Assets,
    /// Where to listen; port 0 picks one.
    pub address: SocketAddr,
    /// Print what sessions note (stderr).
    pub verbose: bool,
    /// Print the seconds from the first connection to the last disconnect (stderr).
    pub timer: bool,
    /// Obey `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGUSR2`: for a server that owns its process.
    pub signals: bool,
    /// Stops the house from within the process.
    pub control: &'a Control,
    /// The descriptor of the state, if it lies in shared memory: what `SIGUSR2` hands over.
    pub state_fd: Option<BorrowedFd<'a>>,
    /// What a predecessor has passed: its listeners are used, and it is told when we are ready.
    pub handover: Option<&'a Handover>,
}

/// Stops a house from another thread.
pub struct Control {
    pub(crate) bell: EventFd,
    wish: AtomicU8,
}

impl Control {
    /// A control that wishes for nothing.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Control> {
        Ok(Control { bell: EventFd::new()?, wish: AtomicU8::new(0) })
    }

    /// As `SIGTERM` does: the first call drains, the second forces.
    pub fn stop(&self) {
        self.wish.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }

    /// How many calls were not taken note of yet.
    pub(crate) fn take(&self) -> u8 {
        self.bell.clear();
        self.wish.swap(0, Ordering::AcqRel)
    }
}

/// Who keeps the state beyond the life of the server.
pub trait Keeper<T> {
    /// True if the state is not what was last kept.
    fn is_changed(&mut self, state: &T) -> bool;

    /// Keeps the state, whole or not at all.
    ///
    /// # Errors
    /// What went wrong and what to do, in words; what was kept before is untouched.
    fn save(&mut self, state: &T) -> Result<(), String>;

    /// How often to save beside the last disconnect and the end.
    fn every(&self) -> Option<Duration>;
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeeper;

impl<T> Keeper<T> for NoKeeper {
    fn is_changed(&mut self, _state: &T) -> bool {
        false
    }

    fn save(&mut self, _state: &T) -> Result<(), String> {
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        None
    }
}

/// The house is ready: what was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// The address that peers connect to.
    pub listening: SocketAddr,
    /// What is in force of what was wished: the setup flags of the rings.
    pub flags: Vec<&'static str>,
}

/// How the house was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// It did not drain in time, or was told twice.
    pub forced: bool,
    /// Workers that ended unexpectedly and were replaced.
    pub replaced: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Receives that found no buffer in their ring (`ENOBUFS`), and were armed again.
    pub starved: u64,
    /// Why the last attempt to keep the state failed.
    pub unsaved: Option<String>,
}

/// Why a house could not be run.
#[derive(Debug)]
pub enum Fault {
    /// The shape cannot be.
    Refused(Refused),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// A ring cannot be made.
    Ring(io::Error),
    /// Waiting, or what it needs, failed.
    Wait(io::Error),
    /// A worker cannot be started.
    Spawn(io::Error),
    /// A worker ended before the house was ready; the reason is on stderr.
    Stillborn(usize),
    /// What a predecessor passed cannot be used.
    Handover(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(reason) => write!(f, "{reason}"),
            Fault::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}")?;
                match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; another server has the port: stop it, or say --port 0")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; ports below 1024 need a privilege: say --port 6000")
                    }
                    _ => Ok(()),
                }
            }
            Fault::Ring(error) => write!(f, "cannot make an io_uring: {error}"),
            Fault::Wait(error) => write!(f, "cannot wait for connections: {error}"),
            Fault::Spawn(error) => write!(f, "cannot start a worker: {error}"),
            Fault::Handover(error) => {
                write!(f, "cannot take over from the server before: {error}; it goes on serving")
            }
            Fault::Stillborn(slot) => write!(f, "worker {slot} ended before it was ready"),
        }
    }
}

impl std::error::Error for Fault {}

/// What workers of any container have in common.
pub(crate) struct Common<'a, S: Service> {
    pub house: &'a House<'a, S>,
    pub shape: &'a Shape,
    pub board: &'a Board,
    pub listeners: &'a [OwnedFd],
    pub stop: &'a EventFd,
    pub bell: &'a EventFd,
    pub epoch: Epoch,
}

/// The signals that a house obeys.
pub(crate) const SIGNALS: &[Signal] = &[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2];

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
    shape.check().map_err(Fault::Refused)?;
    let flags = probe(shape)?;
    if house.signals {
        // Workers inherit the blocked signals, so that only the supervisor hears them.
        signal::block(SIGNALS).map_err(Fault::Wait)?;
    }
    let _ = sys::limits::raise_open_files(u64::MAX);
    let (listeners, listening) = match house.handover {
        Some(handover) => inherit(handover, shape).map_err(Fault::Handover)?,
        None => listen(house.address, shape)?,
    };
    let mut board: Region<Board> = Region::place(shape.placement()).map_err(Fault::Wait)?;
    board.found(&[]).expect("a scoreboard needs no seed");
    let stop = EventFd::new().map_err(Fault::Wait)?;
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let epoch = Epoch::of(house.handover);
    let (board, listeners, stop, bell) = (&*board, &*listeners, &stop, &bell);
    let common = Common { house, shape, board, listeners, stop, bell, epoch };
    let mut announce = || ready(&Ready { listening, flags: flags.clone() });
    match shape.container {
        Container::Solo | Container::Threads => threads::run(&common, keeper, &mut announce),
        Container::Processes => processes::run(&common, keeper, &mut announce),
    }
}

/// Finds out before any worker starts whether the machine has what the shape needs.
fn probe(shape: &Shape) -> Result<Vec<&'static str>, Fault> {
    match shape.wait {
        Wait::Blocking | Wait::Epoll => Ok(Vec::new()),
        Wait::Uring => {
            let ring = Uring::new(&shape.knobs.ring).map_err(Fault::Ring)?;
            Ok(ring.flags().to_vec())
        }
    }
}

/// The listeners of the predecessor.
fn inherit(handover: &Handover, shape: &Shape) -> io::Result<(Vec<OwnedFd>, SocketAddr)> {
    let listeners = handover.listeners()?;
    let each = listeners_of(shape);
    if listeners.len() != each {
        // A queue that nobody accepts from would strand its connections.
        return Err(io::Error::other(format!(
            "expected {each} listeners for this shape, found {}: keep --workers and --accept",
            listeners.len()
        )));
    }
    let address = socket::local_addr(&listeners[0])?;
    Ok((listeners, address))
}

/// How many listening sockets a shape has.
fn listeners_of(shape: &Shape) -> usize {
    match shape.accept {
        Accept::Shared => 1,
        Accept::Reuseport => shape.workers,
    }
}

/// One listening socket, or one for each worker on the same port. They stay open in the supervisor,
/// so that a worker's death loses no connection that waits.
fn listen(address: SocketAddr, shape: &Shape) -> Result<(Vec<OwnedFd>, SocketAddr), Fault> {
    let each = listeners_of(shape);
    let options = ListenOptions {
        backlog: shape.knobs.backlog,
        reuse_port: each > 1,
        nodelay: true,
        nonblocking: shape.wait == Wait::Epoll,
    };
    let mut address = address;
    let mut listeners = Vec::with_capacity(each);
    if options.reuse_port && address.port() != 0 {
        // A second server of the same user would get the port too, and every other connection.
        let alone = ListenOptions { reuse_port: false, ..options };
        socket::listen(address, &alone).map_err(|error| Fault::Listen(address, error))?;
    }
    for _ in 0..each {
        let fault = |error| Fault::Listen(address, error);
        let listener = socket::listen(address, &options).map_err(fault)?;
        address = socket::local_addr(&listener).map_err(fault)?;
        listeners.push(listener);
    }
    Ok((listeners, address))
}
