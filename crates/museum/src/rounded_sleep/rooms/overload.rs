//! Ten sessions by every sender, idle and under the published overload: the second table, which is
//! what survives of the paper.

use super::super::{BUSY, IDLE};
use super::{alone, time};
use crate::exhibit::{Effort, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Room, Series, Side};
use crate::stage::Stage;
use crate::words;
use lab::pace::{Around, Company, Rank, Reading, Sink, Work};
use std::time::Duration;

/// Who is also tried in front of the others.
const RANKED: [&str; 3] = ["plain", "sendmmsg", "uring-chain"];
const RANKS: [Rank; 2] = [Rank::Nice(-10), Rank::RealTime(50)];
/// Whose packets the kernel has beforehand, the best first: a queue lets them go in an interrupt, a
/// chain needs the thread that submitted it.
const KERNEL_TIMED: [&str; 3] = ["tbf-kernel", "bpf-stamp", "uring-chain"];
/// What a session should take, seconds.
const IDEAL: f64 = 29.97;

pub fn effort(senders: u32, each: Duration) -> Effort {
    Effort::new(2, each * senders / 2)
}

/// A sender in a rank, idle and under overload.
struct Arm {
    sender: String,
    rank: Rank,
    idle: Option<Reading>,
    busy: Option<Reading>,
}

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
    let work = Work::audio(time(stage.settings()));
    let mut arms: Vec<Arm> = Vec::new();
    let arm = |sender: &String, rank| Arm { sender: sender.clone(), rank, idle: None, busy: None };
    arms.extend(senders.iter().map(|sender| arm(sender, Rank::Usual)));
    if !stage.settings().quick {
        let ranked = senders.iter().filter(|name| RANKED.contains(&name.as_str()));
        arms.extend(ranked.flat_map(|sender| RANKS.map(|rank| arm(sender, rank))));
    }
    stage.begin(&format!("{} by every sender, idle and under overload", work.words()));
    for arm in &mut arms {
        let idle = Around { rank: arm.rank, ..alone(stage, Sink::Heard) };
        arm.idle = stage.cast(&arm.sender, work, idle)?;
        let busy = Around { company: Company::PUBLISHED, ..idle };
        arm.busy = stage.cast(&arm.sender, work, busy)?;
    }
    stage.step(&format!("{} arms", arms.len()));
    let findings = findings(&arms);
    stage.hang(Room {
        title: "Every sender, idle and under overload".into(),
        side: told(&arms, work),
    });
    Ok(findings)
}

/// What a session of 1000 packets takes at the drift that was found; a look is too short for that.
fn session(reading: &Option<Reading>) -> Option<f64> {
    let reading = reading.as_ref()?;
    let drift = reading.late?.drift_ns?;
    let is_long = reading.ended_ns - reading.began_ns > 1_000_000_000;
    is_long.then(|| IDEAL + drift as f64 / 1e9)
}

fn late(reading: &Option<Reading>, which: fn(&lab::pace::Lateness) -> i64) -> Option<f64> {
    Some(which(&reading.as_ref()?.late?) as f64 / 1e6)
}

fn told(arms: &[Arm], work: Work) -> Side {
    let or_none = |value: Option<f64>| value.map_or(words::NONE.to_string(), words::number);
    let mut numbers = Grid::new(&[
        "sender",
        "rank",
        "idle, s",
        "p99.9, ms",
        "overload, s",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "> 60 ms",
    ]);
    for (name, at) in [("published: plain Linux", 0), ("published: in the kernel", 1)] {
        let none = || words::NONE.to_string();
        let [idle, busy] = [IDLE[at], BUSY[at]].map(|it| it.to_string());
        numbers.row([name.into(), none(), idle, none(), busy, none(), none(), none(), none()]);
    }
    for arm in arms {
        let dry = arm.busy.as_ref().and_then(|it| it.late).map(|it| words::percent(it.dry));
        numbers.row([
            arm.sender.clone(),
            arm.rank.words(),
            or_none(session(&arm.idle)),
            or_none(late(&arm.idle, |it| it.p999_ns)),
            or_none(session(&arm.busy)),
            or_none(late(&arm.busy, |it| it.p50_ns)),
            or_none(late(&arm.busy, |it| it.p99_ns)),
            or_none(late(&arm.busy, |it| it.p999_ns)),
            dry.unwrap_or_else(|| words::NONE.to_string()),
        ]);
    }
    Side {
        setup: format!(
            "{}, by each sender that works here, in a process on one core; a receiver on the other \
             core takes its kernel's times of arrival (loopback device). Then the same {}, all on \
             the sender's core. Rank is the sender's: like everybody, preferred by nice, or in \
             front by real-time priority, which the paper names as future work. Seconds are those \
             of a session of 1000 packets at the drift that was found; milliseconds say how late \
             packets were, idle and then under overload.",
            words::capital(&work.words()),
            Company::PUBLISHED.words()
        ),
        finding: finding(arms),
        plot: Some(curves(arms)),
        numbers,
    }
}

fn of<'a>(arms: &'a [Arm], sender: &str, rank: Rank) -> Option<&'a Arm> {
    arms.iter().find(|arm| arm.sender == sender && arm.rank == rank)
}

fn kernel_timed(arms: &[Arm]) -> Option<&Arm> {
    KERNEL_TIMED.iter().find_map(|name| of(arms, name, Rank::Usual).filter(|it| it.busy.is_some()))
}

fn finding(arms: &[Arm]) -> String {
    let p999 = |arm: &Arm| late(&arm.busy, |it| it.p999_ns);
    let (Some(plain), Some(kernel)) = (of(arms, "plain", Rank::Usual), kernel_timed(arms)) else {
        return "Too few senders ran to compare them.".to_string();
    };
    let (Some(slow), Some(held)) = (p999(plain), p999(kernel)) else {
        return "Too few packets were heard to compare senders.".to_string();
    };
    let front = of(arms, "sendmmsg", Rank::RealTime(50)).and_then(p999);
    let front = front.map_or(String::new(), |ms| {
        format!(" A timer wheel with real-time priority is at {} ms.", words::number(ms))
    });
    format!(
        "Under overload 99.9 % of the packets of plain are late by at most {} ms, of {}, \
         whose packets the kernel had beforehand, by {} ms.{front}",
        words::number(slow),
        kernel.sender,
        words::number(held)
    )
}

/// Lateness under overload by quantile, for those who tell classes apart.
fn curves(arms: &[Arm]) -> Plot {
    let shown = |arm: &&Arm| {
        let names = ["plain", "plain-abs", "sendmmsg", "uring-chain", "uring-chain-sqpoll"];
        let is_class = names.contains(&arm.sender.as_str())
            || ["tbf-kernel", "bpf-stamp"].contains(&arm.sender.as_str());
        is_class && (arm.rank == Rank::Usual || arm.sender == "sendmmsg")
    };
    let series = arms.iter().filter(shown).filter_map(|arm| {
        let it = arm.busy.as_ref()?.late?;
        let values = [it.p50_ns, it.p90_ns, it.p99_ns, it.p999_ns, it.max_ns];
        // A packet that is not late at all has a place on the axis too.
        let places = values.iter().zip(1..).map(|(ns, at)| (f64::from(at), (*ns).max(1000) as f64));
        let places = places.map(|(x, ns)| Place { x, y: ns / 1e6, range: None }).collect();
        let name = match arm.rank {
            Rank::Usual => arm.sender.clone(),
            rank => format!("{}, {}", arm.sender, rank.words()),
        };
        Some(Series { name, drawn: Drawn::Line, places, ..Series::default() })
    });
    Plot {
        title: "Lateness under overload".to_string(),
        caption: format!("{} on the sender's core.", words::capital(&Company::PUBLISHED.words())),
        x: Axis::named("quantile of packets", ["p50", "p90", "p99", "p99.9", "latest"]),
        y: Axis::log("late, ms"),
        series: series.collect(),
    }
}

fn findings(arms: &[Arm]) -> Vec<Finding> {
    let mut found = Vec::new();
    let idle = |name| of(arms, name, Rank::Usual).and_then(|arm| session(&arm.idle));
    if let Some(took) = idle("plain-abs") {
        let expected = "idle, one flag (TIMER_ABSTIME) takes 29.97 s, within 20 ms";
        found.push(Finding::new("flag-is-enough", (took - IDEAL).abs() < 0.02, took, expected));
    }
    let busy = |arm: &Arm| late(&arm.busy, |it| it.p999_ns);
    let plain = of(arms, "plain", Rank::Usual).and_then(busy);
    let kernel = kernel_timed(arms).and_then(|arm| Some((arm.sender.clone(), busy(arm)?)));
    if let (Some(plain), Some((name, held))) = (plain, kernel) {
        let ratio = held.max(0.0) / plain.max(1e-3);
        let expected = format!("under overload {name} is late by at most a tenth of plain, p99.9");
        found.push(Finding::new("kernel-timed-holds", ratio <= 0.1, ratio, expected));
    }
    found
}
