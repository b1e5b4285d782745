//! `cargo xtask bench gates [N]`: how often a gate of `roundhouse ab` fails a build for nothing.
//!
//! N times (50) it compares two copies of one server, of which every failed gate is a false alarm,
//! and N times that server with one that computes 7 % more for each request, which the gates of CPU
//! should find. The server is the program below: what it computes is nearly all that it does.

use crate::steps;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// The name of the bench.
pub(super) const NAME: &str = "gates";
/// Comparisons of each kind.
const COMPARISONS: u64 = 50;
/// Units of work for each request: of both servers, and of the slow one.
const WORK: [u64; 2] = [100, 107];
/// The gates. Each end of an interval is beyond its limit in one of forty comparisons of equals.
const GATES: [&str; 4] =
    ["new cpu > 1.0x old", "new p50 > 1.0x old", "new rate < 1.0x old", "new memory > 1.05x old"];
/// The most false alarms, and the fewest slow servers found, as shares.
const ALARMS_MAX: f64 = 0.1;
const FOUND_MIN: f64 = 0.8;

/// A server of HTTP that answers each request on one thread after units of about 1 us of work.
const SERVER: &str = r#"
use std::io::{Read, Write};
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let work: u64 = words[2].parse().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", words[1].parse().unwrap())).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut input = [0; 4096];
            while stream.read(&mut input).is_ok_and(|length| length > 0) {
                let mut sum = 0u64;
                for unit in 0..work * 300 {
                    sum = std::hint::black_box(sum.wrapping_mul(31) ^ unit);
                }
                let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}", sum % 10);
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}
"#;

/// Plays the comparisons, and prints for each gate the false alarms and the slow servers found.
///
/// # Errors
/// A build or a comparison fails, or a gate cannot be trusted.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let count: u64 = args.first().map_or(Ok(COMPARISONS), |text| text.parse())?;
    let roundhouse = super::prepare()?;
    let room = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = room.path();
    std::fs::write(folder.join("server.rs"), SERVER)?;
    let rustc = ["--edition", "2024", "-O", "-o", "old", "server.rs"];
    steps::run(Command::new("rustc").args(rustc).current_dir(folder), "rustc")?;
    std::fs::copy(folder.join("old"), folder.join("new"))?;
    let mut alarms = [[0_u64; GATES.len()]; 2];
    for seed in 0..count {
        for (alarms, work) in alarms.iter_mut().zip(WORK) {
            let failed = compare(&roundhouse, folder, work, seed)?;
            alarms.iter_mut().zip(failed).for_each(|(sum, failed)| *sum += u64::from(failed));
        }
        eprintln!("gates: {} of {count}: false {:?}, found {:?}", seed + 1, alarms[0], alarms[1]);
    }
    println!("{:<24} false alarms   7 % found", "gate");
    for (at, gate) in GATES.iter().enumerate() {
        println!("{gate:<24} {:>6} of {count} {:>6} of {count}", alarms[0][at], alarms[1][at]);
    }
    let share = |sum: u64| sum as f64 / count.max(1) as f64;
    if alarms[0].iter().any(|&sum| share(sum) > ALARMS_MAX) || share(alarms[1][0]) < FOUND_MIN {
        bail!(
            "expected false alarms in {ALARMS_MAX} of all or fewer, and {FOUND_MIN} found by CPU"
        );
    }
    Ok(())
}

/// One comparison: which gates failed.
fn compare(roundhouse: &Path, folder: &Path, work: u64, seed: u64) -> anyhow::Result<Vec<bool>> {
    let mut command = Command::new(roundhouse);
    command
        .arg("ab")
        .args([format!("./old {{port}} {}", WORK[0]), format!("./new {{port}} {work}")]);
    command.args(["/", "--budget", "12s", "--no-idle", "--fresh", "--seed", &seed.to_string()]);
    command.args(GATES.iter().flat_map(|gate| ["--fail-if", gate])).current_dir(folder);
    let output = command.output().with_context(|| format!("start {}", roundhouse.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code().is_none_or(|code| ![0, 98, 99].contains(&code)) {
        bail!("`{}` failed: {}\n{text}", steps::line(&command), output.status);
    }
    Ok(GATES.iter().map(|gate| text.contains(&format!("FAILED: {gate}"))).collect())
}
