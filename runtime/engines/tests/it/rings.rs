//! Rings that are too small for their load: few tiny buffers, a short queue of completions. The
//! replies equal the model's in every case.

use std::net::SocketAddr;
use std::thread;

use engines::{Assets, Report, Shape};
use memory::Region;
use sim::laws::probe::{Menu, Probe, World, asset, expected, plain, requests};
use sim::laws::{Watched, listing};
use sys::uring::Setup;
use testkit::{nameless, serve, talk};

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
    // A ring for each of two workers, and one for both of them.
    let alone = check_engine("uring", ring, probe.clone())?;
    let shared = check_engine("port", ring, probe)?;
    Some(Report { starved: alone.starved.min(shared.starved), ..alone })
}

fn check_engine(engine: &str, ring: Setup, probe: Probe) -> Option<Report> {
    let mut shape = Shape::preset(engine, 2).expect("a preset");
    shape.knobs.ring = ring;
    let service = Watched::new(probe, listing);
    let state = Region::<World>::alone(&[]);
    let report = serve((&service, &state, &assets()), &shape, |address| converse(address, 24))?;
    assert_eq!(service.violations(), [], "{ring:?}");
    assert_eq!(service.open_now(), 0, "{ring:?}");
    assert_eq!((report.accepted, report.replaced, report.forced), (24, 0, false), "{ring:?}");
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
