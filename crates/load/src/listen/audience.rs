//! Many listeners in one thread: a connection each, and two sockets for all of their packets.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meter::Histogram;
use serde::Serialize;
use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::socket;
use sys::udp::{Mail, Udp, UdpOptions};
use wire::rtcp;
use wire::rtp::Packet;
use wire::sdp::usual_clock;

use super::order::{News, Order, Way};
use super::track::{Tallied, Track};

/// Bytes of datagrams that may wait to be read: the kernel gives what it allows.
const WAITING: usize = 8 << 20;
/// Datagrams received at once, and the room of each, in bytes.
const BATCH: usize = 64;
const ROOM: usize = 2048;
/// How often listeners report to their senders.
const REPORT: Duration = Duration::from_secs(5);
/// How often clocks are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long the last answers may take.
const PARTING: Duration = Duration::from_secs(2);
/// Who we are, in reports.
const NAME: &str = "listener@roundhouse";
/// Senders that are told apart in the report.
const FEW: usize = 16;
/// Senders that who only overhears tells apart.
const STRANGERS_MAX: usize = 100_000;
const KEY_MEDIA: u64 = u64::MAX;
const KEY_CONTROL: u64 = u64::MAX - 1;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What is to be played.
    pub url: String,
    /// Whether media shall come in the connection.
    pub in_connection: bool,
    /// How many sessions.
    pub sessions: u32,
    /// Over how long they begin.
    pub ramp: Duration,
    /// How long to listen from then on; whoever has played to its end is done before.
    pub time: Duration,
    /// Where to begin, in seconds.
    pub from_s: f64,
    /// Name and password.
    pub login: Option<(String, String)>,
}

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hearing {
    /// Sessions that were begun.
    pub sessions: u32,
    /// Those that media came for.
    pub played: u32,
    /// Those that failed, by reason.
    pub failed: Vec<(String, u32)>,
    /// Those that the sender ended (BYE).
    pub ended: u32,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The sum over all senders; the jitter is the largest.
    #[serde(flatten)]
    pub sums: Tallied,
    /// Sender reports.
    pub reports: u64,
    /// Datagrams that were no packets of anybody.
    pub strangers: u64,
    /// First packets that were not those which RTP-Info had announced.
    pub misannounced: u32,
    /// From the first question to the first packet, in milliseconds.
    pub first_packet_ms: Shares,
    /// How late packets were against the earliest of their sender, in milliseconds.
    pub late_ms: Shares,
    /// Each sender, where there are few.
    pub tracks: Vec<Heard>,
}

/// One sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heard {
    /// Its name in RTP.
    pub ssrc: u32,
    /// The payload type and what it is.
    pub payload: String,
    /// What was found.
    #[serde(flatten)]
    pub found: Tallied,
    /// How late its packets were, in milliseconds.
    pub late_ms: Shares,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// The median.
    pub p50: f64,
    /// Of a hundred.
    pub p99: f64,
    /// Of a thousand.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Shares {
    fn of(histogram: &Histogram) -> Shares {
        let ms = |q: f64| histogram.quantile(q) as f64 / 1e6;
        if histogram.count() == 0 {
            return Shares::default();
        }
        Shares { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), max: histogram.max() as f64 / 1e6 }
    }
}

/// One session.
struct Listener {
    stream: Option<TcpStream>,
    order: Order,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    began_ns: u64,
    /// When the next word is due that keeps it alive.
    alive_ns: u64,
    first_ns: Option<u64>,
    over: bool,
    /// The server's address.
    server: Option<IpAddr>,
}

/// A sender that was announced or has come.
struct Sender {
    track: Track,
    payload: String,
    /// Whose it is; nobody's where it was only overheard.
    session: Option<usize>,
    /// Where reports of it go: by datagrams, or in the session's connection.
    control: Option<SocketAddr>,
    channel: Option<u8>,
    /// The end of its URL.
    url: String,
    /// The sequence number that was announced for the first packet.
    announced: Option<u16>,
    bye: bool,
}

struct Audience {
    listeners: Vec<Listener>,
    senders: HashMap<u32, Sender>,
    hearing: Hearing,
    first: Histogram,
    /// Sessions one of whose senders has said goodbye since anybody looked.
    parted: Vec<usize>,
}

/// Plays sessions and counts what comes, until the time is over, all have ended, or `stop` is set.
///
/// # Errors
/// This machine gives no sockets. What a server refuses is counted instead.
pub fn listen(ask: &Ask, stop: &AtomicBool) -> io::Result<Hearing> {
    let epoll = Epoll::new()?;
    let (media, control, ports) = pair(ask.address.ip())?;
    Mail::ask_for_times(&media)?;
    epoll.add(&media, Interest::READ, KEY_MEDIA)?;
    epoll.add(&control, Interest::READ, KEY_CONTROL)?;
    let way = if ask.in_connection { Way::Tcp } else { Way::Udp(ports) };
    let login = ask.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let listener = |_| Listener {
        stream: None,
        order: Order::new(&ask.url, way, ask.from_s, login),
        inbox: Vec::new(),
        outbox: Vec::new(),
        began_ns: 0,
        alive_ns: 0,
        first_ns: None,
        over: false,
        server: Some(ask.address.ip()),
    };
    let mut audience = Audience {
        listeners: (0..ask.sessions).map(listener).collect(),
        senders: HashMap::new(),
        hearing: Hearing { sessions: ask.sessions, ..Hearing::default() },
        first: Histogram::new(),
        parted: Vec::new(),
    };
    let origin = sys::clock::now_ns();
    let mut begun = 0;
    let (mut events, mut mail) = (Events::with_capacity(256), Mail::new(BATCH, ROOM));
    let mut next_report = origin + REPORT.as_nanos() as u64;
    let last = origin + (ask.ramp + ask.time).as_nanos() as u64;
    let mut parting = None;
    loop {
        let now = sys::clock::now_ns();
        let due = if ask.ramp.is_zero() {
            ask.sessions
        } else {
            let share = (now - origin) as f64 / ask.ramp.as_nanos() as f64;
            ((share * f64::from(ask.sessions)) as u32 + 1).min(ask.sessions)
        };
        while begun < due {
            audience.begin(begun as usize, ask.address, &epoll, now);
            begun += 1;
        }
        let is_over = begun == ask.sessions && audience.listeners.iter().all(|it| it.over);
        if is_over || parting.is_some_and(|until| now >= until) {
            break;
        }
        if parting.is_none() && (now >= last || stop.load(Ordering::Relaxed)) {
            audience.leave(&epoll);
            begun = ask.sessions;
            parting = Some(now + PARTING.as_nanos() as u64);
        }
        epoll.wait(&mut events, Some(TICK))?;
        let keys: Vec<u64> = events.iter().map(|event| event.key).collect();
        for key in keys {
            match key {
                KEY_MEDIA => audience.hear_mail(&media, &mut mail, false),
                KEY_CONTROL => audience.hear_mail(&control, &mut mail, true),
                index => audience.talk(index as usize, &epoll),
            }
        }
        audience.keep_alive(&epoll);
        if now >= next_report {
            next_report = now + REPORT.as_nanos() as u64;
            audience.report(&control);
        }
    }
    Ok(audience.told((sys::clock::now_ns() - origin) as f64 / 1e9))
}

/// Counts what comes to `address` by itself, for `time`, or until `stop` is set.
///
/// # Errors
/// The address cannot be listened at.
pub fn overhear(address: SocketAddr, time: Duration, stop: &AtomicBool) -> io::Result<Hearing> {
    let media = Udp::bind(address, &options())?;
    Mail::ask_for_times(&media)?;
    let mut audience = Audience {
        listeners: Vec::new(),
        senders: HashMap::new(),
        hearing: Hearing::default(),
        first: Histogram::new(),
        parted: Vec::new(),
    };
    let (origin, mut mail) = (sys::clock::now_ns(), Mail::new(BATCH, ROOM));
    while sys::clock::now_ns() - origin < time.as_nanos() as u64 && !stop.load(Ordering::Relaxed) {
        if media.wait_readable(TICK)? {
            audience.hear_mail(&media, &mut mail, false);
        }
    }
    Ok(audience.told((sys::clock::now_ns() - origin) as f64 / 1e9))
}

fn options() -> UdpOptions {
    UdpOptions { receive_buffer: Some(WAITING), ..UdpOptions::default() }
}

/// Sockets on an even port and the one behind it (RFC 3550 section 11).
fn pair(server: IpAddr) -> io::Result<(Udp, Udp, (u16, u16))> {
    let own: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    for _ in 0..100 {
        let media = Udp::bind(SocketAddr::new(own, 0), &options())?;
        let port = media.local_addr()?.port();
        if port % 2 == 1 || port == u16::MAX {
            continue;
        }
        if let Ok(control) = Udp::bind(SocketAddr::new(own, port + 1), &options()) {
            return Ok((media, control, (port, port + 1)));
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no even port with a free one behind it"))
}

impl Audience {
    fn begin(&mut self, index: usize, address: SocketAddr, epoll: &Epoll, now: u64) {
        let listener = &mut self.listeners[index];
        let connected = socket::connect(address).and_then(|fd| {
            let stream = TcpStream::from(fd);
            stream.set_nonblocking(true)?;
            epoll.add(stream.as_fd(), Interest::READ, index as u64)?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => {
                (listener.stream, listener.began_ns) = (Some(stream), now);
                listener.order.begin();
                self.send(index, epoll);
            }
            Err(error) => self.fail(index, &format!("connecting: {error}")),
        }
    }

    fn fail(&mut self, index: usize, why: &str) {
        let listener = &mut self.listeners[index];
        if std::mem::replace(&mut listener.over, true) {
            return;
        }
        listener.stream = None;
        let failed = &mut self.hearing.failed;
        match failed.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => failed.push((why.to_owned(), 1)),
        }
    }

    /// Receives and answers over a session's connection.
    fn talk(&mut self, index: usize, epoll: &Epoll) {
        let mut bytes = [0; 16 * 1024];
        loop {
            let Some(stream) = &mut self.listeners[index].stream else { return };
            match stream.read(&mut bytes) {
                Ok(0) => return self.hang_up(index, epoll, "the server ended the connection"),
                Ok(len) => self.listeners[index].inbox.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.hang_up(index, epoll, &format!("receiving: {error}")),
            }
        }
        if let Err(why) = self.understand(index) {
            return self.hang_up(index, epoll, &why);
        }
        self.send(index, epoll);
    }

    fn hang_up(&mut self, index: usize, epoll: &Epoll, why: &str) {
        let listener = &mut self.listeners[index];
        if let Some(stream) = listener.stream.take() {
            let _ = epoll.remove(stream.as_fd());
        }
        if self.has_ended(index) {
            self.listeners[index].over = true;
        } else {
            self.fail(index, why);
        }
    }

    /// Takes what has come over a session's connection.
    fn understand(&mut self, index: usize) -> Result<(), String> {
        let now = sys::clock::now_ns();
        let Audience { listeners, senders, hearing, first, parted } = self;
        let Listener { order, inbox, over, began_ns, first_ns, server, .. } = &mut listeners[index];
        let used = order.hear(inbox, &mut |news| match news {
            News::SetUp { track, transport, .. } => {
                // Without a name packets cannot be told apart; then they are strangers.
                let Some(ssrc) = transport.ssrc else { return };
                let host = transport.source.or(*server);
                let control = host.zip(transport.server_port);
                let sender = Sender {
                    track: Track::new(track.clock),
                    payload: format!("{} {}", track.payload_type, track.encoding),
                    session: Some(index),
                    control: control.map(|(host, (_, port))| SocketAddr::new(host, port)),
                    channel: transport.interleaved.map(|(_, control)| control),
                    url: track.control.clone(),
                    announced: None,
                    bye: false,
                };
                senders.insert(ssrc, sender);
            }
            News::Playing(info) => announce(senders, index, info.unwrap_or_default()),
            News::Data(channel, packet) if channel % 2 == 0 => {
                if hear_packet(senders, hearing, packet, now).is_some() && first_ns.is_none() {
                    *first_ns = Some(now);
                    first.record(now - *began_ns, 1);
                }
            }
            News::Data(_, packet) => hear_control(senders, hearing, parted, packet),
            News::Over => *over = true,
        })?;
        inbox.drain(..used);
        if order.is_playing() && listeners[index].alive_ns == 0 {
            listeners[index].alive_ns = now;
        }
        Ok(())
    }

    /// Receives datagrams of media or of control until none waits.
    fn hear_mail(&mut self, socket: &Udp, mail: &mut Mail, is_control: bool) {
        let Audience { listeners, senders, hearing, first, parted } = self;
        while let Ok(letters) = mail.receive(socket) {
            let now = sys::clock::now_ns();
            for letter in letters {
                if is_control {
                    hear_control(senders, hearing, parted, letter.bytes);
                    continue;
                }
                // The kernel's time, where it tells one: it does not wait for us to run.
                let came = if letter.came_ns > 0 { letter.came_ns } else { now };
                let session = hear_packet(senders, hearing, letter.bytes, came).flatten();
                let Some(listener) = session.and_then(|at| listeners.get_mut(at)) else { continue };
                if listener.first_ns.is_none() {
                    listener.first_ns = Some(now);
                    first.record(now - listener.began_ns, 1);
                }
            }
        }
    }

    /// Ends the sessions that have nothing more to hear, and says a word for each that has to.
    fn keep_alive(&mut self, epoll: &Epoll) {
        for index in std::mem::take(&mut self.parted) {
            if self.has_ended(index) {
                self.listeners[index].order.leave();
                self.send(index, epoll);
                self.listeners[index].over = true;
            }
        }
        let now = sys::clock::now_ns();
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            let silence = listener.order.keep_alive_s() * 1_000_000_000;
            if listener.alive_ns > 0 && now >= listener.alive_ns + silence {
                listener.alive_ns = now;
                listener.order.keep_alive();
            }
            self.send(index, epoll);
        }
    }

    /// Whether all senders of a session have said goodbye.
    fn has_ended(&self, index: usize) -> bool {
        let mut own = self.senders.values().filter(|it| it.session == Some(index)).peekable();
        own.peek().is_some() && own.all(|it| it.bye)
    }

    /// Tells senders what was heard of them.
    fn report(&mut self, control: &Udp) {
        for (ssrc, sender) in &mut self.senders {
            let own = sender.session.map_or(1, |it| it as u32 + 1);
            let Some(heard) = sender.track.report(own, *ssrc) else { continue };
            let mut bytes = Vec::new();
            rtcp::write_heard(own, &[heard], NAME, &mut bytes);
            match (sender.channel, sender.control, sender.session) {
                (Some(channel), _, Some(index)) => {
                    let outbox = &mut self.listeners[index].outbox;
                    outbox.extend_from_slice(&wire::rtsp::frame(channel, bytes.len()));
                    outbox.extend_from_slice(&bytes);
                }
                // A report that is lost is followed by the next.
                (None, Some(to), _) => drop(control.send_to(&bytes, to, false)),
                _ => {}
            }
        }
    }

    /// Ends all sessions.
    fn leave(&mut self, epoll: &Epoll) {
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            if listener.stream.is_none() {
                listener.over = true;
            }
            listener.order.leave();
            self.send(index, epoll);
        }
    }

    /// Sends what waits of a session.
    fn send(&mut self, index: usize, epoll: &Epoll) {
        let listener = &mut self.listeners[index];
        listener.outbox.extend(listener.order.take_out());
        if listener.outbox.is_empty() {
            return;
        }
        let Some(stream) = &mut listener.stream else { return };
        match stream.write(&listener.outbox) {
            Ok(sent) => drop(listener.outbox.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.hang_up(index, epoll, &format!("sending: {error}")),
        }
    }

    fn told(mut self, seconds: f64) -> Hearing {
        let hearing = &mut self.hearing;
        hearing.seconds = seconds;
        hearing.played = self.listeners.iter().filter(|it| it.first_ns.is_some()).count() as u32;
        hearing.first_packet_ms = Shares::of(&self.first);
        let mut all = Histogram::new();
        let few = self.senders.len() <= FEW;
        let mut senders: Vec<_> = self.senders.into_iter().collect();
        senders.sort_unstable_by_key(|(ssrc, sender)| (sender.session, *ssrc));
        for (ssrc, sender) in senders {
            let found = sender.track.tallied();
            let mut late = Histogram::new();
            sender.track.lateness_ns().for_each(|ns| late.record(ns, 1));
            all.merge(&late);
            let sums = &mut hearing.sums;
            sums.packets += found.packets;
            sums.bytes += found.bytes;
            sums.lost += found.lost;
            sums.duplicates += found.duplicates;
            sums.reordered += found.reordered;
            sums.jitter_ms = sums.jitter_ms.max(found.jitter_ms);
            hearing.ended += u32::from(sender.bye);
            if few {
                let late_ms = Shares::of(&late);
                hearing.tracks.push(Heard { ssrc, payload: sender.payload, found, late_ms });
            }
        }
        hearing.late_ms = Shares::of(&all);
        self.hearing
    }
}

/// A packet of media; whose it is, if it is anybody's.
fn hear_packet(
    senders: &mut HashMap<u32, Sender>,
    hearing: &mut Hearing,
    bytes: &[u8],
    came_ns: u64,
) -> Option<Option<usize>> {
    let Some(packet) = Packet::read(bytes) else {
        hearing.strangers += 1;
        return None;
    };
    let header = packet.header;
    // Who only overhears takes whoever comes; who has asked knows whom for.
    if !senders.contains_key(&header.ssrc) {
        if hearing.sessions > 0 || senders.len() >= STRANGERS_MAX {
            hearing.strangers += 1;
            return None;
        }
        senders.insert(header.ssrc, Sender::unasked(header.payload_type));
    }
    let sender = senders.get_mut(&header.ssrc)?;
    if let Some(announced) = sender.announced.take() {
        hearing.misannounced += u32::from(announced != header.sequence);
    }
    sender.track.hear(&header, packet.payload.len(), came_ns);
    Some(sender.session)
}

/// A packet of control; sessions whose senders say goodbye are put into `parted`.
fn hear_control(
    senders: &mut HashMap<u32, Sender>,
    hearing: &mut Hearing,
    parted: &mut Vec<usize>,
    bytes: &[u8],
) {
    rtcp::read(bytes, |word| match word {
        rtcp::Word::Alive(_) => hearing.reports += 1,
        rtcp::Word::Bye(ssrc) => {
            if let Some(sender) = senders.get_mut(&ssrc) {
                sender.bye = true;
                parted.extend(sender.session);
            }
        }
        rtcp::Word::Report(_) => {}
    });
}

/// Notes the sequence numbers that the value of `RTP-Info` announces for a session's senders.
fn announce(senders: &mut HashMap<u32, Sender>, index: usize, info: &str) {
    for part in info.split(',') {
        let value = |name: &str| part.split(';').find_map(|it| it.trim().strip_prefix(name));
        let (Some(url), Some(number)) = (value("url="), value("seq=")) else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        let own = senders.values_mut().filter(|it| it.session == Some(index));
        for sender in own.filter(|it| !it.url.is_empty() && url.ends_with(&it.url)) {
            sender.announced = Some(number);
        }
    }
}

impl Sender {
    /// Somebody who was not asked.
    fn unasked(payload_type: u8) -> Sender {
        Sender {
            track: Track::new(usual_clock(payload_type)),
            payload: payload_type.to_string(),
            session: None,
            control: None,
            channel: None,
            url: String::new(),
            announced: None,
            bye: false,
        }
    }
}
