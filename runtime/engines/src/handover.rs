//! Handover from one binary to the next without a failed request.
//!
//! On `SIGUSR2` the supervisor starts its own program again and passes it the listeners and the
//! state. Both servers accept waiting connections. When the successor is ready it reports that
//! through a pipe, and only then does the old server stop accepting. The old server serves its
//! connections until they end, at most as long as a drain may take. A successor that does not
//! become ready changes nothing.
//!
//! Both servers share one state, so their workers need different names: the slots are divided into
//! two halves, and successive binaries alternate between them.

use std::env;
use std::io::{self, PipeReader, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command};

use sys::inherit;
use sys::process::{self, Pid};

use crate::fault::Fault;
use crate::shape::SLOTS;

/// Names the passed descriptors: `EPOCH STATE READY LISTENER... / OTHER...`, all numbers.
const VARIABLE: &str = "ROUNDHOUSE_HANDOVER";
/// Separates the listeners from the rest.
const OTHERS: &str = "/";
/// The number of replacements of a worker before its name repeats one of a predecessor.
const GENERATIONS: u32 = 256;

/// The descriptors that a predecessor has passed to this program.
#[derive(Debug)]
pub struct Handover {
    epoch: u32,
    state: OwnedFd,
    /// Closed only by the end of this process, so that the predecessor does not take it for ended
    /// while it reports why it cannot take over.
    ready: ManuallyDrop<OwnedFd>,
    listeners: Vec<OwnedFd>,
    others: Vec<OwnedFd>,
    predecessor: Option<Pid>,
}

impl Handover {
    /// The handover, if a predecessor started this program. Call it once.
    ///
    /// # Errors
    /// The variable `ROUNDHOUSE_HANDOVER` is set and does not name open descriptors.
    pub fn receive() -> Result<Option<Handover>, Fault> {
        let Ok(text) = env::var(VARIABLE) else { return Ok(None) };
        let adopt = |word: &str| {
            let number = word.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            inherit::adopt(number)
        };
        let read = || -> io::Result<Handover> {
            let missing = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let mut words = text.split(' ');
            let epoch = words.next().and_then(|word| word.parse().ok()).ok_or_else(missing)?;
            let state = adopt(words.next().ok_or_else(missing)?)?;
            let ready = ManuallyDrop::new(adopt(words.next().ok_or_else(missing)?)?);
            let before = words.by_ref().take_while(|word| *word != OTHERS);
            let listeners = before.map(adopt).collect::<io::Result<_>>()?;
            let others = words.map(adopt).collect::<io::Result<_>>()?;
            let predecessor = process::parent();
            Ok(Handover { epoch, state, ready, listeners, others, predecessor })
        };
        read().map(Some).map_err(Fault::Handover)
    }

    /// The state, to be adopted.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn state(&self) -> io::Result<OwnedFd> {
        self.state.try_clone()
    }

    /// The descriptors that the predecessor passed besides listeners and state, in its order
    /// ([`crate::Server::others`]); possibly none.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn others(&self) -> io::Result<Vec<OwnedFd>> {
        self.others.iter().map(OwnedFd::try_clone).collect()
    }

    pub(crate) fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        self.listeners.iter().map(OwnedFd::try_clone).collect()
    }

    /// Tells the predecessor that it may leave.
    pub(crate) fn report_ready(&self) -> io::Result<()> {
        io::PipeWriter::from(self.ready.try_clone()?).write_all(b"!")
    }

    /// The predecessor, until it has left.
    pub fn predecessor(&self) -> Option<Pid> {
        self.predecessor.filter(|predecessor| process::parent() == Some(*predecessor))
    }
}

/// The number of binaries that served this state before; it decides the names of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    pub fn of(handover: Option<&Handover>) -> Epoch {
        Epoch(handover.map_or(0, |handover| handover.epoch))
    }

    /// The slot of this binary's first worker.
    pub fn slot(self) -> usize {
        self.0 as usize % 2 * SLOTS
    }

    /// The generation before its first.
    pub fn generation(self) -> u32 {
        self.0 / 2 % 1024 * GENERATIONS
    }
}

/// The binary that was started to take over.
pub(crate) struct Successor {
    child: Child,
    ready: PipeReader,
}

impl Successor {
    /// Starts this program again with the same arguments, and passes it the descriptors.
    pub fn start(
        epoch: Epoch,
        state: BorrowedFd<'_>,
        listeners: &[OwnedFd],
        others: &[BorrowedFd<'_>],
    ) -> io::Result<Successor> {
        let (ready, say) = io::pipe()?;
        let mut passed = vec![state, say.as_fd()];
        passed.extend(listeners.iter().map(AsFd::as_fd));
        let first_other = passed.len();
        passed.extend(others);
        let mut value = (epoch.0 + 1).to_string();
        for (at, fd) in passed.iter().enumerate() {
            inherit::set_inheritable(fd, true)?;
            if at == first_other {
                value.push_str(&format!(" {OTHERS}"));
            }
            value.push_str(&format!(" {}", fd.as_raw_fd()));
        }
        let mut words = env::args_os();
        let program = words.next().ok_or(io::ErrorKind::NotFound)?;
        let started = Command::new(program).args(words).env(VARIABLE, value).spawn();
        for fd in &passed {
            inherit::set_inheritable(fd, false)?;
        }
        Ok(Successor { child: started?, ready })
    }

    /// Readable when the successor has become ready or has ended.
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// The process that takes over.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the successor serves; otherwise it has ended, or will never be ready. Call it when
    /// [`Successor::watched`] is readable.
    pub fn is_ready(&mut self) -> bool {
        let is_ready = matches!(self.ready.read(&mut [0]), Ok(1));
        if !is_ready {
            // The successor may hang with its end of the pipe closed, and must not keep the
            // listeners.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_binaries_that_meet_have_different_slots_and_no_name_comes_back_soon() {
        for epoch in 0..2000 {
            let (this, next, after) = (Epoch(epoch), Epoch(epoch + 1), Epoch(epoch + 2));
            assert_ne!(this.slot(), next.slot());
            assert_eq!(this.slot(), after.slot());
            assert_ne!(this.generation(), after.generation());
        }
    }
}
