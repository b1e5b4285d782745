//! The counters that work on this machine, and the tools that read them.

use super::{Check, Part};
use lab::cost::Group;
use std::path::Path;

/// Optional programs and their uses.
const TOOLS: [(&str, &str); 9] = [
    ("strace", "counts system calls (`race --explain`)"),
    ("nginx", "an arm"),
    ("apache2", "an arm"),
    ("haproxy", "an arm"),
    ("redis-server", "an arm"),
    ("go", "an arm: the market in Go"),
    ("node", "an arm: the market in Node"),
    ("javac", "an arm: the market in Java 21 or newer"),
    ("cc", "the bare loops"),
];

pub(super) fn checks() -> Vec<Check> {
    let mut part = Part::new("counters");
    processes(&mut part);
    let yes = |path: &str| Path::new(path).exists();
    match yes("/proc/pressure/cpu") {
        true => part.good("pressure", "there (PSI)"),
        false => part.note(
            "pressure",
            "missing",
            "memory and disk pressure are not gates here: boot with psi=1",
        ),
    }
    match yes("/sys/bus/event_source/devices/cpu") {
        true => part.good("hardware counters", "there"),
        false => part.note("hardware counters", "missing: no cycles, no cache misses", ""),
    }
    let mut tools = Part::new("tools");
    for (name, use_for) in TOOLS {
        match which::which(name).is_ok() {
            true => tools.good(name, use_for),
            false => tools.note(name, format!("missing: {use_for}"), ""),
        }
    }
    [part.checks, tools.checks].concat()
}

fn processes(part: &mut Part) {
    match Group::make("doctor") {
        Some(_) => part.good("control groups", "can be made: ended processes are paid for"),
        None => part.note(
            "control groups",
            "cannot be made",
            "servers that fork for each client are charged by clock ticks: run as root or in a \
             delegated group (systemd-run --user --scope -p Delegate=yes)",
        ),
    }
}
