//! One thread for all streams: a timer wheel, one timerfd set to an absolute moment, and one burst
//! of all due packets.

mod wheel;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::Phase;
use seam::{AtShutdown, Burst, Channel, Effects, Instant, Next, PacedSource};
use sys::epoll::{Epoll, Events, Interest};
use sys::timerfd::TimerFd;

use super::catch_up;
use super::context::{BURST_MAX, StreamContext};
use crate::senders::Transmit;
use wheel::Wheel;

/// The minimum time between two checks of all streams for changed orders. New orders are taken at
/// once; a pause may take this long.
const LOOK_EVERY: Duration = Duration::from_millis(5);

const TIMER: u64 = 0;
const ORDERS: u64 = 1;
const STOP: u64 = 2;
const RTP: u64 = 3;
const RTCP: u64 = 4;
const EARS: u64 = 5;

struct Running<P: PacedSource> {
    stream: P::Stream,
    /// The moment at which the stream wants to be called; `NEVER` while it is parked.
    asked: Instant,
    /// The stamp of its valid entry in the wheel.
    stamp: u32,
}

struct Worker<'d, 'a, P: PacedSource> {
    context: &'d StreamContext<'a, P>,
    transmit: &'d mut dyn Transmit,
    running: Vec<Option<Running<P>>>,
    vacant: Vec<u32>,
    wheel: Wheel,
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
    epoll.add(context.groups.fd(), Interest::READ, EARS)?;
    let mut events = Events::with_capacity(8);
    let mut worker = Worker::new(context, transmit);
    worker.take_orders();
    context.ready();
    let mut is_stopping = false;
    loop {
        worker.bequeath();
        if context.is_over(worker.is_idle()) {
            worker.close_all();
            return Ok(());
        }
        if context.phase() > Phase::Ready && !is_stopping {
            // The descriptor stays readable from here on, so each turn checks the phase instead.
            epoll.remove(context.entry.stop)?;
            is_stopping = true;
        }
        let wakes_at = [worker.wheel.next(), worker.look_at].into_iter().flatten().min();
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
                RTP => worker.receive(Channel::Rtp, event.error),
                RTCP => worker.receive(Channel::Rtcp, event.error),
                EARS => context.receive_from_groups(&context.cx(worker.now, &worker.effects)),
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
            burst: Burst::new(BURST_MAX),
            effects: context.effects(),
            now,
            look_at: None,
            looked: Instant::ZERO,
        }
    }

    /// Whether the server waits for none of the streams.
    fn is_idle(&self) -> bool {
        let mut running = self.running.iter().flatten();
        !running.any(|it| self.context.at_shutdown(&it.stream) != AtShutdown::Stop)
    }

    /// Receives the datagrams of a socket, and the kernel's notices about sends, if there are any.
    fn receive(&mut self, channel: Channel, has_notices: bool) {
        if has_notices {
            self.transmit.hear_notices(self.context.sockets().of(channel), channel);
        }
        self.context.receive(&self.context.cx(self.now, &self.effects), channel);
    }

    /// Takes new orders.
    fn take_orders(&mut self) {
        loop {
            let running = self.running.len() - self.vacant.len();
            let cx = self.context.cx(self.now, &self.effects);
            let Some((stream, next)) = self.context.start(running, &cx) else { return };
            let key = self.vacant.pop().unwrap_or_else(|| {
                self.running.push(None);
                self.running.len() as u32 - 1
            });
            let asked = Instant::NEVER;
            self.running[key as usize] = Some(Running { stream, asked, stamp: 0 });
            self.obey(key, next, self.now, self.now);
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
            self.obey(key, next, self.now, self.now);
        }
        // A stream that ended made room.
        self.take_orders();
    }

    /// Sends the due packets.
    fn turn(&mut self) {
        let due: Vec<(u32, u32)> = self.wheel.advance(self.now).collect();
        for (key, stamp) in due {
            self.call(key, stamp);
        }
        self.context.send(self.transmit, &mut self.burst);
    }

    /// Calls a stream whose moment has come.
    fn call(&mut self, key: u32, stamp: u32) {
        let Some(running) = &mut self.running[key as usize] else { return };
        if running.stamp != stamp || running.asked == Instant::NEVER {
            return;
        }
        let asked = running.asked;
        let until = catch_up::until(asked, self.now);
        if catch_up::is_late(asked, self.now) {
            self.context.stats.caught_up.add(1);
        }
        let cx = self.context.cx(self.now, &self.effects);
        loop {
            let next = self.context.source.due(&cx, &mut running.stream, until, &mut self.burst);
            if self.burst.is_full() {
                self.context.send(self.transmit, &mut self.burst);
                if matches!(next, Next::At(more) if more <= until) {
                    continue;
                }
            }
            break self.obey(key, next, asked, self.now);
        }
    }

    /// Carries out the answer of a stream: wakes it later, parks it, or closes it.
    fn obey(&mut self, key: u32, next: Next, asked: Instant, now: Instant) {
        let place = &mut self.running[key as usize];
        let Some(running) = place else { return };
        running.stamp = running.stamp.wrapping_add(1);
        match next {
            Next::At(next) => {
                running.asked = next;
                self.wheel.insert(catch_up::wake(asked, now, next), key, running.stamp);
            }
            Next::Parked => running.asked = Instant::NEVER,
            Next::Done => {
                let stream = place.take().expect("looked at just now").stream;
                self.vacant.push(key);
                let cx = self.context.cx(now, &self.effects);
                self.context.close(&cx, stream);
            }
        }
    }

    /// Ends the streams that a successor continues.
    fn bequeath(&mut self) {
        if self.context.phase() != Phase::Leaving {
            return;
        }
        for key in 0..self.running.len() as u32 {
            let running = self.running[key as usize].as_ref();
            if running.is_some_and(|running| self.context.is_inherited(&running.stream)) {
                self.obey(key, Next::Done, self.now, self.now);
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
