//! The rounded sleep: a system call that "sends 12.5 % faster" sleeps half a tick less.
//!
//! A paper of 2001 moved the loop of an RTP sender into the kernel and found that a session of 1000
//! packets of 32 bytes, one each 30 ms, took 35.0 s instead of 40.0 s; it credited the copies and
//! context switches that were saved. The surprising thing is that no cost of a packet below 10 ms
//! can be seen in such a time at all: both loops are woken by a clock of a hundred ticks a second,
//! and they differ in how the wait is rounded to ticks. Arithmetic gives both figures to the fourth
//! digit without a single parameter.

mod live;
mod rooms;
mod rules;

use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use live::{Program, Session};
use rules::{RULES, Rule};
use serde_json::json;
use std::time::Duration;

/// Packets of a published session.
const PACKETS: u32 = 1000;
/// Their size, in bytes.
const BYTES: usize = 32;
/// The wait between two of them.
const GAP: Duration = Duration::from_millis(30);
/// Sessions at one time.
const SESSIONS: usize = 10;
/// Busy programs of the published overload.
const SPINNERS: usize = 50;
/// What a packet may have cost on the published machine, generously: two calls, two copies and a
/// change of context at 600 MHz.
const COST: Duration = Duration::from_micros(10);
/// The published means in seconds: plain and in the kernel, idle and under overload (tables 3, 4).
const IDLE: [f64; 2] = [39.9945, 34.9959];
const BUSY: [f64; 2] = [40.619, 35.0];
/// The shortest and the longest of the ten sessions of each.
const IDLE_RANGES: [(f64, f64); 2] = [(39.9910, 39.9996), (34.9925, 34.9988)];
const BUSY_RANGES: [(f64, f64); 2] = [(40.0085, 41.1198), (34.9979, 35.0081)];
/// How long packets may be late before a receiver's buffer runs dry.
const BUFFER: Duration = Duration::from_millis(60);

/// The exhibit.
pub struct RoundedSleep;

/// The sessions of each rule.
type Found = Vec<(Rule, Vec<Session>)>;

impl Exhibit for RoundedSleep {
    fn name(&self) -> &'static str {
        "rounded-sleep"
    }

    fn title(&self) -> &'static str {
        "The rounded sleep"
    }

    fn about(&self) -> &'static str {
        "a streaming system call that sleeps half a tick less looks 12.5 % faster"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let waits = Effort::new(2, GAP * 4 / 3 * packets(settings) + Duration::from_millis(200));
        waits.and(rooms::effort(settings))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let idle = sessions(stage, 0)?;
        let busy = if stage.stopped() { Vec::new() } else { sessions(stage, SPINNERS)? };
        let mut showing = told(packets(stage.settings()), &idle, &busy);
        if !stage.stopped() {
            showing.findings.extend(rooms::hang(stage)?);
        }
        Ok(showing)
    }
}

/// Packets of a live session: a gap cannot be shortened, for the tick is no wait of ours.
fn packets(settings: &Settings) -> u32 {
    let scaled = (f64::from(PACKETS) * settings.scale.factor()) as u32;
    if settings.quick { 20 } else { scaled.clamp(50, PACKETS) }
}

/// All rules at once, ten sessions of each.
fn sessions(stage: &mut Stage<'_>, spinners: usize) -> Result<Found, Fault> {
    let packets = packets(stage.settings());
    let beside = if spinners > 0 { format!(", {spinners} busy threads") } else { String::new() };
    stage.begin(&format!("{SESSIONS} sessions of {packets} packets under each wait{beside}"));
    let program = Program { rule: Rule::Absolute, packets, gap: GAP, bytes: BYTES, spinners };
    let found = live::run(&RULES, SESSIONS, program, &stage.stop_flag())?;
    for (rule, sessions) in &found {
        for session in sessions {
            let late: Vec<u64> = session.late.iter().map(|it| it.as_micros() as u64).collect();
            stage.record(&json!({
                "wait": rule.name(), "spinners": spinners, "packets": packets,
                "elapsed_s": session.elapsed.as_secs_f64(), "late_us": late,
            }))?;
        }
    }
    stage.step(&format!("{} for nanosleep", words::seconds(whole(&found, Rule::Nanosleep))));
    Ok(found)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count.max(1))
}

/// The mean time of a session of `rule`, in seconds, brought to 1000 packets where it had fewer.
fn whole(found: &Found, rule: Rule) -> f64 {
    let of = found.iter().find(|(it, _)| *it == rule).map_or(&[][..], |(_, sessions)| sessions);
    let each = of.iter().map(|it| {
        let sent = it.late.len() as f64;
        // The last wait is missing where moments are fixed beforehand.
        let waits = if rule == Rule::Absolute { sent - 1.0 } else { sent };
        let all = if rule == Rule::Absolute { PACKETS - 1 } else { PACKETS };
        it.elapsed.as_secs_f64() * f64::from(all) / waits.max(1.0)
    });
    mean(each)
}

/// The quantile of lateness over all packets of `rule`, in milliseconds.
fn late_ms(found: &Found, rule: Rule, quantile: f64) -> f64 {
    let of = found.iter().filter(|(it, _)| *it == rule);
    let mut all: Vec<Duration> =
        of.flat_map(|(_, sessions)| sessions.iter().flat_map(|it| it.late.clone())).collect();
    all.sort_unstable();
    let at = ((all.len() as f64 * quantile) as usize).min(all.len().saturating_sub(1));
    all.get(at).map_or(f64::NAN, |late| late.as_secs_f64() * 1e3)
}

/// The share of the packets of `rule` that come when a receiver's buffer has run dry.
fn dry(found: &Found, rule: Rule) -> f64 {
    let of = found.iter().filter(|(it, _)| *it == rule);
    let all: Vec<bool> = of
        .flat_map(|(_, sessions)| sessions.iter().flat_map(|it| &it.late))
        .map(|late| *late > BUFFER)
        .collect();
    all.iter().filter(|it| **it).count() as f64 / all.len().max(1) as f64
}

/// Seconds in virtual time, with the mean phase of ten sessions.
fn virtually(rule: Rule, work: Duration) -> f64 {
    let phase = |number: u32| Duration::from_micros(500 + 1_000 * u64::from(number));
    let each = (0..SESSIONS as u32).map(|it| rule.elapsed(PACKETS, GAP, work, phase(it)));
    mean(each.map(|it| it.as_secs_f64()))
}

fn told(packets: u32, idle: &Found, busy: &Found) -> Showing {
    let [plain, kernel] = [Rule::Nanosleep, Rule::Alternating].map(|rule| virtually(rule, COST));
    let gain = 1.0 - kernel / plain;
    Showing {
        headline: format!(
            "The {} that a system call saved are a matter of rounding: a sleep of 30 ms that ends \
             at the fourth tick takes {}, one that ends at the third and the fourth in turn {}, \
             and select would have taken {} in the plain program.",
            words::percent(gain),
            words::seconds(plain),
            words::seconds(kernel),
            words::seconds(virtually(Rule::Select, COST)),
        ),
        published: published(),
        flawed: flawed(),
        corrected: corrected(packets, idle, busy),
        why: why(),
        lesson: "The time of a paced stream is the pacer's; to see what a packet costs, count the \
                 processor's time."
            .to_string(),
        together: Some(together(idle)),
        findings: findings(idle, busy),
        facts: vec![
            ("Packets of a live session".into(), words::count(packets)),
            ("Sessions of each wait".into(), SESSIONS.to_string()),
            ("Busy threads of the overload".into(), SPINNERS.to_string()),
        ],
        doubts: Vec::new(),
    }
}

fn published() -> Published {
    let mut numbers = Grid::new(&["sender", "idle, s", "overload, s"]);
    for (name, at) in [("plain Linux", 0), ("in the kernel (MSSC)", 1)] {
        numbers.row([name.to_string(), IDLE[at].to_string(), BUSY[at].to_string()]);
    }
    Published {
        claim:
            "A system call that reads, builds the RTP header, sends and waits within the kernel \
                raises throughput by 12.5 %, and by 14 % under overload, because it saves copies \
                and context switches."
                .to_string(),
        source: "A kernel-level RTP for efficient support of multimedia service on embedded \
                 systems, KIPS Transactions Part A 8(4), 2001, tables 3 and 4 \
                 (doi 10.3745/KIPSTA.2001.8.4.311): Linux 2.2 on a Pentium III of 600 MHz, ten \
                 sessions of 1000 packets of 32 bytes, 30 ms apart."
            .to_string(),
        numbers,
    }
}

/// In virtual time: what a packet costs does not matter until it costs a tick.
fn flawed() -> Side {
    let costs: [u64; 7] = [1, 10, 100, 1_000, 3_000, 9_900, 25_000];
    let line = |rule: Rule| {
        let places =
            costs.iter().map(|us| (*us as f64, virtually(rule, Duration::from_micros(*us))));
        Series::measured(rule.name(), places.collect())
    };
    let mut numbers =
        Grid::new(&["wait", "ticks", "session in virtual time, s", "of the ideal 29.97 s"]);
    for rule in RULES {
        let took = virtually(rule, COST);
        let ticks = match rule {
            Rule::Nanosleep => "4",
            Rule::Alternating => "3, 4, 3, 4, …",
            Rule::Select => "3",
            Rule::Relative | Rule::Absolute => words::NONE,
        };
        let name = rule.name().to_string();
        numbers.row([name, ticks.to_string(), format!("{took:.4}"), words::ratio(took / 29.97)]);
    }
    Side {
        setup: format!(
            "A clock that only counts: ten sessions that begin at ten phases of a tick, a packet \
             that costs {}, and the rounding of Linux 2.2 (100 ticks a second).",
            words::span(COST)
        ),
        finding: format!(
            "The published means are {} and {}. A packet could have cost nothing or 9.9 ms: the \
             session would have taken as long.",
            words::seconds(IDLE[0]),
            words::seconds(IDLE[1])
        ),
        plot: Some(Plot {
            title: "Length of a session against what a packet costs".to_string(),
            caption: "Virtual time. What happens within a tick is waited for anyway; only beyond \
                      10 ms does a cost show, and then as a whole tick."
                .to_string(),
            x: Axis::log("cost of a packet, µs"),
            y: Axis::linear("session, s"),
            series: RULES.into_iter().map(line).collect(),
        }),
        numbers,
    }
}

fn corrected(packets: u32, idle: &Found, busy: &Found) -> Side {
    let mut numbers = Grid::new(&[
        "wait",
        "session, s",
        "late at the median, ms",
        "p99, ms",
        "under overload: session, s",
        "p99, ms",
        "beyond 60 ms",
    ]);
    for rule in RULES {
        let of = |found: &Found, value: f64| match found.is_empty() {
            true => words::NONE.to_string(),
            false => words::number(value),
        };
        numbers.row([
            rule.name().to_string(),
            of(idle, whole(idle, rule)),
            of(idle, late_ms(idle, rule, 0.5)),
            of(idle, late_ms(idle, rule, 0.99)),
            of(busy, whole(busy, rule)),
            of(busy, late_ms(busy, rule, 0.99)),
            of(busy, dry(busy, rule)),
        ]);
    }
    let absolute = Rule::Absolute;
    Side {
        setup: format!(
            "This machine and its clock: {SESSIONS} threads for each wait send {packets} datagrams \
             of {BYTES} bytes, and all waits run at one time; then again beside {SPINNERS} threads \
             that only compute. Lateness is counted from a schedule that was fixed before the \
             first packet. Lengths are brought to 1000 packets."
        ),
        finding: format!(
            "Waiting for moments takes {} and is late by {} ms at p99; the same code with the \
             rounding of 2001 takes {} and falls behind by {} in a session. Under overload the \
             absolute waits take {} and are late by {} ms at p99: that, and not the copy, is what \
             a sender driven by the kernel's timer is worth.",
            words::seconds(whole(idle, absolute)),
            words::number(late_ms(idle, absolute, 0.99)),
            words::seconds(whole(idle, Rule::Nanosleep)),
            words::seconds(whole(idle, Rule::Nanosleep) - whole(idle, absolute)),
            words::seconds(whole(busy, absolute)),
            words::number(late_ms(busy, absolute, 0.99)),
        ),
        plot: Some(lateness(idle, busy)),
        numbers,
    }
}

/// How late the packets of today's waits are, idle and under overload.
fn lateness(idle: &Found, busy: &Found) -> Plot {
    let quantiles = [0.5, 0.9, 0.99, 0.999];
    let mut series = Vec::new();
    for (found, when) in [(idle, "idle"), (busy, "overload")] {
        for rule in [Rule::Relative, Rule::Absolute] {
            let places = quantiles.iter().zip(1..).map(|(quantile, at)| {
                // A packet that is not late at all has a place on the axis too.
                (f64::from(at), late_ms(found, rule, *quantile).max(0.001))
            });
            if !found.is_empty() {
                series.push(Series::measured(format!("{}, {when}", rule.name()), places.collect()));
            }
        }
    }
    Plot {
        title: "Lateness of packets from their schedule".to_string(),
        caption: "A relative wait adds every delay to all later packets; an absolute one forgets \
                  it."
        .to_string(),
        x: Axis::named("quantile of packets", ["p50", "p90", "p99", "p99.9"]),
        y: Axis::log("late, ms"),
        series,
    }
}

fn together(idle: &Found) -> Plot {
    let places = |value: &dyn Fn(Rule) -> f64| {
        let each = RULES.into_iter().zip(1..);
        each.map(|(rule, at)| Place { x: f64::from(at), y: value(rule), range: None }).collect()
    };
    let mut series = vec![
        Series {
            name: "virtual time".to_string(),
            drawn: Drawn::Bar,
            places: places(&|rule| virtually(rule, COST)),
            ..Series::default()
        },
        Series {
            drawn: Drawn::Marks,
            ..Series::published("published, plain", vec![(1.0, IDLE[0])])
        },
        Series {
            drawn: Drawn::Marks,
            ..Series::published("published, in the kernel", vec![(2.0, IDLE[1])])
        },
    ];
    if !idle.is_empty() {
        let places = places(&|rule| whole(idle, rule));
        let name = "this machine".to_string();
        series.insert(1, Series { name, drawn: Drawn::Bar, places, ..Series::default() });
    }
    Plot {
        title: "Length of a session of 1000 packets, 30 ms apart".to_string(),
        caption: "29.97 s is what was asked for. The published figures lie on the bars of two \
                  roundings."
            .to_string(),
        x: Axis::named("wait", RULES.map(Rule::name)),
        y: Axis::linear("session, s"),
        series,
    }
}

fn findings(idle: &Found, busy: &Found) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, rule) in [Rule::Nanosleep, Rule::Alternating].into_iter().enumerate() {
        let off = (virtually(rule, COST) - IDLE[at]).abs();
        let name = ["plain-is-rounding", "kernel-is-rounding"][at];
        let expected = "virtual time within 10 ms of the published mean";
        found.push(Finding::new(name, off < 0.01, off, expected));
    }
    if !idle.is_empty() {
        let ratio = whole(idle, Rule::Nanosleep) / whole(idle, Rule::Select);
        let expected = "live, nanosleep 4/3 of select, within 3 %";
        found.push(Finding::new(
            "live-four-thirds",
            (ratio * 0.75 - 1.0).abs() < 0.03,
            ratio,
            expected,
        ));
        let took = whole(idle, Rule::Absolute);
        let expected = "live, absolute waits take 29.97 s, within 1 %";
        found.push(Finding::new("no-drift", (took / 29.97 - 1.0).abs() < 0.01, took, expected));
    }
    if !busy.is_empty() && !idle.is_empty() {
        let (drift, kept) = (whole(busy, Rule::Relative), whole(busy, Rule::Absolute));
        let expected = "under overload relative waits drift further than absolute ones";
        found.push(Finding::new("overload-drifts", drift > kept, drift / kept, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "A kernel with a hundred ticks a second can wake nobody between two of them. Linux 2.2 \
         turns a wait of 30 ms into three ticks, and nanosleep adds one, since the tick that runs \
         has partly passed. The program is woken right after a tick, works for some microseconds, \
         and asks again: four ticks for each packet, 40.000 s for a thousand, less the phase of \
         the first. That is the published 39.9945 s."
            .to_string(),
        "A wait by select is rounded to three ticks without the one more. The plain program with \
         select in place of usleep would have taken 30.0 s and beaten the system call by as much \
         as the system call beat it."
            .to_string(),
        "The paper does not print how its system call waits. 35.0 s is 3.5 ticks a packet, which \
         no fixed wait gives at 100 Hz; three and four ticks in turn do, with a spread as small as \
         the published one. Copies of 32 bytes and two changes of context are some microseconds of \
         a 600 MHz processor, a thousandth of the 5 ms that were saved, and the tick would have \
         swallowed them."
            .to_string(),
        "Ten sessions of 33 packets of 32 bytes a second are 85 kbit/s: the machine had nothing to \
         do. What copies and calls cost is a question for the processor's time per packet at rates \
         that fill it, and there batching across sessions is worth more than any path without a \
         copy (see docs/senders.md)."
            .to_string(),
        "What survives is the second table: under overload the plain sender slipped by up to a \
         second and the one in the kernel hardly at all. A process has to be given the processor \
         before it can send; a timer of the kernel's has it."
            .to_string(),
        "The idea has relatives: fbufs (1993) and splice (1994) pass pages instead of copying \
         them, MARS (1998) lets one buffer be a file's and a packet's, SPIN (1995) runs a \
         program's code within the kernel. sendfile, MSG_SPLICE_PAGES, io_uring's chains and BPF \
         are what became of them."
            .to_string(),
    ]
}
