//! Foreign servers as arms: what ours have to be compared with to mean anything.
//!
//! [`preset`] knows servers by name and writes their configuration: nginx, Apache with its three
//! ways of processing, redis, haproxy in front of another server. [`runtime`] holds small servers
//! on other runtimes: the market on tokio, a page on hyper, and the market in Go and in Node, whose
//! sources lie in `examples/` and are built when they are first raced.
//!
//! The surprising thing is how much of a fair comparison is configuration: nginx writes an access
//! log, closes a connection after 1000 requests and Apache after 100 unless told otherwise. The
//! presets turn such things off, say so in the arm's note, and let a plan's directives have the
//! last word.

pub mod runtime;

mod presets;

pub use presets::{NAMES, Service, Site, apache, preset};
