//! Packets to the world and back, and the world's tick.
//!
//! A session joins, then sends requests and receives news. News that concerns everyone is pushed to
//! every session; a tick is one packet. A path request stops the walker and becomes a
//! [`PathSearch`] job; a job that outlasts the tick's budget waits in the session and continues in
//! the next tick.

use core::time::Duration;

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, SessionId, Step};

use super::SEATS;
use super::packet::{ASK_MAX, Ask, Bye, NoWay, Place, Role, Tell, VERSION, front};
use super::search::{Outcome, PathSearch, Route, SearcherPool};
use super::terrain::Terrain;
use super::world::{Participant, TURNS_MAX, World};
use echo::roster::PULSE;

/// The time limit for joining.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most rows of the map in one request.
const ROWS_MAX: u16 = 64;

/// The options of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time between two ticks; every walker takes one step a tick.
    pub tick: Duration,
    /// Cells that all searches together may expand in a tick.
    pub budget: u32,
    /// The most concurrent searches; each needs memory for the whole map.
    pub searchers: usize,
    /// The limits of a connection.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        let limits = Limits {
            input_max: 4096,
            // A row of the widest map 64 times, and the moves of a tick.
            output_high: 128 * 1024,
            output_low: 32 * 1024,
            sessions_max: SEATS,
        };
        Options { tick: Duration::from_millis(50), budget: 20_000, searchers: 8, limits }
    }
}

/// The service; its state is a [`World`].
#[derive(Debug)]
pub struct Game {
    terrain: Terrain,
    options: Options,
    pool: SearcherPool,
}

/// One connection's memory.
#[derive(Debug)]
pub struct Session {
    seat: Option<u32>,
    role: Option<Role>,
    /// When the session checks its seat again, and the deadline for joining.
    pulse: Instant,
    until: Instant,
    /// A search that waits for the next tick.
    search: Option<(PathSearch, Instant)>,
}

/// The next step after a packet.
enum Next {
    GoOn,
    Search(PathSearch),
    Leave(Bye),
}

type Context<'a> = Cx<'a, World>;

impl Game {
    /// A world on this terrain.
    pub fn new(terrain: Terrain, options: Options) -> Game {
        Game { terrain, options, pool: SearcherPool::new(options.searchers.max(1)) }
    }

    /// The terrain.
    pub fn terrain(&self) -> &Terrain {
        &self.terrain
    }

    /// Searchers that are in use: at most those of the options.
    pub fn searching(&self) -> usize {
        self.pool.lent()
    }

    fn hear(
        &self,
        cx: &Context<'_>,
        session: &mut Session,
        input: &[u8],
        out: &mut Out,
    ) -> Step<PathSearch> {
        let mut used = 0;
        while !out.is_full() {
            let found = match front(&input[used..], ASK_MAX) {
                Ok(Some((body, length))) => Ask::read(body).map(|ask| (ask, length)),
                Ok(None) => break,
                Err(bad) => Err(bad),
            };
            let (ask, length) = match found {
                Ok(found) => found,
                Err(bad) => {
                    cx.note(|note| *note = format!("{}: {bad}", cx.me));
                    return self.leave(cx, Bye::BadPacket, input.len(), out);
                }
            };
            used += length;
            match self.answer(cx, session, ask, out) {
                Next::GoOn => {}
                Next::Search(search) => return Step::offload(used, search),
                Next::Leave(why) => return self.leave(cx, why, input.len(), out),
            }
        }
        self.rest(session, used)
    }

    fn answer(&self, cx: &Context<'_>, session: &mut Session, ask: Ask, out: &mut Out) -> Next {
        let joined = session.role.zip(session.seat);
        match (joined, ask) {
            (None, Ask::Join { version: VERSION, role, name }) => {
                return self.join(cx, session, role, name, out);
            }
            (None, _) | (Some(_), Ask::Join { .. }) => return Next::Leave(Bye::NotJoined),
            (Some((role, seat)), Ask::Go(to)) => return self.go(cx, session, role, seat, to, out),
            (Some((_, seat)), Ask::Stop) => {
                session.search = None;
                cx.state.halt(seat);
            }
            (Some(_), Ask::Say { to, text }) => say(cx, to, text, out),
            (Some(_), Ask::Rows { first, count }) => self.rows(first, count, out),
            (Some(_), Ask::Who) => {
                cx.state
                    .participants()
                    .for_each(|participant| entered(&participant).put(out.bytes()));
            }
            (Some(_), Ask::Ping(number)) => Tell::Pong(number).put(out.bytes()),
        }
        Next::GoOn
    }

    /// A client joins: it is told of all others, and they are told of it.
    fn join(
        &self,
        cx: &Context<'_>,
        session: &mut Session,
        role: Role,
        name: String,
        out: &mut Out,
    ) -> Next {
        let Some(seat) = cx.state.roster.enter(cx.me) else { return Next::Leave(Bye::Full) };
        let spawn = self.terrain.spawn(u64::from(seat) + cx.state.ticks());
        let at = match role {
            Role::Player => (spawn.x, spawn.y),
            Role::Spectator => (0, 0),
        };
        let id = cx.me.bits();
        let (size, tick_ms) = (self.terrain.size(), self.options.tick.as_millis() as u16);
        Tell::Welcome { version: VERSION, role, id, size, tick_ms, at }.put(out.bytes());
        cx.state.participants().for_each(|participant| entered(&participant).put(out.bytes()));
        let participant = Participant { id: cx.me, role, at, name };
        tell_all(cx, &entered(&participant), out);
        cx.note(|note| *note = format!("{}: {} comes as {role:?}", cx.me, participant.name));
        cx.state.seat(seat, &participant);
        (session.seat, session.role) = (Some(seat), Some(role));
        session.pulse = cx.now + PULSE;
        Next::GoOn
    }

    /// A walker asks for a path: it stops, and a search begins.
    fn go(
        &self,
        cx: &Context<'_>,
        session: &mut Session,
        role: Role,
        seat: u32,
        to: Place,
        out: &mut Out,
    ) -> Next {
        let (width, height) = self.terrain.size();
        let refused = match role {
            Role::Spectator => Some(NoWay::Spectator),
            Role::Player if to.0 >= width || to.1 >= height => Some(NoWay::Outside),
            Role::Player => None,
        };
        if let Some(why) = refused {
            Tell::NoWay(why).put(out.bytes());
            return Next::GoOn;
        }
        cx.state.halt(seat);
        // An earlier search is abandoned.
        session.search = None;
        Next::Search(PathSearch::new(cx.state.place(seat), to))
    }

    fn back(
        &self,
        cx: &Context<'_>,
        session: &mut Session,
        outcome: Outcome,
        out: &mut Out,
    ) -> Step<PathSearch> {
        match (outcome, session.seat) {
            (Outcome::Later(search), _) => {
                session.search = Some((search, cx.now + self.options.tick));
            }
            (Outcome::Found(Route { is_exact, steps, mut turns }), Some(seat)) => {
                let is_cut = cx.state.send(seat, &turns);
                turns.truncate(TURNS_MAX);
                Tell::Path { is_exact, is_cut, steps, turns }.put(out.bytes());
            }
            (Outcome::Found(_), None) => {}
        }
        self.look(cx, session, out)
    }

    /// Continues, unless the operator has marked the session to be closed or it did not join in
    /// time.
    fn look(&self, cx: &Context<'_>, session: &mut Session, out: &mut Out) -> Step<PathSearch> {
        let Some(seat) = session.seat else {
            return match cx.now < session.until {
                true => self.rest(session, 0),
                false => self.leave(cx, Bye::NotJoined, 0, out),
            };
        };
        if cx.state.roster.is_called(seat, cx.me) {
            return self.leave(cx, Bye::Operator, 0, out);
        }
        if session.pulse <= cx.now {
            session.pulse = cx.now + PULSE;
        }
        match session.search.take() {
            Some((search, again)) if again <= cx.now => Step::offload(0, search),
            waiting => {
                session.search = waiting;
                self.rest(session, 0)
            }
        }
    }

    /// The step that waits for more input.
    fn rest(&self, session: &Session, used: usize) -> Step<PathSearch> {
        let pulse = if session.seat.is_some() { session.pulse } else { session.until };
        let again = session.search.as_ref().map_or(pulse, |(_, again)| pulse.min(*again));
        Step::read(used).wake_at(again)
    }

    fn leave(&self, cx: &Context<'_>, why: Bye, used: usize, out: &mut Out) -> Step<PathSearch> {
        cx.state.count(why);
        Tell::Bye(why).put(out.bytes());
        Step::close(used)
    }

    fn rows(&self, first: u16, count: u16, out: &mut Out) {
        let end = first.saturating_add(count.min(ROWS_MAX)).min(self.terrain.size().1);
        for row in first..end {
            Tell::Row { row, bits: self.terrain.row(row) }.put(out.bytes());
        }
    }
}

fn entered(participant: &Participant) -> Tell {
    Tell::Enter {
        id: participant.id.bits(),
        role: participant.role,
        at: participant.at,
        name: participant.name.clone(),
    }
}

/// Sends news to every joined session; the session that is being stepped gets it through its
/// output.
fn tell_all(cx: &Context<'_>, tell: &Tell, out: &mut Out) {
    let mut bytes = Vec::new();
    tell.put(&mut bytes);
    for id in cx.state.ids() {
        if id == cx.me { out.bytes().extend_from_slice(&bytes) } else { push(cx, id, &bytes) }
    }
}

/// Delivers a message to all or to one; a session that has left is skipped.
fn say(cx: &Context<'_>, to: u64, text: String, out: &mut Out) {
    let said = Tell::Said { from: cx.me.bits(), to, text };
    if to == 0 {
        return tell_all(cx, &said, out);
    }
    match cx.state.find(to) {
        Some(id) if id == cx.me => said.put(out.bytes()),
        Some(id) => {
            let mut bytes = Vec::new();
            said.put(&mut bytes);
            push(cx, id, &bytes);
        }
        None => {}
    }
}

/// Pushes bytes to a session. The launcher ensured that the engine supports pushes.
fn push(cx: &Context<'_>, to: SessionId, bytes: &[u8]) {
    if let Err(cannot) = cx.push(to, bytes) {
        cx.note(|note| *note = format!("{}: cannot push to another session: {cannot}", cx.me));
    }
}

impl Service for Game {
    type State = World;
    type Session = Session;
    type Job = PathSearch;
    type Outcome = Outcome;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn patience(&self) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn open(&self, cx: &Context<'_>, peer: Peer, _out: &mut Out) -> Session {
        cx.note(|note| {
            *note = match peer {
                Peer::Net(at) => format!("{}: connected from {at}", cx.me),
                Peer::Local => format!("{}: connected", cx.me),
            };
        });
        let until = cx.now + PATIENCE;
        Session { seat: None, role: None, pulse: until, until, search: None }
    }

    fn step(
        &self,
        cx: &Context<'_>,
        session: &mut Session,
        event: Event<'_, Outcome>,
        out: &mut Out,
    ) -> Step<PathSearch> {
        match event {
            Event::Bytes(input) => self.hear(cx, session, input, out),
            Event::Room | Event::Deadline => self.look(cx, session, out),
            Event::Outcome(outcome) => self.back(cx, session, outcome, out),
            Event::Eof => Step::close(0),
            Event::Drain => self.leave(cx, Bye::Drain, 0, out),
        }
    }

    fn work(&self, world: &World, search: PathSearch) -> Outcome {
        search.run(&self.terrain, &self.pool, world)
    }

    fn close(&self, cx: &Context<'_>, session: Session, _why: Closed) {
        let Some(seat) = session.seat else { return };
        cx.state.free(seat);
        cx.state.roster.leave(seat, cx.me);
        let mut bytes = Vec::new();
        Tell::Leave(cx.me.bits()).put(&mut bytes);
        cx.state.ids().for_each(|id| push(cx, id, &bytes));
    }

    fn tick(&self, cx: &Context<'_>) -> Option<Instant> {
        cx.state.note_searchers(self.pool.lent());
        let (tick, moved) = cx.state.advance(self.options.budget);
        if !moved.is_empty() {
            let mut bytes = Vec::new();
            Tell::Moves { tick, moved }.put(&mut bytes);
            cx.state.ids().for_each(|id| push(cx, id, &bytes));
        }
        Some(cx.now + self.options.tick)
    }
}
