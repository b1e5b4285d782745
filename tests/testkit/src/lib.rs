//! Tools that integration tests share: child processes and servers, waiting with a limit, temporary
//! folders, foreign programs, and a single rule for tests that cannot run on this machine.
//!
//! Test code only: no crate depends on it outside `[dev-dependencies]`. Nothing here waits without
//! a limit. A wait that reaches its limit, and any other step that fails, panics and prints the
//! output of the program.

pub mod apart;
mod echo;
mod folder;
mod in_process;
mod lacks;
mod listen;
mod process;
pub mod procfs;
mod server;
mod terminal;
mod transcript;
mod wait;
mod wave;

pub use echo::EchoServer;
pub use folder::{Folder, nameless};
pub use in_process::{serve, serve_by, talk};
pub use lacks::{chromium, example, has, has_uring, locust, presets, program, skip};
pub use listen::{listen, listen_at};
pub use process::{Ended, Process, run};
pub use server::{Server, free_port};
pub use terminal::Terminal;
pub use transcript::Transcript;
pub use wait::{PATIENCE, eventually, ms, rounds, soak, wait_for};
pub use wave::{Law, WAVE_RATE, wave};
