//! Many listeners in one thread: a connection each, and two sockets for the packets of hundreds.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meter::Histogram;
use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::socket;
use sys::udp::{Mail, Udp};

use super::hearing::{Ask, Hearing, Lower, Shares};
use super::order::{News, Order, Way};
use super::senders::{ASKED, Sender, Senders};
use super::sockets::{Pair, dropped, member, pairs, watch};
use super::track::Track;

/// Datagrams received at once, and the room of each, in bytes.
pub(super) const BATCH: usize = 64;
pub(super) const ROOM: usize = 2048;
/// Listeners report to their senders every five seconds, a part of them at a time.
const PARTS: u32 = 50;
/// How often clocks are looked at.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// Who waits for longer than this, and is told to leave, has waited in vain.
const AWHILE: Duration = Duration::from_secs(1);
/// How long the last answers may take.
const PARTING: Duration = Duration::from_secs(2);
/// How long to wait for packets that the last byes may have overtaken.
const STRAGGLERS: Duration = Duration::from_millis(100);
/// Sockets for datagrams are numbered from here on, in pairs of media and control: those of
/// sessions, and those of groups.
const KEY_PAIRS: u64 = 1 << 40;
const KEY_GROUPS: u64 = 1 << 41;
/// How often it is looked at who has to say something.
const WORDS: Duration = Duration::from_millis(100);

/// One session.
pub(super) struct Listener {
    stream: Option<TcpStream>,
    is_connected: bool,
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

impl Listener {
    /// What it waits for still, if it has begun a while ago and nothing has come.
    fn lacks(&self, now: u64) -> Option<String> {
        match self.stream {
            None => None,
            Some(_) if now < self.began_ns + AWHILE.as_nanos() as u64 => None,
            Some(_) if self.over || self.first_ns.is_some() => None,
            Some(_) if !self.is_connected => Some("connecting: no answer".to_owned()),
            Some(_) if !self.order.is_playing() => {
                Some(format!("{}: no answer", self.order.asks()))
            }
            Some(_) => Some("no media came".to_owned()),
        }
    }

    fn new(order: Order, server: IpAddr) -> Listener {
        Listener {
            stream: None,
            is_connected: false,
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

/// Everybody who listens, and whom they hear.
pub(super) struct Audience {
    listeners: Vec<Listener>,
    pub(super) senders: Senders,
    pub(super) hearing: Hearing,
    first: Histogram,
    /// Groups that were granted and not joined yet.
    joining: Vec<(IpAddr, (u16, u16))>,
}

/// Plays sessions and counts what comes, until the time is over, all have ended, or `stop` is set.
///
/// # Errors
/// This machine gives no sockets. What a server refuses is counted instead.
pub fn listen(ask: &Ask, stop: &AtomicBool) -> io::Result<Hearing> {
    let epoll = Epoll::new()?;
    let sessions = if ask.lower == Lower::Datagrams { ask.sessions } else { 1 };
    let mut hall = Hall { pairs: pairs(ask.address.ip(), sessions)?, groups: Vec::new(), epoll };
    for (pair, key) in hall.pairs.iter().zip((KEY_PAIRS..).step_by(2)) {
        watch(&hall.epoll, &pair.media, key)?;
        hall.epoll.add(&pair.control, Interest::READ, key + 1)?;
    }
    let control = hall.pairs[0].control.try_clone()?;
    if let Lower::Group(interface) = ask.lower {
        control.set_multicast_interface(interface)?;
    }
    let login = ask.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let listener = |index: u32| {
        let way = match ask.lower {
            Lower::Datagrams => Way::Udp(hall.pairs[index as usize % hall.pairs.len()].ports),
            Lower::Connection => Way::Tcp,
            Lower::Group(_) => Way::Group,
        };
        Listener::new(Order::new(&ask.url, way, ask.from_s, login), ask.address.ip())
    };
    let mut audience = Audience::new((0..ask.sessions).map(listener).collect(), ask.sessions);
    let origin = sys::clock::now_ns();
    let (mut begun, mut words) = (0, 0);
    let (mut events, mut mail) = (Events::with_capacity(256), Mail::new(BATCH, ROOM));
    let last = origin + (ask.ramp + ask.time).as_nanos() as u64;
    let mut parting = None;
    loop {
        let now = sys::clock::now_ns();
        while begun < ask.due(now - origin) {
            audience.begin(begun as usize, ask.address, &hall.epoll, now);
            begun += 1;
        }
        let is_over = begun == ask.sessions && audience.listeners.iter().all(|it| it.over);
        if is_over || parting.is_some_and(|until| now >= until) {
            break;
        }
        if parting.is_none() && (now >= last || stop.load(Ordering::Relaxed)) {
            audience.leave(&hall.epoll);
            begun = ask.sessions;
            parting = Some(now + PARTING.as_nanos() as u64);
        }
        hall.epoll.wait(&mut events, Some(TICK))?;
        for event in events.iter() {
            match hall.socket(event.key) {
                Some(socket) => audience.hear_mail(socket, &mut mail, ASKED, event.key % 2 == 1),
                None => audience.talk(event.key as usize, &hall.epoll),
            }
        }
        if let Lower::Group(interface) = ask.lower {
            audience.join(interface, &mut hall)?;
        }
        audience.part(&hall.epoll);
        if now >= origin + words * WORDS.as_nanos() as u64 {
            words += 1;
            audience.keep_alive(&hall.epoll);
            audience.report(&control, words as u32 % PARTS);
        }
    }
    hall.settle(&mut audience, &mut mail);
    audience.hearing.dropped = dropped(hall.media());
    Ok(audience.told((sys::clock::now_ns() - origin) as f64 / 1e9))
}

/// All sockets.
struct Hall {
    epoll: Epoll,
    pairs: Vec<Pair>,
    groups: Vec<Udp>,
}

impl Hall {
    /// The socket for datagrams that has this number.
    fn socket(&self, key: u64) -> Option<&Udp> {
        match key {
            KEY_GROUPS.. => self.groups.get((key - KEY_GROUPS) as usize),
            KEY_PAIRS.. => {
                let pair = self.pairs.get((key - KEY_PAIRS) as usize / 2)?;
                Some(if key % 2 == 1 { &pair.control } else { &pair.media })
            }
            _ => None,
        }
    }

    /// The sockets of media.
    fn media(&self) -> impl Iterator<Item = &Udp> {
        self.pairs.iter().map(|pair| &pair.media).chain(self.groups.iter().step_by(2))
    }

    /// Hears what is on its way still: the last bye may have overtaken the last packet.
    fn settle(&self, audience: &mut Audience, mail: &mut Mail) {
        for _ in 0..2 {
            self.media().for_each(|socket| audience.hear_mail(socket, mail, ASKED, false));
            if audience.senders.all.values().all(|it| it.track.tallied().lost == 0) {
                return;
            }
            std::thread::sleep(STRAGGLERS);
        }
        self.media().for_each(|socket| audience.hear_mail(socket, mail, ASKED, false));
    }
}

impl Audience {
    /// These sessions, or nobody who asks; and how many senders are expected.
    pub(super) fn new(listeners: Vec<Listener>, senders: u32) -> Audience {
        let sessions = listeners.len() as u32;
        Audience {
            listeners,
            senders: Senders::new(senders),
            hearing: Hearing { sessions, ..Hearing::default() },
            first: Histogram::new(),
            joining: Vec::new(),
        }
    }

    /// Joins the groups that were granted.
    fn join(&mut self, interface: Ipv4Addr, hall: &mut Hall) -> io::Result<()> {
        for (group, (media, control)) in std::mem::take(&mut self.joining) {
            for port in [media, control] {
                let socket = member(SocketAddr::new(group, port), interface)?;
                watch(&hall.epoll, &socket, KEY_GROUPS + hall.groups.len() as u64)?;
                hall.groups.push(socket);
            }
        }
        Ok(())
    }

    /// Knocks; the connection is there when its socket can be written to.
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

    /// The connection is there, or will never be.
    fn connected(&mut self, index: usize, epoll: &Epoll) {
        let listener = &mut self.listeners[index];
        let Some(stream) = &listener.stream else { return };
        let fd = stream.as_fd();
        let found = socket::take_error(fd).and_then(|error| match error {
            Some(error) => Err(error),
            None => epoll.modify(fd, Interest::READ, index as u64),
        });
        match found {
            Ok(()) => {
                listener.is_connected = true;
                listener.order.begin();
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
        let failed = &mut self.hearing.failed;
        match failed.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => failed.push((why.to_owned(), 1)),
        }
    }

    /// Receives and answers over a session's connection.
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

    /// Takes what has come over a session's connection.
    fn understand(&mut self, index: usize) -> Result<(), String> {
        let now = sys::clock::now_ns();
        let Audience { listeners, senders, hearing, first, joining } = self;
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
                // Members of a group tell it what they hear; others tell who sends.
                let host = group.or(transport.source).or(*server);
                let ports = transport.port.filter(|_| transport.multicast);
                let control = host.zip(ports.or(transport.server_port));
                let sender = Sender {
                    track: Track::new(track.clock, senders.kept),
                    payload: format!("{} {}", track.payload_type, track.encoding),
                    session: Some(index),
                    control: control.map(|(host, (_, port))| SocketAddr::new(host, port)),
                    channel: transport.interleaved.map(|(_, control)| control),
                    url: track.control.clone(),
                    announced: None,
                    first: None,
                    bye: false,
                    ended: false,
                };
                own.push(ssrc);
                senders.all.insert((ASKED, ssrc), sender);
            }
            News::Playing(info) => {
                senders.announce(hearing, own, info.unwrap_or_default());
            }
            News::Data(channel, packet) if channel % 2 == 0 => {
                if senders.packet(hearing, packet, (ASKED, now)).is_some() && first_ns.is_none() {
                    *first_ns = Some(now);
                    first.record(now - *began_ns, 1);
                }
            }
            News::Data(_, packet) => senders.control(hearing, packet, (ASKED, now)),
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
        let Audience { listeners, senders, hearing, first, .. } = self;
        while let Ok(letters) = mail.receive(socket) {
            let now = sys::clock::now_ns();
            for letter in letters {
                if is_control {
                    senders.control(hearing, letter.bytes, (receiver, now));
                    continue;
                }
                // The kernel's time, where it tells one: it does not wait for us to run.
                let came = if letter.came_ns > 0 { letter.came_ns } else { now };
                let session = senders.packet(hearing, letter.bytes, (receiver, came)).flatten();
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
        for index in std::mem::take(&mut self.senders.parted) {
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

    /// Whether all senders of a session have said goodbye.
    fn has_ended(&self, index: usize) -> bool {
        let own = &self.listeners[index].own;
        let bye = |ssrc: &u32| self.senders.all.get(&(ASKED, *ssrc)).is_none_or(|it| it.bye);
        !own.is_empty() && own.iter().all(bye)
    }

    /// Tells senders what was heard of them: the `part`th of them, by their names.
    fn report(&mut self, control: &Udp, part: u32) {
        let (Audience { senders, listeners, .. }, now) = (self, sys::clock::now_ns());
        senders.reports(now, (part, PARTS), |sender, bytes| {
            match (sender.channel, sender.control, sender.session) {
                (Some(channel), _, Some(index)) => {
                    let outbox = &mut listeners[index].outbox;
                    outbox.extend_from_slice(&wire::rtsp::frame(channel, bytes.len()));
                    outbox.extend_from_slice(bytes);
                }
                // A report that is lost is followed by the next.
                (None, Some(to), _) => drop(control.send_to(bytes, to, false)),
                _ => {}
            }
        });
    }

    /// Ends all sessions; those that nothing came for have failed.
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
        let Some(stream) = listener.stream.as_mut().filter(|_| listener.is_connected) else {
            return;
        };
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
        self.senders.tell(hearing);
        self.hearing
    }
}
