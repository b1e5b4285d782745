//! Accepting connections, and passing each connection to the worker that serves it.
//!
//! Each file holds one way of accepting, with the same functions in the same order. The sockets and
//! locks of a way are made once, before the first worker, and belong to the [`Listeners`]; a worker
//! sees only its [`AcceptSource`]. The listening sockets stay open in the supervisor, so no waiting
//! connection is lost when a worker dies.

pub mod acceptor;
mod handoff;
pub mod lent;
mod listen;
mod lock;
mod pass;
pub mod set;
mod shared;
pub mod source;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use memory::Board;
use seam::WorkerId;

use self::listen::{SocketsOf, check_several, listen, listeners_of, sleeps};
use self::set::{ListenerSet, WorkerListener};
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
    /// The number of sockets of each address.
    counts: Vec<usize>,
    /// In the order of the flags or of the service manager; at least one.
    pub addresses: Vec<Address>,
    /// The files of those in the file system.
    pub files: Vec<SocketFile>,
    /// They belong to a service manager, which goes on listening when this server ends.
    pub is_lent: bool,
    /// If there are several addresses: the sockets of each worker as one, or of all workers.
    sets: Vec<ListenerSet>,
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
    /// Listens on `addresses`, or on the listeners that a predecessor or a service manager has
    /// passed to this process.
    pub fn open(
        addresses: &[Address],
        shape: &Shape,
        handover: Option<&Handover>,
        lent: Vec<OwnedFd>,
    ) -> Result<Listeners, Fault> {
        let is_lent = !lent.is_empty() || (handover.is_some() && lent::is_lent());
        let groups = match handover {
            Some(handover) => inherit(handover, addresses, shape).map_err(Fault::Handover)?,
            None if lent.is_empty() => listen(addresses, shape)?,
            None => lent::adopt(lent, shape)
                .map_err(|error| Fault::Listen(addresses[0].clone(), error))?,
        };
        check_several(groups.len(), shape)?;
        let path = |group: &SocketsOf| match &group.1 {
            Address::Unix(path, _) if !is_lent => Some(path.clone()),
            _ => None,
        };
        let paths: Vec<PathBuf> = groups.iter().filter_map(path).collect();
        let files = paths.iter().map(|path| SocketFile::of(path)).collect::<io::Result<_>>();
        let files = files.map_err(Fault::Wait)?;
        let listeners = Listeners::of(groups, shape, false).map_err(Fault::Wait)?;
        Ok(Listeners { files, is_lent, ..listeners })
    }

    /// The resources for the threads of one process of a hybrid: the same listeners, and otherwise
    /// its own.
    pub fn within(&self, shape: &Shape) -> io::Result<Listeners> {
        let mut sockets = self.sockets.iter().map(OwnedFd::try_clone);
        let groups = self.counts.iter().zip(&self.addresses).map(|(count, address)| {
            let own = sockets.by_ref().take(*count).collect::<io::Result<_>>()?;
            Ok((own, address.clone()))
        });
        let groups = groups.collect::<io::Result<_>>()?;
        Listeners::of(groups, shape, true)
    }

    fn of(groups: Vec<SocketsOf>, shape: &Shape, is_within: bool) -> io::Result<Listeners> {
        let (mut sockets, mut counts, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for (own, address) in groups {
            counts.push(own.len());
            sockets.extend(own);
            addresses.push(address);
        }
        let mut sets = Vec::new();
        if addresses.len() > 1 {
            for worker in 0..counts.iter().copied().max().unwrap_or(1) {
                let mut from = 0;
                let members = counts.iter().map(|count| {
                    from += count;
                    from - count + worker % count
                });
                sets.push(ListenerSet::new(&sockets, members, sleeps(shape))?);
            }
        }
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
        let (files, is_lent) = (Vec::new(), false);
        Ok(Listeners { sockets, counts, addresses, files, is_lent, sets, means })
    }

    /// The listener of a worker.
    pub fn of_worker(&self, index: usize) -> WorkerListener<'_> {
        match &self.sets[..] {
            [] => WorkerListener::One(self.sockets[index % self.sockets.len()].as_fd()),
            sets => WorkerListener::Several(&sets[index % sets.len()], &self.sockets),
        }
    }

    /// The first listener, for a worker whose only connection the supervisor has accepted.
    pub fn first(&self) -> impl AcceptSource + '_ {
        shared::Listener { listener: self.of_worker(0), wakes_one: false }
    }

    /// The accept source of a worker.
    pub fn accept_source<'h>(
        &'h self,
        member: Member,
        id: WorkerId,
        board: &'h Board,
    ) -> Box<dyn AcceptSource + 'h> {
        let Member { first, index, workers } = member;
        let listener = self.of_worker(index);
        // The acceptor's slot follows that of the last worker.
        let acceptor = board.slot(first + workers);
        match &self.means {
            // The acceptor itself accepts from the listener.
            _ if member.feeds_workers() => {
                Box::new(shared::Listener { listener, wakes_one: false })
            }
            Means::Nothing | Means::Exclusive => {
                let wakes_one = matches!(self.means, Means::Exclusive);
                Box::new(shared::Listener { listener, wakes_one })
            }
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
    addresses: &[Address],
    shape: &Shape,
) -> io::Result<Vec<SocketsOf>> {
    let listeners = handover.listeners()?;
    let mut counts: Vec<usize> = addresses.iter().map(|it| listeners_of(it, shape)).collect();
    let wanted: usize = counts.iter().sum();
    if listeners.len() != wanted {
        if !lent::is_lent() {
            // A queue that no worker accepts from would strand its connections.
            return Err(io::Error::other(format!(
                "expected {wanted} listeners for this shape, found {}: keep --workers, --accept \
                 and --listen",
                listeners.len()
            )));
        }
        counts = vec![1; listeners.len()];
    }
    let mut listeners = listeners.into_iter();
    let groups = counts.iter().map(|count| {
        let own: Vec<OwnedFd> = listeners.by_ref().take(*count).collect();
        let address = lent::address_of(&own[0])?;
        Ok((own, address))
    });
    groups.collect()
}
