//! What the tests share: films that ffmpeg makes on the spot, a server of them, and programs that
//! are run to their end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The binary that is tried.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");
/// How long a player may take for three seconds of media on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds of media in each file.
pub const SECONDS: usize = 3;

/// Says that something is missing, which must have a row in the list of what may be.
pub fn skip(what: &str) {
    let rows = include_str!("../../../../tests/skips.toml");
    assert!(rows.contains(&format!("what = \"{what}\"")), "expected a row for {what}");
    println!("skipped: {what}");
}

/// Whether a program is there; if not, says so.
pub fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !found {
        skip(program);
    }
    found
}

/// Waits for a program's end, at most for [`PATIENCE`], and kills it then.
#[track_caller]
pub fn finish(mut child: Child, name: &str) -> Output {
    let begin = Instant::now();
    // What it says is little, and fits into the pipes.
    while child.try_wait().expect("our own child").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("our own child");
            let said = child.wait_with_output().expect("our own child");
            panic!("{name} did not end: {}", String::from_utf8_lossy(&said.stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("our own child")
}

/// Starts a program whose output is kept.
pub fn start(program: &str, args: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect(program)
}

/// Runs a program to its end, which has to be a good one.
#[track_caller]
pub fn run(program: &str, args: &[&str]) -> Output {
    // Frames of sound are more than a pipe holds: they are read while the program runs.
    let child = start(program, args);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a pid");
    let (told, ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE).is_err() {
            // It may have ended just now.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().expect("our own child");
    let _ = told.send(());
    watch.join().expect("a watch");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output
}

/// A folder with three seconds of everything, and of the same sound as samples (`sound.raw`,
/// 16 bits, 8 kHz); `None` without ffmpeg. The tone rises, so that no part is like another.
pub fn films() -> Option<&'static Path> {
    static FILMS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let films = FILMS.get_or_init(|| {
        if !has("ffmpeg") {
            return None;
        }
        let folder = std::env::temp_dir().join(format!("roundhouse-films-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let folder_text = folder.to_str().expect("text");
        let mut words: Vec<String> = "-v error -y -f lavfi -i testsrc2=size=320x240:rate=25 \
            -f lavfi -i aevalsrc=0.5*sin(2*PI*(200*t+300*t*t)):s=48000"
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let picture = "-map 0 -c:v libx264 -preset ultrafast -bf 2 -g 25 -pix_fmt yuv420p";
        for (name, how) in [
            ("film.mp4", &format!("{picture} -map 1 -c:a aac")[..]),
            ("film.ts", &format!("{picture} -map 1 -c:a aac")),
            ("tone.wav", "-map 1 -ar 8000 -c:a pcm_mulaw"),
            ("alaw.wav", "-map 1 -ar 8000 -c:a pcm_alaw"),
            ("disc.wav", "-map 1 -ar 44100 -ac 2"),
            ("mono.wav", "-map 1 -ar 44100"),
            ("studio.wav", "-map 1 -ac 2"),
            ("talk.ogg", "-map 1 -c:a libopus"),
            ("sound.raw", "-map 1 -ar 8000 -f s16le"),
        ] {
            words.extend(how.split(' ').map(str::to_owned));
            words.extend(["-t".to_owned(), SECONDS.to_string(), format!("{folder_text}/{name}")]);
        }
        run("ffmpeg", &words.iter().map(String::as_str).collect::<Vec<_>>());
        Some(folder)
    });
    films.as_deref()
}

/// A server that dies with its handle.
pub struct Server {
    pub child: Child,
    /// Its URL, without a path.
    pub url: String,
}

impl Server {
    /// One of this folder.
    pub fn start(folder: &Path, args: &[&str]) -> Server {
        Server::start_by(&[], folder, &[&["--admin", "none"], args].concat())
    }

    /// The same with these words in front of the program.
    pub fn start_by(front: &[&str], folder: &Path, args: &[&str]) -> Server {
        let words = [front, &[BINARY, "serve", "media", "--port", "0"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(args).arg(folder);
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
