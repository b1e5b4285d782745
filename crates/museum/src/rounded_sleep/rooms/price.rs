//! What a packet takes by every sender: calls, copies, changes of context, kernel memory, CPU time.
//! The third table of the paper compares these in words; here they are counted.

use super::{alone, sink};
use crate::exhibit::{Effort, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Room, Series, Side};
use crate::stage::{Calls, Stage};
use crate::words;
use lab::pace::{Around, Reading, Work};
use std::time::Duration;

/// Streams whose waiting is paid for.
const STREAMS: u32 = 1000;

pub fn effort(senders: u32) -> Effort {
    Effort::new(1, Duration::from_millis(2_700) * senders)
}

/// What one sender came to.
struct Priced {
    sender: String,
    reading: Option<Reading>,
    calls: Option<Calls>,
}

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
    let quick = stage.settings().quick;
    let time = Duration::from_millis(if quick { 150 } else { 1_500 });
    let many = Work { streams: if quick { 50 } else { STREAMS }, ..Work::audio(time) };
    // One packet at a wake-up, so that a wheel cannot gather what strace holds up.
    let few = Work { gap_us: 10_000, packets: if quick { 10 } else { 60 }, ..Work::audio(time) };
    let sink = sink(stage);
    stage.begin(&format!("what a packet takes: {}", many.words()));
    let mut all = Vec::new();
    for sender in senders {
        let around = Around { soak: !quick, ..alone(stage, sink) };
        let reading = stage.cast(sender, many, around)?;
        let calls = stage.census(sender, few)?;
        all.push(Priced { sender: sender.clone(), reading, calls });
    }
    if all.iter().all(|it| it.calls.is_none()) && !stage.stopped() {
        stage.doubt("Nothing counts system calls here (strace), so that column is empty.");
    }
    stage.step(&format!("{} senders", all.len()));
    let side = told(&all, many, sink.words());
    stage.hang(Room { title: "What a packet takes".into(), side });
    stage.hang(Room { title: "The third table, counted".into(), side: compared(&all) });
    Ok(findings(&all))
}

/// All calls of a packet, and the names of the frequent ones.
fn called(calls: &Calls) -> String {
    let mut each: Vec<(&String, &f64)> = calls.iter().filter(|(_, each)| **each >= 0.05).collect();
    each.sort_by(|a, b| b.1.total_cmp(a.1));
    let names: Vec<&str> = each.iter().map(|(name, _)| name.as_str()).collect();
    format!("{:.2} {}", calls.values().sum::<f64>(), names.join(" "))
}

fn told(all: &[Priced], work: Work, sink: &str) -> Side {
    let mut numbers =
        Grid::new(&["sender", "CPU, µs", "core, µs", "switches", "read", "kernel kB", "calls"]);
    let none = || words::NONE.to_string();
    for it in all {
        let of = |value: &dyn Fn(&Reading) -> f64| {
            it.reading.as_ref().map_or_else(none, |it| words::number(value(it)))
        };
        let soak = it.reading.as_ref().and_then(|it| it.soak_ns);
        numbers.row([
            it.sender.clone(),
            of(&|it| it.each_ns() / 1e3),
            soak.map_or_else(none, |ns| words::number(ns / 1e3)),
            of(&|it| it.switches as f64 / it.sent.max(1) as f64),
            of(&|it| it.read_copies),
            of(&|it| it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1))),
            it.calls.as_ref().map_or_else(none, called),
        ]);
    }
    Side {
        setup: format!(
            "{} ({sink}); everything for one packet. CPU is the time of the sender's process; core \
             what a loop that takes only what nobody wants has lost beside it, with all that the \
             kernel does by itself; switches those of context; read the bytes that read calls \
             copied to the program, by bytes of payload (a ring's reads are not in the kernel's \
             count). Kernel kB is for a stream: what slab, stacks and page tables of the machine \
             held more at half-time. Calls were counted by strace in a run of its own (ten \
             streams, a packet at a wake-up); a call that the kernel breaks off and begins anew, \
             as it does for each timeout of a chain, counts again.",
            words::capital(&work.words())
        ),
        finding: finding(all),
        plot: Some(bars(all)),
        numbers,
    }
}

/// The paper's qualitative table with what is counted here beside it.
fn compared(all: &[Priced]) -> Side {
    let columns = ["plain", "sendfile", "uring-chain", "bpf-stamp"];
    let head = ["", "MARS", "Linux", "MSSC", "plain", "sendfile", "uring-chain", "bpf-stamp"];
    let mut numbers = Grid::new(&head);
    let mut row = |name: &str, marks: [&str; 3], value: &dyn Fn(&Priced) -> Option<String>| {
        let of = |sender: &str| value(all.iter().find(|it| it.sender == sender)?);
        let [d, e, f, g] = columns.map(|it| of(it).unwrap_or(words::NONE.to_string()));
        let [a, b, c] = marks.map(String::from);
        numbers.row([name.to_string(), a, b, c, d, e, f, g]);
    };
    let ran = |it: &Priced, word: &str| it.reading.as_ref().map(|_| word.to_string());
    row("read and write: calls a packet", ["high", "none", "high"], &|it| {
        it.calls.as_ref().map(|it| words::number(it.values().sum()))
    });
    row("send buffer: the kernel is", ["high", "none", "low"], &|it| ran(it, "stock"));
    row("speed: CPU a packet, µs", ["–", "none", "high"], &|it| {
        let it = it.reading.as_ref()?;
        Some(words::number(it.soak_ns.unwrap_or(it.each_ns()) / 1e3))
    });
    row("RTP header in the kernel", ["none", "none", "high"], &|it| {
        ran(it, if it.sender == "bpf-stamp" { "number and time" } else { "no" })
    });
    row("kernel memory: kB a stream", ["high", "none", "low"], &|it| {
        let it = it.reading.as_ref()?;
        Some(words::number(it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1))))
    });
    row("flexibility: devices", ["low", "high", "high"], &|it| ran(it, "any"));
    Side {
        setup:
            "Table 5 of the paper compares three designs by marks (high, low, none; a dash: not \
                compared; MARS was not run there). Beside them stand senders of a stock kernel by \
                what was counted for the table before this one."
                .to_string(),
        finding: "Each of the three designs can be had without a kernel of one's own: MARS's path \
                  from the file to the packet is sendfile, and the program that asks once is a \
                  chain of io_uring or a queue that paces."
            .to_string(),
        plot: None,
        numbers,
    }
}

fn cost(all: &[Priced], sender: &str) -> Option<f64> {
    let it = all.iter().find(|it| it.sender == sender)?;
    it.reading.as_ref().map(Reading::each_ns)
}

fn finding(all: &[Priced]) -> String {
    let (Some(plain), Some(wheel)) = (cost(all, "plain"), cost(all, "sendmmsg")) else {
        return "Too few senders ran to compare them.".to_string();
    };
    let chain = cost(all, "uring-chain").map_or(String::new(), |ns| {
        format!(
            " One submission for seconds of packets saves calls, not work: {} a packet.",
            words::span(Duration::from_nanos(ns as u64))
        )
    });
    format!(
        "A thread a stream pays {} a packet, nearly all of it for waking up; one wheel for all of \
         them pays {}, whatever copies.{chain}",
        words::span(Duration::from_nanos(plain as u64)),
        words::span(Duration::from_nanos(wheel as u64))
    )
}

fn bars(all: &[Priced]) -> Plot {
    let of = |name: &str, value: &dyn Fn(&Reading) -> Option<f64>| {
        let places = all.iter().zip(1..).filter_map(|(it, at)| {
            let y = value(it.reading.as_ref()?)? / 1e3;
            Some(Place { x: f64::from(at), y, range: None })
        });
        let places = places.collect();
        Series { name: name.to_string(), drawn: Drawn::Bar, places, ..Series::default() }
    };
    let mut series = vec![of("the sender's process", &|it| Some(it.each_ns()))];
    let whole = of("the whole core", &|it| it.soak_ns);
    if !whole.places.is_empty() {
        series.push(whole);
    }
    Plot {
        title: "CPU time of a packet of 32 bytes in a thousand streams".to_string(),
        caption: "Where the two differ, the kernel works on its own account.".to_string(),
        x: Axis::named("sender", all.iter().map(|it| it.sender.clone())),
        y: Axis::linear("CPU a packet, µs"),
        series,
    }
}

fn findings(all: &[Priced]) -> Vec<Finding> {
    let mut found = Vec::new();
    if let (Some(plain), Some(wheel)) = (cost(all, "plain"), cost(all, "sendmmsg")) {
        let ratio = wheel / plain.max(1.0);
        let expected = "1000 streams: sendmmsg costs at most 0.35 of plain";
        found.push(Finding::new("batch-pays", ratio <= 0.35, ratio, expected));
    }
    let chain = all.iter().find(|it| it.sender == "uring-chain");
    if let Some(calls) = chain.and_then(|it| it.calls.as_ref()) {
        let each = calls.values().sum::<f64>();
        let expected = "uring-chain goes into the kernel at most 0.05 times for a packet";
        found.push(Finding::new("one-call", each <= 0.05, each, expected));
    }
    found
}
