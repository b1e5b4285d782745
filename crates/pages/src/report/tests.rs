//! Facts about the page: what it says, what it escapes, how large it is.

use super::*;
use lab::machine::{Conditions, Host, Placement};
use lab::plan::{Arm, LoadPoint, Plan};
use lab::record::Manifest;

const ARMS: [(&str, f64, f64); 4] =
    [("iterative", 0.8, 1.1), ("epoll", 1.0, 1.0), ("prefork", 0.86, 1.2), ("uring", 1.12, 0.93)];

fn plan() -> Plan {
    let arm = |name: &str| Arm {
        name: name.to_string(),
        command: vec!["roundhouse".to_string(), "serve".to_string(), "<stock>".to_string()],
        target: "stock://{address}".to_string(),
        note: format!("how {name} waits"),
        ..Arm::default()
    };
    let point = |depth: u32| LoadPoint {
        name: format!("depth {depth}"),
        connections: 8,
        depth,
        requests_per_connection: 64,
        ..LoadPoint::default()
    };
    Plan {
        question: "Which engine serves the <stock> market best?".to_string(),
        label: "smoke".to_string(),
        arms: ARMS.iter().map(|it| arm(it.0)).collect(),
        baseline: "epoll".to_string(),
        twin: true,
        points: vec![point(1), point(16)],
        blocks: 6,
        seed: 7,
        warmup_ms: 150,
        window_ms: 600,
        margin: 0.03,
        resamples: 200,
        ..Plan::default()
    }
}

/// A made-up race with a repeated trial, an absent arm and a busy generator.
fn run() -> Run {
    let plan = plan();
    let manifest = Manifest {
        schema: lab::record::SCHEMA.to_string(),
        date: "2026-11-21T20:29:05Z".to_string(),
        version: "0.1.0".to_string(),
        commit: None,
        program: "0123456789abcdef".to_string(),
        command: "roundhouse race".to_string(),
        host: Host::default(),
        placement: Some(Placement { first: 0, second: 1, siblings: false }),
        plan_hash: plan.hash(),
        plan: plan.clone(),
        ..Manifest::default()
    };
    let entrants = plan.entrants();
    let trials = lab::block::schedule(&plan)
        .iter()
        .map(|slot| {
            let arm = &entrants[slot.entrant];
            let &(_, speed, cost) = ARMS
                .iter()
                .find(|it| arm.name.starts_with(it.0))
                .expect("every arm is in the table");
            let depth = f64::from(plan.points[slot.point].depth);
            let wobble = 1.0 + 0.004 * f64::from((slot.order * 7) % 11);
            let rps = 50_000.0 * depth.powf(0.7) * speed * wobble;
            let mut trial = trial(&arm.name, slot.order, slot.block, rps, cost * 5_000.0 / depth);
            trial.point = plan.points[slot.point].name.clone();
            trial
        })
        .collect();
    Run { manifest, trials, ..Run::default() }
}

fn trial(arm: &str, order: u32, block: u32, rps: f64, cpu: f64) -> Trial {
    let text = format!(
        "{{\"schema\":\"roundhouse.load/1\",\"requests\":20000,\"throughput_rps\":{rps},\
         \"service\":{{\"count\":20000,\"p50_ns\":{},\"p99_ns\":{}}},\
         \"check\":{{\"kind\":\"conservation\",\"ok\":true,\"detail\":\"\"}},\
         \"generator\":{{\"cpu_ns\":1,\"busy\":{}}},\"server\":{{\"cpu_ns\":1,\
         \"cpu_ns_per_request\":{cpu},\"switches_per_request\":0.02,\"pss_kb\":3000}}}}",
        8e9 / rps,
        2e10 / rps,
        if arm == "uring" { 0.85 } else { 0.6 }
    );
    Trial {
        order,
        block,
        point: String::new(),
        arm: arm.to_string(),
        attempt: 1,
        seed: 1,
        swapped: block % 2 == 1,
        begun_ms: 900.0 * f64::from(order),
        took_ms: 880.0,
        boot_ms: Some(3.0),
        conditions: Conditions {
            steal: Some(0.001),
            foreign: Some(0.01 * f64::from(order % 5)),
            ..Conditions::default()
        },
        objections: Vec::new(),
        counted: true,
        exit: Some("exit 0".to_string()),
        exit_clean: true,
        ending: Ending::Measured {
            load: Box::new(lab::load::Load::parse(&text).expect("well formed")),
        },
        seen: lab::seen::Seen::default(),
    }
}

fn page(run: &Run) -> String {
    let summary = lab::verdict::analyse(run);
    report(run, &summary, &lab::doubts::doubts(run, &summary)).expect("the template fits")
}

#[test]
fn the_page_says_what_was_found_and_how_sure_it_is() {
    let html = page(&run());
    for want in [
        "Against epoll:",
        "<span class=\"pill worse\">slower</span>",
        "Verdict against epoll",
        "class=\"strip",
        "the baseline: 1.00× by definition",
        "epoll (twin)",
        "Smoke size: 6 blocks",
        "model check passed 6",
        "generator-limited",
        "All 60 trials",
        "data-for=\"forest-speed\"",
        "data-for=\"cost-1\"",
        "data-for=\"timeline\"",
    ] {
        assert!(html.contains(want), "expected `{want}` in the page");
    }
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
}

#[test]
fn the_page_needs_no_network_and_escapes_what_it_was_given() {
    let html = page(&run());
    for never in ["src=\"http", "href=\"http", "<link", "@import", "<stock>"] {
        assert!(!html.contains(never), "found `{never}` in the page");
    }
    assert!(html.contains("&lt;stock&gt; market"));
}

#[test]
fn wrong_answers_and_absent_arms_are_loud() {
    let mut run = run();
    for trial in run.trials.iter_mut().filter(|trial| trial.arm == "uring") {
        trial.ending = Ending::Unavailable { reason: "io_uring is <disabled>".to_string() };
    }
    if let Ending::Measured { load } = &mut run.trials[0].ending {
        let check = load.check.as_mut().expect("the sample has one");
        (check.ok, check.detail) = (false, "stock 3: expected 10, found 9".to_string());
    }
    let html = page(&run);
    assert!(html.contains("not measured: io_uring is &lt;disabled&gt;"));
    assert!(html.contains("The speeds below must not be used"));
    assert!(html.contains("stock 3: expected 10, found 9"));
}

#[test]
fn an_empty_run_still_makes_a_page() {
    let run = Run { trials: Vec::new(), ..run() };
    assert!(page(&run).contains("not measured at every load point"));
}

/// Writes the made-up page to the path in `ROUNDHOUSE_PAGE`, to be looked at.
#[test]
fn the_sample_page_can_be_looked_at() {
    let html = page(&run());
    assert!(html.ends_with("</html>"), "the page is whole");
    if let Ok(path) = std::env::var("ROUNDHOUSE_PAGE") {
        std::fs::write(&path, html).expect("ROUNDHOUSE_PAGE names a writable path");
    }
}
