//! An RTP stream: packets of media and reports, in the order of their due times.
//!
//! The output depends only on due times, not on when or how often the methods are called. So an
//! engine may request the due packets, or seconds ahead, and withdraw packets that never left.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;
use wire::rtcp::{SenderInfo, Timer, ntp, write_sender_report};

use super::cursor::{Cursor, Segment};
use super::options::Options;
use super::secret::spread;

/// The delay of the BYE after the end, if it leaves through another socket. A BYE that overtakes
/// the last packets cuts them off, and players that read reports first (libavformat) lose them
/// whenever they are late.
pub const GRACE: Duration = Duration::from_millis(200);
/// The maximum number of reports that can be withdrawn: minutes of them.
const TAKEN_BACK_MAX: usize = 64;

/// A cursor through a track, with its sender reports.
#[derive(Debug)]
pub struct RtpStream<F> {
    pub cursor: Cursor<F>,
    pub ssrc: u32,
    pub packets: u32,
    /// Bytes of payload sent.
    pub octets: u32,
    timer: Timer,
    report_at: Instant,
    reports: u32,
    /// The number of packets and reports so far.
    pieces: u64,
    /// The pieces that were reports, with the moment and the timer before each.
    told: VecDeque<(u64, Instant, Timer)>,
    over: bool,
    /// The delay of the BYE after the end.
    grace: Duration,
}

/// The next event of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Packet,
    Report,
    /// A report with a BYE, which ends the stream.
    Bye,
}

impl<F> RtpStream<F> {
    /// A stream at its beginning; `grace` is [`GRACE`] if packets and reports have separate
    /// sockets.
    pub fn new(cursor: Cursor<F>, ssrc: u32, grace: Duration) -> RtpStream<F> {
        let timer = Timer::new(cursor.line.track().bits);
        let report_at = cursor.segment.begin;
        RtpStream {
            cursor,
            ssrc,
            packets: 0,
            octets: 0,
            timer,
            report_at,
            reports: 0,
            pieces: 0,
            told: VecDeque::new(),
            over: false,
            grace,
        }
    }

    /// Continues with another segment, which begins with a report.
    pub fn turn(&mut self, segment: Segment) {
        self.cursor = Cursor::new(self.cursor.line.clone(), segment);
        self.report_at = segment.begin;
        self.over = false;
        self.told.clear();
    }

    /// The next piece and its due time; `None` after the last.
    #[inline]
    pub fn next(&self) -> Option<(Instant, Piece)> {
        match self.cursor.due() {
            Some(due) if self.report_at <= due => Some((self.report_at, Piece::Report)),
            Some(due) => Some((due, Piece::Packet)),
            None if self.cursor.segment.ends && !self.over => {
                Some((self.cursor.end() + self.grace, Piece::Bye))
            }
            None => None,
        }
    }

    /// True after the BYE, which is sent only once (RFC 3550 section 6.3.7).
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Counts the next packet of media as sent, with `len` bytes of payload.
    #[inline]
    pub fn sent(&mut self, len: usize) {
        self.cursor.next += 1;
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
        let wait = self.timer.interval(spread(self.ssrc, self.reports));
        self.report_at = at + wait.max(Duration::from_millis(1));
        self.reports += 1;
        self.pieces += 1;
    }

    /// Appends a report as of `at`, without changing the stream.
    pub fn write(&self, options: &Options, at: Instant, bye: bool, out: &mut Vec<u8>) {
        let sent = SenderInfo {
            ssrc: self.ssrc,
            ntp: ntp(options.wall_ns(at)),
            timestamp: self.cursor.timestamp_at(at),
            packets: self.packets,
            octets: self.octets,
        };
        write_sender_report(&sent, &options.name, bye, out);
    }

    /// Withdraws the last `unsent` pieces, which never left; the same pieces come next.
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
        let from = self.cursor.next.saturating_sub(packets).max(self.cursor.segment.first);
        for index in from..self.cursor.next {
            let packet = self.cursor.line.packet(index);
            let len = packet.prefix.bytes().len() + packet.payload.len();
            self.octets = self.octets.wrapping_sub(len as u32);
        }
        self.packets = self.packets.wrapping_sub((self.cursor.next - from) as u32);
        self.cursor.next = from;
    }

    /// Leaves out the packets due before `moment` that must otherwise be sent before the segment
    /// `next` begins, or, if that is the present one with an earlier end, before it ends; returns
    /// how many.
    pub fn leave_out(&mut self, moment: Instant, next: &Segment) -> u64 {
        let Cursor { segment, next: from, .. } = self.cursor;
        let stop = match self.cursor.is_at(next) {
            true if next.stop >= segment.stop => return 0,
            true => next.stop,
            false => from + self.cursor.owed(next),
        };
        let since = u64::try_from(moment.since(segment.begin).as_nanos()).unwrap_or(u64::MAX);
        let due = self.cursor.line.first_at(segment.from_ns.saturating_add(since));
        self.cursor.next = from.max(due.min(stop));
        self.cursor.next - from
    }

    /// Skips packets due before `now`, up to one at which a player can begin; returns how many.
    pub fn skip(&mut self, now: Instant) -> u64 {
        let segment = self.cursor.segment;
        let since = u64::try_from(now.since(segment.begin).as_nanos()).unwrap_or(u64::MAX);
        let due = self.cursor.line.first_at(segment.from_ns.saturating_add(since));
        let to = self.cursor.line.sync_from(due.max(self.cursor.next)).min(segment.stop);
        let skipped = to - self.cursor.next.min(to);
        self.cursor.next = self.cursor.next.max(to);
        self.report_at = self.report_at.max(now);
        skipped
    }
}
