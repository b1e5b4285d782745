//! The generator against web servers with various behaviours: whatever the protocol allows is no
//! error.

use load::drive::Settings;
use load::run::{Watched, Window, Workload};
use load::script::HttpOptions;
use load::work::Think;
use load::{Arrivals, FaultKind, Model, Plan, Report, TurnsPlan, Verdict};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::{listen, listen_at};

/// The server's behaviour at the `n`-th request (from 1) of a connection: the reply, and whether it
/// closes the connection afterwards.
type ServerBehaviour = fn(u64) -> (String, bool);

struct Web {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Web {
    fn open(behaviour: ServerBehaviour) -> Self {
        Self::open_noting(behaviour, |_| {})
    }

    /// The same, with a function that is called for each connection.
    fn open_noting(behaviour: ServerBehaviour, note: fn(&TcpStream)) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let address = listen(move |socket| {
            note(&socket);
            talk(socket, behaviour, &count);
        });
        Self { address, requests }
    }
}

fn talk(mut socket: TcpStream, behaviour: ServerBehaviour, count: &AtomicU64) {
    let mut lines = BufReader::new(socket.try_clone().expect("a descriptor"));
    for n in 1.. {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if !matches!(lines.read_line(&mut line), Ok(1..)) {
                return;
            }
        }
        count.fetch_add(1, Ordering::Relaxed);
        let (reply, closes) = behaviour(n);
        if socket.write_all(reply.as_bytes()).is_err() {
            return;
        }
        if closes {
            // Unread input would turn the close into a reset that overtakes the reply.
            let _ = socket.shutdown(std::net::Shutdown::Write);
            while matches!(lines.read_line(&mut line), Ok(1..)) {}
            return;
        }
    }
}

fn plan(web: &Web, depth: u32) -> Plan {
    let target: load::Target = format!("http://{}/x", web.address).parse().expect("a target");
    let paths = vec![(target.path.clone(), 1)];
    let talk = Workload::Http(HttpOptions::get(&target.authority, paths, 1));
    Plan {
        model: Model::Closed { depth, think: Think::None, ramp: None },
        settings: Settings { connections: 3, ..Settings::default() },
        window: Window::Count(300),
        warmup: Duration::ZERO,
        ..Plan::new(target, talk)
    }
}

fn run(plan: &Plan) -> Report {
    load::run(plan).unwrap_or_else(|failure| panic!("{failure}"))
}

fn check_right(behaviour: ServerBehaviour, depth: u32) -> Report {
    let web = Web::open(behaviour);
    let report = run(&plan(&web, depth));
    assert!(report.is_right(), "{report}");
    assert_eq!((report.requests, report.response.count), (300, 300), "{report}");
    assert_eq!(report.requests_total, web.requests.load(Ordering::Relaxed), "{report}");
    report
}

fn sized(body: &str, fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

#[test]
fn a_server_may_end_connections_if_it_says_so() {
    // Every tenth reply is the last: requests pipelined after it are sent again.
    let behaviour: ServerBehaviour = |n| match n {
        10 => (sized("bye", "Connection: close\r\n"), true),
        _ => (sized("hello", ""), false),
    };
    let report = check_right(behaviour, 1);
    assert_eq!(report.repeated, 0, "{report}");
    let report = check_right(behaviour, 7);
    assert!(report.repeated > 0, "{report}");
}

#[test]
fn a_body_may_end_with_the_connection() {
    check_right(|_| ("HTTP/1.0 200 OK\r\n\r\nold".to_owned(), true), 1);
    check_right(|_| ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), true), 1);
}

#[test]
fn a_post_is_not_asked_twice() {
    let web = Web::open(|n| match n {
        10 => (sized("bye", "Connection: close\r\n"), true),
        _ => (sized("hello", ""), false),
    });
    let mut plan = plan(&web, 7);
    let Workload::Http(options) = &mut plan.workload else { panic!("HTTP is spoken") };
    options.method = "POST".to_owned();
    plan.settings.timeout = Duration::from_secs(5);
    let report = run(&plan);
    assert_eq!(report.repeated, 0, "{report}");
    assert!(report.lost > 0 && report.errors.of(FaultKind::ClosedEarly) > 0, "{report}");
    let known = report.response.count + report.failed + report.censored;
    assert_eq!(known, 300, "{report}");
}

/// The open connections of a server that is not at its turn.
static OTHERS: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());

#[test]
fn a_server_may_leave_connections_while_others_have_their_turn() {
    let hello: ServerBehaviour = |_| (sized("hello", ""), false);
    let first = Web::open_noting(hello, |socket| {
        OTHERS.lock().expect("no panic").push(socket.try_clone().expect("a descriptor"));
    });
    let second = Web::open(|_| {
        let left = std::mem::take(&mut *OTHERS.lock().expect("no panic"));
        left.iter().for_each(|socket| drop(socket.shutdown(std::net::Shutdown::Both)));
        (sized("hello", ""), false)
    });
    let span = Duration::from_millis(10);
    let watch = Some(Watched { pid: std::process::id(), group: None, place: None });
    let runs = [&first, &second].map(|web| Plan {
        warmup: span,
        watch: watch.clone(),
        window: Window::For(span),
        ..plan(web, 1)
    });
    let turns = TurnsPlan { runs: runs.to_vec(), seed: 3, windows: 6, window: span, cpu: None };
    let report = load::turns::run(&turns).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.is_right(), "{report}");
    assert!(report.turns.iter().all(|turn| turn.report.as_ref().is_some_and(|it| it.lost == 0)));
}

#[test]
fn a_close_after_a_rest_is_no_fault() {
    let leaves: ServerBehaviour = |n| match n {
        1 => (sized("hello", ""), false),
        _ => (String::new(), true),
    };
    let check = |think| {
        let web = Web::open(leaves);
        let mut plan = plan(&web, 1);
        plan.model = Model::Closed { depth: 1, think, ramp: None };
        plan.window = Window::Count(9);
        run(&plan)
    };
    let report = check(Think::Fixed(Duration::from_millis(1100)));
    assert!(report.is_right() && report.repeated > 0, "{report}");
    let report = check(Think::None);
    assert!(report.errors.of(FaultKind::ClosedEarly) > 0 && report.repeated == 0, "{report}");
}

/// Checks that an erroneous behaviour leads to at most this many right replies, and to an example.
fn check_wrong(behaviour: ServerBehaviour, kind: FaultKind, part: &str) {
    let web = Web::open(behaviour);
    let mut plan = plan(&web, 1);
    plan.window = Window::For(Duration::from_millis(100));
    plan.settings.timeout = Duration::from_millis(300);
    plan.settings.drain = Duration::from_millis(600);
    let report = run(&plan);
    assert!(!report.is_right() && report.errors.of(kind) > 0, "{report}");
    // The report is folded to the width of a terminal.
    let text = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(part), "expected {part:?} in {text}");
}

#[test]
fn wrong_replies_are_errors_with_an_example() {
    let status = |_| ("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned(), false);
    check_wrong(status, FaultKind::WrongReply, "expected status 200 to 399, found 503");
    let garbage = |_| ("220 mail.example ESMTP\r\n".to_owned(), false);
    check_wrong(garbage, FaultKind::WrongReply, "expected a reply of HTTP/1");
    let short = |_| ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_owned(), true);
    check_wrong(short, FaultKind::ClosedEarly, "replies missing");
    let short = |_| ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_owned(), false);
    check_wrong(short, FaultKind::Timeout, "timed out");
    let long = |_| ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlonger".to_owned(), false);
    check_wrong(long, FaultKind::UnaskedBytes, "unrequested");
}

fn requests(target: &str) -> Plan {
    let target: load::Target = target.parse().expect("a target");
    let options = HttpOptions::get(&target.authority, vec![("/".to_owned(), 1)], 1);
    let mut plan = Plan::new(target, Workload::Http(options));
    plan.warmup = Duration::ZERO;
    plan.settings.connections = 1;
    plan.settings.timeout = Duration::from_millis(300);
    plan.settings.drain = Duration::from_millis(600);
    plan
}

/// The time limit is that of the whole reply, not of its next byte.
#[test]
fn a_reply_that_drips_is_a_timeout() {
    let drip = |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let address = listen(drip);
    let mut plan = requests(&format!("http://{address}/"));
    plan.window = Window::Count(2);
    let (begin, report) = (Instant::now(), run(&plan));
    assert!(begin.elapsed() < Duration::from_secs(60), "a run by count ends");
    assert_eq!((report.errors.of(FaultKind::Timeout), report.lost), (2, 2), "{report}");
}

/// No reply is no time of zero, and all of the errors.
#[test]
fn without_a_reply_there_is_no_time() {
    let address = listen(|_stream| {
        loop {
            std::thread::park();
        }
    });
    let mut plan = requests(&format!("http://{}/", address));
    plan.window = Window::For(Duration::from_millis(200));
    plan.slo = Some("errors < 1%, mean < 1s, p50 < 1s".parse().expect("an objective"));
    let report = run(&plan);
    let json = serde_json::to_value(&report).expect("plain data");
    for times in ["response", "service", "lateness"] {
        for name in ["p50_ns", "p90_ns", "p99_ns", "max_ns", "mean_ns"] {
            assert!(json[times][name].is_null(), "{times} {name}: {json}");
        }
    }
    assert_eq!(json["slo"][0]["value"], 1.0, "{json}");
    assert!(!report.meets_slo());
    let text = report.to_string();
    assert!(text.contains("errors < 1% MISSED: 100.0000 % were"), "{text}");
    assert!(text.contains("mean < 1s MISSED: no request has a time"), "{text}");
}

/// A server on another address of its name is found.
#[test]
fn the_next_address_of_a_name_is_tried() {
    let answer = |mut stream: TcpStream| {
        while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
            let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n");
        }
    };
    let Ok(address) = listen_at((Ipv6Addr::LOCALHOST, 0), answer) else {
        println!("skipped: this machine has no IPv6");
        return;
    };
    let target = format!("http://localhost:{}/", address.port());
    if !sys::resolve::addresses(&target[7..target.len() - 1]).is_ok_and(|it| it.contains(&address))
    {
        println!("skipped: localhost is not ::1 here");
        return;
    }
    let mut plan = requests(&target);
    plan.window = Window::Count(3);
    let report = run(&plan);
    assert_eq!((report.requests, report.statuses.get(&302)), (3, Some(&3)), "{report}");
    // A dead port names every address that was tried.
    let mut plan = requests("http://localhost:1/");
    plan.window = Window::Count(1);
    let failure = load::run(&plan).expect_err("nothing listens there").to_string();
    assert!(failure.contains("127.0.0.1:1") && failure.contains("[::1]:1"), "{failure}");
    assert!(failure.contains("start one"), "{failure}");
}

/// A generator that cannot keep a schedule ends with it, and says so.
#[test]
fn a_schedule_that_is_too_fast_ends_in_time() {
    let web = Web::open(|_| ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false));
    let mut plan = requests(&format!("http://{}/", web.address));
    plan.settings.outstanding_max = 10;
    plan.window = Window::For(Duration::from_millis(100));
    plan.model = Model::Open { rate: 1e9, arrivals: Arrivals::Constant, depth: 1 };
    let (begin, report) = (Instant::now(), run(&plan));
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(report.health.verdict, Verdict::Invalid, "{report}");
    assert!(report.doubts.iter().any(|it| it.contains("behind its schedule")), "{report}");
}

/// Events between two phases are no stall.
#[test]
fn a_phase_begins_without_a_stall() {
    let web = Web::open(|_| (sized("hello", ""), false));
    let mut plan = plan(&web, 1);
    plan.warmup = Duration::from_millis(50);
    plan.window = Window::For(Duration::from_millis(100));
    let (begin, report) = (Instant::now(), run(&plan));
    assert!(report.health.stalled_ns <= begin.elapsed().as_nanos() as u64, "{report}");
}

/// Each request has one row: right, wrong, and lost with its connection.
#[test]
fn every_request_is_a_row_of_the_file() {
    let web = Web::open(|n| match n {
        5 => ("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(), false),
        9 => (String::new(), true),
        _ => (sized("hello", ""), false),
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut plan = plan(&web, 1);
    plan.requests_csv = Some(folder.path().join("rows"));
    let report = run(&plan);
    let text = std::fs::read_to_string(folder.path().join("rows")).expect("the file");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    let column = |name: &str| rows[0].iter().position(|it| *it == name).expect("a column");
    let count = |name: &str, value: &str| {
        rows.iter().filter(|row| row[column(name)] == value).count() as u64
    };
    assert_eq!(count("status", "200"), report.statuses[&200], "{report}");
    assert_eq!(count("error_code", "1500"), report.statuses[&500], "{report}");
    assert_eq!((count("status", "0"), report.lost > 0), (report.lost, true), "{report}");
    let closed = "connections closed early";
    assert_eq!(count("error", closed), report.errors.of(FaultKind::ClosedEarly), "{report}");
    assert_eq!(count("expected_response", "true"), report.requests, "{report}");
    let url = format!("http://{}/x", web.address);
    assert_eq!(count("url", &url), rows.len() as u64 - 1, "{text}");
    plan.requests_csv = Some(folder.path().join("no/rows"));
    let failure = load::run(&plan).expect_err("no such folder").to_string();
    assert!(failure.contains("cannot write") && failure.contains("no/rows"), "{failure}");
}

/// Kinds that cannot be counted in bounded memory are refused before the run.
#[test]
fn too_many_kinds_are_refused() {
    let address = listen(drop);
    let mut plan = requests(&format!("http://{address}/"));
    let paths = (0..40_000).map(|at| (format!("/{at}"), 1)).collect();
    plan.workload = Workload::Http(HttpOptions::get("a", paths, 1));
    (plan.settings.detailed, plan.threads, plan.settings.connections) = (true, 2, 2);
    let failure = load::run(&plan).expect_err("80,000 kinds").to_string();
    assert!(failure.contains("at most 16384") && failure.contains("fewer threads"), "{failure}");
}
