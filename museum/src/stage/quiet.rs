//! Tests whether the machine was quiet during a run, and repeats the run if it was not.
//!
//! The laboratory's gates on the environment (lab's `plan/gates.rs`): a run during which other
//! programs or the hypervisor took too much is repeated before its outcome is known, and counts
//! anyway when the repetitions are used up. Noise does not affect all servers equally. A sleeping
//! thread gets the core only after the other program's turn, and every thread has separate turns.
//! On a core shared with a compiler, one thread with epoll answered 79 requests a second where a
//! thread for each connection answered 733; on an otherwise idle core the same two answered 28,026
//! and 11,850. A busy machine can reverse a comparison.

use lab::machine::Conditions;
use lab::plan::Gates;
use stats::words;

/// The numbers of quiet and noisy runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quiet {
    runs: u32,
    repeated: u32,
    /// Runs that count although a gate refused them.
    loud: u32,
    /// The largest share of the machine that other programs took in one of those.
    worst: f64,
}

const ATTEMPTS: u32 = 3;
const REPEATED_SHARE: f64 = 0.2;

/// The share of the machine that other programs took, if it exceeds the gates.
fn refused(gates: &Gates, conditions: &Conditions) -> Option<f64> {
    let above = |share: Option<f64>, most: f64| share.filter(|share| *share > most);
    let steal = above(conditions.steal, gates.steal_max);
    let foreign = above(conditions.foreign, gates.foreign_max);
    steal.or(foreign).map(|_| conditions.steal.unwrap_or(0.0) + conditions.foreign.unwrap_or(0.0))
}

/// The largest share of runs on a machine that was not quiet with which a result is a claim.
const LOUD_MAX: f64 = 0.1;

impl Quiet {
    /// Takes a run that counts in any case.
    pub fn counts(&mut self, conditions: &Conditions) {
        self.repeats(conditions, u32::MAX, true);
    }

    /// The reason why the results support no claim, if the machine was not quiet.
    pub fn excuse(&self) -> Option<String> {
        let most = f64::from(self.runs) * LOUD_MAX;
        let (loud, runs, worst) = (self.loud, self.runs, words::percent(self.worst));
        (f64::from(loud) > most).then(|| {
            format!(
                "The machine was not quiet: {loud} of {runs} runs count although other programs \
                 had up to {worst} of it."
            )
        })
    }

    /// Takes a run, the `attempt`th at its place. True if it has to be repeated, which is never so
    /// where it has to be `quick`.
    pub fn repeats(&mut self, conditions: &Conditions, attempt: u32, quick: bool) -> bool {
        let gates = Gates::default();
        let Some(others) = refused(&gates, conditions) else {
            self.runs += 1;
            return false;
        };
        let room = 1.0 + f64::from(self.runs) * REPEATED_SHARE;
        if !quick && attempt < ATTEMPTS && f64::from(self.repeated) < room {
            self.repeated += 1;
            return true;
        }
        (self.runs, self.loud) = (self.runs + 1, self.loud + 1);
        self.worst = self.worst.max(others);
        false
    }

    /// The doubt about the figures, if there is one.
    pub fn doubt(&self) -> Option<String> {
        (self.loud > 0).then(|| {
            format!(
                "{} of {} runs count although the machine was not quiet: others had up to {} of \
                 it. A server of one thread loses far more by that than a server of many, so \
                 requests a second may be in the wrong order; CPU / request is not.",
                self.loud,
                self.runs,
                words::percent(self.worst)
            )
        })
    }

    /// As a row of facts, once there was a run.
    pub fn fact(&self) -> Option<(String, String)> {
        let words = format!(
            "{} that count, {} repeated because the machine was not quiet",
            self.runs, self.repeated
        );
        (self.runs > 0).then(|| ("Runs".to_string(), words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(share: f64) -> Conditions {
        Conditions { steal: Some(0.0), foreign: Some(share), ..Conditions::default() }
    }

    #[test]
    fn a_disturbed_run_is_repeated_and_counts_when_nothing_helps() {
        let mut quiet = Quiet::default();
        assert!(quiet.repeats(&others(0.4), 1, false));
        assert!(!quiet.repeats(&others(0.5), 2, false), "one repetition for so few runs");
        assert!(quiet.doubt().is_some_and(|it| it.starts_with("1 of 1 runs") && it.contains("50")));
        for _ in 0..10 {
            assert!(!quiet.repeats(&others(0.01), 1, false));
        }
        assert!(quiet.repeats(&others(0.3), 1, false) && quiet.repeats(&others(0.3), 2, false));
        assert!(!quiet.repeats(&others(0.3), 3, false), "three attempts at the most");
        assert!(quiet.fact().is_some_and(|it| it.1.starts_with("12 that count, 3 repeated")));
    }

    #[test]
    fn a_claim_needs_nine_quiet_runs_of_ten() {
        let mut quiet = Quiet::default();
        (0..10).for_each(|_| quiet.counts(&others(0.01)));
        quiet.counts(&others(0.5));
        assert_eq!(quiet.excuse(), None);
        quiet.counts(&others(0.5));
        assert!(quiet.excuse().is_some_and(|it| it.contains("2 of 12 runs")));
    }

    #[test]
    fn a_quiet_run_and_a_quick_one_are_not_repeated() {
        let mut quiet = Quiet::default();
        assert!(!quiet.repeats(&others(0.02), 1, false) && quiet.doubt().is_none());
        assert!(
            !quiet.repeats(&Conditions::default(), 1, false),
            "what is unknown refuses nothing"
        );
        assert!(!quiet.repeats(&others(0.9), 1, true) && quiet.doubt().is_some());
        assert!(Quiet::default().fact().is_none());
    }
}
