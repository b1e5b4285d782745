//! Players play, pause, resume, seek and reach the end under remote control: mpv by its socket,
//! GStreamer by a script.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::{PATIENCE, Process, has, skip, wait_for};

use crate::stage::{SECONDS, Server, films, run, start};

/// Every kind of file and payload.
pub const FILMS: [&str; 8] = [
    "film.ts",
    "film.mp4",
    "tone.wav",
    "alaw.wav",
    "disc.wav",
    "mono.wav",
    "studio.wav",
    "talk.ogg",
];
/// The target of seeks: a key frame.
const SEEK: f64 = 2.0;

/// A player that takes commands as lines of JSON.
struct Mpv {
    player: Process,
    name: String,
    said: BufReader<UnixStream>,
    asked: u64,
}

impl Mpv {
    fn start(folder: &Path, url: &str, transport: &str) -> Mpv {
        let name = format!("mpv {url} over {transport}");
        let file = url.rsplit('/').next().unwrap_or("");
        let socket = folder.join(format!("mpv-{file}-{transport}"));
        let ipc = format!("--input-ipc-server={}", socket.display());
        let transport = format!("--rtsp-transport={transport}");
        let quiet = ["--no-config", "--load-scripts=no", "--ytdl=no", "--msg-level=all=error"];
        let blind = ["--vo=null", "--ao=null", "--hwdec=no", "--keep-open=yes", "--idle=yes"];
        let player = start("mpv", &[&quiet[..], &blind, &[&transport, &ipc, url]].concat());
        let stream = wait_for(&name, PATIENCE, || UnixStream::connect(&socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Mpv { player, name, said: BufReader::new(stream), asked: 0 }
    }

    /// Sends a command and returns the answer; events may arrive before it.
    fn ask(&mut self, words: &Value) -> Value {
        self.asked += 1;
        let command = json!({ "command": words, "request_id": self.asked });
        writeln!(self.said.get_mut(), "{command}").expect(&self.name);
        loop {
            let mut line = String::new();
            self.said.read_line(&mut line).expect(&self.name);
            let answer: Value = serde_json::from_str(&line)
                .unwrap_or_else(|_| panic!("{}: expected an answer, found {line:?}", self.name));
            if answer["request_id"] == self.asked {
                return answer["data"].clone();
            }
        }
    }

    fn position(&mut self) -> f64 {
        self.ask(&json!(["get_property", "playback-time"])).as_f64().unwrap_or(-1.0)
    }

    /// Waits until `is_so`.
    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Mpv) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            let at = self.position();
            assert!(begin.elapsed() < PATIENCE, "{}: not {what}, at {at}", self.name);
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn play_pause_seek_and_end(mut self) {
        self.until("begun", |mpv| mpv.position() > 0.5);
        self.ask(&json!(["set_property", "pause", true]));
        let paused = self.position();
        std::thread::sleep(Duration::from_millis(200));
        // The clock of pictures may be corrected by one of them when it stops.
        let later = self.position();
        assert!((later - paused).abs() < 0.1, "{}: {paused} and {later}", self.name);
        self.ask(&json!(["set_property", "pause", false]));
        self.until("gone on", |mpv| mpv.position() > later + 0.2);
        self.ask(&json!(["seek", SEEK, "absolute"]));
        self.until("there", |mpv| mpv.position() >= SEEK + 0.1);
        self.until("at the end", |mpv| mpv.ask(&json!(["get_property", "eof-reached"])) == true);
        let end = self.position();
        assert!(end > SECONDS as f64 - 0.5, "{}: the end is at {end}", self.name);
        self.ask(&json!(["quit"]));
        self.player.end(PATIENCE).success();
    }
}

#[test]
fn mpv_plays_pauses_and_seeks() {
    let Some(folder) = films() else { return };
    if !has("mpv") {
        return;
    }
    let server = Server::start(folder, &[]);
    std::thread::scope(|scope| {
        for film in FILMS {
            for way in ["tcp", "udp"] {
                let url = format!("{}/{film}", server.url);
                scope.spawn(move || Mpv::start(folder, &url, way).play_pause_seek_and_end());
            }
        }
    });
}

/// The Python with GStreamer's bindings: the system's, which may not be first on the path.
fn python() -> Option<&'static str> {
    let found = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let code = "import gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst";
        Command::new(python).args(["-c", code]).output().is_ok_and(|it| it.status.success())
    });
    if found.is_none() {
        skip("GStreamer in Python");
    }
    found
}

/// The first and the last moment of a track that a stage showed, in the file's time.
fn shown(track: &Value, stage: &str) -> Option<(f64, f64)> {
    let pair = track.get(stage)?;
    Some((pair[0].as_f64()?, pair[1].as_f64()?))
}

#[test]
fn gstreamer_plays_pauses_and_seeks() {
    let Some(folder) = films() else { return };
    let Some(python) = python() else { return };
    let server = Server::start(folder, &[]);
    let script = folder.join("gst_player.py");
    std::fs::write(&script, include_str!("gst_player.py")).expect("a script");
    let behind = server.url.trim_start_matches("rtsp");
    let urls = FILMS
        .iter()
        .flat_map(|film| ["rtspt", "rtspu"].map(|scheme| format!("{scheme}{behind}/{film}")));
    let urls: Vec<String> = urls.collect();
    let seek = SEEK.to_string();
    let args = [script.to_str().expect("text"), &seek].into_iter();
    let output = run(python, &args.chain(urls.iter().map(String::as_str)).collect::<Vec<_>>());
    let found: Value = serde_json::from_str(&output.out).expect("one JSON document");
    for url in &urls {
        let player = &found[url];
        assert_eq!(player["troubles"], json!([]), "{url}: {player}");
        let tracks = player["tracks"].as_object().expect("tracks");
        assert_eq!(tracks.len(), if url.contains("film") { 2 } else { 1 }, "{url}: {player}");
        for track in tracks.values() {
            let stages = ["begun", "resumed", "sought"].map(|stage| shown(track, stage));
            let [Some(begun), Some(resumed), Some(sought)] = stages else {
                panic!("{url}: expected three stages, found {player}");
            };
            assert!(resumed.0 > begun.1, "{url}: nothing is shown twice, {player}");
            assert!(resumed.0 < begun.1 + 1.0, "{url}: it goes on where it was, {player}");
            // A seek in a transport stream uses its clock, which runs ahead of its pictures.
            assert!((SEEK - 0.5..SEEK + 0.8).contains(&sought.0), "{url}: {player}");
            assert!(sought.1 > sought.0 + 0.4, "{url}: it plays on, {player}");
        }
    }
}
