//! `sendfile-gso`: packets to one receiver as one message of file pages, segmented by the kernel.
//! The payload is not copied, and the message passes the network stack once.
//!
//! If packets lie in a file one after the other, headers included, one sendfile(2) sends them.
//! QuickTime's hint tracks were made for this; it is MARS's path with segmentation. If each header
//! is made at run time, headers and file pages alternate in a pipe.
//!
//! A message has room for 17 page fragments, so headers in between limit it to seven packets of
//! 1316 bytes. Passing a page to the kernel also takes as long as copying 1316 bytes of it. So the
//! first form costs half as much as copying fifty packets, and the second four times as much.

use std::io;
use std::ops::Range;

use seam::{Burst, Packet, Payload, Source};
use sys::udp::{FRONT_MAX, Leaf, PIECES_MAX, Pages, Sent, Udp, pieces_of, send_records};

use super::gso::{self, Gso};
use super::maps::Maps;
use super::outlet::{Count, Outlet};
use super::wheel_sendto::WheelSendto;
use super::{Row, Sender, Start, Transmit};

pub(super) const ROW: Row = Row {
    sender: Sender::SendfileGso,
    name: "sendfile-gso",
    how: "timer wheel; pages of a burst, segmented by the kernel",
    needs: "Linux 6.5",
    sends_files: true,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(SendfileGso::new()?)),
};

/// Sends pages.
pub struct SendfileGso {
    pages: Pages,
    maps: Maps,
    /// The sender for packets in memory.
    copied: Gso,
    /// The sender for single packets of files, and for packets that cannot leave as pages.
    alone: WheelSendto,
}

/// How the first packets of a run can leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Complete packets one after the other in a file.
    Records(usize),
    /// Headers, and payloads from a file.
    Pages(usize),
    /// One packet of a file, read and sent.
    Alone,
    /// Packets whose payloads are in memory.
    Copied(usize),
}

impl SendfileGso {
    /// # Errors
    /// No descriptor is left, or no room for pipes.
    pub fn new() -> io::Result<SendfileGso> {
        let (maps, copied, alone) = (Maps::default(), Gso::new(false), WheelSendto::default());
        Ok(SendfileGso { pages: Pages::new()?, maps, copied, alone })
    }

    fn send(&mut self, outlet: &Outlet<'_>, burst: &Burst, socket: &Udp, run: &[Packet]) -> Sent {
        let mut sent = Sent::default();
        while sent.count < run.len() && sent.error.is_none() {
            let rest = &run[sent.count..];
            let (count, took) = match form(rest, burst, |packet| self.maps.has(outlet, packet)) {
                Form::Copied(count) => {
                    let took = self.copied.send(outlet, burst, socket, &rest[..count]);
                    sent.calls += took.calls;
                    sent.error = took.error;
                    (took.count, Ok(0))
                }
                Form::Alone => (1, self.alone.send(outlet, burst, &rest[0], socket)),
                Form::Records(count) => (count, self.records(outlet, socket, &rest[..count])),
                Form::Pages(count) => (count, self.pages(outlet, burst, socket, &rest[..count])),
            };
            match took {
                Ok(calls) => {
                    sent.calls += calls;
                    sent.count += count;
                }
                Err(error) if count == 1 || is_final(&error) => sent.error = Some(error),
                Err(_) => self.one_by_one(outlet, burst, socket, &rest[..count], &mut sent),
            }
        }
        sent
    }

    /// By one sendfile(2).
    fn records(&self, outlet: &Outlet<'_>, socket: &Udp, records: &[Packet]) -> io::Result<usize> {
        let (first, last) = (&records[0], &records[records.len() - 1]);
        let Some((source, range)) = part(first) else { return Err(io::ErrorKind::NotFound.into()) };
        let file = outlet.files.file(source).ok_or(io::ErrorKind::NotFound)?;
        let end = part(last).map_or(range.end, |(_, range)| range.end);
        send_records(socket, first.to, first.len() as u16, file, range.start..end)
    }

    /// Through a pipe.
    fn pages(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        socket: &Udp,
        packets: &[Packet],
    ) -> io::Result<usize> {
        let maps = &self.maps;
        let leaf = |packet: &'_ Packet| {
            let (source, range) = part(packet)?;
            let file = maps.of(outlet, source)?;
            Some(Leaf { front: burst.front(packet), file, range: range.clone() })
        };
        let leaves: Option<Vec<Leaf<'_>>> = packets.iter().map(leaf).collect();
        let leaves = leaves.ok_or(io::ErrorKind::NotFound)?.into_iter();
        self.pages.send(socket, packets[0].to, packets[0].len() as u16, leaves)
    }

    /// Sends packets that could not leave as one message.
    fn one_by_one(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        socket: &Udp,
        packets: &[Packet],
        sent: &mut Sent,
    ) {
        for packet in packets {
            match self.alone.send(outlet, burst, packet, socket) {
                Ok(calls) => {
                    sent.calls += calls;
                    sent.count += 1;
                }
                Err(error) => {
                    sent.error = Some(error);
                    return;
                }
            }
        }
    }
}

/// Whether other calls would fail too, or would send packets twice.
fn is_final(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::UnexpectedEof)
}

impl Transmit for SendfileGso {
    fn sends_open_files(&self) -> bool {
        true
    }

    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        self.maps.prepare(burst.packets());
        outlet.each_run(burst, count, |socket, run| self.send(outlet, burst, socket, run));
    }
}

/// The file of a packet, and its range.
fn part(packet: &Packet) -> Option<(&Source, &Range<u64>)> {
    match &packet.payload {
        Payload::File(source, range) if !range.is_empty() => Some((source, range)),
        _ => None,
    }
}

/// How the first of `packets` leave; `has` tells whether a packet's file is mapped.
fn form(packets: &[Packet], burst: &Burst, has: impl Fn(&Packet) -> bool) -> Form {
    let first = &packets[0];
    let Some((source, range)) = part(first) else {
        let is_memory = |packet: &&Packet| !matches!(packet.payload, Payload::File(..));
        let count = packets.iter().take_while(is_memory).count();
        // An empty range of a file counts as memory.
        return if count == 0 { Form::Alone } else { Form::Copied(count) };
    };
    let group = &packets[..gso::group(packets)];
    if burst.front(first).is_empty() {
        let mut end = range.end;
        let follows = |packet: &&Packet| {
            let Some((other, next)) = part(packet) else { return false };
            let follows = other == source && next.start == end && burst.front(packet).is_empty();
            end = next.end;
            follows
        };
        let count = 1 + group[1..].iter().take_while(follows).count();
        if count > 1 {
            return Form::Records(count);
        }
    }
    let mut room = PIECES_MAX;
    let fits = |packet: &&Packet| {
        let Some((_, range)) = part(packet) else { return false };
        let front = burst.front(packet).len();
        let pieces = pieces_of(range) + usize::from(front > 0);
        let fits = pieces <= room && front <= FRONT_MAX && has(packet);
        room = room.saturating_sub(pieces);
        fits
    };
    match group.iter().take_while(fits).count() {
        0 | 1 => Form::Alone,
        count => Form::Pages(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam::{AssetId, Body, Channel, Instant};
    use std::net::SocketAddr;

    /// A packet: its receiver's port, its head, and the place of its payload in a file, if it has
    /// one.
    type Sketch<'a> = (u16, &'a [u8], Option<Range<u64>>);

    fn forms(packets: &[Sketch<'_>]) -> Vec<Form> {
        let mut burst = Burst::new(1000);
        let source = Source::Asset(AssetId(0));
        for (port, head, range) in packets {
            let body = match range {
                Some(range) => Body::File(source.clone(), range.clone()),
                None => Body::Bytes(b"0123456789"),
            };
            let to = SocketAddr::from(([127, 0, 0, 1], *port));
            burst.push(Instant::ZERO, to, Channel::Rtp, head, body);
        }
        let mut rest = burst.packets();
        let mut forms = Vec::new();
        while !rest.is_empty() {
            let form = form(rest, &burst, |packet| {
                part(packet).is_some_and(|(_, range)| range.end <= 1_000_000)
            });
            let (Form::Records(count) | Form::Pages(count) | Form::Copied(count)) = form else {
                forms.push(form);
                rest = &rest[1..];
                continue;
            };
            forms.push(form);
            rest = &rest[count..];
        }
        forms
    }

    #[test]
    fn records_follow_one_another_and_leaves_have_heads() {
        let at = |number: u64| Some(number * 1000..number * 1000 + 1000);
        let record = |number| (1, &b""[..], at(number));
        let leaf = |number| (1, &[0; 12][..], at(number));
        // The packets must go to one receiver and have no gap between them, and the message must
        // not be longer than a datagram may be.
        let mut packets: Vec<_> = (0..100).map(record).collect();
        assert_eq!(forms(&packets), [Form::Records(64), Form::Records(36)]);
        packets[1].0 = 2;
        packets[4] = record(9);
        assert_eq!(forms(&packets[..5]), [Form::Alone, Form::Alone, Form::Records(2), Form::Alone]);
        // With headers, pieces are counted: two in each packet, and one more where a page ends.
        let packets: Vec<_> = (0..17).map(leaf).collect();
        assert_eq!(forms(&packets), [Form::Pages(8), Form::Pages(7), Form::Pages(2)]);
        // Packets in memory are copied; packets that are not mapped are read.
        let mut packets: Vec<_> = (0..5).map(leaf).collect();
        packets[1] = (1, &[], None);
        packets[2] = (1, &[], None);
        packets[4] = leaf(10_000);
        let [alone, copied] = [Form::Alone, Form::Copied(2)];
        assert_eq!(forms(&packets), [alone, copied, alone, alone]);
    }
}
