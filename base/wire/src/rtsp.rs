//! RTSP 1.0 (RFC 2326): messages, and the header fields whose values have a separate grammar.
//!
//! ```text
//!   message     requests, responses and interleaved packets in one stream of bytes
//!   status      codes and their words
//!   transport   how packets travel
//!   range       which part of a recording is requested
//!   digest      authentication without sending the password (RFC 2617)
//!   reply       a response as bytes
//! ```
//!
//! RTSP resembles HTTP but is not: both sides send requests, media packets may stand between
//! messages, and pipelined requests are answered in order by number. Players use surprisingly
//! little of it, but that part strictly: each stops at once if a reply lacks its `CSeq`.

mod digest;
mod fuzz;
mod message;
mod range;
mod reply;
mod status;
mod transport;

pub use digest::{Authorization, Challenge, digest_response, md5_hex};
pub(crate) use fuzz::fuzz;
pub use message::{Bad, DATA_MAX, HEAD_MAX, Item, Request, Response, frame, next};
pub use range::{Range, parse_range, seconds};
pub use reply::Reply;
pub use status::Status;
pub use transport::{Lower, Transport, transports};
