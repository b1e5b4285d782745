//! Trials of senders, as the museum starts them. The tests check counts, never speeds.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::machine::Placement;
use lab::pace::{Around, Company, Reading, Trial, Work};

use crate::harness::BINARY;

fn tried(sender: &str, (streams, packets, gap_us): (u32, u32, u64), company: Company) -> Reading {
    let work = Work { streams, packets, gap_us, file: true, ..Work::default() };
    let cores = Placement::choose().map(|placement| placement.cores(false));
    let around = Around { cores, company, ..Around::default() };
    let trial = Trial { exe: Path::new(BINARY), sender, work, around };
    trial.run(&AtomicBool::new(false)).expect("it works everywhere")
}

#[test]
fn a_trial_counts_every_packet_beside_busy_processes_too() {
    for company in [Company::default(), Company { spinners: 3, forks: 1, compiles: 1 }] {
        let reading = tried("sendmmsg", (4, 20, 5_000), company);
        assert_eq!((reading.sent, reading.heard, reading.failed), (80, 80, 0), "{reading:?}");
        assert_eq!(reading.late.map(|late| late.packets), Some(80));
        assert_eq!(reading.sink, "loopback, heard");
    }
    let reading = tried("plain", (2, 5, 2_000), Company::default());
    assert_eq!((reading.sent, reading.heard, reading.calls), (10, 10, 20), "{reading:?}");
}
