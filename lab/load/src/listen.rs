//! Receiving media: RTSP sessions whose packets are counted, ordered and timed instead of played,
//! one or thousands of them in one thread.
//!
//! Up to 64 sessions have a pair of ports each, more share these. A server may name its sender
//! (SSRC) when it grants a transport, and packets are attributed by that; otherwise by the ports or
//! the channel where they arrive, and by their payload type. So ten thousand receivers need ten
//! thousand connections but only 128 sockets.
//!
//! A slow generator must not blame the server. The kernel timestamps datagrams on arrival, so that
//! lateness does not depend on when this thread runs, and it reports how many datagrams it dropped
//! for lack of buffer space.

mod client;
mod receive;
mod receiver;
mod report;
mod senders;
mod sockets;
mod track;

pub use receive::{ReceivePlan, receive};
pub use receiver::listen;
pub use report::{ListenPlan, MediaReport, Percentiles, TrackReport, Transport};
pub use sockets::PAIRS_MAX;
pub use track::TrackCounts;
