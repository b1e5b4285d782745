//! The ways in which a program waits between two packets and a kernel rounds the wait: in virtual
//! time as arithmetic, and live on this machine.
//!
//! A kernel of 2001 wakes sleepers at the ticks of its clock, a hundred a second, and first rounds
//! the wait to ticks. The direction of the rounding depends on the call (Linux 2.2, kernel/sched.c
//! and fs/select.c): `nanosleep` adds a tick so that no sleep is too short, `select` does not.

mod live;

use crate::exhibit::Fault;
use crate::results::{Figures, Results};
use crate::scope::Scope;
use crate::stage::Stage;
use lab::machine::Watch;
use live::{Program, Session};
use minijinja::Environment;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// Ticks a second of the published machine.
const HZ: u32 = 100;
/// Packets of a published session, their size in bytes, and the wait between two of them.
const PACKETS: u32 = 1000;
const BYTES: usize = 32;
const GAP: Duration = Duration::from_millis(30);
/// Sessions at once, and the published repetitions, in virtual time.
const SESSIONS: usize = 10;
const REPETITIONS: u32 = 100;
/// The lateness of packets at which a receiver's buffer runs dry.
const BUFFER: Duration = Duration::from_millis(60);

/// Sessions of every wait at once, idle and alongside busy threads.
pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (rounds, packets) = (super::whole(scope, "rounds_live")?, super::whole(scope, "packets")?);
    for (point, spinners) in [("idle", 0), ("busy", super::whole(scope, "spinners")? as usize)] {
        let mut all: Sessions = RULES.map(|rule| (rule, Vec::new())).to_vec();
        for round in 0..rounds {
            let found = sessions(stage, packets as u32, spinners, round)?;
            all.iter_mut().zip(found).for_each(|((_, all), (_, found))| all.extend(found));
        }
        for (rule, sessions) in all.iter().filter(|(_, sessions)| !sessions.is_empty()) {
            fill(results, *rule, point, sessions);
        }
    }
    Ok(())
}

type Sessions = Vec<(Rule, Vec<Session>)>;

fn sessions(
    stage: &mut Stage<'_>,
    packets: u32,
    spinners: usize,
    round: u64,
) -> Result<Sessions, Fault> {
    let beside = if spinners > 0 { format!(", {spinners} busy threads") } else { String::new() };
    let what = format!("{SESSIONS} sessions of {packets} packets under each wait{beside}");
    stage.begin(&what)?;
    let program = Program { rule: Rule::Absolute, packets, gap: GAP, bytes: BYTES, spinners };
    let watch = Watch::start();
    let found = live::run(&RULES, SESSIONS, program, &stage.stop_flag())?;
    let conditions = watch.stop();
    stage.goes_on()?;
    stage.quiet.counts(&conditions);
    stage.record(&json!({
        "row": "waits", "spinners": spinners, "round": round, "packets": packets,
        "sessions": found, "conditions": conditions,
    }))?;
    stage.step(&what);
    Ok(found)
}

/// The length of each session, brought to 1000 packets where it had fewer, and the lateness of all
/// packets together.
fn fill(results: &mut Results, rule: Rule, point: &str, sessions: &[Session]) {
    let figure = |name: &str, value: f64| Figures::from([(name.to_string(), value)]);
    for (block, session) in (0..).zip(sessions) {
        let sent = session.late.len() as f64;
        // The last wait is missing where moments are fixed beforehand.
        let waits = if rule == Rule::Absolute { sent - 1.0 } else { sent };
        let all = if rule == Rule::Absolute { PACKETS - 1 } else { PACKETS };
        let whole = session.elapsed.as_secs_f64() * f64::from(all) / waits.max(1.0);
        results.add(rule.name(), point, block, figure("s", whole));
    }
    let mut late: Vec<Duration> = sessions.iter().flat_map(|it| it.late.clone()).collect();
    late.sort_unstable();
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
        let at = ((late.len() as f64 * quantile) as usize).min(late.len().saturating_sub(1));
        let ms = late.get(at).map_or(f64::NAN, |it| it.as_secs_f64() * 1e3);
        results.add(rule.name(), point, 0, figure(name, ms));
    }
    let dry = late.iter().filter(|it| **it > BUFFER).count() as f64 / late.len().max(1) as f64;
    results.add(rule.name(), point, 0, figure("dry", dry));
}

/// Adds `virtually(rule, us)`: seconds of a session in virtual time where a packet costs `us`
/// microseconds, the mean of all repetitions, whose phases are spread evenly over a tick.
pub fn add(environment: &mut Environment<'static>) {
    environment.add_function("virtually", |name: &str, us: u64| {
        let rule = RULES.into_iter().find(|it| it.name() == name)?;
        let apart = Duration::from_secs(1) / (HZ * SESSIONS as u32 * REPETITIONS);
        let phases = (0..SESSIONS as u32 * REPETITIONS).map(|number| apart / 2 + apart * number);
        let work = Duration::from_micros(us);
        let each = phases.map(|phase| rule.elapsed(PACKETS, GAP, work, phase).as_secs_f64());
        let all: Vec<f64> = each.collect();
        Some(all.iter().sum::<f64>() / all.len() as f64)
    });
}

/// The way in which a program waits after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rule {
    /// `nanosleep(2)` of Linux 2.2, under `usleep(3)`: the wait in ticks, rounded up, and one more.
    Nanosleep,
    /// `select(2)` of Linux 2.2: the wait in ticks, rounded up.
    Select,
    /// Three and four ticks in turn: the result of a carried remainder, and the only plain reading
    /// of 35.0 s.
    Alternating,
    /// A wait that is not rounded, counted from the end of the last one.
    Relative,
    /// A wait until a moment that was fixed before the first packet.
    Absolute,
}

const RULES: [Rule; 5] =
    [Rule::Nanosleep, Rule::Alternating, Rule::Select, Rule::Relative, Rule::Absolute];

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Nanosleep => "nanosleep, 100 Hz",
            Rule::Select => "select, 100 Hz",
            Rule::Alternating => "3 and 4 ticks",
            Rule::Relative => "relative, today",
            Rule::Absolute => "absolute, today",
        }
    }

    /// The time at which a program continues after it sent packet `index` (from 0) and called at
    /// `now`; it sent the first packet at `began`, and `gap` is the wait that it requests.
    pub fn wakes(self, index: u32, now: Duration, began: Duration, gap: Duration) -> Duration {
        let tick = Duration::from_secs(1) / HZ;
        let ticks = |time: Duration| (time.as_nanos() / tick.as_nanos()) as u32;
        let wait = gap.as_nanos().div_ceil(tick.as_nanos()) as u32;
        match self {
            Rule::Nanosleep => tick * (ticks(now) + wait + 1),
            Rule::Select => tick * (ticks(now) + wait),
            Rule::Alternating => tick * (ticks(now) + wait + index % 2),
            Rule::Relative => now + gap,
            Rule::Absolute => (began + gap * (index + 1)).max(now),
        }
    }

    /// The duration of `packets` packets, in virtual time: each costs `work`, and the first is sent
    /// at `phase` of a tick. A program that sleeps does so after its last packet too, as loops do;
    /// one that waits for a point in time has none left to wait for.
    pub fn elapsed(self, packets: u32, gap: Duration, work: Duration, phase: Duration) -> Duration {
        let began = phase;
        let mut now = began;
        for index in 0..packets {
            now += work;
            if self != Rule::Absolute || index + 1 < packets {
                now = self.wakes(index, now, began, gap);
            }
        }
        now - began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(30);
    const WORK: Duration = Duration::from_micros(10);

    fn seconds(rule: Rule, work: Duration, phase_ms: u64) -> f64 {
        rule.elapsed(1000, GAP, work, Duration::from_millis(phase_ms)).as_secs_f64()
    }

    #[test]
    fn the_published_times_are_roundings() {
        for phase in [0, 3, 9] {
            let short = phase as f64 / 1000.0;
            let near = |rule, wanted: f64| {
                let found = seconds(rule, WORK, phase);
                assert!((found - (wanted - short)).abs() < 1e-9, "{rule:?} at {phase}: {found}");
            };
            near(Rule::Nanosleep, 40.0);
            near(Rule::Alternating, 35.0);
            near(Rule::Select, 30.0);
        }
        assert!((seconds(Rule::Relative, WORK, 0) - 30.01).abs() < 1e-9);
        assert!((seconds(Rule::Absolute, WORK, 0) - 29.970_01).abs() < 1e-9);
    }

    #[test]
    fn what_a_packet_costs_cannot_be_seen_below_a_tick() {
        for rule in [Rule::Nanosleep, Rule::Alternating, Rule::Select] {
            let cheap = seconds(rule, Duration::from_nanos(1), 0);
            assert_eq!(cheap, seconds(rule, Duration::from_micros(9_999), 0), "{rule:?}");
            assert!(seconds(rule, Duration::from_millis(11), 0) > cheap + 9.0, "{rule:?}");
        }
    }
}
