//! Requests that no player sends, written by hand. The tests request films with two tracks as a
//! whole and in parts, and check that the server serves no file outside its folder.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use testkit::PATIENCE;

use crate::stage::{Server, films, run};

/// A conversation by hand.
struct Talk {
    stream: TcpStream,
    asked: u32,
    session: String,
    heard: Vec<u8>,
}

impl Talk {
    fn new(server: &Server) -> Talk {
        let stream = TcpStream::connect(server.address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Talk { stream, asked: 0, session: String::new(), heard: Vec::new() }
    }

    /// Sends a request and returns the head of the answer; skips packets between answers.
    fn ask(&mut self, method: &str, url: &str, fields: &str) -> String {
        self.asked += 1;
        let session = match self.session.as_str() {
            "" => String::new(),
            name => format!("Session: {name}\r\n"),
        };
        let number = self.asked;
        let text = format!("{method} {url} RTSP/1.0\r\nCSeq: {number}\r\n{session}{fields}\r\n");
        self.stream.write_all(text.as_bytes()).expect("it listens");
        let wanted = format!("CSeq: {number}\r\n");
        loop {
            let text = String::from_utf8_lossy(&self.heard);
            if let Some(at) = text.find(&wanted) {
                let from = text[..at].rfind("RTSP/1.0 ").expect("a first line");
                if let Some(end) = text[at..].find("\r\n\r\n") {
                    let head = text[from..at + end].to_owned();
                    self.heard.clear();
                    return head;
                }
            }
            let mut piece = [0; 4096];
            let len = self.stream.read(&mut piece).expect("an answer");
            assert!(len > 0, "{method} {url}: the server has hung up");
            self.heard.extend_from_slice(&piece[..len]);
        }
    }

    #[track_caller]
    fn check(&mut self, method: &str, url: &str, fields: &str, code: &str) -> String {
        let head = self.ask(method, url, fields);
        assert_eq!(head.get(9..12), Some(code), "{method} {url} {fields}: {head}");
        head
    }

    /// Sets a track up within the connection.
    fn set_up(&mut self, url: &str) {
        let transport = "Transport: RTP/AVP/TCP;unicast\r\n";
        let head = self.check("SETUP", url, transport, "200");
        let name = head.lines().find_map(|line| line.strip_prefix("Session: "));
        self.session = name.and_then(|it| it.split(';').next()).expect(&head).to_owned();
    }
}

#[test]
fn a_film_of_two_tracks_is_played_as_a_whole() {
    let Some(folder) = films() else { return };
    let server = Server::start(folder, &[]);
    let film = format!("{}/film.mp4", server.url);
    let mut talk = Talk::new(&server);
    let track = |at: u32| format!("{film}/trackID={at}");
    talk.check("SETUP", &film, "Transport: RTP/AVP/TCP;unicast\r\n", "459");
    talk.set_up(&track(0));
    talk.set_up(&track(1));
    let other = format!("{}/tone.wav", server.url);
    talk.check("SETUP", &other, "Transport: RTP/AVP/TCP;unicast\r\n", "459");
    talk.check("PLAY", &track(0), "", "460");
    talk.check("PAUSE", &track(1), "", "460");
    for (range, code) in [
        ("npt=99-", "457"),
        ("npt=999999999:00:00-", "457"),
        ("npt=2-1", "457"),
        ("smpte=0:10:20-", "457"),
        ("npt=1-2", "200"),
        ("npt=now-", "200"),
        ("npt=00:00:00.5-", "200"),
    ] {
        talk.check("PLAY", &film, &format!("Range: {range}\r\n"), code);
    }
    let head = talk.check("PLAY", &film, "Range: npt=1-\r\nScale: 2\r\n", "200");
    assert!(head.contains("Range: npt=1.0") && head.contains("Scale: 1.0"), "{head}");
    assert_eq!(head.matches(";rtptime=").count(), 2, "{head}");
    // One track ends, and the other continues.
    talk.check("TEARDOWN", &track(1), "", "200");
    talk.check("GET_PARAMETER", &film, "", "200");
    let head = talk.check("PLAY", &film, "Range: npt=0-\r\n", "200");
    assert_eq!(head.matches(";rtptime=").count(), 1, "{head}");
    talk.check("TEARDOWN", &film, "", "200");
    talk.check("PLAY", &film, "", "454");
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
    let mut talk = Talk::new(&server);
    talk.check("DESCRIBE", &format!("{}/a%20film,%20100%20%25.wav", server.url), "", "200");
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
        let head = talk.ask("DESCRIBE", &format!("{}{path}", server.url), "");
        let code = head.get(9..12).unwrap_or("");
        assert!(["403", "404"].contains(&code), "{path}: {head}");
    }
    // And it listens on.
    std::thread::sleep(Duration::from_millis(10));
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
        let mut talk = Talk::new(&server);
        talk.check("OPTIONS", "*", "", "200");
        let head = talk.ask("DESCRIBE", &format!("{}/inside-ac3.mp4", server.url), "");
        assert!(head.starts_with("RTSP/1.0 200"), "{head}");
    }
    let said = server.server.stop().err;
    assert_eq!(said.matches("inside-ac3.mp4: left out: ac3").count(), 1, "{said}");
}
