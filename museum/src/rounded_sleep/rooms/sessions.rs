//! Ten sessions by every sender on an idle machine: the paper's first table beside ours. The second
//! table uses the same way to run a sender and to sum up its sessions.

use super::super::{IDLE, IDLE_RANGES};
use super::{alone, time};
use crate::draft::{Draft, Part};
use crate::exhibit::Fault;
use crate::stage::Stage;
use document::{Mark, Point, Series};
use lab::pace::{Around, Lateness, Reading, Sink, Work};
use stats::median;
use stats::words;

/// The ideal duration of a session of 1000 packets, seconds.
pub const IDEAL: f64 = 29.97;

/// The readings of one sender in one rank, block by block.
pub type Readings = Vec<Reading>;

/// A sender and its readings.
pub type SenderRuns = (String, Readings);

pub fn measure(stage: &mut Stage<'_>, it: &mut Draft, senders: &[String]) -> Result<(), Fault> {
    let work = Work::audio(time(stage.settings()));
    stage.begin(&format!("{} by every sender, idle", work.words()));
    let around = alone(stage, Sink::Heard);
    let mut all: Vec<SenderRuns> = senders.iter().map(|it| (it.clone(), Vec::new())).collect();
    for _ in 0..stage.settings().blocks(1) {
        for (sender, readings) in &mut all {
            readings.extend(stage.cast(sender, work, around)?);
        }
    }
    stage.step(&format!("{} senders", all.len()));
    draft(it, &all, work, around);
    Ok(())
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

/// The duration of sessions divided by that of their schedule: the mean, the shortest, the longest.
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

/// The duration of a session of 1000 packets at the measured drift, seconds. Readings of up to one
/// second are too short for that.
fn seconds(readings: &[Reading]) -> Option<f64> {
    middle(readings, |it| {
        let is_long = it.ended_ns - it.began_ns > 1_000_000_000;
        is_long.then_some(IDEAL + it.drifts?.mean_ns as f64 / 1e9)
    })
}

/// The paper's figures, divided by the schedule of a session.
pub fn published(
    part: &mut Part,
    rows: [(f64, (f64, f64)); 2],
    cells: impl Fn(f64) -> Vec<String>,
) {
    for (name, (mean, (least, most))) in ["plain Linux", "in the kernel"].into_iter().zip(rows) {
        let extent = extent([mean, least, most].map(|it| it / IDEAL));
        let row = [format!("published: {name}"), extent].into_iter().chain(cells(mean));
        part.rows.push(row.collect());
    }
}

pub fn draft(it: &mut Draft, all: &[SenderRuns], work: Work, around: Around) {
    let mean = |readings: &Readings| Some(stretched(readings, work)?[0]);
    let plain = all.iter().find(|(name, _)| name == "plain");
    let most = all.iter().filter_map(|(_, it)| mean(it)).max_by(f64::total_cmp);
    let four = |value: f64| format!("{value:.4}");
    it.set("idle_work", words::capital(&work.words()));
    it.set("idle_sink", around.sink.words());
    it.set("idle_plain", plain.and_then(|(_, it)| mean(it)).map(four));
    it.set("idle_most", most.map(four));
    it.set("idle_published", IDLE.map(|it| format!("{:.3}", it / IDEAL)));
    let or_none = |value: Option<f64>| words::or_none(value, words::number);
    let none = || words::NONE.to_string();
    let mut part = Part::default();
    let rows = [0, 1].map(|at| (IDLE[at], IDLE_RANGES[at]));
    published(&mut part, rows, |mean| vec![format!("{mean:.3}"), none(), none(), none()]);
    for (sender, readings) in all {
        part.row([
            sender.clone(),
            stretched(readings, work).map_or_else(none, extent),
            words::or_none(seconds(readings), |it| format!("{it:.3}")),
            or_none(late(readings, |it| it.p50_ns)),
            or_none(late(readings, |it| it.p99_ns)),
            or_none(late(readings, |it| it.p999_ns)),
        ]);
    }
    marks(&mut part, all, work);
    it.room("idle", part);
    let single = all.iter().find(|(name, _)| name == "plain-abs");
    if let Some(took) = single.and_then(|(_, readings)| seconds(readings)) {
        it.claim("flag-is-enough", (took - IDEAL).abs() < 0.02, took);
    }
}

/// The length of sessions, ours and theirs.
fn marks(part: &mut Part, all: &[SenderRuns], work: Work) {
    let names = ["published: plain", "published: kernel"].map(String::from);
    let ours = all.iter().zip(3..).filter_map(|((_, readings), at)| {
        let [y, least, most] = stretched(readings, work)?;
        Some(Point { x: f64::from(at), y, range: Some((least, most)) })
    });
    let theirs = (0..2).map(|at| {
        let range = Some((IDLE_RANGES[at].0 / IDEAL, IDLE_RANGES[at].1 / IDEAL));
        Point { x: at as f64 + 1.0, y: IDLE[at] / IDEAL, range }
    });
    part.named(names.into_iter().chain(all.iter().map(|it| it.0.clone())));
    part.series(Series::measured("measured here", ours).drawn_as(Mark::Point));
    part.series(Series::published("published", theirs).drawn_as(Mark::Point));
}
