//! The three axes of the space of architectures, and the words of the command line for them.

/// The container of the workers: processes, threads, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// One worker in one process.
    Solo,
    /// One worker in one process, with helpers, started beforehand, for jobs that would block it.
    Helped,
    /// A thread for each connection, started when it comes.
    ThreadPerConnection,
    /// A process for each connection, forked when it comes; the state lies in shared memory.
    ProcessPerConnection,
    /// Several threads in one process.
    Threads,
    /// Several processes, forked before the first connection; the state lies in shared memory.
    Processes,
    /// Several processes of several threads each; the state lies in shared memory.
    Hybrid,
}

impl Container {
    /// Whether there is one worker.
    pub fn is_single(self) -> bool {
        matches!(self, Container::Solo | Container::Helped)
    }

    /// Whether workers are processes.
    pub fn is_processes(self) -> bool {
        matches!(self, Container::Processes | Container::ProcessPerConnection | Container::Hybrid)
    }

    /// Whether a worker starts and ends with its connection.
    pub fn is_per_connection(self) -> bool {
        matches!(self, Container::ThreadPerConnection | Container::ProcessPerConnection)
    }
}

/// The way of accepting connections and passing each to the worker that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accept {
    /// All workers accept from one listening socket.
    Shared,
    /// All workers, one at a time: the worker that holds a lock.
    Lock,
    /// All loops; the kernel wakes one of them (`EPOLLEXCLUSIVE`, epoll_ctl(2)).
    Exclusive,
    /// Each worker has its own listening socket on the same port (`SO_REUSEPORT`, socket(7)).
    Reuseport,
    /// An acceptor puts connections into a bounded buffer, from which workers take them.
    Handoff,
    /// An acceptor passes connections to processes (`SCM_RIGHTS`, unix(7)).
    Pass,
}

impl Accept {
    /// Whether an additional worker only accepts.
    pub fn has_acceptor(self) -> bool {
        matches!(self, Accept::Handoff | Accept::Pass)
    }
}

/// The worker's way of waiting for bytes and moving them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Blocking calls, one connection at a time.
    Blocking,
    /// Readiness by `select(2)`.
    Select,
    /// Readiness by `poll(2)`.
    Poll,
    /// Readiness by `epoll(7)`.
    Epoll,
    /// Blocking calls on a coroutine for each connection, resumed by `epoll(7)`.
    Coroutine,
    /// A task for each connection on a runtime of tokio in each worker.
    TokioLocal,
    /// A task for each connection on one runtime of tokio, whose threads steal tasks.
    TokioSteal,
    /// Completion by `io_uring(7)`.
    Uring,
    /// Threads that serve ready connections, and an epoll in which all others are parked.
    Parked,
    /// Threads of which one waits for the next ready connection and then serves it, while another
    /// waits.
    Leader,
    /// Stages with separate threads and bounded queues between them: read, step, write.
    Staged,
    /// Completion by one `io_uring(7)` for all threads, of which some run at a time.
    Port,
    /// Frames of a network interface (AF_XDP), and TCP in user space.
    Bypass,
}

/// The reason why a point is refused.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct Refused(pub String);

impl std::error::Error for Refused {}

/// Writes the words that the command line takes for an enum, reads them, and lists them.
macro_rules! words {
    ($type:ty, $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// All of them, in the order of the documentation.
            pub const ALL: &[$type] = &[$(<$type>::$variant),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(<$type>::$variant => $word),+ })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::axes::Refused;

            fn from_str(word: &str) -> Result<$type, $crate::axes::Refused> {
                match word {
                    $($word => Ok(<$type>::$variant),)+
                    _ => Err($crate::axes::Refused(format!(
                        "expected one of {}, found `{word}`",
                        [$($word),+].join(", ")
                    ))),
                }
            }
        }

        impl $crate::setting::Value for $type {
            fn read(word: &str, _: &std::ops::RangeInclusive<u64>) -> Result<$type, String> {
                word.parse().map_err(|refused: $crate::axes::Refused| refused.0)
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    };
}
pub(crate) use words;

words!(
    Container,
    Solo = "solo",
    Helped = "helped",
    ThreadPerConnection = "thread-per-connection",
    ProcessPerConnection = "process-per-connection",
    Threads = "threads",
    Processes = "processes",
    Hybrid = "hybrid",
);
words!(
    Accept,
    Shared = "shared",
    Lock = "lock",
    Exclusive = "exclusive",
    Reuseport = "reuseport",
    Handoff = "handoff",
    Pass = "pass",
);
words!(
    Wait,
    Blocking = "blocking",
    Select = "select",
    Poll = "poll",
    Epoll = "epoll",
    Coroutine = "coroutine",
    TokioLocal = "tokio-local",
    TokioSteal = "tokio-steal",
    Uring = "uring",
    Parked = "parked",
    Leader = "leader",
    Staged = "staged",
    Port = "port",
    Bypass = "bypass",
);
