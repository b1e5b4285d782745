//! The cost of a packet by each sender: calls, copies, changes of context, kernel memory, CPU time.
//! The third table of the paper compares these in words; here they are counted.

use super::{alone, sink};
use crate::draft::{Draft, Part};
use crate::exhibit::{Effort, Fault};
use crate::stage::{Census, Stage};
use document::{Mark, Series};
use lab::pace::{Around, Reading, Sink, Work};
use stats::words;
use std::time::Duration;

/// Streams at one time.
const STREAMS: u32 = 1000;
/// The sender that makes whole frames; it needs a device that takes frames.
const FRAMES: &str = "xdp-run";

pub fn effort(senders: u32) -> Effort {
    Effort::new(1, Duration::from_millis(2_700) * senders)
}

/// One sender's costs.
pub struct Cost {
    sender: String,
    reading: Option<Reading>,
    census: Option<Census>,
}

pub fn measure(stage: &mut Stage<'_>, it: &mut Draft, senders: &[String]) -> Result<(), Fault> {
    let quick = stage.settings().quick;
    let time = Duration::from_millis(if quick { 150 } else { 1_500 });
    let many = Work { streams: if quick { 50 } else { STREAMS }, ..Work::audio(time) };
    // One packet at a wake-up, so that a wheel cannot batch the packets that strace delays.
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
        let census = stage.census(sender, few)?;
        all.push(Cost { sender: sender.clone(), reading, census });
    }
    if all.iter().all(|it| it.census.is_none()) && !stage.stopped() {
        stage.doubt("Nothing counts system calls here (strace), so those columns are empty.");
    }
    stage.step(&format!("{} senders", all.len()));
    draft(it, &all, many, sink);
    Ok(())
}

/// The calls that read and send, the most frequent first; the others wait or manage memory.
fn names(census: &Census) -> String {
    let parts = ["read", "send", "recvmsg", "splice", "io_uring_enter", "bpf"];
    let carries = |name: &str| parts.iter().any(|part| name.contains(part));
    let calls = || census.calls.iter().filter(|(name, _)| carries(name));
    let most = calls().map(|(_, each)| *each).fold(0.0, f64::max);
    let mut each: Vec<(&String, &f64)> = calls().filter(|(_, it)| **it >= most / 5.0).collect();
    each.sort_by(|a, b| b.1.total_cmp(a.1));
    each.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Copies of a byte; those of a ring cannot be counted.
fn copies(it: &Cost) -> Option<String> {
    let census = it.census.as_ref()?;
    Some(match it.sender.starts_with("uring") {
        true => "by the ring".to_string(),
        false => short(census.copies),
    })
}

/// Two decimals; zero has no sign.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".to_string() } else { text }
}

/// Kernel memory of a stream, kB.
fn memory(it: &Reading) -> f64 {
    it.kernel_bytes as f64 / 1024.0 / f64::from(it.streams.max(1))
}

pub fn draft(it: &mut Draft, all: &[Cost], work: Work, sink: Sink) {
    let (plain, wheel) = (cost(all, "plain"), cost(all, "sendmmsg"));
    let core = |name: &str| all.iter().find(|it| it.sender == name)?.reading.as_ref()?.soak_ns;
    it.set("price_work", words::capital(&work.words()));
    it.set("price_sink", sink.words());
    it.set("frames", FRAMES);
    it.set("price_plain", plain.map(words::micros));
    it.set("price_wheel", wheel.map(words::micros));
    it.set("price_chain", cost(all, "uring-chain").map(words::micros));
    it.set("price_queue", cost(all, "tbf-kernel").map(words::micros));
    it.set("price_queue_core", core("tbf-kernel").map(words::micros));
    it.set("price_wheel_core", core("sendmmsg").map(words::micros));
    let mut part = Part::default();
    all.iter().for_each(|it| part.row(row(it)));
    bars(&mut part, all);
    it.room("price", part);
    compared(it, all, sink);
    it.expect("batch-pays", plain.zip(wheel).map(|(plain, wheel)| wheel / plain.max(1.0)));
    let once = all.iter().find(|it| it.sender == "kernel-rtp");
    it.expect("one-call", once.and_then(|it| it.census.as_ref()).map(Census::all));
}

fn row(it: &Cost) -> [String; 9] {
    let none = || words::NONE.to_string();
    let reading = it.reading.as_ref();
    let of =
        |value: &dyn Fn(&Reading) -> Option<f64>| words::or_none(reading.and_then(value), short);
    let each = |count: u64, it: &Reading| count as f64 / it.sent.max(1) as f64;
    [
        it.sender.clone(),
        of(&|it| Some(it.each_ns() / 1e3)),
        of(&|it| Some(it.soak_ns? / 1e3)),
        of(&|it| Some(each(it.softirqs?, it))),
        of(&|it| Some(each(it.switches, it))),
        it.census.as_ref().map_or_else(none, |it| short(it.all())),
        copies(it).unwrap_or_else(none),
        of(&|it| Some(memory(it))),
        it.census.as_ref().map_or_else(none, names),
    ]
}

/// Senders beside the paper's three designs: the plain one, MARS's path, and the successors of the
/// system call.
const COMPARED: [&str; 6] =
    ["plain", "sendfile", "uring-chain", "tbf-kernel", "kernel-rtp", "xdp-run"];

/// The paper's qualitative table with the counts of this machine beside it.
fn compared(it: &mut Draft, all: &[Cost], sink: Sink) {
    let ours: Vec<&Cost> = COMPARED
        .iter()
        .filter_map(|name| all.iter().find(|it| it.sender == *name && it.reading.is_some()))
        .collect();
    let calls = |name: &str| ours.iter().find(|it| it.sender == name)?.census.as_ref();
    let once =
        ["kernel-rtp", "uring-chain"].into_iter().find_map(|it| Some((it, calls(it)?.all())));
    it.set("calls_plain", calls("plain").map(|it| words::number(it.all())));
    it.set("calls_once", once.map(|it| words::number(it.1)));
    it.set("once", once.map(|it| it.0));
    let mut part = Part::default();
    part.head.extend(ours.iter().map(|it| it.sender.clone()));
    let mut row = |name: &str, marks: [&str; 3], value: &dyn Fn(&Cost) -> Option<String>| {
        let mut cells = vec![name.to_string()];
        cells.extend(marks.map(String::from));
        cells.extend(ours.iter().map(|it| value(it).unwrap_or(words::NONE.to_string())));
        part.rows.push(cells);
    };
    row("read and write: calls a packet", ["high", "none", "high"], &|it| {
        Some(short(it.census.as_ref()?.all()))
    });
    row("change of buffers: copies of a byte", ["high", "none", "low"], &copies);
    // One measure for all of them: the whole core's, if it was counted for all.
    let whole = |it: &&Cost| it.reading.as_ref().and_then(|it| it.soak_ns).is_some();
    let is_core = ours.iter().all(whole);
    let whose = if is_core { "the core" } else { "the process" };
    row(&format!("speed: CPU a packet of {whose}, µs"), ["–", "none", "high"], &|it| {
        let it = it.reading.as_ref()?;
        Some(short(it.soak_ns.filter(|_| is_core).unwrap_or(it.each_ns()) / 1e3))
    });
    row("RTP header in the kernel", ["none", "none", "high"], &|it| {
        Some(match it.sender.as_str() {
            "kernel-rtp" | "xdp-run" => "all of it".to_string(),
            _ => "no".to_string(),
        })
    });
    row("kernel memory: kB a stream", ["high", "none", "low"], &|it| {
        it.reading.as_ref().map(|it| short(memory(it)))
    });
    row("devices: what it ran on here", ["low", "high", "high"], &|it| {
        let sink = if it.sender == FRAMES { Sink::Dropped } else { sink };
        let other = it.census.as_ref().map_or("", |_| "loopback");
        Some(match (sink, other) {
            (Sink::Heard, _) => "loopback".to_string(),
            (Sink::Dropped, _) => "veth, loopback".to_string(),
            (_, "") => "ifb".to_string(),
            (_, other) => format!("ifb, {other}"),
        })
    });
    it.room("compared", part);
}

fn cost(all: &[Cost], sender: &str) -> Option<f64> {
    let it = all.iter().find(|it| it.sender == sender)?;
    it.reading.as_ref().map(Reading::each_ns)
}

fn bars(part: &mut Part, all: &[Cost]) {
    part.named(all.iter().map(|it| it.sender.clone()));
    let of = |name: &str, value: &dyn Fn(&Reading) -> Option<f64>| {
        let points = all
            .iter()
            .zip(1..)
            .filter_map(|(it, at)| Some((f64::from(at), value(it.reading.as_ref()?)? / 1e3)));
        Series::measured(name, points).drawn_as(Mark::Bar)
    };
    part.series(of("the sender's process", &|it| Some(it.each_ns())));
    part.series(of("the whole core", &|it| it.soak_ns));
}
