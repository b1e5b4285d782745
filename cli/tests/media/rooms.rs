//! Conferences: our relay between speakers and listeners, by hand on several engines, and with
//! ffmpeg as a speaker, ffmpeg and GStreamer as listeners.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

use testkit::{Ended, Folder, PATIENCE, Server, eventually, has, has_uring};

use crate::stage::{BINARY, start};

const SPOKEN: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=a\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n\
    a=control:streamid=0\r\n";

fn serve(engine: &str) -> Server {
    let words = ["serve", "rooms", "--port", "0", "--admin", "none", "--engine", engine];
    Server::start(Command::new(BINARY).args(words))
}

/// A member by hand: its connection, and its sockets for media and reports.
struct Member {
    stream: TcpStream,
    url: String,
    media: UdpSocket,
    reports: UdpSocket,
    /// The server's port of media.
    port: u16,
}

impl Member {
    fn new(server: &Server, place: &str) -> Member {
        let stream = TcpStream::connect(server.address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let [media, reports] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            socket
        });
        let url = format!("rtsp://{}/{place}", server.address);
        Member { stream, url, media, reports, port: 0 }
    }

    fn ask(&mut self, method: &str, track: &str, fields: &str, body: &str) -> String {
        let (url, len) = (&self.url, body.len());
        let first = format!("{method} {url}{track} RTSP/1.0\r\nCSeq: 1\r\n");
        let text = format!("{first}{fields}Content-Length: {len}\r\n\r\n{body}");
        self.stream.write_all(text.as_bytes()).expect("it listens");
        let mut heard = [0; 4096];
        let len = self.stream.read(&mut heard).expect("an answer");
        String::from_utf8_lossy(&heard[..len]).into_owned()
    }

    fn check(&mut self, method: &str, track: &str, fields: &str, body: &str) -> String {
        let reply = self.ask(method, track, fields, body);
        assert!(reply.starts_with("RTSP/1.0 200"), "{method}: {reply}");
        reply
    }

    fn set_up(mut self, track: &str, method: &str) -> Member {
        let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        let (media, reports) = (port(&self.media), port(&self.reports));
        let way = format!("Transport: RTP/AVP;unicast;client_port={media}-{reports}\r\n");
        let reply = self.check("SETUP", track, &way, "");
        let ports = reply.split("server_port=").nth(1).and_then(|it| it.split('-').next());
        self.port = ports.and_then(|it| it.parse().ok()).expect("a port of the server");
        self.check(method, "", "", "");
        self
    }

    fn speaker(server: &Server, place: &str) -> Member {
        let mut member = Member::new(server, place);
        member.check("ANNOUNCE", "", "", SPOKEN);
        member.set_up("/streamid=0", "RECORD")
    }

    fn listener(server: &Server, place: &str) -> Member {
        Member::new(server, place).set_up("/trackID=0", "PLAY")
    }

    fn says(&self, sequence: u8) {
        let mut packet = [0x55; 32];
        packet[..12].copy_from_slice(&[0x80, 0, 0, sequence, 0, 0, 0, 1, 0, 0, 7, self.ssrc()]);
        self.media.send_to(&packet, ("127.0.0.1", self.port)).expect("sent");
    }

    fn ssrc(&self) -> u8 {
        self.media.local_addr().expect("bound").port() as u8
    }
}

/// The next datagram.
fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut datagram = [0; 2048];
    let len = socket.recv(&mut datagram).expect("a datagram in time");
    datagram[..len].to_vec()
}

#[test]
fn speakers_are_relayed_on_every_kind_of_engine() {
    for engine in ["epoll", "thread", "fork", "prefork", "event", "uring"] {
        if engine == "uring" && !has_uring() {
            continue;
        }
        let server = serve(engine);
        let ann = Member::speaker(&server, "hall/ann");
        let ben = Member::speaker(&server, "hall/ben");
        let mut all = Member::listener(&server, "hall");
        let only = Member::listener(&server, "hall/ben");
        ann.says(1);
        let got = next(&all.media);
        assert_eq!((got[3], got[11], got.len()), (1, ann.ssrc(), 32), "{engine}");
        ben.says(2);
        assert_eq!([&all, &only].map(|it| next(&it.media)[3]), [2, 2], "{engine}");
        all.check("SET_PARAMETER", "", "", "mute: ann\r\n");
        ann.says(3);
        ben.says(4);
        assert_eq!(next(&all.media)[3], 4, "{engine}: ann is muted");
        // A report on ann goes to ann, at its port of reports.
        let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 99, 0, 0, 7, ann.ssrc()];
        report.resize(32, 0);
        all.reports.send_to(&report, ("127.0.0.1", all.port + 1)).expect("sent");
        assert_eq!(next(&ann.reports), report, "{engine}");
        drop(ben);
        let bye = next(&only.reports);
        assert!(bye.windows(4).any(|it| it == [0x81, 203, 0, 1]), "{engine}: {bye:?}");
        server.stop().success();
    }
}

/// The samples of a raw file whose sound is not silence.
fn loud(bytes: &[u8]) -> usize {
    // Silence in μ-law is 0xff or 0x7f.
    bytes.iter().filter(|byte| **byte & 0x7f < 0x70).count()
}

#[test]
fn ffmpeg_speaks_and_players_listen() {
    if !has("ffmpeg") {
        return;
    }
    let server = serve("epoll");
    let folder = Folder::new();
    let url = format!("rtsp://{}/hall", server.address);
    let speaks = format!(
        "-v error -re -f lavfi -i sine=frequency=440:sample_rate=8000 -t 60 -c:a pcm_mulaw \
        -f rtsp {url}/ann"
    );
    let mut speaker = start("ffmpeg", &speaks.split(' ').collect::<Vec<_>>());
    let is_there = || {
        let reply = Member::new(&server, "hall").ask("DESCRIBE", "", "", "");
        reply.contains("PCMU/8000") || reply.contains("RTP/AVP 0")
    };
    eventually("a speaker", PATIENCE, is_there);
    let ours = format!("{}/ffmpeg.raw", folder.text_path());
    let listens = format!("-v error -y -i {url}/ann -t 1 -c:a pcm_mulaw -f mulaw {ours}");
    let mut listeners = vec![start("ffmpeg", &listens.split(' ').collect::<Vec<_>>())];
    if has("gst-launch-1.0") {
        let pipe = format!(
            "-q rtspsrc location={url} protocols=udp ! rtppcmudepay ! identity eos-after=40 ! \
            filesink location={}/gst.raw",
            folder.text_path()
        );
        listeners.push(start("gst-launch-1.0", &pipe.split(' ').collect::<Vec<_>>()));
    }
    for listener in &mut listeners {
        let Ended { code, err, .. } = listener.end(PATIENCE);
        assert_eq!(code, Some(0), "{err}");
    }
    for name in folder.names() {
        let bytes = std::fs::read(folder.path().join(&name)).expect("a file");
        assert!(loud(&bytes) > 3000, "{name}: {} of {} samples", loud(&bytes), bytes.len());
    }
    speaker.kill();
    server.stop().success();
}
