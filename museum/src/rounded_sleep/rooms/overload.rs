//! Ten sessions by every sender under the published overload, in three ranks: the second table, the
//! part of the paper that holds.

use super::super::{BUSY, BUSY_RANGES};
use super::sessions::{Readings, extent, late, middle, published, stretched};
use super::{alone, sink, time};
use crate::draft::{Draft, Part};
use crate::exhibit::Fault;
use crate::stage::Stage;
use document::{Mark, Series};
use lab::pace::{Around, ClassMix, Company, Rank, Reading, Sink, Work};
use stats::words;
use std::time::Duration;

/// The ranks of the columns.
const RANKS: [Rank; 3] = [Rank::Usual, Rank::Nice(-10), Rank::RealTime(50)];
/// Senders that hand their packets to the kernel beforehand, the best first: a queue releases them
/// in an interrupt, a chain needs the thread that submitted it.
const KERNEL_TIMED: [&str; 3] = ["tbf-kernel", "kernel-rtp", "uring-chain"];
/// The best process-timed sender, and its rank: before every other process.
const FRONT: (&str, usize) = ("sendmmsg", 2);

/// A sender in each rank.
pub struct Arm {
    sender: String,
    busy: [Readings; RANKS.len()],
}

impl Arm {
    /// The 99.9th percentile of lateness, milliseconds.
    fn p999(&self, rank: usize) -> Option<f64> {
        late(&self.busy[rank], |it| it.p999_ns)
    }
}

pub fn measure(stage: &mut Stage<'_>, it: &mut Draft, senders: &[String]) -> Result<(), Fault> {
    let work = Work::audio(time(stage.settings()));
    let ranks = if stage.settings().quick { &RANKS[..1] } else { &RANKS[..] };
    let mut arms: Vec<Arm> =
        senders.iter().map(|it| Arm { sender: it.clone(), busy: Default::default() }).collect();
    stage.begin(&format!("{} by every sender, under overload, in each rank", work.words()));
    let busy = Around { company: Company::published(), ..alone(stage, Sink::Heard) };
    for _ in 0..stage.settings().blocks(1) {
        for arm in &mut arms {
            for (&rank, readings) in ranks.iter().zip(&mut arm.busy) {
                readings.extend(stage.cast(&arm.sender, work, Around { rank, ..busy })?);
            }
        }
    }
    stage.step(&format!("{} senders", arms.len()));
    draft(it, &arms, work);
    classes(stage, it)
}

/// Streams of three classes, twice as many packets as the sender can send: the scheduler of
/// real-time packets that the paper names as future work.
fn classes(stage: &mut Stage<'_>, it: &mut Draft) -> Result<(), Fault> {
    let quick = stage.settings().quick;
    let time = Duration::from_millis(if quick { 300 } else { 1_500 });
    let sink = sink(stage);
    let around = alone(stage, sink);
    let packets = if quick { 10_000 } else { 100_000 };
    let fast = Work { packets, payload: 160, ..Work::default() };
    stage.begin("classes of packets, twice as many as can be sent");
    let most = stage.cast(FRONT.0, fast, around)?.map(|it| it.rate());
    let mut found = Vec::new();
    for mix in
        [ClassMix::Off, ClassMix::On, ClassMix::Limits].into_iter().filter(|_| most.is_some())
    {
        let work = Work::overload(time, most.unwrap_or_default(), mix);
        found.extend(stage.cast(FRONT.0, work, around)?.map(|reading| (mix, reading)));
    }
    stage.step(&format!("{} ways", found.len()));
    draft_classes(it, &found);
    Ok(())
}

pub fn draft_classes(it: &mut Draft, found: &[(ClassMix, Reading)]) {
    let p999 = |reading: &Reading, class: usize| {
        Some(reading.classes.get(class)?.late?.p999_ns as f64 / 1e6)
    };
    let audio = |wanted: ClassMix| {
        let (_, reading) = found.iter().find(|(mix, _)| *mix == wanted)?;
        p999(reading, 0)
    };
    let (blind, ordered) = (audio(ClassMix::Off), audio(ClassMix::On));
    it.set("classes_sender", FRONT.0);
    it.set("classes_blind", blind.map(words::number));
    it.set("classes_ordered", ordered.map(words::number));
    let mut part = Part::default();
    for (mix, reading) in found {
        let mut row = vec![mix.classes().unwrap_or_default().to_owned()];
        row.extend((0..3).map(|class| words::or_none(p999(reading, class), words::number)));
        let dropped: u64 = reading.classes.iter().map(|it| it.dropped).sum();
        row.push(words::percent(dropped as f64 / (dropped + reading.sent).max(1) as f64));
        part.rows.push(row);
    }
    it.room("classes", part);
    it.expect(
        "audio-is-first",
        blind.zip(ordered).map(|(blind, ordered)| ordered / blind.max(1.0)),
    );
}

pub fn draft(it: &mut Draft, arms: &[Arm], work: Work) {
    let found = compared(arms);
    let company = Company::published().words();
    it.set("overload_company", company.as_str());
    it.set("overload_company_first", words::capital(&company));
    it.set("overload_length", format!("{:.1} s", work.length().as_secs_f64()));
    it.set("overload_plain", found.map(|it| words::number(it.0)));
    it.set("overload_kernel", found.map(|it| it.1.sender.as_str()));
    it.set("overload_held", found.map(|it| words::number(it.2)));
    it.set("overload_front", found.and_then(|it| it.3).map(words::number));
    let or_none = |value: Option<f64>| words::or_none(value, words::number);
    let none = || words::NONE.to_string();
    let mut part = Part::default();
    let rows = [0, 1].map(|at| (BUSY[at], BUSY_RANGES[at]));
    published(&mut part, rows, |_| vec![none(); 5]);
    for arm in arms {
        let usual = &arm.busy[0];
        let dry = middle(usual, |it| Some(it.late?.dry));
        part.row([
            arm.sender.clone(),
            stretched(usual, work).map_or_else(none, extent),
            or_none(late(usual, |it| it.p50_ns)),
            words::or_none(dry, words::percent),
            or_none(arm.p999(0)),
            or_none(arm.p999(1)),
            or_none(arm.p999(2)),
        ]);
    }
    part.named(arms.iter().map(|it| it.sender.clone()));
    for (rank, name) in RANKS.iter().enumerate() {
        let points = arms.iter().zip(1..).filter_map(|(arm, at)| {
            // A packet without any lateness also needs a place on a logarithmic axis.
            Some((f64::from(at), arm.p999(rank)?.max(0.001)))
        });
        part.series(Series::measured(name.words(), points).drawn_as(Mark::Point));
    }
    it.room("overload", part);
    if let Some((slow, _, held, front)) = found {
        let held = held.max(1e-3);
        it.expect("kernel-timed-holds", held / slow.max(1e-3));
        it.expect("as-good-as-in-front", front.map(|front| held / front.max(1e-3)));
    }
}

fn of<'a>(arms: &'a [Arm], sender: &str) -> Option<&'a Arm> {
    arms.iter().find(|arm| arm.sender == sender)
}

fn kernel_timed(arms: &[Arm]) -> Option<&Arm> {
    KERNEL_TIMED.iter().find_map(|name| of(arms, name).filter(|it| it.p999(0).is_some()))
}

/// The lateness of the plain sender, the kernel-timed one and the leading one.
fn compared(arms: &[Arm]) -> Option<(f64, &Arm, f64, Option<f64>)> {
    let kernel = kernel_timed(arms)?;
    let front = of(arms, FRONT.0).and_then(|it| it.p999(FRONT.1));
    Some((of(arms, "plain")?.p999(0)?, kernel, kernel.p999(0)?, front))
}
