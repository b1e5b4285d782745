//! Paced sources in virtual time: woken late, asked for future packets,
//! told that packets never left.
//!
//! [`stream`] plays an engine that keeps the contract of [`seam::PacedSource`] as loosely as the
//! contract allows, and holds the paced source to its laws; the result is a [`PacedReport`].
//! [`paced_laws`] runs many seeds and compares the packets that the same orders led to.
//!
//! The surprising thing: nothing is sent, so lateness costs nothing here. The packets of a
//! paced source must be a function of its orders alone, and an engine that never calls twice in
//! the same way shows that best.

use core::borrow::Borrow;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use seam::{
    Burst, Channel, Effects, Instant, Next, PacedCx, PacedSource, Packet, Payload, Source, WorkerId,
};

use crate::check::seeds;
use crate::rng::{Choices as _, Rng};

mod law;

pub use law::PacedLaw;

/// Calls of one stream without a packet or a later moment before it counts as stuck.
const CALLS_IN_VAIN: u32 = 100;

/// The engine's treatment of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whims {
    /// The largest delay of a call.
    pub late: Duration,
    /// The percentage of calls that come a second late and catch up.
    pub stalls: u8,
    /// How far ahead of the clock packets are requested.
    pub ahead: Duration,
    /// The percentage of calls after which packets are withdrawn; only with `ahead`.
    pub withdrawals: u8,
    /// The capacity of a burst, in packets.
    pub burst: usize,
    /// The percentage of turns at which the bell rings for nothing.
    pub rings: u8,
}

impl Whims {
    /// On time, with room for everything.
    pub const CALM: Whims = Whims {
        late: Duration::ZERO,
        stalls: 0,
        ahead: Duration::ZERO,
        withdrawals: 0,
        burst: 100_000,
        rings: 0,
    };

    /// The whims of a seed: a wheel, a stalled wheel, or a kernel that gets seconds at once.
    pub fn of(seed: u64) -> Whims {
        let mut rng = Rng::new(seed);
        let most = if rng.coin() { 1 } else { 30 };
        let (burst, rings) = (rng.size(most), rng.below(10) as u8);
        let late = rng.span(Duration::from_millis(5));
        let wheel = Whims { late, burst, rings, ..Whims::CALM };
        match seed % 3 {
            0 => wheel,
            1 => Whims { stalls: 5, ..wheel },
            _ => {
                let ahead = rng.span(Duration::from_secs(3));
                Whims { ahead, withdrawals: 30, ..wheel }
            }
        }
    }
}

/// A packet from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its moment, counted from the start of the run.
    pub at: Duration,
    /// The receiver.
    pub to: SocketAddr,
    /// The sending socket.
    pub channel: Channel,
    /// Its bytes; for a file the words `asset N START..END`.
    pub bytes: Vec<u8>,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacedReport {
    /// The packets of each stream that were not withdrawn, in the order in which streams started.
    pub streams: Vec<Vec<Made>>,
    /// The laws that were broken, and how.
    pub breaches: Vec<(PacedLaw, String)>,
}

/// A scheduled change of the orders.
pub struct Deed<'a, T> {
    /// The moment, counted from the start of the run.
    pub at: Duration,
    /// The change; the bell rings afterwards.
    pub act: &'a dyn Fn(&T),
}

impl<T> fmt::Debug for Deed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deed").field("at", &self.at).finish_non_exhaustive()
    }
}

struct Running<C: PacedSource> {
    stream: C::Stream,
    number: usize,
    worker: usize,
    next: Next,
    until: Instant,
    /// The moment it asked for, if its schedule has not moved since.
    promised: Option<Instant>,
    /// Packets that must come again, oldest first.
    owed: Vec<Made>,
    /// The packets' moments may differ, because orders have changed in between; or they may be
    /// dropped, because the stream was told to end.
    moved: bool,
    last_at: Instant,
    vain: u32,
}

struct World<'a, C: PacedSource> {
    source: &'a C,
    state: &'a C::State,
    whims: Whims,
    rng: Rng,
    start: Instant,
    now: Instant,
    effects: Effects,
    running: Vec<Running<C>>,
    heard: PacedReport,
    closed: usize,
}

/// Plays `paced source` for `length` of virtual time and applies
/// `deeds` to its orders, oldest first.
pub fn play_paced<C: PacedSource>(
    source: &C,
    state: &C::State,
    deeds: &[Deed<'_, C::State>],
    length: Duration,
    whims: Whims,
    seed: u64,
) -> PacedReport {
    // The clock starts above zero: a paced source that mistakes a time for a length fails.
    let start = Instant::from_ns(1_000_000_000_000);
    let mut world = World {
        source,
        state,
        whims,
        rng: Rng::new(seed),
        start,
        now: start,
        effects: Effects::new(false, true),
        running: Vec::new(),
        heard: PacedReport::default(),
        closed: 0,
    };
    let mut deeds = deeds.iter().peekable();
    world.take_orders();
    let end = start + length;
    loop {
        let deed = deeds.peek().map_or(Instant::NEVER, |deed| start + deed.at);
        let call = world.next_call();
        if deed.min(call.map_or(Instant::NEVER, |(at, _)| at)) > end {
            break;
        }
        match call {
            Some((at, index)) if at < deed => {
                world.now = world.now.max(at);
                world.call(index);
            }
            _ => {
                world.now = world.now.max(deed);
                (deeds.next().expect("peeked at").act)(state);
                world.ring(true);
            }
        }
        if world.heard.breaches.len() > 10 {
            break;
        }
    }
    world.close_all();
    world.heard
}

impl<C: PacedSource> World<'_, C> {
    fn cx(&self, worker: usize) -> PacedCx<'_, C::State> {
        PacedCx::new(self.now, WorkerId::new(worker, 1), self.state, &self.effects)
    }

    fn breach(&mut self, law: PacedLaw, why: String) {
        self.heard.breaches.push((law, why));
    }

    /// Two workers take turns.
    fn take_orders(&mut self) {
        loop {
            let worker = self.heard.streams.len() % 2;
            let Some((stream, next)) = self.source.start(&self.cx(worker)) else { return };
            let number = self.heard.streams.len();
            self.heard.streams.push(Vec::new());
            if number >= 10_000 {
                self.breach(
                    PacedLaw::Closing,
                    "10,000 streams are started: orders have no end".into(),
                );
                return;
            }
            let running = Running {
                stream,
                number,
                worker,
                next,
                until: Instant::ZERO,
                promised: None,
                owed: Vec::new(),
                moved: false,
                last_at: Instant::ZERO,
                vain: 0,
            };
            self.running.push(running);
        }
    }

    /// The next call: its time and its stream.
    fn next_call(&mut self) -> Option<(Instant, usize)> {
        self.reap();
        let ahead = self.whims.ahead;
        let at = |running: &Running<C>| match running.next {
            Next::At(at) if ahead > Duration::ZERO => {
                // The engine asks for packets handed over early when half of the time has passed.
                Some(Instant::from_ns(at.ns().saturating_sub(ahead.as_nanos() as u64 / 2)))
            }
            Next::At(at) => Some(at),
            Next::Parked | Next::Done => None,
        };
        let calls = self.running.iter().enumerate();
        calls.filter_map(|(index, running)| Some((at(running)?, index))).min()
    }

    /// Closes the streams that are done.
    fn reap(&mut self) {
        while let Some(index) = self.running.iter().position(|it| it.next == Next::Done) {
            let running = self.running.remove(index);
            // A stream that was told to end owes no packet.
            if !running.owed.is_empty() && !running.moved {
                let count = running.owed.len();
                self.breach(PacedLaw::Withdrawal, format!("{count} packets never came again"));
            }
            self.source.close(&self.cx(running.worker), running.stream);
            self.closed += 1;
        }
    }

    fn close_all(&mut self) {
        for running in core::mem::take(&mut self.running) {
            self.source.close(&self.cx(running.worker), running.stream);
        }
    }

    /// Tells every stream that orders may have changed (they have if there are
    /// `news`), and starts new streams.
    fn ring(&mut self, news: bool) {
        for index in 0..self.running.len() {
            self.withdraw_future(index);
            let (source, now) = (self.source, self.now);
            let cx = PacedCx::new(now, self.worker(index), self.state, &self.effects);
            let running = &mut self.running[index];
            running.next = source.rung(&cx, &mut running.stream);
            running.promised = None;
            running.moved |= news;
            running.vain = 0;
        }
        self.reap();
        self.take_orders();
    }

    fn worker(&self, index: usize) -> WorkerId {
        WorkerId::new(self.running[index].worker, 1)
    }

    /// Withdraws packets requested ahead of the clock, as an engine does before it rings.
    fn withdraw_future(&mut self, index: usize) {
        let number = self.running[index].number;
        let now = self.now.since(self.start);
        let made = &self.heard.streams[number];
        let unsent = made.iter().rev().take_while(|made| made.at > now).count();
        self.withdraw(index, unsent);
    }

    fn withdraw(&mut self, index: usize, unsent: usize) {
        if unsent == 0 {
            return;
        }
        let cx = PacedCx::new(self.now, self.worker(index), self.state, &self.effects);
        let running = &mut self.running[index];
        self.source.withdrawn(&cx, &mut running.stream, unsent);
        let made = &mut self.heard.streams[running.number];
        let mut owed = made.split_off(made.len() - unsent);
        running.last_at = made.last().map_or(Instant::ZERO, |made| self.start + made.at);
        running.until = self.now;
        running.promised = None;
        if let Some(first) = owed.first() {
            running.next = Next::At(self.start + first.at);
        }
        owed.append(&mut running.owed);
        running.owed = owed;
    }

    /// The `until` of a call; also advances the clock to the time of the call.
    fn until(&mut self, asked: Instant) -> Instant {
        self.now = self.now + self.rng.span(self.whims.late);
        if self.whims.ahead > Duration::ZERO {
            return self.now.max(asked) + self.whims.ahead / 2;
        }
        if self.rng.chance(self.whims.stalls) {
            self.now = self.now + Duration::from_secs(1);
        }
        // As in a delayed engine: not the whole past at once.
        if self.now.since(asked) > Duration::from_millis(20) { asked } else { self.now }
    }

    fn call(&mut self, index: usize) {
        let Next::At(asked) = self.running[index].next else { return };
        let until = self.until(asked).max(self.running[index].until);
        let mut burst = Burst::new(self.whims.burst);
        let cx = PacedCx::new(self.now, self.worker(index), self.state, &self.effects);
        let running = &mut self.running[index];
        running.until = until;
        let next = self.source.due(&cx, &mut running.stream, until, &mut burst);
        running.next = next;
        self.judge(index, until, &burst, next);
        if self.whims.ahead > Duration::ZERO && self.rng.chance(self.whims.withdrawals) {
            let unsent = self.rng.below(burst.len() + 1);
            self.withdraw(index, unsent);
        }
        if self.rng.chance(self.whims.rings) {
            self.ring(false);
        }
    }

    /// Checks a call against the laws and keeps its packets.
    fn judge(&mut self, index: usize, until: Instant, burst: &Burst, next: Next) {
        let mut breaches: Vec<(PacedLaw, String)> = Vec::new();
        let running = &mut self.running[index];
        if running.moved && next == Next::Done {
            // The last packet is a bye, and no packet that it owed.
            running.owed.clear();
        }
        for packet in burst.packets() {
            let made = render(packet, burst, self.start);
            if packet.at > until {
                let early = packet.at.since(until);
                breaches.push((PacedLaw::Time, format!("a packet {early:?} before its moment")));
            }
            if packet.at < running.last_at {
                breaches.push((PacedLaw::Order, "a packet before one that came earlier".into()));
            }
            if running.promised.is_some_and(|promised| packet.at < promised) {
                breaches.push((PacedLaw::Progress, "a packet due before the moment asked".into()));
            }
            if !running.owed.is_empty() {
                let owed = running.owed.remove(0);
                let same_time = running.moved || owed.at == made.at;
                if owed.bytes != made.bytes || !same_time {
                    let why = format!("withdrawn was {owed:?}, and came {made:?}");
                    breaches.push((PacedLaw::Withdrawal, why));
                }
            }
            running.last_at = packet.at;
            self.heard.streams[running.number].push(made);
        }
        if running.owed.is_empty() {
            running.moved = false;
        }
        running.promised = match next {
            Next::At(at) => Some(at),
            _ => None,
        };
        running.vain = if burst.is_empty() { running.vain + 1 } else { 0 };
        let full = burst.is_full();
        if matches!(next, Next::At(at) if at <= until && !full) {
            breaches.push((PacedLaw::Progress, "it asks for a moment that was served".into()));
            running.next = Next::At(until + Duration::from_nanos(1));
        }
        if running.vain > CALLS_IN_VAIN {
            breaches.push((PacedLaw::Progress, format!("{CALLS_IN_VAIN} calls brought nothing")));
        }
        self.heard.breaches.append(&mut breaches);
    }
}

fn render(packet: &Packet, burst: &Burst, start: Instant) -> Made {
    let mut bytes = burst.front(packet).to_vec();
    match &packet.payload {
        Payload::None => {}
        Payload::Shared(shared, range) => bytes.extend_from_slice(&shared[range.clone()]),
        Payload::File(source, range) => {
            let name = match source {
                Source::Asset(asset) => format!("asset {}", asset.0),
                Source::Open(_) => "file".to_owned(),
            };
            let words = format!("{name} {}..{}", range.start, range.end);
            bytes.extend_from_slice(words.as_bytes());
        }
    }
    let at = packet.at.since(start);
    Made { at, to: packet.to, channel: packet.channel, bytes }
}

/// Holds `paced source` to its laws under `count` seeds. Each run starts on a state from `fresh`,
/// with `orders` transmissions waiting or ordered by the deeds, and must make the same packets as a
/// calm run within `length`.
///
/// Deeds that move the schedule (a pause) happen at the same moments in each run; their effect must
/// not depend on the number of earlier calls.
///
/// # Panics
/// At the first breach, with the seed that replays it (`ROUNDHOUSE_SEED`).
pub fn paced_laws<C, B>(
    source: &C,
    fresh: impl Fn() -> B,
    (orders, deeds): (usize, &[Deed<'_, C::State>]),
    length: Duration,
    count: u64,
) where
    C: PacedSource,
    B: Borrow<C::State>,
{
    for seed in seeds(count) {
        if let Err((law, why)) = paced_case(source, &fresh, (orders, deeds), length, seed) {
            panic!("seed {seed} breaks the law of {law}\n{why}\n{:?}", Whims::of(seed));
        }
    }
}

/// One seed of [`paced_laws`].
///
/// # Errors
/// The first broken law, and the details.
pub fn paced_case<C, B>(
    source: &C,
    fresh: impl Fn() -> B,
    (orders, deeds): (usize, &[Deed<'_, C::State>]),
    length: Duration,
    seed: u64,
) -> Result<(), (PacedLaw, String)>
where
    C: PacedSource,
    B: Borrow<C::State>,
{
    let play = |whims, seed| play_paced(source, fresh().borrow(), deeds, length, whims, seed);
    let calm = play(Whims::CALM, 0);
    let rough = play(Whims::of(seed), seed);
    for heard in [&calm, &rough] {
        if let Some(breach) = heard.breaches.first() {
            return Err(breach.clone());
        }
    }
    for started in [calm.streams.len(), rough.streams.len()] {
        if started != orders {
            return Err((PacedLaw::Closing, format!("{started} streams were started of {orders}")));
        }
    }
    // Runs end at different points, so only packets that both runs must have made are compared.
    let settled = length.saturating_sub(Duration::from_secs(4));
    for (number, (one, other)) in calm.streams.iter().zip(&rough.streams).enumerate() {
        let fair = |made: &&Made| made.at <= settled;
        let (one, other): (Vec<_>, Vec<_>) =
            (one.iter().filter(fair).collect(), other.iter().filter(fair).collect());
        if let Some(at) = (0..one.len().max(other.len())).find(|&at| one.get(at) != other.get(at)) {
            let why = format!(
                "stream {number}, packet {at}: calm made {:?}, rough {:?}",
                one.get(at),
                other.get(at)
            );
            return Err((PacedLaw::Cutting, why));
        }
    }
    Ok(())
}
