//! From parsed flags to a running server: the part of `roundhouse serve` that all services share.
//!
//! A program flattens [`ServerArgs`] into its own arguments, parses them by [`config::parse`], and
//! calls [`ServerArgs::run_layered`] with its service. It then has every flag of `serve`: engine,
//! axes, workers, limits, rings, administration, `--config`, reloads and hand-over. No service is
//! known here, only TLS and WebSocket, which go around any.
//!
//! | module | what |
//! |---|---|
//! | `options` | the flags, and the [`engines::Shape`] that they make |
//! | `run` | the life of the process around [`engines::run`] |
//! | `certificate` | the certificates of TLS |
//! | `config` | `--config FILE`: options from a file |
//! | `reload` | the options that change while the server runs |
//! | `admin` | where the administration is, and its answers |
//! | `apache` | the directives of an Apache configuration about workers |
//! | `console` | an operator's keys |
//! | `notify` | signs of life for systemd |
//! | `welcome` | the lines of a server that a person has started |

pub mod admin;
mod apache;
pub mod certificate;
pub mod config;
mod console;
mod notify;
mod options;
mod reload;
mod run;
mod welcome;

pub use console::Keys;
pub use options::library::LibraryArgs;
pub use options::{ServerArgs, WatchArgs};
pub use run::{Beside, ServiceInstance};
