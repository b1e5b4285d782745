//! ISO base media (ISO/IEC 14496-12), read by `mp4-atom`: H.264 (RFC 6184), H.265 (RFC 7798), AAC
//! (RFC 3640) and Opus (RFC 7587). Other tracks are left out. A file that was cut off after its
//! index is played as far as it goes.
//!
//! Packets are sent in decoding order and carry presentation times. Pictures are decoded before
//! they are shown, and audio has priming samples, so times may be negative. The zero of the plan is
//! therefore the earliest decoding time, and every track is shifted by the same amount.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mp4_atom::{Avcc, Codec, Decode, Esds, Hvcc, Moov, Stbl, StszSamples, Trak};
use std::fmt::Write;

use super::edits;
use super::nal::{Cut, Standard};
use super::plan::{Kind, Listed, MADE, MARKER, Prefix, SECOND, SYNC, Track, scaled};
use super::{PACKETS_MAX, PAYLOAD_MAX, Program, Unplayable, fill, ogg};

/// The longest index, in bytes; an hour of video has about one megabyte.
const MOOV_MAX: u64 = 128 << 20;
const SAMPLES_MAX: usize = 1 << 24;
const VIDEO_CLOCK: u32 = 90_000;
const VIDEO_TYPE: u8 = 96;
/// The number of packets of one picture that are sent together. The groups of a large picture are
/// spread over half of its duration, so that no switch on the path must buffer all of it.
const GROUP: usize = 8;

/// One sample: its range, and its times in units of its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub range: Range<u64>,
    pub decoded: i64,
    pub shown: i64,
    pub lasts: u32,
    pub is_sync: bool,
}

/// The coding of pictures: a standard, its parameter sets, their words in a description, and the
/// length of a unit's length in bytes.
struct Coding<'a> {
    standard: Standard,
    sets: Vec<&'a [u8]>,
    parameters: String,
    length_size: usize,
}

enum Codes<'a> {
    Pictures(Coding<'a>),
    Aac { esds: &'a Esds, channels: u16 },
    Opus { channels: u8 },
}

/// A track whose packets are not made yet.
struct Draft<'a> {
    codes: Codes<'a>,
    samples: Vec<Sample>,
    /// Time units a second.
    scale: u32,
}

/// Makes the plan of an MP4 file.
pub fn open(file: &mut (impl Read + Seek)) -> Result<Program, Unplayable> {
    let (moov, len) = read_moov(file)?;
    let mut drafts = Vec::new();
    let mut found = Vec::new();
    for trak in &moov.trak {
        match codes(trak) {
            Ok(codes) => {
                let scale = trak.mdia.mdhd.timescale;
                let mut samples = samples(trak, len)?;
                let is_video = matches!(codes, Codes::Pictures(_));
                edits::apply(trak, moov.mvhd.timescale, is_video, &mut samples);
                if scale > 0 && !samples.is_empty() {
                    drafts.push(Draft { codes, samples, scale });
                }
            }
            Err(name) => found.push(name),
        }
    }
    if drafts.is_empty() {
        if moov.mvex.is_some() {
            return Err(Unplayable::Fragments);
        }
        return Err(Unplayable::Codec(format!(
            "H.264, H.265, AAC or Opus, found {}; ffmpeg -i FILE -c:v libx264 -c:a aac NEW.mp4 \
             makes them",
            if found.is_empty() { "no tracks".to_owned() } else { found.join(", ") }
        )));
    }
    // The zero of the plan: the earliest time, if that is before the zero of the file.
    let earliest =
        |draft: &Draft<'_>| draft.samples.first().map_or(0, |it| ns(it.decoded, draft.scale));
    let zero = drafts.iter().map(earliest).min().unwrap_or(0).min(0);
    let mut made = Vec::new();
    let (mut tracks, mut duration_ns) = (Vec::new(), 1);
    for draft in drafts {
        let (track, end) = make(file, &draft, zero, &mut made)?;
        tracks.push(track);
        duration_ns = duration_ns.max(end);
    }
    Ok(Program { tracks, duration_ns, made: made.into(), left_out: found })
}

/// Finds the index (moov) among the boxes of the file and reads it; also returns the file's length.
fn read_moov(file: &mut (impl Read + Seek)) -> Result<(Moov, u64), Unplayable> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut at = 0;
    while at < len {
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(at))?;
        let read = fill(file, &mut head)?;
        let size = u64::from(u32::from_be_bytes([head[0], head[1], head[2], head[3]]));
        let size = match size {
            0 => len - at,
            1 => u64::from_be_bytes([
                head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15],
            ]),
            size => size,
        };
        if read < 8 || size < 8 || size > len - at {
            break;
        }
        if &head[4..8] == b"moov" {
            if size > MOOV_MAX {
                return Err(Unplayable::Damaged("the index is longer than any film's"));
            }
            let mut bytes = vec![0; size as usize];
            file.seek(SeekFrom::Start(at))?;
            fill(file, &mut bytes)?;
            let moov = Moov::decode(&mut bytes.as_slice());
            return moov
                .map(|moov| (moov, len))
                .map_err(|_| Unplayable::Damaged("expected an index (moov), found other bytes"));
        }
        at += size;
    }
    Err(Unplayable::Damaged("expected an index (moov), found none: is the file whole?"))
}

/// The codec of the track, or its name if it cannot be sent.
fn codes(trak: &Trak) -> Result<Codes<'_>, String> {
    let codec = trak.mdia.minf.stbl.stsd.codecs.first();
    match codec.ok_or("a track without a codec")? {
        Codec::Avc1(avc) => avc_coding(&avc.avcc),
        Codec::Avc3(avc) => avc_coding(&avc.avcc),
        Codec::Hvc1(hevc) => Ok(Codes::Pictures(hevc_coding(&hevc.hvcc))),
        Codec::Hev1(hevc) => Ok(Codes::Pictures(hevc_coding(&hevc.hvcc))),
        Codec::Mp4a(aac) => Ok(Codes::Aac { esds: &aac.esds, channels: aac.audio.channel_count }),
        Codec::Opus(opus) => {
            let (channels, mapping) = (opus.dops.output_channel_count, &opus.dops.channel_mapping);
            let streams = mapping.as_ref().map_or(1, |mapping| mapping.stream_count);
            ogg::layout(channels, streams).map_or(Ok(Codes::Opus { channels }), Err)
        }
        Codec::Vp08(_) => Err("VP8".to_owned()),
        Codec::Vp09(_) => Err("VP9".to_owned()),
        Codec::Av01(_) => Err("AV1".to_owned()),
        Codec::Jpeg(_) => Err("MJPEG".to_owned()),
        Codec::Unknown(code, _) if code.as_ref() == b"mp4v" => Err("MPEG-4 video".to_owned()),
        Codec::Unknown(code, _) => Err(code.to_string()),
        other => {
            let name = format!("{other:?}");
            Err(name.split(['(', ' ']).next().unwrap_or("").to_lowercase())
        }
    }
}

fn avc_coding(avcc: &Avcc) -> Result<Codes<'_>, String> {
    let sets = avcc.sequence_parameter_sets.iter().chain(&avcc.picture_parameter_sets);
    let sets: Vec<&[u8]> = sets.map(Vec::as_slice).collect();
    let mut parameters = format!(
        "packetization-mode=1;profile-level-id={:02X}{:02X}{:02X}",
        avcc.avc_profile_indication, avcc.profile_compatibility, avcc.avc_level_indication,
    );
    // Those of avc3 are in the stream.
    if !sets.is_empty() {
        parameters.push_str(&format!(";sprop-parameter-sets={}", encoded(&sets)));
    }
    let length_size = usize::from(avcc.length_size);
    match length_size {
        1..=4 => {
            Ok(Codes::Pictures(Coding { standard: Standard::H264, sets, parameters, length_size }))
        }
        _ => Err(format!("H.264 with lengths of {length_size} bytes")),
    }
}

fn hevc_coding(hvcc: &Hvcc) -> Coding<'_> {
    // ISO/IEC 23008-2, table 7-1.
    let (mut sets, mut words) = (Vec::new(), Vec::new());
    for (kind, name) in [(32, "vps"), (33, "sps"), (34, "pps")] {
        let arrays = hvcc.arrays.iter().filter(|array| array.nal_unit_type == kind);
        let units: Vec<&[u8]> = arrays.flat_map(|it| &it.nalus).map(Vec::as_slice).collect();
        if !units.is_empty() {
            words.push(format!("sprop-{name}={}", encoded(&units)));
        }
        sets.extend(units);
    }
    let length_size = usize::from(hvcc.length_size_minus_one) + 1;
    Coding { standard: Standard::H265, sets, parameters: words.join(";"), length_size }
}

/// Parameter sets as words of a description.
fn encoded(sets: &[&[u8]]) -> String {
    sets.iter().map(|set| STANDARD.encode(set)).collect::<Vec<_>>().join(",")
}

/// Time units as nanoseconds.
fn ns(units: i64, scale: u32) -> i64 {
    let whole = scaled(units.unsigned_abs(), SECOND, scale.into());
    let whole = i64::try_from(whole).unwrap_or(i64::MAX);
    if units < 0 { -whole } else { whole }
}

/// The samples of a track that a file of `len` bytes holds, with the times of its media.
fn samples(trak: &Trak, len: u64) -> Result<Vec<Sample>, Unplayable> {
    let broken = || Unplayable::Damaged("expected tables of samples that agree");
    let stbl = &trak.mdia.minf.stbl;
    let sizes: Box<dyn Iterator<Item = u32>> = match &stbl.stsz.samples {
        StszSamples::Identical { count, size } => {
            Box::new(std::iter::repeat_n(*size, *count as usize))
        }
        StszSamples::Different { sizes } => Box::new(sizes.iter().copied()),
    };
    let mut places = Places::new(stbl);
    let mut deltas = stbl
        .stts
        .entries
        .iter()
        .flat_map(|entry| std::iter::repeat_n(entry.sample_delta, entry.sample_count as usize));
    let mut offsets =
        stbl.ctts.iter().flat_map(|ctts| &ctts.entries).flat_map(|entry| {
            std::iter::repeat_n(entry.sample_offset, entry.sample_count as usize)
        });
    let syncs = stbl.stss.as_ref().map(|stss| stss.entries.as_slice());
    let mut samples = Vec::new();
    let mut decoded = 0_i64;
    for size in sizes {
        if samples.len() == SAMPLES_MAX {
            return Err(broken());
        }
        let from = places.next(size).ok_or_else(broken)?;
        let lasts = deltas.next().ok_or_else(broken)?;
        let number = samples.len() as u32 + 1;
        let range = from..from.checked_add(size.into()).ok_or_else(broken)?;
        if range.end > len {
            break;
        }
        samples.push(Sample {
            range,
            decoded,
            shown: decoded.saturating_add(offsets.next().unwrap_or(0)),
            lasts,
            is_sync: syncs.is_none_or(|syncs| syncs.binary_search(&number).is_ok()),
        });
        decoded = decoded.saturating_add(lasts.into());
    }
    Ok(samples)
}

/// The positions of samples, chunk by chunk.
struct Places<'a> {
    stbl: &'a Stbl,
    /// The run of chunks, the chunk, and the samples left in it.
    run: usize,
    chunk: u32,
    left: u32,
    at: u64,
}

impl Places<'_> {
    fn new(stbl: &Stbl) -> Places<'_> {
        Places { stbl, run: 0, chunk: 0, left: 0, at: 0 }
    }

    /// The position of the next sample, which is `size` bytes long.
    fn next(&mut self, size: u32) -> Option<u64> {
        if self.left == 0 {
            self.chunk += 1;
            let runs = &self.stbl.stsc.entries;
            if runs.get(self.run + 1).is_some_and(|next| next.first_chunk <= self.chunk) {
                self.run += 1;
            }
            self.left = runs.get(self.run)?.samples_per_chunk;
            let index = self.chunk as usize - 1;
            self.at = match (&self.stbl.stco, &self.stbl.co64) {
                (Some(stco), _) => u64::from(*stco.entries.get(index)?),
                (None, Some(co64)) => *co64.entries.get(index)?,
                (None, None) => return None,
            };
        }
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = at.checked_add(size.into())?;
        Some(at)
    }
}

/// Converts a track's times to those of the plan.
struct Times {
    /// Time units a second.
    scale: u32,
    /// The start of the plan in nanoseconds of the file; at most 0.
    zero: i64,
}

impl Times {
    /// The time in the plan, in nanoseconds, of `units`.
    fn ns(&self, units: i64) -> u64 {
        u64::try_from(ns(units, self.scale).saturating_sub(self.zero)).unwrap_or(0)
    }

    /// The time in the plan, in clock ticks, of `units`. It is computed from units, not from
    /// nanoseconds, so that equal distances in the file stay equal on the wire.
    fn ticks(&self, units: i64, clock: u32) -> u64 {
        let lead = u128::from(self.zero.unsigned_abs()) * u128::from(clock);
        let lead = i128::try_from(lead.div_ceil(u128::from(SECOND))).unwrap_or(i128::MAX);
        let ticks = i128::from(units) * i128::from(clock);
        let ticks = ticks.div_euclid(i128::from(self.scale.max(1))).saturating_add(lead);
        u64::try_from(ticks.max(0)).unwrap_or(u64::MAX)
    }
}

/// Makes the packets of a track; also returns its end.
fn make(
    file: &mut (impl Read + Seek),
    draft: &Draft<'_>,
    zero: i64,
    made: &mut Vec<u8>,
) -> Result<(Track, u64), Unplayable> {
    let times = Times { scale: draft.scale, zero };
    let behind = |at: i64, it: &Sample| times.ns(at.saturating_add(it.lasts.into()));
    let end = draft.samples.iter().map(|it| behind(it.shown, it)).max();
    let last = draft.samples.last().map(|it| behind(it.decoded, it));
    let end = end.max(last).unwrap_or(1).max(1);
    let bytes: u64 = draft.samples.iter().map(|it| it.range.end - it.range.start).sum();
    let bits = scaled(bytes.saturating_mul(8), SECOND, end);
    let mut packets = Packets { listed: Vec::new(), last_ns: 0 };
    let track = match &draft.codes {
        Codes::Pictures(coding) => {
            pictures(file, draft, coding, &times, (&mut packets, made))?;
            let Coding { standard, parameters, .. } = coding;
            Track {
                kind: Kind::Video,
                payload_type: VIDEO_TYPE,
                encoding: format!("{}/{VIDEO_CLOCK}", standard.name()),
                parameters: (!parameters.is_empty()).then(|| parameters.clone()),
                clock: VIDEO_CLOCK,
                bits,
                plan: packets.listed.into(),
            }
        }
        Codes::Aac { esds, channels } => {
            let config = &esds.es_desc.dec_config.dec_specific;
            let raw = config.as_ref().map(|it| it.raw.as_slice()).filter(|raw| raw.len() >= 2);
            let raw = raw.ok_or_else(|| Unplayable::Codec("AAC, found no AAC in mp4a".into()))?;
            units(draft, &times, &mut packets)?;
            let mut hex = String::new();
            for byte in raw {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02X}");
            }
            Track {
                kind: Kind::Audio,
                payload_type: ogg::PAYLOAD_TYPE,
                encoding: format!(
                    "mpeg4-generic/{}/{}",
                    draft.scale,
                    configured(raw).unwrap_or((*channels).max(1))
                ),
                parameters: Some(format!(
                    "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
                     indexdeltalength=3;config={hex}"
                )),
                clock: draft.scale,
                bits,
                plan: packets.listed.into(),
            }
        }
        Codes::Opus { channels } => {
            for sample in &draft.samples {
                let ticks = times.ticks(sample.shown, ogg::RATE);
                let cut = Cut { prefix: Prefix::default(), range: sample.range.clone() };
                packets.push(times.ns(sample.decoded), ticks, &cut, SYNC)?;
            }
            ogg::track(*channels, bits, packets.listed)
        }
    };
    if track.plan.is_empty() {
        return Err(Unplayable::Damaged("expected samples with bytes in them, found none"));
    }
    Ok((track, end))
}

/// The number of channels in an AAC configuration (ISO/IEC 14496-3, table 1.19), if given. The
/// sample entry may be wrong: ffmpeg writes 2 for mono, too.
fn configured(raw: &[u8]) -> Option<u16> {
    let mut front = [0; 8];
    let len = raw.len().min(front.len());
    front[..len].copy_from_slice(&raw[..len]);
    let bits = u64::from_be_bytes(front);
    let long_kind = if bits >> 59 == 31 { 6 } else { 0 };
    let rate = 4 + if bits << (5 + long_kind) >> 60 == 15 { 24 } else { 0 };
    match bits << (5 + long_kind + rate) >> 60 {
        few @ 1..=6 => Some(few as u16),
        7 => Some(8),
        _ => None,
    }
}

/// The packets of a track so far.
struct Packets {
    listed: Vec<Listed>,
    last_ns: u64,
}

impl Packets {
    /// Appends a packet. Due times never decrease, even if those of the file do.
    fn push(&mut self, at_ns: u64, ticks: u64, cut: &Cut, flags: u8) -> Result<(), Unplayable> {
        let len = cut.range.end - cut.range.start;
        if self.listed.len() == PACKETS_MAX || len > PAYLOAD_MAX as u64 {
            return Err(Unplayable::Damaged("expected packets of 1400 bytes at most"));
        }
        self.last_ns = self.last_ns.max(at_ns);
        let (at_ns, from) = (self.last_ns, cut.range.start);
        let (len, prefix) = (len as u32, cut.prefix);
        self.listed.push(Listed { at_ns, ticks, from, len, prefix, flags });
        Ok(())
    }
}

/// The packets of H.264 and H.265.
fn pictures(
    file: &mut (impl Read + Seek),
    draft: &Draft<'_>,
    Coding { standard, sets, length_size, .. }: &Coding<'_>,
    times: &Times,
    (packets, made): (&mut Packets, &mut Vec<u8>),
) -> Result<(), Unplayable> {
    let sets = standard.together(sets).map(|payload| {
        let from = made.len() as u64;
        made.extend_from_slice(&payload);
        Cut { prefix: Prefix::default(), range: from..made.len() as u64 }
    });
    let mut cuts = Vec::new();
    for sample in &draft.samples {
        cuts.clear();
        standard.cut(file, sample.range.clone(), *length_size, &mut cuts)?;
        let (at, ticks) = (times.ns(sample.decoded), times.ticks(sample.shown, VIDEO_CLOCK));
        let mut first = if sample.is_sync { SYNC } else { 0 };
        if let Some(sets) = sets.as_ref().filter(|_| sample.is_sync && !cuts.is_empty()) {
            packets.push(at, ticks, sets, MADE | first)?;
            first = 0;
        }
        let groups = cuts.len().div_ceil(GROUP).max(1) as u64;
        let step = ns(sample.lasts.into(), draft.scale).unsigned_abs() / 2 / groups;
        for (index, cut) in cuts.iter().enumerate() {
            let marker = if index + 1 == cuts.len() { MARKER } else { 0 };
            let at = at + step * (index / GROUP) as u64;
            packets.push(at, ticks, cut, first | marker)?;
            first = 0;
        }
    }
    Ok(())
}

/// The packets of AAC: one unit each after four bytes with its length; longer units are split (RFC
/// 3640 section 3.2).
fn units(draft: &Draft<'_>, times: &Times, packets: &mut Packets) -> Result<(), Unplayable> {
    for sample in &draft.samples {
        let len = sample.range.end - sample.range.start;
        if len >= 1 << 13 {
            return Err(Unplayable::Damaged("expected units of AAC below 8192 bytes"));
        }
        if len == 0 {
            continue;
        }
        let [high, low] = ((len as u16) << 3).to_be_bytes();
        let prefix = Prefix::new(&[0, 16, high, low]);
        let ticks = times.ticks(sample.shown, draft.scale);
        let mut from = sample.range.start;
        while from < sample.range.end {
            let to = sample.range.end.min(from + PAYLOAD_MAX as u64 - 4);
            let marker = if to == sample.range.end { MARKER } else { 0 };
            let cut = Cut { prefix, range: from..to };
            packets.push(times.ns(sample.decoded), ticks, &cut, SYNC | marker)?;
            from = to;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_channels_are_what_the_file_says() {
        // Audio at 48 kHz that starts 1024 samples before the zero of a file whose video starts 80
        // ms before it; and video at a third of 90 kHz.
        for (scale, clock, step, zero) in
            [(48_000, 48_000, 1024, -80_000_000), (30_000, 90_000, 1001, -66_733_334)]
        {
            let times = Times { scale, zero };
            let ticks: Vec<u64> = (-1..500).map(|at| times.ticks(at * step, clock)).collect();
            let wanted = step.unsigned_abs() * u64::from(clock / scale);
            assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == wanted), "{ticks:?}");
            let from_ns = scaled(times.ns(-step), clock.into(), SECOND);
            assert!(ticks[0].abs_diff(from_ns) <= 1, "{} and {from_ns}", ticks[0]);
        }
        assert_eq!(configured(&[0x11, 0x88]), Some(1), "48 kHz");
        assert_eq!(configured(&[0x12, 0x10, 0x56]), Some(2), "44.1 kHz");
        assert_eq!(configured(&[0x17, 0x80, 0x5d, 0xc0, 0x38]), Some(7 + 1), "a rate in full");
        assert_eq!(configured(&[0x12, 0x00]), None, "told elsewhere");
        assert_eq!(configured(&[]), None);
        assert_eq!(Times { scale: 0, zero: i64::MIN }.ticks(i64::MIN, u32::MAX), 0);
        assert_eq!(Times { scale: 1, zero: 0 }.ticks(i64::MAX, u32::MAX), u64::MAX);
    }
}
