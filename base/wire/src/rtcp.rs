//! Control packets of RTP (RFC 3550 section 6): sender reports, receiver reports, and the timer for
//! the next one.
//!
//! `rtcp-types` writes and reads the packets; the timer of section 6.3 is ours, because it is plain
//! arithmetic. Its last factor surprises: reconsideration makes members wait longer than they drew,
//! so the drawn time is divided by e - 3/2 to compensate.

use std::time::Duration;

use rtcp_types::{
    Bye, Compound, Packet, ReceiverReport, RtcpPacketWriter, RtcpPacketWriterExt, Sdes,
    SdesBuilder, SdesChunk, SdesItem, SenderReport,
};

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_UNIX: u64 = 2_208_988_800;
const SECOND: u64 = 1_000_000_000;

/// The sender information of a report (section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// The sender's SSRC.
    pub ssrc: u32,
    /// The wall clock in the format of [`ntp`].
    pub ntp: u64,
    /// The same moment in ticks of the media clock.
    pub timestamp: u32,
    /// Packets sent since the beginning.
    pub packets: u32,
    /// Bytes of payload sent since the beginning.
    pub octets: u32,
}

/// The wall clock in the format of NTP: seconds since 1900 and fractions of 2^-32.
pub fn ntp(wall_ns: u64) -> u64 {
    let seconds = (wall_ns / SECOND).wrapping_add(NTP_UNIX);
    let fraction = ((wall_ns % SECOND) << 32) / SECOND;
    seconds << 32 | fraction
}

/// Appends a sender's compound packet: its report, its CNAME, and a BYE if it ends.
///
/// A `cname` of more than 255 bytes is cut.
pub fn write_sender_report(sent: &SenderInfo, cname: &str, bye: bool, out: &mut Vec<u8>) {
    let report = SenderReport::builder(sent.ssrc)
        .ntp_timestamp(sent.ntp)
        .rtp_timestamp(sent.timestamp)
        .packet_count(sent.packets)
        .octet_count(sent.octets);
    let mut compound = Compound::builder().add_packet(report).add_packet(name(sent.ssrc, cname));
    if bye {
        compound = compound.add_packet(Bye::builder().add_source(sent.ssrc));
    }
    append(&compound, out);
}

fn append(compound: &impl RtcpPacketWriter, out: &mut Vec<u8>) {
    let from = out.len();
    let len = compound.calculate_size().unwrap_or(0);
    out.resize(from + len, 0);
    let written = compound.write_into(&mut out[from..]).unwrap_or(0);
    out.truncate(from + written);
}

/// The description of the source `ssrc`.
fn name(ssrc: u32, cname: &str) -> SdesBuilder<'_> {
    let cut = cname.floor_char_boundary(255);
    let item = SdesItem::builder(SdesItem::CNAME, &cname[..cut]);
    Sdes::builder().add_chunk(SdesChunk::builder(ssrc).add_item(item))
}

/// Appends a receiver's compound packet: its reports on each sender, and its CNAME.
pub fn write_receiver_report(from: u32, heard: &[ReceptionReport], cname: &str, out: &mut Vec<u8>) {
    // A report holds 31 blocks (section 6.4.2).
    let report = heard.iter().take(31).fold(ReceiverReport::builder(from), |report, heard| {
        let block = rtcp_types::ReportBlock::builder(heard.of)
            .fraction_lost(heard.lost_share)
            .cumulative_lost(heard.lost.cast_unsigned() & 0xff_ffff)
            .extended_sequence_number(heard.sequence)
            .interarrival_jitter(heard.jitter)
            .last_sender_report_timestamp(heard.last_report)
            .delay_since_last_sender_report_timestamp(heard.since_report);
        report.add_report_block(block)
    });
    append(&Compound::builder().add_packet(report).add_packet(name(from, cname)), out);
}

/// A receiver's report on one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceptionReport {
    /// The reporter's SSRC.
    pub from: u32,
    /// The sender's SSRC.
    pub of: u32,
    /// The fraction lost since the previous report, in 256ths.
    pub lost_share: u8,
    /// Packets lost since the beginning; negative if duplicates arrived.
    pub lost: i32,
    /// The highest sequence number received, extended by its wraps.
    pub sequence: u32,
    /// The jitter in ticks of the media clock.
    pub jitter: u32,
    /// The middle 32 bits of the last sender report's [`ntp`]; 0 before the first.
    pub last_report: u32,
    /// The time since it arrived, in 65,536ths of a second.
    pub since_report: u32,
}

impl ReceptionReport {
    /// The round-trip time, given `now` in the format of [`ntp`]; `None` before the receiver has
    /// seen a sender report, or if the numbers are implausible.
    pub fn round_trip(&self, now: u64) -> Option<Duration> {
        if self.last_report == 0 {
            return None;
        }
        let middle = (now >> 16) as u32;
        let units = middle.wrapping_sub(self.last_report).wrapping_sub(self.since_report);
        // More than nine hours means a false report or a clock that was set.
        (units < 1 << 31).then(|| Duration::from_nanos((u64::from(units) * SECOND) >> 16))
    }
}

/// One message of an RTCP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A report.
    Report(ReceptionReport),
    /// A sender's information.
    Sender(SenderInfo),
    /// The member with this SSRC is still there.
    Alive(u32),
    /// The member with this SSRC leaves.
    Bye(u32),
}

/// Reads a compound packet and passes each message to `tell`; false if it is malformed, and then
/// nothing after the fault is passed on.
pub fn read(datagram: &[u8], mut tell: impl FnMut(Message)) -> bool {
    let Ok(compound) = Compound::parse(datagram) else { return false };
    for packet in compound {
        let blocks: Vec<ReceptionReport> = match &packet {
            Ok(Packet::Rr(report)) => {
                tell(Message::Alive(report.ssrc()));
                let from = report.ssrc();
                report.report_blocks().map(|block| heard(from, &block)).collect()
            }
            Ok(Packet::Sr(report)) => {
                tell(Message::Alive(report.ssrc()));
                tell(Message::Sender(SenderInfo {
                    ssrc: report.ssrc(),
                    ntp: report.ntp_timestamp(),
                    timestamp: report.rtp_timestamp(),
                    packets: report.packet_count(),
                    octets: report.octet_count(),
                }));
                let from = report.ssrc();
                report.report_blocks().map(|block| heard(from, &block)).collect()
            }
            Ok(Packet::Bye(bye)) => {
                bye.ssrcs().for_each(|ssrc| tell(Message::Bye(ssrc)));
                continue;
            }
            Ok(_) => continue,
            Err(_) => return false,
        };
        blocks.into_iter().for_each(|heard| tell(Message::Report(heard)));
    }
    true
}

fn heard(from: u32, block: &rtcp_types::ReportBlock<'_>) -> ReceptionReport {
    // 24 bits with a sign.
    let lost = (block.cumulative_lost() << 8).cast_signed() >> 8;
    ReceptionReport {
        from,
        of: block.ssrc(),
        lost_share: block.fraction_lost(),
        lost,
        sequence: block.extended_sequence_number(),
        jitter: block.interarrival_jitter(),
        last_report: block.last_sender_report_timestamp(),
        since_report: block.delay_since_last_sender_report_timestamp(),
    }
}

/// When to report: section 6.3.1 for a sender with one receiver.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// The bandwidth for the reports of all members, in bytes a second.
    bandwidth: f64,
    /// The mean length of reports in bytes, IP and UDP headers included.
    mean: f64,
    initial: bool,
}

impl Timer {
    /// The share of the session's bandwidth for reports (section 6.2).
    const SHARE: f64 = 0.05;
    /// The minimum interval, in seconds.
    const LEAST_S: f64 = 5.0;
    /// The compensation for reconsideration: e - 3/2.
    const COMPENSATION: f64 = std::f64::consts::E - 1.5;

    /// The timer of a session with `bits` a second.
    pub fn new(bits: u64) -> Timer {
        Timer { bandwidth: bits as f64 / 8.0 * Timer::SHARE, mean: 128.0, initial: true }
    }

    /// Records that a report of `bytes` was sent or received.
    pub fn saw(&mut self, bytes: usize) {
        // 28 bytes of IPv4 and UDP count as well.
        self.mean += ((bytes + 28) as f64 - self.mean) / 16.0;
    }

    /// The time until the next report; `draw` is 64 random bits.
    pub fn interval(&mut self, draw: u64) -> Duration {
        let least = if self.initial { Timer::LEAST_S / 2.0 } else { Timer::LEAST_S };
        self.initial = false;
        // Both members share the bandwidth, because more than a quarter of them send.
        let fair = self.mean * 2.0 / self.bandwidth.max(1.0);
        // 0.5 to 1.5, so that members do not synchronise.
        let spread = 0.5 + (draw >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(fair.max(least).min(3600.0) * spread / Timer::COMPENSATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtcp_types::ReportBlock;

    const SENT: SenderInfo = SenderInfo {
        ssrc: 7,
        ntp: 0xe000_0000_8000_0000,
        timestamp: 90_000,
        packets: 3,
        octets: 99,
    };

    #[test]
    fn what_a_receiver_writes_a_sender_reads() {
        let heard = ReceptionReport {
            from: 5,
            of: 7,
            lost_share: 3,
            lost: -2,
            sequence: 70_000,
            jitter: 9,
            last_report: 1,
            since_report: 2,
        };
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        write_receiver_report(5, &[heard], "me", &mut bytes);
        assert!(read(&bytes, |word| words.push(word)));
        assert_eq!(words, [Message::Alive(5), Message::Report(heard)]);
    }

    #[test]
    fn a_report_is_a_whole_compound_packet() {
        for bye in [false, true] {
            let mut bytes = b"before".to_vec();
            write_sender_report(&SENT, "media@host", bye, &mut bytes);
            let compound = Compound::parse(&bytes[6..]).expect("a compound packet");
            let kinds: Vec<String> = compound
                .map(|packet| match packet.expect("a packet") {
                    Packet::Sr(report) => {
                        assert_eq!(report.ntp_timestamp(), SENT.ntp);
                        assert_eq!((report.packet_count(), report.octet_count()), (3, 99));
                        format!("SR {} {}", report.ssrc(), report.rtp_timestamp())
                    }
                    Packet::Sdes(sdes) => {
                        let chunk = sdes.chunks().next().expect("a chunk");
                        let item = chunk.items().next().expect("an item");
                        format!("CNAME {}", String::from_utf8_lossy(item.value()))
                    }
                    Packet::Bye(bye) => format!("BYE {:?}", bye.ssrcs().collect::<Vec<_>>()),
                    other => panic!("{other:?}"),
                })
                .collect();
            let want = ["SR 7 90000", "CNAME media@host", "BYE [7]"];
            assert_eq!(kinds, want[..if bye { 3 } else { 2 }]);
        }
    }

    #[test]
    fn a_receivers_words_and_the_time_there_and_back() {
        let block = ReportBlock::builder(7)
            .fraction_lost(64)
            .cumulative_lost(0xff_ffff)
            .extended_sequence_number(0x1_0002)
            .interarrival_jitter(12)
            .last_sender_report_timestamp(0x0001_0000)
            .delay_since_last_sender_report_timestamp(0x8000);
        let report = ReceiverReport::builder(9).add_report_block(block);
        let name = Sdes::builder()
            .add_chunk(SdesChunk::builder(9).add_item(SdesItem::builder(SdesItem::CNAME, "c")));
        let whole = Compound::builder()
            .add_packet(report)
            .add_packet(name)
            .add_packet(Bye::builder().add_source(9));
        let mut bytes = vec![0; whole.calculate_size().expect("a size")];
        whole.write_into(&mut bytes).expect("room");
        let mut words = Vec::new();
        assert!(read(&bytes, |word| words.push(word)));
        let [Message::Alive(9), Message::Report(heard), Message::Bye(9)] = words[..] else {
            panic!("{words:?}");
        };
        assert_eq!((heard.of, heard.lost, heard.lost_share), (7, -1, 64));
        // Reported at 1 s, held for 0.5 s, back at 1.75 s.
        assert_eq!(heard.round_trip(0x0000_0001_c000_0000), Some(Duration::from_millis(250)));
        assert_eq!(heard.round_trip(0x0000_0001_0000_0000), None, "back before it was sent");
    }

    #[test]
    fn the_wall_clock_of_1970() {
        assert_eq!(ntp(0) >> 32, NTP_UNIX);
        assert_eq!(ntp(500_000_000) & 0xffff_ffff, 1 << 31);
    }

    #[test]
    fn reports_come_every_five_seconds_or_take_their_share() {
        let mut timer = Timer::new(1_000_000);
        let first = timer.interval(u64::MAX / 2).as_secs_f64();
        assert!((first - 2.5 / 1.218).abs() < 0.01, "{first}");
        let mut all = 0.0;
        for round in 0_u64..1000 {
            let next = timer.interval(round << 54).as_secs_f64();
            assert!((2.05..=6.2).contains(&next), "{next}");
            all += next;
        }
        assert!((all / 1000.0 - 5.0 / 1.218).abs() < 0.1, "{all}");
        // 5 % of 25 bytes a second: two reports of 128 bytes in 204.8 s.
        let slow = Timer::new(200).interval(u64::MAX / 2).as_secs_f64();
        assert!((slow - 204.8 / 1.218).abs() < 0.1, "{slow}");
    }
}
