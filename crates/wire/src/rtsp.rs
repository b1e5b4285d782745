//! RTSP 1.0 (RFC 2326): messages and the header fields that need more than a glance.
//!
//! ```text
//!   message     requests, responses and interleaved packets in one stream of bytes
//!   status      codes and their words
//!   transport   which way the packets go
//!   range       which part of a recording is meant
//!   digest      who may, without telling the password (RFC 2617)
//!   reply       a response as bytes
//! ```
//!
//! RTSP looks like HTTP and is none: both sides ask, packets of media stand between the messages,
//! and who pipelines is answered in order by number. The surprising thing is how little of it
//! players use, and how much they mind: each of them stops at once if a reply lacks its `CSeq`.

mod digest;
mod message;
mod range;
mod reply;
mod status;
mod transport;

pub use digest::{Answer, Challenge, md5_hex, prove};
pub use message::{Bad, DATA_MAX, HEAD_MAX, Item, Request, Response, frame, next};
pub use range::{Range, ranged, seconds};
pub use reply::Reply;
pub use status::Status;
pub use transport::{Lower, Transport, transports};
