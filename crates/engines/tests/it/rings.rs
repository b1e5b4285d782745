//! Rings that are too small for their load: few tiny buffers, a short queue of completions, none of
//! the setup flags. The replies are the model's all the same.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use engines::{Assets, Fault, Report, Shape};
use memory::{Placement, Region};
use seam::laws::probe::{Menu, Probe, World, asset, expected, plain, requests};
use seam::laws::{Watched, listing};
use sys::uring::Setup;

use crate::house::{serve, talk};

/// Conversations at one time.
const LANES: u64 = 8;

/// A file with the probe's asset that has no name any more.
fn assets() -> Assets {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!("roundhouse-rings-{}-{serial}", std::process::id());
    let path = std::env::temp_dir().join(name);
    File::create(&path).and_then(|mut file| file.write_all(&asset())).expect("a temporary file");
    let mut assets = Assets::default();
    assets.add(File::open(&path).expect("written just now"));
    std::fs::remove_file(&path).expect("written just now");
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

/// The report of a house with such rings; `None` where the machine has none.
fn check(ring: Setup, probe: Probe) -> Option<Report> {
    let mut shape = Shape::preset("uring", 2).expect("a preset");
    shape.knobs.ring = ring;
    let service = Watched::new(probe, listing);
    let mut state = Region::<World>::place(Placement::Private).expect("some memory");
    state.found(&[]).expect("nothing to found");
    let served = serve((&service, &state, &assets()), &shape, |address| converse(address, 24));
    let report = match served {
        Ok(report) => report,
        Err(Fault::Ring(reason)) => {
            println!("skipped: {reason}");
            return None;
        }
        Err(fault) => panic!("{ring:?}: {fault}"),
    };
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

#[test]
fn none_of_the_flags() {
    let bare = Setup {
        single_issuer: false,
        defer_taskrun: false,
        coop_taskrun: false,
        ..Setup::default()
    };
    check(bare, Probe::default());
    check(Setup { coop_taskrun: true, ..bare }, Probe::narrow());
}
