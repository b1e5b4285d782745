//! The registry of every crate's `fuzz(seed, events)`, and the runner that `cargo xtask fuzz`
//! calls.
//!
//! A fuzz function is deterministic in its seed and panics when a promise is broken. The runner
//! owns the seeds, so a name and two numbers reproduce every failure. One function, the canary,
//! must fail. A smoke run that does not catch it is broken, regardless of its other results.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A fuzz function: rounds from a seed; panics when something is broken.
type Fuzz = fn(seed: u64, events: u32);

/// Every crate's fuzz function by name. This is the one place to add one.
const REGISTRY: &[(&str, Fuzz)] = &[
    ("wire", wire::fuzz),
    ("memory", memory::fuzz),
    ("index", index::fuzz),
    ("grid", grid::fuzz),
    ("sim", sim::fuzz),
    ("websocket", wire::websocket::fuzz),
    ("http2", wire::http2::fuzz),
    ("load", load::fuzz),
];

/// The function that must be caught.
const CANARY: (&str, Fuzz) = ("canary", canary);

/// The default number of rounds for each seed.
const EVENTS: u32 = 1_000;
/// Seeds of a smoke run, from 1, the same each time: CI must not fail by chance.
const SMOKE_SEEDS: u64 = 400;
/// The time that all functions share in a smoke run; a slow one gets fewer seeds, at least one.
const SMOKE_TIME: Duration = Duration::from_secs(10);
/// Seeds that the canary survives between two failures.
const CANARY_PERIOD: u64 = 64;

/// Exit code for an invalid command line.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    if cfg!(panic = "abort") {
        eprintln!("fuzz: expected a build that unwinds, found panic=abort: use --profile ci");
        return ExitCode::from(USAGE);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["smoke"] => smoke(),
        ["soak", seconds] => match seconds.parse() {
            Ok(seconds) => soak(Duration::from_secs(seconds)),
            Err(_) => usage(&format!("expected seconds, found `{seconds}`")),
        },
        [name, ref numbers @ ..] if numbers.len() <= 2 => one(name, numbers),
        _ => usage("expected a command"),
    }
}

fn usage(what: &str) -> ExitCode {
    let names: Vec<&str> = REGISTRY.iter().chain([&CANARY]).map(|(name, _)| *name).collect();
    eprintln!("fuzz: {what}");
    eprintln!("usage: fuzz smoke | soak SECONDS | NAME [SEED] [EVENTS], NAME one of {names:?}");
    ExitCode::from(USAGE)
}

/// Runs the function `name` once: `numbers` are the seed and the events, where given.
fn one(name: &str, numbers: &[&str]) -> ExitCode {
    let Some((name, fuzz)) = REGISTRY.iter().chain([&CANARY]).find(|(known, _)| *known == name)
    else {
        return usage(&format!("there is no fuzz function `{name}`"));
    };
    let seed = numbers.first().map_or(Ok(fresh_seed()), |text| text.parse());
    let events = numbers.get(1).map_or(Ok(EVENTS), |text| text.parse());
    let (Ok(seed), Ok(events)) = (seed, events) else {
        return usage(&format!("expected a seed and a number of events, found {numbers:?}"));
    };
    if survives(name, *fuzz, seed, events) {
        println!("fuzz: {name}, seed {seed}, {events} events: nothing found");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs every function from the same seeds, and the canary, which must fail.
fn smoke() -> ExitCode {
    let share = SMOKE_TIME / REGISTRY.len().max(1) as u32;
    for (name, fuzz) in REGISTRY {
        let (failed, seeds) = run(name, *fuzz, 1, SMOKE_SEEDS, share);
        if failed {
            return ExitCode::FAILURE;
        }
        println!("fuzz: {name}: {seeds} seeds of {EVENTS} events, nothing found");
    }
    let (name, fuzz) = CANARY;
    // Its expected panic is not shown: a trace in a good run would look like a fault.
    std::panic::set_hook(Box::new(|_| {}));
    eprintln!("fuzz: the next failure is the canary's and must come");
    let (failed, _) = run(name, fuzz, 1, SMOKE_SEEDS, SMOKE_TIME);
    if !failed {
        eprintln!("fuzz: expected the canary to be caught, and it was not: this runner is broken");
        return ExitCode::FAILURE;
    }
    println!("fuzz: the canary was caught");
    ExitCode::SUCCESS
}

/// Runs every function for `time`, from a seed that the clock chose.
fn soak(time: Duration) -> ExitCode {
    let first = fresh_seed();
    for (name, fuzz) in REGISTRY {
        let (failed, seeds) = run(name, *fuzz, first, u64::MAX, time);
        if failed {
            return ExitCode::FAILURE;
        }
        println!("fuzz: {name}: {seeds} seeds from {first}, nothing found");
    }
    ExitCode::SUCCESS
}

/// Runs `fuzz` on up to `seeds` seeds from `first`, until one fails or `time` is over.
/// Returns whether one failed and how many ran.
fn run(name: &str, fuzz: Fuzz, first: u64, seeds: u64, time: Duration) -> (bool, u64) {
    let start = Instant::now();
    for ran in 0..seeds {
        if ran > 0 && start.elapsed() >= time {
            return (false, ran);
        }
        if !survives(name, fuzz, first.wrapping_add(ran), EVENTS) {
            return (true, ran + 1);
        }
    }
    (false, seeds)
}

/// Whether `fuzz` finds no failure; prints the command that reproduces a failure.
fn survives(name: &str, fuzz: Fuzz, seed: u64, events: u32) -> bool {
    let result = catch_unwind(|| fuzz(seed, events));
    if result.is_err() {
        eprintln!("fuzz: {name} FAILED; again: cargo xtask fuzz {name} {seed} {events}");
    }
    result.is_ok()
}

/// A seed that is different each time; it is printed with its findings.
fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_micros() as u64)
}

/// Breaks its promise on one seed of [`CANARY_PERIOD`], as a real fault would.
fn canary(seed: u64, events: u32) {
    let broken = events > 0 && seed % CANARY_PERIOD == CANARY_PERIOD - 1;
    assert!(!broken, "the canary fails on this seed by design");
}
