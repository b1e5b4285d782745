//! Bytes to values and values to bytes, with no socket, file, thread or clock.
//!
//! Everything here is a function of its arguments, so it can be tested byte by byte and fuzzed from
//! a seed. Decoders borrow what the caller holds and say how much of it they used; encoders append
//! to a buffer that the caller owns. No input is trusted: whatever a peer or a file contains is
//! decoded or refused by a value, never by a panic.

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
