//! Files of each format, built byte by byte, come back packet by packet.
//!
//! The oracle is the file itself: the payloads of a track, put together, are the bytes that the
//! test wrote, and due times follow from the rate or the clock of the file.

use std::io::Cursor;

use super::*;
use crate::message::PutField;
use stats::Rng;

pub(super) fn wave(code: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    let block = channels * bits / 8;
    let mut file = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
    file.put(code).put(channels).put(rate).put(rate * u32::from(block)).put(block).put(bits);
    file.extend_from_slice(b"data");
    file.put(data.len() as u32);
    file.extend_from_slice(data);
    file
}

/// A transport stream of `packets` packets; every tenth has a clock that advances `per_packet`
/// ticks of 27 MHz a packet from `start` on, and every fiftieth is a random access point.
fn stream(packets: usize, start: u64, per_packet: u64) -> Vec<u8> {
    let mut file = Vec::new();
    for index in 0..packets {
        let mut packet = vec![index as u8; 188];
        packet[..4].copy_from_slice(&[0x47, 0x01, 0x00, 0x10]);
        if index % 10 == 0 {
            let pcr = (start + index as u64 * per_packet) % ((1 << 33) * 300);
            let (base, rest) = (pcr / 300, pcr % 300);
            packet[3] = 0x30;
            packet[4] = 7;
            packet[5] = 0x10 | if index % 50 == 0 { 0x40 } else { 0 };
            packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
            packet[10] = ((base & 1) as u8) << 7 | 0x7e | (rest >> 8) as u8;
            packet[11] = rest as u8;
        }
        file.extend_from_slice(&packet);
    }
    file
}

/// Returns the payloads of a track with their prefixes, and checks the invariants of every plan:
/// due times and packets are in order, and payloads fit.
pub(super) fn payloads(program: &Program, track: usize, file: &[u8]) -> Vec<Vec<u8>> {
    let plan = &program.tracks[track].plan;
    let mut last_ns = 0;
    (0..plan.len())
        .map(|index| {
            let packet = plan.packet(index);
            assert_eq!(plan.at_ns(index), Some(packet.at_ns));
            assert!(packet.at_ns >= last_ns, "packet {index} is due before the one before");
            assert!(packet.at_ns <= program.duration_ns, "packet {index} is due after the end");
            last_ns = packet.at_ns;
            let mut bytes = packet.prefix.bytes().to_vec();
            match packet.payload {
                Payload::File(range) => {
                    bytes.extend_from_slice(&file[range.start as usize..range.end as usize]);
                }
                Payload::Swapped(range) => {
                    let samples = &file[range.start as usize..range.end as usize];
                    bytes.extend(samples.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]));
                }
                Payload::Made(range) => bytes.extend_from_slice(&program.made[range]),
            }
            assert!(!bytes.is_empty() && bytes.len() <= PAYLOAD_MAX, "packet {index}");
            bytes
        })
        .collect()
}

#[test]
fn sound_comes_back_sample_by_sample_and_due_times_are_those_of_its_rate() {
    let data: Vec<u8> = (0..48_000_u32).map(|at| (at * 7) as u8).collect();
    let check = |code, channels, rate, bits, name: &str, payload_type, bytes: usize| {
        let file = wave(code, channels, rate, bits, &data);
        let program = open(&mut Cursor::new(&file)).expect(name);
        let track = &program.tracks[0];
        assert_eq!((track.encoding.as_str(), track.payload_type), (name, payload_type));
        let payloads = payloads(&program, 0, &file);
        assert_eq!(payloads[0].len(), bytes, "{name}");
        let mut sent = payloads.concat();
        if bits == 16 {
            sent.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        assert_eq!(sent, data, "{name}");
        let frame = u64::from(channels * bits / 8);
        let samples = bytes as u64 / frame;
        let third = track.plan.packet(2);
        assert_eq!(third.ticks, 2 * samples, "{name}");
        assert_eq!(third.at_ns, 2 * samples * 1_000_000_000 / u64::from(rate), "{name}");
        assert_eq!(program.duration_ns, 48_000 / frame * 1_000_000_000 / u64::from(rate));
    };
    check(7, 1, 8_000, 8, "PCMU/8000", 0, 160);
    check(6, 1, 8_000, 8, "PCMA/8000", 8, 160);
    check(1, 1, 8_000, 16, "L16/8000", 97, 320);
    check(1, 1, 44_100, 16, "L16/44100", 11, 1400);
    check(1, 2, 44_100, 16, "L16/44100/2", 10, 1400);
    check(1, 2, 48_000, 16, "L16/48000/2", 97, 1400);
}

#[test]
fn a_transport_stream_comes_back_and_its_clock_paces_it_across_its_wrap() {
    // 188 bytes in 0.5 ms are 3 Mbit/s; the clock wraps after a second.
    let wrap = (1_u64 << 33) * 300;
    for start in [0, 12_345, wrap - 27_000_000] {
        let file = stream(8_003, start, 13_500);
        let program = open(&mut Cursor::new(&file)).expect("a stream");
        let sent = payloads(&program, 0, &file);
        assert_eq!(sent.concat(), file);
        assert_eq!((sent[0].len(), sent[1143].len()), (1316, 2 * 188));
        let plan = &program.tracks[0].plan;
        for index in 0..plan.len() {
            let due = plan.packet(index).at_ns;
            let want = index * 7 * 500_000;
            assert!(due.abs_diff(want) <= 50, "packet {index} is due at {due}, not {want}");
        }
        assert!(program.duration_ns.abs_diff(8_003 * 500_000) < 1_000);
        assert!(program.tracks[0].bits.abs_diff(3_008_000) < 10);
    }
}

#[test]
fn a_jump_of_the_clock_does_not_stop_the_stream() {
    let mut file = stream(4_000, 0, 13_500);
    file.extend_from_slice(&stream(4_000, 900_000_000, 13_500));
    let program = open(&mut Cursor::new(&file)).expect("a stream");
    assert!(program.duration_ns.abs_diff(4_000_000_000) < 10_000_000, "{}", program.duration_ns);
}

#[test]
fn an_index_is_found_by_its_time_and_a_beginning_before_it() {
    let file = stream(8_000, 0, 13_500);
    let program = open(&mut Cursor::new(&file)).expect("a stream");
    let plan = &program.tracks[0].plan;
    for ns in [0, 1, 3_500_000, 3_500_001, 2_000_000_000, program.duration_ns, u64::MAX] {
        let index = plan.first_at(ns);
        assert!(plan.at_ns(index).is_none_or(|at| at >= ns), "at {ns}");
        assert!(index == 0 || plan.at_ns(index - 1).is_some_and(|at| at < ns), "before {ns}");
        let sync = plan.sync_at(ns);
        assert!(plan.packet(sync).sync && plan.packet(sync).at_ns <= ns, "a beginning for {ns}");
        let next = plan.sync_from(index);
        assert!(next == plan.len() || next >= index && plan.packet(next).sync);
    }
}

#[test]
fn who_begins_in_the_middle_is_told_first_what_is_in_the_stream() {
    // Random access points are packets 50, 100 and so on; program tables precede two of them, in
    // the datagram before (packet 48) and far ahead.
    let mut file = stream(400, 0, 270_000);
    for packet in [48, 110] {
        file[packet * 188 + 1..packet * 188 + 3].copy_from_slice(&[0x40, 0]);
    }
    let program = open(&mut Cursor::new(&file)).expect("a stream");
    let plan = &program.tracks[0].plan;
    let syncs: Vec<u64> = (0..plan.len()).filter(|at| plan.packet(*at).sync).collect();
    assert_eq!(syncs, [0, 48 / 7, 100 / 7, 110 / 7, 200 / 7, 250 / 7, 300 / 7, 350 / 7]);
}

#[test]
fn a_stream_says_which_time_it_gives_to_its_beginning() {
    let mut file = stream(400, 0, 13_500);
    assert_eq!(open(&mut Cursor::new(&file)).expect("a stream").tracks[0].plan.begins_ns(), 0);
    // Video (0x100) from 2.0 s on, audio (0x101) from 1.5 s and then 1.0 s.
    for (at, pid, kind, time) in
        [(11, 0, 0xe0, 180_000_u64), (12, 1, 0xc0, 135_000), (13, 1, 0xc0, 90_000)]
    {
        let packet = &mut file[at * 188..][..188];
        packet[..4].copy_from_slice(&[0x47, 0x41, pid, 0x10]);
        let [low, high] = [time << 1, time >> 14].map(|it| (it as u16 | 1).to_be_bytes());
        let top = 0x21 | (time >> 29) as u8;
        let head = [0, 0, 1, kind, 0, 0, 0x80, 0x80, 5, top, high[0], high[1], low[0], low[1]];
        packet[4..18].copy_from_slice(&head);
    }
    let program = open(&mut Cursor::new(&file)).expect("a stream");
    assert_eq!(program.tracks[0].plan.begins_ns(), 1_500_000_000);
}

#[test]
fn what_is_no_media_is_refused_in_words() {
    let words = |file: &[u8]| match open(&mut Cursor::new(file)) {
        Ok(program) => panic!("played: {program:?}"),
        Err(unplayable) => unplayable.to_string(),
    };
    assert!(words(b"").contains("an empty one"));
    assert!(words(b"<html>").contains("another kind"));
    assert!(words(&wave(1, 2, 48_000, 24, &[0; 60])).contains("24 bits"));
    assert!(words(&wave(7, 0, 8_000, 8, &[0; 60])).contains("channels"));
    assert!(words(&wave(7, 1, 8_000, 8, &[])).contains("found none"));
    assert!(words(b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0").contains("16 bytes"));
    assert!(words(&[0x47; 188 * 3]).contains("clock"));
}

#[test]
fn a_broken_file_is_refused_or_played_and_never_a_panic() {
    let mut rng = Rng::new(1);
    let files = [wave(1, 2, 44_100, 16, &[7; 999]), stream(400, 99, 13_500)];
    for round in 0..2_000 {
        let mut file = rng.pick(&files).clone();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(file.len().min(600));
            file[at] = rng.roll() as u8;
        }
        file.truncate(1 + rng.below(file.len()));
        if let Ok(program) = open(&mut Cursor::new(&file)) {
            for track in 0..program.tracks.len() {
                assert!(!payloads(&program, track, &file).is_empty(), "round {round}");
            }
        }
    }
}

/// Ogg pages: each a list of lengths, and whether it continues the previous packet.
fn pages(serial: u32, pages: &[(bool, &[u8], &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for (continued, table, body) in pages {
        file.extend_from_slice(b"OggS\0");
        file.push(u8::from(*continued));
        file.extend_from_slice(&[0; 8]);
        file.extend_from_slice(&serial.to_le_bytes());
        file.extend_from_slice(&[0; 8]);
        file.push(table.len() as u8);
        file.extend_from_slice(table);
        file.extend_from_slice(body);
    }
    file
}

const HEAD: &[u8] = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";

#[test]
fn opus_comes_back_packet_by_packet_also_from_across_pages() {
    // 20 ms of CELT in one frame, then 60 ms of SILK, then two frames of 20 ms.
    let (one, two, three) = ([0xf8; 200], [0x18; 400], [0xf9; 300]);
    let tags = b"OpusTags";
    let mut file = pages(7, &[(false, &[19], HEAD), (false, &[8], tags)]);
    file.extend_from_slice(&pages(8, &[(false, &[3], b"\xf8no")]));
    let body = [&one[..], &two[..255]].concat();
    file.extend_from_slice(&pages(7, &[(false, &[200, 255], &body)]));
    let body = [&two[255..], &three[..]].concat();
    file.extend_from_slice(&pages(7, &[(true, &[145, 255, 45], &body)]));
    let program = open(&mut Cursor::new(&file)).expect("a stream of Opus");
    let sent = payloads(&program, 0, &file);
    assert_eq!(sent, [&one[..], &two[..], &three[..]]);
    let plan = &program.tracks[0].plan;
    let ticks: Vec<u64> = (0..3).map(|index| plan.packet(index).ticks).collect();
    assert_eq!(ticks, [0, 960, 960 + 2880]);
    assert_eq!(program.duration_ns, 120_000_000);
    assert!(plan.packet(0).marker && !plan.packet(1).marker);
    for end in 0..file.len() {
        // A truncated file is played as far as it goes.
        if let Ok(program) = open(&mut Cursor::new(&file[..end])) {
            payloads(&program, 0, &file);
        }
    }
}

#[test]
fn a_picture_is_cut_and_can_be_put_together_again() {
    // Two units: one that fits, one that does not.
    let long: Vec<u8> = (0..5_000_u32).map(|at| (at * 3) as u8 | 1).collect();
    let long = [&[0x65][..], &long].concat();
    let mut sample = vec![0, 0, 0, 3, 0x06, 1, 2];
    sample.extend_from_slice(&(long.len() as u32).to_be_bytes());
    sample.extend_from_slice(&long);
    let file = [&b"junk"[..], &sample].concat();
    let mut cuts = Vec::new();
    let range = 4..file.len() as u64;
    let h264 = nal::Standard::H264;
    h264.cut(&mut Cursor::new(&file), range.clone(), 4, &mut cuts).expect("two units");
    let payload = |cut: &nal::Cut| [cut.prefix.bytes(), &file[at(cut)]].concat();
    let payloads: Vec<Vec<u8>> = cuts.iter().map(payload).collect();
    let join = |lost: Option<usize>| {
        let numbered = (65_534..=u16::MAX).chain(0..).zip(&payloads).enumerate();
        let came = numbered.filter(|(at, _)| Some(*at) != lost);
        let mut out = Vec::new();
        (nal::join(came.map(|(_, (number, it))| (number, it.as_slice())), &mut out), out)
    };
    let short = [0, 0, 0, 1, 6, 1, 2];
    let second = [&[0, 0, 0, 1][..], &long].concat();
    assert_eq!(join(None), (true, [&short[..], &second].concat()));
    assert_eq!(join(Some(0)), (true, second));
    assert!((2..5).all(|lost| join(Some(lost)).1 == short), "a unit without a fragment");
    assert_eq!((cuts[1].prefix.bytes()[1], cuts[4].prefix.bytes()[1]), (0x85, 0x45));
    let mut broken = file.clone();
    broken[5] = 200;
    h264.cut(&mut Cursor::new(&broken), range, 4, &mut cuts).expect_err("longer than the sample");
    let sets = h264.together(&[&[0x67, 1, 2], &[0x28, 3]]).expect("short sets");
    assert_eq!(sets, [0x78, 0, 3, 0x67, 1, 2, 0, 2, 0x28, 3]);
    let mut out = Vec::new();
    assert!(!nal::join([(1, &sets[..]), (2, &[]), (3, &[0x7c])], &mut out));
    assert_eq!(out, [0, 0, 0, 1, 0x67, 1, 2, 0, 0, 0, 1, 0x28, 3]);
}

#[test]
fn a_picture_of_h265_is_cut_into_fragments_with_its_type_in_each() {
    // A short unit (type 39), and a long one of type 19 and temporal id 1.
    let long: Vec<u8> = [0x26, 1].into_iter().chain((0..3_000_u32).map(|at| at as u8)).collect();
    let file = [&[0, 3, 0x4e, 1, 9][..], &(long.len() as u16).to_be_bytes(), &long].concat();
    let (mut cuts, h265) = (Vec::new(), nal::Standard::H265);
    h265.cut(&mut Cursor::new(&file), 0..file.len() as u64, 2, &mut cuts).expect("two units");
    let prefixes: Vec<&[u8]> = cuts.iter().map(|cut| cut.prefix.bytes()).collect();
    let wanted: [&[u8]; 4] = [&[], &[0x62, 1, 0x93], &[0x62, 1, 0x13], &[0x62, 1, 0x53]];
    assert_eq!(prefixes, wanted);
    let body: Vec<u8> = cuts[1..].iter().flat_map(|cut| file[at(cut)].to_vec()).collect();
    assert_eq!((&file[at(&cuts[0])], body), (&[0x4e, 1, 9][..], long[2..].to_vec()));
    let sets = h265.together(&[&[0x40, 1, 5], &[0x42, 1]]).expect("short sets");
    assert_eq!(sets, [0x60, 1, 0, 3, 0x40, 1, 5, 0, 2, 0x42, 1]);
    assert_eq!(h265.together(&[&[0x42, 1]]), Some(vec![0x42, 1]), "one unit needs no aggregate");
    assert_eq!(h265.together(&[]), None);
}

fn at(cut: &nal::Cut) -> std::ops::Range<usize> {
    cut.range.start as usize..cut.range.end as usize
}

#[test]
fn opus_of_several_streams_is_refused_with_what_to_do() {
    for (family, channels, streams) in [(1, 6, 4), (255, 2, 2), (0, 3, 0)] {
        let mut head = HEAD.to_vec();
        (head[9], head[18]) = (channels, family);
        head.push(streams);
        let file = pages(7, &[(false, &[20], &head)]);
        let why = open(&mut Cursor::new(&file)).expect_err("no single stream").to_string();
        let layout = format!("Opus with {channels} channels");
        assert!(why.contains(&layout) && why.contains("-ac 2"), "{why}");
    }
}
