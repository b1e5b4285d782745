//! The clients of the administration. The supervisor never waits for a client.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use seam::Instant;
use sys::poll::PollFd;
use sys::socket::{self, SockRef};

use super::door::Door;

/// The maximum number of clients; others wait in the kernel's queue.
const CLIENTS_MAX: usize = 16;
/// The time that a client may take, from connect to close.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause in accepting after descriptors ran out.
const BACK_OFF: Duration = Duration::from_millis(250);
const REQUEST_MAX: usize = 32 * 1024;
/// The size of one read.
const SCRATCH: usize = 4096;

#[derive(Debug)]
struct Client {
    stream: OwnedFd,
    until: Instant,
    request: Vec<u8>,
    /// The answer, once the request is complete; nothing is read after that.
    answer: Option<Vec<u8>>,
    sent: usize,
}

/// The clients that are connected.
#[derive(Debug, Default)]
pub(crate) struct AdminQueue {
    clients: Vec<Client>,
    /// Accepting resumes at this time.
    shut_until: Option<Instant>,
}

impl AdminQueue {
    /// The earliest time at which a client's time is over or accepting resumes.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.until).chain(self.shut_until).min()
    }

    /// The descriptors to wait for.
    pub(crate) fn watched<'d>(&'d self, door: &'d Door) -> Vec<PollFd<'d>> {
        let is_open = self.clients.len() < CLIENTS_MAX && self.shut_until.is_none();
        let inside = self.clients.iter().map(|client| {
            let reads = client.answer.is_none();
            PollFd::new(client.stream.as_fd(), reads, !reads)
        });
        inside.chain(is_open.then(|| PollFd::new(door.as_fd(), true, false))).collect()
    }

    /// Closes the connections of clients whose time is over.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.clients.retain(|client| now < client.until);
        self.shut_until = self.shut_until.filter(|until| now < *until);
    }

    /// Accepts, and reads from all clients; returns the places of those that may have
    /// completed a request.
    pub(crate) fn receive(&mut self, door: &Door, now: Instant) -> Vec<usize> {
        while self.clients.len() < CLIENTS_MAX && self.shut_until.is_none() {
            match door.accept() {
                Ok(stream) => self.clients.push(Client {
                    stream,
                    until: now + PATIENCE,
                    request: Vec::new(),
                    answer: None,
                    sent: 0,
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The listener stays readable, so the loop would spin.
                Err(_) => self.shut_until = Some(now + BACK_OFF),
            }
        }
        self.clients.retain_mut(Client::receive);
        let has_request =
            |(_, client): &(usize, &Client)| client.answer.is_none() && !client.request.is_empty();
        let inside = self.clients.iter().enumerate();
        inside.filter(has_request).map(|(place, _)| place).collect()
    }

    pub(crate) fn bytes(&self, place: usize) -> &[u8] {
        &self.clients[place].request
    }

    pub(crate) fn answer(&mut self, place: usize, words: Vec<u8>) {
        self.clients[place].answer = Some(words);
    }

    /// Sends answers, as far as the clients take them.
    pub(crate) fn send(&mut self) {
        self.clients.retain_mut(Client::send);
    }

    /// Whether an answer has not been sent whole yet.
    pub(crate) fn is_sending(&self) -> bool {
        self.clients.iter().any(|client| client.answer.is_some())
    }
}

impl Client {
    /// Reads the request; false if the client is gone.
    fn receive(&mut self) -> bool {
        let mut scratch = [0; SCRATCH];
        while self.answer.is_none() && self.request.len() < REQUEST_MAX {
            match socket::recv(&self.stream, &mut scratch) {
                Ok(0) => return false,
                Ok(len) => self.request.extend_from_slice(&scratch[..len]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        self.answer.is_some() || self.request.len() < REQUEST_MAX
    }

    /// Sends the answer, as far as the client takes it; false when it is sent.
    fn send(&mut self) -> bool {
        let Some(answer) = &self.answer else { return true };
        while self.sent < answer.len() {
            match socket::send(&self.stream, &answer[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        // It ends at once even if a forked worker has a copy of the descriptor; a client that is
        // gone needs no end.
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
        false
    }
}
