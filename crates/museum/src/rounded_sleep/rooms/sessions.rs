//! Ten sessions by every sender without anybody else: the paper's first table beside ours. And what
//! the second table shares with it: how a sender is run, and what its sessions come to.

use super::super::{IDLE, IDLE_RANGES};
use super::{alone, time};
use crate::exhibit::Fault;
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Room, Series, Side};
use crate::stage::Stage;
use crate::words;
use lab::pace::{Around, Lateness, Reading, Sink, Work};
use lab::stats::median;

/// What a session of 1000 packets should take, seconds.
pub const IDEAL: f64 = 29.97;

/// The readings of one sender in one rank, block by block.
pub type Readings = Vec<Reading>;

/// A sender, and what it came to.
pub type Ran = (String, Readings);

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
    let work = Work::audio(time(stage.settings()));
    stage.begin(&format!("{} by every sender, idle", work.words()));
    let around = alone(stage, Sink::Heard);
    let mut all: Vec<Ran> = senders.iter().map(|it| (it.clone(), Vec::new())).collect();
    for _ in 0..stage.settings().blocks(1) {
        for (sender, readings) in &mut all {
            readings.extend(stage.cast(sender, work, around)?);
        }
    }
    stage.step(&format!("{} senders", all.len()));
    let side = told(&all, work, around);
    stage.hang(Room { title: "The first table beside ours: idle".into(), side });
    Ok(findings(&all))
}

/// The median over blocks of a figure.
pub fn middle(readings: &[Reading], of: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = readings.iter().filter_map(of).collect();
    median(&values)
}

/// A quantile of lateness in milliseconds.
pub fn late(readings: &[Reading], which: fn(&Lateness) -> i64) -> Option<f64> {
    middle(readings, |it| Some(which(&it.late?) as f64 / 1e6))
}

/// How long sessions took, by what their schedule says: the mean, the shortest, the longest.
pub fn stretched(readings: &[Reading], work: Work) -> Option<[f64; 3]> {
    let ideal = (work.gap() * (work.packets - 1)).as_nanos() as f64;
    let of = |which: fn(&lab::pace::Extent) -> i64| {
        middle(readings, |it| Some(which(&it.spans?) as f64 / ideal))
    };
    Some([of(|it| it.mean_ns)?, of(|it| it.least_ns)?, of(|it| it.most_ns)?])
}

/// `1.334 (1.333 to 1.335)`.
pub fn extent([mean, least, most]: [f64; 3]) -> String {
    format!("{mean:.4} ({least:.4} to {most:.4})")
}

/// What a session of 1000 packets takes at the drift that was found, seconds; a look is too short
/// for that.
fn seconds(readings: &[Reading]) -> Option<f64> {
    middle(readings, |it| {
        let is_long = it.ended_ns - it.began_ns > 1_000_000_000;
        is_long.then_some(IDEAL + it.drifts?.mean_ns as f64 / 1e9)
    })
}

fn told(all: &[Ran], work: Work, around: Around) -> Side {
    let or_none = |value: Option<f64>| words::or_none(value, words::number);
    let mut numbers = Grid::new(&[
        "sender",
        "session, of its schedule",
        "1000 packets, s",
        "late p50, ms",
        "p99, ms",
        "p99.9, ms",
    ]);
    for (name, at) in [("published: plain Linux", 0), ("published: in the kernel", 1)] {
        let none = || words::NONE.to_string();
        let (least, most) = IDLE_RANGES[at];
        let published = [IDLE[at], least, most].map(|it| it / IDEAL);
        numbers.row([
            name.to_string(),
            extent(published),
            format!("{:.3}", IDLE[at]),
            none(),
            none(),
            none(),
        ]);
    }
    for (sender, readings) in all {
        let none = || words::NONE.to_string();
        numbers.row([
            sender.clone(),
            stretched(readings, work).map_or_else(none, extent),
            words::or_none(seconds(readings), |it| format!("{it:.3}")),
            or_none(late(readings, |it| it.p50_ns)),
            or_none(late(readings, |it| it.p99_ns)),
            or_none(late(readings, |it| it.p999_ns)),
        ]);
    }
    Side {
        setup: format!(
            "{}, by each sender that works here, in a process on one core ({}); a receiver on the \
             other core takes its kernel's times of arrival. A session is measured from its first \
             packet to its last and divided by what the schedule says (mean, shortest and longest \
             of ten); the seconds are those of 1000 packets at the drift that was found.",
            words::capital(&work.words()),
            around.sink.words()
        ),
        finding: finding(all, work),
        plot: Some(marks(all, work)),
        numbers,
    }
}

fn finding(all: &[Ran], work: Work) -> String {
    let of = |name: &str| {
        let (_, readings) = all.iter().find(|(it, _)| it == name)?;
        Some(stretched(readings, work)?[0])
    };
    let means: Vec<f64> = all.iter().filter_map(|(_, it)| Some(stretched(it, work)?[0])).collect();
    let most = means.iter().copied().max_by(f64::total_cmp);
    let (Some(plain), Some(most)) = (of("plain"), most) else {
        return "Too few packets were heard to say how long sessions take.".to_string();
    };
    format!(
        "Without the rounding of 2001 the plain program takes {plain:.4} of its schedule, and no \
         sender more than {most:.4}: {:.3} was published for it, and {:.3} for the system call.",
        IDLE[0] / IDEAL,
        IDLE[1] / IDEAL
    )
}

/// The length of sessions, ours and theirs.
fn marks(all: &[Ran], work: Work) -> Plot {
    let names = ["published: plain", "published: kernel"].map(String::from);
    let ours = all.iter().zip(3..).filter_map(|((_, readings), at)| {
        let [y, least, most] = stretched(readings, work)?;
        Some(Place { x: f64::from(at), y, range: Some((least, most)) })
    });
    let theirs = (0..2).map(|at| {
        let range = Some((IDLE_RANGES[at].0 / IDEAL, IDLE_RANGES[at].1 / IDEAL));
        Place { x: at as f64 + 1.0, y: IDLE[at] / IDEAL, range }
    });
    let series = |name: &str, published, places| Series {
        name: name.to_string(),
        drawn: Drawn::Marks,
        published,
        places,
    };
    Plot {
        title: "Length of a session by its schedule, idle".to_string(),
        caption: "Mean of ten sessions, with the shortest and the longest.".to_string(),
        x: Axis::named("sender", names.into_iter().chain(all.iter().map(|it| it.0.clone()))),
        y: Axis::log("session / schedule"),
        series: vec![
            series("measured here", false, ours.collect()),
            series("published", true, theirs.collect()),
        ],
    }
}

fn findings(all: &[Ran]) -> Vec<Finding> {
    let abs = all.iter().find(|(name, _)| name == "plain-abs");
    let took = abs.and_then(|(_, readings)| seconds(readings));
    let expected = "idle, one flag (TIMER_ABSTIME) takes 29.97 s, within 20 ms";
    let finding =
        |took: f64| Finding::new("flag-is-enough", (took - IDEAL).abs() < 0.02, took, expected);
    took.map(finding).into_iter().collect()
}
