//! A port in small: its shift, what each thread is at, what the kernel has.

use super::super::*;

/// What an errand does when it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Plain,
    /// A job comes of it, whose end is a plain errand.
    Job,
    /// Another errand comes of it, as of a push.
    Again,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It is about to ask what is next.
    Asks,
    /// It has been told, and is about to wake another.
    Wakes(usize),
    Runs,
    Works,
    /// It waits for completions.
    Leads,
    Rests,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hand {
    at: At,
    role: Role,
    /// What it does once it has woken another.
    then: At,
    called: bool,
    share: Vec<Kind>,
    errands: Vec<Kind>,
    jobs: Vec<()>,
}

/// A fault in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    None,
    /// Nobody is ever woken.
    NobodyCalled,
    /// A thread keeps its token while it works.
    TokenKept,
    /// A token is not given back.
    TokenLost,
    /// Who has led is believed to lead on.
    LeadKept,
    /// All threads may work at one time.
    AllWork,
    /// Who was called is believed to be on its way for ever.
    CalledKept,
    /// Who rests is not told that the port closes.
    RestersForgotten,
    /// A token is taken by whoever asks.
    TokenForged,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    shift: Shift<Kind, ()>,
    hands: Vec<Hand>,
    /// Completions that have not come yet, the last one first.
    coming: Vec<Kind>,
    /// Completions that nobody has reaped.
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
        let mut shift = Shift::new(running);
        (0..threads).for_each(|_| shift.sit());
        shift.errand_ns = if long { LONG_NS } else { 0 };
        if mutant == Mutant::AllWork {
            shift.sit();
        }
        let hand = Hand {
            at: At::Asks,
            role: Role::Fresh,
            then: At::Asks,
            called: false,
            share: Vec::new(),
            errands: Vec::new(),
            jobs: Vec::new(),
        };
        let coming = kinds.to_vec();
        World { shift, hands: vec![hand; threads], coming, ready: Vec::new(), mutant }
    }

    /// All states that one move leads to; runs and jobs end in this world, or take for ever.
    pub fn moves(&self, runs_end: bool, jobs_end: bool) -> Vec<World> {
        let mut found = Vec::new();
        if !self.coming.is_empty() {
            let mut next = self.clone();
            next.ready.extend(next.coming.pop());
            found.push(next);
        }
        for me in 0..self.hands.len() {
            let may = match &self.hands[me].at {
                At::Asks | At::Wakes(_) => true,
                At::Runs => runs_end,
                At::Works => jobs_end,
                At::Leads => !self.ready.is_empty() || self.is_done(),
                At::Rests => self.hands[me].called,
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

    /// Whether the leader finds that nobody is left.
    fn is_done(&self) -> bool {
        let idle = |hand: &Hand| matches!(hand.at, At::Leads | At::Rests);
        let nothing = self.shift.errands.is_empty() && self.shift.jobs.is_empty();
        let unasked = self.hands.iter().all(|hand| idle(hand) && !hand.called);
        self.coming.is_empty() && self.ready.is_empty() && nothing && unasked
    }

    fn go(&mut self, me: usize) {
        let hand = &mut self.hands[me];
        match hand.at.clone() {
            At::Asks => self.ask(me),
            At::Wakes(whom) => {
                hand.at = hand.then.clone();
                self.hands[whom].called = true;
            }
            At::Runs => {
                for kind in hand.share.drain(..) {
                    match kind {
                        Kind::Plain => {}
                        Kind::Job => hand.jobs.push(()),
                        Kind::Again => hand.errands.push(Kind::Plain),
                    }
                }
                hand.at = At::Asks;
            }
            At::Works => {
                hand.errands.push(Kind::Plain);
                hand.at = At::Asks;
            }
            At::Leads => {
                if self.ready.is_empty() {
                    self.shift.close();
                }
                hand.errands.append(&mut self.ready);
                hand.at = At::Asks;
            }
            At::Rests => (hand.called, hand.at) = (false, At::Asks),
            At::Gone => {}
        }
    }

    /// What `Hand::report` does, with the fault.
    fn ask(&mut self, me: usize) {
        let (shift, hand, mutant) = (&mut self.shift, &mut self.hands[me], self.mutant);
        match (hand.role, mutant) {
            (Role::Running, Mutant::TokenLost)
            | (Role::Leading, Mutant::LeadKept)
            | (Role::Called, Mutant::CalledKept) => {}
            (Role::Working, Mutant::TokenKept) => {
                shift.lay_down(Role::Working);
                shift.lay_down(Role::Running);
            }
            (role, _) => shift.lay_down(role),
        }
        shift.bring(&mut hand.errands, &mut hand.jobs);
        if mutant == Mutant::TokenForged {
            shift.running_max += 1;
        }
        let task = shift.next(me, &mut hand.share);
        if mutant == Mutant::TokenForged {
            shift.running_max -= 1;
        }
        if mutant == Mutant::TokenKept && task.role() == Role::Working {
            shift.running += 1;
        }
        hand.role = task.role();
        hand.then = match task {
            Task::Turn => At::Runs,
            Task::Work(()) => At::Works,
            Task::Lead => At::Leads,
            Task::Rest => At::Rests,
            Task::Leave => At::Gone,
        };
        let whom = match mutant {
            Mutant::NobodyCalled => None,
            Mutant::RestersForgotten if shift.over => None,
            _ => shift.call(),
        };
        hand.at = whom.map_or(hand.then.clone(), At::Wakes);
    }

    fn count(&self, at: &At) -> usize {
        self.hands.iter().filter(|hand| hand.at == *at).count()
    }

    /// What must hold in every state.
    pub fn check(&self, tokens: usize) -> Result<(), &'static str> {
        if self.count(&At::Runs) > tokens {
            return Err("more threads run than there are tokens");
        }
        if self.count(&At::Leads) > 1 {
            return Err("two threads lead");
        }
        Ok(())
    }

    /// What must hold where nobody can move but the kernel, runs and jobs, as far as those do not
    /// end.
    pub fn check_still(
        &self,
        tokens: usize,
        long: bool,
        runs_end: bool,
    ) -> Result<(), &'static str> {
        if self.shift.over {
            return match self.count(&At::Gone) == self.hands.len() {
                true => Ok(()),
                false => Err("the port is closed and somebody stays"),
            };
        }
        let (runs, works) = (self.count(&At::Runs), self.count(&At::Works));
        let (leads, rests) = (self.count(&At::Leads), self.count(&At::Rests));
        // A single thread that works leaves everybody alone, and nobody else is there.
        let is_alone = self.hands.len() == 1 && works == 1;
        if !self.shift.jobs.is_empty() && works < (self.hands.len() - 1).max(1) && rests > 0 {
            return Err("a job waits for somebody who rests");
        }
        if runs == 0 && !is_alone && !self.shift.errands.is_empty() {
            return Err("an errand waits and nobody runs");
        }
        if runs == 0 && !is_alone && leads == 0 {
            return Err("nobody runs and nobody leads");
        }
        if !runs_end && long && runs < tokens && rests > 0 {
            if !self.shift.errands.is_empty() {
                return Err("an errand waits for a token that is free");
            }
            if leads == 0 {
                return Err("runs are long, a token is free, and nobody leads");
            }
        }
        Ok(())
    }
}
