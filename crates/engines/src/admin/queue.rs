//! The chairs for visitors of the administration, and whoever sits on them. Nobody is waited for.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use seam::Instant;
use sys::poll::PollFd;

use super::door::{Door, Stream};

/// Visitors at one time; others wait at the door.
const CHAIRS: usize = 16;
/// How long a visitor may take for everything.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long nobody is let in when descriptors ran out.
const BACK_OFF: Duration = Duration::from_millis(250);
/// What a visitor may say.
const HEARD_MAX: usize = 32 * 1024;
/// What is read at once.
const SCRATCH: usize = 4096;

/// Somebody on a chair.
#[derive(Debug)]
struct Visitor {
    stream: Stream,
    until: Instant,
    said: Vec<u8>,
    /// What he is told, once he has finished; he is heard no more then.
    answer: Option<Vec<u8>>,
    told: usize,
}

/// The chairs, and whoever sits on them.
#[derive(Debug, Default)]
pub(crate) struct AdminQueue {
    visitors: Vec<Visitor>,
    /// Nobody is let in before.
    shut_until: Option<Instant>,
}

/// Somebody has finished.
pub(crate) struct Asked {
    chair: usize,
}

impl AdminQueue {
    /// When somebody has been here for too long, or the door opens again.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.visitors.iter().map(|visitor| visitor.until).chain(self.shut_until).min()
    }

    /// What to wait for.
    pub(crate) fn watched<'d>(&'d self, door: &'d Door) -> Vec<PollFd<'d>> {
        let is_open = self.visitors.len() < CHAIRS && self.shut_until.is_none();
        let inside = self.visitors.iter().map(|visitor| {
            let speaks = visitor.answer.is_none();
            PollFd::new(visitor.stream.as_fd(), speaks, !speaks)
        });
        inside.chain(is_open.then(|| PollFd::new(door.as_fd(), true, false))).collect()
    }

    /// Sends those away who have been here for too long.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.visitors.retain(|visitor| now < visitor.until);
        self.shut_until = self.shut_until.filter(|until| now < *until);
    }

    /// Lets those in who wait, and hears everybody; says who may have finished.
    pub(crate) fn listen(&mut self, door: &Door, now: Instant) -> Vec<Asked> {
        while self.visitors.len() < CHAIRS && self.shut_until.is_none() {
            match door.accept() {
                Ok(stream) => self.visitors.push(Visitor {
                    stream,
                    until: now + PATIENCE,
                    said: Vec::new(),
                    answer: None,
                    told: 0,
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A listener with somebody to accept stays readable, and we would spin.
                Err(_) => self.shut_until = Some(now + BACK_OFF),
            }
        }
        self.visitors.retain_mut(Visitor::hear);
        let heard =
            |(_, visitor): &(usize, &Visitor)| visitor.answer.is_none() && !visitor.said.is_empty();
        let inside = self.visitors.iter().enumerate();
        inside.filter(heard).map(|(chair, _)| Asked { chair }).collect()
    }

    /// What he has said.
    pub(crate) fn said(&self, asked: &Asked) -> &[u8] {
        &self.visitors[asked.chair].said
    }

    /// What he shall be told.
    pub(crate) fn answer(&mut self, asked: &Asked, words: Vec<u8>) {
        self.visitors[asked.chair].answer = Some(words);
    }

    /// Tells everybody as much as he takes.
    pub(crate) fn tell(&mut self) {
        self.visitors.retain_mut(Visitor::tell);
    }

    /// Whether somebody has not been told all yet.
    pub(crate) fn is_telling(&self) -> bool {
        self.visitors.iter().any(|visitor| visitor.answer.is_some())
    }
}

impl Visitor {
    /// Takes in what was said; false if he is gone.
    fn hear(&mut self) -> bool {
        let mut scratch = [0; SCRATCH];
        while self.answer.is_none() && self.said.len() < HEARD_MAX {
            match self.stream.read(&mut scratch) {
                Ok(0) => return false,
                Ok(len) => self.said.extend_from_slice(&scratch[..len]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        self.answer.is_some() || self.said.len() < HEARD_MAX
    }

    /// Says what he takes of the answer; false when that is over.
    fn tell(&mut self) -> bool {
        let Some(answer) = &self.answer else { return true };
        while self.told < answer.len() {
            match self.stream.write(&answer[self.told..]) {
                Ok(len) => self.told += len,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        self.stream.end();
        false
    }
}
