//! What one receiver finds out about one sender (RFC 3550 sections 6.4.1, A.1, A.3 and A.8).

use serde::Serialize;
use wire::rtcp;
use wire::rtp::Header;

/// How many sequence numbers back a packet is still told from one that came twice.
const WINDOW: i64 = 1024;
/// Packets whose lateness is kept, for each sender: beyond, the earliest stand for all.
const KEPT: usize = 1 << 20;

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
    /// The same for each packet, less that of the first.
    delays_ns: Vec<i64>,
    first_transit_ns: i64,
    jitter_ns: f64,
    packets: u64,
    bytes: u64,
    duplicates: u64,
    reordered: u64,
    /// What was expected and received when the last report was made.
    reported: (i64, u64),
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tallied {
    /// Packets, those that came twice left out.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets that never came although a later one did.
    pub lost: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came behind a later one.
    pub reordered: u64,
    /// Interarrival jitter, in milliseconds.
    pub jitter_ms: f64,
}

impl Track {
    /// A sender whose timestamps count `clock` ticks a second.
    pub fn new(clock: u32) -> Track {
        Track {
            clock: clock.max(1),
            numbers: None,
            seen: [0; WINDOW as usize / 64],
            ticks: None,
            transit_ns: 0,
            delays_ns: Vec::new(),
            first_transit_ns: 0,
            jitter_ns: 0.0,
            packets: 0,
            bytes: 0,
            duplicates: 0,
            reordered: 0,
            reported: (0, 0),
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
        if self.delays_ns.len() < KEPT {
            self.delays_ns.push(transit_ns - self.first_transit_ns);
        }
        (self.ticks, self.transit_ns) = (Some((timestamp, ticks)), transit_ns);
    }

    /// What was found so far.
    pub fn tallied(&self) -> Tallied {
        Tallied {
            packets: self.packets,
            bytes: self.bytes,
            lost: self.expected().saturating_sub(self.packets.cast_signed()).max(0).cast_unsigned(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            jitter_ms: self.jitter_ns / 1e6,
        }
    }

    /// How late each packet was, in nanoseconds, against the one that was the least late: a
    /// receiver cannot know more.
    pub fn lateness_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let least = self.delays_ns.iter().min().copied().unwrap_or(0);
        self.delays_ns.iter().map(move |delay| (delay - least).cast_unsigned())
    }

    fn expected(&self) -> i64 {
        self.numbers.map_or(0, |(first, highest)| highest - first + 1)
    }

    /// A report for the sender `of`, by the receiver `from`.
    pub fn report(&mut self, from: u32, of: u32) -> Option<rtcp::Heard> {
        let (_, highest) = self.numbers?;
        let (expected, received) = (self.expected(), self.packets);
        let (expected_before, received_before) = self.reported;
        self.reported = (expected, received);
        let (fresh, came) = (expected - expected_before, (received - received_before) as i64);
        let share = if fresh > 0 { (fresh - came).max(0) * 256 / fresh } else { 0 };
        Some(rtcp::Heard {
            from,
            of,
            lost_share: share.min(255) as u8,
            lost: (expected - received as i64).clamp(-(1 << 23), (1 << 23) - 1) as i32,
            sequence: highest as u32,
            jitter: (self.jitter_ns * f64::from(self.clock) / 1e9) as u32,
            last_report: 0,
            since_report: 0,
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
        let mut track = Track::new(8000);
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
        let mut track = Track::new(1000);
        let came_ms = [105, 120, 147, 160];
        for (at, came) in (0..).zip(came_ms) {
            // 20 ms apart, over the wrap of the timestamp.
            let ticks = (u32::MAX - 30).wrapping_add(u32::from(at) * 20);
            track.hear(&packet(at, ticks), 1, came * 1_000_000);
        }
        let late: Vec<u64> = track.lateness_ns().map(|ns| ns / 1_000_000).collect();
        assert_eq!(late, [5, 0, 7, 0]);
        let jitter = track.tallied().jitter_ms;
        assert!((0.5..2.0).contains(&jitter), "5, 7 and 7 ms of difference, a 16th each: {jitter}");
    }

    #[test]
    fn a_report_tells_the_share_since_the_last() {
        let mut track = Track::new(8000);
        assert_eq!(track.report(1, 2), None);
        for sequence in [10, 11, 13, 14] {
            track.hear(&packet(sequence, 0), 1, 0);
        }
        let report = track.report(1, 2).expect("packets came");
        assert_eq!((report.lost, report.lost_share, report.sequence), (1, 51, 14));
        track.hear(&packet(15, 0), 1, 0);
        assert_eq!(track.report(1, 2).map(|it| (it.lost, it.lost_share)), Some((1, 0)));
    }
}
