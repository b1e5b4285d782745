//! One thread for all streams: a timer wheel, one timerfd set to an absolute moment, and one burst
//! of all due packets.
//!
//! A turn takes the streams whose moment has come from the wheel, calls them by class and lateness,
//! collects their packets in one burst, and sends it when it is full or nothing else is due. Each
//! answer of a stream (`Next`) goes back into the wheel with a new stamp; an older entry of the
//! same stream is recognised by its stamp and ignored, so the wheel needs no removal. Streams of
//! pictures share wake-ups every 5 ms, sound is called to the moment. A late stream catches up at
//! the pace that `catch_up` allows. Turns are bounded in time, so orders and reports are read under
//! any load.

#[cfg(test)]
mod stall_tests;
mod wheel;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::Phase;
use seam::{Burst, Channel, Effects, Instant, Next, PacedSource, PacketClass};
use sys::epoll::{Epoll, Events, Interest};
use sys::timerfd::TimerFd;

use super::catch_up::CatchUp;
use super::classes::Ready;
use super::context::{BURST_MAX, StreamContext};
use crate::senders::Transmit;
use wheel::Wheel;

/// The minimum time between two checks of all streams for changed orders. New orders are taken at
/// once; a pause may take this long.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a turn sends before it checks its descriptors again, however many streams are due.
const TURN_MAX: Duration = Duration::from_millis(5);
/// Streams of pictures that are in time wake together, at multiples of this span: a wake-up costs
/// several packets, and a player buffers pictures for much longer. Packets of a stream that are due
/// within it leave as one message where the kernel segments.
const TICK: Duration = Duration::from_millis(5);

/// How much later than its moment a stream of this class may be called.
fn tick(class: PacketClass) -> Duration {
    if class == PacketClass::Audio { Duration::ZERO } else { TICK }
}

const TIMER: u64 = 0;
const ORDERS: u64 = 1;
const STOP: u64 = 2;
const RTP: u64 = 3;
const RTCP: u64 = 4;
const LISTENERS: u64 = 5;

struct Running<P: PacedSource> {
    stream: P::Stream,
    /// The moment at which the stream wants to be called; `NEVER` while it is parked.
    asked: Instant,
    /// The stamp of its valid entry in the wheel.
    stamp: u32,
    class: PacketClass,
    catch_up: CatchUp,
}

struct Worker<'d, 'a, P: PacedSource> {
    context: &'d StreamContext<'a, P>,
    transmit: &'d mut dyn Transmit,
    running: Vec<Option<Running<P>>>,
    vacant: Vec<u32>,
    wheel: Wheel,
    /// The streams whose moment has come.
    ready: Ready,
    burst: Burst,
    effects: Effects,
    now: Instant,
    /// When to check every stream, after the bell rang.
    look_at: Option<Instant>,
    looked: Instant,
}

/// Sends until the server ends.
pub(super) fn serve<P: PacedSource>(
    context: &StreamContext<'_, P>,
    transmit: &mut dyn Transmit,
) -> io::Result<()> {
    let timer = TimerFd::new()?;
    let epoll = Epoll::new()?;
    epoll.add(&timer, Interest::READ, TIMER)?;
    epoll.add(context.entry.orders, Interest::READ, ORDERS)?;
    epoll.add(context.entry.stop, Interest::READ, STOP)?;
    epoll.add(context.sockets().of(Channel::Rtp).as_fd(), Interest::READ, RTP)?;
    epoll.add(context.sockets().of(Channel::Rtcp).as_fd(), Interest::READ, RTCP)?;
    epoll.add(context.groups.fd(), Interest::READ, LISTENERS)?;
    let mut events = Events::with_capacity(8);
    let mut worker = Worker::new(context, transmit);
    worker.take_orders();
    context.ready();
    let mut is_stopping = false;
    loop {
        worker.hand_over();
        if context.is_over(worker.count() == 0) {
            worker.close_all();
            return Ok(());
        }
        if context.phase() > Phase::Ready && !is_stopping {
            // The descriptor stays readable from here on, so each turn checks the phase instead.
            epoll.remove(context.entry.stop)?;
            is_stopping = true;
        }
        let left_over = (!worker.ready.is_empty()).then_some(worker.now);
        let wakes_at = [worker.wheel.next(), worker.look_at, left_over].into_iter().flatten().min();
        timer.set(wakes_at.map(Instant::ns))?;
        // While the server ends, its phase changes without a wake-up.
        let nap = if is_stopping { Some(LOOK_EVERY) } else { context.nap() };
        epoll.wait(&mut events, nap)?;
        worker.now = context.now();
        if nap.is_some() && !is_stopping {
            worker.take_orders();
        }
        context.turn(worker.now);
        for event in events.iter() {
            match event.key {
                ORDERS => {
                    context.entry.orders.clear();
                    worker.take_orders();
                    let soon = worker.looked + LOOK_EVERY;
                    worker.look_at = Some(worker.look_at.map_or(soon, |at| at.min(soon)));
                }
                RTP => worker.receive(Channel::Rtp),
                RTCP => worker.receive(Channel::Rtcp),
                LISTENERS => context.receive_from_groups(&context.cx(worker.now, &worker.effects)),
                _ => {}
            }
        }
        worker.look();
        worker.turn();
        if worker.effects.is_filled() {
            context.print_notes(&worker.effects);
        }
    }
}

impl<'d, 'a, P: PacedSource> Worker<'d, 'a, P> {
    fn new(context: &'d StreamContext<'a, P>, transmit: &'d mut dyn Transmit) -> Self {
        let now = context.now();
        Worker {
            context,
            transmit,
            running: Vec::new(),
            vacant: Vec::new(),
            wheel: Wheel::new(now),
            ready: Ready::default(),
            burst: Burst::new(BURST_MAX),
            effects: context.effects(),
            now,
            look_at: None,
            looked: Instant::ZERO,
        }
    }

    fn count(&self) -> usize {
        self.running.len() - self.vacant.len()
    }

    fn receive(&self, channel: Channel) {
        self.context.receive(&self.context.cx(self.now, &self.effects), channel);
    }

    fn take_orders(&mut self) {
        loop {
            let cx = self.context.cx(self.now, &self.effects);
            let Some((stream, next)) = self.context.start(self.count(), &cx) else { return };
            let key = self.vacant.pop().unwrap_or_else(|| {
                self.running.push(None);
                self.running.len() as u32 - 1
            });
            let (asked, class) = (Instant::NEVER, self.context.source.policy(&stream).class);
            let catch_up = CatchUp::default();
            self.running[key as usize] = Some(Running { stream, asked, stamp: 0, class, catch_up });
            self.apply(key, next);
        }
    }

    /// Checks every stream, if that is due after a ring.
    fn look(&mut self) {
        if self.look_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.look_at = None;
        self.looked = self.now;
        for key in 0..self.running.len() as u32 {
            let Some(running) = &mut self.running[key as usize] else { continue };
            let cx = self.context.cx(self.now, &self.effects);
            let next = self.context.source.rung(&cx, &mut running.stream);
            if next == Next::At(running.asked) {
                // The order is unchanged. The stream keeps its wake-up, which catching up may have
                // delayed.
                continue;
            }
            // A new order begins in time, wherever the old one was.
            running.catch_up = CatchUp::default();
            self.apply(key, next);
        }
        // A stream that ended made room.
        self.take_orders();
    }

    /// Sends the due packets, the most urgent class first. After each full burst the streams that
    /// have become due meanwhile take their place among those that wait.
    fn turn(&mut self) {
        let until = self.now + TURN_MAX;
        self.admit();
        while let Some((key, stamp)) = self.ready.pop() {
            // Where packets are late, urgent ones do not wait until a burst is full.
            let mut has_sent = self.is_behind(key);
            if has_sent {
                self.context.send(self.transmit, &mut self.burst);
            }
            has_sent |= self.call(key, stamp);
            if has_sent {
                self.now = self.context.now();
                if self.now >= until {
                    break;
                }
                self.admit();
            }
        }
        self.context.send(self.transmit, &mut self.burst);
    }

    /// Whether the stream is late, and the burst ends with packets of a more urgent class.
    fn is_behind(&self, key: u32) -> bool {
        let running = self.running[key as usize].as_ref();
        let (Some(running), Some(last)) = (running, self.burst.packets().last()) else {
            return false;
        };
        self.context.classes.ordered
            && last.class < running.class
            && running.catch_up.is_behind(running.asked, self.now, tick(running.class))
    }

    /// Queues the streams whose moment has come.
    fn admit(&mut self) {
        for (key, stamp) in self.wheel.advance(self.now) {
            let Some(running) = &self.running[key as usize] else { continue };
            if running.stamp == stamp && running.asked != Instant::NEVER {
                let (class, asked) = (running.class, running.asked);
                self.ready.push(&self.context.classes, class, asked, (key, stamp));
            }
        }
    }

    /// Calls a stream whose moment has come; true if a burst was sent.
    fn call(&mut self, key: u32, stamp: u32) -> bool {
        let Some(running) = &mut self.running[key as usize] else { return false };
        if running.stamp != stamp || running.asked == Instant::NEVER {
            return false;
        }
        // Packets that are too late to be sent are not waited for.
        let oldest = self.context.classes.oldest(running.class, self.now);
        let asked = running.asked.max(oldest);
        let until = running.catch_up.until(asked, self.now, tick(running.class));
        let mut has_sent = false;
        self.burst.set_class(running.class);
        if until < self.now {
            self.context.stats.caught_up.add(1);
        }
        let cx = self.context.cx(self.now, &self.effects);
        loop {
            let next = self.context.source.due(&cx, &mut running.stream, until, &mut self.burst);
            if self.burst.is_full() {
                self.context.send(self.transmit, &mut self.burst);
                has_sent = true;
                if matches!(next, Next::At(more) if more <= until) {
                    continue;
                }
            }
            self.apply(key, next);
            return has_sent;
        }
    }

    /// Carries out the answer of a stream: wakes it later, parks it, or closes it.
    fn apply(&mut self, key: u32, next: Next) {
        let place = &mut self.running[key as usize];
        let Some(running) = place else { return };
        running.stamp = running.stamp.wrapping_add(1);
        match next {
            Next::At(next) => {
                running.asked = next;
                let wake = running.catch_up.wake(next, self.now, tick(running.class));
                self.wheel.insert(wake, key, running.stamp);
            }
            Next::Parked => running.asked = Instant::NEVER,
            Next::Done => {
                let stream = place.take().expect("looked at just now").stream;
                self.vacant.push(key);
                let cx = self.context.cx(self.now, &self.effects);
                self.context.close(&cx, stream);
            }
        }
    }

    /// Ends the streams that a successor continues.
    fn hand_over(&mut self) {
        if self.context.phase() != Phase::Leaving {
            return;
        }
        for key in 0..self.running.len() as u32 {
            let running = self.running[key as usize].as_ref();
            if running.is_some_and(|running| self.context.is_inherited(&running.stream)) {
                self.apply(key, Next::Done);
            }
        }
    }

    fn close_all(&mut self) {
        for place in &mut self.running {
            if let Some(running) = place.take() {
                let cx = self.context.cx(self.now, &self.effects);
                self.context.close(&cx, running.stream);
            }
        }
    }
}
