//! Five optimisations at once made a server twice as fast; what is each worth by itself?
//!
//! The portfolio's echo server changed five things between two measurements and credits memory,
//! alignment and "fewer synchronisation objects". The thing that it does not name is a lock of the
//! whole server that was held while a session was found and its answer sent. Here each change is a
//! switch of one server ([`crate::artefact::echo`]), and half of all combinations are run, chosen
//! so that each switch is on in one half of them and off in the other: the effect of each is known
//! by itself, with an interval. The client verifies every byte, which the original's did not.

use crate::artefact::echo::{SWITCHES, Switches};
use crate::artefact::program::Asked;
use crate::contest::{Arm, Contest, Told, ns_each};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::factors;
use crate::portfolio::{self, ECHO};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use client::Crowd;
use lab::stats::{Comparison, compare, median};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

mod client;

/// Clients of each server, and packets that each keeps on its way. Published were 100 and 100; with
/// fewer packets in a batch the server has more to do than the client that verifies them, and is
/// what is measured.
const CLIENTS: u32 = 32;
const WINDOW: usize = 10;
/// A client thread that is busier than this may be the limit itself.
const BUSY_MAX: f64 = 0.9;
/// How long each server is loaded in a block.
const LOADED: Duration = Duration::from_millis(60);
/// How much slower or faster may still be none of a switch's doing, for its finding.
const SMALL: f64 = 1.25;
/// So many processors let several workers meet at a lock while the clients keep one busy.
const MANY: usize = 4;
const COPIED: &str = "bytes copied";
const STREAMED: &str = "streamed, new buffer";
const STREAMED_AGAIN: &str = "streamed, buffer kept";

/// The exhibit.
pub struct ServerFactors;

impl Exhibit for ServerFactors {
    fn name(&self) -> &'static str {
        "server-factors"
    }

    fn title(&self) -> &'static str {
        "Five optimisations of an echo server"
    }

    fn about(&self) -> &'static str {
        "of five changes made at once, what each is worth by itself"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let blocks = settings.rounds(12);
        let arms = if settings.quick { 2 } else { 20 };
        Effort::new(blocks, (loaded(settings) + Duration::from_millis(6)) * arms)
            .and(Effort::new(blocks, Duration::from_millis(60)))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let raced = race(stage)?;
        let buffers = buffers(stage)?;
        Ok(told(stage, &Seen { raced, buffers }))
    }
}

fn loaded(settings: &Settings) -> Duration {
    if settings.quick { LOADED / 6 } else { LOADED }
}

fn clients(settings: &Settings) -> u32 {
    let usual = if settings.quick { 4 } else { CLIENTS };
    settings.clients(&[usual]).first().copied().unwrap_or(usual)
}

/// What was measured.
struct Seen {
    raced: Option<Raced>,
    buffers: Option<Told>,
}

struct Raced {
    /// Nanoseconds on the wall for each packet that came back.
    told: Told,
    /// The server's CPU time for each, nanoseconds.
    cpu: Told,
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

/// Arms: nothing optimised, everything, and the balanced half. A quick look has the two ends and
/// each switch by itself.
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

/// What the arms of a race leave behind beside their cost.
#[derive(Default)]
struct Notes {
    cpu: HashMap<String, Vec<f64>>,
    batches: HashMap<String, Vec<[f64; 3]>>,
    verified: [u64; 2],
    busy: Vec<f64>,
}

fn race(stage: &mut Stage<'_>) -> Result<Option<Raced>, Fault> {
    let settings = stage.settings().clone();
    let (blocks, window, clients) = (settings.rounds(12), loaded(&settings), clients(&settings));
    let notes = Rc::new(RefCell::new(Notes::default()));
    let mut contest = Contest::new("five switches", blocks);
    let all = arms(&settings);
    for switches in all.iter().copied() {
        if stage.stopped() {
            return Ok(None);
        }
        let words = Switches(switches).to_string();
        let mut server = Asked::start(&settings.exe, &["echo", &words], &[])?;
        let port = server.numbers("")?.first().copied().unwrap_or(0.0) as u16;
        let mut crowd = Crowd::connect(port, clients, WINDOW)?;
        let (name, notes) = (name(switches), notes.clone());
        let arm = name.clone();
        contest.arms.push(Arm::trying(name, move || {
            let before = server_cpu(server.pid());
            let seen = crowd.load(window)?;
            let cpu = server_cpu(server.pid()) - before;
            let mut notes = notes.borrow_mut();
            notes.cpu.entry(arm.clone()).or_default().push(cpu / seen.packets.max(1) as f64);
            let batch = [seen.packets as f64 / seen.receptions.max(1) as f64, seen.p50, seen.most];
            notes.batches.entry(arm.clone()).or_default().push(batch);
            notes.busy.push(seen.busy);
            notes.verified[0] += seen.packets;
            notes.verified[1] += seen.wrong;
            Ok(seen.took.as_nanos() as f64 / seen.packets.max(1) as f64)
        }));
    }
    let Some(told) = stage.contest(contest)? else { return Ok(None) };
    let notes = notes.borrow();
    let names: Vec<String> = all.iter().map(|it| name(*it)).collect();
    let half = factors::half(5);
    let runs = all.iter().filter(|it| half.contains(it)).map(|it| (name(*it), *it)).collect();
    let batches = names.iter().map(|it| (it.clone(), middle(&notes.batches[it]))).collect();
    let cpu = cpu_of(&names, &notes.cpu);
    let busy = median(&notes.busy).unwrap_or(f64::NAN);
    Ok(Some(Raced { told, cpu, runs, batches, verified: notes.verified, busy }))
}

fn middle(all: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|at| {
        let values: Vec<f64> = all.iter().map(|it| it[at]).collect();
        median(&values).unwrap_or(f64::NAN)
    })
}

/// CPU costs by block. The first block does not count, and the baseline ran twice in each: its
/// second is its twin.
fn cpu_of(names: &[String], all: &HashMap<String, Vec<f64>>) -> Told {
    let base: Vec<f64> = all[&names[0]].iter().skip(2).copied().collect();
    let twin = base.iter().skip(1).step_by(2).copied().collect();
    let costs = names.iter().enumerate().map(|(at, name)| match at {
        0 => base.iter().step_by(2).copied().collect(),
        _ => all[name].iter().skip(1).copied().collect(),
    });
    let costs = costs.collect();
    Told::of(&names.iter().map(String::as_str).collect::<Vec<_>>(), costs, twin)
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
fn buffers(stage: &mut Stage<'_>) -> Result<Option<Told>, Fault> {
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
            let mut message = client::Message::new();
            ns_each(times, || {
                for at in 0..times {
                    if !kept {
                        message = client::Message::new();
                    }
                    message.clear();
                    message.put_u16(8).put_u64(at);
                    black_box((message.take_u16(), message.take_u64()));
                }
            })
        });
    }
    stage.contest(contest)
}

impl Raced {
    /// Throughput with a switch on, against off.
    fn effect(&self, at: u32) -> Option<Comparison> {
        match self.runs.len() {
            16 => factors::effect(&self.told, &self.runs, at).map(|it| flipped(&it)),
            _ => self.told.against("none", &name(1 << at)),
        }
    }

    /// The server's CPU for each packet with a switch on, against off.
    fn cpu_effect(&self, at: u32) -> Option<Comparison> {
        match self.runs.len() {
            16 => factors::effect(&self.cpu, &self.runs, at),
            _ => self.cpu.against(&name(1 << at), "none"),
        }
    }

    /// Throughput of everything against nothing.
    fn whole(&self) -> Option<Comparison> {
        self.told.against("none", "all five")
    }
}

/// A ratio of throughputs from one of costs.
fn flipped(it: &Comparison) -> Comparison {
    let pairs: Vec<(f64, f64)> = it.log_ratios.iter().map(|log| ((-log).exp(), 1.0)).collect();
    compare(&pairs, 1_000, 1).unwrap_or_else(|| it.clone())
}

fn said(it: Option<&Comparison>) -> String {
    it.map_or("an unknown multiple of".to_string(), words::compared)
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let whole = seen.raced.as_ref().and_then(Raced::whole);
    let largest = largest(seen);
    let most = match &largest {
        Some((name, it)) if is_sure(it) => {
            format!("\u{201c}{name}\u{201d} does most by itself, with {}", words::compared(it))
        }
        Some((name, it)) => format!(
            "none by itself can be told from nothing; \u{201c}{name}\u{201d} is highest, with {}",
            words::compared(it)
        ),
        None => "they were not taken apart".to_string(),
    };
    let headline = format!(
        "On {} processors all five optimisations together answer {} as many packets, published \
         were 1.7 to 2.1; {most}.",
        processors(),
        said(whole.as_ref()),
    );
    let all: Vec<&Told> = seen.raced.iter().map(|it| &it.told).chain(&seen.buffers).collect();
    let mut facts = vec![
        ("Clients".to_string(), clients(stage.settings()).to_string()),
        ("Packets on their way, each client".to_string(), WINDOW.to_string()),
    ];
    if let Some(raced) = &seen.raced {
        let [all, wrong] = raced.verified;
        facts.push((
            "Packets verified".to_string(),
            format!("{}, {} wrong", words::count(all), words::count(wrong)),
        ));
        facts.push(("The client's thread was busy".to_string(), words::percent(raced.busy)));
        if raced.busy > BUSY_MAX {
            stage.doubt("The client was busy most of the time: it may have been the limit.");
        }
        if wrong > 0 {
            stage.doubt("Packets came back wrong: the servers are not to be compared.");
        }
    }
    facts.extend(stage.contest_facts(&all));
    let mut numbers = Grid::new(&["monitor", "before", "after", "after / before"]);
    for (name, before, after) in ECHO {
        numbers.row([
            name.to_string(),
            words::number(before),
            words::number(after),
            words::ratio(after / before),
        ]);
    }
    Showing {
        headline,
        published: Published {
            claim: "Reserving memory beforehand, aligning it to cache lines and using fewer \
                    synchronisation objects makes the server 1.7 times as fast, and the client \
                    twice."
                .to_string(),
            source: portfolio::source(3, "a network library on completion ports, echo test"),
            numbers,
        },
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(),
        lesson: "Change one thing at a time, or all of them by a plan; then the largest effect \
                 cannot hide behind the others."
            .to_string(),
        together: seen.raced.as_ref().map(together),
        findings: findings(seen, whole, largest),
        facts,
        doubts: Vec::new(),
    }
}

/// Whether the interval leaves no effect out.
fn is_sure(it: &Comparison) -> bool {
    it.interval.as_ref().is_some_and(|it| it.low > 1.0 || it.high < 1.0)
}

/// Processors of this machine that may be used.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn largest(seen: &Seen) -> Option<(&'static str, Comparison)> {
    let raced = seen.raced.as_ref()?;
    let all = SWITCHES.iter().zip(0..).filter_map(|(name, at)| Some((*name, raced.effect(at)?)));
    all.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&[
        "optimised",
        "packets/s",
        "CPU a packet, ns",
        "packets a reception of the client",
        "latency p50 and most, µs",
    ]);
    let Some(raced) = &seen.raced else {
        return Side { finding: "Stopped before it began.".into(), numbers, ..Side::default() };
    };
    for name in ["none", "all five"] {
        let [batch, p50, most] = raced.batches.get(name).copied().unwrap_or([f64::NAN; 3]);
        numbers.row([
            name.to_string(),
            words::or_none(raced.told.median(name).map(|ns| 1e9 / ns), words::number),
            words::or_none(raced.cpu.median(name), words::number),
            words::number(batch),
            format!("{} and {}", words::number(p50 / 1e3), words::number(most / 1e3)),
        ]);
    }
    Side {
        setup: format!(
            "As published: a server with none of the five optimisations against one with all, \
             echoing packets of ten bytes for clients that keep {WINDOW} on their way. Both in one \
             process each, on the same machine as the clients; every byte that comes back is \
             verified."
        ),
        finding: format!(
            "Together they answer {} as many packets; published were 1.72 (by the server's \
             monitor) and 2.08 (by the client's). Which of them does it, this does not say.",
            said(raced.whole().as_ref())
        ),
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["switch", "packets/s, on / off", "CPU a packet, on / off"]);
    if let Some(raced) = &seen.raced {
        for (switch, at) in SWITCHES.iter().zip(0..) {
            numbers.row([
                switch.to_string(),
                said(raced.effect(at).as_ref()),
                said(raced.cpu_effect(at).as_ref()),
            ]);
        }
        numbers.row([
            "all five".to_string(),
            said(raced.whole().as_ref()),
            said(raced.cpu.against("all five", "none").as_ref()),
        ]);
    }
    if let Some(told) = &seen.buffers {
        for name in [COPIED, STREAMED, STREAMED_AGAIN] {
            let ns = words::or_none(told.median(name), words::number);
            numbers.row([
                format!("a packet, {name}"),
                words::NONE.to_string(),
                format!("{ns} ns, {}", told.judged(name, COPIED)),
            ]);
        }
    }
    let places = seen.raced.iter().flat_map(|raced| {
        (0..5).filter_map(|at| Some(Place::of(f64::from(at + 1), &raced.effect(at)?)))
    });
    let effects = Series {
        name: "one switch, on / off".to_string(),
        drawn: Drawn::Marks,
        places: places.collect(),
        ..Series::default()
    };
    let even = Series::published("no effect", (1..=5).map(|at| (f64::from(at), 1.0)).collect());
    let balanced = seen.raced.as_ref().is_some_and(|it| it.runs.len() == 16);
    let design = match balanced {
        true => {
            "Sixteen of the 32 combinations, chosen so that each switch is on in eight and \
                 each pair of switches in four (resolution V); the effect of a switch is the mean \
                 over eight against eight."
        }
        false => "A quick look: each switch by itself, against none.",
    };
    Side {
        setup: format!(
            "{design} All servers are up at the same time; a block loads each once, in an order \
             drawn anew."
        ),
        finding: largest(seen).map_or("Stopped before it began.".to_string(), |(name, it)| {
            format!(
                "\u{201c}{name}\u{201d} answers {} as many packets; {}.",
                words::compared(&it),
                others(seen, name)
            )
        }),
        plot: Some(Plot {
            title: "What each optimisation does by itself".to_string(),
            caption:
                "Packets a second with the switch on against off; exact 95 % intervals of the \
                      median over blocks."
                    .to_string(),
            x: Axis::named("switch", SWITCHES),
            y: Axis::linear("packets/s, on / off"),
            series: vec![even, effects],
        }),
        numbers,
    }
}

fn others(seen: &Seen, first: &str) -> String {
    let Some(raced) = &seen.raced else { return String::new() };
    let rest = SWITCHES.iter().zip(0..).filter(|(name, _)| **name != first);
    let rest: Vec<String> =
        rest.map(|(name, at)| format!("{name} {}", said(raced.effect(at).as_ref()))).collect();
    rest.join(", ")
}

fn together(raced: &Raced) -> Plot {
    let published = Series {
        drawn: Drawn::Marks,
        ..Series::published("published", vec![(1.0, 55_867.0 / 32_567.0), (2.0, 2.082)])
    };
    let here = raced.whole().map(|it| Place::of(2.0, &it));
    let all = Series {
        name: "here, all five".to_string(),
        drawn: Drawn::Marks,
        places: here.into_iter().collect(),
        ..Series::default()
    };
    let product: f64 = (0..5).filter_map(|at| Some(raced.effect(at)?.ratio)).product();
    let product = Series {
        drawn: Drawn::Marks,
        ..Series::measured("here, the single effects multiplied", vec![(2.0, product)])
    };
    Plot {
        title: "Before and after".to_string(),
        caption: "Published by the server's monitor, which printed and reset its counters by two \
                  clocks that know nothing of each other, and by the client's."
            .to_string(),
        x: Axis::named("counted by", ["server", "client"]),
        y: Axis::linear("after / before"),
        series: vec![published, all, product],
    }
}

fn findings(
    seen: &Seen,
    whole: Option<Comparison>,
    largest: Option<(&'static str, Comparison)>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(raced) = &seen.raced else { return found };
    // A lock that is held keeps other processors waiting: with one for the clients and one for
    // the server there is hardly anybody to wait.
    let many = processors() >= MANY;
    if let Some(it) = whole {
        let (holds, expected) = match many {
            true => {
                (it.ratio > 1.3, "all five together answer more than 1.3 times as many packets")
            }
            false => {
                (it.ratio < 1.3, "on few processors all five together are worth less than 1.3")
            }
        };
        found.push(Finding::new("together", holds, it.ratio, expected));
    }
    if let (true, Some((name, it))) = (many, largest) {
        let expected = "the lock over the send is what matters most";
        found.push(Finding::new("the-lock", name == SWITCHES[0], it.ratio, expected));
    }
    let rest = (1..5).filter_map(|at| Some(raced.effect(at)?.ratio));
    let (_, most) = super::range(rest.map(|it| it.ln().abs().exp()));
    let expected = format!("none of the other four is worth a factor of {SMALL}");
    found.push(Finding::new("the-others", most < SMALL, most, expected));
    let wrong = raced.verified[1] as f64;
    found.push(Finding::new("verified", wrong == 0.0, wrong, "every byte came back as it was"));
    if let Some(it) = seen.buffers.as_ref().and_then(|it| it.against(STREAMED, COPIED)) {
        let expected = "a packet streamed into a new buffer costs more than its bytes copied";
        found.push(Finding::new("streaming", it.ratio > 1.0, it.ratio, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "While one worker held the lock of the whole server, which it did from finding the session \
         until the kernel had taken the answer, no other worker could answer anybody. The more \
         processors, the more that costs: with two of them, one of which the clients need, it \
         costs next to nothing, with the eight of the figure a lot."
            .to_string(),
        "A reception and a send cost microseconds in the kernel. A buffer from the heap, a look \
         into a hash map or a lock that nobody else wants cost tens of nanoseconds, a percent \
         each, where they can be seen at all."
            .to_string(),
        "The server's monitor counts receptions, the client's counts packets, some fifty of which \
         come in one reception; and the server prints and resets its counters by two sleeping \
         threads, so that what it prints is a random part of a second. So the two monitors \
         disagree about the same run, 1.72 against 2.08."
            .to_string(),
        "Preparing memory has its price: the process grew from 21 to 135 MB, of which nothing is \
         needed by a client that is silent."
            .to_string(),
    ]
}
