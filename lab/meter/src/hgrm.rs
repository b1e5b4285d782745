//! One histogram as a table that other programs draw: the percentile distribution of HdrHistogram.
//!
//! The plotter at hdrhistogram.github.io and the plotters of wrk2 and jHiccup read `.hgrm` files of
//! this form. Values are milliseconds with six digits after the point, where other programs write
//! three: over a loopback the fast half would otherwise be one number.

use crate::Histogram;
use std::io::{self, Write};

/// Rows until half of the distance to 100 % is covered, as the reference has it.
const TICKS: u32 = 5;
const NS_PER_MS: f64 = 1e6;

/// Writes the distribution of `times` (ns); comments go to its foot.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: impl Write, times: &Histogram, comments: &[String]) -> io::Result<()> {
    let counts = times.raw();
    let head = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    writeln!(out, "{:>14} {:>14} {:>10} {:>16}\n", head[0], head[1], head[2], head[3])?;
    let mut total = 0;
    for step in counts.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / NS_PER_MS;
        let level = step.quantile_iterated_to();
        write!(out, "{value:14.6} {level:14.12} {total:10}")?;
        if level < 1.0 { writeln!(out, " {:16.2}", 1.0 / (1.0 - level))? } else { writeln!(out)? }
    }
    let (mean, deviation) = (counts.mean() / NS_PER_MS, counts.stdev() / NS_PER_MS);
    let max = counts.max() as f64 / NS_PER_MS;
    writeln!(out, "#[Mean    = {mean:14.6}, StdDeviation   = {deviation:14.6}]")?;
    writeln!(out, "#[Max     = {max:14.6}, Total count    = {:14}]", counts.len())?;
    let halves = (counts.distinct_values() / HALF).saturating_sub(1);
    writeln!(out, "#[Buckets = {halves:14}, SubBuckets     = {:14}]", 2 * HALF)?;
    comments.iter().try_for_each(|comment| writeln!(out, "# {comment}"))?;
    out.flush()
}

/// Half of a bucket's sub-buckets, for three digits.
const HALF: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a row the way the plotter does: blanks between, `#` and words left out.
    fn rows(text: &str) -> Vec<(f64, f64, u64)> {
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let mut next = || words.next()?.parse::<f64>().ok();
            Some((next()?, next()?, next()? as u64))
        };
        text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
    }

    fn written(times: &Histogram) -> String {
        let mut out = Vec::new();
        write(&mut out, times, &["a run".to_owned()]).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_distribution_is_that_of_the_histogram() {
        let mut ramp = Histogram::new();
        (1..=10_000).for_each(|it| ramp.record(it * 1000, 1));
        let text = written(&ramp);
        let rows = rows(&text);
        let (value, level, total) = *rows.last().expect("rows");
        assert_eq!((level, total), (1.0, 10_000));
        assert_eq!((value * 1e6).round() as u64, ramp.max());
        assert!(rows.len() > 40, "{text}");
        for pair in rows.windows(2) {
            assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1 && pair[0].2 <= pair[1].2);
        }
        for &(value, level, total) in &rows {
            assert!(total as f64 >= level * 10_000.0 - 1e-6, "{level}: {total}");
            assert_eq!((value * 1e6).round() as u64, ramp.quantile(total as f64 / 10_000.0));
        }
        assert!(
            text.contains("#[Max     =      10.00") && text.contains("count    =          10000]")
        );
        assert!(text.contains("SubBuckets     =           2048]") && text.ends_with("# a run\n"));
    }

    #[test]
    fn an_empty_one_has_a_head_and_a_foot() {
        let text = written(&Histogram::new());
        assert_eq!(rows(&text), []);
        assert!(text.contains("Percentile") && text.contains("#[Mean"), "{text}");
    }
}
