//! The measurements of a worker for the governor, and the decision whether the requests that begin
//! are refused.
//!
//! A loop or a thread does not know of it. A worker's context is told when input is fed
//! ([`WorkerContext::judge_input`]), when the worker is about to wait ([`WorkerContext::rest`]),
//! and when a job begins and ends.

use std::time::Duration;

use seam::Instant;

use super::WorkerContext;
use super::carrier::{Carrier, Permit};
use crate::helpers::JobTimes;
use crate::limits::{KERNEL_TICK, TURN_TIME};
use crate::parts::transport::ByteStream;

impl WorkerContext<'_> {
    /// Input that has come on `socket` is about to be fed, in a turn that began at `now`: decides
    /// whether its requests are refused.
    #[inline]
    pub fn judge_input(&self, socket: &impl ByteStream, now: Instant) {
        if self.governed.is_on() {
            self.judge(socket, now);
        }
    }

    fn judge(&self, socket: &dyn ByteStream, now: Instant) {
        match self.governed.carrier {
            Carrier::Unwatched => {}
            Carrier::Loop => self.judge_turn(socket, self.now().since(now)),
            // The first input of a connection may have waited to be accepted.
            Carrier::Thread => self.begin_request(socket, self.governed.is_fresh.replace(false)),
            // It waited in two queues, of the listener and of the workers.
            Carrier::Pool => self.begin_request(socket, true),
        }
    }

    /// A thread has a new connection.
    pub(super) fn expect_first_input(&self) {
        self.governed.is_fresh.set(true);
    }

    /// The worker is about to wait.
    pub(super) fn end_governed_turn(&self) {
        match self.governed.carrier {
            Carrier::Unwatched => {}
            Carrier::Loop => {
                let begun_ns = self.slot().beat_ns.read();
                let elapsed_ns = if begun_ns > 0 { self.now().ns() - begun_ns } else { 0 };
                self.governed.turn_before.set(Duration::from_nanos(elapsed_ns));
            }
            Carrier::Thread | Carrier::Pool => self.end_request(),
        }
    }

    /// `waited` is the time since the turn began; the kernel is asked for more if the input may
    /// have waited there.
    fn judge_turn(&self, socket: &dyn ByteStream, waited: Duration) {
        let throttle = self.board.throttle();
        let may_wait = waited.max(self.governed.turn_before.get()) >= TURN_TIME;
        let age = waited.max(self.kernel_wait(socket, may_wait || throttle.is_loaded()));
        self.note_input(age);
        self.effects.set_overloaded(throttle.refuses() && self.is_too_much(age));
    }

    fn is_too_much(&self, age: Duration) -> bool {
        let throttle = self.board.throttle();
        throttle.is_full() || throttle.is_old(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time that the newest input on `socket` waited in the kernel, known from below; asked for
    /// only if the server is loaded.
    fn kernel_wait(&self, socket: &dyn ByteStream, may_wait: bool) -> Duration {
        if !may_wait {
            return Duration::ZERO;
        }
        socket.last_received().unwrap_or_default().saturating_sub(KERNEL_TICK)
    }

    fn note_input(&self, age: Duration) {
        let slot = self.slot();
        slot.inputs.add(1);
        slot.input_wait_ns.add(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A loop gives a job to a helper; returns the time, or 0 where no governor watches.
    pub fn job_begins(&self) -> u64 {
        if !self.governed.is_on() {
            return 0;
        }
        self.board.throttle().enter(self.slot());
        sys::clock::now_ns()
    }

    /// The job of a loop has ended, and the input that was carried meanwhile is fed: it waited for
    /// the answer before it.
    pub fn job_ended(&self, times: JobTimes) {
        if self.governed.is_on() {
            let throttle = self.board.throttle();
            throttle.leave(self.slot());
            self.note_carried(Some(times));
            self.effects.set_overloaded(throttle.refuses() && throttle.is_full());
        }
    }

    /// Counts a request that was executed, with its times if they were measured.
    fn note_carried(&self, times: Option<JobTimes>) {
        let slot = self.slot();
        slot.carried.add(1);
        if let Some(JobTimes { wait_ns, work_ns }) = times {
            slot.measured.add(1);
            slot.wait_ns.add(wait_ns);
            slot.service_ns.add(work_ns);
        }
    }

    /// The thread of a connection is about to feed input: takes a place, unless it has one, and
    /// decides whether requests are refused.
    fn begin_request(&self, socket: &dyn ByteStream, is_first: bool) {
        let throttle = self.board.throttle();
        let age = self.kernel_wait(socket, is_first || throttle.is_loaded());
        self.note_input(age);
        let mut place = self.governed.place.get();
        if place.since_ns == 0 && throttle.try_enter(self.slot()) {
            let now_ns = sys::clock::now_ns();
            let is_measured = throttle.is_loaded() && throttle.claim_measurement(now_ns);
            let waited_ns = if is_measured { sys::clock::thread_wait_ns() } else { None };
            place = Permit { since_ns: now_ns, waited_ns };
            self.governed.place.set(place);
        }
        let has_none = place.since_ns == 0;
        let is_old = throttle.is_old(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        self.effects.set_overloaded(throttle.refuses() && (has_none || is_old));
    }

    /// The thread of a connection waits for its peer: gives the place back.
    fn end_request(&self) {
        let place = self.governed.place.take();
        if place.since_ns > 0 {
            self.give_back(place);
        }
    }

    fn give_back(&self, Permit { since_ns, waited_ns }: Permit) {
        self.board.throttle().leave(self.slot());
        let times = waited_ns.zip(waited_ns.and_then(|_| sys::clock::thread_wait_ns()));
        self.note_carried(times.map(|(before_ns, after_ns)| {
            let wait_ns = after_ns.saturating_sub(before_ns);
            let elapsed_ns = sys::clock::now_ns().saturating_sub(since_ns);
            JobTimes { wait_ns, work_ns: elapsed_ns.saturating_sub(wait_ns) }
        }));
    }
}
