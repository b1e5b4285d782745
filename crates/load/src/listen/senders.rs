//! Who is heard: senders that were announced, or have come by themselves, with what was found out
//! about each.

use std::collections::HashMap;
use std::net::SocketAddr;

use meter::Histogram;
use wire::rtcp;
use wire::rtp::Packet;
use wire::sdp::usual_clock;

use super::hearing::{Heard, Hearing, Shares};
use super::track::Track;

/// Senders that are told apart in the report.
const FEW: usize = 16;
/// Senders that who only overhears tells apart.
const STRANGERS_MAX: usize = 100_000;
/// A first packet so far behind the announced one means lost packets; further, that another number
/// was announced.
const HEAD_MAX: u16 = 3000;
/// Who we are, in reports.
const NAME: &str = "listener@roundhouse";
/// Moments whose lateness is kept, of all senders together: 64 MiB of them.
const KEPT_ALL: usize = 8 << 20;
/// Of one sender at the least and at the most.
const KEPT: (usize, usize) = (1 << 11, 1 << 20);

/// Which receiver hears a sender, and the sender's name in RTP.
pub type Name = (u32, u32);
/// The receiver of everything that was asked for.
pub const ASKED: u32 = 0;

/// How many moments each of so many senders may keep.
pub fn kept(senders: u32) -> usize {
    (KEPT_ALL / senders.max(1) as usize).clamp(KEPT.0, KEPT.1)
}

/// A sender that was announced or has come.
pub struct Sender {
    /// What was found out.
    pub track: Track,
    /// What it sends, in words.
    pub payload: String,
    /// Whose it is; nobody's where it was only overheard.
    pub session: Option<usize>,
    /// Where reports of it go: by datagrams, or in the session's connection.
    pub control: Option<SocketAddr>,
    /// The channel of reports within the connection.
    pub channel: Option<u8>,
    /// The end of its URL.
    pub url: String,
    /// The sequence number that was announced for the first packet.
    pub announced: Option<u16>,
    /// That of the first packet, which may be here before its announcement.
    pub first: Option<u16>,
    /// It has said goodbye.
    pub bye: bool,
    /// And nobody had asked it to.
    pub ended: bool,
}

impl Sender {
    /// Somebody who was not asked.
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

    /// Compares the first packet with what was announced, once both are known. What is in front of
    /// it was lost.
    fn compare(&mut self, hearing: &mut Hearing) {
        let (Some(announced), Some(first)) = (self.announced, self.first) else { return };
        match first.wrapping_sub(announced) {
            0 => {}
            1..=HEAD_MAX => self.track.begins_at(announced),
            _ => hearing.misannounced += 1,
        }
    }
}

/// All senders.
pub struct Senders {
    /// By receiver and name: a group's packets come to each of its receivers.
    pub all: HashMap<Name, Sender>,
    /// Sessions one of whose senders has said goodbye since anybody looked.
    pub parted: Vec<usize>,
    /// Moments that each may keep.
    pub kept: usize,
    /// All sessions are being ended: byes are answers from now on.
    pub is_leaving: bool,
}

impl Senders {
    /// None yet, of so many that are expected.
    pub fn new(expected: u32) -> Senders {
        Senders { all: HashMap::new(), parted: Vec::new(), kept: kept(expected), is_leaving: false }
    }

    /// A packet of media; whose it is, if it is anybody's.
    pub fn packet(
        &mut self,
        hearing: &mut Hearing,
        bytes: &[u8],
        (receiver, came_ns): (u32, u64),
    ) -> Option<Option<usize>> {
        let Some(packet) = Packet::read(bytes) else {
            hearing.strangers += 1;
            return None;
        };
        let header = packet.header;
        // Who only overhears takes whoever comes; who has asked knows whom for.
        let name = (receiver, header.ssrc);
        if !self.all.contains_key(&name) {
            if hearing.sessions > 0 || self.all.len() >= STRANGERS_MAX {
                hearing.strangers += 1;
                return None;
            }
            self.all.insert(name, Sender::unasked(header.payload_type, self.kept));
        }
        let sender = self.all.get_mut(&name)?;
        if sender.first.is_none() {
            sender.first = Some(header.sequence);
        }
        sender.track.hear(&header, packet.payload.len(), came_ns);
        if sender.track.packets() == 1 {
            sender.compare(hearing);
        }
        Some(sender.session)
    }

    /// A packet of control that came at `now`.
    pub fn control(&mut self, hearing: &mut Hearing, bytes: &[u8], (receiver, now): (u32, u64)) {
        rtcp::read(bytes, |word| match word {
            rtcp::Message::Alive(_) => hearing.reports += 1,
            rtcp::Message::Sender(sent) => {
                if let Some(sender) = self.all.get_mut(&(receiver, sent.ssrc)) {
                    // What a group was sent before we joined it was not for us.
                    let is_whole = sender.session.is_some() && sender.announced.is_some();
                    sender.track.told(&sent, now, is_whole);
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

    /// Notes the sequence numbers that the value of `RTP-Info` announces for a session's senders.
    pub fn announce(&mut self, hearing: &mut Hearing, own: &[u32], info: &str) {
        for part in info.split(',') {
            let value = |name: &str| part.split(';').find_map(|it| it.trim().strip_prefix(name));
            let (Some(url), Some(number)) = (value("url="), value("seq=")) else { continue };
            let Ok(number) = number.trim().parse() else { continue };
            for ssrc in own {
                let Some(sender) = self.all.get_mut(&(ASKED, *ssrc)) else { continue };
                if !sender.url.is_empty() && url.ends_with(&sender.url) {
                    sender.announced = Some(number);
                    sender.compare(hearing);
                }
            }
        }
    }

    /// The reports of part `part` of all senders, of which there are `parts`: who reports, on which
    /// channel of its session or to which address, and the bytes. Reports that leave together come
    /// together, and find no room.
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
            let Some(heard) = sender.track.report(own, *ssrc, now) else { continue };
            bytes.clear();
            rtcp::write_receiver_report(own, &[heard], NAME, &mut bytes);
            send(sender, &bytes);
        }
    }

    /// Whether there were senders, and all have said goodbye.
    pub fn have_left(&self) -> bool {
        !self.all.is_empty() && self.all.values().all(|it| it.bye)
    }

    /// Adds up what was found out.
    pub fn tell(self, hearing: &mut Hearing) {
        let mut all = Histogram::new();
        let few = self.all.len() <= FEW;
        let mut senders: Vec<_> = self.all.into_iter().collect();
        senders.sort_unstable_by_key(|(name, sender)| (sender.session, *name));
        for ((_, ssrc), sender) in senders {
            let found = sender.track.tallied();
            let mut late = Histogram::new();
            sender.track.lateness_ns().for_each(|(ns, count)| late.record(ns, count));
            all.merge(&late);
            let sums = &mut hearing.sums;
            sums.packets += found.packets;
            sums.bytes += found.bytes;
            sums.lost += found.lost;
            sums.duplicates += found.duplicates;
            sums.reordered += found.reordered;
            sums.jitter_ms = sums.jitter_ms.max(found.jitter_ms);
            hearing.ended += u32::from(sender.ended);
            if few {
                let late_ms = Shares::of(&late);
                hearing.tracks.push(Heard { ssrc, payload: sender.payload, found, late_ms });
            }
        }
        hearing.late_ms = Shares::of(&all);
    }
}
