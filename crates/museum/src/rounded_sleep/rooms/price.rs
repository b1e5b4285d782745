//! What a packet takes by every sender: calls, copies, changes of context, kernel memory, CPU time.
//! The third table of the paper compares these in words; here they are counted.

use super::{alone, sink};
use crate::exhibit::{Effort, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Room, Series, Side};
use crate::stage::{Census, Stage};
use crate::words;
use lab::pace::{Around, Reading, Sink, Work};
use std::time::Duration;

/// Streams whose waiting is paid for.
const STREAMS: u32 = 1000;
/// Who makes frames, which want a device that takes them.
const FRAMES: &str = "xdp-run";

pub fn effort(senders: u32) -> Effort {
    Effort::new(1, Duration::from_millis(2_700) * senders)
}

/// What one sender came to.
struct Priced {
    sender: String,
    reading: Option<Reading>,
    asked: Option<Census>,
}

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
    let quick = stage.settings().quick;
    let time = Duration::from_millis(if quick { 150 } else { 1_500 });
    let many = Work { streams: if quick { 50 } else { STREAMS }, ..Work::audio(time) };
    // One packet at a wake-up, so that a wheel cannot gather what strace holds up.
    let packets = if quick { 10 } else { 60 };
    let few = Work { gap_us: 10_000, packets, payload: 1_316, ..Work::audio(time) };
    let sink = sink(stage);
    stage.begin(&format!("what a packet takes: {}", many.words()));
    let mut all = Vec::new();
    for sender in senders {
        // An `ifb` takes no frames: they would leave by a socket.
        let sink = if sender == FRAMES { Sink::Dropped } else { sink };
        let around = Around { soak: !quick, ..alone(stage, sink) };
        let reading = stage.cast(sender, many, around)?;
        let asked = stage.census(sender, few)?;
        all.push(Priced { sender: sender.clone(), reading, asked });
    }
    if all.iter().all(|it| it.asked.is_none()) && !stage.stopped() {
        stage.doubt("Nothing counts system calls here (strace), so those columns are empty.");
    }
    stage.step(&format!("{} senders", all.len()));
    let side = told(&all, many, sink.words());
    stage.hang(Room { title: "What a packet takes".into(), side });
    stage.hang(Room { title: "The third table, counted".into(), side: compared(&all, sink) });
    Ok(findings(&all))
}

/// What reads and sends, the most frequent first; the others wait or manage memory.
fn names(asked: &Census) -> String {
    let parts = ["read", "send", "recvmsg", "splice", "io_uring_enter", "bpf"];
    let carries = |name: &str| parts.iter().any(|part| name.contains(part));
    let calls = || asked.calls.iter().filter(|(name, _)| carries(name));
    let most = calls().map(|(_, each)| *each).fold(0.0, f64::max);
    let mut each: Vec<(&String, &f64)> = calls().filter(|(_, it)| **it >= most / 5.0).collect();
    each.sort_by(|a, b| b.1.total_cmp(a.1));
    each.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Copies of a byte; of a ring's nobody tells.
fn copies(it: &Priced) -> Option<String> {
    let asked = it.asked.as_ref()?;
    Some(match it.sender.starts_with("uring") {
        true => "by the ring".to_string(),
        false => short(asked.copies),
    })
}

/// Two digits behind the point; what is nothing has no sign.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".to_string() } else { text }
}

/// Kernel memory of a stream, kB.
fn memory(it: &Reading) -> f64 {
    it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1))
}

fn told(all: &[Priced], work: Work, sink: &str) -> Side {
    let head = [
        "sender",
        "CPU, µs",
        "core, µs",
        "softirqs",
        "switches",
        "calls",
        "copies",
        "kernel kB",
        "reads and sends by",
    ];
    let mut numbers = Grid::new(&head);
    let none = || words::NONE.to_string();
    for it in all {
        let reading = it.reading.as_ref();
        let of = |value: &dyn Fn(&Reading) -> Option<f64>| {
            words::or_none(reading.and_then(value), short)
        };
        let each = |count: u64, it: &Reading| count as f64 / it.sent.max(1) as f64;
        numbers.row([
            it.sender.clone(),
            of(&|it| Some(it.each_ns() / 1e3)),
            of(&|it| Some(it.soak_ns? / 1e3)),
            of(&|it| Some(each(it.softirqs?, it))),
            of(&|it| Some(each(it.switches, it))),
            it.asked.as_ref().map_or_else(none, |it| short(it.all())),
            copies(it).unwrap_or_else(none),
            of(&|it| Some(memory(it))),
            it.asked.as_ref().map_or_else(none, names),
        ]);
    }
    Side {
        setup: format!(
            "{} ({sink}; for {FRAMES} a veth at whose other end a program drops everything, \
             for an ifb takes no frames); everything is for one packet. CPU is the time of the \
             sender's process; core \
             what a loop that takes only what nobody wants has lost beside it, with all that \
             the kernel does by itself; softirqs those of the network on the sender's core; \
             switches those of context. Kernel kB is for a stream, which has one packet in each \
             gap: what slab, stacks and page tables of the machine held more at half-time (they \
             move by some hundred kilobytes by themselves, half a kilobyte a stream). Calls \
             and copies were counted by strace in a run of its own (ten streams of 1316 B, a \
             packet at a wake-up): copies are the bytes that calls copied between program and \
             kernel, for each byte of a packet; what a ring copies no call tells. A call that the \
             kernel breaks off and begins anew, as it does for a timeout of a chain, counts again.",
            words::capital(&work.words())
        ),
        finding: finding(all),
        plot: Some(bars(all)),
        numbers,
    }
}

/// Senders beside the paper's three designs: the plain one, MARS's path, and what the system call
/// has become.
const COMPARED: [&str; 6] =
    ["plain", "sendfile", "uring-chain", "tbf-kernel", "bpf-stamp", "xdp-run"];

/// The paper's qualitative table with what is counted here beside it.
fn compared(all: &[Priced], sink: Sink) -> Side {
    let ours: Vec<&Priced> = COMPARED
        .iter()
        .filter_map(|name| all.iter().find(|it| it.sender == *name && it.reading.is_some()))
        .collect();
    let mut head = vec!["", "MARS", "Linux", "MSSC"];
    head.extend(ours.iter().map(|it| it.sender.as_str()));
    let mut numbers = Grid::new(&head);
    let mut row = |name: &str, marks: [&str; 3], value: &dyn Fn(&Priced) -> Option<String>| {
        let mut cells = vec![name.to_string()];
        cells.extend(marks.map(String::from));
        cells.extend(ours.iter().map(|it| value(it).unwrap_or(words::NONE.to_string())));
        numbers.rows.push(cells);
    };
    row("read and write: calls a packet", ["high", "none", "high"], &|it| {
        Some(short(it.asked.as_ref()?.all()))
    });
    row("change of buffers: copies of a byte", ["high", "none", "low"], &copies);
    // One measure for all of them: the whole core's, where it was counted everywhere.
    let whole = |it: &&Priced| it.reading.as_ref().and_then(|it| it.soak_ns).is_some();
    let is_core = ours.iter().all(whole);
    let whose = if is_core { "the core" } else { "the process" };
    row(&format!("speed: CPU a packet of {whose}, µs"), ["–", "none", "high"], &|it| {
        let it = it.reading.as_ref()?;
        Some(short(it.soak_ns.filter(|_| is_core).unwrap_or(it.each_ns()) / 1e3))
    });
    row("RTP header in the kernel", ["none", "none", "high"], &|it| {
        Some(match it.sender.as_str() {
            "bpf-stamp" => "number, time".to_string(),
            "xdp-run" => "all of it".to_string(),
            _ => "no".to_string(),
        })
    });
    row("kernel memory: kB a stream", ["high", "none", "low"], &|it| {
        it.reading.as_ref().map(|it| short(memory(it)))
    });
    row("devices: what it ran on here", ["low", "high", "high"], &|it| {
        let sink = if it.sender == FRAMES { Sink::Dropped } else { sink };
        let other = it.asked.as_ref().map_or("", |_| "loopback");
        Some(match (sink, other) {
            (Sink::Heard, _) => "loopback".to_string(),
            (Sink::Dropped, _) => "veth, loopback".to_string(),
            (_, "") => "ifb".to_string(),
            (_, other) => format!("ifb, {other}"),
        })
    });
    Side {
        setup: "Table 5 of the paper compares three designs by marks (high, low, none; a dash: \
                not compared; MARS was not run there). Beside them stand what they have become in \
                a stock kernel, with what was counted for the table before this one: plain is the \
                paper's Linux, sendfile MARS's path from the file to the packet, and the others \
                are the system call that asks once: a chain of io_uring, a queue that the timer \
                interrupt plays, and the same with heads that a program in the kernel writes."
            .to_string(),
        finding: beside(&ours),
        plot: None,
        numbers,
    }
}

/// What the counts say of the marks.
fn beside(ours: &[&Priced]) -> String {
    let of = |name: &str| ours.iter().find(|it| it.sender == name);
    let calls = |name: &str| Some(of(name)?.asked.as_ref()?.all());
    let once = ["tbf-kernel", "uring-chain"].into_iter().find_map(|it| Some((it, calls(it)?)));
    let (Some(plain), Some((name, asked))) = (calls("plain"), once) else {
        return "Too few calls were counted to say more than the marks do.".to_string();
    };
    format!(
        "Each of the three designs can be had without a kernel of one's own. Asking once is real: \
         {} calls a packet become {} with {name}. What it is worth stands two rows further down, \
         and is not decided by the calls.",
        words::number(plain),
        words::number(asked)
    )
}

fn cost(all: &[Priced], sender: &str) -> Option<f64> {
    let it = all.iter().find(|it| it.sender == sender)?;
    it.reading.as_ref().map(Reading::each_ns)
}

fn finding(all: &[Priced]) -> String {
    let (Some(plain), Some(wheel)) = (cost(all, "plain"), cost(all, "sendmmsg")) else {
        return "Too few senders ran to compare them.".to_string();
    };
    let chain = cost(all, "uring-chain")
        .map_or(String::new(), |ns| format!(", a chain for all of them {}", words::micros(ns)));
    let core = |name: &str| all.iter().find(|it| it.sender == name)?.reading.as_ref()?.soak_ns;
    let of_core = [core("tbf-kernel"), cost(all, "tbf-kernel"), core("sendmmsg")];
    let queue = match of_core {
        [Some(queue), Some(own), Some(wheel)] => format!(
            " A queue that the timer interrupt plays costs {} of the whole core ({} are charged to \
             its process), the wheel {}.",
            words::micros(queue),
            words::micros(own),
            words::micros(wheel)
        ),
        _ => String::new(),
    };
    format!(
        "A thread a stream pays {} a packet, one wheel for all of them {}{chain}, whatever \
         copies: what is saved is waking up.{queue}",
        words::micros(plain),
        words::micros(wheel)
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
    if let Some(each) = chain.and_then(|it| it.asked.as_ref()).map(Census::all) {
        let expected = "uring-chain goes into the kernel at most 0.05 times for a packet";
        found.push(Finding::new("one-call", each <= 0.05, each, expected));
    }
    found
}
