//! The RTSP half of the relay: members join, choose whom they hear, and leave.

use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use memory::shared::Bytes;
use seam::{Closed, Cx, Event, Instant, Limits, Out, PacketClass, Peer, Service, Step, Then};
use wire::rtsp::{self, Item, Lower, Reply, Request, Status, Transport, transports};
use wire::sdp::{self, Offer};

use super::members::{MEMBERS, Member, NAME_MAX, Rooms, SPEAKERS, key};
use super::{Relay, TRACKS};

const PUBLIC: &str = "OPTIONS, ANNOUNCE, DESCRIBE, SETUP, RECORD, PLAY, PAUSE, TEARDOWN, \
    GET_PARAMETER, SET_PARAMETER";
/// The longest `CSeq`, in digits.
const CSEQ_MAX: usize = 10;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    heard: Instant,
    role: Option<Role>,
}

/// The connection's part in a room.
#[derive(Debug)]
struct Role {
    /// The name of the RTSP session.
    name: String,
    seat: usize,
    room: String,
    /// A speaker's tracks, as it announced them; a listener has none.
    offers: Vec<Offer>,
    has_track: bool,
    is_open: bool,
}

/// The context of a call.
type At<'a> = Cx<'a, Rooms>;

/// The parts of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    room: &'a str,
    /// The speaker; empty: all.
    name: &'a str,
    /// The listener's own name, whose packets it does not want.
    own: &'a str,
}

/// Reads `rtsp://HOST/ROOM[/NAME][?as=NAME]`.
fn place(target: &str) -> Option<Place<'_>> {
    let (scheme, rest) = target.split_at_checked(7)?;
    let (local, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parts = local.split('/').skip(1).filter(|part| !part.is_empty());
    let (room, name, more) = (parts.next()?, parts.next().unwrap_or(""), parts.next());
    let own = query.strip_prefix("as=").map_or("", |own| own.trim_end_matches('/'));
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        name.len() <= NAME_MAX && name.bytes().all(is_plain)
    };
    let are_names = [room, name, own].into_iter().all(is_name);
    (scheme.eq_ignore_ascii_case("rtsp://") && are_names && more.is_none()).then_some(Place {
        room,
        name,
        own,
    })
}

/// The URL before its last part, and the last part. Some clients append the track to the query.
fn last_part(target: &str) -> (&str, &str) {
    target.trim_end_matches('/').rsplit_once('/').unwrap_or((target, ""))
}

/// The answer to a request that succeeded: a field, and a body.
#[derive(Default)]
struct Done {
    field: Option<(&'static str, String)>,
    body: Vec<u8>,
}

impl Done {
    fn field(name: &'static str, value: impl ToString) -> Done {
        Done { field: Some((name, value.to_string())), body: Vec::new() }
    }
}

impl Relay {
    /// Answers one request.
    fn answer(&self, cx: &At<'_>, session: &mut Session, request: &Request<'_>, out: &mut Out) {
        let cseq = request.field("CSeq").unwrap_or("");
        let is_number =
            (1..=CSEQ_MAX).contains(&cseq.len()) && cseq.bytes().all(|byte| byte.is_ascii_digit());
        let required = request.field("Require");
        let done = match required {
            _ if !request.is_version_1 => Err(Status::VERSION),
            _ if !is_number => Err(Status::BAD_REQUEST),
            Some(_) => Err(Status::OPTION),
            None => self.act(cx, session, request),
        };
        let status = done.as_ref().err().copied().unwrap_or(Status::OK);
        let mut reply = Reply::new(status, if is_number { cseq } else { "" });
        reply = reply.field("Server", "roundhouse");
        if let Some(required) = required.filter(|_| status == Status::OPTION) {
            reply = reply.field("Unsupported", required);
        }
        let Done { field, body } = done.unwrap_or_default();
        if let Some(role) = session.role.as_ref().filter(|_| status == Status::OK) {
            let seconds = self.options.session_timeout.as_secs().max(1);
            reply = reply.field("Session", format_args!("{};timeout={seconds}", role.name));
        }
        if let Some((name, value)) = field {
            reply = reply.field(name, value);
        }
        reply.finish(&body, out.bytes());
    }

    fn act(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Result<Done, Status> {
        let named = request.field("Session").map(|it| it.split(';').next().unwrap_or("").trim());
        if named.is_some() && named != session.role.as_ref().map(|role| role.name.as_str()) {
            return Err(Status::NO_SESSION);
        }
        let none = |()| Done::default();
        match request.method {
            "OPTIONS" => Ok(Done::field("Public", PUBLIC)),
            "ANNOUNCE" => self.announce(cx, session, request).map(none),
            "DESCRIBE" => describe(cx, request),
            "SETUP" => self.set_up(cx, session, request).map(|it| Done::field("Transport", it)),
            "RECORD" => begin(cx, session, true).map(none),
            "PLAY" => begin(cx, session, false).map(|()| Done::field("Range", "npt=now-")),
            "PAUSE" => pause(cx, session).map(none),
            "TEARDOWN" if session.role.is_some() => {
                end(cx, session);
                Ok(Done::default())
            }
            "TEARDOWN" => Err(Status::NOT_VALID_NOW),
            "GET_PARAMETER" => parameters(cx, session, request.body),
            "SET_PARAMETER" => choose(cx, session, request.body).map(none),
            "REDIRECT" => Err(Status::METHOD_NOT_ALLOWED),
            _ => Err(Status::NOT_IMPLEMENTED),
        }
    }

    /// A speaker describes what it will send. All speakers of a room send the same kinds of tracks,
    /// because a listener agrees on one description.
    fn announce(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Result<(), Status> {
        let it = place(request.target).filter(|it| !it.name.is_empty()).ok_or(Status::NOT_FOUND)?;
        if session.role.is_some() {
            return Err(Status::NOT_VALID_NOW);
        }
        let description = Bytes::new(request.body).ok_or(Status::TOO_LARGE)?;
        let offers = sdp::offers(request.body).ok_or(Status::UNSUPPORTED_MEDIA)?;
        let are_known = offers.iter().all(|it| ["audio", "video"].contains(&it.kind.as_str()));
        if offers.is_empty() || offers.len() > TRACKS || !are_known {
            return Err(Status::UNSUPPORTED_MEDIA);
        }
        let kinds = |offers: &[Offer]| -> Vec<(String, u8, String, u32)> {
            let kind = |it: &Offer| {
                (it.kind.clone(), it.payload_type, it.encoding.to_ascii_uppercase(), it.clock)
            };
            offers.iter().map(kind).collect()
        };
        let others: Vec<Member> = cx.state.speakers(cx.worker, it.room).collect();
        if others.len() >= SPEAKERS {
            return Err(Status::NO_BANDWIDTH);
        }
        for other in others {
            if *other.name == *it.name.as_bytes() {
                return Err(Status::FORBIDDEN);
            }
            if kinds(&sdp::offers(&other.description).unwrap_or_default()) != kinds(&offers) {
                return Err(Status::UNSUPPORTED_MEDIA);
            }
        }
        self.join(cx, session, [it.room, it.name, ""], offers, |member| {
            (member.speaks, member.description) = (true, description);
        })
    }

    /// Makes the connection a member.
    fn join(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        [room, name, only]: [&str; 3],
        offers: Vec<Offer>,
        fill: impl FnOnce(&mut Member),
    ) -> Result<(), Status> {
        let Peer::Net(peer) = session.peer else { return Err(Status::UNSUPPORTED_TRANSPORT) };
        let purpose = format!("room {} {}", cx.me.bits(), cx.now.ns());
        let id = self.secret.number(&purpose).max(1);
        let member = Member::new(id, cx.worker, [room, name, only], peer.ip());
        let mut member = member.ok_or(Status::NOT_FOUND)?;
        fill(&mut member);
        let seat = cx.state.arrive(cx.worker, &member).ok_or(Status::NO_BANDWIDTH)?;
        let name = format!("{id:016x}");
        let (room, has_track, is_open) = (room.to_owned(), false, false);
        cx.state.hear(seat, cx.now.ns());
        session.role = Some(Role { name, seat, room, offers, has_track, is_open });
        Ok(())
    }

    fn set_up(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Result<Transport, Status> {
        let is_usable = |it: &Transport| {
            let is_free = |(rtp, rtcp)| rtp >= 1024 && rtcp >= 1024 && rtp != rtcp;
            it.lower == Some(Lower::Udp) && !it.multicast && it.client_port.is_some_and(is_free)
        };
        let offered = transports(request.field("Transport").unwrap_or(""));
        let ports = offered.into_iter().find(is_usable).and_then(|it| it.client_port);
        let ports = ports.ok_or(Status::UNSUPPORTED_TRANSPORT)?;
        let (front, last) = last_part(request.target);
        let speaks = session.role.as_ref().is_some_and(|role| !role.offers.is_empty());
        let (track, class) = match &session.role {
            Some(Role { offers, .. }) if speaks => {
                let is_it = |it: &Offer| {
                    [it.control.as_str(), last_part(&it.control).1].contains(&last)
                        || it.control == request.target
                };
                let at = offers.iter().position(is_it).or((offers.len() == 1).then_some(0));
                let at = at.ok_or(Status::NOT_FOUND)?;
                (
                    at,
                    if offers[at].kind == "audio" {
                        PacketClass::Audio
                    } else {
                        PacketClass::Video
                    },
                )
            }
            _ => {
                let number = last.strip_prefix("trackID=").and_then(|it| it.parse().ok());
                let at: usize = number.filter(|at| *at < TRACKS).ok_or(Status::NOT_FOUND)?;
                (at, PacketClass::Audio)
            }
        };
        if session.role.is_none() {
            let it = place(front).ok_or(Status::NOT_FOUND)?;
            self.join(cx, session, [it.room, it.own, it.name], Vec::new(), |_| {})?;
        }
        let role = session.role.as_mut().ok_or(Status::NO_SESSION)?;
        if role.is_open {
            return Err(Status::NOT_VALID_NOW);
        }
        role.has_track = true;
        cx.state.update(cx.worker, role.seat, |member| {
            (member.ports[track], member.classes[track]) = ([ports.0, ports.1], class as u8);
        });
        Ok(Transport {
            lower: Some(Lower::Udp),
            client_port: Some(ports),
            server_port: Some(self.options.ports),
            record: speaks,
            ..Transport::default()
        })
    }

    fn serve(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Infallible> {
        let mut used = 0;
        while !out.is_full() {
            match rtsp::next(&input[used..]) {
                Ok(Some((item, len))) => {
                    session.heard = cx.now;
                    used += len;
                    // The relay sends no requests, and takes no media within a connection.
                    if let Item::Request(request) = item {
                        self.answer(cx, session, &request, out);
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    let reply = Reply::new(Status::BAD_REQUEST, "").field("Connection", "close");
                    reply.finish(&[], out.bytes());
                    return Step::close(input.len());
                }
            }
        }
        Step::read(used)
    }

    /// How long the session lives if its client stays silent.
    fn alive_until(&self, cx: &At<'_>, session: &Session) -> Instant {
        let heard = session.role.as_ref().map_or(Instant::ZERO, |role| {
            Instant::from_ns(cx.state.heard_ns[role.seat % MEMBERS].load(Relaxed))
        });
        heard.max(session.heard) + self.options.session_timeout
    }
}

/// The tracks of a room, or of one speaker.
fn describe(cx: &At<'_>, request: &Request<'_>) -> Result<Done, Status> {
    let it = place(request.target).ok_or(Status::NOT_FOUND)?;
    let is_wanted = |member: &Member| it.name.is_empty() || *member.name == *it.name.as_bytes();
    let speaker = cx.state.speakers(cx.worker, it.room).find(|it| it.is_open && is_wanted(it));
    let description = speaker.ok_or(Status::NOT_FOUND)?.description;
    let body = sdp::relayed(&description, it.room).ok_or(Status::INTERNAL)?;
    Ok(Done { body, ..Done::field("Content-Type", "application/sdp") })
}

/// `speakers` lists the names of the speakers; an empty request keeps the session alive.
fn parameters(cx: &At<'_>, session: &Session, body: &[u8]) -> Result<Done, Status> {
    let names = String::from_utf8_lossy(body);
    let Some(name) = names.split_ascii_whitespace().next() else { return Ok(Done::default()) };
    let role = session.role.as_ref().filter(|_| name.trim_end_matches(':') == "speakers");
    let room = &role.ok_or(Status::NOT_UNDERSTOOD)?.room;
    let name = |it: Member| String::from_utf8_lossy(&it.name).into_owned();
    let all: Vec<String> = cx.state.speakers(cx.worker, room).map(name).collect();
    let body = format!("speakers: {}\r\n", all.join(" ")).into_bytes();
    Ok(Done { body, ..Done::field("Content-Type", "text/parameters") })
}

/// `mute: NAME` and `unmute: NAME`, one a line: the speakers that a listener wants to hear.
fn choose(cx: &At<'_>, session: &Session, body: &[u8]) -> Result<(), Status> {
    let words = std::str::from_utf8(body).map_err(|_| Status::NOT_UNDERSTOOD)?;
    for line in words.lines().filter(|line| !line.trim().is_empty()) {
        let role = session.role.as_ref().ok_or(Status::NOT_UNDERSTOOD)?;
        let (word, name) = line.split_once(':').ok_or(Status::NOT_UNDERSTOOD)?;
        let (name, is_deaf) = match word.trim() {
            "mute" => (name.trim(), true),
            "unmute" => (name.trim(), false),
            _ => return Err(Status::NOT_UNDERSTOOD),
        };
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Status::NOT_UNDERSTOOD);
        }
        let mut has_room = true;
        cx.state.update(cx.worker, role.seat, |member| {
            has_room = member.set_deaf(key(name.as_bytes()), is_deaf);
        });
        if !has_room {
            return Err(Status::TOO_LARGE);
        }
    }
    Ok(())
}

/// `RECORD` of a speaker, `PLAY` of a listener.
fn begin(cx: &At<'_>, session: &mut Session, records: bool) -> Result<(), Status> {
    let role = session.role.as_mut().ok_or(Status::NOT_VALID_NOW)?;
    if role.offers.is_empty() == records || !role.has_track {
        return Err(Status::NOT_VALID_NOW);
    }
    role.is_open = true;
    let open = |member: &mut Member| (member.is_open, member.is_muted) = (true, false);
    cx.state.update(cx.worker, role.seat, open);
    cx.ring();
    Ok(())
}

/// Silence until the next `RECORD` or `PLAY`: a speaker is not relayed, a listener hears nothing.
fn pause(cx: &At<'_>, session: &Session) -> Result<(), Status> {
    let role = session.role.as_ref().filter(|role| role.is_open).ok_or(Status::NOT_VALID_NOW)?;
    cx.state.update(cx.worker, role.seat, |member| member.is_muted = true);
    Ok(())
}

fn end(cx: &At<'_>, session: &mut Session) {
    if let Some(role) = session.role.take() {
        cx.state.leave(cx.worker, role.seat);
        cx.ring();
    }
}

impl Service for Relay {
    type State = Rooms;
    type Session = Session;
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.options.session_timeout)
    }

    fn open(&self, cx: &At<'_>, peer: Peer, _out: &mut Out) -> Session {
        Session { peer, heard: cx.now, role: None }
    }

    fn step(
        &self,
        cx: &At<'_>,
        session: &mut Session,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        let step = match event {
            Event::Bytes(input) => self.serve(cx, session, input, out),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Outcome(never) => match never {},
        };
        if !matches!(step.then, Then::Read) {
            return step;
        }
        let until = self.alive_until(cx, session);
        if until <= cx.now {
            cx.note(|line| line.push_str("silent for too long"));
            return Step::close(step.used);
        }
        step.wake_at(until)
    }

    fn work(&self, _state: &Rooms, job: Infallible) -> Infallible {
        match job {}
    }

    fn close(&self, cx: &At<'_>, mut session: Session, _why: Closed) {
        end(cx, &mut session);
    }
}
