//! Players authenticate by Digest, each with its own way to pass the password; and ffplay plays
//! every file from the middle to the end, within the connection and by UDP.

use std::process::Command;

use testkit::has;

use crate::is_well;
use crate::players::FILMS;
use crate::stage::{Server, films};

/// The user that may play.
const DOOR: [&str; 2] = ["--user", "ann:secret"];

/// ffplay without a screen, from one second on, reports no error.
fn ffplay(url: &str, film: &str, transport: &str) {
    let url = format!("{}/{film}", url.replace("://", "://ann:secret@"));
    let mut command = Command::new("ffplay");
    command.env("SDL_VIDEODRIVER", "dummy").env("SDL_AUDIODRIVER", "dummy");
    command.args(["-v", "error", "-autoexit", "-ss", "1", "-rtsp_transport", transport, &url]);
    let output = testkit::run(&mut command);
    let said = output.err;
    // Its reader of transport streams keeps the beginning of a picture over a seek, and decodes it
    // with the end of another.
    let is_cut = |line: &str| film.ends_with(".ts") && line.contains("h264");
    let troubles = said.lines().map(str::trim).filter(|line| !line.is_empty() && !is_cut(line));
    let troubles: Vec<&str> = troubles.collect();
    assert!(output.code == Some(0) && troubles.is_empty(), "{film} over {transport}: {said}");
}

#[test]
fn ffplay_plays_every_file_from_the_middle_to_the_end() {
    let Some(folder) = films() else { return };
    if !has("ffplay") {
        return;
    }
    let server = Server::start(folder, &DOOR);
    std::thread::scope(|scope| {
        for film in FILMS {
            for transport in ["tcp", "udp"] {
                let url = server.url.as_str();
                scope.spawn(move || ffplay(url, film, transport));
            }
        }
    });
}

/// Whether a program with these arguments succeeds.
fn succeeds(words: &[String]) -> bool {
    is_well(&testkit::run(Command::new(&words[0]).args(&words[1..])))
}

#[test]
fn who_knows_the_password_plays_and_nobody_else_does() {
    let Some(folder) = films() else { return };
    let server = Server::start(folder, &DOOR);
    let behind = server.url.trim_start_matches("rtsp://");
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let check = |password: &str, want: bool| {
        let url = format!("rtsp://ann:{password}@{behind}/tone.wav");
        let location = format!("location=rtsp://{behind}/tone.wav");
        let word = format!("user-pw={password}");
        let players = [
            text(&["ffmpeg", "-v", "quiet", "-i", &url, "-f", "null", "-"]),
            text(&["mpv", "--no-config", "--msg-level=all=error", "--ao=null", &url]),
            text(&[
                "gst-launch-1.0",
                "-q",
                "rtspsrc",
                &location,
                "user-id=ann",
                &word,
                "protocols=udp",
                "!",
                "fakesink",
            ]),
        ];
        std::thread::scope(|scope| {
            for words in players {
                scope.spawn(move || {
                    if has(&words[0]) {
                        assert_eq!(succeeds(&words), want, "{words:?}");
                    }
                });
            }
        });
    };
    check("secret", true);
    check("guess", false);
}
