//! Many RTSP sessions in one thread: a connection each, and one socket pair for hundreds of them.
//!
//! `listen` is one loop over one epoll. The key of an event says what is ready: an index is the
//! RTSP connection of that session, higher keys are pairs of sockets for datagrams, still higher
//! ones the sockets of groups. A turn starts the sessions that are due, feeds the connections'
//! bytes to their `Client`, passes every media and control packet to `Senders`, joins granted
//! groups, and ten times a second sends keep-alives and a fiftieth of the receiver reports. When
//! the time is over, each session sends TEARDOWN, and the loop waits up to 2 s for the answers. A
//! refusal by the server is counted in the report; only a lack of this machine's own resources is
//! an error.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meter::Histogram;
use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::socket::{self, SockRef};
use sys::udp::{Mail, Udp};
use wire::rtsp::{self, Lower};

use super::client::{Client, ClientEvent};
use super::report::{ListenPlan, MediaReport, Percentiles, Transport};
use super::senders::{Arrival, GROUPS, Sender, Senders};
use super::sockets::{Pair, dropped, member, pairs, watch};
use super::track::Track;

/// Datagrams per receive call, and the space for each, in bytes.
pub(super) const BATCH: usize = 64;
pub(super) const ROOM: usize = 2048;
/// Receivers report to their senders every five seconds, in this many groups.
const PARTS: u32 = 50;
/// The interval at which deadlines are checked.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// A session that is still waiting when the run ends has failed, if it has waited longer than this.
const AWHILE: Duration = Duration::from_secs(1);
/// The time that the last responses may take.
const PARTING: Duration = Duration::from_secs(2);
/// The wait for packets that the final BYE may have overtaken.
const STRAGGLERS: Duration = Duration::from_millis(100);
/// Epoll keys of datagram sockets start here, in pairs of media and control: for sessions, and for
/// multicast groups.
const KEY_PAIRS: u64 = 1 << 40;
const KEY_GROUPS: u64 = 1 << 41;
/// The interval of checks for due keep-alives and reports.
const WORDS: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Session {
    stream: Option<TcpStream>,
    is_connected: bool,
    client: Client,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    began_ns: u64,
    /// The time of the next keep-alive.
    alive_ns: u64,
    first_ns: Option<u64>,
    over: bool,
    receiver: u32,
    server: Option<IpAddr>,
}

impl Session {
    /// The part that the session still waits for, if it began a while ago and no media arrived.
    fn lacks(&self, now: u64) -> Option<String> {
        match self.stream {
            None => None,
            Some(_) if now < self.began_ns + AWHILE.as_nanos() as u64 => None,
            Some(_) if self.over || self.first_ns.is_some() => None,
            Some(_) if !self.is_connected => Some("connecting: no answer".to_owned()),
            Some(_) if !self.client.is_playing() => {
                Some(format!("{}: no answer", self.client.last_method()))
            }
            Some(_) => Some("no media came".to_owned()),
        }
    }

    fn new(client: Client, server: IpAddr, receiver: u32) -> Session {
        Session { client, receiver, server: Some(server), ..Session::default() }
    }
}

pub(super) struct Receiver {
    listeners: Vec<Session>,
    pub(super) senders: Senders,
    pub(super) report: MediaReport,
    first: Histogram,
    /// Groups that were granted and not joined yet.
    joining: Vec<(IpAddr, (u16, u16))>,
}

/// Plays sessions and counts arriving packets, until the time is over, all have ended, or `stop` is
/// set.
///
/// # Errors
/// This machine provides no sockets. Refusals by the server are counted instead.
pub fn listen(ask: &ListenPlan, stop: &AtomicBool) -> io::Result<MediaReport> {
    let epoll = Epoll::new()?;
    let sessions = if ask.lower == Transport::Datagrams { ask.sessions } else { 1 };
    let mut sockets =
        Sockets { pairs: pairs(ask.address.ip(), sessions)?, groups: Vec::new(), epoll };
    for (pair, key) in sockets.pairs.iter().zip((KEY_PAIRS..).step_by(2)) {
        watch(&sockets.epoll, &pair.media, key)?;
        sockets.epoll.add(&pair.control, Interest::READ, key + 1)?;
    }
    let control = sockets.pairs[0].control.try_clone()?;
    if let Transport::Group(interface) = ask.lower {
        SockRef::from(&control).set_multicast_if_v4(&interface)?;
    }
    let login = ask.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let listener = |index: u32| {
        let (wanted, receiver) = sockets.wanted(ask.lower, index);
        let client = Client::new(&ask.url, wanted, ask.from_s, login);
        Session::new(client, ask.address.ip(), receiver)
    };
    let mut state = Receiver::new((0..ask.sessions).map(listener).collect(), ask.sessions);
    let origin = sys::clock::now_ns();
    let (mut begun, mut words) = (0, 0);
    let (mut events, mut mail) = (Events::with_capacity(256), Mail::new(BATCH, ROOM));
    let last = origin + (ask.ramp + ask.time).as_nanos() as u64;
    let mut parting = None;
    loop {
        let now = sys::clock::now_ns();
        while begun < ask.due(now - origin) {
            state.begin(begun as usize, ask.address, &sockets.epoll, now);
            begun += 1;
        }
        let is_over = begun == ask.sessions && state.listeners.iter().all(|it| it.over);
        if is_over || parting.is_some_and(|until| now >= until) {
            break;
        }
        if parting.is_none() && (now >= last || stop.load(Ordering::Relaxed)) {
            state.leave(&sockets.epoll);
            begun = ask.sessions;
            parting = Some(now + PARTING.as_nanos() as u64);
        }
        sockets.epoll.wait(&mut events, Some(TICK))?;
        for event in events.iter() {
            match sockets.socket(event.key) {
                Some((socket, receiver)) => {
                    state.receive_datagrams(socket, &mut mail, receiver, event.key % 2 == 1)
                }
                None => state.talk(event.key as usize, &sockets.epoll),
            }
        }
        if let Transport::Group(interface) = ask.lower {
            state.join(interface, &mut sockets)?;
        }
        state.part(&sockets.epoll);
        if now >= origin + words * WORDS.as_nanos() as u64 {
            words += 1;
            state.keep_alive(&sockets.epoll);
            state.report(&control, words as u32 % PARTS);
        }
    }
    sockets.settle(&mut state, &mut mail);
    state.report.dropped = dropped(sockets.media().map(|(socket, _)| socket));
    Ok(state.finish((sys::clock::now_ns() - origin) as f64 / 1e9))
}

struct Sockets {
    epoll: Epoll,
    pairs: Vec<Pair>,
    groups: Vec<Udp>,
}

impl Sockets {
    /// The transport that session `index` asks for, and the receiver of its packets.
    fn wanted(&self, lower: Transport, index: u32) -> (rtsp::Transport, u32) {
        let udp = rtsp::Transport { lower: Some(Lower::Udp), ..Default::default() };
        match lower {
            Transport::Datagrams => {
                let pair = index as usize % self.pairs.len();
                let client_port = Some(self.pairs[pair].ports);
                (rtsp::Transport { client_port, ..udp }, pair as u32)
            }
            Transport::Connection => (rtsp::Transport { lower: Some(Lower::Tcp), ..udp }, index),
            Transport::Group(_) => (rtsp::Transport { multicast: true, ..udp }, GROUPS),
        }
    }

    /// The datagram socket with this key, and its receiver.
    fn socket(&self, key: u64) -> Option<(&Udp, u32)> {
        match key {
            KEY_GROUPS.. => Some((self.groups.get((key - KEY_GROUPS) as usize)?, GROUPS)),
            KEY_PAIRS.. => {
                let index = (key - KEY_PAIRS) as usize / 2;
                let pair = self.pairs.get(index)?;
                Some((if key % 2 == 1 { &pair.control } else { &pair.media }, index as u32))
            }
            _ => None,
        }
    }

    /// The media sockets and their receivers.
    fn media(&self) -> impl Iterator<Item = (&Udp, u32)> {
        let pairs = self.pairs.iter().map(|pair| &pair.media).zip(0..);
        pairs.chain(self.groups.iter().step_by(2).map(|group| (group, GROUPS)))
    }

    /// Receives the packets still in flight, because the last BYE may have overtaken the last
    /// packet.
    fn settle(&self, state: &mut Receiver, mail: &mut Mail) {
        let mut receive = |state: &mut Receiver| {
            self.media().for_each(|(socket, at)| state.receive_datagrams(socket, mail, at, false));
        };
        for _ in 0..2 {
            receive(state);
            if state.senders.all.values().all(|it| it.track.counts().lost == 0) {
                return;
            }
            std::thread::sleep(STRAGGLERS);
        }
        receive(state);
    }
}

impl Receiver {
    /// A receiver for these sessions (none for unrequested media), expecting this many senders.
    pub(super) fn new(listeners: Vec<Session>, senders: u32) -> Receiver {
        let sessions = listeners.len() as u32;
        Receiver {
            listeners,
            senders: Senders::new(senders),
            report: MediaReport { sessions, ..MediaReport::default() },
            first: Histogram::new(),
            joining: Vec::new(),
        }
    }

    fn join(&mut self, interface: Ipv4Addr, sockets: &mut Sockets) -> io::Result<()> {
        for (group, (media, control)) in std::mem::take(&mut self.joining) {
            for port in [media, control] {
                let socket = member(SocketAddr::new(group, port), interface)?;
                watch(&sockets.epoll, &socket, KEY_GROUPS + sockets.groups.len() as u64)?;
                sockets.groups.push(socket);
            }
        }
        Ok(())
    }

    /// Starts connecting; the connection is up when its socket becomes writable.
    fn begin(&mut self, index: usize, address: SocketAddr, epoll: &Epoll, now: u64) {
        let listener = &mut self.listeners[index];
        let connecting = socket::connect_nonblocking(address).and_then(|fd| {
            epoll.add(&fd, Interest::WRITE, index as u64)?;
            Ok(TcpStream::from(fd))
        });
        match connecting {
            Ok(stream) => (listener.stream, listener.began_ns) = (Some(stream), now),
            Err(error) => self.fail(index, &format!("connecting: {error}")),
        }
    }

    /// Handles the end of an attempt to connect.
    fn connected(&mut self, index: usize, epoll: &Epoll) {
        let listener = &mut self.listeners[index];
        let Some(stream) = &listener.stream else { return };
        let fd = stream.as_fd();
        let found = SockRef::from(&fd).take_error().and_then(|error| match error {
            Some(error) => Err(error),
            None => epoll.modify(fd, Interest::READ, index as u64),
        });
        match found {
            Ok(()) => {
                listener.is_connected = true;
                listener.client.begin();
                self.send(index, epoll);
            }
            Err(error) => self.hang_up(index, epoll, &format!("connecting: {error}")),
        }
    }

    fn fail(&mut self, index: usize, why: &str) {
        let listener = &mut self.listeners[index];
        if std::mem::replace(&mut listener.over, true) {
            return;
        }
        listener.stream = None;
        let failed = &mut self.report.failed;
        match failed.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => failed.push((why.to_owned(), 1)),
        }
    }

    /// Receives on a session's connection and answers.
    fn talk(&mut self, index: usize, epoll: &Epoll) {
        if !self.listeners[index].is_connected {
            return self.connected(index, epoll);
        }
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

    /// Processes what has arrived over a session's connection.
    fn understand(&mut self, index: usize) -> Result<(), String> {
        let now = sys::clock::now_ns();
        let Receiver { listeners, senders, report, first, joining } = self;
        let Session { client, inbox, over, began_ns, first_ns, server, receiver, .. } =
            &mut listeners[index];
        let at = |channel| Arrival { receiver: *receiver, channel: Some(channel), came_ns: now };
        let used = client.receive(inbox, &mut |event| match event {
            ClientEvent::SetUp { track, transport } => {
                let group = transport.destination.as_ref().and_then(|it| it.parse().ok());
                if let (true, Some(group), Some(ports)) =
                    (transport.multicast, group, transport.port)
                {
                    joining.push((group, ports));
                }
                // Members of a group report to the group; other receivers report to the sender.
                let host = group.or(transport.source).or(*server);
                let ports = transport.port.filter(|_| transport.multicast);
                let control = host.zip(ports.or(transport.server_port));
                let sender = Sender {
                    track: Track::new(track.clock, senders.kept),
                    payload_type: track.payload_type,
                    payload: format!("{} {}", track.payload_type, track.encoding),
                    session: Some(index),
                    control: control.map(|(host, (_, port))| SocketAddr::new(host, port)),
                    channels: transport.interleaved,
                    url: track.control.clone(),
                    ..Sender::default()
                };
                senders.expect(*receiver, transport.ssrc, sender);
            }
            ClientEvent::Playing(info) => {
                senders.announce(report, (index, *receiver), info.unwrap_or_default());
            }
            ClientEvent::Data(channel, packet) if channel % 2 == 0 => {
                if senders.packet(report, packet, at(channel)).is_some() && first_ns.is_none() {
                    *first_ns = Some(now);
                    first.record(now - *began_ns, 1);
                }
            }
            ClientEvent::Data(channel, packet) => senders.control(report, packet, at(channel)),
            ClientEvent::Over => *over = true,
        })?;
        inbox.drain(..used);
        if client.is_playing() && listeners[index].alive_ns == 0 {
            listeners[index].alive_ns = now;
        }
        Ok(())
    }

    /// Receives datagrams of media or control until none is left.
    pub(super) fn receive_datagrams(
        &mut self,
        socket: &Udp,
        mail: &mut Mail,
        receiver: u32,
        is_control: bool,
    ) {
        let Receiver { listeners, senders, report, first, .. } = self;
        while let Ok(letters) = mail.receive(socket) {
            let now = sys::clock::now_ns();
            for letter in letters {
                let arrival = |came_ns| Arrival { receiver, channel: None, came_ns };
                if is_control {
                    senders.control(report, letter.bytes, arrival(now));
                    continue;
                }
                // The kernel's timestamp, where it provides one, does not depend on when this
                // thread runs.
                let came = if letter.came_ns > 0 { letter.came_ns } else { now };
                let session = senders.packet(report, letter.bytes, arrival(came)).flatten();
                let Some(listener) = session.and_then(|at| listeners.get_mut(at)) else { continue };
                if listener.first_ns.is_none() {
                    listener.first_ns = Some(now);
                    first.record(now - listener.began_ns, 1);
                }
            }
        }
    }

    /// Ends the sessions whose senders have all sent BYE.
    fn part(&mut self, epoll: &Epoll) {
        for index in std::mem::take(&mut self.senders.parted) {
            if self.has_ended(index) {
                self.listeners[index].client.leave();
                self.send(index, epoll);
                self.listeners[index].over = true;
            }
        }
    }

    /// Sends due keep-alives, and bytes that could not be sent before.
    fn keep_alive(&mut self, epoll: &Epoll) {
        let now = sys::clock::now_ns();
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            let silence = listener.client.keep_alive_s() * 1_000_000_000;
            if listener.alive_ns > 0 && now >= listener.alive_ns + silence {
                listener.alive_ns = now;
                listener.client.keep_alive();
            }
            self.send(index, epoll);
        }
    }

    /// Whether all senders of a session have sent BYE.
    fn has_ended(&self, index: usize) -> bool {
        self.senders.have_ended(index, self.listeners[index].receiver)
    }

    /// Sends receiver reports to the `part`th group of senders, by SSRC.
    fn report(&mut self, control: &Udp, part: u32) {
        let (Receiver { senders, listeners, .. }, now) = (self, sys::clock::now_ns());
        senders.reports(now, (part, PARTS), |sender, bytes| {
            match (sender.channels, sender.control, sender.session) {
                (Some((_, channel)), _, Some(index)) => {
                    let outbox = &mut listeners[index].outbox;
                    outbox.extend_from_slice(&rtsp::frame(channel, bytes.len()));
                    outbox.extend_from_slice(bytes);
                }
                // The next report replaces a lost one.
                (None, Some(to), _) => drop(control.send_to(bytes, to, false)),
                _ => {}
            }
        });
    }

    /// Ends all sessions; those that received nothing have failed.
    fn leave(&mut self, epoll: &Epoll) {
        self.senders.is_leaving = true;
        let now = sys::clock::now_ns();
        for index in 0..self.listeners.len() {
            if let Some(why) = self.listeners[index].lacks(now) {
                self.fail(index, &why);
            }
            let listener = &mut self.listeners[index];
            if listener.stream.is_none() {
                listener.over = true;
            }
            listener.client.leave();
            self.send(index, epoll);
        }
    }

    /// Sends a session's pending bytes.
    fn send(&mut self, index: usize, epoll: &Epoll) {
        let listener = &mut self.listeners[index];
        listener.outbox.extend(listener.client.take_out());
        if listener.outbox.is_empty() {
            return;
        }
        let Some(stream) = listener.stream.as_mut().filter(|_| listener.is_connected) else {
            return;
        };
        match stream.write(&listener.outbox) {
            Ok(sent) => drop(listener.outbox.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.hang_up(index, epoll, &format!("sending: {error}")),
        }
    }

    pub(super) fn finish(mut self, seconds: f64) -> MediaReport {
        let report = &mut self.report;
        report.seconds = seconds;
        report.played = self.listeners.iter().filter(|it| it.first_ns.is_some()).count() as u32;
        report.first_packet_ms = Percentiles::of(&self.first);
        self.senders.tell(report);
        self.report
    }
}
