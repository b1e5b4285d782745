//! Listening to media: sessions of RTSP whose packets are counted, ordered and timed instead of
//! played, one or thousands of them in one thread.
//!
//! ```text
//!   track      packets of one sender -> what was lost, doubled, out of order, late (RFC 3550)
//!   order      responses -> requests: the client's half of RTSP
//!   senders    all that are heard, and the reports to them
//!   sockets    ports of media and control
//!   audience   sessions and the report
//!   overhear   receivers of what comes by itself
//!   hearing    what is asked for, and what was heard
//! ```
//!
//! The surprising thing: hundreds of sessions share one pair of ports. A server names its sender
//! (SSRC) as it grants a transport, and packets are told apart by that; so ten thousand receivers
//! need ten thousand connections and some forty sockets, which is what room the kernel gives to
//! datagrams that wait asks for, not their number.
//!
//! A generator that is too slow shall not blame the server: the kernel notes when a datagram came,
//! so that it need not run at once to know how late that was, and says how many found no room.

mod audience;
mod hearing;
mod order;
mod overhear;
mod senders;
mod sockets;
mod track;

pub use audience::listen;
pub use hearing::{Ask, Heard, Hearing, Lower, Shares};
pub use order::{Order, Way};
pub use overhear::{Overhear, overhear};
pub use track::{Tallied, Track};
