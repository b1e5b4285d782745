//! A service that panics costs only its worker, in every container: the others continue, the
//! supervisor starts a new one, and no frame of the supervisor is left twice. The usual harness has
//! threads and cannot fork, so this test is its own program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engines::{Accept, Assets, Container, Control, Knobs, Shape, Wait};
use memory::Region;
use seam::{Cx, Event, Limits, Out, Peer, Service, Share, Step};
use sys::process::{self, Pid};
use sys::signal::Signal;
use testkit::{apart, has_uring};

/// The number of panics that the client causes.
const BOOMS: u64 = 3;
/// Workers; one of them may be dying.
const WORKERS: usize = 2;

/// Answers each line by `ok`, and `boom` by a panic.
struct Bomb;

/// A count that all workers see: how often a copy of the supervisor's frames was left.
#[derive(Default)]
struct Left(AtomicU64);

// SAFETY: one atomic: zero is a valid value, there is no pointer and no destructor.
unsafe impl Share for Left {}

enum Never {}

impl Service for Bomb {
    type State = Left;
    type Session = ();
    type Job = Never;
    type Outcome = Never;

    fn limits(&self) -> Limits {
        Limits { input_max: 4096, output_high: 4096, output_low: 1024, sessions_max: 100 }
    }

    fn open(&self, _cx: &Cx<'_, Left>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        _cx: &Cx<'_, Left>,
        _session: &mut (),
        event: Event<'_, Never>,
        out: &mut Out,
    ) -> Step<Never> {
        match event {
            Event::Bytes(b"boom\n") => panic!("set off"),
            Event::Bytes(input) => {
                out.bytes().extend_from_slice(b"ok\n");
                Step::read(input.len())
            }
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Outcome(never) => match never {},
        }
    }

    fn work(&self, _state: &Left, job: Never) -> Never {
        job
    }
}

/// Counts its end if it ends in another process than it began in.
struct Frame<'a>(Pid, &'a Left);

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.1.0.fetch_add(u64::from(process::this() != self.0), Ordering::Relaxed);
    }
}

/// Sends `line` and returns the answer; empty where the connection was lost.
fn ask(address: SocketAddr, line: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server is open");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream.write_all(line.as_bytes()).expect("a fresh connection takes a line");
    let mut answer = [0; 3];
    match stream.read_exact(&mut answer) {
        Ok(()) => String::from_utf8_lossy(&answer).into_owned(),
        Err(_) => String::new(),
    }
}

/// The client's life: causes a panic from time to time, and stops the server in the end.
fn visit(address: SocketAddr, server: Pid) {
    for _ in 0..BOOMS {
        assert_eq!(ask(address, "boom\n"), "");
        for _ in 0..10 {
            assert_eq!(ask(address, "hello\n"), "ok\n");
        }
    }
    process::kill(server, Signal::TERM).expect("the server stands");
}

fn check(container: Container, wait: Wait) {
    let accept = Accept::Shared;
    let shape = Shape { container, accept, wait, workers: WORKERS, knobs: Knobs::default() };
    println!("{shape}");
    let mut state = Region::<Left>::place(shape.placement()).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let control = Control::new().expect("a descriptor");
    let assets = Assets::default();
    let server = apart::server((&Bomb, &*state, &assets), &control);
    let _frame = Frame(process::this(), &state);
    let report = apart::run(&server, &shape);
    // The supervisor may notice the last death only when the server drains already, and then does
    // not replace the worker.
    assert!((BOOMS - 1..=BOOMS).contains(&report.replaced), "{shape}: {report:?}");
    assert!(!report.forced, "{shape}");
    assert_eq!(state.0.load(Ordering::Relaxed), 0, "{shape}: a worker left by our frames");
}

fn main() {
    if let Some((address, server)) = apart::visited() {
        return visit(address, server);
    }
    for container in [Container::Processes, Container::Threads] {
        for wait in [Wait::Blocking, Wait::Epoll, Wait::Uring] {
            if wait != Wait::Uring || has_uring() {
                check(container, wait);
            }
        }
    }
}
