//! The generator against a market with and without misbehaviour: right replies are accepted, and
//! every misbehaviour is found and named.

mod common;

use common::{Market, Misdeed, ServerBehaviour};
use load::drive::Settings;
use load::run::{Watched, Window, Workload};
use load::script::{LineOptions, StockOptions};
use load::turns::{self, TurnsPlan};
use load::work::Think;
use load::{Failure, FaultKind, Model, Plan, Report, TurnsReport};
use std::time::Duration;
use wire::framing::Framing;

const MS: Duration = Duration::from_millis(1);

fn closed(depth: u32) -> Model {
    Model::Closed { depth, think: Think::None, ramp: None }
}

fn plan(market: &Market, framing: Framing) -> Plan {
    let target = format!("stock://{}", market.address).parse().expect("a target");
    let workload = Workload::Stock(StockOptions { framing, ..StockOptions::default() });
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
    for framing in [Framing::Line, Framing::Fixed(8192), Framing::Eof, Framing::Length] {
        let market = Market::open(ServerBehaviour { framing, ..ServerBehaviour::default() });
        let report = check_right(&market, &plan(&market, framing));
        assert_eq!(report.check.kind, "conservation");
        assert!(report.check.detail.contains("exactly"), "{}", report.check.detail);
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
    let market = Market::open(ServerBehaviour::default());
    let mut plan = plan(&market, Framing::Line);
    let target = format!("stock://127.0.0.1:{}", testkit::free_port());
    plan.target = target.parse().expect("a target");
    let failure = load::run(&plan).expect_err("nobody listens");
    assert!(matches!(failure, Failure::Probe { .. }), "{failure}");
    assert!(failure.to_string().contains("serve stock"), "{failure}");
}

#[test]
fn a_watched_server_is_charged_for_its_work() {
    let market = Market::open(ServerBehaviour::default());
    let mut plan = plan(&market, Framing::Line);
    plan.watch = Some(ourselves());
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

fn ourselves() -> Watched {
    Watched { pid: std::process::id(), group: None, place: None }
}

fn turns_plan(markets: [&Market; 2], churn: Option<u64>) -> TurnsPlan {
    let runs = markets.map(|market| Plan {
        settings: Settings {
            connections: 4,
            requests_per_connection: churn,
            ..Settings::default()
        },
        model: Model::Closed { depth: 4, think: Think::None, ramp: None },
        seed: 3,
        warmup: 10 * MS,
        watch: Some(ourselves()),
        ..plan(market, Framing::Line)
    });
    TurnsPlan { runs: runs.to_vec(), seed: 3, windows: 6, window: 10 * MS, cpu: None }
}

fn taken(plan: &TurnsPlan) -> TurnsReport {
    turns::run(plan).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn servers_take_turns_and_every_request_is_counted() {
    let markets =
        [Market::open(ServerBehaviour::default()), Market::open(ServerBehaviour::default())];
    let report = taken(&turns_plan([&markets[0], &markets[1]], None));
    assert!(report.is_right(), "{report}");
    for (turn, market) in report.turns.iter().zip(&markets) {
        let load = turn.report.as_ref().expect("it is right");
        assert!(load.target.ends_with(&market.address.port().to_string()), "{report}");
        assert_eq!(load.requests, load.service.count, "{report}");
        assert!(load.requests > 0 && load.requests_total > load.requests, "{report}");
        // Six windows of 10 ms and their drains.
        assert!(load.window_ns >= 60_000_000, "{report}");
        let rate = load.requests as f64 * 1e9 / load.window_ns as f64;
        assert!((load.throughput_rps - rate).abs() < 1.0, "{report}");
        // Both watch this process, in which other tests run, so the cost may be any.
        let server = load.server.as_ref().expect("it was watched");
        assert!(server.cpu_ns_per_request.is_some_and(|ns| ns > 0.0), "{report}");
        assert!(load.generator.busy > 0.0 && load.generator.busy < 1.5, "{report}");
    }
    // Of two windows there is no median.
    let two = TurnsPlan { windows: 2, ..turns_plan([&markets[0], &markets[1]], None) };
    let report = taken(&two);
    for turn in &report.turns {
        let load = turn.report.as_ref().expect("it is right");
        let server = load.server.as_ref().expect("it was watched");
        let each = server.cpu_ns as f64 / load.requests as f64;
        assert_eq!(server.cpu_ns_per_request, Some(each), "{report}");
    }
}

#[test]
fn a_server_that_stalls_leaves_the_rounds() {
    let one = || Market::open(ServerBehaviour { iterative: true, ..ServerBehaviour::default() });
    let markets = [one(), Market::open(ServerBehaviour::default())];
    let mut plan = turns_plan([&markets[0], &markets[1]], None);
    plan.runs[0].settings.drain = 300 * MS;
    let report = taken(&plan);
    let failure = report.turns[0].failure.as_deref().expect("three of four wait forever");
    assert!(failure.contains("--requests-per-connection"), "{failure}");
    assert!(report.turns[1].report.as_ref().is_some_and(|it| it.is_right()), "{report}");
    let markets = [one(), one()];
    let report = taken(&turns_plan([&markets[0], &markets[1]], Some(8)));
    assert!(report.is_right(), "{report}");
}

#[test]
fn two_turns_need_two_servers() {
    let market = Market::open(ServerBehaviour::default());
    let plan = turns_plan([&market, &market], None);
    assert!(matches!(turns::run(&plan), Err(Failure::Usage(_))));
}
