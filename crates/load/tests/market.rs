//! The generator against a market with and without misbehaviour: right replies are accepted, and
//! every misbehaviour is found and named.

mod common;

use common::{Market, Misdeed, ServerBehaviour};
use load::drive::Settings;
use load::duet::ArmPlan;
use load::report::DuetArm;
use load::run::{Window, Workload};
use load::script::{LineOptions, StockOptions};
use load::work::Think;
use load::{Duet, DuetPlan, Failure, FaultKind, Mix, Model, Plan, Report};
use std::time::Duration;
use wire::framing::Framing;

const MS: Duration = Duration::from_millis(1);

fn closed(depth: u32) -> Model {
    Model::Closed { depth, think: Think::None, ramp: None }
}

fn plan(market: &Market, framing: Framing) -> Plan {
    let target = format!("stock://{}", market.address).parse().expect("a target");
    let workload = Workload::Stock(StockOptions {
        mix: Mix::default(),
        ids: Vec::new(),
        amount_max: 10,
        framing,
        seed: 1,
    });
    Plan {
        model: closed(4),
        settings: Settings { connections: 4, ..Settings::default() },
        warmup: 20 * MS,
        window: Window::For(100 * MS),
        ..Plan::new(target, workload)
    }
}

fn line_plan(market: &Market, request: &str, prefix: &str) -> Plan {
    Plan {
        target: format!("line://{}", market.address).parse().expect("a target"),
        workload: Workload::Line(LineOptions {
            requests: vec![request.as_bytes().to_vec()],
            terminator: b"\n".to_vec(),
            terminators: 1,
            prefix: prefix.as_bytes().to_vec(),
        }),
        ..plan(market, Framing::Line)
    }
}

fn run(plan: &Plan) -> Report {
    load::run(plan).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Checks that every request was answered correctly, and that the server counts as many as the
/// client.
fn check_right(market: &Market, plan: &Plan) -> Report {
    let report = run(plan);
    assert!(report.is_right(), "{report}");
    assert_eq!((report.lost, report.censored), (0, 0), "{report}");
    // Two more requests: the script's own before and after the run.
    assert_eq!(market.requests(), report.requests_total + 2, "{report}");
    assert!(report.requests <= report.requests_total);
    assert!(report.service.p50_ns > 0 && report.service.p50_ns <= report.service.max_ns);
    report
}

#[test]
fn a_right_market_is_right_in_each_framing() {
    for framing in [Framing::Line, Framing::Fixed(8192), Framing::Eof] {
        let market = Market::open(ServerBehaviour { framing, ..ServerBehaviour::default() });
        let report = check_right(&market, &plan(&market, framing));
        assert_eq!(report.check.kind, "conservation");
        assert!(report.check.detail.contains("exactly"), "{}", report.check.detail);
    }
}

#[test]
fn replies_in_pieces_are_still_replies() {
    for piece in [1, 2, 7] {
        let market = Market::open(ServerBehaviour { piece, ..ServerBehaviour::default() });
        check_right(&market, &plan(&market, Framing::Line));
    }
}

#[test]
fn a_count_is_asked_exactly() {
    let market = Market::open(ServerBehaviour::default());
    let plan = Plan {
        warmup: Duration::ZERO,
        window: Window::Count(1001),
        ..plan(&market, Framing::Line)
    };
    let report = check_right(&market, &plan);
    assert_eq!((report.requests, report.requests_total), (1001, 1001));
    assert_eq!(report.service.count, 1001);
    assert_eq!(report.lateness.count, 1001);
}

#[test]
fn an_accept_queue_is_slow_and_not_wrong() {
    let market =
        Market::open(ServerBehaviour { slow_accept: 30 * MS, ..ServerBehaviour::default() });
    let plan = Plan { warmup: Duration::ZERO, ..plan(&market, Framing::Line) };
    let report = check_right(&market, &plan);
    // The fourth connection is accepted after four pauses, and its first batch waited for it.
    assert!(
        report.service.max_ns >= 20_000_000 || report.response.max_ns >= 20_000_000,
        "{report}"
    );
}

#[test]
fn a_server_of_one_client_serves_all_in_turn() {
    let market = Market::open(ServerBehaviour { iterative: true, ..ServerBehaviour::default() });
    let mut plan = plan(&market, Framing::Line);
    plan.settings.requests_per_connection = Some(6);
    check_right(&market, &plan);
}

#[test]
fn connections_left_waiting_are_censored_or_served_in_the_drain() {
    let market = Market::open(ServerBehaviour { iterative: true, ..ServerBehaviour::default() });
    let window = Window::For(300 * MS);
    let plan = Plan { warmup: Duration::ZERO, window, ..plan(&market, Framing::Line) };
    let report = run(&plan);
    // Three of four wait until the first one leaves; then each sends its one batch.
    assert!(report.is_right() && report.censored == 0, "{report}");
    assert!(report.service.max_ns >= 100_000_000, "{report}");
}

/// Checks that one misbehaviour at the 500th order leads to this kind of fault (or none), and to
/// the verdict "ok" only if `ok`.
fn check_found(what: Misdeed, kind: Option<FaultKind>, ok: bool, part: &str) {
    let market =
        Market::open(ServerBehaviour { fault: Some((500, what)), ..ServerBehaviour::default() });
    let mut plan = plan(&market, Framing::Line);
    plan.window = Window::Count(3000);
    plan.settings.timeout = 150 * MS;
    let report = run(&plan);
    assert!(!report.is_right(), "{report}");
    assert_eq!(report.check.ok, ok, "{report}");
    match kind {
        Some(kind) => assert!(report.errors.of(kind) >= 1, "{report}"),
        None => assert!(report.errors.is_empty(), "{report}"),
    }
    let text = report.to_string();
    assert!(text.contains(part), "expected {part:?} in: {text}");
}

#[test]
fn every_misdeed_is_found() {
    check_found(Misdeed::Lie, Some(FaultKind::WrongReply), false, "] succes\\n`");
    check_found(Misdeed::Forget, None, false, "expected");
    // In the middle of a batch an extra reply makes the next one wrong; at its end it is
    // unrequested.
    let market = Market::open(ServerBehaviour {
        fault: Some((500, Misdeed::Repeat)),
        ..ServerBehaviour::default()
    });
    let report = run(&plan(&market, Framing::Line));
    assert!(!report.is_right() && !report.errors.is_empty(), "{report}");
    check_found(Misdeed::Close, Some(FaultKind::ClosedEarly), true, "replies missing");
    check_found(Misdeed::Hang, Some(FaultKind::Timeout), true, "timed out");
}

#[test]
fn resets_are_counted_and_leave_the_books_within_bounds() {
    let market = Market::open(ServerBehaviour {
        fault: Some((200, Misdeed::ResetEach)),
        ..ServerBehaviour::default()
    });
    let report = run(&plan(&market, Framing::Line));
    let (reset, closed) =
        (report.errors.of(FaultKind::Reset), report.errors.of(FaultKind::ClosedEarly));
    assert!(reset > 0 && closed == 0, "{report}");
    assert!(report.lost >= reset && report.lost <= 4 * reset, "{report}");
    assert!(report.check.ok && report.check.detail.contains("within bounds"), "{report}");
    assert!(!report.is_right());
}

#[test]
fn a_constant_line_is_checked_by_its_prefix() {
    let market = Market::open(ServerBehaviour::default());
    let report = run(&line_plan(&market, "sell 1 1\n", "[sell] success"));
    assert!(report.is_right() && report.check.kind == "prefix", "{report}");
    assert_eq!(market.requests(), report.requests_total);
    let report = run(&line_plan(&market, "sell 1 1\n", "[buy]"));
    assert!(!report.is_right(), "{report}");
    assert!(report.errors.of(FaultKind::WrongReply) > 0, "{report}");
}

#[test]
fn no_server_is_a_failure_that_says_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let market = Market::open(ServerBehaviour::default());
    let mut plan = plan(&market, Framing::Line);
    plan.target = format!("stock://{address}").parse().expect("a target");
    let failure = load::run(&plan).expect_err("nobody listens");
    assert!(matches!(failure, Failure::Probe { .. }), "{failure}");
    assert!(failure.to_string().contains("serve stock"), "{failure}");
}

#[test]
fn a_watched_server_is_charged_for_its_work() {
    let market = Market::open(ServerBehaviour::default());
    let mut plan = plan(&market, Framing::Line);
    plan.watch = Some(std::process::id());
    let report = run(&plan);
    let server = report.server.clone().expect("this process runs");
    assert!(server.cpu_ns > 0 && server.rss_kb > 0 && server.threads > 1, "{report}");
    // The process watched is our own, so the generator's share is in it.
    assert!(report.generator.cpu_ns > 0 && report.generator.cpu_ns <= server.cpu_ns * 2);
    let json = serde_json::to_value(&report).expect("plain data");
    assert_eq!(json["schema"], "roundhouse.load/1");
    assert_eq!(json["server"]["pid"], std::process::id());
    assert_eq!(json["service"]["p50_ns"], report.service.p50_ns);
    assert!(json["service"]["p999_ns"].is_null() || report.service.count >= 100_000);
    let back: Report = serde_json::from_value(json).expect("what was written can be read");
    assert_eq!(back.requests, report.requests);
}

fn duet_plan(markets: [&Market; 2], churn: Option<u64>) -> DuetPlan {
    DuetPlan {
        parts: markets.map(|market| {
            let plan = plan(market, Framing::Line);
            ArmPlan { target: plan.target, workload: plan.workload, watch: std::process::id() }
        }),
        settings: Settings {
            connections: 4,
            requests_per_connection: churn,
            ..Settings::default()
        },
        depth: 4,
        seed: 3,
        warmup: 10 * MS,
        windows: 6,
        window: 10 * MS,
        cpu: None,
    }
}

#[test]
fn a_duet_takes_turns_and_counts_everything() {
    let markets =
        [Market::open(ServerBehaviour::default()), Market::open(ServerBehaviour::default())];
    let plan = duet_plan([&markets[0], &markets[1]], None);
    let report = Duet::new(&plan).and_then(Duet::run).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.is_right(), "{report}");
    assert_eq!(report.windows.len(), 12);
    for (pair, both) in report.windows.chunks(2).enumerate() {
        assert!(both.iter().all(|window| window.pair as usize == pair && window.requests > 0));
        assert_ne!(both[0].arm, both[1].arm);
    }
    let starts = report.windows.iter().step_by(2).filter(|window| window.arm == "a").count();
    assert!((1..6).contains(&starts), "a began {starts} of 6 pairs");
    for (arm, name) in [(&report.a, "a"), (&report.b, "b")] {
        let windows = || report.windows.iter().filter(|window| window.arm == name);
        assert_eq!(windows().map(|window| window.requests).sum::<u64>(), arm.requests);
        // Where threads have ended (here those of other tests), one difference replaces the sum.
        let sum: u64 = windows().map(|window| window.cpu_ns).sum();
        assert!(sum == arm.cpu_ns || !report.doubts.is_empty(), "{sum} {report}");
    }
    let p99s = [report.a.p99_ns, report.b.p99_ns];
    assert!(p99s.iter().all(|ns| *ns > 0 && *ns < 60_000_000_000), "{report}");
    // Both arms watch this process, in which other tests run, so the ratio may be anything.
    let each = |arm: &DuetArm| arm.cpu_ns as f64 / arm.requests as f64;
    assert!((each(&report.a) / each(&report.b) - report.ratio).abs() < 1e-9, "{report}");
    assert!((report.ratio.ln() - report.log_ratio).abs() < 1e-9, "{report}");
}

#[test]
fn a_duet_needs_drained_servers() {
    let one = || Market::open(ServerBehaviour { iterative: true, ..ServerBehaviour::default() });
    let markets = [one(), one()];
    let mut plan = duet_plan([&markets[0], &markets[1]], None);
    plan.settings.drain = 300 * MS;
    let failure = Duet::new(&plan).and_then(Duet::run).expect_err("three of four wait forever");
    assert!(failure.to_string().contains("--requests-per-connection"), "{failure}");
    let markets = [one(), one()];
    let plan = duet_plan([&markets[0], &markets[1]], Some(8));
    let report = Duet::new(&plan).and_then(Duet::run).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.is_right(), "{report}");
}

#[test]
fn a_duet_needs_two_servers() {
    let market = Market::open(ServerBehaviour::default());
    let plan = duet_plan([&market, &market], None);
    assert!(matches!(Duet::new(&plan), Err(Failure::Usage(_))));
}
