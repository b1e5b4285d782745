//! Receiving media: RTSP sessions whose packets are counted, ordered and timed instead of played,
//! one or thousands of them in one thread.
//!
//! ```text
//!   client     responses -> requests: the client side of RTSP
//!   track      packets of one sender -> lost, duplicate, reordered, late (RFC 3550)
//!   senders    all senders, and the receiver reports to them
//!   sockets    ports of media and control
//!   receiver   sessions and the report
//!   receive    receivers of unrequested media
//!   report     what to request, and what arrived
//! ```
//!
//! Hundreds of sessions share one pair of ports. A server names its sender (SSRC) when it grants a
//! transport, and packets are attributed by that. Ten thousand receivers need ten thousand
//! connections but only some forty sockets; their number follows from the receive buffers, not from
//! the sessions.
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

pub use client::{Client, ClientEvent, Delivery};
pub use receive::{ReceivePlan, receive};
pub use receiver::listen;
pub use report::{ListenPlan, MediaReport, Percentiles, TrackReport, Transport};
pub use sockets::Pair;
pub use track::{Track, TrackCounts};
