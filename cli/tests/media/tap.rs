//! Packets on the wire, as Wireshark reads them: no packet is lost, out of order or malformed, for
//! every payload.

use std::path::Path;
use std::time::Duration;

use sys::signal::Signal;
use testkit::{PATIENCE, Process, has, skip};

use crate::players::FILMS;
use crate::stage::{BINARY, Server, films, run, start};

/// A capture that runs until it is stopped.
struct Tap(Process);

impl Tap {
    /// Captures the packets on the loopback into `file`; `None` without the permission.
    fn start(file: &Path, port: &str) -> Option<Tap> {
        let filter = format!("tcp port {port} or udp");
        let file = file.to_str().expect("text");
        let capture = start("tshark", &["-i", "lo", "-f", &filter, "-w", file]);
        if !capture.says_within("Capture started", Duration::from_secs(30)) {
            skip("captures");
            return None;
        }
        Some(Tap(capture))
    }

    fn stop(mut self) {
        // tshark still writes the last packets to the file.
        std::thread::sleep(Duration::from_millis(300));
        self.0.signal(Signal::INT);
        self.0.end(PATIENCE);
    }
}

/// The output of tshark for the capture, decoded as the conversation on `port` announced it.
fn read(file: &Path, port: &str, args: &[&str]) -> String {
    let server = format!("tcp.port=={port},rtsp");
    let front = ["-r", file.to_str().expect("text"), "-d", &server];
    run("tshark", &[&front, args].concat()).out
}

#[test]
fn wireshark_finds_nothing_wrong_with_any_payload() {
    let Some(folder) = films() else { return };
    if !has("tshark") {
        return;
    }
    // Segments for the kernel to cut pass the loopback in one piece, which would look like loss.
    let server = Server::start(folder, &["--sender", "sendmmsg"]);
    let port = server.url.rsplit(':').next().expect("a port");
    let file = folder.join("tap.pcapng");
    let Some(tap) = Tap::start(&file, port) else { return };
    let playing = FILMS.map(|film| {
        let url = format!("{}/{film}", server.url);
        start(BINARY, &["play", &url, "--json", "--for", "60s"])
    });
    for mut player in playing {
        player.end(PATIENCE).success();
    }
    tap.stop();
    // A line for each sender, with its losses, and an X for any problem.
    let streams = read(&file, port, &["-q", "-z", "rtp,streams"]);
    let lines: Vec<&str> = streams.lines().filter(|line| line.contains(" 0x")).collect();
    // One of the films has two tracks.
    assert_eq!(lines.len(), FILMS.len() + 1, "{streams}");
    for line in &lines {
        assert!(line.contains(" 0 (0.0%)") && !line.trim_end().ends_with('X'), "{line}");
    }
    // Version 4 reads the parameter sets in descriptions with the bytes that escape others.
    let trouble = "(rtp || rtcp || (rtsp && !sdp)) && \
        (_ws.malformed || _ws.expert.severity >= \"Warning\")";
    let trouble = read(&file, port, &["-Y", trouble]);
    assert!(trouble.is_empty(), "{trouble}");
    let fields = ["-e", "rtcp.senderssrc", "-e", "rtcp.pt"];
    let told = read(&file, port, &[&["-Y", "rtcp", "-T", "fields"], &fields[..]].concat());
    for line in lines {
        let sender = line.split_whitespace().find(|word| word.starts_with("0x"));
        reports(&told, &sender.expect("its SSRC").to_ascii_lowercase());
    }
}

/// The sender reports before it sends, with its name, and sends one BYE. Other tests use the same
/// device at the same time.
fn reports(told: &str, sender: &str) {
    let of = |line: &&str| line.to_ascii_lowercase().split('\t').next() == Some(sender);
    let told: Vec<&str> = told.lines().filter(of).collect();
    let count = |what: &str| told.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(count("\t200,202,203"), 1, "{sender}: a report with a bye: {told:?}");
    assert!(count("\t200,202") >= 1, "{sender}: reports with a name: {told:?}");
}
