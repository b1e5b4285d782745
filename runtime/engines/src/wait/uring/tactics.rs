//! How a ring does each of the four tasks of a loop. Each task has a default, chosen by `cargo
//! xtask bench uring`; the others stay, so that the choice can be measured again on another
//! machine.

use sys::uring::{Acceptance, Feature, Port, Receive, Refusal, Setup, Uring};

use crate::axes::{Accept, Wait, words};
use crate::shape::Shape;

/// The way of receiving bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecvBy {
    /// One multishot receive into buffers that the kernel takes from a ring: a waiting session owns
    /// none. A session that found the ring empty continues as [`RecvBy::Own`] for a while.
    #[default]
    Ring,
    /// One receive at a time into a buffer of that ring.
    Once,
    /// One receive at a time into the session's own buffer. A waiting session holds a small buffer;
    /// it gets a large one where the kernel has reported more input.
    Own,
}

/// The way of sending bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendBy {
    /// All sends of a turn leave with one enter.
    #[default]
    Ring,
    /// Each session's output by a `send(2)` at the end of the turn; the rest goes on the ring.
    Call,
}

/// The way of accepting connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptBy {
    /// One multishot accept, armed while the admission is open. Only for a ring with a listener of
    /// its own: of several accepts on one listener the kernel always completes the one armed first.
    Multi,
    /// One accept at a time, which is armed again at the end of the turn and so goes to the end of
    /// the queue. A frozen worker has taken one connection, or its wake-up.
    Once,
    /// A poll that wakes every worker; the first one takes the connection with `accept4(2)`. A
    /// frozen worker takes none.
    Poll,
}

/// The way of closing descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseBy {
    /// With the next enter.
    #[default]
    Ring,
    /// By `close(2)`.
    Call,
}

/// The tactics of a ring: one for each task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tactics {
    /// The way of receiving bytes.
    pub recv: RecvBy,
    /// The way of sending bytes.
    pub send: SendBy,
    /// The way of accepting connections; `None`: the one that suits the listener.
    pub accept: Option<AcceptBy>,
    /// The way of closing descriptors.
    pub close: CloseBy,
}

impl Tactics {
    /// The tactics of a shape, with every open choice decided.
    pub fn of(shape: &Shape) -> Tactics {
        // Connections from an acceptor are taken by calls.
        let is_given = shape.accept.has_acceptor();
        let is_port = shape.wait == Wait::Port;
        let is_shared = shape.accept == Accept::Shared && shape.workers > 1 && !is_port;
        let fitting = if is_shared || is_given { AcceptBy::Poll } else { AcceptBy::Multi };
        let Tactics { accept, .. } = shape.knobs.tactics;
        Tactics { accept: Some(accept.unwrap_or(fitting)), ..shape.knobs.tactics }
    }

    /// A ring that can be used in these ways.
    ///
    /// # Errors
    /// The kernel refuses a ring, or lacks a tactic; the error names it and an alternative.
    pub(crate) fn ring(self, setup: &Setup) -> Result<Uring, Refusal> {
        let ring = Uring::new(&self.fitted(setup))?;
        self.check(&ring)?;
        Ok(ring)
    }

    /// [`Tactics::ring`] for several threads.
    ///
    /// # Errors
    /// As [`Tactics::ring`].
    pub(in crate::wait) fn port(self, setup: &Setup) -> Result<Port, Refusal> {
        // A connection that finds the ring of buffers empty continues with its own.
        let port = Port::new(&self.fitted(setup))?;
        self.check(&port.hub())?;
        Ok(port)
    }

    fn fitted(self, setup: &Setup) -> Setup {
        let buffers = if self.recv == RecvBy::Own { 0 } else { setup.buffers };
        Setup { buffers, ..*setup }
    }

    fn check(self, ring: &Uring) -> Result<(), Refusal> {
        if self.recv == RecvBy::Ring && !ring.can(Feature::MultishotReceive)? {
            return Err(Refusal::lacks("multishot receive (6.0); --uring-recv own does without"));
        }
        if self.acceptance() == Some(Acceptance::Multishot)
            && !ring.can(Feature::MultishotAccept)?
        {
            return Err(Refusal::lacks(
                "multishot accept (5.19); --uring-accept once does without",
            ));
        }
        Ok(())
    }

    pub(in crate::wait) fn receive(self) -> Receive {
        match self.recv {
            RecvBy::Ring => Receive::Multishot,
            RecvBy::Once => Receive::Once,
            RecvBy::Own => Receive::Own,
        }
    }

    /// The ring's way of accepting; `None`: it only polls.
    pub(in crate::wait) fn acceptance(self) -> Option<Acceptance> {
        match self.accept {
            None | Some(AcceptBy::Multi) => Some(Acceptance::Multishot),
            Some(AcceptBy::Once) => Some(Acceptance::Once),
            Some(AcceptBy::Poll) => None,
        }
    }
}

/// The features in use on the rings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rings {
    /// The tactics of the rings; every choice is decided.
    pub tactics: Tactics,
    /// The flags in force.
    pub flags: Vec<&'static str>,
    /// The requested flags that this kernel lacks.
    pub refused: Vec<&'static str>,
}

/// Finds the properties of a shape's rings, by making one.
///
/// # Errors
/// As [`Tactics::ring`].
pub fn probe(shape: &Shape) -> Result<Rings, Refusal> {
    let tactics = Tactics::of(shape);
    let (flags, refused) = if shape.wait == Wait::Port {
        let port = tactics.port(&shape.knobs.ring)?;
        let hub = port.hub();
        (hub.flags(), hub.refused())
    } else {
        let ring = tactics.ring(&shape.knobs.ring)?;
        (ring.flags(), ring.refused())
    };
    Ok(Rings { tactics, flags: flags.words(), refused: refused.words() })
}

words!(RecvBy, Ring = "ring", Once = "once", Own = "own");
words!(SendBy, Ring = "ring", Call = "call");
words!(AcceptBy, Multi = "multi", Once = "once", Poll = "poll");
words!(CloseBy, Ring = "ring", Call = "call");
