//! Shared parts of the media tests: films that ffmpeg makes on the spot, and a server of them.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use testkit::{Ended, Folder, Process, has};

/// The tested binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_roundhouse");
/// Seconds of media in each file.
pub const SECONDS: usize = 3;

/// Starts a program whose output is kept.
#[track_caller]
pub fn start(program: &str, args: &[&str]) -> Process {
    Process::start(Command::new(program).args(args))
}

/// Runs a program to its end, which must be success.
#[track_caller]
pub fn run(program: &str, args: &[&str]) -> Ended {
    testkit::run(Command::new(program).args(args)).success()
}

/// A folder with three seconds of each format; `None` without ffmpeg. The tone rises, so that all
/// parts differ.
pub fn films() -> Option<&'static Path> {
    static FILMS: OnceLock<Option<Folder>> = OnceLock::new();
    let films = FILMS.get_or_init(|| {
        if !has("ffmpeg") {
            return None;
        }
        let folder = Folder::new();
        let folder_text = folder.text_path();
        let mut words: Vec<String> = "-v error -y -f lavfi -i testsrc2=size=320x240:rate=25 \
            -f lavfi -i aevalsrc=0.5*sin(2*PI*(200*t+300*t*t)):s=48000"
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let picture = "-map 0 -c:v libx264 -preset ultrafast -bf 2 -g 25 -pix_fmt yuv420p";
        for (name, how) in [
            ("film.mp4", &format!("{picture} -map 1 -c:a aac")[..]),
            (
                "hevc.mp4",
                "-map 0 -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 \
                 -pix_fmt yuv420p -map 1 -c:a aac",
            ),
            ("film.ts", &format!("{picture} -map 1 -c:a aac")),
            ("tone.wav", "-map 1 -ar 8000 -c:a pcm_mulaw"),
            ("alaw.wav", "-map 1 -ar 8000 -c:a pcm_alaw"),
            ("disc.wav", "-map 1 -ar 44100 -ac 2"),
            ("mono.wav", "-map 1 -ar 44100"),
            ("studio.wav", "-map 1 -ac 2"),
            ("talk.ogg", "-map 1 -c:a libopus"),
        ] {
            words.extend(how.split_whitespace().map(str::to_owned));
            words.extend(["-t".to_owned(), SECONDS.to_string(), format!("{folder_text}/{name}")]);
        }
        run("ffmpeg", &words.iter().map(String::as_str).collect::<Vec<_>>());
        Some(folder)
    });
    films.as_ref().map(Folder::path)
}

/// A running media server.
#[derive(derive_more::Deref)]
pub struct Server {
    /// Its process.
    #[deref]
    pub server: testkit::Server,
    /// Its URL, without a path.
    pub url: String,
}

impl Server {
    /// A server of this folder.
    #[track_caller]
    pub fn start(folder: &Path, args: &[&str]) -> Server {
        Server::start_by(&[], folder, &[&["--admin", "none"], args].concat())
    }

    /// The same with these words before the program.
    #[track_caller]
    pub fn start_by(front: &[&str], folder: &Path, args: &[&str]) -> Server {
        let words = [front, &[BINARY, "serve", "media", "--port", "0"]].concat();
        let mut command = Command::new(words[0]);
        let server = testkit::Server::start(command.args(&words[1..]).args(args).arg(folder));
        let url = format!("rtsp://{}", server.address);
        Server { server, url }
    }
}
