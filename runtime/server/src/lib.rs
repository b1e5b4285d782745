//! From parsed flags to a running server: the part of `roundhouse serve` that all services share.
//!
//! A program flattens [`ServerArgs`] into its own arguments, parses them by [`config::parse`], and
//! calls [`ServerArgs::run_layered`] with its service. It then has every flag of `serve`: engine,
//! axes, workers, limits, rings, administration, `--config`, reloads and hand-over. No service is
//! known here, only TLS and WebSocket, which go around any.
//!
//! | module | what |
//! |---|---|
//! | `options` | the flags, many of them rows of [`engines::Knobs`], and the shape that they make |
//! | `run` | the life of the process around [`engines::run`] |
//! | `certificate` | the certificates of TLS |
//! | `config` | `--config FILE`: options from a file |
//! | `help` | the flags that a help shows, and its language |
//! | `reload` | the options that change while the server runs |
//! | `admin` | where the administration is, and its answers |
//! | `console` | an operator's keys |
//! | `notify` | signs of life for systemd |
//! | `welcome` | the lines of a server that a person has started |

pub mod admin;
pub mod certificate;
pub mod config;
mod console;
pub mod help;
mod notify;
mod options;
mod reload;
mod run;
mod welcome;

pub use console::Keys;
pub use options::console::ConsoleArgs;
pub use options::{ServerArgs, WatchArgs};
pub use run::{Beside, ServiceInstance};
