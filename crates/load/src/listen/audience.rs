//! Many listeners in one thread: a connection each, and two sockets for all of their packets.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meter::Histogram;
use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::socket;
use sys::udp::{Mail, Udp, UdpOptions};
use wire::rtcp;
use wire::rtp::Packet;
use wire::sdp::usual_clock;

use super::hearing::{Ask, Heard, Hearing, Lower, Shares};
use super::order::{News, Order, Way};
use super::track::Track;

/// Bytes of datagrams that may wait to be read: the kernel gives what it allows.
const WAITING: usize = 8 << 20;
/// Datagrams received at once, and the room of each, in bytes.
pub(super) const BATCH: usize = 64;
pub(super) const ROOM: usize = 2048;
/// How often listeners report to their senders.
const REPORT: Duration = Duration::from_secs(5);
/// How often clocks are looked at.
pub(super) const TICK: Duration = Duration::from_millis(10);
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
/// Sockets of groups are numbered from here on, in pairs of media and control.
const KEY_GROUPS: u64 = 1 << 40;
/// How often it is looked at who has to say something.
const WORDS: Duration = Duration::from_millis(100);

/// One session.
pub(super) struct Listener {
    stream: Option<TcpStream>,
    order: Order,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    began_ns: u64,
    /// When the next word is due that keeps it alive.
    alive_ns: u64,
    first_ns: Option<u64>,
    over: bool,
    /// The names of its senders.
    own: Vec<u32>,
    /// The server's address.
    server: Option<IpAddr>,
}

/// Which receiver hears a sender, and the sender's name in RTP.
type Name = (u32, u32);
/// The receiver of everything that was asked for.
const ASKED: u32 = 0;

impl Listener {
    fn new(order: Order, server: IpAddr) -> Listener {
        Listener {
            stream: None,
            order,
            inbox: Vec::new(),
            outbox: Vec::new(),
            began_ns: 0,
            alive_ns: 0,
            first_ns: None,
            over: false,
            own: Vec::new(),
            server: Some(server),
        }
    }
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
    /// That of the first packet, which may be here before its announcement.
    first: Option<u16>,
    bye: bool,
}

/// Everybody who listens, and whom they hear.
pub(super) struct Audience {
    listeners: Vec<Listener>,
    /// By receiver and name: a group's packets come to each of its receivers.
    senders: HashMap<Name, Sender>,
    pub(super) hearing: Hearing,
    first: Histogram,
    /// Sessions one of whose senders has said goodbye since anybody looked.
    parted: Vec<usize>,
    /// Groups that were granted and not joined yet.
    joining: Vec<(IpAddr, (u16, u16))>,
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
    let way = match ask.lower {
        Lower::Datagrams => Way::Udp(ports),
        Lower::Connection => Way::Tcp,
        Lower::Group(_) => Way::Group,
    };
    let login = ask.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let order = || Order::new(&ask.url, way, ask.from_s, login);
    let listener = |_| Listener::new(order(), ask.address.ip());
    let mut audience = Audience::new((0..ask.sessions).map(listener).collect());
    let origin = sys::clock::now_ns();
    let mut begun = 0;
    let (mut events, mut mail) = (Events::with_capacity(256), Mail::new(BATCH, ROOM));
    let mut next_report = origin + REPORT.as_nanos() as u64;
    let last = origin + (ask.ramp + ask.time).as_nanos() as u64;
    let mut parting = None;
    let mut groups: Vec<Udp> = Vec::new();
    let mut next_words = origin;
    loop {
        let now = sys::clock::now_ns();
        while begun < ask.due(now - origin) {
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
                KEY_MEDIA => audience.hear_mail(&media, &mut mail, ASKED, false),
                KEY_CONTROL => audience.hear_mail(&control, &mut mail, ASKED, true),
                key if key >= KEY_GROUPS => {
                    let at = (key - KEY_GROUPS) as usize;
                    audience.hear_mail(&groups[at], &mut mail, ASKED, at % 2 == 1);
                }
                index => audience.talk(index as usize, &epoll),
            }
        }
        if let Lower::Group(interface) = ask.lower {
            audience.join(interface, &epoll, &mut groups)?;
        }
        audience.part(&epoll);
        if now >= next_words {
            next_words = now + WORDS.as_nanos() as u64;
            audience.keep_alive(&epoll);
        }
        if now >= next_report {
            next_report = now + REPORT.as_nanos() as u64;
            audience.report(&control);
        }
    }
    Ok(audience.told((sys::clock::now_ns() - origin) as f64 / 1e9))
}

/// A socket that a group's datagrams come to, beside those of others.
pub(super) fn member(group: SocketAddr, interface: Ipv4Addr) -> io::Result<Udp> {
    let socket = Udp::bind(group, &UdpOptions { reuse_port: true, ..options() })?;
    socket.join(group.ip(), interface)?;
    Ok(socket)
}

pub(super) fn options() -> UdpOptions {
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
    pub(super) fn new(listeners: Vec<Listener>) -> Audience {
        let sessions = listeners.len() as u32;
        Audience {
            listeners,
            senders: HashMap::new(),
            hearing: Hearing { sessions, ..Hearing::default() },
            first: Histogram::new(),
            parted: Vec::new(),
            joining: Vec::new(),
        }
    }

    /// Joins the groups that were granted.
    fn join(
        &mut self,
        interface: Ipv4Addr,
        epoll: &Epoll,
        groups: &mut Vec<Udp>,
    ) -> io::Result<()> {
        for (group, (media, control)) in std::mem::take(&mut self.joining) {
            for port in [media, control] {
                let socket = member(SocketAddr::new(group, port), interface)?;
                Mail::ask_for_times(&socket)?;
                epoll.add(&socket, Interest::READ, KEY_GROUPS + groups.len() as u64)?;
                groups.push(socket);
            }
        }
        Ok(())
    }

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
        let Audience { listeners, senders, hearing, first, parted, joining } = self;
        let Listener { order, inbox, over, began_ns, first_ns, server, own, .. } =
            &mut listeners[index];
        let used = order.hear(inbox, &mut |news| match news {
            News::SetUp { track, transport, .. } => {
                let group = transport.destination.as_ref().and_then(|it| it.parse().ok());
                if let (true, Some(group), Some(ports)) =
                    (transport.multicast, group, transport.port)
                {
                    joining.push((group, ports));
                }
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
                    first: None,
                    bye: false,
                };
                own.push(ssrc);
                senders.insert((ASKED, ssrc), sender);
            }
            News::Playing(info) => {
                announce(senders, hearing, own, info.unwrap_or_default());
            }
            News::Data(channel, packet) if channel % 2 == 0 => {
                if hear_packet(senders, hearing, packet, (ASKED, now)).is_some()
                    && first_ns.is_none()
                {
                    *first_ns = Some(now);
                    first.record(now - *began_ns, 1);
                }
            }
            News::Data(_, packet) => hear_control(senders, hearing, parted, (ASKED, packet)),
            News::Over => *over = true,
        })?;
        inbox.drain(..used);
        if order.is_playing() && listeners[index].alive_ns == 0 {
            listeners[index].alive_ns = now;
        }
        Ok(())
    }

    /// Receives datagrams of media or of control until none waits.
    pub(super) fn hear_mail(
        &mut self,
        socket: &Udp,
        mail: &mut Mail,
        receiver: u32,
        is_control: bool,
    ) {
        let Audience { listeners, senders, hearing, first, parted, .. } = self;
        while let Ok(letters) = mail.receive(socket) {
            let now = sys::clock::now_ns();
            for letter in letters {
                if is_control {
                    hear_control(senders, hearing, parted, (receiver, letter.bytes));
                    continue;
                }
                // The kernel's time, where it tells one: it does not wait for us to run.
                let came = if letter.came_ns > 0 { letter.came_ns } else { now };
                let found = hear_packet(senders, hearing, letter.bytes, (receiver, came));
                let session = found.flatten();
                let Some(listener) = session.and_then(|at| listeners.get_mut(at)) else { continue };
                if listener.first_ns.is_none() {
                    listener.first_ns = Some(now);
                    first.record(now - listener.began_ns, 1);
                }
            }
        }
    }

    /// Ends the sessions that have nothing more to hear.
    fn part(&mut self, epoll: &Epoll) {
        for index in std::mem::take(&mut self.parted) {
            if self.has_ended(index) {
                self.listeners[index].order.leave();
                self.send(index, epoll);
                self.listeners[index].over = true;
            }
        }
    }

    /// Says a word for each session that has to, and what could not be said before.
    fn keep_alive(&mut self, epoll: &Epoll) {
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

    /// Whether there were senders, and all have said goodbye.
    pub(super) fn is_left(&self) -> bool {
        !self.senders.is_empty() && self.senders.values().all(|it| it.bye)
    }

    /// Whether all senders of a session have said goodbye.
    fn has_ended(&self, index: usize) -> bool {
        let own = &self.listeners[index].own;
        let bye = |ssrc: &u32| self.senders.get(&(ASKED, *ssrc)).is_none_or(|it| it.bye);
        !own.is_empty() && own.iter().all(bye)
    }

    /// Tells senders what was heard of them.
    fn report(&mut self, control: &Udp) {
        for ((_, ssrc), sender) in &mut self.senders {
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

    pub(super) fn told(mut self, seconds: f64) -> Hearing {
        let hearing = &mut self.hearing;
        hearing.seconds = seconds;
        hearing.played = self.listeners.iter().filter(|it| it.first_ns.is_some()).count() as u32;
        hearing.first_packet_ms = Shares::of(&self.first);
        let mut all = Histogram::new();
        let few = self.senders.len() <= FEW;
        let mut senders: Vec<_> = self.senders.into_iter().collect();
        senders.sort_unstable_by_key(|(name, sender)| (sender.session, *name));
        for ((_, ssrc), sender) in senders {
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
    senders: &mut HashMap<Name, Sender>,
    hearing: &mut Hearing,
    bytes: &[u8],
    (receiver, came_ns): (u32, u64),
) -> Option<Option<usize>> {
    let Some(packet) = Packet::read(bytes) else {
        hearing.strangers += 1;
        return None;
    };
    let header = packet.header;
    // Who only overhears takes whoever comes; who has asked knows whom for.
    let name = (receiver, header.ssrc);
    if !senders.contains_key(&name) {
        if hearing.sessions > 0 || senders.len() >= STRANGERS_MAX {
            hearing.strangers += 1;
            return None;
        }
        senders.insert(name, Sender::unasked(header.payload_type));
    }
    let sender = senders.get_mut(&name)?;
    if sender.first.is_none() {
        sender.first = Some(header.sequence);
        sender.compare(hearing);
    }
    sender.track.hear(&header, packet.payload.len(), came_ns);
    Some(sender.session)
}

/// A packet of control; sessions whose senders say goodbye are put into `parted`.
fn hear_control(
    senders: &mut HashMap<Name, Sender>,
    hearing: &mut Hearing,
    parted: &mut Vec<usize>,
    (receiver, bytes): (u32, &[u8]),
) {
    rtcp::read(bytes, |word| match word {
        rtcp::Word::Alive(_) => hearing.reports += 1,
        rtcp::Word::Bye(ssrc) => {
            if let Some(sender) = senders.get_mut(&(receiver, ssrc)) {
                sender.bye = true;
                parted.extend(sender.session);
            }
        }
        rtcp::Word::Report(_) => {}
    });
}

/// Notes the sequence numbers that the value of `RTP-Info` announces for a session's senders.
fn announce(senders: &mut HashMap<Name, Sender>, hearing: &mut Hearing, own: &[u32], info: &str) {
    for part in info.split(',') {
        let value = |name: &str| part.split(';').find_map(|it| it.trim().strip_prefix(name));
        let (Some(url), Some(number)) = (value("url="), value("seq=")) else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        for ssrc in own {
            let Some(sender) = senders.get_mut(&(ASKED, *ssrc)) else { continue };
            if !sender.url.is_empty() && url.ends_with(&sender.url) {
                sender.announced = Some(number);
                sender.compare(hearing);
            }
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
            first: None,
            bye: false,
        }
    }

    /// Compares the first packet with what was announced, once both are known.
    fn compare(&mut self, hearing: &mut Hearing) {
        if let (Some(announced), Some(first)) = (self.announced, self.first) {
            hearing.misannounced += u32::from(announced != first);
        }
    }
}
