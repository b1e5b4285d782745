//! The client side of RTSP as a state machine: responses in, requests out.
//!
//! The client has no socket: `receive` takes bytes of the connection and reports events, `take_out`
//! gives the bytes to send, and `receiver.rs` moves both. The dialogue is DESCRIBE, one SETUP per
//! track, PLAY, a keep-alive at half of the server's timeout, and TEARDOWN (RFC 2326 section 10).
//! Each answer leads to the next request, so one request is outstanding at most before playback. A
//! 401 repeats the request with the Digest of the challenge; a second 401 means a wrong password.

use wire::rtsp::{self, Item, Lower, Response, Transport};
use wire::sdp::Offer;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing was requested yet.
    #[default]
    New,
    /// This many tracks are set up.
    Setting(usize),
    Starting,
    Playing,
    Leaving,
}

#[derive(Debug, Default)]
pub struct Client {
    url: String,
    /// How it asks for its packets.
    transport: Transport,
    from_s: f64,
    credentials: Option<Credentials>,
    stage: Stage,
    sequence: u32,
    /// Method and target of the last request.
    asked: (&'static str, String),
    challenged: bool,
    base: String,
    tracks: Vec<Offer>,
    session: Option<String>,
    /// Seconds after which a silent session ends.
    timeout_s: u64,
    out: Vec<u8>,
}

#[derive(Debug)]
struct Credentials {
    user: String,
    password: String,
    realm: String,
    nonce: String,
}

#[derive(Debug)]
pub enum ClientEvent<'a> {
    /// A track is set up, with the transport of its packets.
    SetUp { track: &'a Offer, transport: Transport },
    /// Media follow from now on; the value of `RTP-Info`, if present.
    Playing(Option<&'a str>),
    /// An interleaved packet and its channel.
    Data(u8, &'a [u8]),
    /// The session ended after TEARDOWN.
    Over,
}

impl Client {
    /// A client that will play `url` from `from_s` seconds on.
    pub fn new(
        url: &str,
        transport: Transport,
        from_s: f64,
        login: Option<(&str, &str)>,
    ) -> Client {
        let credentials = login.map(|(user, password)| Credentials {
            user: user.to_owned(),
            password: password.to_owned(),
            realm: String::new(),
            nonce: String::new(),
        });
        Client {
            url: url.to_owned(),
            transport,
            from_s,
            credentials,
            base: url.to_owned(),
            timeout_s: 60,
            ..Client::default()
        }
    }

    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Requests the description; everything else follows from the responses.
    pub fn begin(&mut self) {
        self.ask("DESCRIBE", self.url.clone());
    }

    pub fn last_method(&self) -> &'static str {
        self.asked.0
    }

    pub fn is_playing(&self) -> bool {
        self.stage == Stage::Playing
    }

    /// The interval at which the server expects a keep-alive, in seconds.
    pub fn keep_alive_s(&self) -> u64 {
        (self.timeout_s / 2).max(1)
    }

    pub fn keep_alive(&mut self) {
        if self.stage == Stage::Playing {
            self.ask("GET_PARAMETER", self.base.clone());
        }
    }

    pub fn leave(&mut self) {
        if self.session.is_some() && self.stage != Stage::Leaving {
            self.stage = Stage::Leaving;
            self.ask("TEARDOWN", self.base.clone());
        }
    }

    /// Consumes whole messages of `bytes`; returns their length.
    ///
    /// # Errors
    /// The server refused a request, or its bytes cannot be parsed; the connection is then useless.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        emit: &mut dyn FnMut(ClientEvent<'_>),
    ) -> Result<usize, String> {
        let mut used = 0;
        while let Some((item, len)) = rtsp::next(&bytes[used..])
            .map_err(|bad| format!("expected RTSP, found other bytes: {bad:?}"))?
        {
            used += len;
            match item {
                Item::Data { channel, packet } => emit(ClientEvent::Data(channel, packet)),
                Item::Response(response) => self.answered(&response, emit)?,
                Item::Request(request) => {
                    let cseq = request.field("CSeq").unwrap_or("0");
                    let line = format!("RTSP/1.0 501 Not Implemented\r\nCSeq: {cseq}\r\n\r\n");
                    self.out.extend_from_slice(line.as_bytes());
                }
            }
        }
        Ok(used)
    }

    fn answered(
        &mut self,
        response: &Response<'_>,
        emit: &mut dyn FnMut(ClientEvent<'_>),
    ) -> Result<(), String> {
        if response.code == 401 && self.take_challenge(response) {
            let (method, target) = self.asked.clone();
            self.ask(method, target);
            return Ok(());
        }
        let (method, _) = self.asked;
        if response.code != 200 && self.stage != Stage::Leaving {
            return Err(format!("{method}: {} {}", response.code, response.words));
        }
        match self.stage {
            Stage::New => self.described(response)?,
            Stage::Setting(_) => self.set_up(response, emit)?,
            Stage::Starting => {
                self.stage = Stage::Playing;
                emit(ClientEvent::Playing(response.field("RTP-Info")));
                return Ok(());
            }
            Stage::Playing => return Ok(()),
            Stage::Leaving => {
                // The response to an earlier keep-alive may arrive first.
                if method == "TEARDOWN" {
                    emit(ClientEvent::Over);
                }
                return Ok(());
            }
        }
        self.go_on();
        Ok(())
    }

    /// The server demands authentication; true if credentials are available.
    fn take_challenge(&mut self, response: &Response<'_>) -> bool {
        let Some(credentials) = &mut self.credentials else { return false };
        let value = |name: &str| {
            let all = response.all("WWW-Authenticate");
            let digest = all.into_iter().find(|value| value.starts_with("Digest"))?;
            let (_, rest) = digest.split_once(&format!("{name}=\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        let (Some(realm), Some(nonce)) = (value("realm"), value("nonce")) else { return false };
        (credentials.realm, credentials.nonce) = (realm, nonce);
        // A second challenge means that the credentials were wrong.
        !std::mem::replace(&mut self.challenged, true)
    }

    fn described(&mut self, response: &Response<'_>) -> Result<(), String> {
        self.tracks = wire::sdp::offers(response.body)
            .filter(|tracks| !tracks.is_empty())
            .ok_or("expected a description with a track of RTP, found none")?;
        let base =
            ["Content-Base", "Content-Location"].into_iter().find_map(|it| response.field(it));
        base.unwrap_or(&self.url).clone_into(&mut self.base);
        self.stage = Stage::Setting(0);
        Ok(())
    }

    fn set_up(
        &mut self,
        response: &Response<'_>,
        emit: &mut dyn FnMut(ClientEvent<'_>),
    ) -> Result<(), String> {
        let Stage::Setting(index) = self.stage else { return Ok(()) };
        let value = response.field("Transport").unwrap_or_default();
        let transport = rtsp::transports(value)
            .pop()
            .ok_or_else(|| format!("expected a Transport that can be read, found `{value}`"))?;
        if let Some(session) = response.field("Session") {
            let (name, rest) = session.split_once(';').unwrap_or((session, ""));
            self.session = Some(name.trim().to_owned());
            let timeout = rest.split(';').find_map(|it| it.trim().strip_prefix("timeout="));
            self.timeout_s = timeout.and_then(|it| it.parse().ok()).unwrap_or(60);
        }
        emit(ClientEvent::SetUp { track: &self.tracks[index], transport });
        self.stage = Stage::Setting(index + 1);
        Ok(())
    }

    /// The next request on the way to PLAY.
    fn go_on(&mut self) {
        let Stage::Setting(index) = self.stage else { return };
        match self.tracks.get(index) {
            Some(track) => {
                let target = self.absolute(&track.control);
                self.ask("SETUP", target);
            }
            None => {
                self.stage = Stage::Starting;
                self.ask("PLAY", self.base.clone());
            }
        }
    }

    fn absolute(&self, control: &str) -> String {
        match control {
            "" | "*" => self.base.clone(),
            it if it.starts_with("rtsp://") => it.to_owned(),
            it => format!("{}/{it}", self.base.trim_end_matches('/')),
        }
    }

    fn ask(&mut self, method: &'static str, target: String) {
        self.sequence += 1;
        let mut text = format!("{method} {target} RTSP/1.0\r\nCSeq: {}\r\n", self.sequence);
        text.push_str("User-Agent: roundhouse\r\n");
        if let Some(session) = &self.session {
            text.push_str(&format!("Session: {session}\r\n"));
        }
        match method {
            "DESCRIBE" => text.push_str("Accept: application/sdp\r\n"),
            "SETUP" => text.push_str(&format!("Transport: {}\r\n", self.transport())),
            "PLAY" => text.push_str(&format!("Range: npt={:.3}-\r\n", self.from_s)),
            _ => {}
        }
        if let Some(credentials) =
            self.credentials.as_ref().filter(|credentials| !credentials.nonce.is_empty())
        {
            let Credentials { user, password, realm, nonce } = credentials;
            let word =
                rtsp::digest_response((user, realm, password), nonce, (method, &target), None);
            text.push_str(&format!(
                "Authorization: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", \
                 uri=\"{target}\", response=\"{word}\"\r\n"
            ));
        }
        text.push_str("\r\n");
        self.out.extend_from_slice(text.as_bytes());
        self.asked = (method, target);
    }

    fn transport(&self) -> Transport {
        let Stage::Setting(index) = self.stage else { return self.transport.clone() };
        let channel = 2 * index as u8;
        let is_tcp = self.transport.lower == Some(Lower::Tcp);
        let interleaved = is_tcp.then_some((channel, channel + 1));
        Transport { interleaved, ..self.transport.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
                       m=audio 0 RTP/AVP 0\r\na=control:trackID=0\r\n\
                       m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:trackID=1\r\n";

    fn reply(fields: &str, body: &str) -> Vec<u8> {
        let len = body.len();
        format!("RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: {len}\r\n{fields}\r\n{body}").into()
    }

    #[test]
    fn a_client_asks_for_each_track_and_then_plays() {
        let client_port = Some((5000, 5001));
        let transport = Transport { lower: Some(Lower::Udp), client_port, ..Transport::default() };
        let mut client = Client::new("rtsp://h/a", transport, 1.5, None);
        let mut events = Vec::new();
        let mut exchange = |client: &mut Client, bytes: Vec<u8>| {
            let mut emit = |event: ClientEvent<'_>| events.push(format!("{event:?}"));
            assert_eq!(client.receive(&bytes, &mut emit), Ok(bytes.len()));
            String::from_utf8(client.take_out()).expect("text")
        };
        client.begin();
        assert!(client.take_out().starts_with(b"DESCRIBE rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\n"));
        let asked = exchange(&mut client, reply("Content-Base: rtsp://h/a/\r\n", SDP));
        assert!(asked.starts_with("SETUP rtsp://h/a/trackID=0 RTSP/1.0\r\nCSeq: 2\r\n"), "{asked}");
        assert!(asked.contains("Transport: RTP/AVP;unicast;client_port=5000-5001;"), "{asked}");
        let transport = "Transport: RTP/AVP;unicast;server_port=6000-6001;ssrc=0000000A\r\n\
                         Session: abc;timeout=20\r\n";
        let asked = exchange(&mut client, reply(transport, ""));
        assert!(asked.contains("trackID=1") && asked.contains("Session: abc\r\n"), "{asked}");
        let asked = exchange(&mut client, reply(transport, ""));
        assert!(asked.starts_with("PLAY rtsp://h/a/ ") && asked.contains("npt=1.500-"), "{asked}");
        assert_eq!(exchange(&mut client, reply("RTP-Info: url=x\r\n", "")), "");
        assert!(client.is_playing() && client.keep_alive_s() == 10);
        client.leave();
        assert!(client.take_out().starts_with(b"TEARDOWN"));
        assert_eq!(exchange(&mut client, reply("", "")), "");
        assert_eq!(events.len(), 4, "{events:?}");
        assert!(events[0].contains("ssrc: Some(10)") && events[1].contains("90000"), "{events:?}");
        assert_eq!((events[2].as_str(), events[3].as_str()), ("Playing(Some(\"url=x\"))", "Over"));
    }

    #[test]
    fn a_proof_is_given_once_and_a_refusal_is_told() {
        let transport = Transport { lower: Some(Lower::Tcp), ..Transport::default() };
        let mut client = Client::new("rtsp://h/a", transport, 0.0, Some(("u", "p")));
        client.begin();
        client.take_out();
        let challenge = b"RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\n\
                          WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n\r\n";
        assert!(client.receive(challenge, &mut |_| {}).is_ok());
        let asked = String::from_utf8(client.take_out()).expect("text");
        assert!(asked.contains("Authorization: Digest username=\"u\""), "{asked}");
        let refused =
            client.receive(challenge, &mut |_| {}).expect_err("the credentials were wrong");
        assert_eq!(refused, "DESCRIBE: 401 Unauthorized");
        assert!(client.receive(b"HTTP/1.1 200 OK\r\n\r\n", &mut |_| {}).is_err());
    }
}
