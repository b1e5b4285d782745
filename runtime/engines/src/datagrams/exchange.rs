//! One worker's datagrams: the calls of the service, the replies that wait, the counts.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use memory::{Doing, Loss, Phase};
use seam::{Datagrams, Instant, Replies, SessionId, Train};
use sys::socket;
use sys::udp::{Batch, Filling, Letter, Sent, Udp};

use crate::context::WorkerContext;
use crate::limits::WAIT;

/// The part of a loop that does not depend on how datagrams move.
pub struct Exchange<'a> {
    pub context: &'a WorkerContext<'a>,
    service: &'a dyn Datagrams<State = ()>,
    pub socket: Udp,
    pub replies: Replies,
    datagram_max: usize,
    next_tick: Option<Instant>,
    /// When to read the kernel's count of lost datagrams.
    next_look: Instant,
    /// That part of it that is on the scoreboard.
    dropped: u32,
    now: Instant,
}

impl<'a> Exchange<'a> {
    /// The worker's socket.
    pub fn new(
        context: &'a WorkerContext<'a>,
        service: &'a dyn Datagrams<State = ()>,
    ) -> io::Result<Exchange<'a>> {
        let socket = Udp::adopt(context.listener.try_clone_to_owned()?)?;
        socket::set_nonblocking(&socket, true)?;
        // The kernel joins arriving datagrams. Before Linux 5.0 they come one by one.
        let _ = socket.set_gro(true);
        let limits = service.limits();
        let now = context.now();
        Ok(Exchange {
            context,
            service,
            // Datagrams that the socket lost between two workers count too.
            dropped: context.slot().lost(Loss::Buffer) as u32,
            socket,
            replies: Replies::new(limits),
            datagram_max: limits.datagram_max,
            next_tick: context.is_first.then_some(now),
            next_look: now,
            now,
        })
    }

    /// The longest wait: until the next tick, or the next look at the counts.
    pub fn timeout(&self) -> Duration {
        self.next_tick.map_or(WAIT, |tick| tick.since(self.context.now()).min(WAIT))
    }

    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        self.now = self.context.now();
        self.context.turn(self.now);
        if let Some(due) = self.next_tick.take_if(|moment| *moment <= self.now)
            && self.context.phase() <= Phase::Ready
        {
            self.context.note_late(due, self.now);
            let cx = self.context.cx(self.now, SessionId::NONE);
            self.next_tick = self.service.tick(&cx, &mut self.replies);
        }
    }

    /// The turn is over: counts what it lost, and carries out the effects of the calls.
    pub fn end_turn(&mut self) {
        let slot = self.context.slot();
        slot.lose(Loss::Queue, self.replies.take_dropped());
        self.context.rest(Doing::Working);
        if self.context.effects.is_filled() {
            self.context.carry_out_effects();
        }
        if self.now >= self.next_look {
            self.next_look = self.now + WAIT;
            let dropped = self.socket.dropped().unwrap_or(self.dropped);
            slot.lose(Loss::Buffer, dropped.wrapping_sub(self.dropped).into());
            self.dropped = dropped;
        }
    }

    /// Delivers the datagrams of a letter.
    #[inline]
    pub fn deliver(&mut self, letter: &Letter<'_>) {
        let slot = self.context.slot();
        slot.bytes_in.add(letter.bytes.len() as u64);
        let cx = self.context.cx(self.now, SessionId::NONE);
        for datagram in letter.datagrams() {
            if letter.is_cut || datagram.len() > self.datagram_max {
                slot.lose(Loss::TooLong, 1);
            } else {
                self.service.receive(&cx, letter.from, datagram, &mut self.replies);
            }
        }
    }

    /// Sends what waits by calls for many trains; false if the send buffer is full.
    pub fn flush(&mut self, batch: &mut Batch) -> bool {
        let socket = &self.socket;
        let send = |replies: &Replies| {
            batch.send(socket, |filling| fill(filling, replies.trains(), replies.memory()))
        };
        let flushed = flush(&mut self.replies, send, |to, bytes| socket.send_to(bytes, to, false));
        self.count(&flushed);
        !flushed.is_full
    }

    /// Adds to the scoreboard what was sent.
    fn count(&self, flushed: &Flushed) {
        let slot = self.context.slot();
        slot.bytes_out.add(flushed.bytes);
        slot.lose(Loss::Unsent, flushed.unsent);
    }
}

/// Adds a message for each train of `bytes`.
fn fill<'d>(filling: &mut Filling<'_, 'd>, trains: &[Train], bytes: &'d [u8]) {
    for train in trains {
        filling.datagram(train.to);
        filling.piece(&bytes[train.range()]);
        if train.count > 1 {
            filling.segment(train.segment as u16);
        }
    }
}

/// The outcome of sends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flushed {
    /// Bytes that the kernel took.
    bytes: u64,
    /// Datagrams that it refused.
    unsent: u64,
    /// The send buffer is full.
    is_full: bool,
}

impl Flushed {
    /// Sends each datagram of a train.
    fn send_each(
        &mut self,
        replies: &Replies,
        train: &Train,
        mut send: impl FnMut(SocketAddr, &[u8]) -> io::Result<usize>,
    ) {
        for datagram in replies.datagrams(train) {
            match send(train.to, datagram) {
                Ok(len) => self.bytes += len as u64,
                Err(_) => self.unsent += 1,
            }
        }
    }
}

/// Sends what waits by `send`, which takes trains from the front. A refused train of several
/// datagrams is sent by `send_one`, because the path may be too narrow for segments, or the device
/// cannot cut them (`EINVAL`, `EMSGSIZE`, `EIO`); a refused datagram is lost.
fn flush(
    replies: &mut Replies,
    mut send: impl FnMut(&Replies) -> Sent,
    mut send_one: impl FnMut(SocketAddr, &[u8]) -> io::Result<usize>,
) -> Flushed {
    let mut flushed = Flushed::default();
    while !replies.is_empty() {
        let Sent { count, error, .. } = send(replies);
        let left = &replies.trains()[..count];
        flushed.bytes += left.iter().map(|train| train.range().len() as u64).sum::<u64>();
        replies.leave(count);
        let Some(error) = error else { continue };
        if error.kind() == io::ErrorKind::WouldBlock {
            flushed.is_full = true;
            break;
        }
        if let Some(train) = replies.trains().first().copied() {
            match train.count {
                1 => flushed.unsent += 1,
                _ => flushed.send_each(replies, &train, &mut send_one),
            }
            replies.leave(1);
        }
    }
    flushed
}

/// Whether a receive failed because of an earlier send, which a router or the peer answered by ICMP
/// (icmp(7), udp(7)): the socket is as before.
pub fn is_of_network(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam::DatagramLimits;

    /// Datagrams of these lengths to ports in turn, and a kernel that answers each call so: the
    /// number of trains that it takes, and an error.
    #[track_caller]
    fn check(
        sent: &[(u16, usize)],
        answers: &[(usize, Option<io::ErrorKind>)],
        one: Option<io::ErrorKind>,
        expected: &Flushed,
        waiting: usize,
    ) {
        let mut replies = Replies::new(DatagramLimits::default());
        for (port, len) in sent {
            assert!(replies.send(SocketAddr::from(([127, 0, 0, 1], *port)), &vec![1; *len]));
        }
        let mut answers = answers.iter();
        let send = |_: &Replies| {
            let (count, error) = answers.next().expect("no more calls than these");
            Sent { count: *count, error: error.map(Into::into), calls: 1 }
        };
        let send_one = |_, bytes: &[u8]| one.map_or(Ok(bytes.len()), |kind| Err(kind.into()));
        assert_eq!(&flush(&mut replies, send, send_one), expected);
        assert_eq!(replies.trains().len(), waiting);
        assert!(answers.next().is_none(), "fewer calls than these");
    }

    #[test]
    fn a_full_send_buffer_keeps_what_waits_and_a_refusal_costs_one() {
        use io::ErrorKind::{ConnectionRefused as Refused, InvalidInput, WouldBlock};
        let done = |bytes, unsent, is_full| Flushed { bytes, unsent, is_full };
        let three = [(1, 5), (2, 6), (3, 7)];
        check(&three, &[(3, None)], None, &done(18, 0, false), 0);
        check(&three, &[(1, Some(WouldBlock))], None, &done(5, 0, true), 2);
        check(&three, &[(0, Some(WouldBlock))], None, &done(0, 0, true), 3);
        check(&three, &[(1, Some(Refused)), (1, None)], None, &done(12, 1, false), 0);
        check(&three, &[(2, Some(Refused))], None, &done(11, 1, false), 0);
        let train = [(1, 5), (1, 5), (1, 2), (2, 6)];
        let narrow = &[(0, Some(InvalidInput)), (1, None)];
        check(&train, narrow, None, &done(18, 0, false), 0);
        check(&train, narrow, Some(Refused), &done(6, 3, false), 0);
    }
}
