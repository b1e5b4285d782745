//! Linux, one kernel facility per file, behind safe functions.
//!
//! Nearly all `unsafe` of the server is here, so that a reviewer reads one directory. Every
//! function makes two promises that the raw call does not: an interrupted call (`EINTR`) is
//! repeated or reported as harmless, and each descriptor is created close-on-exec.
//!
//! `SIGSTOP` followed by `SIGCONT` interrupts `epoll_wait`, `futex` and receives with a timeout
//! even where no handler is installed (signal(7)), so the first promise matters in a server without
//! handlers.

pub mod beneath;
pub mod bpf;
mod call;
pub mod claim;
pub mod clock;
pub mod coroutine;
pub mod cpu;
pub mod epoll;
pub mod eventfd;
pub mod file;
mod free_port;
pub mod futex;
pub mod inherit;
pub mod input;
pub mod limits;
pub mod map;
pub mod mapped;
pub mod netlink;
pub mod output;
pub mod own;
pub mod pass;
pub mod poll;
pub mod process;
pub mod rank;
pub mod ready;
pub mod resolve;
pub mod rights;
pub mod select;
pub mod sendfile;
pub mod signal;
pub mod socket;
pub mod sockstat;
pub mod splice;
pub mod task;
pub mod thread;
pub mod timerfd;
pub mod udp;
pub mod uring;
pub mod usage;
pub mod xdp;

pub use free_port::free_port;
