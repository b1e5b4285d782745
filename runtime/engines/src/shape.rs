//! The space of architectures: the parts of a point, and the reasons why some are refused. The
//! named points are in [`PRESETS`](crate::PRESETS).
//!
//! A [`Shape`] is a point (container, accept, wait), a number of workers, and the settings. It is
//! plain data: it is made from flags or from a preset, checked once before anything starts
//! ([`Shape::check`]), and then only read. Whether three axes fit each other is in `conflict`;
//! whether the numbers fit them is here and in `shape/`: the processes and their spare workers
//! (`staffing`), the threads for jobs and those of a port (`helpers`).
//!
//! A refusal names what was expected and found, and a setting that is possible. A setting that
//! would have no effect is refused too.

mod helpers;
mod staffing;

use memory::Placement;
use seam::SHARDS_MAX;

use crate::axes::{Accept, Container, Refused, Wait};
use crate::conflict::conflict;
use crate::knobs::Knobs;
use crate::presets::{PRESETS, WorkerCount};
use crate::spare::Policy;

/// Slots that one binary may use: half of all, because during a hand-over two binaries serve.
pub(crate) const SLOTS: usize = SHARDS_MAX / 2;
/// The most workers at once; one slot is the supervisor's, and one may be the acceptor's.
pub const WORKERS_MAX: usize = SLOTS - 2;

/// Workers of a hybrid by default (`MaxRequestWorkers` of Apache's worker MPM).
const HYBRID_WORKERS: usize = 400;

/// A point of the space with its settings.
#[derive(Clone, Debug, PartialEq, derive_more::Display)]
#[display("{container} x {accept} x {wait}")]
pub struct Shape {
    /// The container of the workers.
    pub container: Container,
    /// The way of accepting connections.
    pub accept: Accept,
    /// The worker's way of waiting.
    pub wait: Wait,
    /// The number of workers at once; 0 where each connection has a separate worker.
    pub workers: usize,
    /// The settings of any point.
    pub knobs: Knobs,
}

impl Shape {
    /// The named point with default settings, on `cores` cores.
    ///
    /// # Errors
    /// No preset has this name; lists the names and tells the nearest.
    pub fn preset(name: &str, cores: usize) -> Result<Shape, Refused> {
        let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            let nearest = stats::words::nearest(name, names.iter().copied());
            let advice = nearest.map(|known| format!("; did you mean {known}?"));
            return Err(Refused(format!(
                "expected one of the engines {}, found `{name}`{}",
                names.join(", "),
                advice.unwrap_or_default()
            )));
        };
        Ok(Shape {
            container: preset.container,
            accept: preset.accept,
            wait: preset.wait,
            workers: match preset.count {
                WorkerCount::Fixed(count) => count,
                WorkerCount::Cores => cores.max(1),
                WorkerCount::TwiceCores => 2 * cores.max(1),
                WorkerCount::Connections => 0,
            },
            knobs: Knobs::default(),
        })
    }

    /// The name of this point, if it has one.
    pub fn name(&self) -> Option<&'static str> {
        let point = (self.container, self.accept, self.wait);
        PRESETS.iter().find(|preset| preset.point() == point).map(|preset| preset.name)
    }

    /// The default number of workers: one for each core, or what the container implies.
    pub fn usual_workers(container: Container, cores: usize) -> usize {
        match container {
            Container::Solo | Container::Helped => 1,
            Container::Threads | Container::Processes => cores.max(1),
            Container::Hybrid => HYBRID_WORKERS,
            Container::ThreadPerConnection | Container::ProcessPerConnection => 0,
        }
    }

    /// The number of acceptors that serve all workers; a hybrid's belong to its processes.
    pub fn acceptors(&self) -> usize {
        usize::from(self.accept.has_acceptor() && self.container != Container::Hybrid)
    }

    /// The maximum number of threads or processes that the supervisor starts, acceptors included.
    pub fn entries(&self) -> usize {
        self.workers / self.threads() + self.reserve() + self.acceptors() + self.extra_threads()
    }

    /// Entries for processes that take the place of draining ones, where processes come and go: as
    /// many as there may be, and as the scoreboard has room for.
    fn reserve(&self) -> usize {
        let varies = self.staffing().is_some_and(|it| it.policy == Policy::Damped);
        let most = self.workers / self.threads();
        let room = (SLOTS - 2) / self.stride();
        if varies { most.min(room.saturating_sub(most + self.acceptors())) } else { 0 }
    }

    /// Whether a session can push bytes to another ([`seam::Cx::push`]): only where one loop or
    /// port has all sessions.
    pub fn carries(&self) -> bool {
        use Wait::{Bypass, Epoll, Poll, Port, Select, TokioLocal, Uring};
        let is_loop = matches!(self.wait, Select | Poll | Epoll | TokioLocal | Uring | Bypass);
        self.wait == Port || (is_loop && self.workers == 1)
    }

    /// Checks that the point is possible.
    ///
    /// # Errors
    /// Why the point is impossible, and a possible setting.
    pub fn check(&self) -> Result<(), Refused> {
        if let Some(reason) = conflict(self.container, self.accept, self.wait) {
            return Err(Refused(format!("{self} is impossible: {reason}")));
        }
        self.check_workers()?;
        self.check_staff()?;
        self.check_running()?;
        self.check_helpers()?;
        if self.knobs.loops.edge && self.wait != Wait::Epoll {
            return Err(Refused(format!(
                "edge-triggered readiness belongs to epoll, found wait {}: leave --edge out",
                self.wait
            )));
        }
        self.check_waiting()?;
        self.check_bypass()
    }

    fn check_workers(&self) -> Result<(), Refused> {
        let refuse = |reason: String| Err(Refused(reason));
        let most = self.knobs.limits.sessions_max;
        if self.container.is_per_connection() {
            if self.workers > 0 {
                return refuse(format!(
                    "each connection has a separate worker, found --workers {}: say \
                     --max-connections {0}",
                    self.workers
                ));
            }
            return match most {
                Some(most) if most == 0 || most > WORKERS_MAX => refuse(format!(
                    "expected 1 to {WORKERS_MAX} connections, because each has a worker with a \
                     slot on the scoreboard, found --max-connections {most}"
                )),
                _ => Ok(()),
            };
        }
        // The extra worker's entry has as many slots as that of a runtime.
        let part = if self.wait == Wait::TokioSteal { 2 } else { 1 };
        let all = WORKERS_MAX / part - self.extra_threads();
        if self.workers == 0 || self.workers > all {
            return refuse(format!("expected 1 to {all} workers, found {}", self.workers));
        }
        if self.container.is_single() && self.workers > 1 {
            return refuse(format!(
                "container {} has one worker, found --workers {}: say --container threads or \
                 --container processes",
                self.container, self.workers
            ));
        }
        match most {
            // Parked connections share the limit of their process, as those of all leaders do.
            Some(most) if self.wait == Wait::Parked && most >= self.workers / self.threads() => {
                Ok(())
            }
            Some(1..) if matches!(self.wait, Wait::Leader | Wait::Staged | Wait::TokioSteal) => {
                Ok(())
            }
            Some(most) if most < self.workers => refuse(format!(
                "each of {} workers may have a connection, found --max-connections {most}: say \
                 --workers {}, or allow more",
                self.workers,
                most.max(1)
            )),
            _ => Ok(()),
        }
    }

    /// Where a service's state must lie: in shared memory if workers are processes. A server that
    /// is to hand its state over to the next binary needs it there in any case.
    pub fn placement(&self) -> Placement {
        if self.container.is_processes() { Placement::Shared } else { Placement::Private }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(container: Container, accept: Accept, wait: Wait) -> Shape {
        let workers = Shape::usual_workers(container, 2);
        Shape { container, accept, wait, workers, knobs: Knobs::default() }
    }

    #[test]
    fn refusals_say_what_was_expected_and_found() {
        let unknown = Shape::preset("epol", 1).expect_err("no such engine").to_string();
        assert!(unknown.contains("epoll") && unknown.contains("`epol`"), "{unknown}");
        let crowd = Shape { workers: 3, ..Shape::preset("epoll", 1).expect("a preset") };
        assert!(crowd.check().expect_err("solo has one").to_string().contains("--container"));
        let mut narrow = Shape::preset("prefork", 1).expect("a preset");
        narrow.knobs.limits.sessions_max = Some(narrow.workers);
        assert_eq!(narrow.check(), Ok(()));
        narrow.knobs.limits.sessions_max = Some(3);
        assert!(narrow.check().expect_err("16 workers").to_string().contains("--workers 3"));
        let mut edge = Shape::preset("uring", 1).expect("a preset");
        edge.knobs.loops.edge = true;
        assert!(edge.check().is_err());
        let mut each = Shape::preset("thread", 1).expect("a preset");
        each.knobs.limits.sessions_max = Some(WORKERS_MAX + 1);
        assert!(each.check().expect_err("a slot each").to_string().contains("slot"));
        each = Shape { workers: 4, ..Shape::preset("fork", 1).expect("a preset") };
        assert!(each.check().expect_err("own workers").to_string().contains("--max-connections 4"));
        assert!("blocked".parse::<Wait>().is_err());
        assert_eq!("uring".parse::<Wait>(), Ok(Wait::Uring));
    }

    #[test]
    fn each_point_is_possible_or_names_an_alternative_and_each_value_is_somewhere() {
        let mut possible = Vec::new();
        for &container in Container::ALL {
            for &accept in Accept::ALL {
                for &wait in Wait::ALL {
                    let shape = shape(container, accept, wait);
                    assert!(shape.check().is_err() || conflict(container, accept, wait).is_none());
                    if conflict(container, accept, wait).is_none() {
                        possible.push((container, accept, wait));
                    }
                    if let Err(Refused(reason)) = shape.check() {
                        assert!(reason.contains("say --"), "{reason}");
                        assert!(reason.starts_with(&shape.to_string()), "{reason}");
                    }
                }
            }
        }
        assert!(Container::ALL.iter().all(|one| possible.iter().any(|it| it.0 == *one)));
        assert!(Accept::ALL.iter().all(|one| possible.iter().any(|it| it.1 == *one)));
        assert!(Wait::ALL.iter().all(|one| possible.iter().any(|it| it.2 == *one)));
    }
}
