//! Senders of packets, each trial a separate process in the laboratory's surroundings.

use super::{blocks, each, known};
use crate::exhibit::{Effort, Fault};
use crate::plan::Spec;
use crate::results::{Figures, Results};
use crate::scope::Scope;
use crate::stage::Stage;
use lab::pace::{Around, Company, Extent, Lateness, Rank, Reading, Sink, Work};
use minijinja::Value;
use stats::Rng;

/// Senders that work on a usual machine, for the time they take.
const USUAL: [&str; 9] = [
    "plain",
    "plain-abs",
    "wheel-mmap",
    "sendmmsg",
    "sendmmsg+gso",
    "splice",
    "sendfile",
    "uring-chain",
    "kernel-rtp",
];

/// Those that a quick visit looks at, if they work.
const QUICK: [&str; 4] = ["plain", "plain-abs", "sendmmsg", "uring-chain"];

/// How long all trials take.
pub fn effort(senders: &Spec, scope: &Scope) -> Result<Effort, Fault> {
    let mut scope = scope.clone();
    scope.set("senders", Value::from(USUAL.to_vec()));
    let mut time = std::time::Duration::ZERO;
    for scope in each(senders, &scope)? {
        time += senders.need("seconds", |it| scope.time(it))? * blocks(senders, &scope)?;
    }
    Ok(Effort { steps: 1, time })
}

/// Runs all trials; a sender that fails becomes a doubt.
///
/// # Errors
/// If the raw file cannot be written, or an expression of the plan is wrong.
pub fn run(
    stage: &mut Stage<'_>,
    senders: &Spec,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    if !results.values.contains_key("senders") {
        let mut all = stage.senders();
        if stage.settings().quick {
            all.retain(|name| QUICK.contains(&name.as_str()));
        }
        results.set("senders", all);
        results.set("company", Company::published().words());
    }
    let name = senders.text("sink").unwrap_or_default();
    let sink = sink(stage, name);
    results.set(&format!("sink_{name}"), sink.words());
    let mut scope = scope.clone();
    scope.set_measured(results);
    let all = each(senders, &scope)?.into_iter();
    let trials = all.map(|scope| trial(senders, &scope, stage, sink));
    let trials = trials.collect::<Result<Vec<_>, Fault>>()?;
    let Some(first) = trials.first() else { return Ok(()) };
    let what = format!("{}: {}", first.point, first.work.words());
    stage.begin(&what)?;
    let mut rng = Rng::new(u64::from(stage.settings().seed));
    for block in 0..blocks(senders, &scope)? {
        let order = if senders.is("shuffled") {
            rng.order(trials.len())
        } else {
            (0..trials.len()).collect()
        };
        for at in order {
            let Trial { arm, point, sender, work, around } = &trials[at];
            if let Some(reading) = stage.cast(sender, *work, *around)? {
                results.add(arm, point, block, figures(&reading, *work));
            }
        }
    }
    if let Some(base) = senders.text("base") {
        trials.iter().for_each(|it| results.base(&it.point, base));
    }
    stage.step(&what);
    Ok(())
}

/// A device that frees packets if one is wanted and can be made, else the loopback device.
fn sink(stage: &mut Stage<'_>, name: &str) -> Sink {
    if name != "freed" {
        return Sink::Heard;
    }
    match Sink::Freed.can_be_made() {
        Ok(()) => Sink::Freed,
        Err(why) => {
            stage.doubt(format!(
                "No device that frees packets could be made ({why}), so the cost of receiving is \
                 in the cost of a packet."
            ));
            Sink::Heard
        }
    }
}

struct Trial {
    arm: String,
    point: String,
    sender: String,
    work: Work,
    around: Around,
}

fn trial(senders: &Spec, scope: &Scope, stage: &Stage<'_>, sink: Sink) -> Result<Trial, Fault> {
    let words = |name: &str| senders.need(name, |it| scope.words(it));
    let time = senders.maybe("time", |it| scope.time(it))?;
    let packets = senders.maybe("packets", |it| scope.number(it))?;
    let mut work = time.map_or(Work { file: true, ..Work::default() }, Work::audio);
    work.packets = packets.map_or(work.packets, |it| it as u32);
    work.streams = senders.need("streams", |it| scope.number(it))? as u32;
    work.payload = senders.need("payload", |it| scope.number(it))? as u32;
    let rank = senders.maybe("rank", |it| scope.words(it))?;
    let rank = match rank.as_deref() {
        None | Some("0") => Rank::Usual,
        Some("fifo") => Rank::RealTime(50),
        Some(nice) => Rank::Nice(nice.parse().unwrap_or(0)),
    };
    let company = if senders.is("crowded") { Company::published() } else { Company::default() };
    Ok(Trial {
        arm: words("arm")?,
        point: words("point")?,
        sender: words("sender")?,
        work,
        around: Around {
            cores: stage.cores(),
            sink,
            rank,
            company,
            soak: senders.is("soak") && !stage.settings().quick,
        },
    })
}

/// The figures of a trial: of a packet, in microseconds; lateness in milliseconds.
fn figures(it: &Reading, work: Work) -> Figures {
    let each = |count: u64| Some(count as f64 / it.sent.max(1) as f64);
    let late = |which: fn(&Lateness) -> i64| Some(which(&it.late?) as f64 / 1e6);
    let ideal = (work.gap() * work.packets.saturating_sub(1)).as_nanos() as f64;
    let span = |which: fn(&Extent) -> i64| Some(which(&it.spans?) as f64 / ideal);
    // Shorter readings cannot tell the drift.
    let is_long = it.ended_ns.saturating_sub(it.began_ns) > 1_000_000_000;
    let drift = it.drifts.filter(|_| is_long).map(|it| it.mean_ns as f64 / 1e9);
    known([
        ("each_us", Some(it.each_ns() / 1e3)),
        ("core_us", it.soak_ns.map(|ns| ns / 1e3)),
        ("softirqs", it.softirqs.and_then(each)),
        ("switches", each(it.switches)),
        ("calls", each(it.calls)),
        ("copies", Some(it.read_copies)),
        ("kernel_kb", Some(it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1)))),
        ("rate", Some(it.rate())),
        ("mean", span(|it| it.mean_ns)),
        ("least", span(|it| it.least_ns)),
        ("most", span(|it| it.most_ns)),
        ("drift_s", drift),
        ("p50_ms", late(|it| it.p50_ns)),
        ("p99_ms", late(|it| it.p99_ns)),
        ("p999_ms", late(|it| it.p999_ns)),
        ("dry", it.late.map(|it| it.dry)),
    ])
}
