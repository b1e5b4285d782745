//! The senders: announced ones, and those that just appeared, with their statistics.

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

/// The receiver's index and the sender's SSRC.
pub type SenderKey = (u32, u32);
/// The receiver index for all requested media.
pub const REQUESTED: u32 = 0;

/// The number of samples that each of this many senders may keep.
pub fn kept(senders: u32) -> usize {
    (KEPT_ALL / senders.max(1) as usize).clamp(KEPT.0, KEPT.1)
}

/// A sender that was announced or has appeared.
pub struct Sender {
    /// Its statistics.
    pub track: Track,
    /// Its payload, described.
    pub payload: String,
    /// Its session; none for unrequested media.
    pub session: Option<usize>,
    /// The destination of receiver reports: as datagrams, or interleaved in the session's
    /// connection.
    pub control: Option<SocketAddr>,
    /// The interleaved channel for reports.
    pub channel: Option<u8>,
    /// The end of its URL.
    pub url: String,
    /// The sequence number that was announced for the first packet.
    pub announced: Option<u16>,
    /// The number of the first packet, which may arrive before its announcement.
    pub first: Option<u16>,
    /// It has sent BYE.
    pub bye: bool,
    /// The BYE came before the session was torn down.
    pub ended: bool,
}

impl Sender {
    /// A sender of unrequested media.
    fn unasked(payload_type: u8, kept: usize) -> Sender {
        Sender {
            track: Track::new(usual_clock(payload_type), kept),
            payload: payload_type.to_string(),
            session: None,
            control: None,
            channel: None,
            url: String::new(),
            announced: None,
            first: None,
            bye: false,
            ended: false,
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

/// All senders.
pub struct Senders {
    /// By receiver and SSRC: a group's packets arrive at each of its receivers.
    pub all: HashMap<SenderKey, Sender>,
    /// Sessions with a sender that has sent BYE since the last check.
    pub parted: Vec<usize>,
    /// Lateness samples that each may keep.
    pub kept: usize,
    /// All sessions are being torn down: from now on a BYE is the answer to that.
    pub is_leaving: bool,
}

impl Senders {
    /// No senders yet; this many are expected.
    pub fn new(expected: u32) -> Senders {
        Senders { all: HashMap::new(), parted: Vec::new(), kept: kept(expected), is_leaving: false }
    }

    /// Processes a media packet; returns the sender's session, `None` for a stranger.
    pub fn packet(
        &mut self,
        report: &mut MediaReport,
        bytes: &[u8],
        (receiver, came_ns): (u32, u64),
    ) -> Option<Option<usize>> {
        let Some(packet) = Packet::read(bytes) else {
            report.strangers += 1;
            return None;
        };
        let header = packet.header;
        // Unrequested media may come from any sender; requested media only from announced ones.
        let name = (receiver, header.ssrc);
        if !self.all.contains_key(&name) {
            if report.sessions > 0 || self.all.len() >= STRANGERS_MAX {
                report.strangers += 1;
                return None;
            }
            self.all.insert(name, Sender::unasked(header.payload_type, self.kept));
        }
        let sender = self.all.get_mut(&name)?;
        if sender.first.is_none() {
            sender.first = Some(header.sequence);
        }
        sender.track.packet(&header, packet.payload.len(), came_ns);
        if sender.track.packets() == 1 {
            sender.compare(report);
        }
        Some(sender.session)
    }

    /// Processes a control packet that arrived at `now`.
    pub fn control(&mut self, report: &mut MediaReport, bytes: &[u8], (receiver, now): (u32, u64)) {
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

    /// Notes the sequence numbers announced in `RTP-Info` for a session's senders.
    pub fn announce(&mut self, report: &mut MediaReport, own: &[u32], info: &str) {
        for part in info.split(',') {
            let value = |name: &str| part.split(';').find_map(|it| it.trim().strip_prefix(name));
            let (Some(url), Some(number)) = (value("url="), value("seq=")) else { continue };
            let Ok(number) = number.trim().parse() else { continue };
            for ssrc in own {
                let Some(sender) = self.all.get_mut(&(REQUESTED, *ssrc)) else { continue };
                if !sender.url.is_empty() && url.ends_with(&sender.url) {
                    sender.announced = Some(number);
                    sender.compare(report);
                }
            }
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
