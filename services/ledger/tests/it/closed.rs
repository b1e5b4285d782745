//! A log that was closed has an end that can be missed, and a log without a snapshot is none.

use std::fs;
use std::path::{Path, PathBuf};

use ledger::{Disk, Folder, LedgerFault, LedgerState, Log, LogOptions, OrderRecord};

const OPTIONS: LogOptions = LogOptions { sync: true, segment_bytes: 48 * 8 };

/// A closed log of `count` orders, seven to a segment.
fn closed_log(count: u64) -> (tempfile::TempDir, Folder) {
    let place = tempfile::tempdir().expect("a temporary folder");
    let disk = Folder::at(place.path());
    ledger::found(&disk, &LedgerState::new([(1, 1000)].into())).expect("a disk with room");
    let mut log = Log::open(disk.clone(), OPTIONS).expect("a new log");
    for seq in 1..=count {
        let order = OrderRecord { seq, request: 0, stock: 1, change: -1, left: 1000 - seq };
        log.commit(&[order]).expect("a disk with room");
    }
    log.close().expect("a disk with room");
    (place, disk)
}

fn segments(disk: &Folder, place: &Path) -> Vec<PathBuf> {
    let mut names = disk.names().expect("our folder");
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names.into_iter().map(|name| place.join(name)).collect()
}

/// Checks the fault that a start finds after `harm` to the last segment.
#[track_caller]
fn check(count: u64, harm: impl FnOnce(&Path), expected: &str) {
    let (place, disk) = closed_log(count);
    harm(segments(&disk, place.path()).last().expect("a segment"));
    let read = ledger::recover(&disk).map(|(_, end)| end.last);
    let opened = Log::open(disk, OPTIONS).map(|log| log.last());
    for found in [read, opened] {
        let found = found.map_or_else(|fault| fault.to_string(), |last| last.to_string());
        assert!(found.contains(expected), "expected {expected:?}, found {found}");
    }
}

#[test]
fn a_closed_log_without_its_end_is_damaged() {
    let cut = |path: &Path, len: u64| {
        let file = fs::OpenOptions::new().write(true).open(path).expect("a segment");
        file.set_len(len).expect("our own file");
    };
    check(10, |_| {}, "10");
    check(10, |path| cut(path, 48 * 3), "expected orders up to 10, as at the last stop, found 9");
    check(10, |path| cut(path, 10), "expected orders up to 10, as at the last stop, found 7");
    check(10, |path| cut(path, 0), "found 7");
    check(10, |path| fs::remove_file(path).expect("our own file"), "found 7");
    check(14, |path| fs::remove_file(path).expect("our own file"), "found 7");
    for noise in [0xff, 0xa5] {
        check(10, |path| fs::write(path, [noise; 48 * 8]).expect("our own file"), "found 7");
    }
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).expect("a segment");
        bytes[48 * 3 + 20] ^= 1;
        fs::write(path, bytes).expect("our own file");
    };
    check(10, flip, "found 9");
}

#[test]
fn orders_after_a_close_count_and_an_older_end_is_no_fault() {
    let (place, disk) = closed_log(10);
    let mut log = Log::open(disk.clone(), OPTIONS).expect("a whole log");
    let order = OrderRecord { seq: 11, request: 0, stock: 1, change: -1, left: 989 };
    log.commit(&[order]).expect("a disk with room");
    // Killed: the note says 10.
    drop(log);
    assert_eq!(ledger::recover(&disk).expect("a whole log").1.last, 11);
    ledger::fold(&disk, 0).expect("a whole log");
    assert_eq!(ledger::replay(&disk, 11, |_, _| {}).expect("a whole log").0.last, 11);
    fs::write(place.path().join("closed"), "noise").expect("our own file");
    assert!(matches!(ledger::recover(&disk), Err(LedgerFault::Damaged { .. })));
}

#[test]
fn segments_without_a_snapshot_are_damage() {
    let (place, disk) = closed_log(10);
    assert!(ledger::exists(&disk).expect("a whole log"));
    fs::remove_file(place.path().join("snapshot")).expect("our own file");
    let fault = ledger::exists(&disk).expect_err("a ledger without its snapshot").to_string();
    assert!(fault.contains("snapshot is damaged: expected it next to"), "{fault}");
    let empty = tempfile::tempdir().expect("a temporary folder");
    assert!(!ledger::exists(&Folder::at(empty.path())).expect("our folder"));
}
