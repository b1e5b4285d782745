//! The roles of a port's threads: one leads, some run, the others sleep.
//!
//! The scheduler holds plain values and never waits. A thread releases its role, submits the
//! results, and learns its next action and the thread to wake, all under one short lock. So the
//! whole protocol is a function from state to state, and `tests` walks through every order in which
//! threads can call it.
//!
//! - To *run* (step sessions) takes one of `running_max` tokens.
//! - To *work* on a job takes no token, since it may block; but one thread never works, so that a
//!   thread is left to step sessions.
//! - To *lead* is to wait for completions. No thread leads while every token is out, because no
//!   thread could step the completed sessions, and the first thread that finishes checks anyway.
//! - To *sleep* is to wait until woken; the last to fall asleep wakes first, because its cache is
//!   warm.
//!
//! While steps are short, as they usually are, one thread leads, takes up to eight items, runs them
//! and leads again: waking another thread would cost more than the items. When steps are long
//! ([`LONG_NS`]) another thread wakes at once, to lead while this one runs and to take its part.

use std::collections::VecDeque;

/// The most items of one batch, so that others get some and output leaves soon.
const BATCH_MAX: usize = 32;
/// The maximum number of short items for which it is not worth waking another thread.
const BATCH_MIN: usize = 8;
/// The mean duration in nanoseconds from which an item is long: waking a thread and letting it fall
/// asleep again takes a tenth of that.
const LONG_NS: u64 = 50_000;

/// A thread's activity until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Nothing: the thread has just started.
    New,
    /// It was woken.
    Woken,
    /// It stepped sessions.
    Running,
    /// It worked on a job.
    Working,
    /// It waited for completions.
    Leading,
}

/// A thread's next activity.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<J> {
    /// Run the items of its batch.
    Run,
    /// Work on this job.
    Work(J),
    /// Wait for completions.
    Lead,
    /// Sleep until woken.
    Sleep,
    /// Return.
    Exit,
}

impl<J> Action<J> {
    /// The role that this action gives; the thread releases it afterwards.
    pub fn role(&self) -> Role {
        match self {
            Action::Run => Role::Running,
            Action::Work(_) => Role::Working,
            Action::Lead => Role::Leading,
            Action::Sleep => Role::Woken,
            Action::Exit => Role::New,
        }
    }
}

/// The state of all threads, and the work that waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scheduler<T, J> {
    running_max: usize,
    items: VecDeque<T>,
    jobs: VecDeque<J>,
    present: usize,
    running: usize,
    working: usize,
    /// The number of threads that were woken and have not arrived yet.
    woken: usize,
    leading: bool,
    sleeping: Vec<usize>,
    over: bool,
    /// The mean duration of an item, in nanoseconds, as a moving average.
    item_ns: u64,
}

impl<T, J> Scheduler<T, J> {
    /// A scheduler that lets at most `running_max` threads step sessions at once.
    pub fn new(running_max: usize) -> Scheduler<T, J> {
        Scheduler {
            running_max,
            items: VecDeque::new(),
            jobs: VecDeque::new(),
            present: 0,
            running: 0,
            working: 0,
            woken: 0,
            leading: false,
            sleeping: Vec::new(),
            over: false,
            item_ns: 0,
        }
    }

    /// Records that a batch of `items` took `elapsed_ns`.
    pub fn record(&mut self, items: usize, elapsed_ns: u64) {
        let each = elapsed_ns / items.max(1) as u64;
        self.item_ns = (self.item_ns * 7 + each) / 8;
    }

    /// Adds a thread that has started.
    pub fn join(&mut self) {
        self.present += 1;
    }

    /// Removes the thread `me`, which ends.
    pub fn leave(&mut self, me: usize, role: Role) {
        match self.sleeping.iter().position(|&other| other == me) {
            // The thread was told to sleep, and no thread has woken it.
            Some(connection) => {
                self.sleeping.remove(connection);
            }
            None => self.release(role),
        }
        self.present -= 1;
    }

    /// Closes the port: no connection is left and none can come, so all threads exit.
    pub fn close(&mut self) {
        self.over = true;
    }

    /// Takes back a thread's role: its token, its job, the lead.
    pub fn release(&mut self, role: Role) {
        match role {
            Role::New => {}
            Role::Woken => self.woken -= 1,
            Role::Running => self.running -= 1,
            Role::Working => self.working -= 1,
            Role::Leading => self.leading = false,
        }
    }

    /// Adds work.
    pub fn submit(&mut self, items: &mut Vec<T>, jobs: &mut Vec<J>) {
        self.items.extend(items.drain(..));
        self.jobs.extend(jobs.drain(..));
    }

    /// The next activity of the thread `me`; its items are put into `batch`.
    pub fn next(&mut self, me: usize, batch: &mut Vec<T>) -> Action<J> {
        if self.over {
            return Action::Exit;
        }
        // A thread that works leaves the items to another, so there must be one.
        let others = self.running + self.woken + self.sleeping.len() > 0;
        let is_free = self.working < self.jobs_max() && (self.items.is_empty() || others);
        if is_free && let Some(job) = self.jobs.pop_front() {
            self.working += 1;
            return Action::Work(job);
        }
        if self.running < self.running_max {
            if !self.items.is_empty() {
                batch.extend(self.items.drain(..self.batch()));
                self.running += 1;
                return Action::Run;
            }
            if !self.leading {
                self.leading = true;
                return Action::Lead;
            }
        }
        self.sleeping.push(me);
        Action::Sleep
    }

    /// The thread that should be woken, if any; to be called after each [`Scheduler::next`].
    pub fn wake_next(&mut self) -> Option<usize> {
        let has_items = !self.items.is_empty() && self.running + self.woken < self.running_max;
        let has_jobs = !self.jobs.is_empty() && self.working + self.woken < self.jobs_max();
        let leaders = if self.is_long() { self.running_max } else { 1 };
        let is_unwatched = !self.leading && self.running + self.woken < leaders;
        if !(self.over || has_items || has_jobs || is_unwatched) {
            return None;
        }
        let sleeper = self.sleeping.pop()?;
        self.woken += 1;
        Some(sleeper)
    }

    /// The number of threads that may work at once.
    fn jobs_max(&self) -> usize {
        self.present.saturating_sub(1).max(1)
    }

    fn is_long(&self) -> bool {
        self.item_ns >= LONG_NS
    }

    /// The number of items that the next thread takes: an equal part for each thread that can come,
    /// but at least as many as are worth a wake-up.
    fn batch(&self) -> usize {
        let tokens = self.running_max - self.running;
        let comers = 1 + self.woken + self.sleeping.len();
        let least = if self.is_long() { 1 } else { BATCH_MIN };
        let part = self.items.len().div_ceil(tokens.min(comers));
        part.clamp(least, BATCH_MAX).min(self.items.len())
    }
}

#[cfg(test)]
mod tests;
