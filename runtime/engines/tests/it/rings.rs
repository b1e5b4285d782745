//! Rings that are too small for their load: few tiny buffers, a short queue of completions, none of
//! the flags; and every other tactic of a ring. The replies equal the model's in every case.

use std::net::SocketAddr;
use std::thread;

use engines::{AcceptBy, Assets, CloseBy, Fault, RecvBy, Report, SendBy, Shape, Tactics};
use memory::{Placement, Region};
use sim::laws::probe::{Menu, Probe, World, asset, expected, plain, requests};
use sim::laws::{Watched, listing};
use sys::uring::{Flag, Flags, Setup};
use testkit::{nameless, serve, skip, talk};

/// Conversations at once.
const LANES: u64 = 8;

/// A file with the probe's asset that has no name any more.
fn assets() -> Assets {
    let mut assets = Assets::default();
    assets.add(nameless(&asset()));
    assets
}

/// Long scripts from many clients at once, each in pieces.
fn converse(address: SocketAddr, seeds: u64) {
    let menu = Menu { lines_max: 400, wait_ms_max: 3, files: true, endings: false };
    thread::scope(|scope| {
        for lane in 0..LANES {
            scope.spawn(move || {
                for seed in (0..seeds).filter(|seed| seed % LANES == lane) {
                    let script = requests(seed, 200, menu);
                    let pieces: Vec<Vec<u8>> =
                        script.chunks(1 + 997 * seed as usize % 3000).map(Vec::from).collect();
                    let heard = plain(&talk(address, &pieces).expect("a conversation"));
                    assert!(heard == expected(&script), "seed {seed}: {} bytes", heard.len());
                }
            });
        }
    });
}

/// The report of a server with the given rings; `None` where the machine has none.
fn check(ring: Setup, probe: Probe) -> Option<Report> {
    check_tactics(ring, Tactics::default(), probe)
}

fn check_tactics(ring: Setup, tactics: Tactics, probe: Probe) -> Option<Report> {
    // A ring for each of two workers, and one for both of them.
    let alone = check_engine("uring", ring, tactics, probe.clone())?;
    let shared = check_engine("port", ring, tactics, probe)?;
    Some(Report { starved: alone.starved.min(shared.starved), ..alone })
}

fn check_engine(engine: &str, ring: Setup, tactics: Tactics, probe: Probe) -> Option<Report> {
    let mut shape = Shape::preset(engine, 2).expect("a preset");
    (shape.knobs.ring, shape.knobs.tactics) = (ring, tactics);
    let service = Watched::new(probe, listing);
    let mut state = Region::<World>::place(Placement::Private).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let served = serve((&service, &state, &assets()), &shape, |address| converse(address, 24));
    let report = match served {
        Ok(report) => report,
        Err(Fault::Ring(_)) => {
            skip("io_uring");
            return None;
        }
        Err(fault) => panic!("{ring:?}: {fault}"),
    };
    let how = (ring, tactics);
    assert_eq!(service.violations(), [], "{how:?}");
    assert_eq!(service.open_now(), 0, "{how:?}");
    assert_eq!((report.accepted, report.replaced, report.forced), (24, 0, false), "{how:?}");
    Some(report)
}

#[test]
fn two_buffers_of_64_bytes() {
    let ring = Setup { buffers: 2, buffer_len: 64, ..Setup::default() };
    for probe in [Probe::default(), Probe::narrow()] {
        if let Some(report) = check(ring, probe) {
            assert!(report.starved > 0, "no receive ever found the ring empty: {report:?}");
        }
    }
}

#[test]
fn a_queue_of_two_entries() {
    let ring = Setup { entries: 2, ..Setup::default() };
    check(ring, Probe::default());
    check(Setup { buffers: 1, buffer_len: 32, ..ring }, Probe::narrow());
}

#[test]
fn none_of_the_flags() {
    let bare = Setup { flags: Flags::NONE, ..Setup::default() };
    check(bare, Probe::default());
    check(Setup { flags: Flags::NONE.with(Flag::CoopTaskrun), ..bare }, Probe::narrow());
}

#[test]
fn every_way_to_receive_send_accept_and_close() {
    let small = Setup { buffers: 2, buffer_len: 64, ..Setup::default() };
    for recv in [RecvBy::Once, RecvBy::Own] {
        let tactics = Tactics { recv, ..Tactics::default() };
        check_tactics(small, tactics, Probe::narrow());
        let flags = Flags::ALL.without(Flag::PollFirst);
        check_tactics(Setup { flags, ..small }, tactics, Probe::default());
    }
    for accept in [AcceptBy::Once, AcceptBy::Poll] {
        let tactics = Tactics {
            recv: RecvBy::Own,
            send: SendBy::Call,
            accept: Some(accept),
            close: CloseBy::Call,
        };
        check_tactics(Setup::default(), tactics, Probe::narrow());
        let tactics = Tactics { recv: RecvBy::Ring, ..tactics };
        check_tactics(small, tactics, Probe::default());
    }
}

/// A session with its own buffer never finds the ring empty.
#[test]
fn own_buffers_do_not_run_out() {
    let tactics = Tactics { recv: RecvBy::Own, ..Tactics::default() };
    let none = Setup { buffers: 0, ..Setup::default() };
    if let Some(report) = check_tactics(none, tactics, Probe::default()) {
        assert_eq!(report.starved, 0);
    }
}
