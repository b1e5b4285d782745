//! The rounded sleep: a system call that "sends 12.5 % faster" sleeps half a tick less.
//!
//! A paper of 2001 moved the loop of an RTP sender into the kernel and found that a session of 1000
//! packets of 32 bytes, one each 30 ms, took 35.0 s instead of 40.0 s; it credited the saved copies
//! and context switches. But no packet cost below 10 ms can appear in such a time: a clock of a
//! hundred ticks a second wakes both loops, and they differ only in the rounding of the wait to
//! ticks. Arithmetic gives both figures to the fourth digit without a parameter.

mod live;
mod rooms;
mod rules;

use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Settings, Stage};
use document::{Mark, Series};
use lab::machine::Watch;
use live::{Program, Session};
use rules::{HZ, RULES, Rule};
use serde_json::json;
use stats::words;
use std::time::Duration;

/// Packets of a published session.
const PACKETS: u32 = 1000;
/// Their size, in bytes.
const BYTES: usize = 32;
/// The wait between two of them.
const GAP: Duration = Duration::from_millis(30);
/// Sessions at one time.
const SESSIONS: usize = 10;
/// The published repetitions, in virtual time.
const REPETITIONS: u32 = 100;
/// Busy programs of the published overload.
const SPINNERS: usize = 50;
/// A generous estimate of a packet's cost on the published machine: two calls, two copies and a
/// change of context at 600 MHz.
const COST: Duration = Duration::from_micros(10);
/// The published means in seconds: plain and in the kernel, idle and under overload (tables 3, 4).
const IDLE: [f64; 2] = [39.9945, 34.9959];
const BUSY: [f64; 2] = [40.619, 35.0];
/// The shortest and the longest of the ten sessions of each.
const IDLE_RANGES: [(f64, f64); 2] = [(39.9910, 39.9996), (34.9925, 34.9988)];
const BUSY_RANGES: [(f64, f64); 2] = [(40.0085, 41.1198), (34.9979, 35.0081)];
/// The lateness of packets at which a receiver's buffer runs dry.
const BUFFER: Duration = Duration::from_millis(60);

/// The exhibit.
pub struct RoundedSleep;

/// The sessions of each rule.
type Sessions = Vec<(Rule, Vec<Session>)>;

impl Exhibit for RoundedSleep {
    fn name(&self) -> &'static str {
        "rounded-sleep"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let each = GAP * 4 / 3 * packets(settings) + Duration::from_millis(200);
        let waits = Effort::new(2 * rounds(settings), each);
        waits.and(rooms::effort(settings))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let idle = sessions(stage, 0)?;
        let busy = if stage.stopped() { Vec::new() } else { sessions(stage, SPINNERS)? };
        let mut it = draft(packets(stage.settings()), &idle, &busy);
        rooms::measure(stage, &mut it)?;
        Ok(it)
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        let mut it = draft(packets(settings), &Vec::new(), &Vec::new());
        rooms::nothing(&mut it);
        it
    }
}

/// Rounds of ten sessions of each wait; at full size as many as twenty minutes have room for, idle
/// and under overload.
fn rounds(settings: &Settings) -> u32 {
    if settings.full { 15 } else { 1 }
}

/// Packets of a live session: a gap cannot be shortened, because the tick is not ours to change.
fn packets(settings: &Settings) -> u32 {
    let scaled = (f64::from(PACKETS) * settings.scale.factor()) as u32;
    if settings.quick { 20 } else { scaled.clamp(50, PACKETS) }
}

/// All rules at once, ten sessions of each, round by round.
fn sessions(stage: &mut Stage<'_>, spinners: usize) -> Result<Sessions, Fault> {
    let packets = packets(stage.settings());
    let beside = if spinners > 0 { format!(", {spinners} busy threads") } else { String::new() };
    let mut all: Sessions = RULES.map(|rule| (rule, Vec::new())).to_vec();
    for round in 0..rounds(stage.settings()) {
        if stage.stopped() {
            break;
        }
        stage.begin(&format!("{SESSIONS} sessions of {packets} packets under each wait{beside}"));
        let key = json!({"row": "waits", "spinners": spinners, "round": round, "packets": packets});
        let found = match stage.known::<live::Round>(&key) {
            Some(round) => round.sessions,
            None => {
                let program =
                    Program { rule: Rule::Absolute, packets, gap: GAP, bytes: BYTES, spinners };
                let watch = Watch::start();
                let found = live::run(&RULES, SESSIONS, program, &stage.stop_flag())?;
                let conditions = watch.stop();
                if stage.stopped() {
                    break;
                }
                stage.quiet.counts(&conditions);
                let mut row = key;
                (row["sessions"], row["conditions"]) = (json!(found), json!(conditions));
                stage.record(&row)?;
                found
            }
        };
        all.iter_mut().zip(found).for_each(|((_, all), (_, found))| all.extend(found));
        stage.step(&format!("{} for nanosleep", words::seconds(whole(&all, Rule::Nanosleep))));
    }
    all.retain(|(_, sessions)| !sessions.is_empty());
    Ok(all)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count.max(1))
}

/// The times of the sessions of `rule`, in seconds, brought to 1000 packets where they had fewer.
fn each(found: &Sessions, rule: Rule) -> Vec<f64> {
    let of = found.iter().find(|(it, _)| *it == rule).map_or(&[][..], |(_, sessions)| sessions);
    let each = of.iter().map(|it| {
        let sent = it.late.len() as f64;
        // The last wait is missing where moments are fixed beforehand.
        let waits = if rule == Rule::Absolute { sent - 1.0 } else { sent };
        let all = if rule == Rule::Absolute { PACKETS - 1 } else { PACKETS };
        it.elapsed.as_secs_f64() * f64::from(all) / waits.max(1.0)
    });
    each.collect()
}

/// Their mean.
fn whole(found: &Sessions, rule: Rule) -> f64 {
    mean(each(found, rule).into_iter())
}

/// The times of one rule as shares of another's, session by session.
fn shares(found: &Sessions, one: Rule, other: Rule) -> Vec<f64> {
    each(found, one).iter().zip(each(found, other)).map(|(one, other)| one / other).collect()
}

/// The quantile of lateness over all packets of `rule`, in milliseconds.
fn late_ms(found: &Sessions, rule: Rule, quantile: f64) -> f64 {
    let of = found.iter().filter(|(it, _)| *it == rule);
    let mut all: Vec<Duration> =
        of.flat_map(|(_, sessions)| sessions.iter().flat_map(|it| it.late.clone())).collect();
    all.sort_unstable();
    let at = ((all.len() as f64 * quantile) as usize).min(all.len().saturating_sub(1));
    all.get(at).map_or(f64::NAN, |late| late.as_secs_f64() * 1e3)
}

/// The share of the packets of `rule` that come when a receiver's buffer has run dry.
fn dry(found: &Sessions, rule: Rule) -> f64 {
    let of = found.iter().filter(|(it, _)| *it == rule);
    let all: Vec<bool> = of
        .flat_map(|(_, sessions)| sessions.iter().flat_map(|it| &it.late))
        .map(|late| *late > BUFFER)
        .collect();
    all.iter().filter(|it| **it).count() as f64 / all.len().max(1) as f64
}

/// Seconds in virtual time: the mean of all repetitions of ten sessions, whose phases are spread
/// evenly over a tick.
fn virtually(rule: Rule, work: Duration) -> f64 {
    let apart = Duration::from_secs(1) / (HZ * SESSIONS as u32 * REPETITIONS);
    let phases = (0..SESSIONS as u32 * REPETITIONS).map(|number| apart / 2 + apart * number);
    mean(phases.map(|phase| rule.elapsed(PACKETS, GAP, work, phase).as_secs_f64()))
}

fn draft(packets: u32, idle: &Sessions, busy: &Sessions) -> Draft {
    let mut it = Draft::default();
    let [plain, kernel, select] =
        [Rule::Nanosleep, Rule::Alternating, Rule::Select].map(|rule| virtually(rule, COST));
    it.set("gain", words::percent(1.0 - kernel / plain));
    it.set("plain", words::seconds(plain));
    it.set("kernel", words::seconds(kernel));
    it.set("select", words::seconds(select));
    it.set("published_plain", words::seconds(IDLE[0]));
    it.set("published_kernel", words::seconds(IDLE[1]));
    it.set("cost", words::span(COST));
    it.set("packets", words::count(packets));
    it.set("sessions", SESSIONS);
    it.set("repetitions", REPETITIONS);
    it.set("bytes", BYTES);
    it.set("spinners", SPINNERS);
    for (sessions, name, took, late) in
        [(idle, "idle", "idle_took", "idle_late"), (busy, "busy", "busy_took", "busy_late")]
    {
        let absolute = Rule::Absolute;
        it.set(name, !sessions.is_empty());
        it.set(took, words::seconds(whole(sessions, absolute)));
        it.set(late, words::number(late_ms(sessions, absolute, 0.99)));
    }
    let rounded = whole(idle, Rule::Nanosleep);
    it.set("rounded", words::seconds(rounded));
    it.set("behind", words::seconds(rounded - whole(idle, Rule::Absolute)));
    rows(&mut it, idle, busy);
    plots(&mut it, idle, busy);
    it.expect("plain-is-rounding", (plain - IDLE[0]).abs());
    it.expect("kernel-is-rounding", (kernel - IDLE[1]).abs());
    it.expect_median("live-four-thirds", &shares(idle, Rule::Nanosleep, Rule::Select));
    it.expect_median("no-drift", &each(idle, Rule::Absolute));
    it.expect_median("overload-drifts", &shares(busy, Rule::Relative, Rule::Absolute));
    it
}

fn rows(it: &mut Draft, idle: &Sessions, busy: &Sessions) {
    for (name, at) in [("plain Linux", 0), ("in the kernel (MSSC)", 1)] {
        it.published.row([name.to_string(), IDLE[at].to_string(), BUSY[at].to_string()]);
    }
    for rule in RULES {
        let took = virtually(rule, COST);
        let ticks = match rule {
            Rule::Nanosleep => "4",
            Rule::Alternating => "3, 4, 3, 4, …",
            Rule::Select => "3",
            Rule::Relative | Rule::Absolute => words::NONE,
        };
        let name = rule.name().to_string();
        let ratio = words::ratio(took / 29.97);
        it.flawed.row([name.clone(), ticks.to_string(), format!("{took:.4}"), ratio]);
        let of = |found: &Sessions, value: f64| match found.is_empty() {
            true => words::NONE.to_string(),
            false => words::number(value),
        };
        it.corrected.row([
            name,
            of(idle, whole(idle, rule)),
            of(idle, late_ms(idle, rule, 0.5)),
            of(idle, late_ms(idle, rule, 0.99)),
            of(busy, whole(busy, rule)),
            of(busy, late_ms(busy, rule, 0.99)),
            of(busy, dry(busy, rule)),
        ]);
    }
}

fn plots(it: &mut Draft, idle: &Sessions, busy: &Sessions) {
    // In virtual time the cost of a packet does not matter until it reaches a tick.
    let costs: [u64; 7] = [1, 10, 100, 1_000, 3_000, 9_900, 25_000];
    for rule in RULES {
        let points =
            costs.iter().map(|us| (*us as f64, virtually(rule, Duration::from_micros(*us))));
        it.flawed.series(Series::measured(rule.name(), points));
    }
    let quantiles = [0.5, 0.9, 0.99, 0.999];
    it.corrected.named(["p50", "p90", "p99", "p99.9"]);
    for (found, when) in [(idle, "idle"), (busy, "overload")] {
        for rule in [Rule::Relative, Rule::Absolute].into_iter().filter(|_| !found.is_empty()) {
            let points = quantiles.iter().zip(1..).map(|(quantile, at)| {
                // A packet without any lateness also needs a place on a logarithmic axis.
                (f64::from(at), late_ms(found, rule, *quantile).max(0.001))
            });
            it.corrected.series(Series::measured(format!("{}, {when}", rule.name()), points));
        }
    }
    let bars = |name: &str, value: &dyn Fn(Rule) -> f64| {
        let points = RULES.into_iter().zip(1..).map(|(rule, at)| (f64::from(at), value(rule)));
        Series::measured(name, points).drawn_as(Mark::Bar)
    };
    it.together.named(RULES.map(Rule::name));
    it.together.series(bars("virtual time", &|rule| virtually(rule, COST)));
    if !idle.is_empty() {
        it.together.series(bars("this machine", &|rule| whole(idle, rule)));
    }
    for (name, x, y) in [("plain", 1.0, IDLE[0]), ("in the kernel", 2.0, IDLE[1])] {
        let series = Series::published(format!("published, {name}"), [(x, y)]);
        it.together.series(series.drawn_as(Mark::Point));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        assert_eq!((SESSIONS, packets(&full), GAP.as_millis()), (10, 1000, 30));
        assert_eq!(rounds(&full), 15);
    }
}
