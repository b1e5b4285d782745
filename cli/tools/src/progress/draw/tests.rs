//! The screen as text, from made-up snapshots.

use super::*;
use load::faults::FaultKind;
use load::run::{Window, Workload};
use load::snapshot::{Phase, Snapshot};
use load::{Arrivals, Instant, Model, Plan};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn plan(threads: usize) -> Plan {
    let target = "echo://127.0.0.1:7".parse().expect("a target");
    let model = Model::Open { rate: 1000.0, arrivals: Arrivals::Poisson, depth: 1 };
    let window = Window::For(Duration::from_secs(20));
    Plan { model, window, threads, ..Plan::new(target, Workload::Echo) }
}

/// One second of a thread in ten snapshots: 100 replies each that take `us`, and one that takes a
/// hundred times as long.
fn second(part: usize, phase: Phase, at: u64, us: u64) -> Vec<Snapshot> {
    (0..10)
        .map(|snapshot| {
            let start = at * 1000 + snapshot * 100;
            let mut it = Snapshot { part, phase, done: 101, ..Snapshot::default() };
            it.start = Instant::from_ns(start * MS);
            it.end = Instant::from_ns((start + 100) * MS);
            it.times.record(us * 1000, 100);
            it.times.record(us * 100_000, 1);
            it.tardiness.record(2000, 101);
            (it.cpu_ns, it.outstanding, it.connections) = (30 * MS, 3, 32);
            it
        })
        .collect()
}

/// The same second of two threads, in the order in which snapshots arrive.
fn both(phase: Phase, at: u64, us: u64) -> Vec<Snapshot> {
    let (one, two) = (second(0, phase, at, us), second(1, phase, at, us));
    one.into_iter().zip(two).flat_map(|(one, two)| [one, two]).collect()
}

fn drawn(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test's own");
    terminal.draw(|frame| screen(frame, view, "q: stop and report ")).expect("it cannot fail");
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).collect::<Vec<String>>().join("\n")
}

fn check(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in\n{text}");
    }
}

#[test]
fn the_screen_says_what_is_known() {
    let mut view = View::new(&plan(2));
    assert!(!view.has_begun());
    view.add(both(Phase::Warmup, 0, 900));
    check(&drawn(&view, 140, 30), &["warm-up · 1.0 of 0.3 s"]);
    for at in 1..9 {
        view.add(both(Phase::Window, at, 50));
    }
    let text = drawn(&view, 140, 30);
    check(
        &text,
        &[
            "echo://127.0.0.1:7 · open of 1000/s · 64 connections x depth 1",
            "q: stop and report",
            "8.0 of 20.0 s · 16160 requests",
            "now 2020",
            "p50 50.2 µs · p90 50.2 µs · p99 50.2 µs · max 5.00 ms",
            "6 outstanding on 64 connections",
            "30 % busy",
            "generator     ok",
            "no errors",
        ],
    );
    let mut bad = second(0, Phase::Drain, 9, 50);
    bad[9].faults.count(FaultKind::Reset, || "receiving: reset by peer".to_owned());
    bad[9].failed = 4;
    view.add(bad);
    let text = drawn(&view, 140, 40);
    check(&text, &["waiting for the last replies", "1 error", "receiving: reset by peer"]);
    check(&view.line(), &["16160 requests", "p50 50.2 µs", "1 error", "generator ok"]);
}

#[test]
fn a_long_run_keeps_its_last_minute() {
    let mut view = View::new(&plan(1));
    (0..2000).for_each(|at| view.add(second(0, Phase::Window, at, 50)));
    assert_eq!(view.bins.len(), 240);
    assert!((view.rate() - 1010.0).abs() < 1e-6, "{}", view.rate());
}

#[test]
fn any_size_and_any_state_can_be_drawn() {
    let mut wild = View::new(&plan(1));
    let mut snapshot =
        Snapshot { phase: Phase::Window, failed: 1 << 60, done: 1 << 60, ..Snapshot::default() };
    (0..40).for_each(|octave| snapshot.times.record(1 << octave, octave));
    snapshot.outstanding = u64::MAX;
    (0..10).for_each(|_| snapshot.faults.count(FaultKind::Overlong, || "long ".repeat(100)));
    snapshot.delays.stalled_ns = u64::MAX;
    wild.add(vec![snapshot]);
    let fresh = View::new(&plan(3));
    for (width, height) in [(1, 1), (5, 3), (20, 4), (30, 9), (80, 24), (300, 90)] {
        drawn(&wild, width, height);
        drawn(&fresh, width, height);
    }
    let mut view = View::new(&Plan { window: Window::Count(50), ..plan(1) });
    view.add(vec![Snapshot { phase: Phase::Window, ..Snapshot::default() }]);
    check(&view.progress().1, &["0 requests of 50"]);
}
