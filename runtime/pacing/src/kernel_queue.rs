//! Hands packets to the kernel before they are due: to a queue that the kernel's timer interrupt
//! empties (`kernel-rtp`), or to a chain of io_uring (`uring-chain`).
//!
//! All streams share one queue: their packets are merged by due time and handed over together. A
//! chain for each stream would cost a wake-up for each packet; merged, all packets due in a slot
//! share one. While packets wait in the kernel, no thread of this process has to run, so other load
//! does not make them late.
//!
//! A queue cannot give back a single packet. A pause, a seek or a new stream empties the whole
//! queue; every stream is told how many of its packets never left ([`PacedSource::withdrawn`]), and
//! the window is filled again. This module knows which packets have left, but not how late they
//! were.

mod fill;

use std::io;
use std::time::Duration;

use memory::Phase;
use seam::{Channel, Effects, Instant, Next, PacedSource};

use crate::catch_up::{CatchUpLine, SLACK};
use crate::context::StreamContext;
use crate::senders::queue::{Queue, Waiting};
use crate::senders::send_plan::SendPlan;

/// The part of a window for which the streams are asked at a time.
const PART: Duration = Duration::from_millis(20);
/// The interval at which the phase is checked while the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The length of the window while orders that refill it keep arriving, and for how long after the
/// last.
const RESTLESS: Duration = Duration::from_millis(100);
const CALM: Duration = Duration::from_millis(500);
/// A message that has not left this long after its due time is lost, or the queue is late.
const LOST: Duration = Duration::from_millis(150);

struct Running<P: PacedSource> {
    stream: P::Stream,
    next: Next,
    id: u32,
    /// The number of its packets in the queue.
    waiting: usize,
}

struct Worker<'d, 'a, P: PacedSource> {
    context: &'d StreamContext<'a, P>,
    queue: &'d mut dyn Queue,
    running: Vec<Running<P>>,
    ids: u32,
    waiting: Waiting,
    /// The moment up to which every stream was asked.
    horizon: Instant,
    /// While packets leave at twice their rate.
    line: Option<CatchUpLine>,
    /// Since when packets have been taken back for an order; `None` once the queue is refilled.
    taking_back: Option<Instant>,
    /// Until when orders wait, because a queue that is only refilled sends nothing.
    rest_until: Instant,
    has_orders: bool,
    plan: SendPlan,
    effects: Effects,
    now: Instant,
}

/// Sends until the server ends.
pub(super) fn serve<P: PacedSource>(
    context: &StreamContext<'_, P>,
    queue: &mut dyn Queue,
) -> io::Result<()> {
    let (now, plan) = (context.now(), SendPlan::new(queue.packets_max()));
    let mut worker = Worker {
        context,
        queue,
        running: Vec::new(),
        ids: 0,
        waiting: Waiting::default(),
        horizon: now,
        line: None,
        taking_back: None,
        rest_until: Instant::ZERO,
        has_orders: false,
        plan,
        effects: context.effects(),
        now,
    };
    worker.take_orders();
    context.ready();
    loop {
        worker.now = context.now();
        worker.land()?;
        let phase = context.phase();
        if phase >= Phase::Forced {
            worker.take_back()?;
            worker.running.iter_mut().for_each(|running| running.next = Next::Done);
        }
        worker.hand_over_streams()?;
        worker.fill()?;
        worker.rest();
        worker.reap();
        if context.is_over(worker.running.is_empty()) {
            return Ok(());
        }
        worker.wait(phase)?;
        if worker.effects.is_filled() {
            context.print_notes(&worker.effects);
        }
    }
}

impl<P: PacedSource> Worker<'_, '_, P> {
    fn has_room(&self) -> bool {
        self.queue.is_counted() || self.waiting.is_empty()
    }

    /// The span for which packets are handed over ahead. The window is short while orders keep
    /// arriving, because each of them refills it.
    fn window(&self) -> Duration {
        let window = self.context.limits.ahead.min(self.queue.window());
        let is_calm = self.now >= self.rest_until + CALM;
        if is_calm { window } else { window.min(RESTLESS) }
    }

    /// The earliest moment for which a stream asked.
    fn soonest(&self) -> Option<Instant> {
        let wanted = self.running.iter().filter_map(|running| match running.next {
            Next::At(at) => Some(at),
            Next::Parked | Next::Done => None,
        });
        wanted.min()
    }

    fn wait(&mut self, phase: Phase) -> io::Result<()> {
        let context = self.context;
        let half = self.window() / 2;
        // Wake half a window before more packets are due, and when the last message has left.
        let refill = self.soonest().map(|at| at.max(self.horizon).since(context.now() + half));
        let refill = refill.filter(|_| self.has_room());
        let landed = self.waiting.span().map(|(_, last)| last.since(context.now()) + SLACK);
        let mut timeout = refill.into_iter().chain(landed).min();
        if let Some(nap) = context.nap() {
            timeout = Some(timeout.unwrap_or(nap).min(nap));
        }
        if phase > Phase::Ready {
            timeout = Some(timeout.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        }
        if self.has_orders {
            let rest = self.rest_until.since(context.now());
            timeout = Some(timeout.unwrap_or(rest).min(rest));
        }
        // A turn for less than a slot of the wheel is not worth its cost.
        let timeout = timeout.map(|timeout| timeout.max(SLACK / 2));
        let [orders, rtp, rtcp, groups] = context.wait(self.queue.watched(), timeout, phase)?;
        self.now = context.now();
        context.turn(self.now);
        if rtp {
            context.receive(&context.cx(self.now, &self.effects), Channel::Rtp);
        }
        if rtcp {
            context.receive(&context.cx(self.now, &self.effects), Channel::Rtcp);
        }
        if groups {
            context.receive_from_groups(&context.cx(self.now, &self.effects));
        }
        if orders {
            context.entry.orders.clear();
        }
        self.has_orders |= orders || context.nap().is_some();
        if self.has_orders && self.now >= self.rest_until {
            self.has_orders = false;
            self.apply_orders()?;
        }
        Ok(())
    }

    /// Makes the next order wait as long as the last refill took, so that many new streams do not
    /// hold up the others.
    fn rest(&mut self) {
        if let Some(began) = self.taking_back.take() {
            let now = self.context.now();
            self.rest_until = now + now.since(began);
        }
    }

    /// Takes new orders; true if a new stream has packets due before the waiting ones.
    fn take_orders(&mut self) -> bool {
        let mut soon = false;
        let (context, cx) = (self.context, self.context.cx(self.now, &self.effects));
        while let Some((stream, next)) = context.start(self.running.len(), &cx) {
            soon |= matches!(next, Next::At(at) if at < self.horizon);
            self.ids = self.ids.wrapping_add(1);
            self.running.push(Running { stream, next, id: self.ids, waiting: 0 });
        }
        soon
    }

    fn apply_orders(&mut self) -> io::Result<()> {
        let soon = self.take_orders();
        let (context, cx) = (self.context, self.context.cx(self.now, &self.effects));
        let has_news = |it: &Running<P>| context.source.has_news(&cx, &it.stream);
        let news: Vec<bool> = self.running.iter().map(has_news).collect();
        if soon || news.contains(&true) {
            self.taking_back = (!self.waiting.is_empty()).then_some(self.now);
            self.take_back()?;
        }
        for (running, _) in self.running.iter_mut().zip(news).filter(|(_, has_news)| *has_news) {
            let cx = self.context.cx(self.now, &self.effects);
            running.next = self.context.source.rung(&cx, &mut running.stream);
        }
        Ok(())
    }

    /// Counts the messages that have left.
    fn land(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let left = self.queue.left()?;
        let running = &mut self.running;
        let count = self.waiting.land(left, |owner, packets| settle(running, owner, packets));
        self.context.count(&count);
        if !self.queue.is_counted() {
            // Packets that a broken chain did not send have failed.
            return if self.queue.has_ended() { self.give_back(Instant::NEVER) } else { Ok(()) };
        }
        match self.waiting.span() {
            Some((first, _)) if first + LOST < self.now => self.take_back(),
            _ => Ok(()),
        }
    }

    /// Empties the queue and tells the streams.
    fn take_back(&mut self) -> io::Result<()> {
        self.horizon = self.now;
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.queue.purge()?;
        let lost = self.now.ns().saturating_sub(LOST.as_nanos() as u64);
        self.give_back(Instant::from_ns(if self.queue.is_counted() { lost } else { 0 }))
    }

    /// Tells the streams how many of their packets never left; those due before `lost` have failed.
    fn give_back(&mut self, lost: Instant) -> io::Result<()> {
        let (count, unsent) = self.waiting.clear(self.queue.left()?, lost);
        self.context.count(&count);
        for running in &mut self.running {
            running.waiting = 0;
            let Some(&packets) = unsent.get(&running.id) else { continue };
            let cx = self.context.cx(self.now, &self.effects);
            self.context.source.withdrawn(&cx, &mut running.stream, packets);
            // The stream is asked first for the packets that were taken back.
            running.next = Next::At(Instant::ZERO);
        }
        Ok(())
    }

    /// Ends the streams that a successor continues; none of their packets may be in the queue.
    fn hand_over_streams(&mut self) -> io::Result<()> {
        let is_inherited = |it: &Running<P>| self.context.is_inherited(&it.stream);
        if !self.running.iter().any(is_inherited) {
            return Ok(());
        }
        self.take_back()?;
        let context = self.context;
        for running in &mut self.running {
            if context.is_inherited(&running.stream) {
                (running.next, running.waiting) = (Next::Done, 0);
            }
        }
        Ok(())
    }

    /// Closes the streams that are done and have no packets in the queue.
    fn reap(&mut self) {
        let (context, now, effects) = (self.context, self.now, &self.effects);
        let is_over = |it: &mut Running<P>| it.next == Next::Done && it.waiting == 0;
        for running in self.running.extract_if(.., is_over) {
            context.close(&context.cx(now, effects), running.stream);
        }
    }
}

/// Marks packets of a stream as no longer waiting.
fn settle<P: PacedSource>(running: &mut [Running<P>], owner: u32, packets: usize) {
    if let Some(running) = running.iter_mut().find(|running| running.id == owner) {
        running.waiting -= packets;
    }
}
