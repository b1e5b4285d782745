//! Fills a window of the queue: asks every stream in turn for one part of it, and hands their
//! packets over together.

use std::io;

use seam::{Instant, Next, PacedSource};

use super::{PART, Worker, settle};
use crate::catch_up::{CatchUpLine, SLACK};
use crate::senders::outlet::Count;

impl<P: PacedSource> Worker<'_, '_, P> {
    /// Hands over the packets that are due until the end of the window.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let window = self.window();
        let end = self.now + window;
        let Some(soonest) = self.soonest() else { return Ok(()) };
        if !self.has_room() || soonest.max(self.horizon) > self.now + window / 2 {
            return Ok(());
        }
        if soonest > self.horizon {
            self.horizon = soonest.min(end);
        }
        self.line = (self.now.since(soonest) > SLACK && soonest > Instant::ZERO)
            .then_some(CatchUpLine::new(soonest, self.now))
            .inspect(|_| self.context.stats.caught_up.add(1));
        while self.horizon < end {
            let until = (self.horizon + PART).min(end);
            let is_full = self.gather(until);
            if !is_full {
                self.horizon = until;
            }
            // Packets that are due soon cannot wait until the whole window is gathered.
            if is_full || (self.queue.is_counted() && self.horizon < self.now + PART * 2) {
                self.hand_over()?;
            }
            if !self.has_room() {
                return Ok(());
            }
        }
        self.hand_over()
    }

    /// Asks the streams for the packets due until a moment; true if there was no room for all.
    fn gather(&mut self, until: Instant) -> bool {
        for running in &mut self.running {
            let cx = self.context.cx(self.now, &self.effects);
            // `apply_orders` first takes back the packets of the order that this one replaces.
            if self.context.source.has_news(&cx, &running.stream) {
                continue;
            }
            while let Next::At(at) = running.next
                && at <= until
            {
                let burst = self.plan.burst(running.id);
                burst.set_class(self.context.source.policy(&running.stream).class);
                let from = burst.len();
                running.next = self.context.source.due(&cx, &mut running.stream, until, burst);
                let is_full = burst.is_full();
                self.context.drop_late(burst, from, self.now);
                running.waiting += self.plan.owned();
                if is_full {
                    return true;
                }
            }
        }
        false
    }

    /// Hands the gathered packets to the kernel.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.plan.is_empty() {
            return Ok(());
        }
        let line = self.line;
        let moment = |at: Instant| line.map_or(at, |line| line.leaves(at));
        let mut count = Count::default();
        let outlet = &self.context.outlet;
        let handed = self.queue.hand_over(&mut self.plan, outlet, &moment, &mut count)?;
        self.waiting.extend(handed);
        for (owner, packets) in self.plan.clear() {
            count.failed += packets;
            settle(&mut self.running, owner, packets);
        }
        self.context.count(&count);
        Ok(())
    }
}
