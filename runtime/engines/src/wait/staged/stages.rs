//! The data that the threads of all stages share, and the reserve of threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use sys::socket::Received;

use super::controller::{PERIOD, ThreadController};
use super::queue::{Figures, StageQueue};
use crate::common::Common;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{ACCEPTS, EVENTS};
use crate::parts::lock::lock;
use crate::wait::leader::Leaders;
use crate::wait::parked::parking::{Connection, ParkedWork};

/// Events in a queue: half of what one wait reports, so that their input takes at most 8 MiB.
const QUEUE_MAX: usize = EVENTS / 2;

// The stages that share threads.
pub(super) const STEP: usize = 0;
pub(super) const WRITE: usize = 1;

/// A session with the input that was received for it.
pub(super) type Input = Option<(Received, Vec<u8>)>;

/// The stages of a server.
pub struct Stages {
    /// The stage "read", with the connections that wait.
    pub(super) reader: Leaders,
    pub(super) read: Mutex<Figures>,
    pub(super) steps: StageQueue<(ParkedWork, Input)>,
    pub(super) writes: StageQueue<Box<Connection>>,
    pub(super) reserve: Mutex<Reserve>,
    /// Wakes a thread of the reserve.
    pub(super) called: Condvar,
    /// A thread of the reserve has been woken to look at the queues.
    is_called: AtomicBool,
}

pub(super) struct Reserve {
    pub controller: ThreadController,
    /// A thread samples the queues once a period.
    is_sampled: bool,
    is_over: bool,
}

impl Stages {
    /// No thread serves a stage yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(common: &Common<'_>) -> Result<Stages, Fault> {
        let controller = ThreadController::new();
        Ok(Stages {
            reader: Leaders::new(common, EVENTS, ACCEPTS)?,
            read: Mutex::default(),
            steps: StageQueue::new(QUEUE_MAX),
            writes: StageQueue::new(QUEUE_MAX),
            reserve: Mutex::new(Reserve { controller, is_sampled: false, is_over: false }),
            called: Condvar::new(),
            is_called: AtomicBool::new(false),
        })
    }

    /// Lets a thread of the reserve look at the queues, if a stage `has_few` threads.
    pub(super) fn call(&self, has_few: bool) {
        if has_few && !self.is_called.swap(true, Ordering::SeqCst) {
            let _reserve = lock(&self.reserve);
            self.called.notify_one();
        }
    }

    /// Ends all stages: no session is left.
    pub(super) fn close(&self) {
        self.steps.close();
        self.writes.close();
        lock(&self.reserve).is_over = true;
        self.called.notify_all();
    }

    /// Waits in the reserve for a stage that needs a thread; none at the end of the server.
    pub(super) fn join(&self, context: &WorkerContext<'_>) -> Option<usize> {
        let mut reserve = lock(&self.reserve);
        while !reserve.is_over {
            if reserve.is_sampled {
                reserve = self.called.wait(reserve).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // An event that comes after the samples calls again.
            self.is_called.store(false, Ordering::SeqCst);
            let now = context.now();
            let queues = [self.steps.sample(now), self.writes.sample(now)];
            let stage = reserve.controller.join(queues, now);
            if stage.is_some() {
                // The next one samples.
                self.called.notify_one();
                return stage;
            }
            if queues.iter().all(|queue| queue.length == 0) {
                reserve = self.called.wait(reserve).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            reserve.is_sampled = true;
            let waited = self.called.wait_timeout(reserve, PERIOD);
            reserve = waited.unwrap_or_else(PoisonError::into_inner).0;
            reserve.is_sampled = false;
        }
        None
    }
}
