//! The RTSP state machine: requests are answered in turn, and interleaved packets leave as they
//! become due.
//!
//! An engine calls `step` with bytes, with room in the output, with a deadline or with the outcome
//! of a job. Due packets are appended first, then the requests that have arrived are answered, and
//! the next deadline is the earlier of the next packet and the end of the client's patience.
//! Datagrams do not pass here: `paced_source.rs` sends them, by orders in shared memory. Files are
//! read by jobs, because a read may block; the session keeps the outcome until the request that
//! wanted it is answered again. RTSP methods are in `answer.rs`, transports in `transport.rs`,
//! positions in `playback.rs`.

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, Step, Then};
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::containers::Payload;
use wire::rtsp::{self, Bad, Item, Reply, Status};
use wire::{rtcp, rtp};

use super::options::Options;
use super::orders::Orders;
use super::playback::Presentation;
use super::rtp_stream::{Piece, RtpStream};
use super::secret::Secret;
use super::title::{Library, Loaded, Title, Trouble, Window, locked};
use super::transport::Way;
use web::Platform;

/// The media service.
#[derive(Debug)]
pub struct Media<B: Platform> {
    pub(super) options: Options,
    pub(super) platform: B,
    pub(super) library: Library<B::File>,
    pub(super) secret: Secret,
    /// The paths about which the operator was warned.
    warned: Mutex<Vec<String>>,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session<F> {
    pub(super) peer: Peer,
    /// When the client last sent a request, a response or a report.
    heard: Instant,
    /// How often the client gave a wrong password.
    pub(super) wrong_passwords: u8,
    pub(super) presentation: Option<Box<Presentation<F>>>,
    /// The result of the last job, until the request that wanted it has been answered.
    pub(super) found: Option<(String, Loaded<F>)>,
}

/// Slow work that is done outside the session.
#[derive(Debug)]
pub enum Job<F> {
    /// Read a file and make its plan.
    Load(String),
    /// Read the window of a long file that begins with this payload, for a leg.
    Window(usize, Arc<Title<F>>, Payload),
}

/// The result of a job.
#[derive(Debug)]
pub enum Outcome<F> {
    /// The file at a path.
    Title(String, Loaded<F>),
    /// The window for a leg.
    Window(usize, io::Result<Window>),
}

pub(super) enum After<F> {
    Next,
    /// The end of the connection, after the reply.
    Close,
    /// The same request again, after this job.
    Job(Job<F>),
}

pub(super) type At<'a> = Cx<'a, Orders>;

/// The bounds of a connection. 256 KiB of output hold two seconds of video at 1 Mbit/s.
const LIMITS: Limits = Limits {
    // The longest of a head, a body, and an interleaved packet.
    input_max: 80 * 1024,
    output_high: 256 * 1024,
    output_low: 64 * 1024,
    sessions_max: 16 * 1024,
};
/// The most paths about which the operator is warned.
const WARNED_MAX: usize = 64;
/// Interleaved packets due within this span leave together, because a write for each would cost
/// more than the packet.
const TOGETHER: Duration = Duration::from_millis(4);

impl<B: Platform> Media<B> {
    /// A server with these options; its CNAME is random (RFC 7022).
    pub fn new(mut options: Options, platform: B) -> Media<B> {
        let secret = Secret::new(options.secret);
        options.name = format!("{}-{}", options.name, &secret.word("name")[..12]);
        let library = Library::new();
        Media { options, platform, library, secret, warned: Mutex::default() }
    }

    /// Tells the operator once what of a file is not sent, and why.
    fn warn(&self, cx: &At<'_>, path: &str, title: &Loaded<B::File>) {
        let words = match title {
            Err(Trouble::Unplayable(words)) => words.clone(),
            Ok(title) if !title.program.left_out.is_empty() => {
                format!("left out: {}", title.program.left_out.join(", "))
            }
            _ => return,
        };
        let mut warned = locked(&self.warned);
        if warned.len() < WARNED_MAX && !warned.iter().any(|known| known == path) {
            warned.push(path.to_owned());
            cx.warn(|line| {
                let _ = write!(line, "{path}: {words}");
            });
        }
    }

    /// Answers the input; returns how much of it was used.
    fn serve(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        let mut used = 0;
        while !out.is_full() {
            let (item, len) = match rtsp::next(&input[used..]) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(bad) => {
                    let status = match bad {
                        Bad::LongHead | Bad::LongBody => Status::TOO_LARGE,
                        Bad::FirstLine | Bad::Field | Bad::Length => Status::BAD_REQUEST,
                    };
                    Reply::new(status, "").field("Connection", "close").finish(&[], out.bytes());
                    return Step::close(input.len());
                }
            };
            session.heard = cx.now;
            let after = match item {
                Item::Request(request) => self.answer(cx, session, &request, out),
                Item::Data { channel, packet } => {
                    hear(session, channel, packet);
                    After::Next
                }
                // The server sends no requests.
                Item::Response(_) => After::Next,
            };
            match after {
                After::Next => used += len,
                After::Close => {
                    cx.note(|line| line.push_str("too many wrong passwords"));
                    return Step::close(input.len());
                }
                After::Job(job) => return Step::offload(used, job),
            }
        }
        Step::read(used)
    }

    /// Sends the due packets, and returns the next step.
    fn go_on(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        step: Step<Job<B::File>>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        if !matches!(step.then, Then::Read) {
            return step;
        }
        let until = self.alive_until(cx, session);
        if until <= cx.now {
            cx.note(|line| line.push_str("silent for too long"));
            return Step::close(step.used);
        }
        let mut wake = until;
        if let Some(presentation) = &mut session.presentation {
            match self.pump(cx, presentation, out) {
                Ok(next) => wake = wake.min(next),
                Err(job) => return Step::offload(step.used, job),
            }
        }
        step.wake_at(wake.max(cx.now + Duration::from_millis(1)))
    }

    /// How long the session lives if the client stays silent.
    fn alive_until(&self, cx: &At<'_>, session: &Session<B::File>) -> Instant {
        let mut heard = session.heard;
        if let Some(presentation) = &session.presentation {
            for leg in &presentation.legs {
                match &leg.way {
                    Way::Datagrams { slot } | Way::Group { member: slot, .. } => {
                        heard = heard.max(cx.state.reception(*slot).at.unwrap_or(heard));
                    }
                    // The connection accepts packets; if it stops, the engine closes it.
                    Way::Interleaved { rtp: Some(rtp), .. } if rtp.next().is_some() => {
                        heard = cx.now;
                    }
                    Way::Interleaved { .. } => {}
                }
            }
        }
        heard + self.options.session_timeout
    }

    /// Appends the due packets of all legs, in the order of their moments; returns when the next
    /// packet is due.
    ///
    /// # Errors
    /// The job that must be done before the next packet.
    fn pump(
        &self,
        cx: &At<'_>,
        presentation: &mut Presentation<B::File>,
        out: &mut Out,
    ) -> Result<Instant, Job<B::File>> {
        loop {
            let mut first: Option<(Instant, Piece, usize)> = None;
            for (index, leg) in presentation.legs.iter().enumerate() {
                if let Way::Interleaved { rtp: Some(rtp), .. } = &leg.way
                    && let Some((at, piece)) = rtp.next()
                    && first.is_none_or(|(earliest, ..)| at < earliest)
                {
                    first = Some((at, piece, index));
                }
            }
            let Some((at, piece, index)) = first else { return Ok(Instant::NEVER) };
            if at > cx.now {
                return Ok(at + TOGETHER);
            }
            if out.is_full() {
                // Room returns when the peer reads.
                return Ok(cx.now + self.options.debt);
            }
            let Way::Interleaved { media, control, rtp: Some(rtp), window } =
                &mut presentation.legs[index].way
            else {
                return Ok(Instant::NEVER);
            };
            if cx.now.since(at) > self.options.debt {
                let skipped = rtp.skip(cx.now);
                cx.state.skip(skipped);
                if skipped > 0 {
                    continue;
                }
            }
            match piece {
                Piece::Packet => {
                    within(rtp, window, *media, index, out)?;
                }
                Piece::Report | Piece::Bye => {
                    let bye = piece == Piece::Bye;
                    let from = out.bytes().len();
                    out.bytes().extend_from_slice(&[0; 4]);
                    rtp.report(&self.options, at, bye, out.bytes());
                    let len = out.bytes().len() - from - 4;
                    out.bytes()[from..from + 4].copy_from_slice(&rtsp::frame(*control, len));
                }
            }
        }
    }

    fn bye(&self, cx: &At<'_>, session: &mut Session<B::File>, out: &mut Out) {
        let Some(presentation) = &mut session.presentation else { return };
        for leg in &mut presentation.legs {
            if let Way::Interleaved { control, rtp: Some(rtp), .. } = &mut leg.way
                && rtp.next().is_some()
            {
                let mut report = Vec::new();
                rtp.write(&self.options, cx.now, true, &mut report);
                out.bytes().extend_from_slice(&rtsp::frame(*control, report.len()));
                out.bytes().extend_from_slice(&report);
            }
        }
    }

    pub(super) fn end(&self, cx: &At<'_>, session: &mut Session<B::File>) {
        let Some(presentation) = session.presentation.take() else { return };
        let mut rings = false;
        for leg in &presentation.legs {
            rings |= leg.let_go(cx);
        }
        if rings {
            cx.ring();
        }
    }
}

/// Appends the next packet of a leg; fails with the window that must be read for it.
fn within<F: Send + 'static>(
    rtp: &mut RtpStream<F>,
    window: &Window,
    channel: u8,
    leg: usize,
    out: &mut Out,
) -> Result<(), Job<F>> {
    let (packet, header) = rtp.cursor.packet(rtp.cursor.next, rtp.ssrc);
    let title = &rtp.cursor.line.title;
    let Some((bytes, range)) = title.bytes(&packet.payload, window) else {
        return Err(Job::Window(leg, title.clone(), packet.payload));
    };
    let prefix = packet.prefix.bytes();
    let len = prefix.len() + range.len();
    let out = out.bytes();
    out.extend_from_slice(&rtsp::frame(channel, rtp::HEADER + len));
    out.extend_from_slice(&header);
    out.extend_from_slice(prefix);
    // Copying a packet costs less than a separate piece of output.
    out.extend_from_slice(&bytes[range]);
    rtp.sent(len);
    Ok(())
}

/// Handles a control packet that arrived interleaved.
fn hear<F>(session: &mut Session<F>, channel: u8, packet: &[u8]) {
    let Some(presentation) = &mut session.presentation else { return };
    for leg in &mut presentation.legs {
        if let Way::Interleaved { control, rtp: Some(rtp), .. } = &leg.way
            && *control == channel
        {
            let ours = rtp.ssrc;
            rtcp::read(packet, |word| match word {
                rtcp::Message::Report(heard) if heard.of == ours => leg.heard = Some(heard),
                _ => {}
            });
        }
    }
}

impl<B: Platform> Service for Media<B> {
    type State = Orders;
    type Session = Session<B::File>;
    type Job = Job<B::File>;
    type Outcome = Outcome<B::File>;

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn refuses(&self) -> bool {
        true
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.options.session_timeout)
    }

    fn open(&self, cx: &At<'_>, peer: Peer, _out: &mut Out) -> Session<B::File> {
        Session { peer, heard: cx.now, wrong_passwords: 0, presentation: None, found: None }
    }

    fn step(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        event: Event<'_, Outcome<B::File>>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        // Due packets leave before the request is answered, however the request was cut.
        if let Some(presentation) = &mut session.presentation
            && matches!(event, Event::Bytes(_))
            && let Err(job) = self.pump(cx, presentation, out)
        {
            return Step::offload(0, job);
        }
        let step = match event {
            Event::Bytes(input) => self.serve(cx, session, input, out),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => {
                self.bye(cx, session, out);
                self.end(cx, session);
                Step::close(0)
            }
            Event::Outcome(Outcome::Title(path, title)) => {
                self.warn(cx, &path, &title);
                session.found = Some((path, title));
                Step::read(0)
            }
            Event::Outcome(Outcome::Window(leg, window)) => {
                let presentation = session.presentation.as_mut();
                match (presentation.and_then(|it| it.legs.get_mut(leg)), window) {
                    (Some(leg), Ok(fresh)) => {
                        if let Way::Interleaved { window, .. } = &mut leg.way {
                            *window = fresh;
                        }
                        Step::read(0)
                    }
                    // The file has become shorter or unreadable.
                    _ => Step::close(0),
                }
            }
        };
        self.go_on(cx, session, step, out)
    }

    fn work(&self, _state: &Orders, job: Job<B::File>) -> Outcome<B::File> {
        match job {
            Job::Load(path) => {
                let title = self.library.get(&self.platform, &self.options, &path);
                Outcome::Title(path, title)
            }
            Job::Window(leg, title, payload) => {
                Outcome::Window(leg, title.window(&self.platform, &payload))
            }
        }
    }

    fn close(&self, cx: &At<'_>, mut session: Session<B::File>, _why: Closed) {
        self.end(cx, &mut session);
    }
}
