//! Foreign servers as arms, for comparison with our servers.
//!
//! [`preset`] knows servers by name and writes their configuration: nginx, Apache with its three
//! processing modules, redis, and haproxy in front of another server. [`runtime`] holds small
//! servers on other runtimes: the market on tokio, a page on hyper, and the market in Go, in
//! Node and in Java, whose sources are in `examples/` and are built when they are first raced.
//!
//! Much of a fair comparison is configuration: by default nginx writes an access log and closes a
//! connection after 1000 requests, Apache after 100. The presets turn such things off, say so in
//! the arm's note, and let a plan's directives override everything.

pub mod runtime;

mod arms;
mod presets;

pub use arms::{by_flag, by_name, resolve};
pub use presets::{NAMES, Site, apache, preset};
