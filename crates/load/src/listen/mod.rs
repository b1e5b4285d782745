//! Listening to media: sessions of RTSP whose packets are counted, ordered and timed instead of
//! played, one or thousands of them in one thread.
//!
//! ```text
//!   track      packets of one sender -> what was lost, doubled, out of order, late (RFC 3550)
//!   order      responses -> requests: the client's half of RTSP
//!   audience   sockets, sessions and the report
//! ```
//!
//! The surprising thing: all sessions share one pair of ports. A server names its sender (SSRC) as
//! it grants a transport, and packets are told apart by that; so ten thousand receivers need ten
//! thousand connections and two sockets.

mod audience;
mod order;
mod track;

pub use audience::{Ask, Heard, Hearing, Shares, listen, overhear};
pub use order::{Order, Way};
pub use track::{Tallied, Track};
