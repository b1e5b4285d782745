//! Players that we have not written play what `roundhouse serve media` sends, and get what is in
//! the files: ffmpeg and GStreamer, within the connection and by UDP, on several architectures.
//!
//! Test media are made by ffmpeg on the spot; where it is missing the tests say so. No test
//! measures time: what is compared is what was decoded.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The binary that is tried.
const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");
/// How long a player may take for two seconds of media on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a program is there; if not, says so once more than its row in the list of skips.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("-version").output().is_ok()
        || Command::new(program).arg("--version").output().is_ok();
    if !found {
        let rows = include_str!("../../../../tests/skips.toml");
        assert!(rows.contains(&format!("what = \"{program}\"")), "expected a row for {program}");
        println!("skipped: {program}");
    }
    found
}

/// Runs a program to its end, at most for [`PATIENCE`].
fn run(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect(program);
    let begin = Instant::now();
    while child.try_wait().expect("our own child").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("our own child");
            let said = child.wait_with_output().expect("our own child");
            panic!("{program} {args:?} did not end: {}", String::from_utf8_lossy(&said.stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("our own child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output
}

/// A folder with two seconds of everything; `None` without ffmpeg.
fn films() -> Option<&'static Path> {
    static FILMS: OnceLock<Option<PathBuf>> = OnceLock::new();
    FILMS
        .get_or_init(|| {
            if !has("ffmpeg") {
                return None;
            }
            let folder =
                std::env::temp_dir().join(format!("roundhouse-films-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a temporary folder");
            let at = |name: &str| folder.join(name).to_str().expect("text").to_owned();
            let picture = "testsrc2=size=320x240:rate=25";
            let tone = "sine=frequency=440:sample_rate=48000";
            let make = |args: &[&str]| {
                let front = ["-v", "error", "-y", "-f", "lavfi"];
                run("ffmpeg", &[&front[..], args].concat());
            };
            make(&[
                "-i",
                picture,
                "-f",
                "lavfi",
                "-i",
                tone,
                "-t",
                "2",
                "-c:v",
                "libx264",
                "-preset",
                "ultrafast",
                "-g",
                "25",
                "-c:a",
                "aac",
                &at("film.mp4"),
            ]);
            make(&[
                "-i",
                picture,
                "-t",
                "2",
                "-c:v",
                "libx264",
                "-preset",
                "ultrafast",
                "-g",
                "25",
                &at("film.ts"),
            ]);
            make(&["-i", tone, "-t", "2", "-ar", "8000", "-c:a", "pcm_mulaw", &at("tone.wav")]);
            make(&["-i", tone, "-t", "2", "-ac", "2", "-ar", "44100", &at("disc.wav")]);
            Some(folder)
        })
        .as_deref()
}

/// A server that dies with its handle.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path, args: &[&str]) -> Server {
        let mut command = Command::new(BINARY);
        command.args(["serve", "media", "--port", "0"]).args(args).arg(folder);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("our own binary");
        let out = child.stdout.take().expect("a pipe");
        let line = BufReader::new(out).lines().next().expect("a line").expect("text");
        let (_, behind) = line.split_once("\"listening\":\"").expect(&line);
        let url = format!("rtsp://{}", behind.split('"').next().unwrap_or(""));
        Server { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to be done.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What ffmpeg decodes from there: a line for each frame, its track and its digest, sorted, for
/// tracks take turns by chance.
fn decoded(before: &[&str], input: &str, tracks: &str) -> Vec<String> {
    let args = [&["-v", "error"], before, &["-i", input, "-map", tracks, "-f", "framemd5", "-"]];
    let output = run("ffmpeg", &args.concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    let mut frames: Vec<String> = frames
        .map(|line| {
            let mut fields = line.split(',').map(str::trim);
            let track = fields.next().unwrap_or("").to_owned();
            format!("{track} {}", fields.next_back().unwrap_or(""))
        })
        .collect();
    frames.sort();
    frames
}

/// All frames of a film come through as they are in the file. There may be one of sound more: what
/// an encoder puts in front of the first a file can tell a player to leave out; a stream cannot.
fn check(folder: &Path, server: &Server, film: &str, transport: &str, tracks: &str) {
    let path = folder.join(film);
    let want = decoded(&[], path.to_str().expect("text"), tracks);
    let url = format!("{}/{film}", server.url);
    let got = decoded(&["-rtsp_transport", transport], &url, tracks);
    assert!(want.len() > 40, "{film}: {} frames", want.len());
    let missing: Vec<_> = want.iter().filter(|frame| !got.contains(frame)).collect();
    let more: Vec<_> = got.iter().filter(|frame| !want.contains(frame)).collect();
    let is_front = more.iter().all(|frame| frame.starts_with("1 ")) && more.len() <= 1;
    assert!(missing.is_empty() && is_front, "{film} over {transport}: -{missing:?} +{more:?}");
}

#[test]
fn ffmpeg_decodes_the_same_frames_from_the_stream_as_from_the_file() {
    let Some(folder) = films() else { return };
    // The loop serves threads and processes alike; a film each is enough.
    let server = Server::start(folder, &["--engine", "epoll"]);
    std::thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || check(folder, server, "film.mp4", "tcp", "0"));
        scope.spawn(move || check(folder, server, "film.mp4", "udp", "0"));
    });
    for engine in ["prefork", "thread"] {
        let server = Server::start(folder, &["--engine", engine]);
        std::thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || check(folder, server, "film.mp4", "udp", "0:v"));
            scope.spawn(move || check(folder, server, "film.mp4", "tcp", "0:v"));
        });
    }
}

#[test]
fn gstreamer_gets_the_bytes_of_the_file() {
    let Some(folder) = films() else { return };
    if !has("gst-launch-1.0") {
        return;
    }
    let server = Server::start(folder, &[]);
    let check = |film: &str, protocol: &str, pay: &str, head: usize, swap: bool| {
        let copy = folder.join(format!("{film}.{protocol}"));
        let location = format!("location={}/{film}", server.url);
        let sink = format!("location={}", copy.display());
        let protocols = format!("protocols={protocol}");
        run(
            "gst-launch-1.0",
            &["-q", "rtspsrc", &location, &protocols, "!", pay, "!", "filesink", &sink],
        );
        let want = std::fs::read(folder.join(film)).expect("our own film");
        let mut got = std::fs::read(&copy).expect("a copy");
        if swap {
            got.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        let want = &want[head..];
        assert!(want == got, "{film} over {protocol}: {} of {} bytes", got.len(), want.len());
    };
    // Behind the heads that ffmpeg writes stand the samples to the end of the file.
    let head = |film: &str| {
        let file = std::fs::read(folder.join(film)).expect("our own film");
        file.windows(4).position(|it| it == b"data").expect("samples") + 8
    };
    check("film.ts", "tcp", "rtpmp2tdepay", 0, false);
    check("film.ts", "udp", "rtpmp2tdepay", 0, false);
    check("disc.wav", "tcp", "rtpL16depay", head("disc.wav"), true);
    check("tone.wav", "udp", "rtppcmudepay", head("tone.wav"), false);
}
