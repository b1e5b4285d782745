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

/// The number of wrong passwords that ends a connection: guessing costs connections, which are
/// counted and bounded.
const WRONG_PASSWORDS_MAX: u8 = 3;

struct Asked<'a, F> {
    cx: &'a At<'a>,
    session: &'a mut Session<F>,
    request: &'a Request<'a>,
    cseq: &'a str,
}

type Answered<F> = Result<(Reply, Vec<u8>), Refused<F>>;

/// Why a request is not granted.
#[derive(derive_more::From)]
enum Refused<F> {
    /// The file has to be read first.
    Unread(Job<F>),
    /// For the reason that the status names.
    Status(Status),
    /// The title cannot be played, for this reason, which is the body, because players show the
    /// status at most.
    #[from(skip)]
    Unplayable(String),
}

impl<B: Platform> Media<B> {
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
        let cseq = if is_number { cseq } else { "" };
        let required = request.field("Require").or_else(|| request.field("Proxy-Require"));
        let answered = if !request.is_version_1 {
            Err(Status::VERSION.into())
        } else if !is_number {
            Err(Status::BAD_REQUEST.into())
        } else if let Some(required) = required {
            Ok((reply(cseq, Status::OPTION).field("Unsupported", required), Vec::new()))
        } else if let Some(credentials) = &self.options.credentials
            && request.method != "OPTIONS"
            && let Err(unproven) =
                digest::check(credentials, &self.secret, (cx.now, session.peer), request)
        {
            let reply = reply(cseq, Status::UNAUTHORIZED);
            reply.field("WWW-Authenticate", unproven.challenge).finish(&[], out.bytes());
            session.wrong_passwords += u8::from(unproven.is_wrong);
            return match session.wrong_passwords {
                WRONG_PASSWORDS_MAX.. => After::Close,
                _ => After::Next,
            };
        } else {
            self.act(&mut Asked { cx, session, request, cseq })
        };
        let (reply, body) = match answered {
            Ok(answered) => answered,
            Err(Refused::Unread(job)) => return After::Job(job),
            Err(Refused::Status(status)) => (reply(cseq, status), Vec::new()),
            Err(Refused::Unplayable(words)) => {
                let reply = reply(cseq, Status::UNSUPPORTED_MEDIA);
                let reply = reply.field("Content-Type", "text/plain; charset=utf-8");
                (reply, format!("{words}\n").into_bytes())
            }
        };
        reply.finish(&body, out.bytes());
        After::Next
    }

    fn act(&self, asked: &mut Asked<'_, B::File>) -> Answered<B::File> {
        let named = asked.request.field("Session");
        let named = named.map(|value| value.split(';').next().unwrap_or("").trim());
        let ours = asked.session.presentation.as_ref().map(|presentation| &presentation.name[..]);
        if named.is_some() && named != ours {
            return Err(Status::NO_SESSION.into());
        }
        let ok = || reply(asked.cseq, Status::OK);
        let plain =
            |status, name, value| Ok((reply(asked.cseq, status).field(name, value), vec![]));
        match asked.request.method {
            "OPTIONS" => self.with_session(asked, ok().field("Public", PUBLIC)),
            "DESCRIBE" | "SETUP" if !asked.cx.admit() => {
                plain(Status::UNAVAILABLE, "Retry-After", "1")
            }
            "DESCRIBE" => self.describe(asked),
            "SETUP" => self.set_up(asked, named.is_some()),
            method @ ("PLAY" | "PAUSE" | "TEARDOWN") => match (ours, named) {
                (Some(_), Some(_)) => self.control(asked, method),
                (Some(_), None) => Err(Status::NO_SESSION.into()),
                (None, _) => Err(Status::NOT_VALID_NOW.into()),
            },
            "GET_PARAMETER" => self.parameters(asked),
            "SET_PARAMETER" if asked.request.body.is_empty() => self.with_session(asked, ok()),
            "SET_PARAMETER" => Err(Status::NOT_UNDERSTOOD.into()),
            known if KNOWN.contains(&known) => plain(Status::METHOD_NOT_ALLOWED, "Allow", PUBLIC),
            _ => Err(Status::NOT_IMPLEMENTED.into()),
        }
    }

    /// The reply with the session's name, if there is one.
    fn with_session(&self, asked: &Asked<'_, B::File>, mut reply: Reply) -> Answered<B::File> {
        if let Some(presentation) = &asked.session.presentation {
            let seconds = self.options.session_timeout.as_secs().max(1);
            reply = reply.field("Session", format_args!("{};timeout={seconds}", presentation.name));
        }
        Ok((reply, Vec::new()))
    }

    /// The title that a URL names. It comes from memory or from a job; after a job the request is
    /// read again.
    fn title(
        &self,
        session: &mut Session<B::File>,
        place: &TrackUrl,
    ) -> Result<Arc<Title<B::File>>, Refused<B::File>> {
        let path = match (&place.path[..], &self.options.only[..]) {
            ("", [only]) => only.as_str(),
            ("", _) => return Err(Status::NOT_FOUND.into()),
            (path, _) => path,
        };
        if !self.options.only.is_empty() && !self.options.only.iter().any(|only| only == path) {
            return Err(Status::NOT_FOUND.into());
        }
        if let Some((found, title)) = session.found.take()
            && found == path
        {
            return title.map_err(|trouble| match trouble {
                Trouble::Unplayable(words) => Refused::Unplayable(words),
                Trouble::LookupError(missing) => status(missing).into(),
            });
        }
        let title = match self.platform.try_find(path.as_bytes(), None) {
            None => None,
            Some(Err(missing)) => return Err(status(missing).into()),
            Some(Ok(Resource::Folder)) => return Err(Status::NOT_FOUND.into()),
            Some(Ok(Resource::File(_, meta))) => self.library.find(path, stamp(meta)),
        };
        title.ok_or_else(|| Job::Load(path.to_owned()).into())
    }

    fn describe(&self, asked: &mut Asked<'_, B::File>) -> Answered<B::File> {
        let accepts = asked.request.field("Accept").is_none_or(|accept| {
            let mut kinds =
                accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
            kinds.any(|kind| ["application/sdp", "application/*", "*/*"].contains(&kind))
        });
        if !accepts {
            return Err(Status::NOT_ACCEPTABLE.into());
        }
        let place = track_url(asked.request.target).ok_or(Status::NOT_FOUND)?;
        let title = self.title(asked.session, &place)?;
        let name = title.path.rsplit('/').next().unwrap_or("");
        // Without other transports the description names the group.
        let group = match self.options.groups.is_some_and(|groups| groups.only) {
            true => self.group(asked.cx, &title),
            false => None,
        };
        let about = About {
            name,
            version: title.stamp,
            server: place.host.unwrap_or(IpAddr::from([0; 4])),
            live: self.options.live,
            group: group.map(|(group, groups)| (groups.address(group), groups.ttl, groups.port)),
        };
        let reply = reply(asked.cseq, Status::OK).field("Content-Type", "application/sdp");
        let reply = reply.field("Content-Base", format_args!("{}/", place.url));
        Ok((reply.field("Cache-Control", "no-cache"), describe(&title.program, &about)))
    }

    fn set_up(&self, asked: &mut Asked<'_, B::File>, is_named: bool) -> Answered<B::File> {
        let Asked { cx, ref mut session, request, .. } = *asked;
        let place = track_url(request.target).ok_or(Status::NOT_FOUND)?;
        if !is_named && let Some(presentation) = &session.presentation {
            // A connection has one session. But a player that received no packets abandons its
            // paused session and tries another transport.
            if presentation.is_playing() {
                return Err(Status::NOT_VALID_NOW.into());
            }
            self.end(cx, session);
        }
        let title = match &session.presentation {
            Some(presentation) if presentation.url == place.url => presentation.title.clone(),
            Some(_) => return Err(Status::AGGREGATE_NOT_ALLOWED.into()),
            None => self.title(session, &place)?,
        };
        let track = match place.track {
            Some(track) if track < title.program.tracks.len() => track,
            Some(_) => return Err(Status::NOT_FOUND.into()),
            None if title.program.tracks.len() == 1 => 0,
            None => return Err(Status::AGGREGATE_NOT_ALLOWED.into()),
        };
        let presentation = session.presentation.as_deref();
        let is_late = presentation.is_some_and(|presentation| {
            presentation.is_playing() || presentation.legs.len() >= LEGS_MAX
        });
        if is_late {
            return Err(Status::NOT_VALID_NOW.into());
        }
        // From now on the track uses another transport (RFC 2326 section 10.4).
        if let Some(presentation) = session.presentation.as_deref_mut()
            && let Some(again) = presentation.legs.iter().position(|leg| leg.track == track)
            && presentation.legs.remove(again).let_go(cx)
        {
            cx.ring();
        }
        let presentation = session.presentation.as_deref();
        let offered = request.field("Transport").unwrap_or("");
        let (leg, told) = match self.leg(cx, (session.peer, presentation), (&title, track), offered)
        {
            Ok(way) => way,
            Err(NoWay::Unsupported) => return Err(Status::UNSUPPORTED_TRANSPORT.into()),
            Err(NoWay::Full) => return Err(Status::NO_BANDWIDTH.into()),
        };
        let presentation = session.presentation.get_or_insert_with(|| {
            let name = self.secret.word(&format!("show {} {}", cx.me.bits(), cx.now.ns()));
            Box::new(Presentation::new(name[..16].to_owned(), place.url, title))
        });
        presentation.legs.push(leg);
        let (reply, body) = self.with_session(asked, reply(asked.cseq, Status::OK))?;
        Ok((reply.field("Transport", told), body))
    }

    /// The methods that need a session.
    fn control(&self, asked: &mut Asked<'_, B::File>, method: &str) -> Answered<B::File> {
        let Asked { cx, ref mut session, request, .. } = *asked;
        let presentation = session.presentation.as_mut().ok_or(Status::NOT_VALID_NOW)?;
        // Some players send `*` to name the whole presentation.
        let track = match (request.target, track_url(request.target)) {
            ("*", _) => None,
            (_, Some(place)) if place.url == presentation.url => place.track,
            _ => return Err(Status::NOT_FOUND.into()),
        };
        let one =
            track.and_then(|track| presentation.legs.iter().position(|leg| leg.track == track));
        let is_part = presentation.legs.len() > 1 && track.is_some();
        let ok = reply(asked.cseq, Status::OK);
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
                Ok((ok, Vec::new()))
            }
            _ if is_part => Err(Status::AGGREGATE_ONLY.into()),
            "PAUSE" => {
                if presentation.pause(cx) {
                    cx.ring();
                }
                let at = wire::rtsp::seconds(presentation.position_ns(cx.now));
                self.with_session(asked, ok.field("Range", format_args!("npt={at}-")))
            }
            _ => {
                let range = request.field("Range");
                let range = range.map(|value| parse_range(value).ok_or(Status::INVALID_RANGE));
                let range = range.transpose()?.map(|range| meant(request, presentation, range));
                let playing = self.play(cx, presentation, range)?;
                let mut reply = ok.field("Range", playing.range);
                if request.field("Scale").is_some() {
                    reply = reply.field("Scale", "1.0");
                }
                if !playing.info.is_empty() {
                    reply = reply.field("RTP-Info", playing.info);
                }
                self.with_session(asked, reply)
            }
        }
    }

    /// Answers `GET_PARAMETER`. An empty request keeps the session alive; otherwise the reply has
    /// the value of each known name, one a line.
    fn parameters(&self, asked: &Asked<'_, B::File>) -> Answered<B::File> {
        let names = String::from_utf8_lossy(asked.request.body);
        let mut body = String::new();
        for name in names.lines().map(|line| line.trim().trim_end_matches(':')) {
            if name.is_empty() {
                continue;
            }
            let value = self.parameter(asked.cx, asked.session, name);
            let value = value.ok_or(Status::NOT_UNDERSTOOD)?;
            // Writing to a string cannot fail.
            let _ = write!(body, "{name}: {value}\r\n");
        }
        let (mut reply, _) = self.with_session(asked, reply(asked.cseq, Status::OK))?;
        if !body.is_empty() {
            reply = reply.field("Content-Type", "text/parameters");
        }
        Ok((reply, body.into_bytes()))
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

fn reply(cseq: &str, status: Status) -> Reply {
    Reply::new(status, cseq).field("Server", "roundhouse")
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
