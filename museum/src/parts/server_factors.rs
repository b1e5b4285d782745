//! Five optimisations at once made a server twice as fast: the effect of each by itself.
//!
//! The portfolio's echo server changed five things between two measurements and credits memory,
//! alignment and "fewer synchronisation objects". It does not name the lock of the whole server,
//! held from finding a session until its answer was sent. Here each change is a switch of one
//! server ([`crate::artefact::echo`]). Half of all combinations run, chosen so that each switch is
//! on in one half of them and off in the other; this yields the effect of each by itself, with an
//! interval. The client verifies every byte, which the original's did not.

use super::Part;
use crate::artefact::echo::{SWITCHES, Switches};
use crate::artefact::program::Subprocess;
use crate::contest::{Arm, Contest, Costs, ns_each};
use crate::draft::{Draft, one, point};
use crate::exhibit::{Effort, Fault};
use crate::factors;
use crate::portfolio::{self, ECHO};
use crate::stage::{Settings, Stage};
use client::Crowd;
use document::{Mark, Series};
use stats::words;
use stats::{Comparison, compare, median};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;
use wire::message::{Fields, PutField};

mod client;

/// The published clients, and their packets in flight for each.
const PUBLISHED: u32 = 100;
/// Clients of each server, and packets in flight for each. The published run had 100 and 100. With
/// fewer packets in a batch the server has more work than the client that verifies them, so the
/// server is the limit.
const CLIENTS: u32 = 32;
const WINDOW: usize = 10;
/// A client thread that is busier than this may be the limit itself.
const BUSY_MAX: f64 = 0.9;
/// The time for which each server is loaded in a block.
const LOADED: Duration = Duration::from_millis(60);
/// The largest factor of cost that counts as no effect of a switch, for its finding.
const SMALL: f64 = 1.25;
/// With this many processors, several workers contend for a lock while the clients keep one busy.
const MANY: usize = 4;
const COPIED: &str = "bytes copied";
const STREAMED: &str = "streamed, new buffer";
const STREAMED_AGAIN: &str = "streamed, buffer kept";

/// The exhibit.
pub struct ServerFactors;

impl Part for ServerFactors {
    type Measured = Measured;
    const NAME: &'static str = "server-factors";

    fn effort(settings: &Settings) -> Effort {
        let blocks = settings.rounds(12);
        let arms = if settings.quick { 2 } else { 20 };
        Effort::new(blocks, (loaded(settings) + Duration::from_millis(6)) * arms)
            .and(Effort::new(blocks, Duration::from_millis(60)))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let race = race(stage)?;
        let buffers = buffers(stage)?;
        if race.as_ref().is_some_and(|it| it.busy > BUSY_MAX) {
            stage.doubt("The client was busy most of the time: it may have been the limit.");
        }
        if race.as_ref().is_some_and(|it| it.verified[1] > 0) {
            stage.doubt("Some packets came back wrong: the servers cannot be compared.");
        }
        Ok(Measured { race, buffers })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        measured.race.iter().map(|it| &it.costs).chain(&measured.buffers).collect()
    }

    fn draft(measured: &Measured, settings: &Settings) -> Draft {
        draft(measured, clients(settings), packets(settings))
    }
}

fn loaded(settings: &Settings) -> Duration {
    match (settings.full, settings.quick) {
        // As long as the published monitor counts.
        (true, _) => Duration::from_secs(1),
        (_, true) => LOADED / 6,
        _ => LOADED,
    }
}

/// Packets in flight for each client.
fn packets(settings: &Settings) -> usize {
    if settings.full { PUBLISHED as usize } else { WINDOW }
}

fn clients(settings: &Settings) -> u32 {
    let usual = match (settings.full, settings.quick) {
        (true, _) => PUBLISHED,
        (_, true) => 4,
        _ => CLIENTS,
    };
    settings.clients(&[usual]).first().copied().unwrap_or(usual)
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    race: Option<Race>,
    buffers: Option<Costs>,
}

struct Race {
    /// Nanoseconds on the wall for each packet that came back.
    costs: Costs,
    /// The server's CPU time for each, nanoseconds.
    cpu: Costs,
    /// The names of the balanced half, with their switches.
    runs: Vec<(String, u32)>,
    /// By arm: packets received in one reception of the server on average, the median and the
    /// highest latency, nanoseconds.
    batches: HashMap<String, [f64; 3]>,
    /// Packets that came back, and those that were wrong.
    verified: [u64; 2],
    /// The median share of its time in which the client's thread was busy.
    busy: f64,
}

const NONE_ON: u32 = 0;
const ALL_ON: u32 = 0b11111;

/// The arms: nothing optimised, everything, and the balanced half. A quick look has the two ends
/// and each switch by itself.
fn arms(settings: &Settings) -> Vec<u32> {
    let mut arms = vec![NONE_ON];
    match settings.quick {
        true => arms.extend((0..5).map(|at| 1 << at).chain([ALL_ON])),
        false => arms.extend(factors::half(5)),
    }
    arms
}

fn name(switches: u32) -> String {
    match switches {
        NONE_ON => "none".to_string(),
        ALL_ON => "all five".to_string(),
        _ => Switches(switches).to_string(),
    }
}

/// The values that the arms of a race record beside their cost.
#[derive(Default)]
struct Notes {
    cpu: HashMap<String, Vec<f64>>,
    batches: HashMap<String, Vec<[f64; 3]>>,
    verified: [u64; 2],
    busy: Vec<f64>,
}

fn race(stage: &mut Stage<'_>) -> Result<Option<Race>, Fault> {
    let settings = stage.settings().clone();
    let (blocks, window, clients) = (settings.rounds(12), loaded(&settings), clients(&settings));
    let notes = Rc::new(RefCell::new(Notes::default()));
    let mut contest = Contest { notes: true, ..Contest::new("five switches", blocks) };
    let all = arms(&settings);
    for switches in all.iter().copied() {
        if stage.stopped() {
            return Ok(None);
        }
        let words = Switches(switches).to_string();
        let mut server = Subprocess::start(&settings.exe, &["echo", &words], &[])?;
        let port = server.numbers("")?.first().copied().unwrap_or(0.0) as u16;
        let mut crowd = Crowd::connect(port, clients, packets(&settings))?;
        let (name, notes) = (name(switches), notes.clone());
        let arm = name.clone();
        contest.arms.push(Arm::trying(name, move || {
            let before = server_cpu(server.pid());
            let measured = crowd.load(window)?;
            let cpu = server_cpu(server.pid()) - before;
            let mut notes = notes.borrow_mut();
            notes.cpu.entry(arm.clone()).or_default().push(cpu / measured.packets.max(1) as f64);
            let batch = [
                measured.packets as f64 / measured.receptions.max(1) as f64,
                measured.p50,
                measured.most,
            ];
            notes.batches.entry(arm.clone()).or_default().push(batch);
            notes.busy.push(measured.busy);
            notes.verified[0] += measured.packets;
            notes.verified[1] += measured.wrong;
            Ok(measured.took.as_nanos() as f64 / measured.packets.max(1) as f64)
        }));
    }
    let Some(costs) = stage.contest(contest)? else { return Ok(None) };
    let notes = notes.borrow();
    let names: Vec<String> = all.iter().map(|it| name(*it)).collect();
    let half = factors::half(5);
    let runs = all.iter().filter(|it| half.contains(it)).map(|it| (name(*it), *it)).collect();
    let batches = names.iter().map(|it| (it.clone(), middle(&notes.batches[it]))).collect();
    let cpu = cpu_of(&names, &notes.cpu);
    let busy = median(&notes.busy).unwrap_or(f64::NAN);
    Ok(Some(Race { costs, cpu, runs, batches, verified: notes.verified, busy }))
}

fn middle(all: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|at| {
        let values: Vec<f64> = all.iter().map(|it| it[at]).collect();
        median(&values).unwrap_or(f64::NAN)
    })
}

/// CPU costs by block. The first block does not count, and the baseline ran twice in each: its
/// second is its twin.
fn cpu_of(names: &[String], all: &HashMap<String, Vec<f64>>) -> Costs {
    let base: Vec<f64> = all[&names[0]].iter().skip(2).copied().collect();
    let twin = base.iter().skip(1).step_by(2).copied().collect();
    let costs = names.iter().enumerate().map(|(at, name)| match at {
        0 => base.iter().step_by(2).copied().collect(),
        _ => all[name].iter().skip(1).copied().collect(),
    });
    let costs = costs.collect();
    Costs::new(&names.iter().map(String::as_str).collect::<Vec<_>>(), costs, twin)
}

/// Nanoseconds that all threads of a process have run (`/proc/PID/task/TID/schedstat`).
fn server_cpu(pid: u32) -> f64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let ran = threads.flatten().filter_map(|it| {
        let text = std::fs::read_to_string(it.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    ran.sum()
}

/// The serialising message buffer: a packet streamed into 20,000 bytes field by field.
fn buffers(stage: &mut Stage<'_>) -> Result<Option<Costs>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(12), settings.amount(100_000, 20));
    let mut contest = Contest::new("a packet into a buffer", blocks);
    contest.arm(COPIED, move || {
        let mut ring = Vec::with_capacity(20_000);
        ns_each(times, || {
            for at in 0..times {
                ring.clear();
                ring.extend_from_slice(&crate::artefact::echo::packet(at));
                black_box(&ring);
            }
        })
    });
    for (name, kept) in [(STREAMED, false), (STREAMED_AGAIN, true)] {
        contest.arm(name, move || {
            let mut message = blank();
            ns_each(times, || {
                for at in 0..times {
                    if !kept {
                        message = blank();
                    }
                    message.clear();
                    message.put(8_u16).put(at);
                    let mut fields = Fields(black_box(&message));
                    black_box((fields.take::<u16>(), fields.take::<u64>()));
                }
            })
        });
    }
    stage.contest(contest)
}

/// A message buffer of the published size, from the heap.
#[inline(never)]
fn blank() -> Vec<u8> {
    vec![0; 20_000]
}

impl Race {
    /// Throughput with a switch on, against off.
    fn effect(&self, at: u32) -> Option<Comparison> {
        match self.runs.len() {
            16 => factors::effect(&self.costs, &self.runs, at).map(|it| flipped(&it)),
            _ => self.costs.against("none", &name(1 << at)),
        }
    }

    /// The server's CPU for each packet with a switch on, against off.
    fn cpu_effect(&self, at: u32) -> Option<Comparison> {
        match self.runs.len() {
            16 => factors::effect(&self.cpu, &self.runs, at),
            _ => self.cpu.against(&name(1 << at), "none"),
        }
    }

    /// The throughput of everything optimised against nothing.
    fn whole(&self) -> Option<Comparison> {
        self.costs.against("none", "all five")
    }
}

/// A ratio of throughputs from one of costs.
fn flipped(it: &Comparison) -> Comparison {
    let pairs: Vec<(f64, f64)> = it.log_ratios.iter().map(|log| ((-log).exp(), 1.0)).collect();
    compare(&pairs, 1_000, 1).unwrap_or_else(|| it.clone())
}

fn draft(measured: &Measured, clients: u32, window: usize) -> Draft {
    let mut it = Draft::default();
    let race = measured.race.as_ref();
    let whole = race.and_then(Race::whole);
    let largest = largest(measured);
    it.set("source", portfolio::source(3, "a network library on completion ports, echo test"));
    it.set("processors", processors());
    it.set("small", SMALL);
    it.set("clients", clients);
    it.set("window", window);
    it.compare("whole", whole.as_ref());
    it.set("largest", largest.as_ref().map(|it| it.0));
    it.compare("largest_effect", largest.as_ref().map(|it| &it.1));
    it.set("is_sure", largest.as_ref().is_some_and(|it| is_sure(&it.1)));
    it.set("others", others(measured, largest.as_ref().map_or("", |it| it.0)));
    it.set("balanced", race.is_some_and(|it| it.runs.len() == 16));
    it.set("verified", race.map(|it| it.verified.map(words::count)));
    it.set("busy", race.map(|it| words::percent(it.busy)));
    rows(&mut it, measured);
    if let Some(race) = race {
        plots(&mut it, race);
        findings(&mut it, measured, race, largest.as_ref());
    }
    it
}

fn rows(it: &mut Draft, measured: &Measured) {
    for (name, before, after) in ECHO {
        it.published.row([
            name.to_string(),
            words::number(before),
            words::number(after),
            words::ratio(after / before),
        ]);
    }
    if let Some(race) = &measured.race {
        for name in ["none", "all five"] {
            let [batch, p50, most] = race.batches.get(name).copied().unwrap_or([f64::NAN; 3]);
            it.flawed.row([
                name.to_string(),
                words::or_none(race.costs.median(name).map(|ns| 1e9 / ns), words::number),
                words::or_none(race.cpu.median(name), words::number),
                words::number(batch),
                format!("{} and {}", words::number(p50 / 1e3), words::number(most / 1e3)),
            ]);
        }
        let or_none =
            |it: Option<Comparison>| it.as_ref().map_or(words::NONE.to_string(), words::compared);
        for (switch, at) in SWITCHES.iter().zip(0..) {
            let effects = [race.effect(at), race.cpu_effect(at)].map(or_none);
            it.corrected.row([switch.to_string(), effects[0].clone(), effects[1].clone()]);
        }
        let cpu = race.cpu.against("all five", "none");
        it.corrected.row(["all five".to_string(), or_none(race.whole()), or_none(cpu)]);
    }
    if let Some(costs) = &measured.buffers {
        for name in [COPIED, STREAMED, STREAMED_AGAIN] {
            let ns = words::or_none(costs.median(name), words::number);
            it.corrected.row([
                format!("a packet, {name}"),
                words::NONE.to_string(),
                format!("{ns} ns, {}", costs.judged(name, COPIED)),
            ]);
        }
    }
}

/// Whether the interval leaves no effect out.
fn is_sure(it: &Comparison) -> bool {
    it.interval.as_ref().is_some_and(|it| it.low > 1.0 || it.high < 1.0)
}

/// The number of processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn largest(measured: &Measured) -> Option<(&'static str, Comparison)> {
    let race = measured.race.as_ref()?;
    let all = SWITCHES.iter().zip(0..).filter_map(|(name, at)| Some((*name, race.effect(at)?)));
    all.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

/// The other switches, each with its effect.
fn others(measured: &Measured, first: &str) -> Vec<String> {
    let Some(race) = &measured.race else { return Vec::new() };
    let rest = SWITCHES.iter().zip(0..).filter(|(name, _)| **name != first);
    let rest = rest
        .filter_map(|(name, at)| Some(format!("{name} {}", words::compared(&race.effect(at)?))));
    rest.collect()
}

fn plots(it: &mut Draft, race: &Race) {
    it.corrected.named(SWITCHES);
    let effects = (0..5_u32).filter_map(|at| Some(point(f64::from(at + 1), &race.effect(at)?)));
    it.corrected.series(one("no effect", (1..=5).map(f64::from)));
    it.corrected.series(Series::measured("one switch, on / off", effects).drawn_as(Mark::Point));
    it.together.named(["server", "client"]);
    let published = Series::published("published", [(1.0, 55_867.0 / 32_567.0), (2.0, 2.082)]);
    it.together.series(published.drawn_as(Mark::Point));
    let here = race.whole().map(|it| point(2.0, &it));
    it.together.series(Series::measured("here, all five", here).drawn_as(Mark::Point));
    let product: f64 = (0..5).filter_map(|at| Some(race.effect(at)?.ratio)).product();
    let product = Series::measured("here, the single effects multiplied", [(2.0, product)]);
    it.together.series(product.drawn_as(Mark::Point));
}

fn findings(
    it: &mut Draft,
    measured: &Measured,
    race: &Race,
    largest: Option<&(&'static str, Comparison)>,
) {
    // A held lock makes other processors wait: with one for the clients and one for the server
    // there is hardly another that could wait.
    let many = processors() >= MANY;
    let together = if many { "together" } else { "together-on-few" };
    it.expect_ratio(together, race.whole().as_ref());
    if let (true, Some((name, found))) = (many, largest) {
        it.claim_ratio("the-lock", *name == SWITCHES[0], found);
    }
    let rest = (1..5).filter_map(|at| Some(race.effect(at)?.ratio));
    let (_, most) = super::range(rest.map(|it| it.ln().abs().exp()));
    it.claim("the-others", most < SMALL, most);
    it.expect("verified", race.verified[1] as f64);
    let streamed = measured.buffers.as_ref().and_then(|it| it.against(STREAMED, COPIED));
    it.expect_ratio("streaming", streamed.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        assert_eq!((clients(&full), packets(&full)), (100, 100));
        assert_eq!(loaded(&full).as_secs(), 1);
    }
}
