//! Streams other than a file to one client: groups, hundreds of receivers, and a server that is
//! replaced during playback; and the reports of `roundhouse play`. Only our own programs play; no
//! test measures time.

mod play;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sys::signal::Signal;
use testkit::{Ended, Folder, Law, PATIENCE, Process, Server};

const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A WAVE file of `ms` milliseconds of μ-law.
fn wave(ms: usize) -> Vec<u8> {
    let samples: Vec<u8> = (0..ms * 8).map(|at| (at * 7) as u8).collect();
    testkit::wave(Law::Mu, &samples)
}

fn serve(args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["serve", "media", "--port", "0", "--admin", "none"]).args(args);
    command
}

fn url(server: &Server, name: &str) -> String {
    format!("rtsp://127.0.0.1:{}/{name}", server.port())
}

fn begin(args: &[&str]) -> Process {
    Process::start(Command::new(BINARY).args(args))
}

fn run(args: &[&str]) -> Ended {
    testkit::run(Command::new(BINARY).args(args))
}

/// The report of a listener that has lost nothing.
fn heard(mut listener: Process, what: &str) -> Value {
    let Ended { code, out, err, .. } = listener.end(PATIENCE);
    let line = out.lines().next().unwrap_or("");
    let hearing: Value =
        serde_json::from_str(line).unwrap_or_else(|_| panic!("{what}: {out}{err}"));
    assert_eq!(code, Some(0), "{what}: {hearing}");
    assert_eq!(hearing["lost"], 0, "{what}: {hearing}");
    hearing
}

/// Listens until the media end.
fn listen(url: &str, more: &[&str]) -> Process {
    begin(&[&["play", url, "--json", "--for", "20s"], more].concat())
}

#[test]
fn many_receivers_are_a_load() {
    let folder = Folder::new();
    folder.file("a.wav", wave(3_000));
    let server = Server::start(&mut serve(&[folder.text_path()]));
    let load = listen(&url(&server, "a.wav"), &["-c", "200"]);
    // Reloading the settings does not disturb receivers.
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(300));
        server.signal(Signal::HUP);
    }
    let hearing = heard(load, "load");
    assert_eq!((&hearing["played"], &hearing["ended"]), (&200.into(), &200.into()), "{hearing}");
    assert_eq!(hearing["packets"], 200 * 150, "{hearing}");
    assert!(hearing["first_packet_ms"]["p50"].as_f64() > Some(0.0), "{hearing}");
    let load = run(&["load", "rtsp://127.0.0.1:1/a"]);
    assert!(load.code == Some(2) && load.err.contains("roundhouse play URL"), "{load:?}");
}

#[test]
fn who_listens_notices_nothing_of_a_new_server() {
    let folder = Folder::new();
    folder.file("a.wav", wave(4_000));
    let dir = folder.text_path();
    let mut server = Server::start(&mut serve(&[dir, "--upgradable", "--drain", "1h"]));
    let url = url(&server, "a.wav");
    let before = listen(&url, &["-n", "4", "--ramp", "100ms"]);
    // All players play by then; otherwise they do so with the successor.
    std::thread::sleep(Duration::from_millis(800));
    server.signal(Signal::USR2);
    let before_it = server.pid;
    server.hands_over();
    let after = listen(&url, &["-n", "4", "--ramp", "100ms"]);
    for (listener, who) in [(before, "before"), (after, "after")] {
        let hearing = heard(listener, who);
        assert_eq!(hearing["ended"], 4, "{who}: {hearing}");
        assert_eq!(hearing["packets"], 4 * 200, "{who}: {hearing}");
    }
    server.leaves(before_it);
}

#[test]
fn a_group_goes_on_when_who_sent_to_it_has_left() {
    let folder = Folder::new();
    folder.file("a.wav", wave(3_000));
    let pid = std::process::id();
    let group = format!("239.78.{}.{}:{}", pid >> 8 & 255, pid & 255, 20_000 + pid % 10_000 * 2);
    let dir = folder.text_path();
    let args = [dir, "--group", &group, "--loop", "--upgradable", "--drain", "1h"];
    let mut server = Server::start(&mut serve(&args));
    let url = url(&server, "a.wav");
    let listen = |time: &str| {
        let here = ["--multicast", "--interface", "127.0.0.1", "--for", time];
        begin(&[&["play", &url, "--json"], &here[..]].concat())
    };
    let before = listen("3s");
    // The group plays by then; otherwise the successor starts it from the beginning.
    std::thread::sleep(Duration::from_millis(800));
    server.signal(Signal::USR2);
    let before_it = server.pid;
    server.hands_over();
    let after = listen("6s");
    let hearings = [heard(before, "before"), heard(after, "after")];
    assert_eq!(hearings[0]["tracks"][0]["ssrc"], hearings[1]["tracks"][0]["ssrc"]);
    server.leaves(before_it);
}
