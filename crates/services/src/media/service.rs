//! The state machine: requests are answered in turn, and in between packets leave within the
//! connection as they become due.

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, Step, Then};
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::containers::Payload;
use wire::rtsp::{self, Bad, Item, Reply, Status};
use wire::{rtcp, rtp};

use super::chance::Chance;
use super::live::{self, Source};
use super::options::Options;
use super::orders::Orders;
use super::play::Show;
use super::player::{Piece, Player};
use super::run::Line;
use super::title::{Library, Loaded, Title, Window};
use super::transport::Way;
use crate::web::Platform;

/// The service.
#[derive(Debug)]
pub struct Media<B: Platform> {
    pub(super) options: Options,
    pub(super) platform: B,
    pub(super) library: Library<B::File>,
    pub(super) chance: Chance,
    pub(super) sources: Vec<Source<B::File>>,
}

/// One connection.
#[derive(Debug)]
pub struct Session<F> {
    pub(super) peer: Peer,
    /// When something was last heard of the client.
    heard: Instant,
    pub(super) show: Option<Box<Show<F>>>,
    /// What the last job has found, until the request that wanted it has been answered.
    pub(super) found: Option<(String, Loaded<F>)>,
}

/// A job of slow work that leaves the session.
#[derive(Debug)]
pub enum Job<F> {
    /// Read a file and make its plan.
    Load(String),
    /// Read on in a long file.
    Window(Reading<F>),
}

/// Where to read on.
#[derive(Debug)]
pub struct Reading<F> {
    title: Arc<Title<F>>,
    leg: usize,
    payload: Payload,
}

/// What comes back.
#[derive(Debug)]
pub struct Outcome<F>(Back<F>);

#[cfg(test)]
impl<F> Outcome<F> {
    /// What came of a job that read a file.
    pub(super) fn title(self) -> Loaded<F> {
        match self.0 {
            Back::Title(_, title) => title,
            Back::Window(..) => panic!("expected a file, found a window of one"),
        }
    }
}

#[derive(Debug)]
enum Back<F> {
    Title(String, Loaded<F>),
    Window(usize, io::Result<Window>),
}

/// What comes after a request.
pub(super) enum After<F> {
    /// The next one.
    Next,
    /// The same again, when this is done.
    Job(Job<F>),
}

/// The context of a call.
pub(super) type At<'a> = Cx<'a, Orders>;

/// Packets within the connection leave together that are due this close to each other: a write for
/// each would cost more than they do.
const TOGETHER: Duration = Duration::from_millis(4);

impl<B: Platform> Media<B> {
    /// A server with these choices; its name in reports is drawn by chance (RFC 7022).
    pub fn new(mut options: Options, platform: B) -> Media<B> {
        let chance = Chance::new(options.secret);
        options.name = format!("{}-{}", options.name, &chance.word("name")[..12]);
        let library = Library::new(options.memory_max);
        Media { options, platform, library, chance, sources: Vec::new() }
    }

    /// The same with these live sources, each a title by its name.
    #[must_use]
    pub fn with_sources(mut self, sources: Vec<Source<B::File>>) -> Media<B> {
        self.sources = sources;
        self
    }

    /// The live sources.
    pub fn sources(&self) -> &[Source<B::File>] {
        &self.sources
    }

    /// The live title of this name.
    pub(super) fn live_title(&self, path: &str) -> Option<&Arc<Title<B::File>>> {
        self.sources.iter().map(|source| &source.title).find(|title| title.path == path)
    }

    /// Whether nobody can choose where a title is, because it is where the clock says.
    pub(super) fn is_broadcast(&self, title: &Title<B::File>) -> bool {
        self.options.live || title.ring().is_some()
    }

    /// Whether a title's end is its beginning, or it has none.
    pub(super) fn laps(&self, title: &Title<B::File>) -> bool {
        self.options.laps() || title.ring().is_some()
    }

    /// Answers what has come; says how much of it was used.
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
                // We ask for nothing.
                Item::Response(_) => After::Next,
            };
            match after {
                After::Next => used += len,
                After::Job(job) => return Step::offload(used, job),
            }
        }
        Step::read(used)
    }

    /// Lets packets go that are due, and says what to do next.
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
        if let Some(show) = &mut session.show {
            match self.pump(cx, show, out) {
                Pumped::Next(next) => wake = wake.min(next),
                Pumped::Job(job) => return Step::offload(step.used, job),
            }
        }
        step.wake_at(wake.max(cx.now + Duration::from_millis(1)))
    }

    /// How long the session lives if nothing more is heard.
    fn alive_until(&self, cx: &At<'_>, session: &Session<B::File>) -> Instant {
        let mut heard = session.heard;
        if let Some(show) = &session.show {
            for leg in &show.legs {
                match &leg.way {
                    Way::Datagrams { slot } | Way::Together { member: slot, .. } => {
                        heard = heard.max(cx.state.reception(*slot).at.unwrap_or(heard));
                    }
                    // Its connection takes packets; the engine ends it if it takes none.
                    Way::Within { player: Some(player), .. } if player.next().is_some() => {
                        heard = cx.now;
                    }
                    Way::Within { .. } => {}
                }
            }
        }
        heard + self.options.session_timeout
    }

    /// Appends what is due of all legs, in the order of its moments.
    fn pump(&self, cx: &At<'_>, show: &mut Show<B::File>, out: &mut Out) -> Pumped<B::File> {
        loop {
            for leg in &mut show.legs {
                if let Way::Within { player: Some(player), .. } = &mut leg.way {
                    player.is_there();
                }
            }
            let mut first: Option<(Instant, Piece, usize)> = None;
            for (index, leg) in show.legs.iter().enumerate() {
                if let Way::Within { player: Some(player), .. } = &leg.way
                    && let Some((at, piece)) = player.next()
                    && first.is_none_or(|(earliest, ..)| at < earliest)
                {
                    first = Some((at, piece, index));
                }
            }
            let Some((at, piece, index)) = first else { return Pumped::Next(Instant::NEVER) };
            if at > cx.now {
                return Pumped::Next(at + TOGETHER);
            }
            if out.is_full() {
                // Room comes back when the peer has taken something.
                return Pumped::Next(cx.now + self.options.debt);
            }
            let Way::Within { media, control, player: Some(player), window } =
                &mut show.legs[index].way
            else {
                return Pumped::Next(Instant::NEVER);
            };
            if cx.now.since(at) > self.options.debt && player.skip(cx.now) > 0 {
                continue;
            }
            if piece == Piece::Packet && !player.is_there() {
                return Pumped::Next(cx.now + live::LOOK_EVERY);
            }
            match piece {
                Piece::Packet => {
                    if let Some(reading) = within(player, window, *media, index, out) {
                        return Pumped::Job(Job::Window(reading));
                    }
                }
                Piece::Report | Piece::Bye => {
                    let bye = piece == Piece::Bye;
                    let from = out.bytes().len();
                    out.bytes().extend_from_slice(&[0; 4]);
                    player.report(&self.options, at, bye, out.bytes());
                    let len = out.bytes().len() - from - 4;
                    out.bytes()[from..from + 4].copy_from_slice(&rtsp::frame(*control, len));
                }
            }
        }
    }

    /// Ends what plays.
    pub(super) fn end(&self, cx: &At<'_>, session: &mut Session<B::File>) {
        let Some(show) = session.show.take() else { return };
        let mut rings = false;
        for leg in &show.legs {
            rings |= leg.let_go(cx);
        }
        if rings {
            cx.ring();
        }
    }
}

/// What [`Media::pump`] comes to.
enum Pumped<F> {
    /// Something is due then.
    Next(Instant),
    /// A window has to be read first.
    Job(Job<F>),
}

/// Appends the next packet of a leg, or says what has to be read for it.
fn within<F: Send + 'static>(
    player: &mut Player<F>,
    window: &Window,
    channel: u8,
    leg: usize,
    out: &mut Out,
) -> Option<Reading<F>> {
    let (packet, header) = player.run.packet(player.run.next, player.ssrc);
    let title = &player.run.line.title;
    let Some((bytes, range)) = title.bytes(&packet.payload, window) else {
        return Some(Reading { title: title.clone(), leg, payload: packet.payload });
    };
    let prefix = packet.prefix.bytes();
    let len = prefix.len() + range.len();
    let out = out.bytes();
    out.extend_from_slice(&rtsp::frame(channel, rtp::HEADER + len));
    out.extend_from_slice(&header);
    out.extend_from_slice(prefix);
    // A copy of a packet costs less than a piece of its own in the output.
    out.extend_from_slice(&bytes[range]);
    player.sent(len);
    None
}

/// A packet of control has come within the connection.
fn hear<F>(session: &mut Session<F>, channel: u8, packet: &[u8]) {
    let Some(show) = &mut session.show else { return };
    for leg in &mut show.legs {
        if let Way::Within { control, player: Some(player), .. } = &leg.way
            && *control == channel
        {
            let ours = player.ssrc;
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
        self.options.limits
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.options.session_timeout)
    }

    fn open(&self, cx: &At<'_>, peer: Peer, _out: &mut Out) -> Session<B::File> {
        Session { peer, heard: cx.now, show: None, found: None }
    }

    fn step(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        event: Event<'_, Outcome<B::File>>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        // What is due leaves before what is asked is answered, however the asking was cut.
        if let Some(show) = &mut session.show
            && matches!(event, Event::Bytes(_))
            && let Pumped::Job(job) = self.pump(cx, show, out)
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
            Event::Outcome(Outcome(Back::Title(path, title))) => {
                if let Ok(title) = &title {
                    let left_out = &title.program.left_out;
                    if !left_out.is_empty() {
                        cx.note(|line| {
                            let _ = write!(line, "{path}: left out: {}", left_out.join(", "));
                        });
                    }
                }
                session.found = Some((path, title));
                Step::read(0)
            }
            Event::Outcome(Outcome(Back::Window(leg, window))) => {
                match (session.show.as_mut().and_then(|show| show.legs.get_mut(leg)), window) {
                    (Some(leg), Ok(fresh)) => {
                        if let Way::Within { window, .. } = &mut leg.way {
                            *window = fresh;
                        }
                        Step::read(0)
                    }
                    // The file has become shorter, or cannot be read any more.
                    _ => Step::close(0),
                }
            }
        };
        self.go_on(cx, session, step, out)
    }

    fn work(&self, _state: &Orders, job: Job<B::File>) -> Outcome<B::File> {
        Outcome(match job {
            Job::Load(path) => {
                let title = self.library.get(&self.platform, &self.options, &path);
                Back::Title(path, title)
            }
            Job::Window(Reading { title, leg, payload }) => {
                Back::Window(leg, title.window(&self.platform, &payload))
            }
        })
    }

    fn close(&self, cx: &At<'_>, mut session: Session<B::File>, _why: Closed) {
        self.end(cx, &mut session);
    }
}

impl<B: Platform> Media<B> {
    /// Says bye within the connection.
    fn bye(&self, cx: &At<'_>, session: &mut Session<B::File>, out: &mut Out) {
        let Some(show) = &mut session.show else { return };
        for leg in &mut show.legs {
            if let Way::Within { control, player: Some(player), .. } = &mut leg.way
                && player.next().is_some()
            {
                let mut report = Vec::new();
                player.write(&self.options, cx.now, true, &mut report);
                out.bytes().extend_from_slice(&rtsp::frame(*control, report.len()));
                out.bytes().extend_from_slice(&report);
            }
        }
    }

    /// A line of a title.
    pub(super) fn line(title: &Arc<Title<B::File>>, track: usize) -> Line<B::File> {
        Line { title: title.clone(), track }
    }
}
