//! Histograms over time as a file that other programs read: the interval log of HdrHistogram,
//! version 1.3.
//!
//! One line an interval: its beginning and its length (seconds), its largest value (ms), and the
//! whole histogram (ns) in base64. `HistogramLogProcessor`, the HistogramLogAnalyzer and the
//! libraries of a dozen languages read it. These programs show the line without a tag by default;
//! other series of the same interval follow it under a tag.

use crate::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use hdrhistogram::serialization::{V2DeflateSerializeError, V2DeflateSerializer};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// Nanoseconds of the unit in which largest values are written, as the reference does.
const NS_PER_UNIT: f64 = 1e6;

/// One line.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its beginning, from the beginning of the log.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    /// The name of the series; `None` for the one that readers show by default. No commas, no
    /// spaces.
    pub tag: Option<&'static str>,
    /// Its values (ns).
    pub times: Histogram,
}

/// Writes a log that begins at `start`; it ends when there are no more intervals. Every line is in
/// the file before the next interval is asked for.
///
/// # Errors
/// Those of `out`.
pub fn write(
    mut out: impl Write,
    start: SystemTime,
    comments: &[String],
    intervals: impl IntoIterator<Item = Interval>,
) -> io::Result<()> {
    let mut lines = Lines { whole: Vec::new(), out: &mut out };
    let mut packer = V2DeflateSerializer::new();
    let mut head = IntervalLogWriterBuilder::new();
    head.add_comment("[Histogram log format version 1.3]");
    for comment in comments {
        head.add_comment(&format!(" {comment}"));
    }
    head.with_start_time(start).with_base_time(start).with_max_value_divisor(NS_PER_UNIT);
    let mut log = head.begin_log_with(&mut lines, &mut packer)?;
    for Interval { start, length, tag, times } in intervals {
        let tag = tag.and_then(Tag::new);
        log.write_histogram(times.raw(), start, length, tag).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(V2DeflateSerializeError::IoError(error)) => {
                error
            }
            IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
        })?;
    }
    drop(log);
    out.flush()
}

/// Writes whole lines, so a reader of the growing file never meets a torn one.
struct Lines<W: Write> {
    whole: Vec<u8>,
    out: W,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.whole.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            self.out.write_all(&self.whole)?;
            self.out.flush()?;
            self.whole.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn what_is_written_is_read_by_the_library() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let mut all = Histogram::new();
        let intervals: Vec<Interval> = (0..3u64)
            .map(|at| {
                let mut times = Histogram::new();
                (1..=100).for_each(|it| times.record(it * 1000 * (at + 1), it));
                all.merge(&times);
                let tag = (at == 2).then_some("service");
                let second = Duration::from_secs(1);
                Interval { start: second * at as u32, length: second, tag, times }
            })
            .collect();
        let mut file = Vec::new();
        write(&mut file, start, &["a run".to_owned()], intervals).expect("memory takes it");
        let text = String::from_utf8(file.clone()).expect("text");
        assert!(text.starts_with("#[Histogram log format version 1.3]\n# a run\n"), "{text}");
        assert!(text.contains("#[StartTime: 1700000000.250 (seconds since epoch)"), "{text}");
        assert!(text.contains("\n1.000,1.000,0.200,HISTF"), "{text}");
        let (mut sum, mut tags) = (hdrhistogram::Histogram::<u64>::new(3).unwrap(), 0);
        for entry in IntervalLogIterator::new(&file) {
            let LogEntry::Interval(line) = entry.expect("well formed") else { continue };
            tags += usize::from(line.tag().is_some());
            let packed = base64::prelude::BASE64_STANDARD.decode(line.encoded_histogram());
            let read = Deserializer::new().deserialize(&mut &packed.expect("base64")[..]);
            sum.add(read.expect("a histogram")).expect("they fit");
        }
        assert_eq!((sum.len(), tags), (all.count(), 1));
        assert_eq!((sum.max(), sum.value_at_quantile(0.9)), (all.max(), all.quantile(0.9)));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let one = || Interval {
            start: Duration::ZERO,
            length: Duration::ZERO,
            tag: None,
            times: Histogram::new(),
        };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let found = write(full, SystemTime::UNIX_EPOCH, &[], [one()]).map_err(|e| e.kind());
        assert_eq!(found, Err(io::ErrorKind::StorageFull));
    }
}
