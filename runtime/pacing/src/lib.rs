//! Packets that leave by the clock: streams of media, and the senders that send them.
//!
//! - A [`PacedSource`](seam::PacedSource) says which packets are due up to a moment.
//! - A [`Sender`] is a way for packets to wait for their due time and to leave; each is a file of
//!   `senders/`, named as on the command line.
//! - A [`PacedRunner`] joins the two in a worker of a server ([`engines::ExtraWorker`]);
//!   [`run_alone`] runs it without a server.
//!
//! Three loops wake a source: a thread for each stream (`thread_per_stream`), a timer wheel for all
//! of them (`timer_wheel`), or a loop for senders whose packets the kernel already holds
//! (`kernel_queue`). [`probe`] tells which senders work on this machine.

mod alone;
mod catch_up;
pub mod cbr;
mod classes;
mod context;
mod fault;
mod group_sockets;
mod kernel_queue;
mod probe;
mod rank;
mod runner;
mod senders;
mod sockets;
mod stats;
mod thread_per_stream;
mod timer_wheel;

pub use alone::run_alone;
pub use classes::Classes;
pub use fault::Fault;
pub use probe::{Works, probe};
pub use rank::{Rank, RankRefused};
pub use runner::PacedRunner;
pub use senders::{Sender, SenderRow, UnknownSender};
pub use sockets::StreamSockets;
pub use stats::{Counter, LATE, StreamStats};
