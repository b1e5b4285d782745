//! Whether the generator itself distorted the run: the verdict on the measurement.
//!
//! A slow generator and a slow server look alike in every latency table. Only the generator's own
//! figures tell them apart: its delay in noticing arrivals, the time its thread was not running,
//! and its load. Beyond these limits a run describes the generator and the machine, not the server.

use meter::Quantiles;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The subject that the figures of a run describe.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[derive(derive_more::Display)]
pub enum Verdict {
    /// The server.
    #[default]
    #[display("ok")]
    Ok,
    /// Possibly the generator: the server may be faster.
    #[display("generator-limited")]
    GeneratorLimited,
    /// The machine or the generator, not the server.
    #[display("INVALID")]
    Invalid,
}

/// The verdict, its reasons, and its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons why it is not `ok`, in sentences.
    pub reasons: Vec<String>,
    /// The fraction of the window during which the busiest thread was working; spinning for an
    /// arrival does not count.
    #[schemars(range(min = 0.0))]
    pub busy: f64,
    /// Time during which threads were kept from running (ns).
    pub stalled_ns: u64,
    /// The longest such time (ns).
    pub stall_ns_max: u64,
    /// From due to noticed, for scheduled arrivals: the generator's own part of lateness.
    pub tardiness: Quantiles,
    /// Always `null`: a calibration, which had the generator's ceiling here, is gone.
    pub ceiling_rps: Option<f64>,
}

/// The maximum fraction of the window during which threads may be stalled.
const STALLED_MAX: f64 = 0.05;
/// Above this a thread cannot keep a schedule for long.
const BUSY_MAX_SCHEDULED: f64 = 0.8;
/// Above this a closed loop measures its own generator.
const BUSY_MAX_CLOSED: f64 = 0.9;
/// The generator's part of a response time, as fractions of its median and 99th percentile.
const TARDY_OF_P50: f64 = 0.05;
const TARDY_OF_P99: f64 = 0.1;
/// Tardiness below this is negligible, whatever the response time (ns): about the time to wake a
/// thread.
const TARDY_MIN: u64 = 100_000;
/// If the generator causes half of the 99th percentile, and that is a millisecond or more, the run
/// describes the generator.
const TARDY_INVALID: (f64, u64) = (0.5, 1_000_000);

impl Health {
    /// Judges a run whose evidence it has. Further: whether arrivals follow a schedule, the length
    /// of the window in all threads together (ns), how far the generator was behind its schedule
    /// when it gave up the last arrivals (ns), and the response times.
    #[must_use]
    pub fn judged(
        mut self,
        scheduled: bool,
        window_ns: u64,
        behind_ns: u64,
        response: &Quantiles,
    ) -> Self {
        self.judge_stalls(window_ns);
        if behind_ns > 0 {
            let seconds = behind_ns as f64 / 1e9;
            self.note(
                Verdict::Invalid,
                format!(
                    "the generator was {seconds:.1} s behind its schedule and left the last \
                     arrivals out: lower the rate, or use more threads (-t)"
                ),
            );
        }
        if scheduled {
            self.judge_tardiness(response);
        }
        self.judge_speed(scheduled);
        self
    }

    fn note(&mut self, verdict: Verdict, reason: String) {
        self.verdict = self.verdict.max(verdict);
        self.reasons.push(reason);
    }

    fn judge_stalls(&mut self, window_ns: u64) {
        let share = self.stalled_ns as f64 / window_ns.max(1) as f64;
        if share > STALLED_MAX {
            let [sum, max] = [self.stalled_ns, self.stall_ns_max].map(|ns| ns as f64 / 1e6);
            self.note(
                Verdict::Invalid,
                format!(
                    "the generator was kept from running for {sum:.0} ms, {max:.0} ms at a time: \
                     give it its own processor (--cpu), or stop other programs"
                ),
            );
        }
    }

    fn judge_tardiness(&mut self, response: &Quantiles) {
        let tardy = &self.tardiness;
        // With few arrivals the 99th percentile is luck; a stalled generator is still detected by
        // its stalls.
        let (p99, p999) = (tardy.p99_ns.unwrap_or(tardy.p90_ns), tardy.p999_ns);
        let response_p99 = response.p99_ns.unwrap_or(response.max_ns);
        let us = |ns: u64| ns as f64 / 1e3;
        if p99 >= TARDY_INVALID.1 && p99 as f64 > TARDY_INVALID.0 * response_p99 as f64 {
            return self.note(
                Verdict::Invalid,
                format!(
                    "the generator noticed 1 of 100 arrivals more than {:.0} us late, which is \
                     most of the response's p99 ({:.0} us)",
                    us(p99),
                    us(response_p99)
                ),
            );
        }
        let allowed = (TARDY_OF_P50 * response.p50_ns as f64).max(TARDY_MIN as f64);
        if p99 as f64 > allowed {
            self.note(
                Verdict::GeneratorLimited,
                format!(
                    "the generator noticed 1 of 100 arrivals more than {:.0} us late, and {:.0} \
                     us would be acceptable for this response time",
                    us(p99),
                    allowed / 1e3
                ),
            );
        }
        if let (Some(p999), Some(_)) = (p999, response.p99_ns)
            && p999 as f64 > (TARDY_OF_P99 * response_p99 as f64).max(allowed)
        {
            self.note(
                Verdict::GeneratorLimited,
                format!("its p99.9 of {:.0} us is not small against the response's p99", us(p999)),
            );
        }
    }

    fn judge_speed(&mut self, scheduled: bool) {
        let most = if scheduled { BUSY_MAX_SCHEDULED } else { BUSY_MAX_CLOSED };
        if self.busy > most {
            let percent = self.busy * 100.0;
            self.note(
                Verdict::GeneratorLimited,
                format!("the generator was {percent:.0} % busy and may have been the limit"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(p50: u64, p99: u64, p999: u64) -> Quantiles {
        Quantiles {
            count: 1_000_000,
            p50_ns: p50,
            p90_ns: p50,
            p99_ns: Some(p99),
            p999_ns: Some(p999),
            max_ns: p999,
            mean_ns: p50 as f64,
        }
    }

    fn check(change: impl Fn(&mut Health, &mut bool), verdict: Verdict, part: &str) {
        let response = quantiles(500_000, 3_000_000, 9_000_000);
        let tardiness = quantiles(2_000, 15_000, 100_000);
        let (mut health, mut scheduled) =
            (Health { busy: 0.3, tardiness, ..Health::default() }, true);
        change(&mut health, &mut scheduled);
        let health = health.judged(scheduled, 1_000_000_000, 0, &response);
        assert_eq!(health.verdict, verdict, "{health:?}");
        assert!(health.reasons.concat().contains(part), "{part:?} in {health:?}");
        assert_eq!(health.reasons.is_empty(), verdict == Verdict::Ok);
    }

    #[test]
    fn gates() {
        let limited = Verdict::GeneratorLimited;
        check(|_, _| {}, Verdict::Ok, "");
        check(|it, _| it.busy = 0.85, limited, "85 % busy");
        check(|it, scheduled| (it.busy, *scheduled) = (0.85, false), Verdict::Ok, "");
        check(|it, _| it.tardiness = quantiles(2_000, 90_000, 90_000), Verdict::Ok, "");
        check(|it, _| it.tardiness = quantiles(2_000, 130_000, 130_000), limited, "130 us late");
        check(|it, _| it.tardiness = quantiles(2_000, 15_000, 400_000), limited, "p99.9 of 400 us");
        check(|it, _| it.tardiness = quantiles(1, 1_600_000, 1), Verdict::Invalid, "1600 us late");
        check(
            |it, _| (it.stalled_ns, it.stall_ns_max) = (60_000_000, 60_000_000),
            Verdict::Invalid,
            "60 ms at a time",
        );
        check(|it, _| (it.stalled_ns, it.stall_ns_max) = (40_000_000, 40_000_000), Verdict::Ok, "");
    }
}
