//! Requests that no player sends, written by hand. The tests request films with two tracks as a
//! whole and in parts, and check that the server serves no file outside its folder.

use std::path::Path;

use crate::receiver::Receiver;
use crate::stage::{Server, films, run};

#[test]
fn a_film_of_two_tracks_is_played_as_a_whole() {
    let Some(folder) = films() else { return };
    let server = Server::start(folder, &[]);
    let film = format!("{}/film.mp4", server.url);
    let mut talk = Receiver::connect(&film, true);
    talk.check("SETUP", "", "Transport: RTP/AVP/TCP;unicast\r\n", "459");
    let tracks = ["trackID=0", "trackID=1"];
    (0..2).for_each(|at| talk.set_up(at, tracks[at].to_owned()));
    let other = format!("{}/tone.wav", server.url);
    talk.check("SETUP", &other, "Transport: RTP/AVP/TCP;unicast\r\n", "459");
    talk.check("PLAY", tracks[0], "", "460");
    talk.check("PAUSE", tracks[1], "", "460");
    for (range, code) in [
        ("npt=99-", "457"),
        ("npt=999999999:00:00-", "457"),
        ("npt=2-1", "457"),
        ("smpte=0:10:20-", "457"),
        ("npt=1-2", "200"),
        ("npt=now-", "200"),
        ("npt=00:00:00.5-", "200"),
    ] {
        talk.check("PLAY", "", &format!("Range: {range}\r\n"), code);
    }
    let (head, _) = talk.check("PLAY", "", "Range: npt=1-\r\nScale: 2\r\n", "200");
    assert!(head.contains("Range: npt=1.0") && head.contains("Scale: 1.0"), "{head}");
    assert_eq!(head.matches(";rtptime=").count(), 2, "{head}");
    // One track ends, and the other continues.
    talk.check("TEARDOWN", tracks[1], "", "200");
    talk.check("GET_PARAMETER", "", "", "200");
    let (head, _) = talk.check("PLAY", "", "Range: npt=0-\r\n", "200");
    assert_eq!(head.matches(";rtptime=").count(), 1, "{head}");
    talk.check("TEARDOWN", "", "", "200");
    talk.check("PLAY", "", "", "454");
}

#[test]
fn nothing_is_served_that_lies_elsewhere() {
    let Some(folder) = films() else { return };
    // The server serves a subfolder, which contains a link outwards and a hidden file.
    let inside = folder.join("inside");
    std::fs::create_dir_all(&inside).expect("a folder");
    let link = |from: &Path, name: &str| {
        let to = inside.join(name);
        // An earlier run of this process may have made it.
        let _ = std::os::unix::fs::symlink(from, to);
    };
    link(&folder.join("tone.wav"), "out.wav");
    link(folder, "up");
    std::fs::copy(folder.join("tone.wav"), inside.join(".hidden.wav")).expect("a copy");
    std::fs::copy(folder.join("tone.wav"), inside.join("a film, 100 %.wav")).expect("a copy");
    let server = Server::start(&inside, &[]);
    let mut talk = Receiver::connect(&server.url, true);
    talk.check("DESCRIBE", "a%20film,%20100%20%25.wav", "", "200");
    for path in [
        "/out.wav",
        "/up/tone.wav",
        "/../tone.wav",
        "/%2e%2e/tone.wav",
        "/..%2ftone.wav",
        "/inside/../../tone.wav",
        "//etc/passwd",
        "/.hidden.wav",
        "/%2ehidden.wav",
        "/a%00b.wav",
        "/",
    ] {
        let (head, _) = talk.ask("DESCRIBE", &format!("{}{path}", server.url), "");
        let code = head.get(9..12).unwrap_or("");
        assert!(["403", "404"].contains(&code), "{path}: {head}");
    }
    // And it listens on.
    talk.check("OPTIONS", "*", "", "200");
}

#[test]
fn what_cannot_be_sent_is_left_out_and_named() {
    let Some(folder) = films() else { return };
    let (from, to) = (folder.join("film.mp4"), folder.join("inside-ac3.mp4"));
    let [from, to] = [&from, &to].map(|path| path.to_str().expect("text"));
    run("ffmpeg", &["-v", "error", "-y", "-i", from, "-c:v", "copy", "-c:a", "ac3", to]);
    // A server tells its operator once, and each client in the description.
    let server = Server::start(folder, &[]);
    for _ in 0..2 {
        let mut talk = Receiver::connect(&server.url, true);
        talk.check("OPTIONS", "*", "", "200");
        talk.check("DESCRIBE", "inside-ac3.mp4", "", "200");
    }
    let said = server.server.stop().err;
    assert_eq!(said.matches("inside-ac3.mp4: left out: ac3").count(), 1, "{said}");
}
