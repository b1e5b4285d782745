//! The RTSP methods (RFC 2326 section 10).
//!
//! The state machine in `service.rs` calls `Media::answer` with one parsed request at a time. The
//! checks come in a fixed order: version, CSeq, Require, credentials, session, method. A title that
//! is not in memory ends the call with `After::Job`: a helper reads the file, and then the same
//! request is answered once more from its beginning, so everything before that point must be safe
//! to repeat. SETUP adds a leg (one track over one transport) to the presentation, PLAY and PAUSE
//! hand over to `playback.rs`. A connection has at most one session, and the session ends with it.

use core::net::IpAddr;
use seam::Out;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wire::rtsp::{Range, Reply, Request, Status, parse_range};
use wire::sdp::{About, describe};

use super::Media;
use super::digest;
use super::playback::Presentation;
use super::service::{After, At, Job, Session};
use super::title::{Title, Trouble, stamp};
use super::transport::{NoWay, Way};
use super::url::{TrackUrl, track_url};
use web::{LookupError, Platform, Resource};

/// The supported methods.
const PUBLIC: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
/// RTSP methods that a player of files does not use.
const KNOWN: &[&str] = &["ANNOUNCE", "RECORD", "REDIRECT"];
/// The longest `CSeq`, in digits.
const CSEQ_MAX: usize = 10;
/// The maximum number of tracks that one session may set up.
const LEGS_MAX: usize = 16;

/// A request, and the fields that every answer to it contains.
struct Asked<'a> {
    request: &'a Request<'a>,
    cseq: &'a str,
}

impl Asked<'_> {
    fn reply(&self, status: Status) -> Reply {
        Reply::new(status, self.cseq).field("Server", "roundhouse")
    }

    fn refuse<F>(&self, status: Status, out: &mut Out) -> After<F> {
        self.reply(status).finish(&[], out.bytes());
        After::Next
    }

    /// Answers a request for a title that is not available. A reason is the body, because players
    /// show the status at most.
    fn lack<F>(&self, lack: Lack<F>, out: &mut Out) -> After<F> {
        match lack {
            Lack::Unread(job) => After::Job(job),
            Lack::Refused(status) => self.refuse(status, out),
            Lack::Unplayable(words) => {
                let reply = self.reply(Status::UNSUPPORTED_MEDIA);
                let reply = reply.field("Content-Type", "text/plain; charset=utf-8");
                reply.finish(format!("{words}\n").as_bytes(), out.bytes());
                After::Next
            }
        }
    }
}

/// The number of wrong passwords that ends a connection: guessing costs connections, which are
/// counted and bounded.
const WRONG_PASSWORDS_MAX: u8 = 3;

/// Why a title is not available.
enum Lack<F> {
    /// The file has to be read first.
    Unread(Job<F>),
    /// The title cannot be played.
    Refused(Status),
    /// The title cannot be played, for this reason.
    Unplayable(String),
}

/// The context of a request.
type Ours<'a, 'b, F> = (&'a At<'a>, &'b mut Session<F>);

impl<B: Platform> Media<B> {
    /// Answers one request.
    pub(super) fn answer(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        request: &Request<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        let cseq = request.field("CSeq").unwrap_or("");
        let is_number =
            (1..=CSEQ_MAX).contains(&cseq.len()) && cseq.bytes().all(|byte| byte.is_ascii_digit());
        let asked = Asked { request, cseq: if is_number { cseq } else { "" } };
        if !request.is_version_1 {
            return asked.refuse(Status::VERSION, out);
        }
        if !is_number {
            return asked.refuse(Status::BAD_REQUEST, out);
        }
        let required = request.field("Require").or_else(|| request.field("Proxy-Require"));
        if let Some(required) = required {
            let reply = asked.reply(Status::OPTION).field("Unsupported", required);
            reply.finish(&[], out.bytes());
            return After::Next;
        }
        if let Some(credentials) = &self.options.credentials
            && request.method != "OPTIONS"
            && let Err(unproven) =
                digest::check(credentials, &self.secret, (cx.now, session.peer), request)
        {
            let reply = asked.reply(Status::UNAUTHORIZED);
            reply.field("WWW-Authenticate", unproven.challenge).finish(&[], out.bytes());
            session.wrong_passwords += u8::from(unproven.is_wrong);
            return match session.wrong_passwords {
                WRONG_PASSWORDS_MAX.. => After::Close,
                _ => After::Next,
            };
        }
        self.act(cx, session, &asked, out)
    }

    fn act(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        asked: &Asked<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        let named =
            asked.request.field("Session").map(|value| value.split(';').next().unwrap_or(""));
        let is_ours = match (&session.presentation, named) {
            (_, None) => true,
            (Some(presentation), Some(name)) => presentation.name == name.trim(),
            (None, Some(_)) => false,
        };
        if !is_ours {
            return asked.refuse(Status::NO_SESSION, out);
        }
        match asked.request.method {
            "OPTIONS" => {
                let reply = asked.reply(Status::OK).field("Public", PUBLIC);
                self.with_session(session, reply).finish(&[], out.bytes());
                After::Next
            }
            "DESCRIBE" | "SETUP" if !cx.admit() => {
                let reply = asked.reply(Status::UNAVAILABLE).field("Retry-After", "1");
                reply.finish(&[], out.bytes());
                After::Next
            }
            "DESCRIBE" => self.describe((cx, session), asked, out),
            "SETUP" => self.set_up((cx, session), asked, named.is_some(), out),
            method @ ("PLAY" | "PAUSE" | "TEARDOWN") => match (&session.presentation, named) {
                (Some(_), Some(_)) => self.control((cx, session), asked, method, out),
                (Some(_), None) => asked.refuse(Status::NO_SESSION, out),
                (None, _) => asked.refuse(Status::NOT_VALID_NOW, out),
            },
            "GET_PARAMETER" => self.parameters((cx, session), asked, out),
            "SET_PARAMETER" if asked.request.body.is_empty() => {
                self.with_session(session, asked.reply(Status::OK)).finish(&[], out.bytes());
                After::Next
            }
            "SET_PARAMETER" => asked.refuse(Status::NOT_UNDERSTOOD, out),
            known if KNOWN.contains(&known) => {
                let reply = asked.reply(Status::METHOD_NOT_ALLOWED).field("Allow", PUBLIC);
                reply.finish(&[], out.bytes());
                After::Next
            }
            _ => asked.refuse(Status::NOT_IMPLEMENTED, out),
        }
    }

    fn with_session(&self, session: &Session<B::File>, reply: Reply) -> Reply {
        match &session.presentation {
            None => reply,
            Some(presentation) => {
                let seconds = self.options.session_timeout.as_secs().max(1);
                reply.field("Session", format_args!("{};timeout={seconds}", presentation.name))
            }
        }
    }

    /// The title that a URL names. It comes from memory or from a job; after a job the request is
    /// read again.
    fn title(
        &self,
        session: &mut Session<B::File>,
        place: &TrackUrl,
    ) -> Result<Arc<Title<B::File>>, Lack<B::File>> {
        let path = match &place.path[..] {
            "" => match &self.options.only[..] {
                [only] => only.as_str(),
                _ => return Err(Lack::Refused(Status::NOT_FOUND)),
            },
            path => path,
        };
        if !self.options.only.is_empty() && !self.options.only.iter().any(|only| only == path) {
            return Err(Lack::Refused(Status::NOT_FOUND));
        }
        if let Some((found, title)) = session.found.take()
            && found == path
        {
            return title.map_err(|trouble| match trouble {
                Trouble::Unplayable(words) => Lack::Unplayable(words),
                Trouble::LookupError(missing) => Lack::Refused(status(missing)),
            });
        }
        match self.platform.try_find(path.as_bytes(), None) {
            None => Err(Lack::Unread(Job::Load(path.to_owned()))),
            Some(Err(missing)) => Err(Lack::Refused(status(missing))),
            Some(Ok(Resource::Folder)) => Err(Lack::Refused(Status::NOT_FOUND)),
            Some(Ok(Resource::File(_, meta))) => match self.library.find(path, stamp(meta)) {
                Some(title) => Ok(title),
                None => Err(Lack::Unread(Job::Load(path.to_owned()))),
            },
        }
    }

    fn describe(
        &self,
        (cx, session): Ours<'_, '_, B::File>,
        asked: &Asked<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        let accepts = asked.request.field("Accept").is_none_or(|accept| {
            let mut kinds =
                accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
            kinds.any(|kind| ["application/sdp", "application/*", "*/*"].contains(&kind))
        });
        if !accepts {
            return asked.refuse(Status::NOT_ACCEPTABLE, out);
        }
        let Some(place) = track_url(asked.request.target) else {
            return asked.refuse(Status::NOT_FOUND, out);
        };
        let title = match self.title(session, &place) {
            Ok(title) => title,
            Err(lack) => return asked.lack(lack, out),
        };
        let name = title.path.rsplit('/').next().unwrap_or("");
        let about = About {
            name,
            version: title.stamp,
            server: place.host.unwrap_or(IpAddr::from([0; 4])),
            live: self.options.live,
            group: None,
        };
        let body = describe(&title.program, &self.grouped(cx, &title, about));
        let reply = asked.reply(Status::OK).field("Content-Type", "application/sdp");
        let reply = reply.field("Content-Base", format_args!("{}/", place.url));
        reply.field("Cache-Control", "no-cache").finish(&body, out.bytes());
        After::Next
    }

    /// The group that a description names, if the server sends everything to groups.
    fn grouped<'n>(&self, cx: &At<'_>, title: &Title<B::File>, about: About<'n>) -> About<'n> {
        if !self.options.groups.is_some_and(|groups| groups.only) {
            return about;
        }
        match self.group(cx, title) {
            Some((group, groups)) => {
                let group = Some((groups.address(group), groups.ttl, groups.port));
                About { group, ..about }
            }
            None => about,
        }
    }

    fn set_up(
        &self,
        (cx, session): Ours<'_, '_, B::File>,
        asked: &Asked<'_>,
        is_named: bool,
        out: &mut Out,
    ) -> After<B::File> {
        let Some(place) = track_url(asked.request.target) else {
            return asked.refuse(Status::NOT_FOUND, out);
        };
        if !is_named && let Some(presentation) = &session.presentation {
            // A connection has one session. But a player that received no packets abandons its
            // paused session and tries another transport.
            if presentation.is_playing() {
                return asked.refuse(Status::NOT_VALID_NOW, out);
            }
            self.end(cx, session);
        }
        let title = match &session.presentation {
            Some(presentation) if presentation.url == place.url => presentation.title.clone(),
            Some(_) => return asked.refuse(Status::AGGREGATE_NOT_ALLOWED, out),
            None => match self.title(session, &place) {
                Ok(title) => title,
                Err(lack) => return asked.lack(lack, out),
            },
        };
        let track = match place.track {
            Some(track) if track < title.program.tracks.len() => track,
            Some(_) => return asked.refuse(Status::NOT_FOUND, out),
            None if title.program.tracks.len() == 1 => 0,
            None => return asked.refuse(Status::AGGREGATE_NOT_ALLOWED, out),
        };
        let presentation = session.presentation.as_deref();
        let is_late = presentation.is_some_and(|presentation| {
            presentation.is_playing() || presentation.legs.len() >= LEGS_MAX
        });
        if is_late {
            return asked.refuse(Status::NOT_VALID_NOW, out);
        }
        // From now on the track uses another transport (RFC 2326 section 10.4).
        if let Some(presentation) = session.presentation.as_deref_mut()
            && let Some(again) = presentation.legs.iter().position(|leg| leg.track == track)
            && presentation.legs.remove(again).let_go(cx)
        {
            cx.ring();
        }
        let presentation = session.presentation.as_deref();
        let offered = asked.request.field("Transport").unwrap_or("");
        let (leg, told) = match self.leg(cx, (session.peer, presentation), (&title, track), offered)
        {
            Ok(way) => way,
            Err(NoWay::Unsupported) => return asked.refuse(Status::UNSUPPORTED_TRANSPORT, out),
            Err(NoWay::Full) => return asked.refuse(Status::NO_BANDWIDTH, out),
        };
        let presentation = session.presentation.get_or_insert_with(|| {
            let name = self.secret.word(&format!("show {} {}", cx.me.bits(), cx.now.ns()));
            Box::new(Presentation::new(name[..16].to_owned(), place.url, title))
        });
        presentation.legs.push(leg);
        let reply = self.with_session(session, asked.reply(Status::OK));
        reply.field("Transport", told).finish(&[], out.bytes());
        After::Next
    }

    /// The methods that need a session.
    fn control(
        &self,
        (cx, session): Ours<'_, '_, B::File>,
        asked: &Asked<'_>,
        method: &str,
        out: &mut Out,
    ) -> After<B::File> {
        let Some(presentation) = &mut session.presentation else {
            return asked.refuse(Status::NOT_VALID_NOW, out);
        };
        // Some players send `*` to name the whole presentation.
        let track = match (asked.request.target, track_url(asked.request.target)) {
            ("*", _) => None,
            (_, Some(place)) if place.url == presentation.url => place.track,
            _ => return asked.refuse(Status::NOT_FOUND, out),
        };
        let one =
            track.and_then(|track| presentation.legs.iter().position(|leg| leg.track == track));
        let is_part = presentation.legs.len() > 1 && track.is_some();
        match method {
            "TEARDOWN" => {
                match one {
                    Some(one) if is_part => {
                        if presentation.legs.remove(one).let_go(cx) {
                            cx.ring();
                        }
                    }
                    _ => self.end(cx, session),
                }
                asked.refuse(Status::OK, out)
            }
            _ if is_part => asked.refuse(Status::AGGREGATE_ONLY, out),
            "PAUSE" => {
                if presentation.pause(cx) {
                    cx.ring();
                }
                let at = wire::rtsp::seconds(presentation.position_ns(cx.now));
                let reply = asked.reply(Status::OK).field("Range", format_args!("npt={at}-"));
                self.with_session(session, reply).finish(&[], out.bytes());
                After::Next
            }
            _ => self.begin((cx, session), asked, out),
        }
    }

    fn begin(
        &self,
        (cx, session): Ours<'_, '_, B::File>,
        asked: &Asked<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        let Some(presentation) = &mut session.presentation else {
            return asked.refuse(Status::NOT_VALID_NOW, out);
        };
        let range = match asked.request.field("Range") {
            None => None,
            Some(value) => match parse_range(value) {
                None => return asked.refuse(Status::INVALID_RANGE, out),
                range => range,
            },
        };
        let range = range.map(|range| meant(asked.request, presentation, range));
        match self.play(cx, presentation, range) {
            Err(status) => asked.refuse(status, out),
            Ok(playing) => {
                let mut reply = asked.reply(Status::OK).field("Range", playing.range);
                if asked.request.field("Scale").is_some() {
                    reply = reply.field("Scale", "1.0");
                }
                if !playing.info.is_empty() {
                    reply = reply.field("RTP-Info", playing.info);
                }
                self.with_session(session, reply).finish(&[], out.bytes());
                After::Next
            }
        }
    }

    /// Answers `GET_PARAMETER`. An empty request keeps the session alive; otherwise the reply has
    /// the value of each known name, one a line.
    fn parameters(
        &self,
        (cx, session): Ours<'_, '_, B::File>,
        asked: &Asked<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        let names = String::from_utf8_lossy(asked.request.body);
        let mut body = String::new();
        for name in names.lines().map(|line| line.trim().trim_end_matches(':')) {
            if name.is_empty() {
                continue;
            }
            let Some(value) = self.parameter(cx, session, name) else {
                return asked.refuse(Status::NOT_UNDERSTOOD, out);
            };
            // Writing to a string cannot fail.
            let _ = write!(body, "{name}: {value}\r\n");
        }
        let mut reply = self.with_session(session, asked.reply(Status::OK));
        if !body.is_empty() {
            reply = reply.field("Content-Type", "text/parameters");
        }
        reply.finish(body.as_bytes(), out.bytes());
        After::Next
    }

    /// The value of a parameter: `position` in seconds, or `packets_sent`, `packets_lost` and
    /// `jitter` of all tracks.
    fn parameter(&self, cx: &At<'_>, session: &Session<B::File>, name: &str) -> Option<String> {
        let presentation = session.presentation.as_ref()?;
        let (mut sent, mut lost, mut jitter) = (0_u64, 0_i64, 0_u32);
        for leg in &presentation.legs {
            match &leg.way {
                Way::Datagrams { slot } | Way::Group { member: slot, .. } => {
                    let reception = cx.state.reception(*slot);
                    sent += u64::from(reception.packets);
                    lost += i64::from(reception.lost);
                    jitter = jitter.max(reception.jitter);
                }
                Way::Interleaved { rtp, .. } => {
                    sent += rtp.as_ref().map_or(0, |rtp| u64::from(rtp.packets));
                    lost += leg.heard.map_or(0, |heard| i64::from(heard.lost));
                    jitter = jitter.max(leg.heard.map_or(0, |heard| heard.jitter));
                }
            }
        }
        match name {
            "position" => {
                let position = Duration::from_nanos(presentation.position_ns(cx.now));
                Some(format!("{:.3}", position.as_secs_f64()))
            }
            "packets_sent" => Some(sent.to_string()),
            "packets_lost" => Some(lost.to_string()),
            "jitter" => Some(jitter.to_string()),
            _ => None,
        }
    }
}

/// Interprets a range. Players based on libavformat (ffplay, mpv) send times of a transport stream
/// in the stream's own clock, whatever its description says.
fn meant<F>(request: &Request<'_>, presentation: &Presentation<F>, range: Range) -> Range {
    let agent = request.field("User-Agent").unwrap_or("");
    let begins_ns = presentation.title.program.tracks[0].plan.begins_ns();
    let is_theirs = ["Lavf", "libmpv", "mpv"].iter().any(|name| agent.starts_with(name));
    if !is_theirs || begins_ns == 0 {
        return range;
    }
    let moved = |ns: u64| ns.saturating_sub(begins_ns);
    Range { from_ns: range.from_ns.map(moved), to_ns: range.to_ns.map(moved) }
}

/// The status code for a title that cannot be loaded.
fn status(missing: LookupError) -> Status {
    match missing {
        LookupError::Absent => Status::NOT_FOUND,
        LookupError::Forbidden => Status::FORBIDDEN,
        LookupError::Exhausted => Status::UNAVAILABLE,
        LookupError::Broken => Status::INTERNAL,
    }
}
