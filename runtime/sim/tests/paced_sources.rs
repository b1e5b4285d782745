//! A paced source that keeps the laws, and one deliberate mistake for each law with the
//! proof that its checker sees it.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;

use seam::{Body, Burst, Channel, Instant, Next, PacedCx, PacedLimits, PacedSource, Share};
use sim::{Deed, Made, PacedLaw, Whims, paced_case, paced_laws, play_paced};

/// The mistakes of the paced source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    TooEarly,
    Repeats,
    AsksForThePast,
    AsksTooLate,
    KeepsOne,
    /// Gives new numbers to packets that come again.
    Renumbers,
    /// Measures from the call instead of from its schedule.
    Drifts,
    CountsCalls,
    StartsTwice,
    /// No mistake: it says bye when it is told to end.
    Polite,
    /// Says bye without an order to leave end.
    LeavesUnasked,
}

const GAP: Duration = Duration::from_millis(30);

/// Two packets at each beat, on each of three orders.
struct Ticker(Flaw);

#[derive(Default)]
struct Orders {
    taken: AtomicU32,
    paused: AtomicU32,
    ended: AtomicU32,
}

// SAFETY: atomics only, for which zero is a value.
unsafe impl Share for Orders {}

#[derive(Default)]
struct Tick {
    order: u32,
    sent: u32,
    number: u32,
    calls: u32,
    owes: bool,
    ended_at: Option<Instant>,
    start: Instant,
    paused_at: Option<Instant>,
}

impl Ticker {
    fn moment(&self, tick: &Tick, sent: u32) -> Instant {
        tick.start + GAP * (sent / 2)
    }

    fn push(&self, tick: &Tick, sent: u32, burst: &mut Burst) {
        let head = match self.0 {
            Flaw::Renumbers => tick.number,
            Flaw::CountsCalls => tick.calls,
            _ => sent,
        };
        let head = [head.to_be_bytes(), tick.order.to_be_bytes()].concat();
        let at = match self.0 {
            Flaw::TooEarly if sent == 40 => self.moment(tick, sent) + Duration::from_secs(9),
            _ => self.moment(tick, sent),
        };
        let to = SocketAddr::from(([10, 0, 0, 1], 5004));
        burst.push(at, to, Channel::Rtp, &head, Body::Bytes(b"tick"));
    }
}

impl PacedSource for Ticker {
    type State = Orders;
    type Stream = Tick;

    fn limits(&self) -> PacedLimits {
        PacedLimits::streams(100)
    }

    fn start(&self, cx: &PacedCx<'_, Orders>) -> Option<(Tick, Next)> {
        let take = |taken| (taken < 3).then_some(taken + 1);
        let mut order = cx.state.taken.fetch_update(Relaxed, Relaxed, take).ok()?;
        if self.0 == Flaw::StartsTwice && cx.worker.slot() == 1 {
            cx.state.taken.store(order, Relaxed);
            order += 100;
        }
        Some((Tick { order, start: cx.now, ..Tick::default() }, Next::At(cx.now)))
    }

    fn due(
        &self,
        cx: &PacedCx<'_, Orders>,
        tick: &mut Tick,
        until: Instant,
        burst: &mut Burst,
    ) -> Next {
        tick.calls += 1;
        let is_told = self.0 == Flaw::Polite && cx.state.ended.load(Relaxed) == 1;
        if is_told || (self.0 == Flaw::LeavesUnasked && tick.owes) {
            let to = SocketAddr::from(([10, 0, 0, 1], 5005));
            let at = tick.ended_at.unwrap_or(cx.now).min(until);
            burst.push(at, to, Channel::Rtcp, b"bye", Body::Bytes(&[]));
            return Next::Done;
        }
        while self.moment(tick, tick.sent) <= until && !burst.is_full() {
            let sent = match self.0 {
                Flaw::Repeats if tick.sent % 10 == 9 => tick.sent - 4,
                _ => tick.sent,
            };
            self.push(tick, sent, burst);
            tick.sent += 1;
            tick.number += 1;
            if self.0 == Flaw::Drifts {
                let gone = GAP * (tick.sent / 2);
                tick.start = Instant::from_ns(cx.now.ns().saturating_sub(gone.as_nanos() as u64));
            }
        }
        let next = self.moment(tick, tick.sent);
        match self.0 {
            Flaw::AsksForThePast if tick.sent > 20 => Next::At(until),
            Flaw::AsksTooLate if tick.sent > 20 => Next::At(next + GAP),
            _ => Next::At(next),
        }
    }

    fn withdrawn(&self, _cx: &PacedCx<'_, Orders>, tick: &mut Tick, unsent: usize) {
        let unsent = unsent as u32;
        tick.owes |= unsent > 0;
        tick.sent -= if self.0 == Flaw::KeepsOne { unsent - 1 } else { unsent };
    }

    fn rung(&self, cx: &PacedCx<'_, Orders>, tick: &mut Tick) -> Next {
        if cx.state.ended.load(Relaxed) == 1 {
            let at = *tick.ended_at.get_or_insert(cx.now);
            return if self.0 == Flaw::Polite { Next::At(at) } else { Next::Done };
        }
        let is_paused = cx.state.paused.load(Relaxed) == 1;
        match (is_paused, tick.paused_at) {
            (true, None) => tick.paused_at = Some(cx.now),
            (false, Some(since)) => {
                tick.start = tick.start + cx.now.since(since);
                tick.paused_at = None;
            }
            _ => {}
        }
        if is_paused { Next::Parked } else { Next::At(self.moment(tick, tick.sent)) }
    }

    fn close(&self, _: &PacedCx<'_, Orders>, _: Tick) {}
}

const LENGTH: Duration = Duration::from_secs(12);

#[test]
fn a_correct_source_keeps_the_laws_under_every_whim() {
    paced_laws(&Ticker(Flaw::None), Orders::default, (3, &[]), LENGTH, 60);
}

#[test]
fn a_pause_moves_the_schedule_and_an_end_ends_it() {
    let pause = |orders: &Orders| orders.paused.store(1, Relaxed);
    let play = |orders: &Orders| orders.paused.store(0, Relaxed);
    let end = |orders: &Orders| orders.ended.store(1, Relaxed);
    let at = Duration::from_millis;
    let deeds = [
        Deed { at: at(1_000), act: &pause },
        Deed { at: at(3_500), act: &play },
        Deed { at: at(5_000), act: &end },
    ];
    let orders = Orders::default();
    let heard = play_paced(&Ticker(Flaw::None), &orders, &deeds, LENGTH, Whims::CALM, 0);
    assert_eq!(heard.breaches, []);
    assert_eq!(heard.streams.len(), 3);
    for made in &heard.streams {
        // Two at each of the beats 0, 30 .. 990 ms, then from 3510 ms on until the end.
        let beats: Vec<u128> = made.iter().map(|made| made.at.as_millis()).collect();
        assert_eq!(beats[66..70], [990, 990, 3_520, 3_520]);
        assert_eq!(beats.last(), Some(&4_990));
        assert!(beats.is_sorted());
    }
    for seed in 0..30 {
        let (source, orders) = (Ticker(Flaw::None), Orders::default());
        let heard = play_paced(&source, &orders, &deeds, LENGTH, Whims::of(seed), seed);
        assert_eq!(heard.breaches, [], "seed {seed}");
    }
}

#[test]
fn a_stopped_stream_sends_bye_instead_of_owed_packets() {
    let end = |orders: &Orders| orders.ended.store(1, Relaxed);
    let deeds = [Deed { at: Duration::from_millis(5_000), act: &end }];
    for seed in 0..60 {
        let (source, orders) = (Ticker(Flaw::Polite), Orders::default());
        let heard = play_paced(&source, &orders, &deeds, LENGTH, Whims::of(seed), seed);
        assert_eq!(heard.breaches, [], "seed {seed}");
        if Whims::of(seed).stalls > 0 {
            // Its clock passes the end of the run before the order comes.
            continue;
        }
        let last = |made: &Vec<Made>| made.last().is_some_and(|it| it.channel == Channel::Rtcp);
        assert!(heard.streams.iter().all(last), "seed {seed}");
    }
}

/// The laws that a mistake breaks, over some seeds.
fn broken(flaw: Flaw) -> Vec<PacedLaw> {
    let case = |seed| paced_case(&Ticker(flaw), Orders::default, (3, &[]), LENGTH, seed);
    (0..30).filter_map(|seed| case(seed).err()).map(|(law, _)| law).collect()
}

#[test]
fn each_mistake_is_seen() {
    let check = |flaw, law| {
        let broken = broken(flaw);
        assert!(broken.contains(&law), "{flaw:?} must break {law:?}, and broke {broken:?}");
    };
    assert_eq!(broken(Flaw::None), []);
    check(Flaw::TooEarly, PacedLaw::Time);
    check(Flaw::Repeats, PacedLaw::Order);
    check(Flaw::AsksForThePast, PacedLaw::Progress);
    check(Flaw::AsksTooLate, PacedLaw::Progress);
    check(Flaw::KeepsOne, PacedLaw::Withdrawal);
    check(Flaw::Renumbers, PacedLaw::Withdrawal);
    check(Flaw::LeavesUnasked, PacedLaw::Withdrawal);
    check(Flaw::CountsCalls, PacedLaw::Cutting);
    check(Flaw::StartsTwice, PacedLaw::Closing);
    assert!(!broken(Flaw::Drifts).is_empty());
}
