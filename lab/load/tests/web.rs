//! The generator against web servers with various behaviours: whatever the protocol allows is no
//! error.

use load::drive::Settings;
use load::run::{Window, Workload};
use load::script::HttpOptions;
use load::work::Think;
use load::{FaultKind, Model, Plan, Report};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The server's behaviour at the `n`-th request (from 1) of a connection: the reply, and whether it
/// closes the connection afterwards.
type ServerBehaviour = fn(u64) -> (String, bool);

struct Web {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Web {
    fn open(behaviour: ServerBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let count = Arc::clone(&count);
                thread::spawn(move || talk(socket, behaviour, &count));
            }
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
