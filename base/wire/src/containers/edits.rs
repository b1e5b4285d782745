//! Edit lists of MP4 (ISO/IEC 14496-12 section 8.6.6): an empty edit delays a track, and an edit of
//! the media presents a part of it. Where a list presents several parts, all from the first part on
//! is presented.

use mp4_atom::{ElstEntry, Trak};

use super::mp4::Sample;

/// Pictures from before the edit, which a player needs to decode the first one of it, pass this
/// number of times as fast, because RTP cannot tell a player to hide them.
const HASTE: i64 = 16;

/// Presents the samples of a track as its edit list says; `movie_scale` are the time units a second
/// of its durations.
pub(super) fn apply(trak: &Trak, movie_scale: u32, is_video: bool, samples: &mut Vec<Sample>) {
    let list = trak.edts.as_ref().and_then(|edts| edts.elst.as_ref());
    let entries = list.map_or(&[][..], |list| &list.entries);
    present(entries, (movie_scale, trak.mdia.mdhd.timescale), is_video, samples);
}

fn present(
    entries: &[ElstEntry],
    (movie_scale, scale): (u32, u32),
    is_video: bool,
    samples: &mut Vec<Sample>,
) {
    let units = |duration: u64| {
        let units = u128::from(duration) * u128::from(scale);
        i64::try_from(units.div_ceil(u128::from(movie_scale.max(1)))).unwrap_or(i64::MAX)
    };
    let empty = entries.iter().take_while(|edit| edit.media_time.is_none());
    let delay = empty.fold(0, |sum: i64, edit| sum.saturating_add(units(edit.segment_duration)));
    let mut parts = entries.iter().filter_map(|edit| Some((edit.media_time?, edit)));
    let Some((begin, edit)) = parts.next() else { return };
    let begin = i64::try_from(begin).unwrap_or(i64::MAX);
    if parts.next().is_none() && edit.segment_duration > 0 {
        let end = begin.saturating_add(units(edit.segment_duration));
        let last = samples.iter().rposition(|sample| sample.shown < end);
        samples.truncate(last.map_or(0, |last| last + 1));
    }
    let first = if is_video {
        samples.iter().rposition(|sample| sample.is_sync && sample.shown <= begin)
    } else {
        // A decoder of sound needs the sample before (ISO/IEC 14496-3, priming).
        let end = |sample: &Sample| sample.shown.saturating_add(sample.lasts.into());
        samples.iter().position(|sample| end(sample) > begin).map(|first| first.saturating_sub(1))
    };
    samples.drain(..first.unwrap_or(0));
    let Some(first) = samples.first() else { return };
    let lead = first.shown.saturating_sub(first.decoded);
    let hasty = |time: i64| if is_video && time < 0 { time / HASTE } else { time };
    for sample in samples {
        let (shown, decoded) =
            (sample.shown.saturating_sub(begin), sample.decoded.saturating_sub(begin));
        if is_video && shown < 0 {
            sample.lasts /= HASTE as u32;
        }
        sample.shown = hasty(shown).saturating_add(delay);
        let decoded = hasty(decoded.saturating_add(lead)).saturating_sub(lead);
        sample.decoded = decoded.saturating_add(delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp4_atom::FixedPoint;

    /// Ten samples of 40 units at 1000 units a second; a player can start at the first and the
    /// sixth.
    fn presented(edits: &[(u64, Option<u64>)], is_video: bool) -> Vec<(u64, i64, i64)> {
        let sample = |at: i64| Sample {
            range: at as u64..at as u64 + 1,
            decoded: at * 40,
            shown: at * 40 + if is_video { 80 } else { 0 },
            lasts: 40,
            is_sync: !is_video || at % 5 == 0,
        };
        let mut samples: Vec<Sample> = (0..10).map(sample).collect();
        let edit = |(segment_duration, media_time): &(u64, Option<u64>)| ElstEntry {
            segment_duration: *segment_duration,
            media_time: *media_time,
            media_rate: FixedPoint::from(1),
        };
        let entries: Vec<ElstEntry> = edits.iter().map(edit).collect();
        present(&entries, (100, 1000), is_video, &mut samples);
        samples.iter().map(|it| (it.range.start, it.decoded, it.shown)).collect()
    }

    #[test]
    fn an_edit_list_delays_a_track_and_presents_a_part_of_it() {
        let ends = |all: Vec<(u64, i64, i64)>| (all[0], all[all.len() - 1]);
        assert_eq!(ends(presented(&[], false)), ((0, 0, 0), (9, 360, 360)));
        assert_eq!(ends(presented(&[(0, Some(80))], true)), ((0, -80, 0), (9, 280, 360)));
        // An empty edit of 1.5 s.
        let delayed = presented(&[(150, None), (40, Some(80))], true);
        assert_eq!(ends(delayed), ((0, 1420, 1500), (9, 1780, 1860)));
        // Sound keeps the sample that primes its decoder; what ends after the edit is gone.
        assert_eq!(ends(presented(&[(12, Some(200))], false)), ((4, -40, -40), (7, 80, 80)));
        // Pictures begin where a player can, and hurry to the first that is presented.
        let cut = presented(&[(0, Some(400))], true);
        assert_eq!(cut[..3], [(5, -87, -7), (6, -85, -5), (7, -82, -2)]);
        assert_eq!(cut[3..], [(8, -80, 0), (9, -40, 40)]);
        // A list of two parts is presented from the first on.
        assert_eq!(presented(&[(4, Some(0)), (4, Some(200))], false).len(), 10);
        assert_eq!(presented(&[(4, Some(u64::MAX))], false).len(), 10);
    }
}
