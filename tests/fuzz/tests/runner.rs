//! The runner catches a failure and prints a command, which reproduces the failure.

use std::process::Command;

fn check(args: &[&str], code: i32, says: &str) {
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    let output = fuzz.args(args).output().expect("the fuzz binary starts");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(says), "{args:?} says {says:?}: {said}");
}

#[test]
fn a_failure_prints_the_line_that_repeats_it() {
    check(&["canary", "63", "10"], 1, "again: cargo xtask fuzz canary 63 10");
    check(&["canary", "64", "10"], 0, "nothing found");
}

#[test]
fn a_crate_is_fuzzed_by_name() {
    check(&["wire", "1", "50"], 0, "wire, seed 1, 50 events: nothing found");
}

#[test]
fn every_function_finds_nothing_and_the_canary_is_caught() {
    check(&["smoke"], 0, "the canary was caught");
}

#[test]
fn a_wrong_command_line_is_a_usage_error_that_lists_the_names() {
    check(&["stranger"], 2, "canary");
    check(&["wire", "x"], 2, "expected a seed");
    check(&[], 2, "usage");
    check(&["soak", "long"], 2, "expected seconds");
}
