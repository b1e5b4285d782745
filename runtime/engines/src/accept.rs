//! Accepting connections, and passing each connection to the worker that serves it.
//!
//! Each file holds one way of accepting, with the same functions in the same order. The sockets and
//! locks of a way are made once, before the first worker, and belong to the [`Listeners`]; a worker
//! sees only its [`AcceptSource`]. The listening sockets stay open in the supervisor, so no waiting
//! connection is lost when a worker dies.

pub mod acceptor;
mod exclusive;
mod handoff;
pub mod lent;
mod lock;
mod pass;
mod shared;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use language::info;
use memory::Board;
use seam::{Peer, WorkerId};
use sys::ready::Interest;
use sys::socket::{self, ListenOptions};

use crate::address::{Address, SocketFile};
use crate::axes::{Accept, Container, Wait};
use crate::container::Member;
use crate::datagrams;
use crate::fault::Fault;
use crate::handover::Handover;
use crate::limits::WAIT;
use crate::shape::Shape;

/// A connection that no worker serves yet, and its peer.
pub type Arrival = (OwnedFd, Peer);

/// The next connection of a listener, as [`socket::accept`].
pub fn accept(listener: BorrowedFd<'_>, nonblocking: bool) -> io::Result<Arrival> {
    let (fd, address) = socket::accept(listener, nonblocking)?;
    Ok((fd, address.map_or(Peer::Local, Peer::Net)))
}

/// The source of a worker's connections.
pub trait AcceptSource {
    /// Readable when a connection may be waiting.
    fn fd(&self) -> BorrowedFd<'_>;

    /// A readiness loop's interest in [`AcceptSource::fd`].
    fn interest(&self) -> Interest {
        Interest::READ
    }

    /// The number of connections after which a loop should register it again.
    fn renew_after(&self) -> Option<u32> {
        None
    }

    /// The next connection; if `wait`, after up to [`WAIT`].
    ///
    /// # Errors
    /// `WouldBlock` if none came in time; the others as accept(2).
    fn take(&self, wait: bool) -> io::Result<Arrival>;

    /// Whether an acceptor hands the connections over.
    fn is_given(&self) -> bool {
        false
    }

    /// While the server drains: whether no connection is on the way from an acceptor.
    fn is_over(&self) -> bool {
        true
    }

    /// Whether connections wait here that an acceptor has accepted.
    fn is_filled(&self) -> bool {
        false
    }

    /// A connection that came by this accept source has ended.
    fn left(&self) {}
}

/// The listening sockets, and the resources of all accept sources.
pub struct Listeners {
    pub sockets: Vec<OwnedFd>,
    pub listening: Address,
    /// The listener's file, if it is in the file system.
    pub file: Option<SocketFile>,
    /// They are datagram sockets, one for each worker.
    pub are_datagrams: bool,
    /// The listener belongs to a service manager, which goes on listening when this server ends.
    pub is_lent: bool,
    means: Means,
}

/// The resources of a way of accepting, besides the listeners.
enum Means {
    Nothing,
    Exclusive,
    Lock(lock::Shared),
    Handoff(handoff::Lanes),
    Pass(pass::Channels),
}

impl Listeners {
    /// Listens on `address`, or on the listeners that a predecessor or a service manager has passed
    /// to this process.
    pub fn open(
        address: &Address,
        shape: &Shape,
        handover: Option<&Handover>,
        lent: Option<OwnedFd>,
        are_datagrams: bool,
    ) -> Result<Listeners, Fault> {
        let is_lent = lent.is_some() || (handover.is_some() && lent::is_lent());
        let (sockets, listening) = match (handover, lent) {
            (Some(handover), _) => inherit(handover, address, shape).map_err(Fault::Handover)?,
            (None, Some(listener)) => lent::adopt(listener, shape)
                .map_err(|error| Fault::Listen(address.clone(), error))?,
            (None, None) if are_datagrams => datagrams::bind(address, shape)?,
            (None, None) => listen(address, shape)?,
        };
        let file = match &listening {
            Address::Unix(path, _) if !is_lent => Some(SocketFile::of(path).map_err(Fault::Wait)?),
            _ => None,
        };
        let listeners = Listeners::of(sockets, listening, shape, false).map_err(Fault::Wait)?;
        Ok(Listeners { file, are_datagrams, is_lent, ..listeners })
    }

    /// The resources for the threads of one process of a hybrid: the same listeners, and otherwise
    /// its own.
    pub fn within(&self, shape: &Shape) -> io::Result<Listeners> {
        let sockets = self.sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Listeners::of(sockets, self.listening.clone(), shape, true)
    }

    fn of(
        sockets: Vec<OwnedFd>,
        listening: Address,
        shape: &Shape,
        is_within: bool,
    ) -> io::Result<Listeners> {
        let means = match shape.accept {
            Accept::Shared | Accept::Reuseport => Means::Nothing,
            Accept::Exclusive => Means::Exclusive,
            Accept::Lock => Means::Lock(lock::Shared::new(shape)?),
            // Each process of a hybrid has its own.
            Accept::Handoff if shape.container == Container::Hybrid => Means::Nothing,
            // Parked connections have a queue, which serves as the buffer.
            Accept::Handoff if shape.wait == Wait::Parked => Means::Nothing,
            Accept::Handoff => Means::Handoff(handoff::Lanes::new(shape, is_within)?),
            Accept::Pass => Means::Pass(pass::Channels::new(shape)?),
        };
        let (file, are_datagrams, is_lent) = (None, false, false);
        Ok(Listeners { sockets, listening, file, are_datagrams, is_lent, means })
    }

    /// The first listener, for a worker whose only connection the supervisor has accepted.
    pub fn first(&self) -> impl AcceptSource + '_ {
        shared::Listener(self.sockets[0].as_fd())
    }

    /// The accept source of a worker.
    pub fn accept_source<'h>(
        &'h self,
        member: Member,
        id: WorkerId,
        board: &'h Board,
    ) -> Box<dyn AcceptSource + 'h> {
        let Member { first, index, workers } = member;
        let listener = self.sockets[index % self.sockets.len()].as_fd();
        // The acceptor's slot follows that of the last worker.
        let acceptor = board.slot(first + workers);
        match &self.means {
            // The acceptor itself accepts from the listener.
            _ if member.feeds_workers() => Box::new(shared::Listener(listener)),
            Means::Nothing => Box::new(shared::Listener(listener)),
            Means::Exclusive => Box::new(exclusive::Listener(listener)),
            Means::Lock(shared) => Box::new(shared.accept_source(listener, id, board)),
            Means::Handoff(lanes) => Box::new(lanes.accept_source(index, acceptor)),
            Means::Pass(channels) => Box::new(channels.accept_source(index, acceptor)),
        }
    }

    /// The number of connections that wait between an acceptor and its workers, and the room for
    /// them, where both are known here.
    pub fn handed(&self) -> Option<(u64, u64)> {
        match &self.means {
            Means::Handoff(lanes) => Some(lanes.filled()),
            _ => None,
        }
    }

    /// Frees what `dead` held.
    pub fn heal(&self, dead: WorkerId) {
        if let Means::Lock(shared) = &self.means {
            shared.heal(dead);
        }
    }
}

/// The listeners of the predecessor.
fn inherit(
    handover: &Handover,
    address: &Address,
    shape: &Shape,
) -> io::Result<(Vec<OwnedFd>, Address)> {
    let listeners = handover.listeners()?;
    let each = listeners_of(address, shape);
    let is_shared = lent::is_lent() && listeners.len() == 1;
    if listeners.len() != each && !is_shared {
        // A queue that no worker accepts from would strand its connections.
        return Err(io::Error::other(format!(
            "expected {each} listeners for this shape, found {}: keep --workers and --accept",
            listeners.len()
        )));
    }
    let address = lent::address_of(&listeners[0])?;
    Ok((listeners, address))
}

/// The number of listening sockets of a shape. A path has one, which all workers then share.
fn listeners_of(address: &Address, shape: &Shape) -> usize {
    let own = shape.accept == Accept::Reuseport && address.net().is_some();
    if own { shape.workers } else { 1 }
}

/// Whether the workers that accept sleep in accept(2) itself.
fn blocks(shape: &Shape) -> bool {
    match shape.accept {
        Accept::Handoff | Accept::Pass => shape.wait != Wait::Parked,
        // Where each connection has a worker, the supervisor accepts, and waits in poll(2) instead.
        _ if shape.container.is_per_connection() => false,
        _ => matches!(shape.wait, Wait::Blocking | Wait::Uring | Wait::Port),
    }
}

/// The options of `each` listeners of a shape.
fn options(shape: &Shape, each: usize) -> ListenOptions {
    ListenOptions {
        backlog: shape.knobs.backlog,
        reuse_port: each > 1,
        nodelay: shape.knobs.nodelay,
        nonblocking: !blocks(shape),
        keepalive: Some(shape.knobs.keepalive).filter(|silence| !silence.is_zero()),
        unsent_max: Some(shape.knobs.unsent_max).filter(|bytes| *bytes > 0),
    }
}

/// Bounds the calls of workers that block.
fn set_waits(listener: &OwnedFd, shape: &Shape) -> io::Result<()> {
    if shape.wait == Wait::Blocking {
        // Accepted sockets inherit both, so no call lasts longer than this.
        socket::set_receive_timeout(listener, Some(WAIT))?;
        socket::set_send_timeout(listener, Some(WAIT))?;
    } else if blocks(shape) {
        socket::set_receive_timeout(listener, Some(WAIT))?;
    }
    Ok(())
}

/// One listening socket, or one for each worker on the same port.
fn listen(address: &Address, shape: &Shape) -> Result<(Vec<OwnedFd>, Address), Fault> {
    let each = listeners_of(address, shape);
    let options = options(shape, each);
    let mut address = address.clone();
    let mut listeners = Vec::with_capacity(each);
    let alone = ListenOptions { reuse_port: false, ..options };
    let taken = |it: SocketAddr| it.port() != 0 && socket::listen(it, &alone).is_err();
    let is_shared = options.reuse_port && address.net().is_some_and(taken);
    for _ in 0..each {
        let fault = |error| Fault::Listen(address.clone(), error);
        let listener = match &address {
            Address::Net(address) => socket::listen(*address, &options),
            Address::Unix(path, mode) => socket::listen_unix(path, *mode, &options),
        };
        let listener = listener.map_err(fault)?;
        set_waits(&listener, shape).map_err(fault)?;
        if address.net().is_some() {
            address = socket::local_addr(&listener).map_err(fault)?.into();
        }
        listeners.push(listener);
    }
    if is_shared {
        info!(
            "another server listens on {address} too: the kernel divides new connections between \
             both, until one of them stops"
        );
    }
    Ok((listeners, address))
}
