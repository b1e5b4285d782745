//! The crew against a server of this file: its reports match the server's counts.

use super::*;
use crate::crew::{Batch, Health};
use crate::message::Options;
use rmpv::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The limit for steps that take less than a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers every line and counts them.
fn server() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound above");
    let answered = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&answered);
    let serve = |mut stream: TcpStream, answered: Arc<AtomicU64>| {
        let lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
        for line in lines.map_while(Result::ok) {
            assert_eq!(line, "PING");
            answered.fetch_add(1, Ordering::SeqCst);
            if stream.write_all(b"+PONG\r\n").is_err() {
                return;
            }
        }
    };
    // The threads end with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answered = Arc::clone(&shared);
            std::thread::spawn(move || serve(stream, answered));
        }
    });
    (address, answered)
}

struct Rig {
    load_crew: LoadCrew,
    news: UnboundedReceiver<CrewEvent>,
    batches: Vec<Batch>,
    problems: Vec<Problem>,
}

impl Rig {
    fn new() -> Self {
        let (events, news) = unbounded_channel();
        Self {
            load_crew: LoadCrew::new(EventSender(events)),
            news,
            batches: vec![],
            problems: vec![],
        }
    }

    fn set_targets(&mut self, host: SocketAddr, users: u64, fields: &[(&str, Value)]) -> u64 {
        let options = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.load_crew.set_targets(UserTargets {
            users: Users::from([("LineUser".to_owned(), users)]),
            host: Some(format!("line://{host}")),
            options: Options(options.collect()),
            stop_timeout: Duration::ZERO,
            fresh: true,
            index: 0,
        });
        let settled = self.hear_until(|news| matches!(news, CrewEvent::Settled(_)));
        let CrewEvent::Settled(users) = settled else { unreachable!("awaited above") };
        users["LineUser"]
    }

    /// Receives until an event matches, and keeps the others.
    fn hear_until(&mut self, is_it: impl Fn(&CrewEvent) -> bool) -> CrewEvent {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "expected news, heard {:?}", self.batches.last());
            let Ok(news) = self.news.try_recv() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            if is_it(&news) {
                return news;
            }
            match news {
                CrewEvent::Batch(batch) => self.batches.push(*batch),
                CrewEvent::Problem(problem) => self.problems.push(problem),
                CrewEvent::Settled(_) | CrewEvent::Halted | CrewEvent::Log(..) => {}
            }
        }
    }

    fn work(&mut self, done: u64) {
        let before = self.done();
        while self.done() < before + done {
            let CrewEvent::Batch(batch) =
                self.hear_until(|news| matches!(news, CrewEvent::Batch(_)))
            else {
                unreachable!("awaited above")
            };
            self.batches.push(*batch);
        }
    }

    fn halt(&mut self, patience: Duration) {
        self.load_crew.halt(patience);
        self.hear_until(|news| matches!(news, CrewEvent::Halted));
    }

    fn done(&self) -> u64 {
        self.rows().map(|row| row.done).sum()
    }

    fn rows(&self) -> impl Iterator<Item = &crate::crew::Row> {
        self.batches.iter().flat_map(|batch| &batch.rows)
    }

    fn last(&self) -> &Health {
        &self.batches.last().expect("a batch").health
    }
}

#[test]
fn users_come_and_go_and_every_reply_is_told() {
    let (host, answered) = server();
    let mut rig = Rig::new();
    for (test, users) in [(1, [3, 8, 1]), (2, [1, 2, 4])] {
        for users in users {
            assert_eq!(rig.set_targets(host, users, &[("think", "1ms".into())]), users);
            rig.work(20);
        }
        rig.halt(PATIENCE);
        assert_eq!(rig.done(), answered.load(Ordering::SeqCst), "after test {test}");
    }
    assert_eq!(rig.problems, []);
    for row in rig.rows() {
        assert_eq!((row.method.as_str(), row.name.as_str(), row.failed), ("LINE", "line", 0));
        assert_eq!(row.times.iter().map(|&(_, count)| count).sum::<u64>(), row.done);
        assert_eq!(row.bytes, row.done * 7);
    }
    assert_eq!((rig.last().model.as_str(), rig.last().outstanding), ("closed", 0));
}

#[test]
fn in_the_open_model_users_are_a_rate() {
    let (host, answered) = server();
    let mut rig = Rig::new();
    let fields = [
        ("model", "open".into()),
        ("rate_per_user", 50.into()),
        ("arrivals", "constant".into()),
        ("connections", 2.into()),
    ];
    rig.set_targets(host, 4, &fields);
    rig.work(100);
    assert_eq!((rig.last().model.as_str(), rig.last().offered), ("open", 200.0));
    assert!(rig.batches.iter().any(|batch| !batch.health.tardiness.is_empty()));
    rig.set_targets(host, 2, &fields);
    rig.work(50);
    assert_eq!(rig.last().offered, 100.0);
    rig.halt(PATIENCE);
    assert_eq!(rig.done(), answered.load(Ordering::SeqCst));
}

#[test]
fn in_the_partly_open_model_users_are_a_rate_of_sessions() {
    let (host, answered) = server();
    let mut rig = Rig::new();
    let fields = [
        ("model", "sessions".into()),
        ("rate_per_user", 10.into()),
        ("session_requests", 5.into()),
        ("arrivals", "constant".into()),
        ("connections", 8.into()),
    ];
    rig.set_targets(host, 2, &fields);
    rig.work(100);
    assert_eq!((rig.last().model.as_str(), rig.last().offered), ("sessions", 100.0));
    assert!(rig.batches.iter().any(|batch| !batch.health.tardiness.is_empty()));
    rig.halt(PATIENCE);
    // Sessions begun before the test was stopped have sent all their requests.
    assert_eq!((rig.done(), rig.done() % 5), (answered.load(Ordering::SeqCst), 0));
}

#[test]
fn fields_that_change_make_other_users() {
    let (host, answered) = server();
    let mut rig = Rig::new();
    rig.set_targets(host, 2, &[("think", "1ms".into())]);
    rig.work(10);
    rig.set_targets(host, 2, &[("think", "2ms".into()), ("depth", 3.into())]);
    rig.work(10);
    rig.halt(PATIENCE);
    assert_eq!(rig.done(), answered.load(Ordering::SeqCst));
}

#[test]
fn who_has_no_server_or_no_sense_is_told_why() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed_port = listener.local_addr().expect("bound above");
    drop(listener);
    let mut rig = Rig::new();
    assert_eq!(rig.set_targets(closed_port, 3, &[]), 0);
    assert_eq!(rig.set_targets(closed_port, 3, &[("depth", "deep".into())]), 0);
    rig.halt(Duration::ZERO);
    let [refused, senseless] = &rig.problems[..] else { panic!("two: {:?}", rig.problems) };
    assert!(refused.what.to_lowercase().contains("refused"), "{refused:?}");
    assert!(senseless.what.contains("depth"), "{senseless:?}");
    assert_eq!(rig.batches, []);
}

#[test]
fn a_halt_without_patience_waits_for_nobody() {
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut rig = Rig::new();
    rig.set_targets(deaf.local_addr().expect("bound above"), 3, &[("depth", 2.into())]);
    let begun = Instant::now();
    while rig.batches.last().is_none_or(|batch| batch.health.outstanding < 6) {
        assert!(begun.elapsed() < PATIENCE, "expected unanswered requests");
        let CrewEvent::Batch(batch) = rig.hear_until(|news| matches!(news, CrewEvent::Batch(_)))
        else {
            unreachable!("awaited above")
        };
        rig.batches.push(*batch);
    }
    rig.halt(Duration::ZERO);
    assert_eq!((rig.last().unanswered, rig.done()), (6, 0));
}
