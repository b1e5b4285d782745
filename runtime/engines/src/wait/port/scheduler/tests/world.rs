//! A small port: its scheduler, the position of each thread, the kernel's completions.

use super::super::*;

/// The effect of running an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Plain,
    /// It makes a job, whose end is a plain item.
    Job,
    /// It makes another item, as a push does.
    Again,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It is about to ask for its next action.
    Asks,
    /// It knows its action, and is about to wake another thread.
    Wakes(usize),
    Runs,
    Works,
    /// It waits for completions.
    Leads,
    Sleeps,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ThreadState {
    at: At,
    role: Role,
    /// The thread's next position after it has woken another.
    then: At,
    woken: bool,
    batch: Vec<Kind>,
    items: Vec<Kind>,
    jobs: Vec<()>,
}

/// A fault in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    None,
    NobodyWoken,
    /// A thread keeps its token while it works.
    TokenKept,
    TokenLost,
    /// The scheduler believes that a thread that has led still leads.
    LeadKept,
    /// All threads may work at once.
    AllWork,
    /// The scheduler believes that a woken thread never arrives.
    WokenKept,
    /// Sleeping threads are not told that the port closes.
    SleepersForgotten,
    /// Every thread that asks gets a token.
    TokenForged,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    scheduler: Scheduler<Kind, ()>,
    threads: Vec<ThreadState>,
    /// Completions that have not happened yet, the last one first.
    coming: Vec<Kind>,
    /// Completions that no thread has reaped.
    ready: Vec<Kind>,
    mutant: Mutant,
}

impl World {
    pub fn new(
        threads: usize,
        running: usize,
        kinds: &[Kind],
        long: bool,
        mutant: Mutant,
    ) -> World {
        let mut scheduler = Scheduler::new(running);
        (0..threads).for_each(|_| scheduler.join());
        scheduler.item_ns = if long { LONG_NS } else { 0 };
        if mutant == Mutant::AllWork {
            scheduler.join();
        }
        let thread = ThreadState {
            at: At::Asks,
            role: Role::New,
            then: At::Asks,
            woken: false,
            batch: Vec::new(),
            items: Vec::new(),
            jobs: Vec::new(),
        };
        let coming = kinds.to_vec();
        World { scheduler, threads: vec![thread; threads], coming, ready: Vec::new(), mutant }
    }

    /// All states that one move leads to; the flags say whether runs and jobs end in this world.
    pub fn moves(&self, runs_end: bool, jobs_end: bool) -> Vec<World> {
        let mut found = Vec::new();
        if !self.coming.is_empty() {
            let mut next = self.clone();
            next.ready.extend(next.coming.pop());
            found.push(next);
        }
        for me in 0..self.threads.len() {
            let may = match &self.threads[me].at {
                At::Asks | At::Wakes(_) => true,
                At::Runs => runs_end,
                At::Works => jobs_end,
                At::Leads => !self.ready.is_empty() || self.is_done(),
                At::Sleeps => self.threads[me].woken,
                At::Gone => false,
            };
            if may {
                let mut next = self.clone();
                next.go(me);
                found.push(next);
            }
        }
        found
    }

    /// Whether the leader finds no session left.
    fn is_done(&self) -> bool {
        let idle = |thread: &ThreadState| matches!(thread.at, At::Leads | At::Sleeps);
        let nothing = self.scheduler.items.is_empty() && self.scheduler.jobs.is_empty();
        let unasked = self.threads.iter().all(|thread| idle(thread) && !thread.woken);
        self.coming.is_empty() && self.ready.is_empty() && nothing && unasked
    }

    fn go(&mut self, me: usize) {
        let thread = &mut self.threads[me];
        match thread.at.clone() {
            At::Asks => self.ask(me),
            At::Wakes(sleeper) => {
                thread.at = thread.then.clone();
                self.threads[sleeper].woken = true;
            }
            At::Runs => {
                for kind in thread.batch.drain(..) {
                    match kind {
                        Kind::Plain => {}
                        Kind::Job => thread.jobs.push(()),
                        Kind::Again => thread.items.push(Kind::Plain),
                    }
                }
                thread.at = At::Asks;
            }
            At::Works => {
                thread.items.push(Kind::Plain);
                thread.at = At::Asks;
            }
            At::Leads => {
                if self.ready.is_empty() {
                    self.scheduler.close();
                }
                thread.items.append(&mut self.ready);
                thread.at = At::Asks;
            }
            At::Sleeps => (thread.woken, thread.at) = (false, At::Asks),
            At::Gone => {}
        }
    }

    /// The steps of `PortThread::report`, with the fault.
    fn ask(&mut self, me: usize) {
        let (scheduler, thread, mutant) = (&mut self.scheduler, &mut self.threads[me], self.mutant);
        match (thread.role, mutant) {
            (Role::Running, Mutant::TokenLost)
            | (Role::Leading, Mutant::LeadKept)
            | (Role::Woken, Mutant::WokenKept) => {}
            (Role::Working, Mutant::TokenKept) => {
                scheduler.release(Role::Working);
                scheduler.release(Role::Running);
            }
            (role, _) => scheduler.release(role),
        }
        scheduler.submit(&mut thread.items, &mut thread.jobs);
        if mutant == Mutant::TokenForged {
            scheduler.running_max += 1;
        }
        let action = scheduler.next(me, &mut thread.batch);
        if mutant == Mutant::TokenForged {
            scheduler.running_max -= 1;
        }
        if mutant == Mutant::TokenKept && action.role() == Role::Working {
            scheduler.running += 1;
        }
        thread.role = action.role();
        thread.then = match action {
            Action::Run => At::Runs,
            Action::Work(()) => At::Works,
            Action::Lead => At::Leads,
            Action::Sleep => At::Sleeps,
            Action::Exit => At::Gone,
        };
        let sleeper = match mutant {
            Mutant::NobodyWoken => None,
            Mutant::SleepersForgotten if scheduler.over => None,
            _ => scheduler.wake_next(),
        };
        thread.at = sleeper.map_or(thread.then.clone(), At::Wakes);
    }

    fn count(&self, at: &At) -> usize {
        self.threads.iter().filter(|thread| thread.at == *at).count()
    }

    /// The invariants of every state.
    pub fn check(&self, tokens: usize) -> Result<(), &'static str> {
        if self.count(&At::Runs) > tokens {
            return Err("more threads run than there are tokens");
        }
        if self.count(&At::Leads) > 1 {
            return Err("two threads lead");
        }
        Ok(())
    }

    /// The invariants of a state in which only the kernel, and steps and jobs that end, could move.
    pub fn check_still(
        &self,
        tokens: usize,
        long: bool,
        runs_end: bool,
    ) -> Result<(), &'static str> {
        if self.scheduler.over {
            return match self.count(&At::Gone) == self.threads.len() {
                true => Ok(()),
                false => Err("the port is closed and a thread stays"),
            };
        }
        let (runs, works) = (self.count(&At::Runs), self.count(&At::Works));
        let (leads, sleeps) = (self.count(&At::Leads), self.count(&At::Sleeps));
        // A single thread that works leaves all sessions alone.
        let is_alone = self.threads.len() == 1 && works == 1;
        if !self.scheduler.jobs.is_empty() && works < (self.threads.len() - 1).max(1) && sleeps > 0
        {
            return Err("a job waits while a thread sleeps");
        }
        if runs == 0 && !is_alone && !self.scheduler.items.is_empty() {
            return Err("an item waits and no thread runs");
        }
        if runs == 0 && !is_alone && leads == 0 {
            return Err("no thread runs and none leads");
        }
        if !runs_end && long && runs < tokens && sleeps > 0 {
            if !self.scheduler.items.is_empty() {
                return Err("an item waits for a token that is free");
            }
            if leads == 0 {
                return Err("runs are long, a token is free, and no thread leads");
            }
        }
        Ok(())
    }
}
