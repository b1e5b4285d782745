//! Foreign players (ffmpeg, mpv and GStreamer) play the streams of `roundhouse serve media` and get
//! the content of the files, within the connection and by UDP, on several architectures. They pause
//! and seek, and Wireshark reports no problem.
//!
//! ffmpeg makes the test media on the spot. No test measures time: the tests compare decoded
//! frames.

mod groups;
mod password;
mod players;
mod sound;
mod stage;
mod tap;

use std::path::Path;

use stage::{Server, films, run, start};
use testkit::{Ended, PATIENCE};

/// The frames that ffmpeg decodes from `input`: a line for each, with its track and its digest,
/// sorted because tracks alternate by chance.
fn decoded(before: &[&str], input: &str, tracks: &str) -> Vec<String> {
    let args = [&["-v", "error"], before, &["-i", input, "-map", tracks, "-f", "framemd5", "-"]];
    let output = run("ffmpeg", &args.concat());
    let frames = output.out.lines().filter(|line| !line.starts_with('#'));
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

/// Whether a pipeline of GStreamer has ended well.
///
/// At the end it may fail on its own `PAUSE` before it sends it; the server still gets the later
/// `TEARDOWN` over the same connection. The same happens with GStreamer's own server (4 of 36
/// times, with ours 2 of 36).
fn is_well(player: &Ended) -> bool {
    let said = &player.err;
    let is_parting = said.contains("gst_rtspsrc_pause") && said.contains("end-of-file");
    player.code == Some(0) || is_parting
}

/// Runs a pipeline of GStreamer to its end, with these words before it.
#[track_caller]
fn gst(front: &[&str], pipeline: &[&str]) {
    let words = [front, &["gst-launch-1.0"], pipeline].concat();
    let output = start(words[0], &words[1..]).end(PATIENCE);
    assert!(is_well(&output), "{words:?}: {}", output.err);
}

/// All frames of a film arrive as they are in the file, with perhaps one more of sound. A file can
/// tell a player to skip the encoder's padding before the first frame; a stream cannot.
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
    // Threads and processes run the same loop; one film for each is enough.
    let server = Server::start(folder, &["--engine", "epoll"]);
    std::thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || check(folder, server, "film.mp4", "tcp", "0"));
        scope.spawn(move || check(folder, server, "film.mp4", "udp", "0"));
        scope.spawn(move || check(folder, server, "hevc.mp4", "udp", "0"));
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
fn a_track_that_begins_later_by_its_edit_list_begins_later_for_a_player() {
    let Some(films) = films() else { return };
    let folder = testkit::Folder::new();
    let film = folder.path().join("late.mp4");
    let [from, to] = [films.join("film.mp4"), film].map(|it| it.to_str().expect("text").to_owned());
    let tracks = ["-map", "0:v", "-map", "1:a", "-c", "copy"];
    let early = ["-v", "error", "-i", &from, "-itsoffset", "1.5", "-i", &from];
    run("ffmpeg", &[&early[..], &tracks, &[&to]].concat());
    let server = Server::start(folder.path(), &[]);
    let first = |track: &str| -> f64 {
        let url = format!("{}/late.mp4", server.url);
        let show = ["-show_entries", "packet=pts_time", "-of", "csv=p=0", "-select_streams", track];
        let front = ["-v", "error", "-rtsp_transport", "tcp"];
        let said = run("ffprobe", &[&front[..], &show, &[&url]].concat()).out;
        let times = said.lines().filter_map(|line| line.trim_end_matches(',').parse().ok());
        times.fold(f64::INFINITY, f64::min)
    };
    let later = first("a") - first("v");
    assert!((1.4..1.6).contains(&later), "the sound begins {later} s later");
}
