//! More than a server can do, and what is left of it afterwards.
//!
//! One generator asks at half of the capacity all the time; a second one comes in the middle and
//! brings the sum to the factor asked for, then goes. The first one's latency over time shows when
//! the wait is gone. The surprising thing about two generators is that the first is not disturbed
//! by stopping the second: a single one that changed its rate would still be working off its own
//! queue.

use super::words::Request;
use super::{Floor, Run};
use crate::block::Slot;
use crate::load::{Load, Slice};
use crate::plan::{Arm, LoadPoint};
use crate::seen::Recovery;
use crate::stats::median;
use crate::trial::Ending;
use std::path::Path;
use std::time::Duration;

/// What the steady generator asks, as a share of capacity.
const BASE: f64 = 0.5;
/// Latency counts as normal again at so many times its base.
const NORMAL: f64 = 1.1;

/// When the second generator was there, in milliseconds of the first one's window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Storm {
    from_ms: f64,
    to_ms: f64,
}

impl Floor {
    /// Overloads one arm by `factor` for a third of the window.
    pub(super) fn overload(
        &self,
        arm: &Arm,
        point: &LoadPoint,
        factor: f64,
        slot: &Slot,
        dir: &Path,
    ) -> Run {
        let capacity_rps = match self.capacity(&arm.name) {
            Ok(capacity) => capacity,
            Err(reason) => return Run::failed(reason),
        };
        let mut up = match self.boot(arm, slot.swapped, dir) {
            Ok(up) => up,
            Err(reason) => return Run::unavailable(reason),
        };
        let mut run = Run { boot_ms: Some(up.boot_ms()), ..Run::default() };
        run.seen.offered_rps = Some(factor * capacity_rps);
        up.cost.loaded(up.server.process.id());
        let (warmup_ms, window_ms) = self.plan.spans(point);
        let third_ms = window_ms / 3;
        let storm = Storm { from_ms: third_ms as f64, to_ms: 2.0 * third_ms as f64 };
        let base = Request {
            rate: Some(BASE * capacity_rps),
            ..Request::of(&self.plan, arm, point, slot.seed, None)
        };
        let extra = Request {
            rate: Some((factor - BASE) * capacity_rps),
            warmup_ms: 0,
            window_ms: third_ms,
            seed: slot.seed ^ 1,
            watch: false,
            ..Request::of(&self.plan, arm, point, slot.seed, None)
        };
        let aside = dir.join("extra");
        let (steady, gust) = std::thread::scope(|scope| {
            let gust = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(warmup_ms + third_ms));
                // A directory of its own, because both write files of the same names.
                std::fs::create_dir_all(&aside).ok()?;
                self.ask(&up, &extra, &aside)
            });
            (self.ask(&up, &base, dir), gust.join().ok().flatten())
        });
        run.end(steady, up);
        if let Some(Ending::Measured { load }) = &mut run.ending {
            let gust = gust.and_then(Result::ok);
            let recovery = recovery(load, gust.as_deref(), factor, capacity_rps, storm);
            // The point's throughput is what was served while there was too much to do.
            if let Some(goodput) = recovery.goodput_rps {
                load.throughput_rps = goodput;
            }
            run.seen.recovery = Some(recovery);
        }
        run
    }
}

/// Reads an overload off the steady generator's slices and the extra one's report.
fn recovery(
    steady: &Load,
    gust: Option<&Load>,
    factor: f64,
    capacity_rps: f64,
    storm: Storm,
) -> Recovery {
    let slices = &steady.timeline;
    let end = |slice: &Slice| slice.at_ms + slice.for_ms;
    let before = slices.iter().filter(|slice| end(slice) <= storm.from_ms);
    let base_p50_ns = median(&before.filter_map(|slice| slice.p50_ns).collect::<Vec<_>>());
    let within = |slice: &&Slice| slice.at_ms >= storm.from_ms && end(slice) <= storm.to_ms;
    let (mut answered, mut span_ms) = (0, 0.0);
    for slice in slices.iter().filter(within) {
        answered += slice.requests;
        span_ms += slice.for_ms;
    }
    let steady_rps = (span_ms > 0.0).then(|| answered as f64 * 1e3 / span_ms);
    let goodput_rps = steady_rps.zip(gust).map(|(steady, gust)| steady + gust.throughput_rps);
    let after: Vec<&Slice> = slices.iter().filter(|slice| slice.at_ms >= storm.to_ms).collect();
    let calm = |slice: &&Slice| {
        slice.p50_ns.zip(base_p50_ns).is_some_and(|(now, base)| now <= NORMAL * base)
    };
    let recovered = after.windows(2).find(|pair| calm(&pair[0]) && calm(&pair[1]));
    Recovery {
        factor,
        capacity_rps,
        goodput_rps,
        kept_share: goodput_rps.map(|goodput| goodput / capacity_rps),
        base_p50_ns,
        // A slice tells of its end: at the earliest then is it known to have been calm.
        recovered_ms: recovered.map(|pair| end(pair[0]) - storm.to_ms),
        watched_ms: after.last().map_or(0.0, |slice| end(slice) - storm.to_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(p50s: &[f64]) -> Load {
        let text = "{\"schema\":\"roundhouse.load/1\",\"requests\":1,\"throughput_rps\":500.0,\
            \"service\":{}}";
        let mut load = Load::parse(text).expect("well formed");
        load.timeline = p50s
            .iter()
            .enumerate()
            .map(|(at, &p50)| Slice {
                at_ms: 100.0 * at as f64,
                for_ms: 100.0,
                requests: 40,
                p50_ns: Some(p50),
                ..Slice::default()
            })
            .collect();
        load
    }

    #[test]
    fn recovery_is_read_off_the_slices() {
        let steady = load(&[10.0, 11.0, 10.0, 50.0, 90.0, 99.0, 60.0, 10.5, 30.0, 10.0, 10.0]);
        let storm = Storm { from_ms: 300.0, to_ms: 600.0 };
        let found = recovery(&steady, Some(&load(&[])), 2.0, 1_000.0, storm);
        assert_eq!(found.base_p50_ns, Some(10.0));
        assert_eq!(found.goodput_rps, Some(900.0));
        assert_eq!(found.kept_share, Some(0.9));
        // The calm slice at 700 is followed by one that is not.
        assert_eq!((found.recovered_ms, found.watched_ms), (Some(400.0), 500.0));
    }

    #[test]
    fn what_never_calms_down_has_no_recovery_and_no_slices_no_goodput() {
        let storm = Storm { from_ms: 100.0, to_ms: 200.0 };
        let found = recovery(&load(&[10.0, 99.0, 99.0, 99.0]), None, 2.0, 1_000.0, storm);
        assert_eq!((found.recovered_ms, found.goodput_rps), (None, None));
        let found = recovery(&load(&[]), Some(&load(&[])), 2.0, 1_000.0, storm);
        assert_eq!((found.goodput_rps, found.watched_ms), (None, 0.0));
    }
}
