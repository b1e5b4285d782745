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
mod listen;
mod lock;
mod pass;
mod shared;
pub mod source;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use memory::Board;
use seam::WorkerId;

use self::listen::{listen, listeners_of};
use self::source::AcceptSource;
use crate::address::{Address, SocketFile};
use crate::axes::{Accept, Container, Wait};
use crate::fault::Fault;
use crate::handover::Handover;
use crate::member::Member;
use crate::shape::Shape;

/// The listening sockets, and the resources of all accept sources.
pub struct Listeners {
    pub sockets: Vec<OwnedFd>,
    pub listening: Address,
    /// The listener's file, if it is in the file system.
    pub file: Option<SocketFile>,
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
    ) -> Result<Listeners, Fault> {
        let is_lent = lent.is_some() || (handover.is_some() && lent::is_lent());
        let (sockets, listening) = match (handover, lent) {
            (Some(handover), _) => inherit(handover, address, shape).map_err(Fault::Handover)?,
            (None, Some(listener)) => lent::adopt(listener, shape)
                .map_err(|error| Fault::Listen(address.clone(), error))?,
            (None, None) => listen(address, shape)?,
        };
        let file = match &listening {
            Address::Unix(path, _) if !is_lent => Some(SocketFile::of(path).map_err(Fault::Wait)?),
            _ => None,
        };
        let listeners = Listeners::of(sockets, listening, shape, false).map_err(Fault::Wait)?;
        Ok(Listeners { file, is_lent, ..listeners })
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
        Ok(Listeners { sockets, listening, file: None, is_lent: false, means })
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
