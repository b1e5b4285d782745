//! Ten sessions by every sender under the published overload, in three ranks: the second table, the
//! part of the paper that holds.

use super::super::{BUSY, BUSY_RANGES};
use super::sessions::{Readings, extent, late, middle, published, stretched};
use super::{alone, time};
use crate::draft::{Draft, Part};
use crate::exhibit::Fault;
use crate::stage::Stage;
use document::{Mark, Series};
use lab::pace::{Around, Company, Rank, Sink, Work};
use stats::words;

/// The ranks of the columns.
const RANKS: [Rank; 3] = [Rank::Usual, Rank::Nice(-10), Rank::RealTime(50)];
/// Senders that hand their packets to the kernel beforehand, the best first: a queue releases them
/// in an interrupt, a chain needs the thread that submitted it.
const KERNEL_TIMED: [&str; 3] = ["tbf-kernel", "bpf-stamp", "uring-chain"];
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
    let busy = Around { company: Company::PUBLISHED, ..alone(stage, Sink::Heard) };
    for _ in 0..stage.settings().blocks(1) {
        for arm in &mut arms {
            for (&rank, readings) in ranks.iter().zip(&mut arm.busy) {
                readings.extend(stage.cast(&arm.sender, work, Around { rank, ..busy })?);
            }
        }
    }
    stage.step(&format!("{} senders", arms.len()));
    draft(it, &arms, work);
    Ok(())
}

pub fn draft(it: &mut Draft, arms: &[Arm], work: Work) {
    let found = compared(arms);
    let company = Company::PUBLISHED.words();
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
