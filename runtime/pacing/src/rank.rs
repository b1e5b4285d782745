//! The scheduling rank of a streaming worker.
//!
//! Only threads that send have the rank: the worker's thread and the threads of `plain`. Their
//! children begin at the usual rank (`SCHED_RESET_ON_FORK`), so that nothing gets priority by
//! accident.

use std::fmt;
use std::io;

use sys::rank::{Turn, bounds, nice, set_nice};

/// A rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Display)]
pub enum Rank {
    /// The rank of the parent.
    #[default]
    #[display("the usual rank")]
    Usual,
    /// A nice value, -20 (first) to 19.
    #[display("nice {_0}")]
    Nice(i32),
    /// Real-time priority (`SCHED_FIFO`), 1 to 99: before every thread without one.
    #[display("FIFO {_0}")]
    Fifo(u32),
}

impl Rank {
    /// Gives the rank to the calling thread.
    pub(crate) fn take(self) -> Result<(), RankRefused> {
        let taken = match self {
            Rank::Usual => Ok(()),
            Rank::Nice(value) => set_nice(None, value),
            Rank::Fifo(priority) => Turn::in_front(priority, true).give(None),
        };
        taken.map_err(|error| RankRefused { rank: self, error })
    }

    /// Whether the calling thread may take the rank, tried by taking it for a moment.
    ///
    /// # Errors
    /// The process may not take the rank.
    pub(crate) fn check(self) -> Result<(), RankRefused> {
        let tried = || match self {
            Rank::Usual => Ok(()),
            Rank::Nice(value) => {
                let before = nice(None)?;
                // A nice value above the present one is always allowed, but there might be no way
                // back from it.
                if value >= before {
                    return Ok(());
                }
                set_nice(None, value)?;
                set_nice(None, before)
            }
            Rank::Fifo(priority) => {
                let before = Turn::of(None)?;
                Turn::in_front(priority, before.resets_on_fork()).give(None)?;
                before.give(None)
            }
        };
        tried().map_err(|error| RankRefused { rank: self, error })
    }
}

/// A rank that this process may not have.
#[derive(Debug)]
pub struct RankRefused {
    rank: Rank,
    error: io::Error,
}

impl fmt::Display for RankRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RankRefused { rank, error } = self;
        let Ok((lowest, highest)) = bounds() else { return write!(f, "{rank}: {error}") };
        let advice = "run it as root, give the program the capability (setcap cap_sys_nice=ep \
                      FILE, AmbientCapabilities=CAP_SYS_NICE in a unit)";
        match rank {
            Rank::Usual => write!(f, "{rank}: {error}"),
            Rank::Nice(value) => write!(
                f,
                "expected permission to send at nice {value}, found {error} (without \
                 CAP_SYS_NICE the lowest here is {lowest}); {advice}, or raise the limit \
                 (ulimit -e {}, LimitNICE=)",
                20 - value
            ),
            Rank::Fifo(priority) if highest >= *priority => write!(
                f,
                "expected permission to send at real-time priority {priority}, which the limit of \
                 {highest} allows, found {error}: the group of processes may have no real-time \
                 budget (cpu.rt_runtime_us); start it in another one"
            ),
            Rank::Fifo(priority) => write!(
                f,
                "expected permission to send at real-time priority {priority}, found {error} \
                 (without CAP_SYS_NICE the highest here is {highest}, and 0 is none); {advice}, \
                 or raise the limit (ulimit -r {priority}, LimitRTPRIO=)"
            ),
        }
    }
}

impl std::error::Error for RankRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of setpriority(2) without permission.
    const EACCES: i32 = 13;

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = |rank, code| {
            RankRefused { rank, error: io::Error::from_raw_os_error(code) }.to_string()
        };
        let words = refused(Rank::Nice(-11), EACCES);
        assert!(words.contains("nice -11") && words.contains("ulimit -e 31"), "{words}");
        let words = refused(Rank::Fifo(99), EACCES);
        let known = ["ulimit -r 99", "cpu.rt_runtime_us"].iter().any(|it| words.contains(it));
        assert!(known && words.contains("real-time priority 99"), "{words}");
    }

    #[test]
    fn a_trial_leaves_no_trace() {
        std::thread::spawn(|| {
            let now = || (nice(None).expect("ours"), Turn::of(None).expect("ours"));
            let before = now();
            for rank in [Rank::Usual, Rank::Nice(-20), Rank::Nice(19), Rank::Fifo(3)] {
                // Allowed or not, the rank is the same afterwards.
                let _ = rank.check();
                assert_eq!(now(), before, "{rank}");
            }
            assert!(Rank::Nice(19).check().is_ok(), "every thread may lower its rank");
        })
        .join()
        .expect("no panic");
    }
}
