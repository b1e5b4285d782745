//! The workers of a shape: how many there are in a process, and how many processes.
//!
//! `Shape::check` calls `check_staff` before anything starts, and the supervisor asks `staffing`
//! for the terms of spare control (`spare`). The defaults are those of Apache's documentation for
//! prefork and worker. Most refusals have one of two reasons: the setting would have no effect at
//! this point, or the workers would not fit the slots of the scoreboard, which are fixed when the
//! server starts. In a hybrid an entry takes one slot per thread and one for its listener.

use super::{SLOTS, Shape};
use crate::axes::{Accept, Container, Refused, Wait};
use crate::spare::{Policy, Terms};
use crate::staff::{Staffing, THREADS};

impl Shape {
    /// Workers in one process.
    pub fn threads(&self) -> usize {
        match self.container {
            Container::Hybrid => self.knobs.staff.threads.unwrap_or(THREADS),
            // One entry starts them all.
            _ if self.wait == Wait::TokioSteal => self.workers.max(1),
            _ => 1,
        }
    }

    /// Slots on the scoreboard that one entry takes: the threads of a hybrid or a
    /// runtime, and their listener.
    pub(crate) fn stride(&self) -> usize {
        let is_group = self.container == Container::Hybrid || self.wait == Wait::TokioSteal;
        if is_group { self.threads() + 1 } else { 1 }
    }

    /// The threads of stages besides the workers: one reads, and one more may step or write.
    pub(super) fn extra_threads(&self) -> usize {
        if self.wait == Wait::Staged { 2 } else { 0 }
    }

    /// Whether a worker has one connection at a time, if only while the connection is active.
    fn is_crowd(&self) -> bool {
        matches!(self.wait, Wait::Blocking | Wait::Parked)
    }

    /// The staffing, where workers are processes.
    pub fn staffing(&self) -> Option<Staffing> {
        let (staff, size) = (&self.knobs.staff, self.threads());
        // The defaults in Apache's documentation, for processes and for threads.
        let (usual, start, least, most) = match self.container {
            Container::Processes => (Policy::Static, 5, 5, 10),
            Container::Hybrid => (Policy::Damped, 3, 3 * size, 10 * size),
            _ => return None,
        };
        let policy = staff.policy.unwrap_or(usual);
        let processes_max = (self.workers / size).max(1);
        let usual_start = if policy == Policy::Static { processes_max } else { start };
        let terms = Terms {
            size,
            spare_min: staff.spare_min.unwrap_or(least),
            spare_max: staff.spare_max.unwrap_or(most),
            processes_max,
        };
        let start = staff.start.unwrap_or(usual_start).clamp(1, processes_max);
        Some(Staffing { policy, terms: terms.widened(), start })
    }

    /// Checks the settings of the workers.
    pub(crate) fn check_staff(&self) -> Result<(), Refused> {
        let refuse = |reason: String| Err(Refused(reason));
        let (staff, container) = (&self.knobs.staff, self.container);
        if let Some(threads) = staff.threads {
            if container != Container::Hybrid {
                return refuse(format!(
                    "threads per process belong to container hybrid, found {container}: say \
                     --workers, or --engine worker"
                ));
            }
            if threads == 0 {
                return refuse("expected 1 thread or more, found --threads 0".into());
            }
        }
        if staff.lifetime == Some(0) {
            return refuse(
                "expected 1 connection or more, found 0: leave it out to keep processes".into(),
            );
        }
        if staff.lifetime.is_some() && (!self.is_crowd() || self.staffing().is_none()) {
            return refuse(format!(
                "--max-connections-per-child belongs to processes that block, found {self}"
            ));
        }
        self.check_hybrid()?;
        self.check_policy()
    }

    fn check_hybrid(&self) -> Result<(), Refused> {
        let (workers, threads) = (self.workers, self.threads());
        if self.container != Container::Hybrid {
            return Ok(());
        }
        if !workers.is_multiple_of(threads) {
            let (less, more) = (workers / threads * threads, workers.next_multiple_of(threads));
            return Err(Refused(format!(
                "expected whole processes of {threads} threads, found --workers {workers}: say \
                 {}{more}",
                if less > 0 { format!("{less} or ") } else { String::new() }
            )));
        }
        let slots = workers / threads * self.stride();
        if slots > SLOTS - 2 {
            return Err(Refused(format!(
                "expected at most {} workers and listeners, found {workers} workers in {} \
                 processes",
                SLOTS - 2,
                workers / threads
            )));
        }
        Ok(())
    }

    fn check_policy(&self) -> Result<(), Refused> {
        let refuse = |reason: String| Err(Refused(reason));
        let staff = &self.knobs.staff;
        let policy = self.staffing().map(|staffing| staffing.policy);
        let Some(policy) = policy else {
            return match (staff.policy, staff.start, staff.spare_min.or(staff.spare_max)) {
                (None, None, None) => Ok(()),
                _ => refuse(format!(
                    "spare workers belong to processes (--engine prefork, --engine worker), found \
                     container {}",
                    self.container
                )),
            };
        };
        if policy == Policy::Static {
            return match staff.spare_min.or(staff.spare_max).or(staff.start) {
                None => Ok(()),
                Some(_) => refuse(
                    "with a fixed number of processes none are started or spared: say --policy \
                     damped or --policy apache, or leave --start, --spare-min and --spare-max out"
                        .into(),
                ),
            };
        }
        if !self.is_crowd() {
            return refuse(format!(
                "a worker is spare while it has no connection, and a loop has many: expected wait \
                 blocking or --policy static, found wait {}",
                self.wait
            ));
        }
        if matches!(self.accept, Accept::Pass | Accept::Reuseport) {
            return refuse(format!(
                "with accept {} a connection could be given to a process that has ended: \
                 expected accept shared or lock, or --policy static",
                self.accept
            ));
        }
        match (staff.spare_min, staff.spare_max, staff.start) {
            (_, Some(0), _) => refuse("expected 1 or more, found --spare-max 0".into()),
            (_, _, Some(0)) => refuse("expected 1 or more, found --start 0".into()),
            (Some(least), Some(most), _) if least > most => refuse(format!(
                "expected --spare-max of {least} or more, as --spare-min, found {most}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Staff;

    fn worker(staff: Staff, workers: usize) -> Shape {
        let mut shape = Shape::preset("worker", 2).expect("a preset");
        (shape.workers, shape.knobs.staff) = (workers, staff);
        shape
    }

    fn refusal(shape: &Shape) -> String {
        shape.check().expect_err("it cannot be").to_string()
    }

    #[test]
    fn a_hybrid_has_what_apaches_documentation_says() {
        let staffing = worker(Staff::default(), 400).staffing().expect("processes");
        assert_eq!((staffing.policy, staffing.start), (Policy::Damped, 3));
        let Terms { size, spare_min, spare_max, processes_max } = staffing.terms;
        assert_eq!((size, spare_min, spare_max, processes_max), (25, 75, 250, 16));
        let prefork = Shape::preset("prefork", 2).expect("a preset");
        let staffing = prefork.staffing().expect("processes");
        assert_eq!((staffing.policy, staffing.start), (Policy::Static, prefork.workers));
        assert_eq!(Shape::preset("pool", 2).expect("a preset").staffing(), None);
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let apache = Staff { policy: Some(Policy::Apache), ..Staff::default() };
        let mut shape = Shape::preset("prefork", 2).expect("a preset");
        shape.knobs.staff = Staff { spare_min: Some(3), ..Staff::default() };
        assert!(refusal(&shape).contains("--policy damped"));
        shape.knobs.staff = apache;
        assert_eq!(shape.check(), Ok(()));
        shape.accept = Accept::Pass;
        assert!(refusal(&shape).contains("--policy static"));
        (shape.accept, shape.wait) = (Accept::Shared, Wait::Epoll);
        assert!(refusal(&shape).contains("a loop has many"));
        shape.knobs.staff = Staff { lifetime: Some(10), ..Staff::default() };
        assert!(refusal(&shape).contains("--max-connections-per-child"));
        let mut pool = Shape::preset("pool", 2).expect("a preset");
        pool.knobs.staff = apache;
        assert!(refusal(&pool).contains("container threads"));
        pool.knobs.staff = Staff { threads: Some(4), ..Staff::default() };
        assert!(refusal(&pool).contains("--workers"));
    }

    #[test]
    fn a_hybrid_is_made_of_whole_processes() {
        let four = Staff { threads: Some(4), ..Staff::default() };
        assert_eq!(worker(four, 8).check(), Ok(()));
        assert!(refusal(&worker(four, 10)).contains("8 or 12"));
        assert!(refusal(&worker(four, 3)).contains("say 4"));
        let one = Staff { threads: Some(1), ..Staff::default() };
        assert!(refusal(&worker(one, 1200)).contains("1200 workers"));
        let wrong = Staff { spare_min: Some(9), spare_max: Some(8), ..four };
        assert!(refusal(&worker(wrong, 8)).contains("--spare-max"));
    }
}
