//! Helpers: threads for the jobs that a loop must not do itself, because they may block.
//!
//! By default a loop has a few helpers, started when the first jobs come. With container `helped`
//! they start beforehand (AMPED: Pai, Druschel, Zwaenepoel, "Flash: An Efficient and Portable Web
//! Server", USENIX 1999; its helpers are processes, because threads were not widely available).
//! Without helpers the loop runs jobs in place and its other sessions wait; that paper calls this
//! SPED and compares itself with it. Blocking engines always run jobs in place, because each worker
//! has only one session.
//!
//! At a limit of tasks or of memory fewer helpers start, and the next job asks again; while there
//! is none, jobs run in place. So a loop that cannot hire is slow, and never waits for a helper
//! that does not exist.
//!
//! The bell also reports jobs that ran in place, so the loops need not know the difference.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};

use seam::SessionId;
use sys::eventfd::EventFd;
use sys::thread::{self, Scope};

use crate::context::{Helping, WorkerContext};
use crate::erased::{ErasedService, Value};
use crate::fault::Fault;
use crate::parts::lock::lock;

/// The stack of a helper, as std gives each thread.
const STACK: usize = 2 << 20;

/// How a loop sends jobs and collects their outcomes.
pub trait Helpers {
    /// Readable when outcomes can be collected.
    fn bell(&self) -> BorrowedFd<'_>;
    /// Hands over a job of session `id`.
    fn submit(&self, id: SessionId, job: Value);
    /// The outcomes since the last call.
    fn collect(&self) -> Vec<Done>;
}

/// A job that is done.
pub struct Done {
    /// Its session.
    pub id: SessionId,
    /// Its outcome; `None`: it panicked.
    pub outcome: Option<Value>,
    /// The time that it waited for a helper, and the time that it took.
    pub times: JobTimes,
}

/// The times of a job, in ns; zero where no governor watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobTimes {
    pub wait_ns: u64,
    pub work_ns: u64,
}

/// Runs a job that was given at `given_ns`; 0: its times do not matter.
pub(crate) fn run(
    service: &dyn ErasedService,
    (id, job, given_ns): (SessionId, Value, u64),
) -> Done {
    let clock = || if given_ns == 0 { 0 } else { sys::clock::now_ns() };
    let begun_ns = clock();
    let outcome = catch_unwind(AssertUnwindSafe(|| service.work(&(), job))).ok();
    let times = JobTimes { wait_ns: begun_ns - given_ns, work_ns: clock() - begun_ns };
    Done { id, outcome, times }
}

/// Runs `serve` with helpers; they end when it returns.
pub fn with(
    context: &WorkerContext<'_>,
    serve: impl FnOnce(&dyn Helpers) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let bell = EventFd::new().map_err(Fault::Wait)?;
    let Helping { most, is_beforehand } = context.helping;
    if most == 0 {
        return serve(&InPlace { bell, context, outcomes: Mutex::new(Vec::new()) });
    }
    let shared = Shared {
        bell,
        jobs: Mutex::new(Jobs { queue: VecDeque::new(), started: 0, idle: 0, closed: false }),
        given: Condvar::new(),
        outcomes: Mutex::new(Vec::new()),
    };
    thread::scope(|scope| {
        // Also after a panic of the loop: the scope waits for all helpers.
        let _close = Close(&shared);
        let pool = Pool { shared: &shared, scope, context, max: most };
        if is_beforehand {
            let mut jobs = lock(&shared.jobs);
            while jobs.started < most && pool.start().is_ok() {
                jobs.started += 1;
            }
        }
        serve(&pool)
    })
}

/// Sends the helpers home when it goes out of scope.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        lock(&self.0.jobs).closed = true;
        self.0.given.notify_all();
    }
}

/// The data that a loop and its helpers share.
struct Shared {
    bell: EventFd,
    jobs: Mutex<Jobs>,
    given: Condvar,
    outcomes: Mutex<Vec<Done>>,
}

/// Adds an outcome. The bell rings for the first one: the loop collects all that are there then.
fn add(outcomes: &Mutex<Vec<Done>>, bell: &EventFd, done: Done) {
    let mut outcomes = lock(outcomes);
    outcomes.push(done);
    if outcomes.len() == 1 {
        bell.ring();
    }
}

struct Jobs {
    /// Jobs with the time when they were given.
    queue: VecDeque<(SessionId, Value, u64)>,
    started: usize,
    idle: usize,
    closed: bool,
}

struct Pool<'scope, 'env, 'd> {
    shared: &'env Shared,
    scope: &'scope Scope<'scope, 'env>,
    context: &'env WorkerContext<'d>,
    max: usize,
}

impl Pool<'_, '_, '_> {
    fn start(&self) -> io::Result<()> {
        let (shared, service, worker) = (self.shared, self.context.service, self.context.id);
        self.scope.start(STACK, move || {
            worker.enter();
            work(shared, service);
        })
    }
}

/// A loop that is its own helper.
struct InPlace<'a, 'd> {
    bell: EventFd,
    context: &'a WorkerContext<'d>,
    outcomes: Mutex<Vec<Done>>,
}

impl Helpers for InPlace<'_, '_> {
    fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn submit(&self, id: SessionId, job: Value) {
        let context = self.context;
        let given_ns = context.job_begins();
        let done = run(context.service, (id, job, given_ns));
        add(&self.outcomes, &self.bell, done);
    }

    fn collect(&self) -> Vec<Done> {
        self.bell.clear();
        std::mem::take(&mut lock(&self.outcomes))
    }
}

impl Helpers for Pool<'_, '_, '_> {
    fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    fn submit(&self, id: SessionId, job: Value) {
        let given_ns = self.context.job_begins();
        let mut jobs = lock(&self.shared.jobs);
        if jobs.idle <= jobs.queue.len() && jobs.started < self.max && self.start().is_ok() {
            jobs.started += 1;
        }
        if jobs.started == 0 {
            drop(jobs);
            let done = run(self.context.service, (id, job, given_ns));
            return add(&self.shared.outcomes, &self.shared.bell, done);
        }
        jobs.queue.push_back((id, job, given_ns));
        // Waking costs a system call also where nobody sleeps.
        let sleeps = jobs.idle > 0;
        drop(jobs);
        if sleeps {
            self.shared.given.notify_one();
        }
    }

    fn collect(&self) -> Vec<Done> {
        self.shared.bell.clear();
        std::mem::take(&mut lock(&self.shared.outcomes))
    }
}

/// One helper's life.
fn work(shared: &Shared, service: &dyn ErasedService) {
    let mut jobs = lock(&shared.jobs);
    loop {
        if let Some(job) = jobs.queue.pop_front() {
            drop(jobs);
            let done = run(service, job);
            add(&shared.outcomes, &shared.bell, done);
            jobs = lock(&shared.jobs);
        } else if jobs.closed {
            return;
        } else {
            jobs.idle += 1;
            jobs = shared.given.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}
