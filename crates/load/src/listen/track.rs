//! What one receiver finds out about one sender (RFC 3550 sections 6.4.1, A.1, A.3 and A.8).

use serde::Serialize;
use wire::rtcp;
use wire::rtp::Header;

/// How many sequence numbers back a packet is still told from one that came twice.
const WINDOW: i64 = 1024;

/// Packets of one sender.
#[derive(Debug)]
pub struct Track {
    clock: u32,
    /// The first packet's sequence number, and the highest since, with its wraps.
    numbers: Option<(i64, i64)>,
    seen: [u64; WINDOW as usize / 64],
    /// The last timestamp and how many ticks it is behind the first.
    ticks: Option<(u32, i64)>,
    /// Arrival less media time of the last packet, in nanoseconds.
    transit_ns: i64,
    /// The same for every `stride`th packet, less that of the first; `room` of them.
    delays_ns: Vec<i64>,
    stride: u64,
    room: usize,
    first_transit_ns: i64,
    /// The least and the largest of all delays.
    extremes_ns: (i64, i64),
    jitter_ns: f64,
    packets: u64,
    bytes: u64,
    duplicates: u64,
    reordered: u64,
    /// What was expected and received when the last report was made.
    reported: (i64, u64),
    /// The last report of the sender: the middle of its time, and when it came.
    told: Option<(u32, u64)>,
    /// Packets that it has sent, if all were for us.
    sent: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tallied {
    /// Packets, those that came twice left out.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets that never came: a later one did, or the sender reports that it has sent more.
    pub lost: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came behind a later one.
    pub reordered: u64,
    /// Interarrival jitter, in milliseconds.
    pub jitter_ms: f64,
}

impl Track {
    /// A sender whose timestamps count `clock` ticks a second; of how late its packets were `room`
    /// values are kept, and beyond that every second one, every fourth, and so on.
    pub fn new(clock: u32, room: usize) -> Track {
        Track {
            clock: clock.max(1),
            numbers: None,
            seen: [0; WINDOW as usize / 64],
            ticks: None,
            transit_ns: 0,
            delays_ns: Vec::new(),
            stride: 1,
            room: room.max(2),
            first_transit_ns: 0,
            extremes_ns: (0, 0),
            jitter_ns: 0.0,
            packets: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            reported: (0, 0),
            told: None,
            sent: 0,
        }
    }

    /// Packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The first packet was to have this number: those in front of the first one that came are
    /// lost, or on their way.
    pub fn begins_at(&mut self, sequence: u16) {
        if let Some((first, highest)) = self.numbers {
            let back = i64::from((first as u16).wrapping_sub(sequence));
            self.numbers = Some((first - back, highest));
        }
    }

    /// A report of the sender came at `now`, on any clock that goes steadily. Where `is_whole`, all
    /// that it has sent was for us.
    pub fn told(&mut self, sent: &rtcp::SenderInfo, now: u64, is_whole: bool) {
        self.told = Some(((sent.ntp >> 16) as u32, now));
        if is_whole {
            self.sent = sent.packets;
        }
    }

    /// A packet with `bytes` of payload arrived at `came_ns`, on any clock that goes steadily.
    pub fn hear(&mut self, header: &Header, bytes: usize, came_ns: u64) {
        let Some(number) = self.place(header.sequence) else {
            self.duplicates += 1;
            return;
        };
        let is_late = self.numbers.is_some_and(|(_, highest)| number < highest);
        self.reordered += u64::from(is_late);
        self.packets += 1;
        self.bytes += bytes as u64;
        self.time(header.timestamp, came_ns);
    }

    /// The packet's number with its wraps; `None` if it was here before.
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
        // What was sent before the first that came counts as sent.
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
        if !self.packets.is_multiple_of(self.stride) {
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

    /// What was found so far.
    pub fn tallied(&self) -> Tallied {
        Tallied {
            packets: self.packets,
            bytes: self.bytes,
            lost: self.lost(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            jitter_ms: self.jitter_ns / 1e6,
        }
    }

    fn lost(&self) -> u64 {
        let numbered = self.expected().max(0).cast_unsigned();
        // A sender counts modulo 2^32, which no listener lives to see.
        numbered.max(self.sent.into()).saturating_sub(self.packets)
    }

    /// How late packets were, in nanoseconds, against the one that was the least late: a receiver
    /// cannot know more. With each how many it stands for; the latest of all stands for itself.
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

    /// A report for the sender `of`, by the receiver `from`, at `now` of the clock of
    /// [`Track::told`].
    pub fn report(&mut self, from: u32, of: u32, now: u64) -> Option<rtcp::ReceptionReport> {
        let (_, highest) = self.numbers?;
        let (expected, received) = (self.expected(), self.packets);
        let (expected_before, received_before) = self.reported;
        self.reported = (expected, received);
        let (fresh, came) = (expected - expected_before, (received - received_before) as i64);
        let share = if fresh > 0 { (fresh - came).max(0) * 256 / fresh } else { 0 };
        let (last_report, came) = self.told.unwrap_or((0, now));
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

    fn heard(sequences: &[u16]) -> Tallied {
        let mut track = Track::new(8000, 16);
        for sequence in sequences {
            track.hear(&packet(*sequence, 0), 10, 0);
        }
        track.tallied()
    }

    #[test]
    fn what_is_lost_doubled_and_out_of_order_is_told_apart() {
        let counts = |it: &Tallied| (it.packets, it.lost, it.duplicates, it.reordered);
        assert_eq!(counts(&heard(&[65534, 65535, 0, 1])), (4, 0, 0, 0), "a wrap is no loss");
        assert_eq!(counts(&heard(&[1, 2, 5, 6])), (4, 2, 0, 0));
        assert_eq!(counts(&heard(&[1, 3, 2, 4])), (4, 0, 0, 1));
        assert_eq!(counts(&heard(&[1, 2, 2, 3, 1])), (3, 0, 2, 0));
        assert_eq!(counts(&heard(&[5, 4, 6])), (3, 0, 0, 1), "earlier than the first");
        let all: Vec<u16> = (0..5000).chain(4990..5001).collect();
        assert_eq!(counts(&heard(&all)), (5001, 0, 10, 0));
        assert_eq!(heard(&[3]).bytes, 10);
    }

    #[test]
    fn lateness_is_counted_from_the_least_late() {
        let mut track = Track::new(1000, 16);
        let came_ms = [105, 120, 147, 160];
        for (at, came) in (0..).zip(came_ms) {
            // 20 ms apart, over the wrap of the timestamp.
            let ticks = (u32::MAX - 30).wrapping_add(u32::from(at) * 20);
            track.hear(&packet(at, ticks), 1, came * 1_000_000);
        }
        let late: Vec<u64> = track.lateness_ns().map(|(ns, _)| ns / 1_000_000).collect();
        assert_eq!(late, [5, 0, 7, 0]);
        let jitter = track.tallied().jitter_ms;
        assert!((0.5..2.0).contains(&jitter), "5, 7 and 7 ms of difference, a 16th each: {jitter}");
    }

    #[test]
    fn of_many_packets_some_stand_for_all() {
        let mut track = Track::new(1000, 64);
        for at in 0..10_000_u32 {
            // A millisecond apart; each tenth is 3 ms late, and one is 900.
            let late = if at == 777 { 900 } else { u64::from(at % 10 == 9) * 3 };
            let came = u64::from(at) + late + 50;
            track.hear(&packet(at as u16, at), 1, came * 1_000_000);
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
            track.hear(&packet(sequence, 0), 1, 0);
        }
        track.begins_at(65_535);
        assert_eq!(track.tallied().lost, 4, "65535, 0, 1, 2");
        let sent = rtcp::SenderInfo { ssrc: 7, ntp: 0, timestamp: 0, packets: 9, octets: 9 };
        track.told(&sent, 0, false);
        assert_eq!(track.tallied().lost, 4, "they may have been for others");
        track.told(&sent, 0, true);
        assert_eq!(track.tallied().lost, 6);
        track.hear(&packet(1, 0), 1, 0);
        assert_eq!((track.tallied().lost, track.tallied().reordered), (5, 1));
    }

    #[test]
    fn a_report_tells_the_share_since_the_last() {
        let mut track = Track::new(8000, 16);
        assert_eq!(track.report(1, 2, 0), None);
        for sequence in [10, 11, 13, 14] {
            track.hear(&packet(sequence, 0), 1, 0);
        }
        let sent = rtcp::SenderInfo {
            ssrc: 7,
            ntp: 5 << 32 | 6 << 16,
            timestamp: 0,
            packets: 0,
            octets: 0,
        };
        track.told(&sent, 1_000_000_000, true);
        let report = track.report(1, 2, 1_500_000_000).expect("packets came");
        assert_eq!((report.last_report, report.since_report), (5 << 16 | 6, 1 << 15));
        assert_eq!((report.lost, report.lost_share, report.sequence), (1, 51, 14));
        track.hear(&packet(15, 0), 1, 0);
        assert_eq!(track.report(1, 2, 0).map(|it| (it.lost, it.lost_share)), Some((1, 0)));
    }
}
