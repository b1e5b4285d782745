//! Ten sessions by every sender under the published overload, in three ranks: the second table,
//! which is what survives of the paper.

use super::super::{BUSY, BUSY_RANGES};
use super::sessions::{IDEAL, Readings, extent, late, middle, stretched};
use super::{alone, time};
use crate::exhibit::Fault;
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Room, Series, Side};
use crate::stage::Stage;
use crate::words;
use lab::pace::{Around, Company, Rank, Sink, Work};

/// The ranks of the columns.
const RANKS: [Rank; 3] = [Rank::Usual, Rank::Nice(-10), Rank::RealTime(50)];
/// Whose packets the kernel has beforehand, the best first: a queue lets them go in an interrupt, a
/// chain needs the thread that submitted it.
const KERNEL_TIMED: [&str; 3] = ["tbf-kernel", "bpf-stamp", "uring-chain"];
/// What the best process-timed sender is: in front of everybody.
const FRONT: (&str, usize) = ("sendmmsg", 2);

/// A sender in each rank.
struct Arm {
    sender: String,
    busy: [Readings; RANKS.len()],
}

impl Arm {
    /// The 99.9th percentile of lateness, milliseconds.
    fn p999(&self, rank: usize) -> Option<f64> {
        late(&self.busy[rank], |it| it.p999_ns)
    }
}

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
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
    let side = told(&arms, work);
    stage.hang(Room { title: "The second table beside ours: overload".into(), side });
    Ok(findings(&arms))
}

fn told(arms: &[Arm], work: Work) -> Side {
    let or_none = |value: Option<f64>| words::or_none(value, words::number);
    let mut numbers = Grid::new(&[
        "sender",
        "session, of its schedule",
        "late p50, ms",
        "> 60 ms",
        "p99.9, ms: nice 0",
        "nice -10",
        "FIFO 50",
    ]);
    for (name, at) in [("published: plain Linux", 0), ("published: in the kernel", 1)] {
        let none = || words::NONE.to_string();
        let (least, most) = BUSY_RANGES[at];
        let published = [BUSY[at], least, most].map(|it| it / IDEAL);
        let name = name.to_string();
        numbers.row([name, extent(published), none(), none(), none(), none(), none()]);
    }
    for arm in arms {
        let none = || words::NONE.to_string();
        let usual = &arm.busy[0];
        let dry = middle(usual, |it| Some(it.late?.dry));
        numbers.row([
            arm.sender.clone(),
            stretched(usual, work).map_or_else(none, extent),
            or_none(late(usual, |it| it.p50_ns)),
            words::or_none(dry, words::percent),
            or_none(arm.p999(0)),
            or_none(arm.p999(1)),
            or_none(arm.p999(2)),
        ]);
    }
    Side {
        setup: format!(
            "The same sessions {}, all on the sender's core. The columns of p99.9 are the sender's \
             ranks: like everybody, preferred by nice, and in front of everybody by real-time \
             priority, which the paper names as future work; the others are of nice 0. A thread of \
             the kernel's that polls a ring (SQPOLL) and a queue that the timer interrupt plays \
             (tbf, bpf) are rows. A session is {:.1} s by its schedule, in which a delay at its \
             end weighs more than in the published 30 s.",
            Company::PUBLISHED.words(),
            work.length().as_secs_f64()
        ),
        finding: finding(arms),
        plot: Some(marks(arms)),
        numbers,
    }
}

fn of<'a>(arms: &'a [Arm], sender: &str) -> Option<&'a Arm> {
    arms.iter().find(|arm| arm.sender == sender)
}

fn kernel_timed(arms: &[Arm]) -> Option<&Arm> {
    KERNEL_TIMED.iter().find_map(|name| of(arms, name).filter(|it| it.p999(0).is_some()))
}

/// How late the plain sender, the kernel-timed one and the one in front are.
fn compared(arms: &[Arm]) -> Option<(f64, &Arm, f64, Option<f64>)> {
    let kernel = kernel_timed(arms)?;
    let front = of(arms, FRONT.0).and_then(|it| it.p999(FRONT.1));
    Some((of(arms, "plain")?.p999(0)?, kernel, kernel.p999(0)?, front))
}

fn finding(arms: &[Arm]) -> String {
    let Some((slow, kernel, held, front)) = compared(arms) else {
        return "Too few packets were heard to compare senders.".to_string();
    };
    let front = front.map_or(String::new(), |ms| {
        format!(" A timer wheel with real-time priority is at {} ms.", words::number(ms))
    });
    format!(
        "Under overload 99.9 % of the packets of plain are late by at most {} ms, of {}, whose \
         packets the kernel had beforehand, by {} ms.{front}",
        words::number(slow),
        kernel.sender,
        words::number(held)
    )
}

/// The 99.9th percentile of every sender in every rank.
fn marks(arms: &[Arm]) -> Plot {
    let series = RANKS.iter().enumerate().map(|(rank, name)| {
        let places = arms.iter().zip(1..).filter_map(|(arm, at)| {
            // A packet that is not late at all has a place on the axis too.
            Some(Place { x: f64::from(at), y: arm.p999(rank)?.max(0.001), range: None })
        });
        let (name, places) = (name.words(), places.collect());
        Series { name, drawn: Drawn::Marks, places, ..Series::default() }
    });
    Plot {
        title: "Lateness under overload, p99.9, by sender and rank".to_string(),
        caption: format!("{} on the sender's core.", words::capital(&Company::PUBLISHED.words())),
        x: Axis::named("sender", arms.iter().map(|it| it.sender.clone())),
        y: Axis::log("late at p99.9, ms"),
        series: series.filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(arms: &[Arm]) -> Vec<Finding> {
    let Some((slow, kernel, held, front)) = compared(arms) else { return Vec::new() };
    let held = held.max(1e-3);
    let ratio = held / slow.max(1e-3);
    let name = &kernel.sender;
    let expected = format!("under overload {name} is late by at most a tenth of plain, p99.9");
    let mut found = vec![Finding::new("kernel-timed-holds", ratio <= 0.1, ratio, expected)];
    if let Some(front) = front {
        let ratio = held / front.max(1e-3);
        let expected =
            format!("under overload {name} is late by at most twice sendmmsg with FIFO 50, p99.9");
        found.push(Finding::new("as-good-as-in-front", ratio <= 2.0, ratio, expected));
    }
    found
}
