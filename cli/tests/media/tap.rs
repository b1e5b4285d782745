//! Packets on the wire, as Wireshark reads them: no packet is lost, out of order or malformed, and
//! no timestamp is wrong, for every payload.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sys::signal::Signal;
use testkit::{PATIENCE, Process, has, skip};

use crate::stage::{BINARY, SECONDS, Server, films, run, start};

/// Each film, the payload types of its tracks, and the ticks between their packets, if constant.
const FILMS: [(&str, &[(u8, u32)]); 8] = [
    ("film.ts", &[(33, 0)]),
    ("film.mp4", &[(96, 0), (97, 1024)]),
    ("tone.wav", &[(0, 160)]),
    ("alaw.wav", &[(8, 160)]),
    ("disc.wav", &[(10, 350)]),
    ("mono.wav", &[(11, 700)]),
    ("studio.wav", &[(97, 350)]),
    ("talk.ogg", &[(97, 960)]),
];

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

/// The packets of one sender, in the order in which they passed.
#[derive(Debug, Default)]
struct Heard {
    payload_type: u8,
    numbers: Vec<u16>,
    times: Vec<u32>,
}

/// The output of tshark for the capture, decoded as the conversation on `port` announced it.
fn read(file: &Path, port: &str, args: &[&str]) -> String {
    let server = format!("tcp.port=={port},rtsp");
    let front = ["-r", file.to_str().expect("text"), "-d", &server];
    run("tshark", &[&front, args].concat()).out
}

fn senders(file: &Path, port: &str) -> BTreeMap<String, Heard> {
    let fields = ["rtp.ssrc", "rtp.p_type", "rtp.seq", "rtp.timestamp"];
    let fields = fields.iter().flat_map(|field| ["-e", field]).collect::<Vec<_>>();
    let text = read(file, port, &[&["-Y", "rtp", "-T", "fields"], &fields[..]].concat());
    let mut senders = BTreeMap::<String, Heard>::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[ssrc, payload_type, number, time] = &fields[..] else { panic!("{line}") };
        let heard = senders.entry(ssrc.to_owned()).or_default();
        heard.payload_type = payload_type.parse().expect("a payload type");
        heard.numbers.push(number.parse().expect("a number"));
        heard.times.push(time.parse().expect("a timestamp"));
    }
    senders
}

/// Numbers are consecutive; timestamps are `ticks` apart, or else stay within bounds.
fn check(heard: &Heard, ticks: u32) {
    let what = format!("payload type {}", heard.payload_type);
    for pair in heard.numbers.windows(2) {
        assert_eq!(pair[1].wrapping_sub(pair[0]), 1, "{what}: behind {}", pair[0]);
    }
    for pair in heard.times.windows(2) {
        let step = pair[1].wrapping_sub(pair[0]).cast_signed();
        // Pictures travel in the order in which they are decoded: up to two are shown earlier.
        let is_right = if ticks > 0 { step == ticks.cast_signed() } else { step.abs() <= 5 * 3600 };
        assert!(is_right, "{what}: {step} ticks behind {}", pair[0]);
    }
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
    let playing = FILMS.map(|(film, _)| {
        let url = format!("{}/{film}", server.url);
        start(BINARY, &["play", &url, "--json", "--for", "60s"])
    });
    for mut player in playing {
        player.end(PATIENCE).success();
    }
    tap.stop();
    let senders = senders(&file, port);
    let mut expected: Vec<(u8, u32)> =
        FILMS.iter().flat_map(|(_, tracks)| tracks.to_vec()).collect();
    for heard in senders.values() {
        // Three tracks have the type 97; their steps distinguish them.
        let step = heard.times[1].wrapping_sub(heard.times[0]);
        let at = expected.iter().position(|(kind, ticks)| {
            *kind == heard.payload_type && (*ticks == 0 || *ticks == step)
        });
        let (kind, ticks) = expected.remove(at.unwrap_or_else(|| panic!("{heard:?}")));
        assert!(heard.numbers.len() > 20 * SECONDS, "{kind}: {} packets", heard.numbers.len());
        check(heard, ticks);
    }
    assert_eq!(expected, [], "these are not sent");
    // tshark's own verdict: a line for each sender, with its losses, and an X for any problem.
    let streams = read(&file, port, &["-q", "-z", "rtp,streams"]);
    let lines: Vec<&str> = streams.lines().filter(|line| line.contains(" 0x")).collect();
    assert_eq!(lines.len(), senders.len(), "{streams}");
    for line in lines {
        assert!(line.contains(" 0 (0.0%)"), "{line}");
    }
    // Version 4 reads the parameter sets in descriptions with the bytes that escape others.
    let trouble = "(rtp || rtcp || (rtsp && !sdp)) && \
        (_ws.malformed || _ws.expert.severity >= \"Warning\")";
    let trouble = read(&file, port, &["-Y", trouble]);
    assert!(trouble.is_empty(), "{trouble}");
    let fields = ["-e", "rtcp.senderssrc", "-e", "rtcp.pt"];
    let told = read(&file, port, &[&["-Y", "rtcp", "-T", "fields"], &fields[..]].concat());
    senders.keys().for_each(|sender| reports(&told, sender));
}

/// The sender reports before it sends, with its name, and sends one BYE. Other tests use the same
/// device at the same time.
fn reports(told: &str, sender: &str) {
    let of = |line: &&str| line.split('\t').next() == Some(sender);
    let told: Vec<&str> = told.lines().filter(of).collect();
    let count = |what: &str| told.iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(count("\t200,202,203"), 1, "{sender}: a report with a bye: {told:?}");
    assert!(count("\t200,202") >= 1, "{sender}: reports with a name: {told:?}");
}
