//! Queues in the kernel that hold packets until they are due, and the record of their contents.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use seam::Instant;

use super::outlet::{Count, Outlet};
use super::send_plan::SendPlan;

/// A queue in the kernel in which packets wait until they are due.
pub trait Queue {
    /// Hands a plan over; returns the waiting messages in their order. `moment` maps a due time to
    /// the time of leaving. Packets that were refused or have no bytes are recorded in the plan.
    ///
    /// # Errors
    /// The queue is broken and must no longer be used.
    fn hand_over(
        &mut self,
        plan: &mut SendPlan,
        outlet: &Outlet<'_>,
        moment: &dyn Fn(Instant) -> Instant,
        count: &mut Count,
    ) -> io::Result<Vec<Handed>>;

    /// The number of messages that have left since the queue was opened.
    ///
    /// # Errors
    /// As [`Queue::hand_over`].
    fn left(&mut self) -> io::Result<u64>;

    /// Discards the waiting messages.
    ///
    /// # Errors
    /// As [`Queue::hand_over`].
    fn purge(&mut self) -> io::Result<()>;

    /// The longest time by which packets are handed over ahead.
    fn window(&self) -> Duration;

    fn packets_max(&self) -> usize {
        1 << 16
    }

    /// Whether messages are counted as they leave, so that more can be handed over at any time. A
    /// queue that does not count takes one plan at a time and reports its end.
    fn is_counted(&self) -> bool {
        true
    }

    /// Whether the plan that was handed over has ended.
    fn has_ended(&self) -> bool {
        false
    }

    /// Readable when a plan has ended.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A message that waits in a queue.
pub struct Handed {
    /// The stream.
    pub owner: u32,
    pub packets: usize,
    pub bytes: usize,
    pub leaves: Instant,
}

/// Messages in the order in which they leave.
#[derive(Default)]
pub struct Waiting {
    messages: VecDeque<Handed>,
    left: u64,
}

impl Waiting {
    pub fn extend(&mut self, messages: impl IntoIterator<Item = Handed>) {
        self.messages.extend(messages);
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The planned moments of the first and the last message.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        Some((self.messages.front()?.leaves, self.messages.back()?.leaves))
    }

    /// Records that `left` messages have left since the beginning: calls `each` with owner and
    /// number of packets of the new ones.
    pub fn land(&mut self, left: u64, mut each: impl FnMut(u32, usize)) -> Count {
        let mut count = Count::default();
        // A surplus comes from packets of other senders, or from a message that was split on its
        // way.
        while self.left < left {
            self.left += 1;
            let Some(message) = self.messages.pop_front() else { continue };
            count.packets += message.packets;
            count.bytes += message.bytes;
            each(message.owner, message.packets);
        }
        count
    }

    /// Records that the queue was discarded when `left` messages had left. Returns the count of
    /// these, and the number of packets of each owner that never left. Packets due before `lost`
    /// failed.
    pub fn clear(&mut self, left: u64, lost: Instant) -> (Count, HashMap<u32, usize>) {
        let mut count = self.land(left, |_, _| {});
        let mut unsent = HashMap::new();
        for message in self.messages.drain(..) {
            if message.leaves < lost {
                count.failed += message.packets;
            } else {
                *unsent.entry(message.owner).or_insert(0) += message.packets;
            }
        }
        (count, unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_has_left_or_failed_or_is_given_back() {
        let message = |at: u64| {
            let leaves = Instant::from_ns(at);
            Handed { owner: at as u32 % 3, packets: 2, bytes: 10, leaves }
        };
        let mut waiting = Waiting::default();
        waiting.extend((10..20).map(message));
        assert_eq!(waiting.span(), Some((Instant::from_ns(10), Instant::from_ns(19))));
        let mut told = Vec::new();
        let count = waiting.land(2, |owner, packets| told.push((owner, packets)));
        assert_eq!((count.packets, count.bytes, told), (4, 20, vec![(1, 2), (2, 2)]));
        assert_eq!(waiting.land(2, |_, _| panic!("told twice")).packets, 0);
        // Two more have left, those of 14 and 15 are too late, and four are given back.
        let (count, unsent) = waiting.clear(4, Instant::from_ns(16));
        assert_eq!((count.packets, count.failed), (4, 4));
        assert_eq!(unsent, HashMap::from([(0, 2), (1, 4), (2, 2)]));
        assert!(waiting.is_empty() && waiting.span().is_none());
        // Packets of other senders are not counted.
        assert_eq!(waiting.land(9, |_, _| panic!("of nobody")), Count::default());
    }
}
