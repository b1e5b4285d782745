//! Completion by one `io_uring(7)` for several threads, of which only some run: the completion port
//! of Windows (`GetQueuedCompletionStatus`), on Linux.
//!
//! One thread *leads*: it waits for completions, queues the events, then takes its share of them
//! like the others. At most R threads *run*, that is, step sessions; each holds one of R tokens.
//! The same threads work on jobs that sessions offload, but without a token, so a job that blocks
//! lets another thread run. Of N threads at most N - 1 work, so that one is left to step sessions.
//! Idle threads sleep, and the last to fall asleep wakes first. A pure state machine decides this
//! ([`scheduler`]).
//!
//! A session has at most one receive and one send in flight, and one *strand*: its events go to its
//! mailbox, and one thread at a time steps it ([`completion_port`]). Any session can push bytes to
//! any other (`Cx::push`), because all are in one process and on one ring.
//!
//! Operations are written into the ring under a lock. The leader submits them with the call by
//! which it waits, other threads with a separate call before their next action. The
//! alternative, leaving all submission to the leader, is worse: it sleeps in the kernel while
//! others run, so each batch would have to wake it first, which costs as many calls and also a
//! change of threads.
//!
//! Calls for each request of the market, counted by `strace -c` (2 cores, Linux 6.18):
//!
//! - one client: 2.0 with any number of threads (uring 2.0, epoll 3.0);
//! - 64 clients: 0.06 with one token and 0.13 with two, a third of which wake threads (uring 0.04,
//!   epoll 2.05);
//! - 64 clients at depth 16: 0.006 and 0.017 (uring 0.003, epoll 0.13).
//!
//! With one token (`--running 1`) no thread is woken unless a job blocks, and this engine is the
//! loop of `uring` with a few uncontended locks. Only concurrency makes it cost more.

mod accept;
mod close;
pub mod completion_port;
mod lead;
mod leader;
mod receive;
mod scheduler;
mod send;
mod session;
mod thread;

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use memory::{Doing, SlotState};
use seam::{Buffers, Cx, SessionId};
use sys::uring::Completion;

use self::completion_port::{CompletionPort, Job, Message, WorkItem};
use self::scheduler::{Action, Role};
use self::thread::{PortThread, TOKEN_STOP};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::PORT_BUFFERS;
use crate::member::Member;
use crate::parts::lock::lock;
use crate::parts::ring::accepting::TOKEN_LISTENER;
use crate::parts::tick::tick;
use crate::wait::mechanism::Mechanism;

impl Mechanism for CompletionPort {
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault> {
        serve(context, self, member.index)
    }

    fn pools_sessions(&self) -> bool {
        true
    }
}

/// Serves as the thread `me` of the port until the server drains.
fn serve(context: &WorkerContext<'_>, port: &CompletionPort, me: usize) -> Result<(), Fault> {
    port.join(me);
    let mut thread = PortThread {
        context,
        port,
        me,
        role: Role::New,
        buffers: Buffers::new(PORT_BUFFERS),
        now: context.now(),
        new_items: Vec::new(),
        jobs: Vec::new(),
        batch: Vec::new(),
        cost: None,
        inbox: Vec::new(),
        read: Vec::new(),
        found: Vec::new(),
        scratch: Vec::new(),
    };
    context.ready();
    let lived = catch_unwind(AssertUnwindSafe(|| thread.live()));
    context.slot().set_state(SlotState::Draining);
    if !matches!(lived, Ok(Ok(()))) {
        thread.resign();
    }
    lived.unwrap_or_else(|panic| resume_unwind(panic)).map_err(Fault::Wait)
}

impl<'a> PortThread<'a, '_> {
    fn live(&mut self) -> io::Result<()> {
        loop {
            let action = self.report();
            if !matches!(action, Action::Lead) {
                // The leader submits with the call by which it waits.
                self.port.ring.submit()?;
            }
            match action {
                Action::Run => self.run(),
                Action::Work(job) => self.work(job),
                Action::Lead => self.lead()?,
                Action::Sleep => {
                    self.context.rest(Doing::Waiting);
                    self.port.sleep(self.me);
                }
                Action::Exit => {
                    lock(&self.port.scheduler).leave(self.me, self.role);
                    return Ok(());
                }
            }
        }
    }

    /// Reports the end of the last action with its results, and gets the next action.
    fn report(&mut self) -> Action<Job> {
        let mut scheduler = lock(&self.port.scheduler);
        scheduler.release(self.role);
        if let Some((items, elapsed_ns)) = self.cost.take() {
            scheduler.record(items, elapsed_ns);
        }
        scheduler.submit(&mut self.new_items, &mut self.jobs);
        let action = scheduler.next(self.me, &mut self.batch);
        self.role = action.role();
        let sleeper = scheduler.wake_next();
        drop(scheduler);
        if let Some(sleeper) = sleeper {
            self.port.wake(sleeper);
        }
        action
    }

    /// Leaves after a fault; the other threads get its items.
    fn resign(&mut self) {
        let mut scheduler = lock(&self.port.scheduler);
        scheduler.leave(self.me, self.role);
        self.new_items.append(&mut self.batch);
        scheduler.submit(&mut self.new_items, &mut self.jobs);
        let sleeper = scheduler.wake_next();
        drop(scheduler);
        if let Some(sleeper) = sleeper {
            self.port.wake(sleeper);
        }
    }

    /// The context of a call for session `me`.
    fn cx(&self, me: SessionId) -> Cx<'a, ()> {
        self.context.cx(self.now, me)
    }

    fn look_at_clock(&mut self) {
        self.now = self.context.now();
        // Settings are read where they are used.
        let _ = self.context.turn(self.now);
    }

    // ---- actions

    fn run(&mut self) {
        self.look_at_clock();
        self.context.slot().serving.set(1);
        let mut batch = std::mem::take(&mut self.batch);
        let items = batch.len();
        for item in batch.drain(..) {
            match item {
                WorkItem::Open(incoming) => self.open(incoming),
                WorkItem::Step(id) => self.step(id),
                WorkItem::Tick => self.tick(),
            }
            self.carry_out();
        }
        self.batch = batch;
        self.give_back();
        let elapsed = self.context.now().since(self.now);
        self.cost = Some((items, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)));
        self.context.slot().serving.set(0);
    }

    /// Runs a job in place, without a token.
    fn work(&mut self, (id, job): Job) {
        let service = self.context.service;
        self.context.slot().set_doing(Doing::Working);
        let outcome = catch_unwind(AssertUnwindSafe(|| service.work(&(), job))).ok();
        self.post(id, Message::Outcome(outcome));
    }

    fn tick(&mut self) {
        let next = tick(self.context, Some(self.now), self.now);
        if let Some(next) = next {
            lock(&self.port.leader).next_tick = Some(next);
            self.port.wake_leader_by(next);
        }
    }

    /// Waits for completions, unless there is work to do at once, and posts them to their sessions.
    fn lead(&mut self) -> io::Result<()> {
        self.look_at_clock();
        let port = self.port;
        if port.stop_watched.set(()).is_ok() {
            port.ring.hub().watch(self.context.stop.as_fd(), TOKEN_STOP);
        }
        let Some(timeout) = self.before_wait() else { return Ok(()) };
        let mut found = std::mem::take(&mut self.found);
        self.context.rest(Doing::Waiting);
        let waited = port.ring.wait(timeout, &mut found);
        port.until.store(0, Ordering::Relaxed);
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
                self.post(SessionId::from_bits(token), Message::Received { input, more, waiting });
            }
            Completion::Sent { token, result, load } => {
                self.post(SessionId::from_bits(token), Message::Sent { result, load });
            }
            Completion::Writable { token } => {
                self.post(SessionId::from_bits(token), Message::Writable);
            }
            Completion::Accepted { result, more, .. } => {
                let port = self.port;
                self.accepted(&mut lock(&port.leader), result, more);
            }
            Completion::Ready { token: TOKEN_LISTENER, .. } => {
                lock(&self.port.leader).accepting.polled();
            }
            Completion::Ready { more: false, .. } => {
                self.port.ring.hub().watch(self.context.stop.as_fd(), TOKEN_STOP);
            }
            // `before_wait` checks the phase.
            Completion::Ready { .. } | Completion::Quiet => {}
        }
    }

    /// Gives the buffers that were read back to the ring.
    fn give_back(&mut self) {
        if !self.read.is_empty() {
            let mut hub = self.port.ring.hub();
            self.read.drain(..).for_each(|buffer| hub.give_back(buffer));
        }
    }

    /// Carries out the effects of a session beyond its own output.
    fn carry_out(&mut self) {
        if self.context.effects.is_filled() {
            self.context.carry_out_effects();
            for push in self.context.effects.take_pushes() {
                self.post(push.to, Message::Push(push.bytes));
            }
        }
    }
}
