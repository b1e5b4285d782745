//! A completion port: never more threads step than there are tokens; a blocked thread lets another
//! run; messages between sessions arrive whole and in order; and a panic ends only its own session,
//! as on a coroutine and in a task.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Condvar, Mutex};
use std::thread;

use engines::{Assets, Report, Shape};
use seam::{Cx, Event, Limits, Out, Peer, Service, SessionId, Step};
use sys::uring::Setup;
use testkit::{PATIENCE, serve, talk};

/// Understands `id`, `tell ID TEXT`, `spin`, `job`, `panic` and `open`, a line each.
#[derive(Default)]
struct Desk {
    stepping: AtomicUsize,
    stepping_most: AtomicUsize,
    working: AtomicUsize,
    working_most: AtomicUsize,
    /// Whether jobs may end.
    gate: Mutex<bool>,
    opened: Condvar,
}

struct Job;

impl Desk {
    fn open_gate(&self) {
        *self.gate.lock().expect("nobody panics here") = true;
        self.opened.notify_all();
    }

    fn answer(&self, cx: &Cx<'_, ()>, line: &str, out: &mut Out) -> Option<Job> {
        let said = match line.split_once(' ').unwrap_or((line, "")) {
            ("id", _) => cx.me.bits().to_string(),
            ("tell", rest) => {
                let (id, text) = rest.split_once(' ').expect("a name and a text");
                let to = SessionId::from_bits(id.parse().expect("a number"));
                cx.push(to, format!("{text}\n").as_bytes()).expect("a port carries bytes");
                return None;
            }
            ("spin", _) => {
                // Long enough for other threads to come in between.
                let until = sys::clock::now_ns() + 300_000;
                while sys::clock::now_ns() < until {
                    std::hint::spin_loop();
                }
                "spun".to_owned()
            }
            ("job", _) => return Some(Job),
            ("panic", _) => panic!("as it was told"),
            _ => "what".to_owned(),
        };
        out.bytes().extend_from_slice(said.as_bytes());
        out.bytes().push(b'\n');
        None
    }
}

impl Service for Desk {
    type State = ();
    type Session = ();
    type Job = Job;
    type Outcome = ();

    fn limits(&self) -> Limits {
        Limits { input_max: 4096, output_high: 1 << 20, output_low: 1 << 18, sessions_max: 100 }
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        _session: &mut (),
        event: Event<'_, ()>,
        out: &mut Out,
    ) -> Step<Job> {
        let now = self.stepping.fetch_add(1, SeqCst) + 1;
        self.stepping_most.fetch_max(now, SeqCst);
        let _leaves = Leaves(&self.stepping);
        match event {
            Event::Bytes(input) => {
                let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
                    return Step::read(0);
                };
                let line = std::str::from_utf8(&input[..end]).expect("text");
                match self.answer(cx, line, out) {
                    Some(job) => Step::offload(end + 1, job),
                    None => Step::read(end + 1),
                }
            }
            Event::Outcome(()) => {
                out.bytes().extend_from_slice(b"done\n");
                Step::read(0)
            }
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
        }
    }

    fn work(&self, _state: &(), _job: Job) {
        let now = self.working.fetch_add(1, SeqCst) + 1;
        self.working_most.fetch_max(now, SeqCst);
        let gate = self.gate.lock().expect("nobody panics here");
        let waited = self.opened.wait_timeout_while(gate, PATIENCE, |open| !*open);
        drop(waited.expect("nobody panics here"));
        self.working.fetch_sub(1, SeqCst);
    }
}

/// Counts down, also by a panic.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A conversation by lines.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the server takes lines");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line in time");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(&format!("{line}\n"));
        self.line()
    }
}

/// A port with the given numbers of threads and tokens; `None` where the machine has no rings.
fn check(
    service: &Desk,
    (threads, running): (usize, usize),
    tune: impl FnOnce(&mut Shape),
    visit: impl FnOnce(SocketAddr),
) -> Option<Report> {
    let mut shape = Shape::preset("port", 2).expect("a preset");
    (shape.workers, shape.knobs.staff.running) = (threads, Some(running));
    tune(&mut shape);
    serve((service, &(), &Assets::default()), &shape, visit)
}

#[test]
fn never_more_threads_step_than_there_are_tokens() {
    for (threads, running) in [(4, 2), (3, 1), (2, 2)] {
        let service = Desk::default();
        let visit = |address| {
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(move || {
                        let mut client = Client::new(address);
                        (0..40).for_each(|_| assert_eq!(client.ask("spin"), "spun"));
                    });
                }
            });
        };
        if check(&service, (threads, running), |_| {}, visit).is_some() {
            let most = service.stepping_most.load(SeqCst);
            assert!((1..=running).contains(&most), "{most} stepped with {running} tokens");
            assert!(running == 1 || most == 2, "long steps ran one after the other");
        }
    }
}

#[test]
fn who_blocks_lets_another_run_and_one_thread_never_blocks() {
    for (threads, running) in [(4, 2), (4, 1), (2, 2), (2, 1)] {
        let service = Desk::default();
        let visit = |address| {
            let mut blocked: Vec<Client> = (0..5).map(|_| Client::new(address)).collect();
            blocked.iter_mut().for_each(|client| client.send("job\n"));
            for _ in 0..20 {
                assert_eq!(Client::new(address).ask("hm"), "what");
            }
            // Sessions that wait for their jobs still receive; the input is for later.
            blocked.iter_mut().for_each(|client| client.send("hm\n"));
            service.open_gate();
            for client in &mut blocked {
                assert_eq!([client.line(), client.line()], ["done", "what"]);
            }
        };
        if check(&service, (threads, running), |_| {}, visit).is_some() {
            assert_eq!(service.working_most.load(SeqCst), threads - 1, "{threads}/{running}");
        }
    }
}

/// Each client sends to the next and receives from the one before, all at once.
fn gossip(address: SocketAddr, clients: usize, words: usize) {
    let barrier = Barrier::new(clients);
    let names = Mutex::new(vec![String::new(); clients]);
    thread::scope(|scope| {
        for me in 0..clients {
            let (barrier, names) = (&barrier, &names);
            scope.spawn(move || {
                let mut client = Client::new(address);
                let name = client.ask("id");
                names.lock().expect("nobody panics")[me] = name;
                barrier.wait();
                let to = names.lock().expect("nobody panics")[(me + 1) % clients].clone();
                for batch in 0..words / 10 {
                    let lines = (0..10).map(|at| format!("tell {to} {me} {}\n", batch * 10 + at));
                    client.send(&lines.collect::<String>());
                }
                let before = (me + clients - 1) % clients;
                for word in 0..words {
                    assert_eq!(client.line(), format!("{before} {word}"), "client {me}");
                }
                barrier.wait();
            });
        }
    });
}

#[test]
fn what_sessions_tell_each_other_arrives_whole_and_in_order() {
    let small = |shape: &mut Shape| {
        shape.knobs.ring = Setup { buffers: 4, buffer_len: 64, entries: 4 };
    };
    check(&Desk::default(), (4, 2), |_| {}, |address| gossip(address, 8, 400));
    check(&Desk::default(), (3, 3), small, |address| gossip(address, 6, 200));
    check(&Desk::default(), (2, 1), |_| {}, |address| gossip(address, 6, 200));
}

#[test]
fn a_session_that_panics_ends_alone() {
    let service = Desk::default();
    let visit = |address| {
        let mut others: Vec<Client> = (0..3).map(|_| Client::new(address)).collect();
        others.iter_mut().for_each(|client| assert_eq!(client.ask("hm"), "what"));
        for _ in 0..5 {
            // The client is cut off, by an end or by a reset.
            let heard = talk(address, &[b"hm\npanic\nhm\n".to_vec()]).unwrap_or_default();
            assert!(heard.is_empty() || heard == b"what\n", "{heard:?}");
        }
        others.iter_mut().for_each(|client| assert_eq!(client.ask("hm"), "what"));
    };
    for engine in ["port", "coroutine", "tokio-local", "tokio-steal", "staged"] {
        let tune = |shape: &mut Shape| {
            if engine != "port" {
                *shape = Shape { workers: 1, ..Shape::preset(engine, 2).expect("a preset") };
            }
        };
        if let Some(report) = check(&service, (3, 2), tune, visit) {
            assert_eq!((report.accepted, report.replaced, report.forced), (8, 0, false));
        }
    }
}
