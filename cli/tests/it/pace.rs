//! `senders cast`, started as a user starts it. The tests check counts, never speeds.

use serde_json::Value;
use std::process::{Command, Output};

fn senders(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    command.arg("senders").args(words.split_whitespace());
    command.output().expect("the binary was built for this test")
}

fn lines(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn a_cast_counts_every_packet_beside_busy_processes_too() {
    for company in ["", " --spinners 3 --forks 1 --compiles 1"] {
        let words = format!("cast sendmmsg --streams 4 --packets 20 --gap 5 --json{company}");
        let found = &lines(&senders(&words))[0];
        let counts = ["sent", "heard", "failed"].map(|name| found[name].as_u64());
        assert_eq!(counts, [Some(80), Some(80), Some(0)], "{found}");
        assert_eq!(found["late"]["packets"], 80);
        assert_eq!(found["sink"], "loopback, heard");
    }
    let text = senders("cast plain --streams 2 --packets 5 --gap 2");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["10 sent, 0 refused, 10 heard", "CPU", "2.000 sending calls", "p99.9"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_cannot_be_cast_is_refused_in_words() {
    let refused = |words: &str, want: &str| {
        let output = senders(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{words}: {said}");
    };
    refused("cast mule", "expected a sender");
    refused("cast plain --gap none", "milliseconds from 0");
    refused("cast plain --fifo 0", "1..=99");
    refused("cast plain --nice 3 --fifo 3", "cannot be used with");
}
