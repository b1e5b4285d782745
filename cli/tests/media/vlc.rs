//! VLC, which Debian builds without RTSP, plays streams to a port that need no description:
//! transport streams, μ-law and 16-bit samples. It decodes them and writes a file instead of
//! showing them, so that the tests can compare pictures and samples with those of the source.
//!
//! VLC refuses to run as root, so the tests then run it as the user `nobody`.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sys::signal::Signal;
use testkit::{PATIENCE, Process, has};

use crate::stage::{BINARY, films, run, start};

/// Bytes of a picture of the films.
const PICTURE: usize = 320 * 240 * 3 / 2;

/// VLC at a port, whose output goes to a file.
struct Vlc {
    player: Process,
    film: &'static str,
    port: u16,
    output: PathBuf,
}

/// Free even ports below those that the kernel hands out (from 32768 on, ip(7)); each is
/// followed by its control port.
fn ports() -> Vec<u16> {
    let from = std::process::id() % 6000 * 2;
    let all = (0..6000).map(|step| (20_000 + (from + step * 2) % 12_000) as u16);
    let is_free = |port: &u16| {
        let socket = |port| UdpSocket::bind(("127.0.0.1", port));
        socket(*port).is_ok() && socket(port + 1).is_ok()
    };
    all.filter(is_free).take(3).collect()
}

impl Vlc {
    /// Waits until it listens.
    fn start(folder: &Path, film: &'static str, port: u16) -> Vlc {
        let home = folder.join(format!("vlc-{film}"));
        fs::create_dir_all(&home).expect("a folder");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).expect("our own folder");
        let output = home.join("output");
        let sink = output.display();
        let home = format!("HOME={}", home.display());
        let url = format!("rtp://@127.0.0.1:{port}");
        let sink = format!(
            "#transcode{{vcodec=I420,acodec=s16l}}:std{{access=file,mux=dummy,dst={sink}}}"
        );
        let quiet = ["-q", "-I", "dummy", "--aout", "adummy"];
        // Only the pictures of a film: sound would be interleaved with them.
        let pictures = film.ends_with(".ts").then_some("--no-sout-audio");
        let player = ["env", &home, "cvlc"].into_iter().chain(quiet);
        let player = player.chain([&url[..], "--sout", &sink]).chain(pictures);
        let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let is_root = rustix::process::geteuid().is_root();
        let front = if is_root { &nobody[..] } else { &[] };
        let words: Vec<&str> = front.iter().copied().chain(player).collect();
        let player = start(words[0], &words[1..]);
        let mut vlc = Vlc { player, film, port, output };
        let begin = Instant::now();
        while !vlc.listens() {
            assert!(vlc.player.is_running(), "{film}: VLC has ended");
            assert!(begin.elapsed() < PATIENCE, "{film}: VLC does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        vlc
    }

    fn listens(&self) -> bool {
        let sockets = fs::read_to_string("/proc/net/udp").expect("the kernel's list");
        sockets.contains(&format!(" 0100007F:{:04X} ", self.port))
    }

    /// Casts the film to VLC, and returns its output once it has `len` bytes, or once no more can
    /// come.
    fn made(mut self, folder: &Path, len: usize) -> Vec<u8> {
        let film = folder.join(self.film);
        let url = format!("rtp://127.0.0.1:{}", self.port);
        run(BINARY, &["cast", film.to_str().expect("text"), &url]);
        let begin = Instant::now();
        let written = || fs::metadata(&self.output).map_or(0, |meta| meta.len());
        while written() < len as u64 && begin.elapsed() < PATIENCE / 3 {
            std::thread::sleep(Duration::from_millis(50));
        }
        // VLC waits for more until it gets a signal; then it writes the rest. setpriv and env have
        // become VLC by exec; it may have ended by itself.
        let _ = sys::process::kill(self.player.pid(), Signal::INT);
        self.player.end(PATIENCE);
        fs::read(&self.output).expect("what VLC has written")
    }
}

/// VLC's output from the stream equals ffmpeg's from the file, in order; `size` is a picture, or a
/// packet of sound as samples of 16 bits. On a busy machine VLC may miss datagrams, but more than
/// half of them arrive, and all received sound is in the file.
fn check(folder: &Path, film: &'static str, port: u16, size: usize) {
    let path = folder.join(film);
    let how: &[&str] = match size {
        PICTURE => &["-map", "0:v", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"],
        _ => &["-map", "0:a", "-f", "s16le", "-"],
    };
    let args = [&["-v", "error", "-i", path.to_str().expect("text")], how].concat();
    let want = run("ffmpeg", &args).bytes;
    // VLC may keep the end of the stream: a few pictures, a packet of sound.
    let most = want.len() - if size == PICTURE { want.len() / 5 } else { 2 * 1500 };
    let got = Vlc::start(folder, film, port).made(folder, most);
    let (mut at, mut same, mut strange) = (0, 0, 0);
    for piece in got.chunks_exact(size) {
        let rest = want[at..].chunks_exact(size);
        match rest.clone().position(|other| other == piece) {
            Some(behind) => {
                at += (behind + 1) * size;
                same += 1;
            }
            None => strange += 1,
        }
    }
    let all = want.len() / size;
    assert!(same * 2 > all, "{film}: {same} of {all} pieces, and {strange} others");
    assert!(strange == 0 || size == PICTURE, "{film}: {strange} pieces that are not in the file");
    println!("{film}: VLC has made {same} of {all} pieces, and {strange} others");
}

#[test]
fn vlc_decodes_what_is_cast_to_it() {
    let Some(folder) = films() else { return };
    if !has("cvlc") {
        return;
    }
    let ports = ports();
    std::thread::scope(|scope| {
        scope.spawn(|| check(folder, "film.ts", ports[0], PICTURE));
        scope.spawn(|| check(folder, "tone.wav", ports[1], 320));
        scope.spawn(|| check(folder, "disc.wav", ports[2], 1400));
    });
}
