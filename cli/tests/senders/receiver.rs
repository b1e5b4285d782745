//! A client of media servers that keeps every byte: it sends RTSP 1.0 requests, receives RTP and
//! RTCP by UDP or within the connection, and compares the packets with the announcement.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use sys::udp::{Udp, UdpOptions};

use testkit::PATIENCE;

/// The time of one wait at the sockets without a packet.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of datagrams that may wait while this process has no processor.
const BUFFER: usize = 4 << 20;

/// The parts of a packet that are not random: marker and payload type, and the payload.
pub type Payload = (u8, Vec<u8>);

/// The packets of one track.
#[derive(Default)]
pub struct Heard {
    control: String,
    ssrc: u32,
    /// Payloads in the order of their arrival.
    pub payloads: Vec<Payload>,
    /// The sequence number that is due next.
    due: Option<u16>,
    /// Number and timestamp that the last answer to PLAY announced, until that packet arrives.
    /// Packets that were sent earlier and arrive late come before it.
    announced: Option<(u16, u32)>,
    /// The place of the last packet that had been announced.
    began: usize,
    /// The track's BYE has arrived.
    pub is_over: bool,
    /// Sender reports.
    pub reports: usize,
}

/// One session.
pub struct Receiver {
    stream: TcpStream,
    /// Bytes of the connection that were not read yet.
    inbox: Vec<u8>,
    url: String,
    asked: u32,
    session: String,
    /// The sockets of media and control, unless they come within the connection.
    sockets: Option<[Udp; 2]>,
    pub tracks: Vec<Heard>,
}

impl Receiver {
    /// A client without a session; with `within` packets will come in the connection.
    #[track_caller]
    pub fn connect(url: &str, within: bool) -> Receiver {
        let place = url.trim_start_matches("rtsp://").split('/').next().expect("a place");
        let stream = TcpStream::connect(place).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let sockets = (!within).then(pair);
        let (inbox, session, tracks) = (Vec::new(), String::new(), Vec::new());
        Receiver { stream, inbox, url: url.to_owned(), asked: 0, session, sockets, tracks }
    }

    /// Describes and sets up every track.
    #[track_caller]
    pub fn open(url: &str, within: bool) -> Receiver {
        let mut it = Receiver::connect(url, within);
        let (_, description) = it.check("DESCRIBE", "", "Accept: application/sdp\r\n", "200");
        let media = description.split("\nm=").skip(1);
        let controls: Vec<String> = media.filter_map(|it| field(it, "a=control:")).collect();
        for (at, control) in controls.into_iter().enumerate() {
            it.set_up(at, control);
        }
        assert!(!it.tracks.is_empty(), "{}: no track in {description}", it.url);
        it
    }

    /// Sets up the track of this number.
    #[track_caller]
    pub fn set_up(&mut self, at: usize, control: String) {
        let lower = match &self.sockets {
            Some(sockets) => {
                let ports = sockets.each_ref().map(|it| it.local_addr().expect("bound").port());
                format!("RTP/AVP;unicast;client_port={}-{}", ports[0], ports[1])
            }
            None => format!("RTP/AVP/TCP;unicast;interleaved={}-{}", 2 * at, 2 * at + 1),
        };
        let (head, _) = self.check("SETUP", &control, &format!("Transport: {lower}\r\n"), "200");
        let granted = field(&head, "Transport: ").expect("a transport");
        let ssrc = granted.split(';').find_map(|it| it.strip_prefix("ssrc=")).expect(&granted);
        let ssrc = u32::from_str_radix(ssrc, 16).expect(&granted);
        let session = field(&head, "Session: ").expect("a session");
        self.session = session.split(';').next().unwrap_or_default().to_owned();
        self.tracks.push(Heard { control, ssrc, ..Heard::default() });
    }

    /// Sends a request, and returns head and body of the answer, which must have this code.
    #[track_caller]
    pub fn check(&mut self, method: &str, at: &str, fields: &str, code: &str) -> (String, String) {
        let (head, body) = self.ask(method, at, fields);
        assert_eq!(head.get(9..12), Some(code), "{method} {at} {fields}: {head}");
        (head, body)
    }

    /// Sends a request, and returns head and body of the answer. `at` is a URL, `*`, the end of a
    /// URL, or empty.
    #[track_caller]
    pub fn ask(&mut self, method: &str, at: &str, fields: &str) -> (String, String) {
        self.asked += 1;
        let url = match at {
            whole if whole.starts_with("rtsp://") || whole == "*" => whole.to_owned(),
            "" => self.url.clone(),
            end => format!("{}/{end}", self.url),
        };
        let mut request = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{fields}", self.asked);
        if !self.session.is_empty() {
            request += &format!("Session: {}\r\n", self.session);
        }
        self.stream.write_all(format!("{request}\r\n").as_bytes()).expect("it listens");
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            assert!(self.read(), "{request}: no answer");
        }
    }

    /// Reads more of the connection; false when the time was over.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer) {
            Ok(0) => panic!("{}: the server has hung up", self.url),
            Ok(count) => self.inbox.extend(&buffer[..count]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                return false;
            }
            Err(error) => panic!("{}: {error}", self.url),
        }
        true
    }

    /// An answer, if it is complete; first takes the packets before it in the connection.
    fn answer(&mut self) -> Option<(String, String)> {
        loop {
            if self.inbox.first() != Some(&b'$') {
                break;
            }
            let frame = self.inbox.get(4..)?;
            let len = usize::from(u16::from_be_bytes([self.inbox[2], self.inbox[3]]));
            let bytes = frame.get(..len)?.to_vec();
            let is_control = self.inbox[1] % 2 == 1;
            self.inbox.drain(..4 + len);
            self.take(is_control, &bytes);
        }
        let text = String::from_utf8_lossy(&self.inbox).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let len = field(head, "Content-Length: ").map_or(0, |it| it.parse().expect("a length"));
        let body = rest.get(..len)?.to_owned();
        self.inbox.drain(..head.len() + 4 + len);
        Some((head.to_owned(), body))
    }

    /// Resumes, or plays from a place; the answer's numbers must be the next ones.
    #[track_caller]
    pub fn play(&mut self, range: Option<&str>) {
        let range = range.map_or(String::new(), |range| format!("Range: npt={range}\r\n"));
        let (head, _) = self.check("PLAY", "", &range, "200");
        let info = field(&head, "RTP-Info: ").expect("RTP-Info");
        for track in &mut self.tracks {
            let about = info.split(',').find(|it| {
                let url = it.split(';').next().unwrap_or_default();
                url.ends_with(&track.control)
            });
            let about = about.unwrap_or_else(|| panic!("{info}: nothing of {}", track.control));
            let of = |name: &str| about.split(';').find_map(|it| it.strip_prefix(name));
            let sequence: u16 = of("seq=").and_then(|it| it.parse().ok()).expect(about);
            let timestamp: u32 = of("rtptime=").and_then(|it| it.parse().ok()).expect(about);
            track.announced = Some((sequence, timestamp));
        }
    }

    /// Stops it.
    #[track_caller]
    pub fn pause(&mut self) {
        self.check("PAUSE", "", "", "200");
    }

    /// Ends it.
    #[track_caller]
    pub fn tear_down(&mut self) {
        self.check("TEARDOWN", "", "", "200");
    }

    /// The number of received packets of each track.
    pub fn counts(&self) -> Vec<usize> {
        self.tracks.iter().map(|track| track.payloads.len()).collect()
    }

    /// Whether every track said bye.
    pub fn is_over(&self) -> bool {
        self.tracks.iter().all(|track| track.is_over)
    }

    /// The index of the first packet that the last answer to PLAY announced.
    #[track_caller]
    pub fn began(&self) -> Vec<usize> {
        let came = self.tracks.iter().all(|track| track.announced.is_none());
        assert!(came, "{}: what RTP-Info announced never came", self.url);
        self.tracks.iter().map(|track| track.began).collect()
    }

    /// Receives until `enough`, which must happen in time.
    #[track_caller]
    pub fn hear(&mut self, enough: impl Fn(&Receiver) -> bool) {
        let begin = Instant::now();
        while !enough(self) {
            assert!(begin.elapsed() < PATIENCE, "{}: {:?} and no more", self.url, self.counts());
            self.look();
        }
    }

    /// Receives until no packet has arrived for the time `quiet`.
    pub fn hear_out(&mut self, quiet: Duration) {
        let mut last = Instant::now();
        while last.elapsed() < quiet {
            if self.look() {
                last = Instant::now();
            }
        }
    }

    /// Takes the available packets, or waits a little; true if a packet arrived.
    fn look(&mut self) -> bool {
        let Some([rtp, rtcp]) = self.sockets.take() else {
            self.stream.set_read_timeout(Some(LOOK)).expect("a socket");
            let came = self.read();
            assert!(self.answer().is_none(), "nothing was asked");
            return came;
        };
        let mut came = rtp.wait_readable(LOOK).expect("open");
        let mut buffer = [0; 2048];
        // All packets sent before a bye have arrived when the bye arrives.
        let mut reports = Vec::new();
        while let Ok((len, _)) = rtcp.receive(&mut buffer) {
            reports.push(buffer[..len].to_vec());
        }
        while let Ok((len, _)) = rtp.receive(&mut buffer) {
            self.take(false, &buffer[..len]);
        }
        for report in reports {
            self.take(true, &report);
            came = true;
        }
        self.sockets = Some([rtp, rtcp]);
        came
    }

    fn take(&mut self, is_control: bool, bytes: &[u8]) {
        let url = &self.url;
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        if is_control {
            return self.take_control(bytes);
        }
        assert!(bytes.len() > 12 && bytes[0] == 0x80, "{url}: {bytes:?} is not a packet");
        let track = self.tracks.iter_mut().find(|track| track.ssrc == word(8));
        let track = track.unwrap_or_else(|| panic!("{url}: a packet of a stranger"));
        let sequence = u16::from_be_bytes([bytes[2], bytes[3]]);
        if let Some((_, timestamp)) = track.announced.take_if(|(first, _)| *first == sequence) {
            assert_eq!(word(4), timestamp, "{url}: RTP-Info");
            track.began = track.payloads.len();
        }
        let due = track.due.unwrap_or(sequence);
        assert_eq!(sequence, due, "{url}: lost, twice or out of order");
        assert!(!track.is_over, "{url}: a packet after the bye");
        track.due = Some(sequence.wrapping_add(1));
        track.payloads.push((bytes[1], bytes[12..].to_vec()));
    }

    /// Takes in the parts of a compound packet (RFC 3550, section 6).
    fn take_control(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while rest.len() >= 8 {
            let len = 4 + 4 * usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            let ssrc = u32::from_be_bytes(rest[4..8].try_into().expect("four"));
            if let Some(track) = self.tracks.iter_mut().find(|track| track.ssrc == ssrc) {
                match rest[1] {
                    200 => track.reports += 1,
                    203 => track.is_over = true,
                    _ => {}
                }
            }
            rest = rest.get(len..).expect("whole parts");
        }
        assert!(rest.is_empty(), "{}: {bytes:?}", self.url);
    }
}

/// The value of a field: the rest of the line that begins with its name.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|it| it.trim().to_owned())
}

/// Two sockets for media and control, the first at an even port.
fn pair() -> [Udp; 2] {
    let options = UdpOptions { receive_buffer: Some(BUFFER), ..UdpOptions::default() };
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let find = || {
        let rtp = Udp::bind(local(0), &options).ok()?;
        let port = rtp.local_addr().ok()?.port();
        let rtcp = Udp::bind(local(port.checked_add(1)?), &options).ok()?;
        (port % 2 == 0).then_some([rtp, rtcp])
    };
    std::iter::repeat_with(find).take(1000).flatten().next().expect("two free ports")
}
