//! Streams that are more than a file to a client: live sources, groups, casts that nobody asked
//! for, thousands of receivers, and a server that is replaced under its listeners. Only our own
//! programs play here; nothing measures time.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");
/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that goes with its handle.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("roundhouse-stream-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Folder(folder)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A WAVE file of so many milliseconds of μ-law.
fn wave(ms: usize) -> Vec<u8> {
    let data = ms * 8;
    let mut file =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x07\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0\
        data"
            .to_vec();
    file.extend_from_slice(&(data as u32).to_le_bytes());
    file.extend((0..data).map(|at| (at * 7) as u8));
    file
}

/// A transport stream of so many pictures, 40 ms and 14 packets each, of which every tenth is one
/// that a player can begin with.
fn stream(pictures: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for picture in 0..pictures {
        let base = picture as u64 * 3600;
        for number in 0..14 {
            let mut packet = [number as u8; 188];
            packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10]);
            if number == 0 {
                packet[1] = 0;
            }
            if number == 1 {
                let flags = if picture % 10 == 0 { 0x50 } else { 0x10 };
                packet[3..6].copy_from_slice(&[0x30, 7, flags]);
                packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
                packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7, 0]);
            }
            bytes.extend_from_slice(&packet);
        }
    }
    bytes
}

/// A server that dies with its handle, and whoever took it over.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    port: String,
    heir: Option<String>,
}

impl Server {
    fn start(args: &[&str], stdin: Stdio) -> Server {
        Server::try_start(args, stdin).expect("it is ready")
    }

    /// `None` if the server cannot begin here.
    fn try_start(args: &[&str], stdin: Stdio) -> Option<Server> {
        let mut command = Command::new(BINARY);
        command.args(["serve", "media", "--port", "0", "--admin", "none"]).args(args);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("our own binary");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Server { child, out, port: String::new(), heir: None };
        let ready = server.ready()?;
        let address = ready["listening"].as_str().expect("an address").to_owned();
        server.port = address.rsplit(':').next().unwrap_or("").to_owned();
        Some(server)
    }

    /// The line that says that somebody serves; `None` if nobody will.
    fn ready(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("a line of JSON"))
    }

    fn url(&self, name: &str) -> String {
        format!("rtsp://127.0.0.1:{}/{name}", self.port)
    }

    /// Waits until the process that handed over has ended by itself.
    #[track_caller]
    fn has_left(&mut self) {
        let begin = Instant::now();
        while self.child.try_wait().expect("our own child").is_none() {
            assert!(begin.elapsed() < PATIENCE, "nobody needs it, and it stays");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(killed.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(heir) = &self.heir {
            let _ = Command::new("kill").args(["-KILL", heir]).status();
        }
        // It may have ended by itself; then there is nothing to be done.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a program's end; its exit code and what it wrote.
fn ended(mut child: Child, what: &str) -> (Option<i32>, String) {
    let begin = Instant::now();
    while child.try_wait().expect("our own child").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("our own child");
            panic!("{what} did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("our own child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

fn begin(args: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("our own binary")
}

/// What a listener has heard, which is whole.
fn heard(listener: Child, what: &str) -> Value {
    let (code, text) = ended(listener, what);
    let line = text.lines().next().unwrap_or("");
    let hearing: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{what}: {text}"));
    assert_eq!(code, Some(0), "{what}: {hearing}");
    assert_eq!(hearing["lost"], 0, "{what}: {hearing}");
    hearing
}

/// Listens until the media end.
fn listen(url: &str, more: &[&str]) -> Child {
    begin(&[&["play", url, "--json", "--for", "20s"], more].concat())
}

#[test]
fn a_live_source_goes_out_to_all_and_its_end_is_told() {
    let mut server = Server::start(&["-"], Stdio::piped());
    let mut pipe = server.child.stdin.take().expect("a pipe");
    let bytes = stream(75);
    let url = server.url("live.ts");
    let listeners = [
        (listen(&url, &["-n", "20", "--ramp", "500ms"]), "udp"),
        (listen(&server.url(""), &["-n", "3", "--tcp", "--ramp", "500ms"]), "tcp"),
    ];
    // Some of them are there before anything comes.
    std::thread::sleep(Duration::from_millis(300));
    let writer = std::thread::spawn(move || {
        // Faster than its own clock: who reads it holds it up.
        let _ = pipe.write_all(&bytes);
    });
    for (listener, how) in listeners {
        let hearing = heard(listener, how);
        assert_eq!(hearing["played"], hearing["sessions"], "{how}: {hearing}");
        assert_eq!(hearing["ended"], hearing["sessions"], "{how}: {hearing}");
    }
    writer.join().expect("it wrote");
    let (code, text) = ended(listen(&url, &[]), "who comes too late");
    assert!(code == Some(1) && text.contains("410"), "{text}");
}

#[test]
fn a_cast_arrives_whole_and_says_how_to_listen() {
    let folder = Folder::new();
    let file = folder.put("a.ts", &stream(40));
    // An even port with a free one behind it, as far as anybody can tell.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("bound").port() & !1;
    drop(socket);
    let to = format!("rtp://127.0.0.1:{port}");
    let listener = listen(&to, &[]);
    // It listens as soon as the kernel knows of it.
    let wanted = format!("0100007F:{port:04X}");
    let begin_at = Instant::now();
    while !std::fs::read_to_string("/proc/net/udp").expect("a list").contains(&wanted) {
        assert!(begin_at.elapsed() < PATIENCE, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (file, sdp) = (file.to_str().expect("text"), folder.0.join("a.sdp"));
    let sdp_text = sdp.to_str().expect("text");
    let (code, said) = ended(begin(&["cast", file, &to, "--sdp", sdp_text]), "cast");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("MP2T/90000") && said.contains("drift"), "{said}");
    let hearing = heard(listener, "cast");
    assert_eq!(hearing["bytes"], 40 * 14 * 188, "{hearing}");
    let text = std::fs::read_to_string(&sdp).expect("a description");
    assert!(text.contains("c=IN IP4 127.0.0.1\r\n"), "{text}");
    assert!(text.contains(&format!("m=video {port} RTP/AVP 33\r\n")), "{text}");
    assert!(!text.contains("a=control"), "{text}");
}

#[test]
fn a_group_hears_one_sender() {
    let folder = Folder::new();
    folder.put("a.wav", &wave(2_000));
    // A group of this test run's own.
    let pid = std::process::id();
    let group = format!("239.77.{}.{}:{}", pid >> 8 & 255, pid & 255, 20_000 + pid % 10_000 * 2);
    let dir = folder.0.to_str().expect("text");
    let server = Server::start(&[dir, "--group", &group, "--loop"], Stdio::null());
    let url = server.url("a.wav");
    let here = ["--multicast", "--interface", "127.0.0.1"];
    let listen = || begin(&[&["play", &url, "--json", "--for", "2s"], &here[..]].concat());
    let hearings: Vec<Value> =
        [listen(), listen()].into_iter().map(|it| heard(it, "a member")).collect();
    let names: Vec<&Value> = hearings.iter().map(|it| &it["tracks"][0]["ssrc"]).collect();
    assert_eq!(names[0], names[1], "one sender: {hearings:?}");
    for hearing in &hearings {
        // Who came second heard at least what was left.
        assert!(hearing["packets"].as_u64() > Some(20), "{hearing}");
    }
    // A server without groups refuses, and players try the next way.
    let server = Server::start(&[dir], Stdio::null());
    let (code, text) = ended(listen_to_group(&server.url("a.wav")), "no group");
    assert!(code == Some(1) && text.contains("461"), "{text}");
}

fn listen_to_group(url: &str) -> Child {
    begin(&["play", url, "--json", "--for", "2s", "--multicast", "--interface", "127.0.0.1"])
}

#[test]
fn many_receivers_are_a_load() {
    let folder = Folder::new();
    folder.put("a.wav", &wave(3_000));
    let server = Server::start(&[folder.0.to_str().expect("text")], Stdio::null());
    let args = ["load", &server.url("a.wav"), "-c", "200", "-d", "20s", "--json"];
    let load = begin(&args);
    // Settings that are read anew disturb nobody.
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(300));
        server.signal("-HUP");
    }
    let hearing = heard(load, "load");
    assert_eq!((&hearing["played"], &hearing["ended"]), (&200.into(), &200.into()), "{hearing}");
    assert_eq!(hearing["packets"], 200 * 150, "{hearing}");
    assert!(hearing["first_packet_ms"]["p50"].as_f64() > Some(0.0), "{hearing}");
    let (code, said) = ended(begin(&["load", "rtsp://127.0.0.1:1/a", "http://x"]), "two targets");
    assert!(code == Some(2) && said.contains("listened to"), "{said}");
}

/// A film each within the connection and by datagrams.
fn check_engine(folder: &Path, engine: &str) {
    let folder = folder.to_str().expect("text");
    let Some(server) = Server::try_start(&[folder, "--engine", engine], Stdio::null()) else {
        assert!(["uring", "port"].contains(&engine), "{engine} needs nothing special");
        println!("skipped: io_uring");
        return;
    };
    let url = server.url("a.wav");
    let listeners = [listen(&url, &["-n", "3"]), listen(&url, &["-n", "3", "--tcp"])];
    for listener in listeners {
        let hearing = heard(listener, engine);
        assert_eq!(hearing["ended"], 3, "{engine}: {hearing}");
        assert_eq!(hearing["packets"], 3 * 50, "{engine}: {hearing}");
    }
}

#[test]
fn every_architecture_streams() {
    let folder = Folder::new();
    folder.put("a.wav", &wave(1_000));
    std::thread::scope(|scope| {
        for engine in ["prefork", "thread", "select", "uring", "port"] {
            let folder = &folder.0;
            scope.spawn(move || check_engine(folder, engine));
        }
    });
}

#[test]
fn who_listens_notices_nothing_of_a_new_server() {
    let folder = Folder::new();
    folder.put("a.wav", &wave(4_000));
    let dir = folder.0.to_str().expect("text");
    let mut server = Server::start(&[dir, "--upgradable", "--drain", "1h"], Stdio::null());
    let url = server.url("a.wav");
    let before = listen(&url, &["-n", "4", "--ramp", "100ms"]);
    // All of them play by then, on any machine; and if not, they do so with the heir.
    std::thread::sleep(Duration::from_millis(800));
    server.signal("-USR2");
    let ready = server.ready().expect("the heir is ready");
    server.heir = Some(ready["pid"].to_string());
    let after = listen(&url, &["-n", "4", "--ramp", "100ms"]);
    for (listener, who) in [(before, "before"), (after, "after")] {
        let hearing = heard(listener, who);
        assert_eq!(hearing["ended"], 4, "{who}: {hearing}");
        assert_eq!(hearing["packets"], 4 * 200, "{who}: {hearing}");
    }
    server.has_left();
}

#[test]
fn a_group_goes_on_when_who_sent_to_it_has_left() {
    let folder = Folder::new();
    folder.put("a.wav", &wave(3_000));
    let pid = std::process::id();
    let group = format!("239.78.{}.{}:{}", pid >> 8 & 255, pid & 255, 20_000 + pid % 10_000 * 2);
    let dir = folder.0.to_str().expect("text");
    let args = [dir, "--group", &group, "--loop", "--upgradable", "--drain", "1h"];
    let mut server = Server::start(&args, Stdio::null());
    let url = server.url("a.wav");
    let listen = |time: &str| {
        let here = ["--multicast", "--interface", "127.0.0.1", "--for", time];
        begin(&[&["play", &url, "--json"], &here[..]].concat())
    };
    let before = listen("3s");
    // It is cast by then, on any machine; if not, by the heir from the beginning.
    std::thread::sleep(Duration::from_millis(800));
    server.signal("-USR2");
    let ready = server.ready().expect("the heir is ready");
    server.heir = Some(ready["pid"].to_string());
    let after = listen("6s");
    let hearings = [heard(before, "before"), heard(after, "after")];
    assert_eq!(hearings[0]["tracks"][0]["ssrc"], hearings[1]["tracks"][0]["ssrc"]);
    server.has_left();
}
