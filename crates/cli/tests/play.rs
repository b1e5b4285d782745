//! `roundhouse play` listens to `roundhouse serve media`: everything that was sent is heard, by one
//! session and by several, as datagrams and in the connection, to the end and from the middle.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");
/// Seconds of sound in the file.
const SECONDS: u32 = 2;
/// Samples a second, a byte each.
const RATE: u32 = 8000;

/// A server of a folder with one file, stopped with its guard.
struct Server {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl Server {
    fn start(name: &str, flags: &[&str]) -> Server {
        let folder = std::env::temp_dir().join(format!("cli-play-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary directory");
        sound(&folder.join("a.wav"));
        let mut child = Command::new(EXE)
            .args(["serve", "media", "--port", "0", "--engine", "epoll", "--admin", "none"])
            .args(flags)
            .arg(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built for this test");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a banner");
        let banner: Value = serde_json::from_str(&line).expect("one line of JSON");
        let address = banner["listening"].as_str().expect("an address").to_owned();
        Server { child, folder, address }
    }

    fn play(&self, words: &str) -> (ExitStatus, Value) {
        let url = format!("rtsp://{}/a.wav", self.address);
        play(&url, words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn play(url: &str, words: &str) -> (ExitStatus, Value) {
    let output = Command::new(EXE)
        .args(["play", url, "--json"])
        .args(words.split(' ').filter(|word| !word.is_empty()))
        .output()
        .expect("the binary was built for this test");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    let found = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{words}: {text}{told}"));
    (output.status, found)
}

/// A file of mu-law (RFC 3551 section 4.5.14).
fn sound(path: &Path) {
    let data = SECONDS * RATE;
    let mut file = File::create(path).expect("a temporary file");
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + data).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x07\0\x01\0");
    bytes.extend(RATE.to_le_bytes());
    bytes.extend(RATE.to_le_bytes());
    bytes.extend(b"\x01\0\x08\0data");
    bytes.extend(data.to_le_bytes());
    bytes.extend((0..data).map(|at| (at % 251) as u8));
    file.write_all(&bytes).expect("a disk with room");
}

#[test]
fn everything_that_is_sent_is_heard_to_the_end() {
    let server = Server::start("end", &[]);
    for words in ["-d 60s", "-d 60s --tcp"] {
        let (status, found) = server.play(words);
        assert!(status.success(), "{words}: {found}");
        assert_eq!(found["bytes"], SECONDS * RATE, "{words}: {found}");
        for nothing in ["lost", "duplicates", "reordered", "strangers", "misannounced"] {
            assert_eq!(found[nothing], 0, "{words}: {found}");
        }
        assert!(found["ended"] == 1 && found["reports"].as_u64() > Some(0), "{words}: {found}");
        assert_eq!(found["tracks"][0]["payload"], "0 PCMU");
    }
    let (_, half) = server.play("-d 60s --from 1");
    assert_eq!(half["bytes"], (SECONDS - 1) * RATE, "{half}");
}

#[test]
fn many_sessions_share_two_sockets() {
    let server = Server::start("many", &[]);
    let (status, found) = server.play("-d 60s --sessions 30 --ramp 500ms");
    assert!(status.success(), "{found}");
    assert_eq!((&found["played"], &found["ended"]), (&30.into(), &30.into()), "{found}");
    assert_eq!(found["bytes"], 30 * SECONDS * RATE, "{found}");
}

#[test]
fn what_a_server_refuses_is_told() {
    let server = Server::start("refused", &["--user", "a:b"]);
    let (status, found) = server.play("-d 1s");
    assert_eq!(status.code(), Some(1));
    assert_eq!(found["failed"][0][0], "DESCRIBE: 401 Unauthorized");
    let (status, found) = server.play("-d 60s --user a:b --tcp --from 1.5");
    assert!(status.success() && found["played"] == 1, "{found}");
    let found = silent();
    assert_eq!(found["failed"][0], serde_json::json!(["DESCRIBE: no answer", 3]), "{found}");
    let url = format!("rtsp://{}/none", server.address);
    let (status, found) = play(&url, "--user a:b");
    assert_eq!(status.code(), Some(1));
    assert_eq!(found["failed"][0][0], "DESCRIBE: 404 Not Found");
}

/// What is found at a server that takes connections and says nothing.
fn silent() -> Value {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("rtsp://{}/a", listener.local_addr().expect("bound"));
    let (status, found) = play(&url, "-d 2s --sessions 3 --ramp 100ms");
    assert_eq!(status.code(), Some(1));
    found
}

#[test]
fn what_comes_by_itself_is_overheard() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = free.local_addr().expect("an address");
    drop(free);
    let child = Command::new(EXE)
        .args(["play", &format!("rtp://{to}"), "--json", "-d", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    sender.connect(to).expect("an address");
    // Sequence numbers 1, 2, 4 and 3 of one sender, over and over until somebody listens.
    let packet =
        |number: u8| [&[0x80, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 9][..], b"sound"].concat();
    for _ in 0..200 {
        for number in [1, 2, 4, 3] {
            // Nobody may listen yet, which the kernel tells.
            let _ = sender.send(&packet(number));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let own = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a pid");
    rustix::process::kill_process(own, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it is our child");
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!((&found["lost"], &found["tracks"][0]["ssrc"]), (&0.into(), &9.into()), "{found}");
    assert!(found["packets"].as_u64() >= Some(3), "{found}");
    assert!(found["duplicates"].as_u64() > Some(100), "{found}");
}
