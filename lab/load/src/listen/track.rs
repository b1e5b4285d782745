//! One receiver's statistics of one sender (RFC 3550 sections 6.4.1, A.1, A.3 and A.8).
//!
//! Sequence numbers are extended beyond 16 bits relative to the highest one so far, and a bitmap of
//! the last 1024 numbers separates a duplicate from a packet that was overtaken. The two clocks are
//! not compared: the lateness of a packet is its transit time minus the least transit time of all,
//! which is all that a receiver can know. When the room for samples is full, every second sample is
//! dropped and from then on half as many are kept; the extremes are kept exactly. The loss is the
//! number of packets that were sent, by the highest number or by the sender's own report, minus
//! those that arrived.

use serde::Serialize;
use wire::rtcp;
use wire::rtp::Header;

/// The distance in sequence numbers up to which a duplicate can be told from a late packet.
const WINDOW: i64 = 1024;

#[derive(Debug, Default)]
pub struct Track {
    clock: u32,
    /// The first packet's sequence number and the highest since, including wraps.
    numbers: Option<(i64, i64)>,
    seen: [u64; WINDOW as usize / 64],
    /// The last timestamp and its distance from the first in ticks.
    ticks: Option<(u32, i64)>,
    /// Arrival minus media time of the last packet, in nanoseconds.
    transit_ns: i64,
    /// The same for every `stride`th packet, relative to the first packet; at most `room` values.
    delays_ns: Vec<i64>,
    stride: u64,
    room: usize,
    first_transit_ns: i64,
    /// The least and the largest of all delays.
    extremes_ns: (i64, i64),
    jitter_ns: f64,
    /// All but the loss and the jitter, which [`Track::counts`] fills in.
    pub counted: TrackCounts,
    /// Packets expected and received at the last report.
    reported: (i64, u64),
    /// The sender's last report: the middle of its NTP time, and when it arrived.
    last_sender_report: Option<(u32, u64)>,
    /// The number of packets it has sent, if all were meant for us.
    sent: u32,
}

/// Packet counts of a sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrackCounts {
    /// Packets, without duplicates.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets that never arrived: a later one did, or the sender reports that it has sent more.
    pub lost: u64,
    /// Duplicate packets.
    pub duplicates: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Interarrival jitter, in milliseconds.
    pub jitter_ms: f64,
}

impl Track {
    /// A sender whose timestamps count `clock` ticks a second. Of its packets' lateness `room`
    /// values are kept; beyond that every second one, every fourth, and so on.
    pub fn new(clock: u32, room: usize) -> Track {
        Track { clock: clock.max(1), stride: 1, room: room.max(2), ..Track::default() }
    }

    /// Sets the announced first number: packets before the first one that arrived are lost, or
    /// still in flight.
    pub fn begins_at(&mut self, sequence: u16) {
        if let Some((first, highest)) = self.numbers {
            let back = i64::from((first as u16).wrapping_sub(sequence));
            self.numbers = Some((first - back, highest));
        }
    }

    /// Records a sender report that arrived at `now`, on any steady clock. With `is_whole`, every
    /// packet that the sender has sent was meant for us.
    pub fn sender_report(&mut self, sent: &rtcp::SenderInfo, now: u64, is_whole: bool) {
        self.last_sender_report = Some(((sent.ntp >> 16) as u32, now));
        if is_whole {
            self.sent = sent.packets;
        }
    }

    /// Records a packet with `bytes` of payload that arrived at `came_ns`, on any steady clock.
    pub fn packet(&mut self, header: &Header, bytes: usize, came_ns: u64) {
        let Some(number) = self.place(header.sequence) else {
            self.counted.duplicates += 1;
            return;
        };
        let is_late = self.numbers.is_some_and(|(_, highest)| number < highest);
        self.counted.reordered += u64::from(is_late);
        self.counted.packets += 1;
        self.counted.bytes += bytes as u64;
        self.time(header.timestamp, came_ns);
    }

    /// The packet's number including wraps; `None` for a duplicate.
    fn place(&mut self, sequence: u16) -> Option<i64> {
        let Some((first, highest)) = self.numbers else {
            let number = i64::from(sequence);
            self.numbers = Some((number, number));
            self.mark(number);
            return Some(number);
        };
        let step = i64::from(sequence.wrapping_sub(highest as u16).cast_signed());
        let number = highest + step;
        if step > 0 {
            for skipped in highest + 1..=number.min(highest + WINDOW) {
                self.seen[(skipped.rem_euclid(WINDOW) / 64) as usize] &=
                    !(1 << (skipped.rem_euclid(WINDOW) % 64));
            }
            self.numbers = Some((first, number));
        } else if step <= -WINDOW || self.is_marked(number) {
            return None;
        }
        self.mark(number);
        // Packets before the first that arrived count as sent.
        self.numbers = self.numbers.map(|(first, highest)| (first.min(number), highest));
        Some(number)
    }

    fn mark(&mut self, number: i64) {
        let at = number.rem_euclid(WINDOW);
        self.seen[(at / 64) as usize] |= 1 << (at % 64);
    }

    fn is_marked(&self, number: i64) -> bool {
        let at = number.rem_euclid(WINDOW);
        self.seen[(at / 64) as usize] & 1 << (at % 64) != 0
    }

    fn time(&mut self, timestamp: u32, came_ns: u64) {
        let (before, ticks) = self.ticks.unwrap_or((timestamp, 0));
        let ticks = ticks + i64::from(timestamp.wrapping_sub(before).cast_signed());
        let media_ns = i128::from(ticks) * 1_000_000_000 / i128::from(self.clock);
        let transit_ns = came_ns.cast_signed() - media_ns as i64;
        match self.ticks {
            None => self.first_transit_ns = transit_ns,
            Some(_) => {
                let difference = (transit_ns - self.transit_ns).unsigned_abs() as f64;
                self.jitter_ns += (difference - self.jitter_ns) / 16.0;
            }
        }
        self.keep(transit_ns - self.first_transit_ns);
        (self.ticks, self.transit_ns) = (Some((timestamp, ticks)), transit_ns);
    }

    fn keep(&mut self, delay_ns: i64) {
        let (least, most) = self.extremes_ns;
        self.extremes_ns = (least.min(delay_ns), most.max(delay_ns));
        if !self.counted.packets.is_multiple_of(self.stride) {
            return;
        }
        if self.delays_ns.len() == self.room {
            let mut odd = false;
            self.delays_ns.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride *= 2;
        }
        self.delays_ns.push(delay_ns);
    }

    pub fn counts(&self) -> TrackCounts {
        let jitter_ms = self.jitter_ns / 1e6;
        TrackCounts { lost: self.lost(), jitter_ms, ..self.counted.clone() }
    }

    fn lost(&self) -> u64 {
        let numbered = self.expected().max(0).cast_unsigned();
        // The sender's count wraps at 2^32, beyond any session's length.
        numbered.max(self.sent.into()).saturating_sub(self.counted.packets)
    }

    /// Lateness of packets in nanoseconds, relative to the least late one: a receiver cannot know
    /// more. Each value has a weight; the latest packet of all has a separate value.
    pub fn lateness_ns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (least, most) = self.extremes_ns;
        let stride = self.stride;
        let latest = (stride > 1).then_some(((most - least).cast_unsigned(), 1));
        let each = self.delays_ns.iter();
        each.map(move |delay| ((delay - least).cast_unsigned(), stride)).chain(latest)
    }

    fn expected(&self) -> i64 {
        self.numbers.map_or(0, |(first, highest)| highest - first + 1)
    }

    /// A receiver report about `of` from `from`, at `now` on the clock of [`Track::sender_report`].
    pub fn report(&mut self, from: u32, of: u32, now: u64) -> Option<rtcp::ReceptionReport> {
        let (_, highest) = self.numbers?;
        let (expected, received) = (self.expected(), self.counted.packets);
        let (expected_before, received_before) = self.reported;
        self.reported = (expected, received);
        let (fresh, came) = (expected - expected_before, (received - received_before) as i64);
        let share = if fresh > 0 { (fresh - came).max(0) * 256 / fresh } else { 0 };
        let (last_report, came) = self.last_sender_report.unwrap_or((0, now));
        let since = u128::from(now.saturating_sub(came)) * 65_536 / 1_000_000_000;
        Some(rtcp::ReceptionReport {
            from,
            of,
            lost_share: share.min(255) as u8,
            lost: (expected - received as i64).clamp(-(1 << 23), (1 << 23) - 1) as i32,
            sequence: highest as u32,
            jitter: (self.jitter_ns * f64::from(self.clock) / 1e9) as u32,
            last_report,
            since_report: u32::try_from(since).unwrap_or(u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u16, timestamp: u32) -> Header {
        Header { marker: false, payload_type: 0, sequence, timestamp, ssrc: 7 }
    }

    fn counted(sequences: &[u16]) -> TrackCounts {
        let mut track = Track::new(8000, 16);
        for sequence in sequences {
            track.packet(&packet(*sequence, 0), 10, 0);
        }
        track.counts()
    }

    #[test]
    fn what_is_lost_doubled_and_out_of_order_is_told_apart() {
        let counts = |it: &TrackCounts| (it.packets, it.lost, it.duplicates, it.reordered);
        assert_eq!(counts(&counted(&[65534, 65535, 0, 1])), (4, 0, 0, 0), "a wrap is not a loss");
        assert_eq!(counts(&counted(&[1, 2, 5, 6])), (4, 2, 0, 0));
        assert_eq!(counts(&counted(&[1, 3, 2, 4])), (4, 0, 0, 1));
        assert_eq!(counts(&counted(&[1, 2, 2, 3, 1])), (3, 0, 2, 0));
        assert_eq!(counts(&counted(&[5, 4, 6])), (3, 0, 0, 1), "earlier than the first");
        let all: Vec<u16> = (0..5000).chain(4990..5001).collect();
        assert_eq!(counts(&counted(&all)), (5001, 0, 10, 0));
        assert_eq!(counted(&[3]).bytes, 10);
    }

    #[test]
    fn lateness_is_counted_from_the_least_late() {
        let mut track = Track::new(1000, 16);
        let came_ms = [105, 120, 147, 160];
        for (at, came) in (0..).zip(came_ms) {
            // 20 ms apart, over the wrap of the timestamp.
            let ticks = (u32::MAX - 30).wrapping_add(u32::from(at) * 20);
            track.packet(&packet(at, ticks), 1, came * 1_000_000);
        }
        let late: Vec<u64> = track.lateness_ns().map(|(ns, _)| ns / 1_000_000).collect();
        assert_eq!(late, [5, 0, 7, 0]);
        let jitter = track.counts().jitter_ms;
        assert!((0.5..2.0).contains(&jitter), "5, 7 and 7 ms of difference, a 16th each: {jitter}");
    }

    #[test]
    fn of_many_packets_some_stand_for_all() {
        let mut track = Track::new(1000, 64);
        for at in 0..10_000_u32 {
            // A millisecond apart; each tenth is 3 ms late, and one is 900.
            let late = if at == 777 { 900 } else { u64::from(at % 10 == 9) * 3 };
            let came = u64::from(at) + late + 50;
            track.packet(&packet(at as u16, at), 1, came * 1_000_000);
        }
        let late: Vec<(u64, u64)> = track.lateness_ns().collect();
        assert!(late.len() <= 65, "{}", late.len());
        let all: u64 = late.iter().map(|(_, count)| count).sum();
        assert!((9_000..11_000).contains(&all), "{all}");
        assert_eq!(late.last(), Some(&(900_000_000, 1)), "the latest is never left out");
        let prompt: u64 = late.iter().filter(|it| it.0 == 0).map(|it| it.1).sum();
        assert!(prompt > 5_000, "{prompt}");
    }

    #[test]
    fn what_was_lost_in_front_and_at_the_end_is_known_by_announcement_and_report() {
        let mut track = Track::new(8000, 16);
        for sequence in [3, 4, 5] {
            track.packet(&packet(sequence, 0), 1, 0);
        }
        track.begins_at(65_535);
        assert_eq!(track.counts().lost, 4, "65535, 0, 1, 2");
        let sent = rtcp::SenderInfo { ssrc: 7, ntp: 0, timestamp: 0, packets: 9, octets: 9 };
        track.sender_report(&sent, 0, false);
        assert_eq!(track.counts().lost, 4, "they may have been for others");
        track.sender_report(&sent, 0, true);
        assert_eq!(track.counts().lost, 6);
        track.packet(&packet(1, 0), 1, 0);
        assert_eq!((track.counts().lost, track.counts().reordered), (5, 1));
    }

    #[test]
    fn a_report_tells_the_share_since_the_last() {
        let mut track = Track::new(8000, 16);
        assert_eq!(track.report(1, 2, 0), None);
        for sequence in [10, 11, 13, 14] {
            track.packet(&packet(sequence, 0), 1, 0);
        }
        let sent = rtcp::SenderInfo {
            ssrc: 7,
            ntp: 5 << 32 | 6 << 16,
            timestamp: 0,
            packets: 0,
            octets: 0,
        };
        track.sender_report(&sent, 1_000_000_000, true);
        let report = track.report(1, 2, 1_500_000_000).expect("packets came");
        assert_eq!((report.last_report, report.since_report), (5 << 16 | 6, 1 << 15));
        assert_eq!((report.lost, report.lost_share, report.sequence), (1, 51, 14));
        track.packet(&packet(15, 0), 1, 0);
        assert_eq!(track.report(1, 2, 0).map(|it| (it.lost, it.lost_share)), Some((1, 0)));
    }
}
