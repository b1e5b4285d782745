//! Samples of the server.

use memory::{LATE_EDGES_NS, Refusal, Slot, SlotState};
use seam::Instant;
use sys::process;
use sys::socket;

use super::crew::Crew;
use super::state::{Supervisor, clock};
use crate::address::Address;
use crate::axes::{Container, Wait};
use crate::shape::SLOTS;
use crate::spare::Spare;
use crate::status::{Gauge, Limits, Queue, SCHEMA, Sample, ShapeFacts, Totals, Worker};

impl<C: Crew> Supervisor<'_, C> {
    /// A complete sample, taken now.
    pub(super) fn sample(&mut self) -> Sample {
        let (common, board) = (self.common, self.common.board);
        let now = clock();
        let mut workers = Vec::new();
        let mut late = vec![0; LATE_EDGES_NS.len() + 1];
        let mut refused = vec![0; Refusal::ALL.len()];
        let mut sums = memory::Totals::default();
        for (index, slot) in board.slots().enumerate() {
            if slot.state() == SlotState::Empty {
                continue;
            }
            sums = sums.plus(slot);
            for (sum, count) in late.iter_mut().zip(slot.late()) {
                *sum += u64::from(count);
            }
            for (sum, why) in refused.iter_mut().zip(Refusal::ALL) {
                *sum += slot.refusals(*why);
            }
            // If each connection has a worker, workers that have ended would fill the list.
            if slot.state() != SlotState::Gone || self.reception.is_none() {
                workers.push(self.worker(index, slot, now));
            }
        }
        let taken = clock().since(now);
        let known: u64 = refused.iter().sum();
        let named = Refusal::ALL.iter().map(|why| why.name().to_owned());
        let other = ("other".to_owned(), sums.refused.saturating_sub(known));
        let totals = Totals {
            open: sums.open,
            accepted: sums.accepted,
            answered: sums.answered,
            bytes_in: sums.bytes_in,
            bytes_out: sums.bytes_out,
            turns: sums.turns,
            refused: named.zip(refused).chain([other]).collect(),
            enobufs: sums.enobufs,
            short_sends: sums.short_sends,
            stack_switches: sums.stack_switches,
            pushes_dropped: sums.pushes_dropped,
        };
        Sample {
            schema: SCHEMA,
            at_ns: now.ns(),
            taken_ns: taken.as_nanos() as u64,
            age_ns: now.since(self.begun).as_nanos() as u64,
            pid: process::this().number(),
            phase: self.public_phase().to_string(),
            shape: ShapeFacts {
                engine: common.shape.name().map(str::to_owned),
                container: common.shape.container.to_string(),
                accept: common.shape.accept.to_string(),
                wait: common.shape.wait.to_string(),
            },
            listening: common.listeners.addresses[0].to_string(),
            also: common.listeners.addresses[1..].iter().map(Address::to_string).collect(),
            limits: self.limits(),
            totals,
            rates: self.administration.windows.rates.clone(),
            queue: self.queue(),
            workers,
            spawned: self.event_log.spawned(),
            exited: self.event_log.exited(),
            late,
            late_ns: sums.late_ns,
            events: self.event_log.events(now),
            gauges: self.gauges(),
            governor: self.governor(now),
        }
    }

    /// The figures of the store, and of the memory that connections hold.
    fn gauges(&self) -> Vec<Gauge> {
        let board = self.common.board;
        let mut gauges = self.store.gauges(&());
        gauges.extend(self.crew.gauges());
        let shed: u64 = board.slots().map(|slot| slot.shed.read()).sum();
        let help = "Memory that connections hold for input and output";
        gauges.push(Gauge::now("held_bytes", help, board.held_total() as f64));
        let help = "Memory that they may hold; 0: any";
        gauges.push(Gauge::now("held_bytes_max", help, board.settings().memory_max() as f64));
        if let Some(bytes) = sys::sockstat::tcp_bytes() {
            let help = "Memory of the kernel for TCP sockets of this network namespace";
            gauges.push(Gauge::now("kernel_socket_bytes", help, bytes as f64));
        }
        let help = "Lines on stderr dropped because their reader paused";
        gauges.push(Gauge::total("stderr_lines_dropped", help, crate::stderr::dropped() as f64));
        let help = "Connections closed because memory was short";
        gauges.push(Gauge::total("connections_shed", help, shed as f64));
        if let Some(governor) = self.governor(clock()) {
            let seconds = |ns: u64| ns as f64 / 1e9;
            let help = "Requests that may be executed at once";
            gauges.push(Gauge::now("governor_limit", help, governor.limit as f64));
            let help = "The most that the governor's limit can become";
            gauges.push(Gauge::now("governor_limit_ceiling", help, governor.ceiling as f64));
            let help = "The mean wait of requests before they are executed";
            gauges.push(Gauge::now("governor_queue_seconds", help, seconds(governor.wait_ns)));
            let help = "The wait that the governor aims at";
            let target = seconds(governor.target_ns);
            gauges.push(Gauge::now("governor_target_queue_seconds", help, target));
            let help = "Requests refused because the server was overloaded";
            gauges.push(Gauge::total("requests_shed", help, governor.refused as f64));
        }
        gauges
    }

    fn worker(&self, index: usize, slot: &Slot, now: Instant) -> Worker {
        let ago = |at_ns: u64| now.ns().saturating_sub(at_ns);
        let beat_ns = slot.beat_ns.read();
        Worker {
            slot: index,
            letter: slot.letter(),
            role: self.role(index).to_owned(),
            generation: slot.worker().map_or(0, |worker| worker.generation()),
            pid: slot.pid().map_or(0, |pid| pid.number()),
            age_ns: ago(slot.since_ns.read()),
            beat_ago_ns: (beat_ns > 0).then(|| ago(beat_ns)),
            open: slot.open.read() + slot.serving.read(),
            accepted: slot.accepted.read(),
            answered: slot.answered.read(),
            bytes_in: slot.bytes_in.read(),
            bytes_out: slot.bytes_out.read(),
            turns: slot.turns.read(),
            refused: slot.refused.read(),
        }
    }

    fn role(&self, slot: usize) -> &'static str {
        let (shape, index) = (self.common.shape, slot.wrapping_sub(self.common.epoch.slot()));
        match shape.container {
            _ if index == SLOTS - 1 => "reception",
            Container::Hybrid if index % shape.stride() == shape.threads() => "listener",
            _ if shape.wait == Wait::TokioSteal && index == 0 => "listener",
            _ if shape.wait == Wait::Staged && index == shape.workers => "listener",
            Container::Hybrid => "worker",
            _ if shape.acceptors() > 0 && index >= shape.workers => "acceptor",
            _ => "worker",
        }
    }

    fn limits(&self) -> Limits {
        let (shape, in_force) = (self.common.shape, self.common.in_force());
        let spare = self.spare.as_ref().map(Spare::terms);
        Limits {
            connections: in_force.sessions_max().map_or(u64::MAX, |most| most as u64),
            workers: shape.workers,
            threads: shape.threads(),
            policy: shape.staffing().map(|staffing| staffing.policy.to_string()),
            spare: spare.map(|terms| (terms.spare_min, terms.spare_max)),
            settings: in_force.rows(),
            edition: self.common.board.edition(),
        }
    }

    pub(super) fn queue(&self) -> Queue {
        let listeners = self.common.listeners;
        let mut queue = Queue { handoff: listeners.handed(), ..Queue::default() };
        for listener in &listeners.sockets {
            if let Ok((length, limit)) = socket::accept_queue(listener) {
                queue.length += u64::from(length);
                queue.limit += u64::from(limit);
            }
        }
        queue
    }
}
