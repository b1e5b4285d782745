//! How a ring does each of the four tasks of a loop. Each task has a default, chosen by `cargo
//! xtask bench uring`; the others stay, so that the choice can be measured again on another
//! machine.

use sys::uring::{Acceptance, Feature, Port, Receive, Refusal, Setup, Uring};

use crate::axes::words;

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
    pub(crate) fn port(self, setup: &Setup) -> Result<Port, Refusal> {
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

    pub(crate) fn receive(self) -> Receive {
        match self.recv {
            RecvBy::Ring => Receive::Multishot,
            RecvBy::Once => Receive::Once,
            RecvBy::Own => Receive::Own,
        }
    }

    /// The ring's way of accepting; `None`: it only polls.
    pub(crate) fn acceptance(self) -> Option<Acceptance> {
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

words!(RecvBy, Ring = "ring", Once = "once", Own = "own");
words!(SendBy, Ring = "ring", Call = "call");
words!(AcceptBy, Multi = "multi", Once = "once", Poll = "poll");
words!(CloseBy, Ring = "ring", Call = "call");
