//! The runner catches a failure and prints a command, which reproduces the failure.

use std::process::{Command, Output};

fn fuzz(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fuzz")).args(args).output().expect("the fuzz binary starts")
}

fn check(args: &[&str], code: i32, says: &str) {
    let output = fuzz(args);
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
fn every_function_finds_nothing_on_a_few_seeds() {
    let listed = fuzz(&[]).stderr;
    let listed = String::from_utf8_lossy(&listed);
    let names = listed.split('"').skip(1).step_by(2).filter(|name| *name != "canary");
    for name in names {
        for seed in 1..=16 {
            check(&[name, &seed.to_string()], 0, "nothing found");
        }
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error_that_lists_the_names() {
    check(&["stranger"], 2, "canary");
    check(&["wire", "x"], 2, "expected a seed");
    check(&[], 2, "usage");
    check(&["soak", "long"], 2, "expected seconds");
}
