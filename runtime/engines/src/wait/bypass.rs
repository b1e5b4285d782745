//! TCP in user space: frames of a network interface come and leave through AF_XDP sockets, one for
//! each receive queue, and smoltcp is the TCP ([`stack`]).
//!
//! A program on the interface ([`Queues`]) picks the frames for one address and port. Everything
//! else on the interface goes on to the kernel. The sockets and the program belong to the process:
//! the kernel removes both however it ends.
//!
//! The loop is the one of the readiness engines ([`readiness`](crate::parts::readiness)). A turn of
//! [`Waiter::wait`] is: send what sessions have written, wait by one poll(2), which also makes the
//! kernel send the frames, take in the frames that have come, and report which sessions may go on.
//! So a batch of requests costs one system call, however many connections it is for.

mod counts;
mod flow;
mod frame;
mod open;
mod port;
mod stack;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use memory::Phase;
use seam::{Instant, Peer};
use sys::epoll::{Epoll, Events};
use sys::poll::{PollFd, poll};
use sys::ready::{Interest, Ready};
use sys::xdp::XdpSocket;

use self::counts::{FrameCounts, add};
use self::flow::{FlowSettings, FlowStage, Tcp};
use self::stack::TcpStack;
use crate::accept::source::AcceptSource;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::member::Member;
use crate::parts::readiness::{KEY_LISTENER, Watcher, serve};
use crate::status::Gauge;
use crate::wait::mechanism::Mechanism;

pub use self::open::{Queues, check_bypass};

/// The input buffer of a connection, if `--tcp-buffer` names none: with an output buffer of twice
/// the size, an idle connection takes less than 8 KiB.
const BUFFER: usize = 2048;
/// Frames that are taken in before sessions go on.
const FRAMES: usize = 256;
/// The wait for free frames, when there are none to send.
const FULL_LOOK: Duration = Duration::from_millis(1);

/// The parts of the loop, in [`FrameCounts`].
const TCP: usize = 0;
const SESSIONS: usize = 1;

/// The mechanism of workers with a queue each, which share the program on the interface.
pub struct Bypass<'m>(pub &'m Queues);

impl Mechanism for Bypass<'_> {
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault> {
        let Queues { place, sockets, counts, .. } = self.0;
        // A worker that panicked left only frames behind.
        let socket = sockets[member.index].lock().unwrap_or_else(PoisonError::into_inner);
        let limits = &context.knobs.limits;
        let input = context.knobs.loops.buffer.unwrap_or(BUFFER);
        let settings = FlowSettings {
            input,
            output: 2 * input,
            nodelay: limits.nodelay,
            keepalive: limits.keepalive,
        };
        let stack = TcpStack::new(*place, settings, limits.backlog as usize, context.id.slot());
        let epoll = Epoll::new().map_err(Fault::Wait)?;
        let events = Events::with_capacity(4);
        let (listening, turned) = (false, context.now());
        let counts = &counts[member.index];
        serve(context, Waiter { context, socket, counts, stack, epoll, events, listening, turned })
    }

    fn gauges(&self) -> Vec<Gauge> {
        counts::gauges(&self.0.counts)
    }
}

/// A queue, its connections, and the descriptors of the server.
struct Waiter<'a, 'q> {
    context: &'a WorkerContext<'a>,
    socket: MutexGuard<'q, XdpSocket>,
    counts: &'q FrameCounts,
    stack: TcpStack,
    epoll: Epoll,
    events: Events,
    /// New connections are wanted.
    listening: bool,
    /// When sessions got their turn.
    turned: Instant,
}

impl Waiter<'_, '_> {
    /// Takes in the frames that have come.
    fn receive(&mut self, now: Instant) {
        let XdpSocket { receiver, sender, .. } = &mut *self.socket;
        for _ in 0..FRAMES {
            let Some(frame) = receiver.take() else { return };
            self.stack.receive(frame, now, sender);
        }
    }

    /// Lets the kernel send, and sleeps until a frame, an event of the server, or `timeout`.
    fn sleep(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut list = [
            PollFd::new(self.socket.as_fd(), true, false),
            PollFd::new(self.epoll.as_fd(), true, false),
        ];
        poll(&mut list, timeout)?;
        add(&self.counts.calls[0], 1);
        let has_event = list[1].readable();
        if self.socket.sender.must_kick() {
            self.socket.sender.kick()?;
            add(&self.counts.calls[1], 1);
        }
        if has_event {
            self.epoll.wait(&mut self.events, Some(Duration::ZERO))?;
            ready.extend(self.events.iter());
        }
        Ok(())
    }

    /// Counts the time since `from` for a part of the loop; returns the time now.
    fn spend(&self, part: usize, from: Instant) -> Instant {
        let now = self.context.now();
        add(&self.counts.loop_ns[part], now.since(from).as_nanos() as u64);
        now
    }

    fn is_listener(&self, fd: BorrowedFd<'_>) -> bool {
        fd.as_raw_fd() == self.context.accept_source.fd().as_raw_fd()
    }
}

impl Watcher for Waiter<'_, '_> {
    type Socket = Tcp;

    const TELLS_EDGES: bool = true;

    fn is_edge(&self) -> bool {
        true
    }

    fn take(&mut self, _source: &dyn AcceptSource) -> io::Result<(Tcp, Peer)> {
        let tcp = self.stack.accept().ok_or(io::ErrorKind::WouldBlock)?;
        let peer = SocketAddr::V4(tcp.flow.borrow().peer);
        Ok((tcp, Peer::Net(peer)))
    }

    fn has_queue(&self) -> bool {
        self.stack.has_queue()
    }

    fn is_flushed(&mut self, phase: Phase) -> bool {
        phase >= Phase::Forced || !self.stack.owes()
    }

    fn can_watch(&self, _socket: &Tcp) -> Result<(), i32> {
        Ok(())
    }

    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        if self.is_listener(fd) {
            self.listening = true;
            return Ok(());
        }
        self.epoll.add(fd, interest, key)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if self.is_listener(fd) {
            self.listening = false;
            return Ok(());
        }
        self.epoll.remove(fd)
    }

    fn watch(&mut self, tcp: &Tcp, _interest: Interest, key: u64) -> io::Result<()> {
        let flow = &mut *tcp.flow.borrow_mut();
        flow.stage = FlowStage::Served(key);
        // Its first input may be there.
        tcp.touch(flow);
        Ok(())
    }

    fn modify(&mut self, _tcp: &Tcp, _interest: Interest, _key: u64) -> io::Result<()> {
        // Each change is reported once, whatever the session waits for.
        Ok(())
    }

    fn close(&mut self, tcp: Tcp) {
        self.stack.release(&tcp, self.context.now());
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut now = self.spend(SESSIONS, self.turned);
        let until = timeout.map_or(Instant::NEVER, |timeout| now + timeout);
        self.stack.is_closed = self.context.phase() > Phase::Ready;
        // Input that a session left unread, or that came before it was accepted.
        self.stack.report(ready);
        loop {
            self.stack.send(now, &mut self.socket.sender);
            let is_awaited = self.listening && self.stack.has_queue();
            let mut next = until.min(self.stack.next().unwrap_or(Instant::NEVER));
            if self.stack.is_touched() {
                next = next.min(now + FULL_LOOK);
            }
            let left = match ready.is_empty() && !is_awaited {
                true => (next != Instant::NEVER).then(|| next.since(now)),
                false => Some(Duration::ZERO),
            };
            self.spend(TCP, now);
            self.sleep(left, ready)?;
            now = self.context.now();
            self.stack.wake_due(now);
            self.receive(now);
            self.stack.report(ready);
            if self.listening && self.stack.has_queue() {
                ready.push(Ready { key: KEY_LISTENER, readable: true, ..NOTHING });
            }
            if !ready.is_empty() || now >= until {
                self.turned = self.spend(TCP, now);
                self.counts.note(&self.socket);
                return Ok(());
            }
        }
    }
}

const NOTHING: Ready =
    Ready { key: 0, readable: false, writable: false, hangup: false, error: false };

impl Drop for Waiter<'_, '_> {
    fn drop(&mut self) {
        // Resets of a forced end leave with the last call.
        self.stack.send(self.context.now(), &mut self.socket.sender);
        let _ = self.socket.sender.kick();
    }
}
