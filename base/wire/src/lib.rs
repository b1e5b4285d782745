//! Bytes to values and values to bytes, with no socket, file, thread or clock.
//!
//! Everything here is a function of its arguments, so it can be tested byte by byte and fuzzed from
//! a seed. Decoders borrow what the caller holds and say how much of it they used; encoders append
//! to a buffer that the caller owns. No input is trusted: whatever a peer or a file contains is
//! decoded or refused by a value, never by a panic.
//!
//! - [`conf`]: settings (`name = value`, comments), in any encoding of [`text`].
//! - [`containers`]: audio and video files as plans of packets.
//! - [`decimal`]: whole numbers to decimal digits and back.
//! - [`mod@line`]: the next line of a byte stream, with a length limit.
//! - [`framing`]: the three ways in which the stock protocol marks the end of a reply.
//! - [`http`]: HTTP/1.1 heads, targets, chunked bodies and replies, strictly.
//! - [`http2`]: HTTP/2 frames, and heads and replies between HTTP/2 and HTTP/1.1.
//! - [`message`]: numbers put into a message and taken out one after another.
//! - [`proxy`]: the header by which a proxy names the client of a connection.
//! - [`receipt`]: what a client knows of an order.
//! - [`rtp`], [`rtcp`], [`rtsp`], [`sdp`]: media packets, reports about them, the protocol that
//!   requests them, and session descriptions. They and [`containers`] are the feature `media`.
//! - [`text`]: whole text files in UTF-8, UTF-16 or CP949, as UTF-8.
//! - [`websocket`]: the frames and the handshake of RFC 6455.
//! - [`fuzz`](fn@fuzz): this crate's fuzzer.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod conf;
#[cfg(feature = "media")]
pub mod containers;
pub mod decimal;
pub mod framing;
mod fuzz;
pub mod http;
pub mod http2;
pub mod line;
pub mod message;
pub mod proxy;
pub mod receipt;
#[cfg(feature = "media")]
pub mod rtcp;
#[cfg(feature = "media")]
pub mod rtp;
#[cfg(feature = "media")]
pub mod rtsp;
#[cfg(feature = "media")]
pub mod sdp;
pub mod text;
pub mod websocket;

pub use fuzz::fuzz;
