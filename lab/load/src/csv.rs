//! A report's timeline and its totals as a table for spreadsheets (RFC 4180).
//!
//! One row per slice, then one row `total` for the run. Latencies are in nanoseconds, offsets and
//! lengths in milliseconds; unknown values are empty. The total covers all measured requests, drain
//! included, to three digits; slices are accurate to 2 %.

use crate::report::Report;
use crate::timeline::Slice;
use std::io::{self, Write};

const HEAD: &str =
    "row,at_ms,for_ms,requests,rps,errors,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,mean_ns";

/// Writes the table.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: impl Write, report: &Report) -> io::Result<()> {
    write!(out, "{HEAD}\r\n")?;
    for slice in &report.timeline {
        let Slice { at_ms, for_ms, requests, errors, p50_ns, p99_ns, max_ns, .. } = slice;
        let rps = *requests as f64 * 1e3 / for_ms.max(f64::MIN_POSITIVE);
        let [p50, p99, max] = [p50_ns, p99_ns, max_ns].map(|it| known(*it));
        write!(
            out,
            "slice,{at_ms:.3},{for_ms:.3},{requests},{rps:.1},{errors},{p50},,{p99},,{max},\r\n"
        )?;
    }
    let times = if report.model == "closed" { &report.service } else { &report.response };
    let some = times.count > 0;
    let [p50, p90, max] =
        [times.p50_ns, times.p90_ns, times.max_ns].map(|it| known(some.then_some(it)));
    let [p99, p999] = [times.p99_ns, times.p999_ns].map(known);
    let mean = if some { format!("{:.1}", times.mean_ns) } else { String::new() };
    let for_ms = report.window_ns as f64 / 1e6;
    let Report { requests, throughput_rps: rps, failed, .. } = report;
    write!(out, "total,0.000,{for_ms:.3},{requests},{rps:.1},{failed},")?;
    write!(out, "{p50},{p90},{p99},{p999},{max},{mean}\r\n")?;
    out.flush()
}

fn known(ns: Option<u64>) -> String {
    ns.map_or(String::new(), |ns| ns.to_string())
}
