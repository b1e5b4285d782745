//! The load models against an echo in this process: exact counts whatever the times.

use load::censor::Percentile;
use load::drive::Settings;
use load::run::{Hooks, Window, Workload, run_with};
use load::snapshot::Board;
use load::work::Think;
use load::{Arrivals, Model, Plan, Report, search};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use testkit::{EchoServer, PATIENCE, listen, wait_for};

const MS: Duration = Duration::from_millis(1);

fn plan(address: SocketAddr) -> Plan {
    let target = format!("echo://{address}").parse().expect("a target");
    Plan { warmup: Duration::ZERO, ..Plan::new(target, Workload::Echo) }
}

fn open(rate: f64, arrivals: Arrivals) -> Model {
    Model::Open { rate, arrivals, depth: 1 }
}

fn run(plan: &Plan) -> Report {
    load::run(plan).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Checks that every due request is accounted for exactly once.
fn check_balance(report: &Report, due: u64) {
    let answered = report.response.count;
    // All of these runs measure from the start, so each unanswered request is a measured one.
    assert_eq!(answered + report.failed + report.censored, due, "{report}");
    assert_eq!(report.lateness.count, answered, "{report}");
    let slices = &report.timeline;
    assert_eq!(slices.iter().map(|it| it.requests).sum::<u64>(), report.requests, "{report}");
    assert!(slices.iter().map(|it| it.errors).sum::<u64>() <= report.failed, "{report}");
    let times: u64 = slices.iter().flat_map(|it| &it.buckets).map(|&(_, count)| count).sum();
    assert_eq!(times, report.requests, "{report}");
    let length: f64 = slices.iter().map(|it| it.for_ms).sum();
    assert!((length * 1e6 - report.window_ns as f64).abs() < 10.0, "{length} ms: {report}");
}

#[test]
fn every_arrival_is_answered_once() {
    let served = EchoServer::start();
    let constant = Plan {
        model: open(2000.0, Arrivals::Constant),
        window: Window::For(200 * MS),
        ..plan(served.address)
    };
    let report = run(&constant);
    check_balance(&report, 400);
    assert!(report.is_right() && report.arrived == 400, "{report}");
    let poisson = Plan {
        model: open(2000.0, Arrivals::Poisson),
        window: Window::Count(300),
        threads: 2,
        ..plan(served.address)
    };
    let report = run(&poisson);
    check_balance(&report, 300);
    assert_eq!(served.requests(), 700);
}

#[test]
fn a_session_has_its_requests_and_its_connection() {
    let served = EchoServer::start();
    let model = Model::Sessions {
        rate: 200.0,
        arrivals: Arrivals::Constant,
        rounds: 3,
        depth: 2,
        think: Think::Fixed(MS),
    };
    let report = run(&Plan { model, window: Window::For(100 * MS), ..plan(served.address) });
    assert!(report.is_right(), "{report}");
    assert_eq!(report.arrived, 20, "{report}");
    // Sessions unfinished at the end of the window send no more; none sends more than its share.
    assert!((40..=120).contains(&report.requests_total), "{report}");
    assert_eq!(served.requests(), report.requests_total);
    let logins = report.check.detail.rsplit("login packet on ").next().expect("the rest");
    assert!(logins.starts_with("20 of 20"), "{}", report.check.detail);
}

#[test]
fn outstanding_requests_are_bounded_and_the_rest_has_failed() {
    let mut plan = plan(listen(|_silent| {
        loop {
            thread::park();
        }
    }));
    plan.model = open(1000.0, Arrivals::Constant);
    plan.window = Window::For(50 * MS);
    plan.settings =
        Settings { connections: 4, outstanding_max: 10, drain: 20 * MS, ..Settings::default() };
    let report = run(&plan);
    assert_eq!((report.dropped, report.failed, report.censored), (40, 40, 10), "{report}");
    check_balance(&report, 50);
    assert!(!report.is_right(), "{report}");
    let Percentile { percent, beyond, .. } = report.percentiles[0];
    assert!(percent == 50.0 && beyond, "{report}");
    assert!(report.to_string().contains("p50 > "), "{report}");
}

#[test]
fn a_run_can_be_ended_and_says_what_it_knows() {
    let served = EchoServer::start();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, board) = (Arc::clone(&stop), Board::default());
    let hooks = Hooks { board: Some(board.clone()), stop: Some(stop), ..Hooks::default() };
    let watcher = thread::spawn(move || {
        let done = wait_for("a snapshot has replies", PATIENCE, || {
            let done: u64 = board.take().iter().map(|snapshot| snapshot.done).sum();
            (done > 0).then_some(done)
        });
        flag.store(true, Ordering::Relaxed);
        done
    });
    let plan = Plan { window: Window::For(Duration::from_secs(600)), ..plan(served.address) };
    let report = run_with(&plan, &hooks).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        report.requests > 0 && report.doubts.iter().any(|it| it.contains("stopped")),
        "{report}"
    );
    let seen = watcher.join().expect("a snapshot");
    assert!(seen > 0 && seen <= report.requests_total, "{seen} {report}");
    assert_eq!(served.requests(), report.requests_total);
}

/// A server that needs 4 ms for each request, one after the other: at most 250 a second.
fn slow() -> SocketAddr {
    let turn = Arc::new(Mutex::new(()));
    listen(move |mut socket| {
        let mut packet = [0; 10];
        while socket.read_exact(&mut packet).is_ok() {
            let held = turn.lock().expect("no panic");
            thread::sleep(4 * MS);
            drop(held);
            if socket.write_all(&packet).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_capacity_is_found_below_what_the_server_can_do() {
    let plan = Plan {
        model: open(20.0, Arrivals::Constant),
        window: Window::For(400 * MS),
        warmup: 50 * MS,
        ..plan(slow())
    };
    let slo = "90%<300ms".parse().expect("an objective");
    let mut told = 0;
    let found = search::capacity(&plan, &slo, |_| told += 1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(told, found.probes.len());
    let json = serde_json::to_string(&found).expect("plain data");
    assert!(json.starts_with(r#"{"schema":"roundhouse.capacity/1""#), "{json}");
    if !found.confirmed {
        // The machine was too busy for either side; then no claim may be made.
        assert!(found.limit.is_some() || found.capacity_rps < 250.0, "{found}");
        return;
    }
    // The result cannot exceed the server's limit, and the first rate is a twelfth of it.
    assert!(found.capacity_rps > 2.0 && found.capacity_rps < 400.0, "{found}");
    let confirmed = found.probes.iter().filter(|probe| probe.why == "confirm" && probe.passed);
    assert!(confirmed.count() >= 2, "{found}");
}

#[test]
fn stages_bring_the_area_under_their_levels() {
    let served = EchoServer::start();
    let staged = |text: &str, model: Model| {
        let stages: load::Stages = text.parse().expect("stages");
        let window = Window::For(stages.span());
        Plan { model, window, stages: Some(Arc::new(stages)), threads: 2, ..plan(served.address) }
    };
    // A tenth of a second to 2,000 a second and one back: 200 requests, none before or after.
    let rate = staged("100ms:2000/s,100ms:0/s", open(1000.0, Arrivals::Constant));
    let report = run(&rate);
    check_balance(&report, 200);
    assert!(report.to_string().contains("open in stages 100ms:2000/s,100ms:0/s"), "{report}");

    // No user is there at the edges, both in the middle.
    let think = Think::Fixed(MS);
    let model = Model::Closed { depth: 1, think, ramp: None };
    let settings = Settings { connections: 2, ..Settings::default() };
    let users = staged("100ms:0,0s:2,100ms:2,0s:0,100ms:0", model);
    let report = run(&Plan { settings, ..users });
    let asked = |from: f64, to: f64| -> u64 {
        let slices = report.timeline.iter().filter(|it| (from..to).contains(&it.at_ms));
        slices.map(|it| it.requests).sum()
    };
    assert_eq!((asked(0.0, 100.0), asked(220.0, 300.0)), (0, 0), "{report}");
    assert!(asked(100.0, 200.0) > 20, "{report}");
}
