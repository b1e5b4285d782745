//! The senders: announced ones, and those that just appeared, with their statistics.
//!
//! A sender is known by its receiver (a pair of ports, a connection, a group) and its SSRC. SETUP
//! announces it, with an SSRC if the server names one; otherwise the first packet of the right
//! channel or payload type does. Every packet goes to the `Track` of its sender; a packet of an
//! unknown SSRC counts as a stranger's, unless nothing was requested. The number in `RTP-Info` is
//! compared with the first packet: packets in between were lost, a larger distance means that the
//! server announced another number. The samples of lateness share a budget of 64 MiB, whatever the
//! number of senders.

use std::collections::HashMap;
use std::net::SocketAddr;

use meter::Histogram;
use wire::rtcp;
use wire::rtp::Packet;
use wire::sdp::usual_clock;

use super::report::{MediaReport, Percentiles, TrackReport};
use super::track::Track;

/// Up to this many senders are reported individually.
const FEW: usize = 16;
/// Unrequested senders that are tracked.
const STRANGERS_MAX: usize = 100_000;
/// A first packet up to this far after the announced number means lost packets; a farther one means
/// that another number was announced.
const HEAD_MAX: u16 = 3000;
/// Our CNAME in RTCP reports.
const NAME: &str = "listener@roundhouse";
/// Lateness samples kept for all senders together: 64 MiB of them.
const KEPT_ALL: usize = 8 << 20;
/// The least and the most for one sender.
const KEPT: (usize, usize) = (1 << 11, 1 << 20);

/// The receiver and the sender's SSRC. Senders that relay one source have one SSRC, so a receiver
/// is what tells sessions apart: a pair of ports, a group, or a session's own connection.
pub type SenderKey = (u32, u32);
pub const GROUPS: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub receiver: u32,
    /// The channel in the connection, if it is not a datagram.
    pub channel: Option<u8>,
    pub came_ns: u64,
}

/// The number of samples that each of this many senders may keep.
pub fn kept(senders: u32) -> usize {
    (KEPT_ALL / senders.max(1) as usize).clamp(KEPT.0, KEPT.1)
}

/// A sender that was announced or has appeared.
#[derive(Default)]
pub struct Sender {
    pub track: Track,
    pub payload_type: u8,
    pub payload: String,
    /// Its session; none for unrequested media.
    pub session: Option<usize>,
    /// The destination of receiver reports: as datagrams, or interleaved in the session's
    /// connection.
    pub control: Option<SocketAddr>,
    /// The interleaved channels of media and of reports.
    pub channels: Option<(u8, u8)>,
    /// The end of its URL.
    pub url: String,
    /// The sequence number that was announced for the first packet.
    pub announced: Option<u16>,
    /// The number of the first packet, which may arrive before its announcement.
    pub first: Option<u16>,
    pub bye: bool,
    /// The BYE came before the session was torn down.
    pub ended: bool,
}

impl Sender {
    fn unasked(payload_type: u8, kept: usize) -> Sender {
        Sender {
            track: Track::new(usual_clock(payload_type), kept),
            payload_type,
            payload: payload_type.to_string(),
            ..Sender::default()
        }
    }

    /// Compares the first packet with the announced one, once both are known. Packets in between
    /// were lost.
    fn compare(&mut self, report: &mut MediaReport) {
        let (Some(announced), Some(first)) = (self.announced, self.first) else { return };
        match first.wrapping_sub(announced) {
            0 => {}
            1..=HEAD_MAX => self.track.begins_at(announced),
            _ => report.misannounced += 1,
        }
    }
}

#[derive(Default)]
pub struct Senders {
    /// By receiver and SSRC: a group's packets arrive at each of its receivers.
    pub all: HashMap<SenderKey, Sender>,
    /// Those whose SSRC no answer named (RFC 2326 section 12.39 leaves that to the server), by
    /// receiver: the first packet names it.
    unnamed: HashMap<u32, Vec<Sender>>,
    own: Vec<Vec<SenderKey>>,
    /// Sessions with a sender that has sent BYE since the last check.
    pub parted: Vec<usize>,
    /// Lateness samples that each may keep.
    pub kept: usize,
    /// All sessions are being torn down: from now on a BYE is the answer to that.
    pub is_leaving: bool,
}

impl Senders {
    pub fn new(expected: u32) -> Senders {
        Senders { kept: kept(expected), ..Senders::default() }
    }

    /// Expects the sender of a session's track, by the SSRC that its server named, if it named one.
    pub fn expect(&mut self, receiver: u32, ssrc: Option<u32>, sender: Sender) {
        match ssrc {
            Some(ssrc) => self.add((receiver, ssrc), sender),
            None => self.unnamed.entry(receiver).or_default().push(sender),
        }
    }

    fn add(&mut self, key: SenderKey, sender: Sender) {
        if let Some(session) = sender.session {
            if self.own.len() <= session {
                self.own.resize_with(session + 1, Vec::new);
            }
            self.own[session].push(key);
        }
        self.all.insert(key, sender);
    }

    /// The sender without a name that this packet can come from: by its channel, or by its type.
    fn named_by(&mut self, payload_type: u8, from: Arrival) -> Option<Sender> {
        let waiting = self.unnamed.get_mut(&from.receiver)?;
        let is_it = |sender: &Sender| match (from.channel, sender.channels) {
            (Some(channel), Some((media, _))) => channel == media,
            _ => sender.payload_type == payload_type,
        };
        let at = waiting.iter().position(is_it)?;
        Some(waiting.remove(at))
    }

    /// Whether all senders of a session have sent BYE.
    pub fn have_ended(&self, session: usize, receiver: u32) -> bool {
        let waits = |sender: &Sender| sender.session == Some(session);
        let unnamed = self.unnamed.get(&receiver);
        let bye = |key: &SenderKey| self.all.get(key).is_none_or(|it| it.bye);
        let own = self.own.get(session).map_or(&[][..], Vec::as_slice);
        !own.is_empty() && own.iter().all(bye) && !unnamed.into_iter().flatten().any(waits)
    }

    /// Processes a media packet; returns the sender's session, `None` for a stranger.
    pub fn packet(
        &mut self,
        report: &mut MediaReport,
        bytes: &[u8],
        from: Arrival,
    ) -> Option<Option<usize>> {
        let Some(packet) = Packet::read(bytes) else {
            report.strangers += 1;
            return None;
        };
        let header = packet.header;
        // Unrequested media may come from any sender; requested media only from announced ones.
        let name = (from.receiver, header.ssrc);
        if !self.all.contains_key(&name) {
            if let Some(sender) = self.named_by(header.payload_type, from) {
                self.add(name, sender);
            } else if report.sessions > 0 || self.all.len() >= STRANGERS_MAX {
                report.strangers += 1;
                return None;
            } else {
                self.all.insert(name, Sender::unasked(header.payload_type, self.kept));
            }
        }
        let sender = self.all.get_mut(&name)?;
        if sender.first.is_none() {
            sender.first = Some(header.sequence);
        }
        sender.track.packet(&header, packet.payload.len(), from.came_ns);
        if sender.track.counted.packets == 1 {
            sender.compare(report);
        }
        Some(sender.session)
    }

    pub fn control(&mut self, report: &mut MediaReport, bytes: &[u8], from: Arrival) {
        let Arrival { receiver, came_ns: now, .. } = from;
        rtcp::read(bytes, |word| match word {
            rtcp::Message::Alive(_) => report.reports += 1,
            rtcp::Message::Sender(sent) => {
                if let Some(sender) = self.all.get_mut(&(receiver, sent.ssrc)) {
                    // Packets sent to a group before we joined it were not meant for us.
                    let is_whole = sender.session.is_some() && sender.announced.is_some();
                    sender.track.sender_report(&sent, now, is_whole);
                }
            }
            rtcp::Message::Bye(ssrc) => {
                if let Some(sender) = self.all.get_mut(&(receiver, ssrc)) {
                    sender.bye = true;
                    sender.ended |= !self.is_leaving;
                    self.parted.extend(sender.session);
                }
            }
            rtcp::Message::Report(_) => {}
        });
    }

    /// Notes the sequence numbers announced in `RTP-Info` for the senders of a session and its
    /// receiver.
    pub fn announce(&mut self, report: &mut MediaReport, of: (usize, u32), info: &str) {
        let (session, receiver) = of;
        for part in info.split(',') {
            let value = |name: &str| part.split(';').find_map(|it| it.trim().strip_prefix(name));
            let (Some(url), Some(number)) = (value("url="), value("seq=")) else { continue };
            let Ok(number) = number.trim().parse() else { continue };
            let mut note = |sender: &mut Sender| {
                if !sender.url.is_empty() && url.ends_with(&sender.url) {
                    sender.announced = Some(number);
                    sender.compare(report);
                }
            };
            for key in self.own.get(session).into_iter().flatten() {
                self.all.get_mut(key).map(&mut note);
            }
            let unnamed = self.unnamed.get_mut(&receiver).into_iter().flatten();
            unnamed.filter(|sender| sender.session == Some(session)).for_each(note);
        }
    }

    /// Passes the receiver reports for group `part` of `parts` to `send`, with the sender they are
    /// for. Reports sent all at once would overflow receive buffers.
    pub fn reports(
        &mut self,
        now: u64,
        (part, parts): (u32, u32),
        mut send: impl FnMut(&Sender, &[u8]),
    ) {
        let mut bytes = Vec::new();
        for ((_, ssrc), sender) in &mut self.all {
            if ssrc % parts != part {
                continue;
            }
            let own = sender.session.map_or(1, |it| it as u32 + 1);
            let Some(block) = sender.track.report(own, *ssrc, now) else { continue };
            bytes.clear();
            rtcp::write_receiver_report(own, &[block], NAME, &mut bytes);
            send(sender, &bytes);
        }
    }

    /// Whether there were senders and all have sent BYE.
    pub fn have_left(&self) -> bool {
        !self.all.is_empty() && self.all.values().all(|it| it.bye)
    }

    /// Adds the statistics of all senders to the report.
    pub fn tell(self, report: &mut MediaReport) {
        let mut all = Histogram::new();
        let few = self.all.len() <= FEW;
        let mut senders: Vec<_> = self.all.into_iter().collect();
        senders.sort_unstable_by_key(|(name, sender)| (sender.session, *name));
        for ((_, ssrc), sender) in senders {
            let found = sender.track.counts();
            let mut late = Histogram::new();
            sender.track.lateness_ns().for_each(|(ns, count)| late.record(ns, count));
            all.merge(&late);
            let sums = &mut report.sums;
            sums.packets += found.packets;
            sums.bytes += found.bytes;
            sums.lost += found.lost;
            sums.duplicates += found.duplicates;
            sums.reordered += found.reordered;
            sums.jitter_ms = sums.jitter_ms.max(found.jitter_ms);
            report.ended += u32::from(sender.ended);
            if few {
                let late_ms = Percentiles::of(&late);
                report.tracks.push(TrackReport { ssrc, payload: sender.payload, found, late_ms });
            }
        }
        report.late_ms = Percentiles::of(&all);
    }
}
