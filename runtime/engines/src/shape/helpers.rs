//! The number of working threads: the helpers of a loop, and the running threads of a port.

use super::Shape;
use crate::axes::{Container, Refused, Wait};

/// Helpers of a loop, started when they are needed.
const HELPERS: usize = 4;
/// Helpers that start before they are needed.
const HELPERS_BEFOREHAND: usize = 16;
/// More threads than this for one worker do not make a disk faster.
const HELPERS_MAX: usize = 1024;

impl Shape {
    /// Whether a worker must not block, because it has many sessions.
    pub fn has_loops(&self) -> bool {
        use Wait::{Blocking, Leader, Parked, Port, Staged, TokioSteal};
        !matches!(self.wait, Blocking | Parked | Leader | Staged | Port | TokioSteal)
    }

    /// The number of helpers that run offloaded jobs for each worker; 0: each worker runs them in
    /// place.
    pub fn helpers(&self) -> usize {
        let usual = if self.container == Container::Helped { HELPERS_BEFOREHAND } else { HELPERS };
        if self.has_loops() { self.knobs.loops.helpers.unwrap_or(usual) } else { 0 }
    }

    /// The number of threads of a port that run at once.
    pub fn running(&self) -> usize {
        self.knobs.staff.running.unwrap_or(self.workers.div_ceil(2)).clamp(1, self.workers.max(1))
    }

    /// Checks the number of running threads.
    pub(crate) fn check_running(&self) -> Result<(), Refused> {
        match self.knobs.staff.running {
            Some(_) if self.wait != Wait::Port => Err(Refused(format!(
                "--running belongs to wait port, found wait {}: leave it out, or say --engine port",
                self.wait
            ))),
            Some(running) if running == 0 || running > self.workers => Err(Refused(format!(
                "expected 1 to {} of {0} threads to run, found --running {running}: say --threads \
                 {}, or lower --running",
                self.workers,
                running.max(1)
            ))),
            _ => Ok(()),
        }
    }

    /// Checks what only one mechanism of waiting has: a stack for each connection, and busy
    /// polling.
    pub(crate) fn check_waiting(&self) -> Result<(), Refused> {
        self.check_stack()?;
        self.check_busy_poll()
    }

    fn check_stack(&self) -> Result<(), Refused> {
        match self.knobs.loops.stack {
            Some(_) if self.wait != Wait::Coroutine => Err(Refused(format!(
                "a stack for each connection belongs to wait coroutine, found wait {}: leave \
                 --stack out, or say --engine coroutine",
                self.wait
            ))),
            _ => Ok(()),
        }
    }

    fn check_busy_poll(&self) -> Result<(), Refused> {
        match self.knobs.loops.busy_poll {
            Some(_) if !matches!(self.wait, Wait::Epoll | Wait::Uring) => Err(Refused(format!(
                "busy polling belongs to wait epoll and uring, found wait {}: leave --busy-poll \
                 out, or say --engine epoll",
                self.wait
            ))),
            _ => Ok(()),
        }
    }

    /// Checks the settings of TCP in user space.
    pub(crate) fn check_bypass(&self) -> Result<(), Refused> {
        let loops = &self.knobs.loops;
        let given =
            [("--interface", loops.interface.is_some()), ("--tcp-buffer", loops.buffer.is_some())];
        match given.iter().find(|(_, is_given)| *is_given && self.wait != Wait::Bypass) {
            Some((flag, _)) => Err(Refused(format!(
                "the kernel has the interfaces and buffers of its TCP, found {flag} with wait {}: \
                 leave it out, or say --engine bypass",
                self.wait
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn check_helpers(&self) -> Result<(), Refused> {
        use Wait::{Blocking, Leader, Parked, Staged, TokioSteal};
        match (self.knobs.loops.helpers, self.wait) {
            (Some(_), Blocking | Parked | Leader | Staged | TokioSteal) => {
                let why = "do their jobs in place, found --helpers: leave it out, or say \
                           --engine epoll";
                Err(Refused(format!("workers with wait {} {why}", self.wait)))
            }
            (Some(_), Wait::Port) => Err(Refused(
                "the threads of a port do their jobs themselves, found --helpers: say --threads; \
                 all but --running of them can block at once"
                    .into(),
            )),
            (Some(0), _) if self.container == Container::Helped => Err(Refused(
                "expected 1 helper or more, found --helpers 0: to do jobs in place, say --engine \
                 epoll --helpers 0"
                    .into(),
            )),
            (Some(helpers), _) if helpers > HELPERS_MAX => Err(Refused(format!(
                "expected at most {HELPERS_MAX} helpers for each worker, found --helpers {helpers}"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(engine: &str, helpers: Option<usize>, running: Option<usize>, wanted: &str) {
        let mut shape = Shape::preset(engine, 2).expect("a preset");
        (shape.knobs.loops.helpers, shape.knobs.staff.running) = (helpers, running);
        let found = shape.check().map_or_else(|refused| refused.to_string(), |()| String::new());
        assert_eq!(found.is_empty(), wanted.is_empty(), "{engine}: {found}");
        assert!(found.contains(wanted), "{engine}: expected {wanted:?}, found {found}");
    }

    #[test]
    fn options_without_effect_are_refused() {
        check("port", None, Some(4), "");
        check("port", None, Some(5), "1 to 4 of 4 threads");
        check("port", None, Some(0), "--running 0");
        check("epoll", None, Some(1), "--engine port");
        check("epoll", Some(0), None, "");
        check("amped", Some(0), None, "--engine epoll --helpers 0");
        check("amped", Some(HELPERS_MAX + 1), None, "at most");
        check("prefork", Some(4), None, "in place");
        check("leader", Some(4), None, "in place");
        check("staged", Some(4), None, "in place");
        check("tokio-steal", Some(4), None, "in place");
        check("port", Some(4), None, "--threads");
    }

    #[test]
    fn busy_polling_is_for_epoll_and_uring() {
        let refusal = |engine: &str| {
            let mut shape = Shape::preset(engine, 2).expect("a preset");
            shape.knobs.loops.busy_poll = Some(60);
            shape.check().err().map(|refused| refused.to_string())
        };
        assert_eq!(["epoll", "reactor", "uring"].map(refusal), [None, None, None]);
        for engine in ["thread", "prefork", "select", "port", "coroutine", "leader", "bypass"] {
            assert!(refusal(engine).is_some_and(|it| it.contains("--busy-poll")), "{engine}");
        }
    }

    #[test]
    fn each_container_has_its_helpers_and_a_port_its_tokens() {
        let usual = |engine| Shape::preset(engine, 2).expect("a preset").helpers();
        assert_eq!(["epoll", "amped", "uring", "coroutine"].map(usual), [4, 16, 4, 4]);
        assert_eq!(["prefork", "event", "port", "leader", "staged"].map(usual), [0; 5]);
        assert_eq!(usual("tokio-steal"), 0);
        let mut port = Shape::preset("port", 4).expect("a preset");
        assert_eq!((port.workers, port.running()), (8, 4));
        port.workers = 1;
        assert_eq!(port.running(), 1);
    }
}
