//! The space of architectures: what a point is made of, which points have names, and why a point
//! is refused.

use std::fmt;

use memory::Placement;
use seam::SHARDS_MAX;

use crate::knobs::Knobs;

/// Seats that one binary may use: half of them, for while it hands over to the next both have some.
pub(crate) const SEATS: usize = SHARDS_MAX / 2;
/// Workers at one time; one seat is the supervisor's.
const WORKERS_MAX: usize = SEATS - 1;

/// Where the workers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// One worker in one process.
    Solo,
    /// Several threads in one process.
    Threads,
    /// Several processes, forked before the first connection; the state lies in shared memory.
    Processes,
}

/// Who takes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// All workers accept from one listening socket.
    Shared,
    /// Each worker has its own listening socket on the same port (`SO_REUSEPORT`, socket(7)).
    Reuseport,
}

/// How a worker waits for bytes and moves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Blocking calls, one connection at a time.
    Blocking,
    /// Readiness by `epoll(7)`.
    Epoll,
    /// Completion by `io_uring(7)`.
    Uring,
}

/// A point of the space with its knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Where the workers live.
    pub container: Container,
    /// Who takes a connection.
    pub accept: Accept,
    /// How a worker waits.
    pub wait: Wait,
    /// How many workers there are.
    pub workers: usize,
    /// What can be turned on any point.
    pub knobs: Knobs,
}

/// A point with a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// What `--engine` takes.
    pub name: &'static str,
    /// Where the workers live.
    pub container: Container,
    /// Who takes a connection.
    pub accept: Accept,
    /// How a worker waits.
    pub wait: Wait,
    /// Workers if nobody says how many; 0 means one for each core that we may use.
    pub workers: usize,
    /// Where the architecture is known from.
    pub from: &'static str,
}

/// The named points; the table is the truth.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "iterative",
        container: Container::Solo,
        accept: Accept::Shared,
        wait: Wait::Blocking,
        workers: 1,
        from: "one process, one client at a time (Stevens, UNP chapter 30)",
    },
    Preset {
        name: "prefork",
        container: Container::Processes,
        accept: Accept::Shared,
        wait: Wait::Blocking,
        workers: 16,
        from: "children forked beforehand, each accepting (UNP chapter 30, Apache prefork)",
    },
    Preset {
        name: "epoll",
        container: Container::Solo,
        accept: Accept::Shared,
        wait: Wait::Epoll,
        workers: 1,
        from: "one event loop over ready descriptors (epoll(7))",
    },
    Preset {
        name: "uring",
        container: Container::Threads,
        accept: Accept::Reuseport,
        wait: Wait::Uring,
        workers: 0,
        from: "one completion ring for each core (io_uring(7))",
    },
];

/// Why a point cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Shape {
    /// The named point with default knobs, on a machine that lets us use `cores` cores.
    ///
    /// # Errors
    /// A name that no preset has, with the names that there are.
    pub fn preset(name: &str, cores: usize) -> Result<Shape, Refused> {
        let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            return Err(Refused(format!(
                "expected an engine out of {}, found `{name}`",
                names.join(", ")
            )));
        };
        Ok(Shape {
            container: preset.container,
            accept: preset.accept,
            wait: preset.wait,
            workers: if preset.workers == 0 { cores.max(1) } else { preset.workers },
            knobs: Knobs::default(),
        })
    }

    /// The name of this point, if it has one.
    pub fn name(&self) -> Option<&'static str> {
        let same = |preset: &&Preset| {
            (preset.container, preset.accept, preset.wait)
                == (self.container, self.accept, self.wait)
        };
        PRESETS.iter().find(same).map(|preset| preset.name)
    }

    /// Checks that the point can be.
    ///
    /// # Errors
    /// The reason, and what to say instead.
    pub fn check(&self) -> Result<(), Refused> {
        let refuse = |reason: String| Err(Refused(reason));
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return refuse(format!("expected 1 to {WORKERS_MAX} workers, found {}", self.workers));
        }
        if self.container == Container::Solo && self.workers > 1 {
            return refuse(format!(
                "container solo has one worker, found --workers {}: say --container threads or \
                 --container processes",
                self.workers
            ));
        }
        if let Some(most) = self.knobs.sessions_max
            && most < self.workers
        {
            return refuse(format!(
                "each of {} workers may have a connection, found --max-connections {most}: say \
                 --workers {}, or allow more",
                self.workers,
                most.max(1)
            ));
        }
        if self.knobs.edge && self.wait != Wait::Epoll {
            return refuse(format!(
                "edge-triggered readiness belongs to epoll, found wait {}: leave --edge out",
                self.wait
            ));
        }
        Ok(())
    }

    /// Where the state of a service must lie: in shared memory if workers are processes. A server
    /// that shall hand its state over to the next binary needs it there in any case.
    pub fn placement(&self) -> Placement {
        match self.container {
            Container::Solo | Container::Threads => Placement::Private,
            Container::Processes => Placement::Shared,
        }
    }
}

/// Writes the words that the command line takes for an enum, and reads them.
macro_rules! words {
    ($type:ty, $($variant:ident = $word:literal),+ $(,)?) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(<$type>::$variant => $word),+ })
            }
        }

        impl std::str::FromStr for $type {
            type Err = Refused;

            fn from_str(word: &str) -> Result<$type, Refused> {
                match word {
                    $($word => Ok(<$type>::$variant),)+
                    _ => Err(Refused(format!(
                        "expected one of {}, found `{word}`",
                        [$($word),+].join(", ")
                    ))),
                }
            }
        }
    };
}

words!(Container, Solo = "solo", Threads = "threads", Processes = "processes");
words!(Accept, Shared = "shared", Reuseport = "reuseport");
words!(Wait, Blocking = "blocking", Epoll = "epoll", Uring = "uring");

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.container, self.accept, self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_name_that_leads_back_to_it_and_can_be() {
        for preset in PRESETS {
            let shape = Shape::preset(preset.name, 2).expect("a preset's own name");
            assert_eq!(shape.name(), Some(preset.name));
            assert_eq!(shape.check(), Ok(()), "{}", preset.name);
        }
    }

    #[test]
    fn refusals_say_what_was_expected_and_found() {
        let unknown = Shape::preset("epol", 1).expect_err("no such engine").to_string();
        assert!(unknown.contains("epoll") && unknown.contains("`epol`"), "{unknown}");
        let crowd = Shape { workers: 3, ..Shape::preset("epoll", 1).expect("a preset") };
        assert!(crowd.check().expect_err("solo has one").to_string().contains("--container"));
        let mut narrow = Shape::preset("prefork", 1).expect("a preset");
        narrow.knobs.sessions_max = Some(narrow.workers);
        assert_eq!(narrow.check(), Ok(()));
        narrow.knobs.sessions_max = Some(3);
        assert!(narrow.check().expect_err("16 workers").to_string().contains("--workers 3"));
        let mut edge = Shape::preset("uring", 1).expect("a preset");
        edge.knobs.edge = true;
        assert!(edge.check().is_err());
        assert!("blocked".parse::<Wait>().is_err());
        assert_eq!("uring".parse::<Wait>(), Ok(Wait::Uring));
    }
}
