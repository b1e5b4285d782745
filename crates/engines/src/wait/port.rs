//! Completion by one `io_uring(7)` for several threads, of which some run: the completion port of
//! Windows (`GetQueuedCompletionStatus`), on Linux.
//!
//! One thread *leads*: it waits for completions, queues the events, then takes its share of them
//! like the others. At most R threads *run*, that is, step sessions; each holds one of R tokens.
//! The same threads work on jobs that sessions offload, but without a token, so a job that blocks
//! lets another thread run; of N threads at most N - 1 work, and one is left to step sessions. Idle
//! threads rest, and the last to rest wakes first. A pure state machine decides this ([`shift`]).
//!
//! A session has at most one receive and one send in flight, and one *strand*: its events go to its
//! mailbox, and one thread at a time steps it ([`completion_port`]). Any session can push bytes to
//! any other (`Cx::push`), because all are in one process and on one ring.
//!
//! Wishes are written into the ring under a lock and submitted by whoever is free: by the leader
//! with the very call by which it waits, by others with a call of their own before they turn to
//! something else. Leaving all submission to the leader was the other choice; but it sleeps in the
//! kernel while others run, so each share would have to wake it first, which costs as many calls
//! and a change of threads besides. Counted by `strace -c` (2 cores, Linux 6.18, calls a request of
//! the market): one client 2.0 with any number of threads (uring 2.0, epoll 3.0); 64 clients 0.06
//! with one token and 0.13 with two, a third of which wake threads (uring 0.04, epoll 2.05); 64
//! clients at depth 16 0.006 and 0.017 (uring 0.003, epoll 0.13).
//!
//! The surprising thing: with one token (`--running 1`) no thread is woken unless a job blocks, and
//! this engine is the loop of `uring` with a few uncontended locks. Concurrency is what costs.

pub mod completion_port;
mod door;
mod letters;
mod outbound;
mod parting;
mod shift;
mod turn;
mod watch;

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use memory::{Doing, SlotState};
use seam::{Buffers, Cx, Instant, Service, SessionId};
use sys::uring::{Completion, Filled, Received};

use self::completion_port::{CompletionPort, Errand, Job, Mail, lock};
use self::shift::{Role, Task};
use crate::context::WorkerContext;
use crate::fault::Fault;

// Sessions have tokens below 2^60 and generations of 1 or more; these name no session.
const TOKEN_DOOR: u64 = 1;
const TOKEN_STOP: u64 = 2;

/// Spare buffers that a thread keeps.
const BUFFERS_SPARE: usize = 64;

/// One thread of a port.
pub(super) struct Hand<'a, 'd, S: Service> {
    context: &'a WorkerContext<'d, S>,
    completion_port: &'a CompletionPort<S>,
    /// Its number among the threads.
    me: usize,
    role: Role,
    buffers: Buffers,
    /// The time of this share, or of this look of the leader.
    now: Instant,
    /// What is to be laid before the shift.
    brought: Vec<Errand>,
    jobs: Vec<Job<S>>,
    share: Vec<Errand>,
    /// How many errands the last share had, and how long it took, in nanoseconds.
    weight: Option<(usize, u64)>,
    /// The letters of the session whose turn it is.
    inbox: Vec<Mail<S::Outcome>>,
    /// Buffers that have been read.
    read: Vec<Filled>,
    found: Vec<Completion>,
}

/// Serves as the thread `me` of the port until the server drains.
pub fn serve<S: Service>(
    context: &WorkerContext<'_, S>,
    completion_port: &CompletionPort<S>,
    me: usize,
) -> Result<(), Fault> {
    completion_port.sit(me);
    let mut hand = Hand {
        context,
        completion_port,
        me,
        role: Role::Fresh,
        buffers: Buffers::new(BUFFERS_SPARE),
        now: context.now(),
        brought: Vec::new(),
        jobs: Vec::new(),
        share: Vec::new(),
        weight: None,
        inbox: Vec::new(),
        read: Vec::new(),
        found: Vec::new(),
    };
    context.ready();
    let lived = catch_unwind(AssertUnwindSafe(|| hand.live()));
    context.slot().set_state(SlotState::Draining);
    if !matches!(lived, Ok(Ok(()))) {
        hand.resign();
    }
    lived.unwrap_or_else(|panic| resume_unwind(panic)).map_err(Fault::Wait)
}

impl<'a, S: Service> Hand<'a, '_, S> {
    fn live(&mut self) -> io::Result<()> {
        loop {
            let task = self.report();
            if !matches!(task, Task::Lead) {
                // Who leads submits with the call by which it waits.
                self.completion_port.ring.submit()?;
            }
            match task {
                Task::Turn => self.run(),
                Task::Work(job) => self.work(job),
                Task::Lead => self.lead()?,
                Task::Rest => {
                    self.context.rest(Doing::Waiting);
                    self.completion_port.rest(self.me);
                }
                Task::Leave => {
                    lock(&self.completion_port.shift).stand(self.me, self.role);
                    return Ok(());
                }
            }
        }
    }

    /// Gives back what it had, hands in what it brought, and hears what is next.
    fn report(&mut self) -> Task<Job<S>> {
        let mut shift = lock(&self.completion_port.shift);
        shift.lay_down(self.role);
        if let Some((errands, elapsed_ns)) = self.weight.take() {
            shift.weigh(errands, elapsed_ns);
        }
        shift.bring(&mut self.brought, &mut self.jobs);
        let task = shift.next(self.me, &mut self.share);
        self.role = task.role();
        let whom = shift.call();
        drop(shift);
        if let Some(whom) = whom {
            self.completion_port.wake(whom);
        }
        task
    }

    /// Goes before its time, and leaves what it had to the others.
    fn resign(&mut self) {
        let mut shift = lock(&self.completion_port.shift);
        shift.stand(self.me, self.role);
        self.brought.append(&mut self.share);
        shift.bring(&mut self.brought, &mut self.jobs);
        let whom = shift.call();
        drop(shift);
        if let Some(whom) = whom {
            self.completion_port.wake(whom);
        }
    }

    /// The context of a call for session `me`.
    fn cx(&self, me: SessionId) -> Cx<'a, S::State> {
        self.context.cx(self.now, me)
    }

    fn look_at_clock(&mut self) {
        self.now = self.context.now();
        // What settings the server has is looked up where they count.
        let _ = self.context.turn(self.now);
    }

    // ---- tasks

    fn run(&mut self) {
        self.look_at_clock();
        self.context.slot().serving.set(1);
        let mut share = std::mem::take(&mut self.share);
        let errands = share.len();
        for errand in share.drain(..) {
            match errand {
                Errand::Come(comer) => self.open(comer),
                Errand::Turn(id) => self.turn(id),
                Errand::Tick => self.tick(),
            }
            self.carry_out();
        }
        self.share = share;
        self.give_back();
        let elapsed = self.context.now().since(self.now);
        self.weight = Some((errands, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)));
        self.context.slot().serving.set(0);
    }

    /// Works on a job in place, without a token.
    fn work(&mut self, (id, job): Job<S>) {
        let (service, state) = (self.context.service, self.context.state);
        self.context.slot().set_doing(Doing::Working);
        let outcome = catch_unwind(AssertUnwindSafe(|| service.work(state, job))).ok();
        self.entry(id, Mail::Done(outcome));
    }

    fn tick(&mut self) {
        let next = self.context.service.tick(&self.cx(SessionId::NONE));
        if let Some(next) = next {
            lock(&self.completion_port.watch).next_tick = Some(next);
            self.completion_port.hurry(next);
        }
    }

    /// Waits for completions, unless there is something to do at once, and entries what they mean.
    fn lead(&mut self) -> io::Result<()> {
        self.look_at_clock();
        let completion_port = self.completion_port;
        if completion_port.watched.set(()).is_ok() {
            completion_port.ring.hub().watch(self.context.stop.as_fd(), TOKEN_STOP);
        }
        let Some(timeout) = self.make_round() else { return Ok(()) };
        let mut found = std::mem::take(&mut self.found);
        self.context.rest(Doing::Waiting);
        let waited = completion_port.ring.wait(timeout, &mut found);
        completion_port.until.store(0, Ordering::Relaxed);
        self.look_at_clock();
        for completion in found.drain(..) {
            self.complete(completion);
        }
        self.found = found;
        self.give_back();
        waited
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Received { token, input, more, waiting } => {
                self.entry(SessionId::from_bits(token), Mail::Received { input, more, waiting });
            }
            Completion::Sent { token, result, load } => {
                self.entry(SessionId::from_bits(token), Mail::Sent { result, load });
            }
            Completion::Writable { token } => {
                self.entry(SessionId::from_bits(token), Mail::Writable);
            }
            Completion::Accepted { result, more, .. } => {
                let completion_port = self.completion_port;
                self.accepted(&mut lock(&completion_port.watch), result, more);
            }
            Completion::Ready { token: TOKEN_DOOR, .. } => {
                lock(&self.completion_port.watch).arrivals.knocked();
            }
            Completion::Ready { more: false, .. } => {
                self.completion_port.ring.hub().watch(self.context.stop.as_fd(), TOKEN_STOP);
            }
            // The round that follows sees the phase.
            Completion::Ready { .. } | Completion::Quiet => {}
        }
    }

    // ---- mail

    /// Leaves a letter for a session, and has it turned if nobody does.
    fn entry(&mut self, id: SessionId, letter: Mail<S::Outcome>) {
        match self.completion_port.table.acquire(id) {
            Some(berth) => {
                if berth.entry(letter) {
                    self.brought.push(Errand::Turn(id));
                }
            }
            None => self.return_to_sender(letter),
        }
    }

    /// The session is gone.
    fn return_to_sender(&mut self, letter: Mail<S::Outcome>) {
        match letter {
            Mail::Received { input: Received::Bytes(buffer), .. } => self.read.push(buffer),
            Mail::Push(_) => self.context.slot().pushes_dropped.add(1),
            _ => {}
        }
    }

    /// Gives buffers back to the ring that were read.
    fn give_back(&mut self) {
        if !self.read.is_empty() {
            let mut hub = self.completion_port.ring.hub();
            self.read.drain(..).for_each(|buffer| hub.give_back(buffer));
        }
    }

    /// Carries out what a session wished for beside its own output.
    fn carry_out(&mut self) {
        if self.context.effects.is_filled() {
            self.context.see_to_wishes();
            for push in self.context.effects.take_pushes() {
                self.entry(push.to, Mail::Push(push.bytes));
            }
        }
    }
}
