//! `sendmmsg+gso`: one message for the packets of a burst to one receiver, segmented by the kernel
//! (`UDP_SEGMENT`), which passes the network stack once for all of them; and one sendmmsg(2) for
//! the messages of all streams.
//!
//! Each datagram keeps its own header, because headers and payloads alternate among the pieces. All
//! segments must have the same length, except the last. A device that can neither segment nor
//! compute checksums refuses the message (`EIO`); the packets then leave one by one.

use seam::{Burst, Packet};
use sys::udp::{Batch, Filling, SEGMENTS_MAX, Sent, Udp};

use super::outlet::{Count, Outlet};
use super::{Sender, SenderRow, Start, Transmit};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::SendmmsgGso,
    name: "sendmmsg+gso",
    how: "timer wheel; one sendmmsg for all bursts, segmented by the kernel",
    needs: "Linux 4.18",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(SendmmsgGso::default())),
};

/// Sends bursts that the kernel segments.
#[derive(Default)]
pub struct SendmmsgGso {
    batch: Batch,
    groups: Vec<usize>,
}

impl SendmmsgGso {
    /// Returns how many packets of `run` left, from its front.
    fn send<'d>(
        &mut self,
        outlet: &'d Outlet<'_>,
        burst: &'d Burst,
        socket: &Udp,
        run: &'d [Packet],
    ) -> Sent {
        self.groups.clear();
        let mut rest = run;
        while !rest.is_empty() {
            let group = group(rest);
            self.groups.push(group);
            rest = &rest[group..];
        }
        let groups = &self.groups;
        let fill = |filling: &mut Filling<'_, 'd>| write(outlet, burst, run, groups, filling);
        let mut sent = self.batch.send(socket, fill);
        // The count so far is a number of messages.
        let refused = self.groups.get(sent.count).copied().unwrap_or(0);
        let taken: usize = self.groups[..sent.count].iter().sum();
        sent.count = taken;
        let is_full =
            sent.error.as_ref().is_some_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        if sent.error.is_some() && !is_full && refused > 1 {
            let singles = &run[taken..taken + refused];
            let alone = self.batch.send(socket, |filling| {
                for packet in singles {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            });
            sent.count += alone.count;
            sent.calls += alone.calls;
            sent.error = alone.error;
        }
        sent
    }
}

impl Transmit for SendmmsgGso {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| self.send(outlet, burst, socket, run));
    }
}

fn write<'d>(
    outlet: &'d Outlet<'_>,
    burst: &'d Burst,
    run: &'d [Packet],
    groups: &[usize],
    filling: &mut Filling<'_, 'd>,
) {
    let mut rest = run;
    for &group in groups {
        let (these, others) = rest.split_at(group);
        filling.datagram(these[0].to);
        for packet in these {
            outlet.write(filling, burst, packet);
        }
        if group > 1 {
            filling.segment(these[0].len() as u16);
        }
        rest = others;
    }
}

/// How many of the first packets can leave as one message: they have the same receiver and the same
/// length, except the last, which may be shorter.
fn group(packets: &[Packet]) -> usize {
    let first = &packets[0];
    let segment = first.len();
    if segment == 0 {
        return 1;
    }
    let most = SEGMENTS_MAX.min(Burst::DATAGRAM_MAX / segment);
    let mut count = 1;
    while count < most && count < packets.len() {
        let next = &packets[count];
        if next.to != first.to || next.is_empty() || next.len() > segment {
            break;
        }
        count += 1;
        if next.len() < segment {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam::{Body, Channel, Instant};
    use std::net::SocketAddr;

    #[test]
    fn a_group_has_one_receiver_and_one_length_and_a_shorter_end() {
        let mut burst = Burst::new(1000);
        let mut push = |port: u16, len: usize| {
            let to = SocketAddr::from(([127, 0, 0, 1], port));
            burst.push(Instant::ZERO, to, Channel::Rtp, &vec![0; len], Body::Bytes(b""));
        };
        [100, 100, 60, 100, 100, 120].into_iter().for_each(|len| push(1, len));
        [120, 0, 0, 1316].into_iter().for_each(|len| push(2, len));
        (0..70).for_each(|_| push(3, 1316));
        (0..70).for_each(|_| push(4, 10));
        let mut rest = burst.packets();
        let mut groups = Vec::new();
        while !rest.is_empty() {
            groups.push(group(rest));
            rest = &rest[groups[groups.len() - 1]..];
        }
        assert_eq!(groups, [3, 2, 1, 1, 1, 1, 1, 49, 21, 64, 6]);
    }
}
