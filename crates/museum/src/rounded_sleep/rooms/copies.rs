//! Packets grow, and leave as fast as they can, until a copy is worth what it costs to avoid it.

use super::{alone, sink};
use crate::exhibit::{Effort, Fault};
use crate::showing::{Axis, Finding, Grid, Plot, Room, Series, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use lab::pace::Work;
use std::time::Duration;

/// Who copies how often, in words.
const PATHS: [(&str, &str); 6] = [
    ("wheel-sendto", "read and sendto: two copies"),
    ("wheel-mmap", "sendmsg from the mapped file: one copy"),
    ("sendmmsg", "the same, many at a call"),
    ("sendmmsg+gso", "the same, cut behind the copy"),
    ("sendfile", "pages of the file: no copy"),
    ("msg-zerocopy", "pages of the program: no copy"),
];
/// Payloads, bytes: the published one, a telephone's, a network's, and beyond.
const SIZES: [u32; 6] = [32, 160, 1_316, 4_096, 16_384, 49_152];
const QUICK: [u32; 2] = [32, 16_384];

pub fn effort(settings: &Settings) -> Effort {
    let share = if settings.quick { 10 } else { 1 };
    Effort::new(1, Duration::from_secs(30) / share)
}

/// A sender's costs by size, nanoseconds of CPU.
type Costs = Vec<(u32, f64)>;

pub fn show(stage: &mut Stage<'_>, senders: &[String]) -> Result<Vec<Finding>, Fault> {
    let quick = stage.settings().quick;
    let sizes: &[u32] = if quick { &QUICK } else { &SIZES };
    // A quick visit knows only some senders, so paths are tried whether or not they were listed.
    let paths = PATHS.iter().filter(|(name, _)| quick || senders.iter().any(|it| it == name));
    let paths: Vec<&(&str, &str)> = paths.take(if quick { 5 } else { PATHS.len() }).collect();
    let sink = sink(stage);
    stage.begin("packets that grow, as fast as they can be sent");
    let mut found: Vec<(&str, Costs)> = paths.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for &payload in sizes {
        for (sender, costs) in &mut found {
            let packets = packets(payload) / if quick { 50 } else { 1 };
            let work = Work { packets, payload, file: true, ..Work::default() };
            if let Some(it) = stage.cast(sender, work, alone(stage, sink))? {
                costs.push((payload, it.each_ns()));
            }
        }
    }
    stage.step(&format!("{} sizes", sizes.len()));
    stage.hang(Room {
        title: "Where copies begin to matter".into(),
        side: told(&found, sink.words()),
    });
    Ok(findings(&found))
}

/// Enough for some tenths of a second.
fn packets(payload: u32) -> u32 {
    (200_000_000 / (payload + 700)).clamp(2_000, 200_000)
}

fn of(found: &[(&str, Costs)], sender: &str, size: u32) -> Option<f64> {
    let (_, costs) = found.iter().find(|(name, _)| *name == sender)?;
    costs.iter().find(|(at, _)| *at == size).map(|(_, ns)| *ns)
}

/// The ends of the axis.
fn ends(found: &[(&str, Costs)]) -> Option<(u32, u32)> {
    let sizes = || found.iter().flat_map(|(_, costs)| costs.iter().map(|(size, _)| *size));
    Some((sizes().min()?, sizes().max()?))
}

fn told(found: &[(&str, Costs)], sink: &str) -> Side {
    let mut numbers = Grid::new(&["sender", "how", "bytes", "CPU a packet, ns", "MB a CPU second"]);
    for (sender, costs) in found {
        let how = PATHS.iter().find(|(name, _)| name == sender).map_or("", |(_, how)| how);
        for (size, ns) in costs {
            numbers.row([
                sender.to_string(),
                how.to_string(),
                words::count(*size),
                words::number(ns.round()),
                words::number((f64::from(*size) * 1e3 / ns.max(1.0)).round()),
            ]);
        }
    }
    let line = |(sender, costs): &(&str, Costs)| {
        let places = costs.iter().map(|(size, ns)| (f64::from(*size), *ns));
        Series::measured(*sender, places.collect())
    };
    Side {
        setup: format!(
            "One stream from a file in the page cache, as fast as it can be sent ({sink}; its \
             frames are as long as a datagram may be). Nothing waits, so here a copy could show."
        ),
        finding: finding(found),
        plot: Some(Plot {
            title: "CPU time of a packet against its size".to_string(),
            caption: "Flat is the price of a call and of the network stack; the slope is the \
                      copies. Where the paths without a copy cross the others, copies matter."
                .to_string(),
            x: Axis::log("payload, bytes"),
            y: Axis::log("CPU a packet, ns"),
            series: found.iter().map(line).collect(),
        }),
        numbers,
    }
}

/// What a packet of that size costs by the cheaper of the paths without a copy.
fn free(found: &[(&str, Costs)], size: u32) -> Option<f64> {
    let paths = ["sendfile", "msg-zerocopy"].map(|name| of(found, name, size));
    paths.into_iter().flatten().min_by(f64::total_cmp)
}

/// The smallest size at which a path without a copy is cheaper than one copy.
fn crossing(found: &[(&str, Costs)]) -> Option<u32> {
    let (_, copied) = found.iter().find(|(name, _)| *name == "wheel-mmap")?;
    let cheaper = |&&(size, ns): &&(u32, f64)| free(found, size).is_some_and(|it| it < ns);
    copied.iter().find(cheaper).map(|(size, _)| *size)
}

fn finding(found: &[(&str, Costs)]) -> String {
    let Some((least, most)) = ends(found) else { return "Nothing could be sent.".to_string() };
    let ratio = |size| Some(free(found, size)? / of(found, "wheel-mmap", size)?);
    let (Some(small), Some(large)) = (ratio(least), ratio(most)) else {
        return "The two paths to compare did not run.".to_string();
    };
    let where_ = match crossing(found) {
        Some(size) => format!("from {} bytes on it is cheaper", words::count(size)),
        None => "at no size that was tried it is cheaper".to_string(),
    };
    format!(
        "At {least} bytes the cheapest path without a copy costs {} times what one copy costs, at \
         {} bytes {} times; {where_}. The published packets had 32 bytes. (sendfile puts its \
         packet together behind the head, so its checksum is computed over all bytes.)",
        words::number(small),
        words::count(most),
        words::number(large)
    )
}

fn findings(found: &[(&str, Costs)]) -> Vec<Finding> {
    let Some((least, most)) = ends(found) else { return Vec::new() };
    let mut all = Vec::new();
    let mut expect = |name, size, than, wanted: fn(f64) -> bool, expected: &str| {
        if let (Some(free), Some(copied)) = (free(found, size), of(found, than, size)) {
            let ratio = free / copied.max(1.0);
            all.push(Finding::new(name, wanted(ratio), ratio, expected));
        }
    };
    let small = "at 32 bytes a path without copies costs no less than 0.9 of one with two";
    expect("copies-do-not-matter", least, "wheel-sendto", |it| it >= 0.9, small);
    let large = "at the largest size it costs at most 0.8 of one with a single copy";
    expect("copies-matter", most, "wheel-mmap", |it| it <= 0.8, large);
    all
}
