//! Datagrams in, datagrams out: the seam of services without connections.
//!
//! A [`Service`](crate::Service) has a session for each peer; a [`Datagrams`] gets each datagram
//! with its sender and may answer to any address, or to none. Datagrams can be lost, come twice,
//! and overtake each other, and the sender's address can be forged: a reply should not be much
//! longer than its request, unless the peer has proved its address (RFC 9000, section 8).
//!
//! The surprising thing: [`Replies`] joins consecutive datagrams of one length to one address into
//! a [`Train`], which the kernel takes in one piece and cuts again (`UDP_SEGMENT`, udp(7)).

use core::net::SocketAddr;
use core::ops::Range;

use crate::{Cx, Instant, Share};

/// A protocol of single datagrams with its state, written once for every way of moving them.
///
/// No call may block.
pub trait Datagrams: Sync {
    /// The state that all workers share; the launcher places it.
    type State: Share;

    /// The limits of datagrams and of waiting output.
    fn limits(&self) -> DatagramLimits {
        DatagramLimits::default()
    }

    /// Handles a datagram of at most [`DatagramLimits::datagram_max`] bytes, and appends replies.
    /// `cx.me` names no session. [`Cx::answered`] counts requests, if the protocol has any.
    fn receive(
        &self,
        cx: &Cx<'_, Self::State>,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Replies,
    );

    /// Work that no datagram causes, such as a broadcast: one worker calls it at its start, and
    /// again at the moment that it returns. `None` ends that.
    fn tick(&self, cx: &Cx<'_, Self::State>, out: &mut Replies) -> Option<Instant> {
        let _ = (cx, out);
        None
    }
}

/// The limits of datagrams, and of the output that waits in one worker, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramLimits {
    /// The longest datagram: longer ones are counted and not delivered, longer replies are dropped
    /// and counted.
    pub datagram_max: usize,
    /// The output that may wait in a worker: a reply beyond that is dropped and counted. Workers
    /// send from half of it on, so one call should append at most the other half.
    pub output_max: usize,
}

impl Default for DatagramLimits {
    /// The longest datagram of IPv4 (RFC 791: 65,535 less two headers), and a MiB of output.
    fn default() -> DatagramLimits {
        DatagramLimits { datagram_max: 65_507, output_max: 1 << 20 }
    }
}

/// Consecutive datagrams to one address, of one length except that the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The receiver.
    pub to: SocketAddr,
    /// The length of each datagram but the last.
    pub segment: usize,
    /// The number of datagrams, at least one.
    pub count: usize,
    start: usize,
    len: usize,
}

/// The datagrams of a train at the most (`UDP_MAX_SEGMENTS` before Linux 6.10).
const SEGMENTS_MAX: usize = 64;
/// The bytes of a train at the most: an IPv6 packet's length has 16 bits, and a header is in it.
const TRAIN_MAX: usize = 65_000;
/// The longest datagram in a train of several. The kernel refuses segments that it would have to
/// fragment, and this fits an Ethernet frame with IPv6: 1500 less 40 and 8.
const SEGMENT_MAX: usize = 1452;

impl Train {
    /// Its place in [`Replies::memory`].
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    fn takes(&self, len: usize) -> bool {
        let is_even = self.len == self.segment * self.count;
        let fits = self.count < SEGMENTS_MAX && self.len + len <= TRAIN_MAX;
        is_even && fits && self.segment <= SEGMENT_MAX && 0 < len && len <= self.segment
    }
}

/// The datagrams that a worker is about to send. The memory is kept for the next ones.
#[derive(Debug)]
pub struct Replies {
    limits: DatagramLimits,
    bytes: Vec<u8>,
    trains: Vec<Train>,
    /// The trains before this one have left.
    left: usize,
    dropped: u64,
}

impl Replies {
    /// No replies, under these limits.
    pub fn new(limits: DatagramLimits) -> Replies {
        Replies { limits, bytes: Vec::new(), trains: Vec::new(), left: 0, dropped: 0 }
    }

    /// Appends a datagram to `to`; false if it is dropped because of a limit.
    #[inline]
    pub fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> bool {
        self.write(to, |bytes| {
            bytes.extend_from_slice(datagram);
            true
        })
    }

    /// Lets `write` append the bytes of a datagram to `to`; if it returns false there is none.
    /// Returns whether a datagram was appended.
    ///
    /// # Panics
    /// If `write` removes bytes that were there before.
    #[inline]
    pub fn write(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = self.bytes.len();
        let is_wanted = write(&mut self.bytes);
        let end = self.bytes.len();
        assert!(end >= start, "expected a function that appends, found one that removes");
        let len = end - start;
        let fits = len <= self.limits.datagram_max && end <= self.limits.output_max;
        if !is_wanted || !fits {
            self.bytes.truncate(start);
            self.dropped += u64::from(is_wanted);
            return false;
        }
        self.join(to, start, len);
        true
    }

    #[inline]
    fn join(&mut self, to: SocketAddr, start: usize, len: usize) {
        match self.trains[self.left..].last_mut() {
            Some(last) if last.to == to && last.start + last.len == start && last.takes(len) => {
                last.count += 1;
                last.len += len;
            }
            _ => self.trains.push(Train { to, segment: len, count: 1, start, len }),
        }
    }

    /// The limits.
    pub fn limits(&self) -> DatagramLimits {
        self.limits
    }

    /// The replies that have not left, oldest first.
    pub fn trains(&self) -> &[Train] {
        &self.trains[self.left..]
    }

    /// The bytes of all trains.
    pub fn memory(&self) -> &[u8] {
        &self.bytes
    }

    /// The datagrams of a train.
    pub fn datagrams(&self, train: &Train) -> impl Iterator<Item = &[u8]> + use<'_> {
        let (bytes, segment) = (&self.bytes[train.range()], train.segment);
        (0..train.count).map(move |at| &bytes[at * segment..bytes.len().min((at + 1) * segment)])
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.left == self.trains.len()
    }

    /// Whether a worker should send before it delivers the next datagram.
    pub fn is_high(&self) -> bool {
        self.bytes.len() > self.limits.output_max / 2
    }

    /// The first `count` trains have left.
    pub fn leave(&mut self, count: usize) {
        self.left += count;
        if self.is_empty() {
            self.bytes.clear();
            self.trains.clear();
            self.left = 0;
        }
    }

    /// The number of datagrams that were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    /// Takes the bytes out, for an engine that owns them while it sends, until
    /// [`Replies::put_back`].
    pub fn take_bytes(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes)
    }

    /// Puts the bytes of [`Replies::take_bytes`] back.
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Sends datagrams of these ports and lengths; the trains' segments and counts.
    #[track_caller]
    fn check(sent: &[(u16, usize)], expected: &[(usize, usize)]) {
        let mut replies = Replies::new(DatagramLimits::default());
        for (at, (port, len)) in sent.iter().enumerate() {
            assert!(replies.send(to(*port), &vec![at as u8; *len]));
        }
        let trains: Vec<_> = replies.trains().iter().map(|it| (it.segment, it.count)).collect();
        assert_eq!(trains, expected);
        let each = replies
            .trains()
            .iter()
            .flat_map(|train| replies.datagrams(train).map(|bytes| (train.to, bytes.to_vec())));
        let wanted = sent.iter().enumerate();
        let wanted = wanted.map(|(at, (port, len))| (to(*port), vec![at as u8; *len]));
        assert!(each.eq(wanted), "each datagram is found in its train");
    }

    #[test]
    fn equal_datagrams_to_one_address_make_a_train() {
        check(&[(1, 9), (1, 9), (1, 9)], &[(9, 3)]);
        check(&[(1, 9), (1, 4), (1, 9), (1, 9)], &[(9, 2), (9, 2)]);
        check(&[(1, 9), (1, 10), (2, 10), (1, 10)], &[(9, 1), (10, 1), (10, 1), (10, 1)]);
        check(&[(1, 0), (1, 0), (1, 5), (1, 0)], &[(0, 1), (0, 1), (5, 1), (0, 1)]);
        check(&[(1, SEGMENT_MAX + 1); 2], &[(SEGMENT_MAX + 1, 1); 2]);
        check(&[(1, SEGMENT_MAX); 46], &[(SEGMENT_MAX, 44), (SEGMENT_MAX, 2)]);
        check(&[(1, 8); 65], &[(8, 64), (8, 1)]);
    }

    #[test]
    fn limits_drop_and_count_and_unwanted_ones_do_not() {
        let limits = DatagramLimits { datagram_max: 4, output_max: 10 };
        let mut replies = Replies::new(limits);
        assert!(!replies.send(to(1), b"12345"));
        assert!(!replies.write(to(1), |bytes| {
            bytes.extend(b"no");
            false
        }));
        assert!(replies.is_empty() && replies.take_dropped() == 1);
        assert!(replies.send(to(1), b"1234") && !replies.is_high());
        assert!(replies.send(to(2), b"1234") && replies.is_high());
        assert!(!replies.send(to(3), b"123") && replies.send(to(3), b"12"));
        assert_eq!(replies.take_dropped(), 1);
        replies.leave(2);
        assert_eq!(replies.memory()[replies.trains()[0].range()], *b"12");
        assert!(!replies.send(to(3), b"1"), "memory is free when all have left");
        replies.leave(1);
        assert!(replies.is_empty() && replies.send(to(3), b"1234"));
    }
}
