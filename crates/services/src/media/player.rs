//! A run with its reports: packets of media and of control in the order of their moments.
//!
//! What comes out depends on moments alone, never on when or how often it is asked for; so an
//! engine may ask for what is due now or for seconds ahead, and take back what never left.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;
use wire::rtcp::{SenderInfo, Timer, ntp, write_sender_report};

use super::chance::spread;
use super::options::Options;
use super::run::{Run, Segment};

/// How long after the end a bye follows that goes another way than the packets: one that
/// overtakes the last of them cuts it off, and players that read reports first (libavformat) let it
/// overtake whenever they are late themselves.
const GRACE: Duration = Duration::from_millis(200);
/// How many reports can be taken back: minutes of them.
const TAKEN_BACK_MAX: usize = 64;

/// A run, and what is told about it.
#[derive(Debug)]
pub struct Player<F> {
    /// The packets.
    pub run: Run<F>,
    /// Who sends.
    pub ssrc: u32,
    /// Packets sent, and bytes of payload.
    pub packets: u32,
    /// Bytes of payload sent.
    pub octets: u32,
    timer: Timer,
    report_at: Instant,
    reports: u32,
    /// Pieces so far: packets and reports.
    pieces: u64,
    /// Before which pieces there was a report, and what was true before it.
    told: VecDeque<(u64, Instant, Timer)>,
    over: bool,
    /// How long after the end the bye follows.
    grace: Duration,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A packet of media.
    Packet,
    /// A report.
    Report,
    /// A report with a bye: the end.
    Bye,
}

impl<F> Player<F> {
    /// One that begins.
    pub fn new(run: Run<F>, ssrc: u32) -> Player<F> {
        let timer = Timer::new(run.line.track().bits);
        let report_at = run.segment.begin;
        Player {
            run,
            ssrc,
            packets: 0,
            octets: 0,
            timer,
            report_at,
            reports: 0,
            pieces: 0,
            told: VecDeque::new(),
            over: false,
            grace: Duration::ZERO,
        }
    }

    /// The same whose packets and reports go different ways.
    #[must_use]
    pub fn apart(self) -> Player<F> {
        Player { grace: GRACE, ..self }
    }

    /// Goes on with another segment; its first packet has a report in front.
    pub fn turn(&mut self, segment: Segment) {
        self.run = Run::new(self.run.line.clone(), segment);
        self.report_at = segment.begin;
        self.over = false;
        self.told.clear();
    }

    /// The next piece and its moment; `None` behind the last one.
    #[inline]
    pub fn next(&self) -> Option<(Instant, Piece)> {
        match self.run.due() {
            Some(due) if self.report_at <= due => Some((self.report_at, Piece::Report)),
            Some(due) => Some((due, Piece::Packet)),
            None if self.run.segment.ends && !self.over => {
                Some((self.run.end() + self.grace, Piece::Bye))
            }
            None => None,
        }
    }

    /// True behind a bye: a sender says it once (RFC 3550 section 6.3.7).
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The next packet of media was sent, with `len` bytes of payload.
    #[inline]
    pub fn sent(&mut self, len: usize) {
        self.run.next += 1;
        self.pieces += 1;
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(len as u32);
    }

    /// Appends the next report, which is due at `at`, to `out`.
    pub fn report(&mut self, options: &Options, at: Instant, bye: bool, out: &mut Vec<u8>) {
        if self.told.len() == TAKEN_BACK_MAX {
            self.told.pop_front();
        }
        self.told.push_back((self.pieces, self.report_at, self.timer));
        let from = out.len();
        self.write(options, at, bye, out);
        self.timer.saw(out.len() - from);
        self.over = bye;
        // Two members: who sends and who listens.
        let wait = self.timer.interval(2, 1, spread(self.ssrc, self.reports));
        self.report_at = at + wait.max(Duration::from_millis(1));
        self.reports += 1;
        self.pieces += 1;
    }

    /// Appends a report of this moment, and changes nothing.
    pub fn write(&self, options: &Options, at: Instant, bye: bool, out: &mut Vec<u8>) {
        let sent = SenderInfo {
            ssrc: self.ssrc,
            ntp: ntp(options.wall_ns(at)),
            timestamp: self.run.timestamp_at(at),
            packets: self.packets,
            octets: self.octets,
        };
        write_sender_report(&sent, &options.name, bye, out);
    }

    /// The last `unsent` pieces never left: the next ones are the same again.
    pub fn take_back(&mut self, unsent: usize) {
        let mut packets = unsent as u64;
        let kept = self.pieces.saturating_sub(unsent as u64);
        while let Some((piece, report_at, timer)) = self.told.back().copied() {
            if piece < kept {
                break;
            }
            self.told.pop_back();
            (self.report_at, self.timer) = (report_at, timer);
            self.reports -= 1;
            self.over = false;
            packets -= 1;
        }
        self.pieces = kept;
        let from = self.run.next.saturating_sub(packets).max(self.run.segment.first);
        for index in from..self.run.next {
            let packet = self.run.line.packet(index);
            let len = packet.prefix.bytes().len() + packet.payload.len();
            self.octets = self.octets.wrapping_sub(len as u32);
        }
        self.packets = self.packets.wrapping_sub((self.run.next - from) as u32);
        self.run.next = from;
    }

    /// Whether the next packet is there; a cursor whose packets have gone is moved to where a
    /// player can begin again.
    #[inline]
    pub fn is_there(&mut self) -> bool {
        let Some(ring) = self.run.line.ring() else { return true };
        if self.run.next < ring.oldest() {
            let next = ring.sync_from(ring.oldest() + (ring.count() - ring.oldest()) / 2);
            self.run.next = next.min(self.run.segment.stop);
        }
        self.run.next < ring.count()
    }

    /// Leaves out what is due before `now`, up to a packet at which a player can begin; says how
    /// many packets that are.
    pub fn skip(&mut self, now: Instant) -> u64 {
        let segment = self.run.segment;
        let since = u64::try_from(now.since(segment.begin).as_nanos()).unwrap_or(u64::MAX);
        let due = self.run.line.first_at(segment.from_ns.saturating_add(since));
        let to = self.run.line.sync_from(due.max(self.run.next)).min(segment.stop);
        let skipped = to - self.run.next.min(to);
        self.run.next = self.run.next.max(to);
        self.report_at = self.report_at.max(now);
        skipped
    }
}
