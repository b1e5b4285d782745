//! The measurements of a worker for the governor, and the decision whether the requests that begin
//! are refused.

use std::os::fd::AsFd;
use std::time::Duration;

use sys::socket;

use super::WorkerContext;
use crate::helpers::JobTimes;
use crate::limits::KERNEL_TICK;

/// A place among the requests that are carried out, held by the thread of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Permit {
    /// Since when; 0: it has none.
    since_ns: u64,
    /// The thread's wait for a core until then, if this request is measured.
    waited_ns: Option<u64>,
}

impl WorkerContext<'_> {
    /// Decides whether requests in the input that comes next are refused, in a loop: `waited` is
    /// the time since the turn began, and the kernel is asked for more if the input `may_wait`.
    pub fn judge(&self, fd: impl AsFd, waited: Duration, may_wait: bool) {
        let throttle = self.board.throttle();
        let age = waited.max(self.kernel_wait(fd, may_wait || throttle.is_loaded()));
        self.note_input(age);
        self.effects.set_overloaded(throttle.refuses() && self.is_too_much(age));
    }

    /// Decides the same for carried input, which waited for the answer before it.
    #[inline]
    pub fn judge_carried(&self) {
        if self.is_governed {
            let throttle = self.board.throttle();
            self.effects.set_overloaded(throttle.refuses() && throttle.is_full());
        }
    }

    fn is_too_much(&self, age: Duration) -> bool {
        let throttle = self.board.throttle();
        throttle.is_full() || throttle.is_old(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time that the newest input on `fd` waited in the kernel, known from below; asked for
    /// only if the server is loaded.
    fn kernel_wait(&self, fd: impl AsFd, may_wait: bool) -> Duration {
        if !may_wait {
            return Duration::ZERO;
        }
        socket::last_received(fd).unwrap_or_default().saturating_sub(KERNEL_TICK)
    }

    fn note_input(&self, age: Duration) {
        let slot = self.slot();
        slot.inputs.add(1);
        slot.input_wait_ns.add(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A loop gives a job to a helper; returns the time, or 0 where no governor watches.
    pub fn job_begins(&self) -> u64 {
        if !self.is_governed {
            return 0;
        }
        self.board.throttle().enter(self.slot());
        sys::clock::now_ns()
    }

    /// The job of a loop has ended.
    pub fn job_ended(&self, times: JobTimes) {
        if self.is_governed {
            self.board.throttle().leave(self.slot());
            self.note_carried(Some(times));
        }
    }

    /// Counts a request that was carried out, with its times if they were measured.
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
    /// decides whether requests are refused. The first input of a connection may have waited to be
    /// accepted.
    pub fn begin_request(&self, place: &mut Permit, fd: impl AsFd, is_first: bool) {
        if !self.is_governed {
            return;
        }
        let throttle = self.board.throttle();
        let age = self.kernel_wait(fd, is_first || throttle.is_loaded());
        self.note_input(age);
        if place.since_ns == 0 && throttle.try_enter(self.slot()) {
            let now_ns = sys::clock::now_ns();
            let is_measured = throttle.is_loaded() && throttle.claim_measurement(now_ns);
            let waited_ns = if is_measured { sys::clock::thread_wait_ns() } else { None };
            *place = Permit { since_ns: now_ns, waited_ns };
        }
        let has_none = place.since_ns == 0;
        let is_old = throttle.is_old(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        self.effects.set_overloaded(throttle.refuses() && (has_none || is_old));
    }

    /// The thread of a connection waits for its peer: gives the place back.
    #[inline]
    pub fn end_request(&self, place: &mut Permit) {
        if place.since_ns > 0 {
            self.give_back(std::mem::take(place));
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
