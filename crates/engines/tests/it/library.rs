//! A user's own service, in forty lines, on every point that needs no processes.

use std::net::SocketAddr;

use engines::{Accept, Assets, Container, Fault, Knobs, Shape, Wait};
use memory::{Placement, Region};
use seam::{Cx, Event, Limits, Out, Peer, Service, Step};
use testkit::{serve, skip, talk};

/// Sends each line back in capitals; `.` ends the conversation.
struct Shout;

/// `Shout` offloads no slow work.
enum Never {}

impl Service for Shout {
    type State = ();
    type Session = ();
    type Job = Never;
    type Outcome = Never;

    fn limits(&self) -> Limits {
        Limits { input_max: 4096, output_high: 65536, output_low: 16384, sessions_max: 100 }
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, out: &mut Out) {
        out.bytes().extend_from_slice(b"HELLO\n");
    }

    fn step(
        &self,
        _cx: &Cx<'_, ()>,
        _session: &mut (),
        event: Event<'_, Never>,
        out: &mut Out,
    ) -> Step<Never> {
        let input = match event {
            Event::Bytes(input) => input,
            Event::Room | Event::Deadline => return Step::read(0),
            Event::Eof | Event::Drain => return Step::close(0),
            Event::Outcome(never) => match never {},
        };
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Step::read(0) };
        if input[..end] == *b"." {
            return Step::close(end + 1);
        }
        out.bytes().extend(input[..=end].iter().map(u8::to_ascii_uppercase));
        Step::read(end + 1)
    }

    fn work(&self, _state: &(), job: Never) -> Never {
        job
    }
}

fn shape(container: Container, accept: Accept, wait: Wait, workers: usize) -> Shape {
    Shape { container, accept, wait, workers, knobs: Knobs::default() }
}

fn check(shape: &Shape) {
    let mut state = Region::<()>::place(Placement::Private).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let visit = |address: SocketAddr| {
        for round in 0..20 {
            let lines = [b"one\ntw".to_vec(), b"o\nthr".to_vec(), b"ee\n.\nfour\n".to_vec()];
            let heard = talk(address, &lines).expect("a conversation");
            assert_eq!(heard, b"HELLO\nONE\nTWO\nTHREE\n", "{shape}, round {round}");
        }
    };
    match serve((&Shout, &state, &Assets::default()), shape, visit) {
        Ok(report) => {
            assert_eq!((report.accepted, report.replaced), (20, 0), "{shape}");
            assert!(!report.forced && report.unsaved.is_none(), "{shape}: {report:?}");
        }
        Err(Fault::Ring(_)) if matches!(shape.wait, Wait::Uring | Wait::Port) => skip("io_uring"),
        Err(fault) => panic!("{shape}: {fault}"),
    }
}

#[test]
fn a_service_of_ones_own_runs_on_every_point() {
    for wait in [Wait::Blocking, Wait::Epoll, Wait::Uring] {
        check(&shape(Container::Solo, Accept::Shared, wait, 1));
        for accept in [Accept::Shared, Accept::Reuseport] {
            check(&shape(Container::Threads, accept, wait, 3));
        }
    }
    check(&shape(Container::Threads, Accept::Shared, Wait::Port, 3));
    check(&shape(Container::Helped, Accept::Shared, Wait::Epoll, 1));
}

/// The harness has threads, so a fork from here is refused, with a message.
#[test]
fn a_process_with_threads_does_not_fork() {
    let mut state = Region::<()>::place(Placement::Shared).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let shape = shape(Container::Processes, Accept::Shared, Wait::Epoll, 2);
    let served = serve((&Shout, &state, &Assets::default()), &shape, |_| panic!("it cannot serve"));
    let fault = served.expect_err("no fork beside other threads");
    assert!(matches!(fault, Fault::Spawn(_)), "{fault}");
    assert!(fault.to_string().contains("one thread"), "{fault}");
}
