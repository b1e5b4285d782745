//! NATS JetStream, by the text protocol of NATS clients: two streams with three replicas.
//!
//! ```text
//!   stream NAME        subject NAME.batch   a batch a message; its sequence is the batch's number
//!   stream NAME-snaps  subject NAME.snap    parts of snapshots, after three numbers each
//!   subject NAME.news  rung after a batch   subject NAME.node   words of nodes, kept by nobody
//! ```
//!
//! `Nats-Expected-Last-Sequence` is the fence. JetStream answers before a batch is on a disk unless
//! its servers have `sync_interval: always`; [`Nats::doubt`] asks them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::batch::u64_at;
use crate::{Appended, BATCHES_READ, BatchStore, Batches, MemberState, StoreAddress, StoreFault};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a node is listed after its last words.
const LIFE: Duration = Duration::from_secs(3);
/// Bytes of a snapshot in one message; a server takes 1 MiB unless told otherwise.
const PART: usize = 1 << 19;
const FRONT: usize = 24;
/// The longest message that is read.
const MESSAGE_MAX: usize = 64 << 20;
/// Requests that are sent before their answers come: a server drops too many.
const REQUESTS: usize = 32;
/// Errors of JetStream: another sequence than the expected one, no such stream.
const WRONG_SEQUENCE: u64 = 10071;
const NO_STREAM: u64 = 10059;
/// The monitoring port of a server.
const MONITOR: u16 = 8222;

/// A market in JetStream.
#[derive(Debug)]
pub(crate) struct Nats {
    address: StoreAddress,
    /// The server that is asked.
    at: usize,
    link: Option<Link>,
    /// Words of nodes, and when they came.
    heard: Vec<(String, String, Instant)>,
}

/// A snapshot: its number, and the messages that hold it.
struct Snap {
    number: u64,
    first: u64,
    bytes: Vec<u8>,
}

/// Why a call failed.
enum Refused {
    Lost(String),
    /// JetStream's own code and words.
    Said(u64, String),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Lost(error.to_string())
    }
}

impl Nats {
    /// The market at `address`; nothing is asked yet.
    pub fn new(address: StoreAddress) -> Nats {
        Nats { address, at: 0, link: None, heard: Vec::new() }
    }

    fn stream(&self, of: &str) -> String {
        format!("{}{of}", self.address.name)
    }

    fn linked(&mut self) -> Result<&mut Link, Refused> {
        if self.link.is_none() {
            let hosts = &self.address.hosts;
            let mut link = Link::open(&hosts[self.at % hosts.len()])?;
            link.subscribe(&format!("{}.node", self.address.name), NODES)?;
            self.link = Some(link);
        }
        self.link.as_mut().ok_or_else(|| Refused::Lost("no connection".into()))
    }

    /// Sends requests, each a subject with headers and bytes, and returns their answers.
    fn ask(&mut self, requests: &[(String, String, &[u8])]) -> Result<Vec<Value>, Refused> {
        let mut heard = Vec::new();
        let answers = self.linked().and_then(|link| link.ask(requests, &mut heard));
        for words in heard {
            self.hear(&words);
        }
        if matches!(answers, Err(Refused::Lost(_))) {
            self.link = None;
            self.at += 1;
        }
        answers
    }

    fn api(&mut self, call: &str, stream: &str, body: &Value) -> Result<Value, Refused> {
        let body = body.to_string();
        let request = (format!("$JS.API.{call}.{stream}"), String::new(), body.as_bytes());
        let answer = self.ask(&[request])?.pop().unwrap_or_default();
        said(&answer)?;
        Ok(answer)
    }

    /// Puts `bytes` on the stream of `subject`, if its last sequence is `after`; whether it was.
    fn put(&mut self, subject: &str, after: u64, id: &str, bytes: &[u8]) -> Result<bool, Refused> {
        let id = if id.is_empty() { String::new() } else { format!("Nats-Msg-Id: {id}\r\n") };
        let headers = format!("NATS/1.0\r\nNats-Expected-Last-Sequence: {after}\r\n{id}\r\n");
        let answer = self.ask(&[(subject.to_owned(), headers, bytes)])?.pop().unwrap_or_default();
        match said(&answer) {
            Err(Refused::Said(WRONG_SEQUENCE, _)) => Ok(false),
            refused @ Err(_) => refused.map(|()| false),
            // A duplicate has the sequence of the first copy.
            Ok(()) if answer["duplicate"] == true => Ok(false),
            Ok(()) if answer["seq"].as_u64() == Some(after + 1) => Ok(true),
            Ok(()) => Err(Refused::Lost(format!("expected a sequence, found {answer}"))),
        }
    }

    /// The first and the last sequence of a stream.
    fn ends(&mut self, stream: &str) -> Result<(u64, u64), Refused> {
        let info = self.api("STREAM.INFO", stream, &json!({}))?;
        let state = |key: &str| info["state"][key].as_u64().unwrap_or(0);
        Ok((state("first_seq"), state("last_seq")))
    }

    /// Messages by their sequences.
    fn messages(&mut self, stream: &str, sequences: &[u64]) -> Result<Batches, Refused> {
        let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
        let mut found = Batches::new();
        for some in sequences.chunks(REQUESTS) {
            let bodies: Vec<String> =
                some.iter().map(|sequence| json!({ "seq": sequence }).to_string()).collect();
            let request = |body| (subject.clone(), String::new(), str::as_bytes(body));
            let requests: Vec<_> = bodies.iter().map(|body| request(body)).collect();
            for (sequence, answer) in some.iter().zip(self.ask(&requests)?) {
                said(&answer)?;
                let data = answer["message"]["data"].as_str().unwrap_or_default();
                let bytes = STANDARD.decode(data).map_err(|bad| Refused::Lost(bad.to_string()))?;
                found.push((*sequence, bytes));
            }
        }
        Ok(found)
    }

    /// The whole snapshots, newest first, two at most, and the last sequence of their stream.
    fn snaps(&mut self) -> Result<(Vec<Snap>, u64), Refused> {
        let stream = self.stream("-snaps");
        let (first, last) = self.ends(&stream)?;
        let (mut snaps, mut at) = (Vec::new(), last);
        while at >= first.max(1) && snaps.len() < 2 {
            let (_, end) = self.messages(&stream, &[at])?.pop().unwrap_or_default();
            let numbers = end.get(..FRONT).map(|front| [0, 8, 16].map(|at| u64_at(front, at)));
            let Some([number, part, parts]) = numbers.filter(|it| it[1] < it[2] && it[1] < at)
            else {
                return Err(Refused::Lost("expected a part of a snapshot".into()));
            };
            let begin = at - part;
            if part + 1 == parts && begin >= first {
                let found = self.messages(&stream, &(begin..=at).collect::<Vec<_>>())?;
                let bytes =
                    found.into_iter().flat_map(|(_, part)| part[FRONT..].to_vec()).collect();
                snaps.push(Snap { number, first: begin, bytes });
            }
            at = begin - 1;
        }
        Ok((snaps, last))
    }

    fn found(&mut self) -> Result<(), Refused> {
        for (stream, subject) in [("", "batch"), ("-snaps", "snap")] {
            let name = self.stream(stream);
            let subjects = [format!("{}.{subject}", self.address.name)];
            let config = json!({
                "name": name, "subjects": subjects, "retention": "limits", "storage": "file",
                "discard": "new", "num_replicas": 3, "max_consumers": -1, "max_msgs": -1,
                "max_bytes": -1, "max_age": 0, "duplicate_window": 120_000_000_000_u64,
            });
            self.api("STREAM.CREATE", &name, &config)?;
        }
        Ok(())
    }

    fn write_snap(&mut self, number: u64, snapshot: &[u8]) -> Result<(), Refused> {
        let (snaps, last) = match self.snaps() {
            Err(Refused::Said(NO_STREAM, _)) => {
                self.found()?;
                self.snaps()?
            }
            found => found?,
        };
        if snaps.first().is_some_and(|newest| newest.number >= number) {
            return Ok(());
        }
        let parts = snapshot.len().div_ceil(PART) as u64;
        let subject = format!("{}.snap", self.address.name);
        for (part, bytes) in (0..).zip(snapshot.chunks(PART)) {
            let front = [number, part, parts].map(u64::to_le_bytes).concat();
            if !self.put(&subject, last + part, "", &[&front[..], bytes].concat())? {
                // Another node writes one.
                return Ok(());
            }
        }
        if let Some(before) = snaps.first() {
            let (batches, older) = (self.stream(""), self.stream("-snaps"));
            self.api("STREAM.PURGE", &batches, &json!({ "seq": before.number + 1 }))?;
            self.api("STREAM.PURGE", &older, &json!({ "seq": before.first }))?;
        }
        Ok(())
    }

    fn hear(&mut self, words: &str) {
        if let Some((id, words)) = words.split_once(' ') {
            self.heard.retain(|(known, _, at)| known != id && at.elapsed() < LIFE);
            self.heard.push((id.to_owned(), words.to_owned(), Instant::now()));
        }
    }

    fn told<T>(&self, done: Result<T, Refused>) -> Result<T, StoreFault> {
        done.map_err(|refused| {
            let (Refused::Lost(why) | Refused::Said(_, why)) = refused;
            StoreFault::Silent { address: self.address.to_string(), why }
        })
    }
}

impl BatchStore for Nats {
    fn append(&mut self, after: u64, batch: &[u8]) -> Result<Appended, StoreFault> {
        let subject = format!("{}.batch", self.address.name);
        // The node and its first ticket: a batch that is sent again may have grown.
        let id = format!("{:016x}{:016x}", u64_at(batch, 8), u64_at(batch, 16));
        let done = self.put(&subject, after, &id, batch);
        if self.told(done)? {
            let news = (format!("{}.news", self.address.name), String::new(), &[][..]);
            let rung = self.linked().and_then(|link| Ok(link.publish("", &news)?));
            self.told(rung)?;
            return Ok(Appended::Done);
        }
        self.read(after).map(|(_, batches)| Appended::Behind(batches))
    }

    fn read(&mut self, after: u64) -> Result<(u64, Batches), StoreFault> {
        let stream = self.stream("");
        let ends = self.ends(&stream);
        let (first, last) = self.told(ends)?;
        let from = first.max(after + 1);
        let sequences: Vec<u64> = (from..=last).take(BATCHES_READ).collect();
        let found = self.messages(&stream, &sequences);
        Ok((last, self.told(found)?))
    }

    fn snapshot(&mut self, newest: bool) -> Result<Option<(u64, Vec<u8>)>, StoreFault> {
        let (mut snaps, _) = match self.snaps() {
            Err(Refused::Said(NO_STREAM, _)) => return Ok(None),
            found => self.told(found)?,
        };
        let snap = if newest { snaps.into_iter().next() } else { snaps.pop() };
        Ok(snap.map(|snap| (snap.number, snap.bytes)))
    }

    fn save(&mut self, number: u64, snapshot: &[u8]) -> Result<(), StoreFault> {
        let written = self.write_snap(number, snapshot);
        self.told(written)
    }

    fn beat(&mut self, id: u64, words: &str) -> Result<Vec<String>, StoreFault> {
        let words = format!("{id:016x} {words}");
        self.hear(&words);
        let subject = format!("{}.node", self.address.name);
        let message = (subject, String::new(), words.as_bytes());
        let sent = self.linked().and_then(|link| Ok(link.publish("", &message)?));
        self.told(sent)?;
        Ok(self.heard.iter().map(|(_, words, _)| words.clone()).collect())
    }

    fn members(&mut self) -> Vec<(String, MemberState)> {
        let stream = self.stream("");
        match self.api("STREAM.INFO", &stream, &json!({})) {
            Ok(info) => member_states(&info["cluster"]),
            Err(_) => {
                let hosts = self.address.hosts.iter();
                hosts.map(|host| (host.clone(), MemberState::Silent)).collect()
            }
        }
    }

    fn watch(&mut self, ends: &AtomicBool, news: &dyn Fn()) {
        while !ends.load(Ordering::Relaxed) {
            let host = &self.address.hosts[self.at % self.address.hosts.len()];
            let opened = Link::open(host).and_then(|mut link| {
                link.stream.set_read_timeout(Some(Duration::from_millis(500)))?;
                link.subscribe(&format!("{}.news", self.address.name), NODES)?;
                Ok(link)
            });
            let Ok(mut link) = opened else {
                self.at += 1;
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            news();
            while !ends.load(Ordering::Relaxed) && link.message().is_ok() {
                news();
            }
        }
    }

    fn reads_by_append(&self) -> bool {
        // The leader of a stream may answer after another one was elected.
        true
    }

    fn doubt(&mut self) -> Option<String> {
        self.address.hosts.iter().find_map(|host| {
            let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
            let url = format!("http://{name}:{MONITOR}/varz");
            let asked = crate::etcd::agent(None).get(&url).call();
            let config = asked.and_then(|mut answer| answer.body_mut().read_to_string());
            let varz: Value = match config.map(|text| serde_json::from_str(&text)) {
                Ok(Ok(varz)) => varz,
                _ => return Some(format!("{url} does not answer")),
            };
            // The monitoring port may be another server's.
            let Ok(Link { server, .. }) = Link::open(host) else {
                return Some(format!("{host} does not answer"));
            };
            if varz["server_id"] != server {
                return Some(format!("{url} is not of the server at {host}"));
            }
            let is_always = varz["jetstream"]["config"]["sync_always"] == true;
            (!is_always).then(|| format!("{url} does not say that sync_interval is always"))
        })
    }
}

/// The servers that keep a stream, by their names, as its leader sees them.
fn member_states(cluster: &Value) -> Vec<(String, MemberState)> {
    let replica = |replica: &Value| {
        let state = match () {
            () if replica["offline"] == true => MemberState::Silent,
            () if replica["current"] != true => MemberState::Ailing,
            () => MemberState::Follows,
        };
        Some((replica["name"].as_str()?.to_owned(), state))
    };
    let leader = cluster["leader"].as_str().map(|name| (name.to_owned(), MemberState::Leads));
    let replicas = cluster["replicas"].as_array().into_iter().flatten();
    let mut members: Vec<_> = leader.into_iter().chain(replicas.filter_map(replica)).collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members
}

/// The error that JetStream answers, if it is one.
fn said(answer: &Value) -> Result<(), Refused> {
    match &answer["error"] {
        Value::Null => Ok(()),
        error => Err(Refused::Said(
            error["err_code"].as_u64().unwrap_or(0),
            error["description"].as_str().unwrap_or("an error without words").to_owned(),
        )),
    }
}

/// The numbers of our subscriptions: answers, and the words of nodes or news.
const ANSWERS: u32 = 1;
const NODES: u32 = 2;

/// A connection to a server.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    inbox: String,
    next: u64,
    /// The server's name for itself.
    server: String,
}

/// A message: its subscription, subject and bytes, without its headers.
type Message = (u32, String, Vec<u8>);

impl Link {
    fn open(host: &str) -> Result<Link, Refused> {
        let address = host.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| Refused::Lost(format!("{host} has no address")))?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut info = String::new();
        reader.by_ref().take(1 << 20).read_line(&mut info)?;
        let info = info.strip_prefix("INFO ").and_then(|it| serde_json::from_str(it).ok());
        let info: Value = info.ok_or_else(|| Refused::Lost(format!("{host} is no NATS server")))?;
        let server = info["server_id"].as_str().unwrap_or_default().to_owned();
        let port = stream.local_addr()?.port();
        let inbox = format!("_INBOX.{}.{port}.{host}", std::process::id()).replace(':', ".");
        let mut link = Link { stream, reader, inbox, next: 0, server };
        let hello = json!({
            "verbose": false, "pedantic": false, "lang": "rust", "version": "1", "protocol": 1,
            "headers": true, "no_responders": true,
        });
        let text = format!("CONNECT {hello}\r\nSUB {}.* {ANSWERS}\r\n", link.inbox);
        link.stream.write_all(text.as_bytes())?;
        Ok(link)
    }

    fn subscribe(&mut self, subject: &str, id: u32) -> Result<(), Refused> {
        Ok(self.stream.write_all(format!("SUB {subject} {id}\r\n").as_bytes())?)
    }

    fn publish(
        &mut self,
        reply: &str,
        (subject, headers, bytes): &(String, String, &[u8]),
    ) -> io::Result<()> {
        let (head, all) = (headers.len(), headers.len() + bytes.len());
        let front = if head > 0 {
            format!("HPUB {subject} {reply} {head} {all}\r\n{headers}")
        } else {
            format!("PUB {subject} {reply} {all}\r\n")
        };
        self.stream.write_all(&[front.as_bytes(), bytes, b"\r\n"].concat())
    }

    /// Publishes requests and waits for all answers; messages to other subscriptions go to `heard`.
    fn ask(
        &mut self,
        requests: &[(String, String, &[u8])],
        heard: &mut Vec<String>,
    ) -> Result<Vec<Value>, Refused> {
        let first = self.next;
        for request in requests {
            let reply = format!("{}.{}", self.inbox, self.next);
            self.next += 1;
            self.publish(&reply, request)?;
        }
        let mut answers = vec![None; requests.len()];
        let begin = Instant::now();
        while answers.iter().any(Option::is_none) {
            // Messages to other subscriptions keep a connection busy that has lost an answer.
            if begin.elapsed() > PATIENCE {
                return Err(Refused::Lost("JetStream has not answered in time".into()));
            }
            let (id, subject, bytes) = self.message()?;
            if id != ANSWERS {
                heard.push(String::from_utf8_lossy(&bytes).into_owned());
                continue;
            }
            let number = subject.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
            let at = number.and_then(|number| number.checked_sub(first)).unwrap_or(u64::MAX);
            if let Some(answer) = answers.get_mut(at as usize) {
                let value = serde_json::from_slice(&bytes);
                let nobody = |_| Refused::Lost("JetStream does not answer".to_owned());
                *answer = Some(value.map_err(nobody)?);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// The next message.
    fn message(&mut self) -> Result<Message, Refused> {
        loop {
            let mut line = String::new();
            let limit = 1 << 20;
            if self.reader.by_ref().take(limit).read_line(&mut line)? == 0 {
                return Err(Refused::Lost("the server has closed the connection".into()));
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [verb, ref rest @ ..] = words[..] else { continue };
            match verb {
                "PING" => self.stream.write_all(b"PONG\r\n")?,
                "MSG" | "HMSG" => return self.body(verb == "HMSG", rest),
                "-ERR" => return Err(Refused::Lost(line.trim_end().to_owned())),
                _ => {}
            }
        }
    }

    /// The bytes of a message, whose first line has `words` after its verb.
    fn body(&mut self, has_headers: bool, words: &[&str]) -> Result<Message, Refused> {
        let odd = || Refused::Lost(format!("expected a message, found {words:?}"));
        let number = |word: &&str| word.parse::<usize>().ok();
        let len = words.last().and_then(number).filter(|len| *len <= MESSAGE_MAX);
        let len = len.ok_or_else(odd)?;
        let front = if has_headers { words.len().checked_sub(2) } else { None };
        let front = front.and_then(|at| words.get(at)).and_then(number).unwrap_or(0);
        let [subject, id, ..] = words else { return Err(odd()) };
        let mut bytes = vec![0; len + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(len);
        let body = bytes.split_off(front.min(len));
        Ok((id.parse().unwrap_or(0), (*subject).to_owned(), body))
    }
}
