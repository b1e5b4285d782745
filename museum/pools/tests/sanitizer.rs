//! A pool's free slots are not live memory to AddressSanitizer: it stops an access at the
//! instruction. Compiled with the sanitizer only: `cargo xtask soak sanitizer`.
#![cfg(feature = "asan")]

use std::process::Command;

use pools::{Home, Plan, Pool, Shared};

/// Set for the child that commits the fault.
const PLANT: &str = "POOLS_PLANT";

/// Runs the test `name` again as a child that commits `fault`, and asserts that it is stopped.
fn check(name: &str, fault: fn()) {
    if std::env::var_os(PLANT).is_some() {
        return fault();
    }
    let own = std::env::current_exe().expect("a test has a path");
    let child = Command::new(own).env(PLANT, "1").args(["--exact", name]).output();
    let child = child.expect("a test can start itself");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success(), "it was not stopped: {said}");
    assert!(said.contains("use-after-poison"), "it was stopped for something else: {said}");
}

#[test]
fn a_write_into_a_free_slot() {
    check("a_write_into_a_free_slot", || {
        let mut pool = Pool::new(Plan::new(8));
        let handle = pool.put([1_u64; 8]).expect("there is room");
        let address = pool.pointer(handle).expect("it lives");
        pool.take(handle).expect("it lives");
        // SAFETY: unsound on purpose: the object is gone. The sanitizer must stop the write first.
        unsafe { address.write([2; 8]) };
    });
}

#[test]
fn a_read_from_a_free_slot_of_a_shared_pool() {
    check("a_read_from_a_free_slot_of_a_shared_pool", || {
        let pool = Shared::new(Plan::new(8), 1, Home::Depot);
        let mut worker = pool.worker().expect("a worker slot");
        let mut lent = worker.lend([1_u64; 8]).expect("there is room");
        let address = lent.pointer();
        drop(lent);
        // SAFETY: unsound on purpose: the object is gone. The sanitizer must stop the read first.
        let value = unsafe { address.read_volatile() };
        assert_eq!(value, [1; 8]);
    });
}

#[test]
fn a_slot_that_is_used_again_may_be_touched() {
    let mut pool = Pool::new(Plan::new(1));
    for round in 0..3_u64 {
        let handle = pool.put([round; 8]).expect("there is room");
        assert_eq!(pool.get(handle), Some(&[round; 8]));
        pool.discard(handle).expect("it lives");
    }
}
