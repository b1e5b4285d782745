//! A caster whose packets wait in the kernel: a window of each cast is handed over at once, and the
//! worker sleeps until it has left.
//!
//! The idea of in-kernel streaming, that a program asks once and the kernel reads, waits and sends,
//! without a kernel of one's own: a chain of io_uring. A pause or a seek takes back what has not
//! left ([`Caster::withdrawn`]), which costs a call for each chain, so it pays for streams that run
//! on.
//!
//! How late packets leave is not known here: nobody is told of them. Who wants to know looks at the
//! times of the receiver's kernel.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::Phase;
use seam::{Burst, Caster, Channel, Effects, Instant, Next, Packet, Payload};
use sys::poll::{PollFd, poll};
use sys::udp::{CHAIN_MAX, ChainRing, Link, LinkBody};

use super::desk::CastDesk;
use crate::senders::outlet::Count;

/// While the house ends, how often its phase is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Packets of one chain at the most; a cast with more has one after the other.
const WINDOW_MAX: usize = if CHAIN_MAX < 4096 { CHAIN_MAX } else { 4096 };

/// A chain in the kernel's hands.
struct Flight {
    chain: usize,
    /// The lengths of its packets.
    lengths: Vec<usize>,
}

struct Running<C: Caster> {
    cast: C::Cast,
    next: Next,
    flight: Option<Flight>,
    /// When to ask for more, with nothing in the kernel's hands.
    refill_at: Instant,
}

struct Worker<'d, 'a, C: Caster> {
    desk: &'d CastDesk<'a, C>,
    ring: ChainRing,
    running: Vec<Running<C>>,
    burst: Burst,
    effects: Effects,
    now: Instant,
}

/// Casts until the house ends.
pub(super) fn serve<C: Caster>(desk: &CastDesk<'_, C>, sqpoll: bool) -> io::Result<()> {
    let mut worker = Worker {
        desk,
        ring: ChainRing::new(sqpoll)?,
        running: Vec::new(),
        burst: Burst::new(WINDOW_MAX),
        effects: desk.effects(),
        now: desk.now(),
    };
    worker.take_orders();
    desk.ready();
    loop {
        worker.refill();
        let phase = desk.phase();
        if phase >= Phase::Forced {
            worker.take_all_back();
            worker.running.iter_mut().for_each(|running| running.next = Next::Done);
        }
        if phase >= Phase::Draining {
            worker.dismiss();
        }
        worker.bury();
        if phase >= Phase::Draining && worker.running.is_empty() {
            return Ok(());
        }
        worker.wait(phase)?;
        if worker.effects.is_filled() {
            desk.print_notes(&worker.effects);
        }
    }
}

impl<C: Caster> Worker<'_, '_, C> {
    /// Sleeps until something happens or a window must be filled. By poll(2): it is the call that
    /// the kernel resumes by itself after it has done our ring's work in between.
    fn wait(&mut self, phase: Phase) -> io::Result<()> {
        let desk = self.desk;
        let refills = self.running.iter().map(|running| running.refill_at);
        let soonest = refills.min().unwrap_or(Instant::NEVER);
        let mut timeout = (soonest != Instant::NEVER).then(|| soonest.since(desk.now()));
        let mut list = vec![
            PollFd::new(self.ring.watched(), true, false),
            PollFd::new(desk.post.orders.as_fd(), true, false),
            PollFd::new(desk.sockets().of(Channel::Rtp).as_fd(), true, false),
            PollFd::new(desk.sockets().of(Channel::Rtcp).as_fd(), true, false),
        ];
        if let Some(nap) = desk.nap() {
            timeout = Some(timeout.unwrap_or(nap).min(nap));
        }
        if phase <= Phase::Ready {
            list.push(PollFd::new(desk.post.stop.as_fd(), true, false));
        } else {
            // Only a force changes what we do, and that can be looked for now and then.
            timeout = Some(timeout.unwrap_or(LOOK_EVERY * 20).min(LOOK_EVERY * 20));
        }
        poll(&mut list, timeout)?;
        let [ended, orders, rtp, rtcp] = [0, 1, 2, 3].map(|at| list[at].readable());
        self.now = desk.now();
        desk.turn(self.now);
        if rtp {
            desk.hear(&desk.cx(self.now, &self.effects), Channel::Rtp);
        }
        if rtcp {
            desk.hear(&desk.cx(self.now, &self.effects), Channel::Rtcp);
        }
        if ended {
            self.land(None);
        }
        if desk.nap().is_some() {
            self.take_orders();
        }
        if orders {
            desk.post.orders.clear();
            self.take_orders();
            self.ring_all();
        }
        Ok(())
    }

    fn take_orders(&mut self) {
        loop {
            let cx = self.desk.cx(self.now, &self.effects);
            let Some((cast, next)) = self.desk.start(self.running.len(), &cx) else { return };
            let (flight, refill_at) = (None, due_at(next));
            self.running.push(Running { cast, next, flight, refill_at });
        }
    }

    /// Hands over what is wanted next of every cast that is low.
    fn refill(&mut self) {
        self.now = self.desk.now();
        for index in 0..self.running.len() {
            if self.running[index].flight.is_none() && self.running[index].refill_at <= self.now {
                self.fill(index);
            }
        }
    }

    fn fill(&mut self, index: usize) {
        let ahead = self.desk.caster.ahead();
        let until = self.now + ahead;
        let cx = self.desk.cx(self.now, &self.effects);
        let running = &mut self.running[index];
        running.next = self.desk.caster.due(&cx, &mut running.cast, until, &mut self.burst);
        running.refill_at = match running.next {
            // Nothing was due so far ahead; what is full is gone on with when it has left.
            Next::At(next) => Instant::from_ns(next.ns().saturating_sub(ahead.as_nanos() as u64)),
            Next::Parked | Next::Done => Instant::NEVER,
        };
        self.hand_over(index);
    }

    /// Gives the burst to the kernel as one chain: of two, the second would overtake the first if
    /// both were late.
    fn hand_over(&mut self, index: usize) {
        let (outlet, burst) = (&self.desk.outlet, &self.burst);
        let whole: Vec<&Packet> =
            burst.packets().iter().filter(|packet| outlet.has(packet)).collect();
        let mut count = Count { failed: burst.len() - whole.len(), ..Count::default() };
        if !whole.is_empty() {
            let links = whole.iter().map(|packet| Link {
                at_ns: packet.at.ns(),
                socket: outlet.sockets.of(packet.channel),
                to: packet.to,
                front: burst.front(packet),
                body: body(outlet, packet),
            });
            let before = self.ring.calls;
            match self.ring.submit(links) {
                Ok(chain) => {
                    let lengths = whole.iter().map(|packet| packet.len()).collect();
                    let running = &mut self.running[index];
                    running.flight = Some(Flight { chain, lengths });
                    // More is asked for when these have left.
                    running.refill_at = Instant::NEVER;
                }
                Err(_) => count.failed += whole.len(),
            }
            count.calls += self.ring.calls - before;
        }
        self.desk.count(&count);
        self.burst.clear();
    }

    /// Takes note of the chains that have ended. Says how many packets of the chain `back`, which
    /// was taken back, have not left; those of others have failed.
    fn land(&mut self, back: Option<usize>) -> usize {
        let mut unsent = 0;
        for (chain, sent) in self.ring.reap() {
            let is_it = |running: &&mut Running<C>| {
                running.flight.as_ref().is_some_and(|flight| flight.chain == chain)
            };
            let Some(running) = self.running.iter_mut().find(is_it) else { continue };
            let flight = running.flight.take().expect("found just now");
            running.refill_at = due_at(running.next);
            let rest = flight.lengths.len() - sent;
            let bytes = flight.lengths[..sent].iter().sum();
            let failed = if back == Some(chain) { 0 } else { rest };
            unsent += rest - failed;
            self.desk.count(&Count { packets: sent, bytes, failed, calls: 0 });
        }
        unsent
    }

    /// Takes back what has not left of a cast; it is told how much that is.
    fn take_back(&mut self, index: usize) {
        // What has ended already must not be mistaken for what is cancelled.
        self.land(None);
        let Some(flight) = &self.running[index].flight else { return };
        let ours = flight.chain;
        // An error leaves it to end by itself; its packets then count as sent.
        let _ = self.ring.cancel(ours);
        let unsent = self.land(Some(ours));
        if unsent > 0 {
            let cx = self.desk.cx(self.now, &self.effects);
            self.desk.caster.withdrawn(&cx, &mut self.running[index].cast, unsent);
        }
    }

    /// Ends the casts that nobody waits for.
    fn dismiss(&mut self) {
        for running in &mut self.running {
            if !self.desk.caster.is_awaited(&running.cast) {
                running.next = Next::Done;
            }
        }
    }

    fn take_all_back(&mut self) {
        for index in 0..self.running.len() {
            self.take_back(index);
        }
    }

    /// Tells the casts that have news to look at their orders.
    fn ring_all(&mut self) {
        for index in 0..self.running.len() {
            let cx = self.desk.cx(self.now, &self.effects);
            if !self.desk.caster.has_news(&cx, &self.running[index].cast) {
                continue;
            }
            self.take_back(index);
            let cx = self.desk.cx(self.now, &self.effects);
            let running = &mut self.running[index];
            running.next = self.desk.caster.rung(&cx, &mut running.cast);
            running.refill_at = due_at(running.next);
        }
    }

    /// Closes the casts that are done and have nothing in the kernel's hands.
    fn bury(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let running = &self.running[index];
            if running.next != Next::Done || running.flight.is_some() {
                index += 1;
                continue;
            }
            let running = self.running.swap_remove(index);
            let cx = self.desk.cx(self.now, &self.effects);
            self.desk.close(&cx, running.cast);
        }
    }
}

/// When to ask a cast for packets that has none in the kernel's hands: at once, for those of the
/// future are welcome.
fn due_at(next: Next) -> Instant {
    match next {
        Next::At(_) => Instant::ZERO,
        Next::Parked | Next::Done => Instant::NEVER,
    }
}

fn body<'d>(outlet: &'d crate::senders::outlet::Outlet<'_>, packet: &'d Packet) -> LinkBody<'d> {
    match &packet.payload {
        Payload::None => LinkBody::None,
        Payload::Shared(bytes, range) => LinkBody::Bytes(&bytes[range.clone()]),
        Payload::File(source, range) => match outlet.files.file(source) {
            Some(file) => LinkBody::File(file, range.start, packet.payload.len() as u32),
            None => LinkBody::None,
        },
    }
}
