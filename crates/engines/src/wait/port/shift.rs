//! Who does what: the threads of a port, of whom one leads, some run and the others rest.
//!
//! Plain values and no waiting: a thread lays down what it had, brings what came of it, and is told
//! what to do next and whom to wake, all under one short lock. So the whole protocol is a function
//! from state to state, and `tests` walks through every order in which threads can call it.
//!
//! - To *turn* a session (step it) takes one of `running_max` tokens.
//! - To *work* on a job takes none, since it may block; but one thread never works, for somebody
//!   must serve those who move.
//! - To *lead* is to wait for completions. Nobody leads while every token is out: what came could
//!   not be stepped, and whoever is done first looks anyway.
//!
//! While steps are short, which is the rule, one thread leads, takes up to eight errands, runs them
//! and leads again: to wake another for them costs more than they do. When they have become long
//! ([`LONG_NS`]) another is called at once, to lead while this one runs and to take its part.
//!
//! - To *rest* is to sleep until called, the last who lay down first, for his cache is warm.

use std::collections::VecDeque;

/// The most errands of one share, so that others get some, and what is said leaves soon.
const SHARE_MAX: usize = 32;
/// So many short errands are not worth waking another thread for.
const SHARE_MIN: usize = 8;
/// From here on an errand is long, in nanoseconds of its mean: to wake a thread and let it fall
/// asleep again takes a tenth of that.
const LONG_NS: u64 = 50_000;

/// What a thread had to do until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Nothing: it has just come.
    Fresh,
    /// It was called from its rest.
    Called,
    /// It turned sessions.
    Running,
    /// It worked on a job.
    Working,
    /// It waited for completions.
    Leading,
}

/// What a thread is to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Task<J> {
    /// Run the errands of its share.
    Turn,
    /// Work on this.
    Work(J),
    /// Wait for completions.
    Lead,
    /// Sleep until called.
    Rest,
    /// Go home.
    Leave,
}

impl<J> Task<J> {
    /// What who does this has to lay down afterwards.
    pub fn role(&self) -> Role {
        match self {
            Task::Turn => Role::Running,
            Task::Work(_) => Role::Working,
            Task::Lead => Role::Leading,
            Task::Rest => Role::Called,
            Task::Leave => Role::Fresh,
        }
    }
}

/// The state of all threads, and what waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shift<T, J> {
    running_max: usize,
    errands: VecDeque<T>,
    jobs: VecDeque<J>,
    present: usize,
    running: usize,
    working: usize,
    /// Called, and not here yet.
    called: usize,
    leading: bool,
    resting: Vec<usize>,
    over: bool,
    /// What an errand takes, a moving mean.
    errand_ns: u64,
}

impl<T, J> Shift<T, J> {
    /// A shift of which at most `running_max` threads turn sessions at one time.
    pub fn new(running_max: usize) -> Shift<T, J> {
        Shift {
            running_max,
            errands: VecDeque::new(),
            jobs: VecDeque::new(),
            present: 0,
            running: 0,
            working: 0,
            called: 0,
            leading: false,
            resting: Vec::new(),
            over: false,
            errand_ns: 0,
        }
    }

    /// A share of `errands` took `elapsed_ns`.
    pub fn weigh(&mut self, errands: usize, elapsed_ns: u64) {
        let each = elapsed_ns / errands.max(1) as u64;
        self.errand_ns = (self.errand_ns * 7 + each) / 8;
    }

    /// A thread has come.
    pub fn sit(&mut self) {
        self.present += 1;
    }

    /// The thread `me` goes, whatever the others do.
    pub fn stand(&mut self, me: usize, role: Role) {
        match self.resting.iter().position(|&other| other == me) {
            // It was told to rest, and nobody has called it.
            Some(place) => {
                self.resting.remove(place);
            }
            None => self.lay_down(role),
        }
        self.present -= 1;
    }

    /// Nobody will come any more: who asks is sent home.
    pub fn close(&mut self) {
        self.over = true;
    }

    /// A thread gives back what it had: its token, its job, the lead.
    pub fn lay_down(&mut self, role: Role) {
        match role {
            Role::Fresh => {}
            Role::Called => self.called -= 1,
            Role::Running => self.running -= 1,
            Role::Working => self.working -= 1,
            Role::Leading => self.leading = false,
        }
    }

    /// What waits from now on.
    pub fn bring(&mut self, errands: &mut Vec<T>, jobs: &mut Vec<J>) {
        self.errands.extend(errands.drain(..));
        self.jobs.extend(jobs.drain(..));
    }

    /// What the thread `me` does next; its errands are put into `share`.
    pub fn next(&mut self, me: usize, share: &mut Vec<T>) -> Task<J> {
        if self.over {
            return Task::Leave;
        }
        // Who works leaves the errands to another, who must be there.
        let others = self.running + self.called + self.resting.len() > 0;
        let is_free = self.working < self.jobs_max() && (self.errands.is_empty() || others);
        if is_free && let Some(job) = self.jobs.pop_front() {
            self.working += 1;
            return Task::Work(job);
        }
        if self.running < self.running_max {
            if !self.errands.is_empty() {
                share.extend(self.errands.drain(..self.share()));
                self.running += 1;
                return Task::Turn;
            }
            if !self.leading {
                self.leading = true;
                return Task::Lead;
            }
        }
        self.resting.push(me);
        Task::Rest
    }

    /// Whom to wake, if that is of use; to be asked after each [`Shift::next`].
    pub fn call(&mut self) -> Option<usize> {
        let has_errands = !self.errands.is_empty() && self.running + self.called < self.running_max;
        let has_jobs = !self.jobs.is_empty() && self.working + self.called < self.jobs_max();
        let lookouts = if self.is_long() { self.running_max } else { 1 };
        let is_deserted = !self.leading && self.running + self.called < lookouts;
        if !(self.over || has_errands || has_jobs || is_deserted) {
            return None;
        }
        let whom = self.resting.pop()?;
        self.called += 1;
        Some(whom)
    }

    /// How many may work at one time.
    fn jobs_max(&self) -> usize {
        self.present.saturating_sub(1).max(1)
    }

    fn is_long(&self) -> bool {
        self.errand_ns >= LONG_NS
    }

    /// How many errands the next thread takes: an equal part for each that can come, but no less
    /// than is worth its coming.
    fn share(&self) -> usize {
        let tokens = self.running_max - self.running;
        let comers = 1 + self.called + self.resting.len();
        let least = if self.is_long() { 1 } else { SHARE_MIN };
        let part = self.errands.len().div_ceil(tokens.min(comers));
        part.clamp(least, SHARE_MAX).min(self.errands.len())
    }
}

#[cfg(test)]
mod tests;
