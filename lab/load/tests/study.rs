//! The clients of a published study: connecting apart from the response, guests, the first failure,
//! replies that are not HTTP.

use load::drive::Guests;
use load::run::{Window, Workload};
use load::script::HttpOptions;
use load::{FaultKind, Plan, Report};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers one request of each connection and closes it; the probe is the first
/// connection, and `most` connections later it closes all without an answer.
fn open(reply: &'static str, most: usize) -> SocketAddr {
    let connections = Arc::new(AtomicUsize::new(0));
    testkit::listen(move |mut peer| {
        let number = connections.fetch_add(1, Ordering::Relaxed);
        // The probe sends nothing, and clients may leave.
        if number <= most && peer.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
            let _ = peer.write_all(reply.as_bytes());
        }
    })
}

fn run(address: SocketAddr, change: impl FnOnce(&mut Plan, &mut HttpOptions)) -> Report {
    let target: load::Target = format!("http://{address}/").parse().expect("a target");
    let mut http = HttpOptions::get(&target.authority, vec![("/".to_owned(), 1)], 1);
    let mut plan = Plan::new(target, Workload::Echo);
    plan.settings.connections = 1;
    plan.settings.requests_per_connection = Some(1);
    plan.settings.connect_apart = true;
    (plan.warmup, plan.window) = (Duration::ZERO, Window::For(200 * MS));
    change(&mut plan, &mut http);
    plan.workload = Workload::Http(http);
    load::run(&plan).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn connecting_has_a_clock_of_its_own() {
    let report = run(open(WHOLE, usize::MAX), |_, _| {});
    let connect = report.connect.as_ref().expect("it was asked for");
    assert!(report.is_right() && report.requests > 10, "{report}");
    assert_eq!(report.service.count, report.response.count);
    assert!(connect.count >= report.service.count && connect.mean_ns > 0.0, "{report}");
    // The response includes connecting, which the service time leaves out.
    assert!(report.response.mean_ns > report.service.mean_ns, "{report}");
    assert_eq!((report.retries, report.malformed, &report.first_failure), (0, 0, &None));
}

#[test]
fn guests_are_away_at_first() {
    let stay = 150 * MS;
    let report = run(open(WHOLE, usize::MAX), |plan, _| {
        plan.settings.guests = Some(Guests { count: 1, stay });
        plan.window = Window::For(2 * stay);
    });
    let away = report.timeline.iter().filter(|slice| slice.at_ms + slice.for_ms < 140.0);
    assert_eq!(away.map(|slice| slice.requests).sum::<u64>(), 0, "{report}");
    assert!(report.is_right() && report.requests > 0, "{report}");
}

#[test]
fn the_load_ends_at_the_first_failure() {
    let report = run(open(WHOLE, 7), |plan, _| {
        plan.settings.until_failure = true;
        plan.window = Window::For(Duration::from_secs(20));
    });
    let first = report.first_failure.as_ref().expect("the eighth got no answer");
    assert_eq!((first.after_requests, first.users), (7, 1), "{report}");
    assert!(matches!(first.kind, FaultKind::ClosedEarly | FaultKind::Reset), "{report}");
    assert!(report.window_ns < 5_000_000_000, "{report}");
}

#[test]
fn replies_that_are_no_http_are_taken_if_asked_for() {
    let bare = "HTTP/1.1 200 OK\r\nGET / HTTP/1.1\r\n";
    for reply in [bare, "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]
    {
        let report = run(open(reply, usize::MAX), |_, http| http.takes_malformed = true);
        assert!(report.is_right() && report.requests > 0, "{reply:?}: {report}");
        assert_eq!(report.malformed, report.requests, "{reply:?}");
        assert!(!run(open(reply, usize::MAX), |_, _| {}).is_right(), "{reply:?}");
    }
    let gone = "HTTP/1.1 404 Gone\r\n";
    assert!(!run(open(gone, usize::MAX), |_, http| http.takes_malformed = true).is_right());
}
