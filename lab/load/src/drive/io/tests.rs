//! A ramp of ten hours in virtual time: what a driver keeps does not grow.

use super::*;
use crate::arrive::ArrivalProcess;
use crate::drive::Parts;
use crate::model::Arrivals;
use crate::script::{Http, HttpOptions};
use crate::snapshot::{Board, Phase};
use crate::stages::Stages;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use std::time::Duration;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const BAD: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
/// The longest of the times; it occurs early, so that no histogram is widened later (ns).
const SLOWEST: u64 = 50_000_000;

/// A driver of three kinds of requests, without a server.
fn driver(stages: Arc<Stages>) -> Driver {
    let paths = [("/a", 8), ("/b", 1), ("/c", 1)].map(|(path, weight)| (path.to_owned(), weight));
    let http = Http::new(HttpOptions::get("a:1", paths.to_vec(), 1), 1).expect("a script");
    let settings = crate::drive::Settings { connections: 1, detailed: true, ..Default::default() };
    Driver::new(Parts {
        addresses: Vec::new(),
        unix: None,
        sources: Vec::new(),
        tls: None,
        settings,
        arrive: ArrivalProcess::staged(stages, Arrivals::Poisson, 7, (0, 1)),
        presence: None,
        work: Work::Shared { depth: 1 },
        script: Box::new(http),
        seed: 7,
        scheduled: true,
    })
    .expect("a generator")
}

/// Sends each arrival before `end`, and receives its reply, by a clock that only this moves.
fn advance(driver: &mut Driver, end: Instant, random: &mut Pcg64Mcg) {
    while let Some(due) = driver.arrivals.arrive.due().filter(|&due| due < end) {
        driver.arrivals.arrive.advance();
        let draw = random.next_u64();
        let (late, took) = (draw % 100_000, 100_000 << (draw >> 60));
        let now = due + Duration::from_nanos(late);
        driver.record.tally.arrived += 1;
        driver.record.tally.tardiness.record(late, 1);
        driver.record.recorder.noticed(late);
        driver.append(0, 1, due, now);
        driver.links[0].unsent.clear();
        let done = now + Duration::from_nanos(took.min(SLOWEST));
        let reply = if draw.is_multiple_of(20) { BAD } else { OK };
        driver.net.buffer[..reply.len()].copy_from_slice(reply);
        let replies = driver.feed_script(0, reply.len());
        driver.credit(0, replies, done);
        driver.note_failure(done);
        if driver.record.recorder.is_due(done) {
            driver.snapshot(done);
        }
    }
}

#[test]
fn what_is_kept_does_not_grow_in_ten_hours() {
    let stages: Arc<Stages> = Arc::new("1h:20/s,8h:20/s,1h:0/s".parse().expect("stages"));
    let (mut driver, mut random) = (driver(Arc::clone(&stages)), Pcg64Mcg::seed_from_u64(7));
    // Nobody reads the board, which is the worst case.
    let (board, start) = (Board::default(), now());
    driver.publish_to(&board, 0);
    driver.enter(Phase::Window, start);
    driver.start_at(start);
    let (mut held, mut most) = (0, Vec::new());
    for hour in 1..=10 {
        let end = start + Duration::from_secs(hour * 3_600);
        let grown = allocation_counter::measure(|| advance(&mut driver, end, &mut random));
        most.push(held + grown.bytes_max as i64);
        held += grown.bytes_current;
    }
    let answered = driver.counts.answered;
    let expected = stages.mean() * stages.span().as_secs_f64();
    // Five standard deviations of a Poisson count.
    assert!((answered as f64 - expected).abs() < 5.0 * expected.sqrt(), "{answered}");
    let later = most[1..].iter().max().expect("nine hours");
    assert!(*later <= most[0] + most[0] / 100, "bytes by hours: {most:?}");
    // A byte for each request would have been seen.
    assert!(most[0] / 100 < answered as i64, "bytes by hours: {most:?}");
    let tally = driver.take_tally();
    let slices = driver.take_timeline().expect("a window").slices(36_000_000_000_000);
    let (right, wrong) = (tally.done, tally.wrong);
    assert_eq!((right + wrong, slices.iter().map(|it| it.requests).sum()), (answered, right));
    assert_eq!(board.take().iter().map(|it| it.done + it.failed).sum::<u64>(), answered);
}
