//! One thread for each stream: read, send, sleep (`plain`, `plain-abs`).
//!
//! `plain` sleeps for the gap between two packets, so reading and sending lengthen each gap.
//! `plain-abs` sleeps until the due time of the next packet, which is one flag of the same call
//! (`TIMER_ABSTIME`); a late stream catches up as on a wheel.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use engines::eprintln;
use memory::Phase;
use seam::{Burst, Channel, Effects, Instant, Next, PacedSource};

use super::catch_up::CatchUp;
use super::context::StreamContext;
use crate::senders::read_then_send::ReadThenSend;

/// The longest sleep between two checks of the bell, and so the longest delay of a pause.
const NAP: Duration = Duration::from_millis(250);
/// The interval at which the phase is checked while the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Counts rings of the bell, for threads that sleep through a ring.
#[derive(Default)]
struct Rings {
    count: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Rings {
    fn ring(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_all();
    }

    /// Waits until the count differs from `heard`, or for a nap.
    fn wait(&self, heard: u64) {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if self.count.load(Ordering::Acquire) == heard {
            drop(self.changed.wait_timeout(held, NAP));
        }
    }
}

/// Sends until the server ends. With `absolute`, threads sleep until a moment, otherwise for a
/// time.
pub(super) fn serve<P: PacedSource>(
    context: &StreamContext<'_, P>,
    absolute: bool,
) -> io::Result<()> {
    let (rings, running) = (Rings::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let mut effects = context.effects();
        take_orders(context, scope, &rings, &running, absolute, &mut effects);
        context.ready();
        let mut seen = Phase::Ready;
        loop {
            let phase = context.phase();
            if phase != seen {
                seen = phase;
                rings.ring();
            }
            let is_idle = running.load(Ordering::Acquire) == 0;
            if context.is_over(is_idle) {
                // The scope waits for the threads, which check the phase themselves.
                return Ok(());
            }
            let timeout = if phase <= Phase::Ready { context.nap() } else { Some(LOOK_EVERY) };
            let [orders, rtp, rtcp, groups] = context.wait(None, timeout, phase)?;
            let now = context.now();
            context.turn(now);
            for (is_readable, channel) in [(rtp, Channel::Rtp), (rtcp, Channel::Rtcp)] {
                if is_readable {
                    context.receive(&context.cx(now, &effects), channel);
                }
            }
            if groups {
                context.receive_from_groups(&context.cx(now, &effects));
            }
            if orders {
                context.entry.orders.clear();
                rings.ring();
            }
            take_orders(context, scope, &rings, &running, absolute, &mut effects);
            context.print_notes(&effects);
        }
    })
}

/// Starts a thread for each new order.
fn take_orders<'scope, 'env, P: PacedSource>(
    context: &'env StreamContext<'_, P>,
    scope: &'scope Scope<'scope, 'env>,
    rings: &'env Rings,
    running: &'env AtomicUsize,
    absolute: bool,
    effects: &mut Effects,
) {
    loop {
        let cx = context.cx(context.now(), effects);
        let Some((stream, next)) = context.start(running.load(Ordering::Acquire), &cx) else {
            return;
        };
        running.fetch_add(1, Ordering::AcqRel);
        let builder = thread::Builder::new().name("stream".to_owned());
        let work = move || {
            // The worker itself got the rank, so only a changed limit can refuse it here. The
            // stream continues, and the reason is printed.
            if let Err(refused) = context.rank.take() {
                eprintln!("a thread for a transmission: {refused}");
            }
            StreamThread { context, rings, absolute, effects: context.effects() }
                .play(stream, next);
            running.fetch_sub(1, Ordering::AcqRel);
            // Another order may have waited for this room.
            context.entry.orders.ring();
        };
        if let Err(error) = builder.spawn_scoped(scope, work) {
            // The stream is lost with its thread; the supervisor restarts the worker.
            eprintln!("a thread for a transmission cannot be started: {error}");
            running.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

struct StreamThread<'d, 'a, P: PacedSource> {
    context: &'d StreamContext<'a, P>,
    rings: &'d Rings,
    absolute: bool,
    effects: Effects,
}

impl<P: PacedSource> StreamThread<'_, '_, P> {
    fn play(&mut self, mut stream: P::Stream, mut next: Next) {
        let context = self.context;
        let mut burst = Burst::new(super::context::BURST_MAX);
        burst.set_class(context.source.policy(&stream).class);
        let mut transmit = ReadThenSend::default();
        let mut rings_seen = self.rings.count.load(Ordering::Acquire);
        let mut catch_up = CatchUp::default();
        // A relative sleep lasts as long as the schedule's gap between two calls. The first sleep,
        // and the first after a pause, last until their moment.
        let mut called: Option<Instant> = None;
        let mut wake = Instant::NEVER;
        let mut planned = Next::Parked;
        let goes_on =
            |stream: &P::Stream| context.phase() < Phase::Forced && !context.is_inherited(stream);
        while next != Next::Done && goes_on(&stream) {
            let count = self.rings.count.load(Ordering::Acquire);
            if count != rings_seen {
                rings_seen = count;
                let changed =
                    context.source.rung(&context.cx(context.now(), &self.effects), &mut stream);
                if changed != next {
                    (called, catch_up, next) = (None, CatchUp::default(), changed);
                }
                continue;
            }
            let Next::At(asked) = next else {
                self.rings.wait(rings_seen);
                continue;
            };
            if planned != next {
                planned = next;
                wake = match called {
                    Some(called) if !self.absolute => context.now() + asked.since(called),
                    _ => catch_up.wake(asked, context.now(), Duration::ZERO),
                };
            }
            if !self.sleep(wake) {
                continue;
            }
            let now = context.now();
            let cx = context.cx(now, &self.effects);
            // With relative sleeps the stream is asked only for the moment that it named, however
            // late the call is: that is how it drifts.
            let until = match self.absolute {
                true => catch_up.until(asked, now, Duration::ZERO),
                false => asked,
            };
            if until < now && self.absolute {
                context.stats.caught_up.add(1);
            }
            next = context.source.due(&cx, &mut stream, until, &mut burst);
            called = Some(asked);
            context.send(&mut transmit, &mut burst);
            context.print_notes(&self.effects);
        }
        context.close(&context.cx(context.now(), &self.effects), stream);
    }

    /// Sleeps until `wake`, or for a nap; true if the moment has come.
    fn sleep(&self, wake: Instant) -> bool {
        let now = self.context.now();
        let left = wake.since(now);
        if left > NAP {
            thread::sleep(NAP);
            return false;
        }
        if self.absolute {
            sys::clock::sleep_until(wake.ns())
        } else {
            thread::sleep(left)
        }
        true
    }
}
