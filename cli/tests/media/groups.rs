//! Foreign players listen to a group in a separate network: the loopback of a fresh namespace,
//! to which groups are routed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sys::signal::Signal;
use testkit::{PATIENCE, Process, eventually, has, skip};

use crate::sound::samples;
use crate::stage::{BINARY, Server, films, run, start};
use crate::{decoded, gst};

/// Makes a network in which groups exist.
const ROOM: &str = "ip link set lo up && ip link set lo multicast on && \
    ip route add 224.0.0.0/4 dev lo src 127.0.0.1 && echo ready && exec sleep 600";

/// A separate network, removed with its handle.
struct Room {
    /// The program that holds it.
    _holder: Process,
    pid: String,
}

impl Room {
    fn new() -> Option<Room> {
        let holder = start("unshare", &["--net", "sh", "-c", ROOM]);
        if holder.next_line(PATIENCE).as_deref() != Some("ready") {
            skip("a separate network");
            return None;
        }
        let pid = holder.pid().to_string();
        Some(Room { _holder: holder, pid })
    }

    /// The words before a program that runs in that network.
    fn front(&self) -> [&str; 4] {
        ["nsenter", "--target", &self.pid, "--net"]
    }

    fn run(&self, words: &[&str]) -> Vec<u8> {
        let words = [&self.front()[..], words].concat();
        run(words[0], &words[1..]).bytes
    }
}

/// Whether `part` lies in two rounds of `whole`.
fn lies_in(part: &[u8], whole: &[u8]) -> bool {
    let twice = [whole, whole].concat();
    let Some(head) = part.get(..64) else { return false };
    let places = twice.windows(64).enumerate().filter(|(_, window)| *window == head);
    places.into_iter().any(|(at, _)| twice[at..].starts_with(part))
}

/// Pictures that ffmpeg decodes are those of the film; a player that joins in the middle waits for
/// a key frame, or shows something else until then.
fn pictures(room: &Room, folder: &Path, url: &str) {
    let path = folder.join("film.mp4");
    let want = decoded(&[], path.to_str().expect("text"), "0:v");
    let film = format!("{url}/film.mp4");
    let how = ["-map", "0:v", "-t", "2.2", "-f", "framemd5", "-"];
    let front = ["ffmpeg", "-v", "error", "-rtsp_transport", "udp_multicast", "-i", &film];
    let text = String::from_utf8_lossy(&room.run(&[&front[..], &how].concat())).into_owned();
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<bool> = frames
        .map(|line| line.rsplit(',').next().unwrap_or("").trim())
        .map(|frame| want.iter().any(|it| it.ends_with(frame)))
        .collect();
    let same = found.iter().filter(|it| **it).count();
    assert!(same >= 20, "ffmpeg: {same} of {} pictures are of the film", found.len());
}

/// The samples that ffmpeg gets are a piece of the file.
fn sound(room: &Room, folder: &Path, url: &str) {
    let film = format!("{url}/disc.wav");
    let front = ["ffmpeg", "-v", "error", "-rtsp_transport", "udp_multicast", "-i", &film];
    let got = room.run(&[&front[..], &["-t", "1", "-f", "s16le", "-"]].concat());
    let want = samples(folder, "disc.wav");
    assert!(got.len() > 88_200 && lies_in(&got, &want), "ffmpeg: {} bytes", got.len());
}

/// The bytes that GStreamer gets are a piece of the file.
fn bytes(room: &Room, folder: &Path, url: &str) {
    if !has("gst-launch-1.0") {
        return;
    }
    let copy = folder.join("group.ts");
    let (location, sink) =
        (format!("location={url}/film.ts"), format!("location={}", copy.display()));
    let source = ["rtspsrc", &location, "protocols=udp-mcast", "!", "rtpmp2tdepay"];
    let end = ["!", "identity", "eos-after=100", "!", "filesink", &sink];
    gst(&room.front(), &[&["-q"], &source[..], &end].concat());
    let got = std::fs::read(&copy).expect("a copy");
    let want = std::fs::read(folder.join("film.ts")).expect("our own film");
    assert!(got.len() > 90 * 1316 && lies_in(&got, &want), "GStreamer: {} bytes", got.len());
}

fn mpv(room: &Room, url: &str) {
    if !has("mpv") {
        return;
    }
    let film = format!("{url}/film.mp4");
    let quiet = ["--no-config", "--load-scripts=no", "--ytdl=no", "--vo=null", "--ao=null"];
    let how = ["--rtsp-transport=udp_multicast", "--length=1.5", "--msg-level=all=error"];
    room.run(&[&["mpv"], &quiet[..], &how, &[&film]].concat());
}

/// A metric of the server.
fn told(admin: &Path, name: &str) -> f64 {
    let mut stream = UnixStream::connect(admin).expect("its door");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a question");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect(&text)
}

#[test]
fn players_listen_to_a_group_and_are_heard() {
    let Some(folder) = films() else { return };
    if !has("unshare") {
        return;
    }
    let Some(room) = Room::new() else { return };
    let admin = folder.join("group.sock");
    let door = format!("unix:{}", admin.display());
    let args = ["--group", "239.77.0.1:5004", "--loop", "--admin", &door];
    let server = Server::start_by(&room.front(), folder, &args);
    let url = server.url.as_str();
    std::thread::scope(|scope| {
        let room = &room;
        // Our player stays until the others have left, so that the group continues to play.
        let words = ["play", &format!("{url}/film.mp4"), "--multicast", "--for", "60s"];
        let listener = [&room.front()[..], &[BINARY], &words].concat();
        let mut listener = start(listener[0], &listener[1..]);
        let players = [
            scope.spawn(|| pictures(room, folder, url)),
            scope.spawn(|| sound(room, folder, url)),
            scope.spawn(|| bytes(room, folder, url)),
            scope.spawn(|| mpv(room, url)),
        ];
        // Each member reports about every five seconds for each track.
        eventually("two members are heard", PATIENCE, || {
            told(&admin, "roundhouse_media_heard") >= 2.0
        });
        assert!(told(&admin, "roundhouse_media_round_trip_us") > 0.0, "reports answer reports");
        players.into_iter().for_each(|player| player.join().expect("it played"));
        listener.signal(Signal::INT);
        let said = listener.end(PATIENCE).success().out;
        assert!(said.contains(" 0 lost"), "{said}");
    });
}
