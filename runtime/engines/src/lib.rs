//! The serving engines: every architecture is a point in a space, *container* x *accept* x *wait*.
//!
//! - [`Container`]: where the workers live (one alone, threads, processes, one for each
//!   connection).
//! - [`Accept`]: which worker accepts a connection, and how it reaches the worker that serves it.
//! - [`Wait`]: how a worker waits for bytes and moves them.
//!
//! A named engine is a row of [`PRESETS`]. The files of `wait/` hold the loops, those of `accept/`
//! the ways to accept. `container/` starts workers and notices their end. `supervise` is one loop
//! on one thread that leads the server. `parts/` is code that several loops share. `limits.rs`
//! derives the limits of all loops. No engine knows a protocol: all of them drive [`seam::Conn`].
//!
//! A server can have one additional worker that serves no connections ([`ExtraWorker`]); the crate
//! `pacing` sends media from such a worker.

mod accept;
mod address;
mod admin;
#[cfg(feature = "tokio")]
mod async_thread;
mod axes;
mod common;
mod conflict;
mod container;
mod context;
mod erased;
mod extra;
mod fault;
pub mod governor;
mod handover;
mod helpers;
mod knobs;
mod limits;
mod member;
mod parts;
mod presets;
mod run;
mod server;
mod setting;
mod shape;
pub mod spare;
mod staff;
pub mod status;
pub mod stderr;
mod supervise;
mod wait;

pub use address::Address;
pub use admin::{Admin, AdminHandler, Answer, Door, Order, Pulse, Reload, Renew};
#[cfg(feature = "tokio")]
pub use async_thread::{AsyncError, AsyncThread};
pub use axes::{Accept, Container, Refused, Wait};
pub use conflict::conflict;
pub use extra::{ExtraFault, ExtraWorker, ExtraWorkerEntry};
pub use fault::Fault;
pub use handover::Handover;
pub use knobs::{ClientLimits, Knobs, LoopKnobs, OverloadKnobs, Staff};
#[doc(hidden)]
pub use language::eprintln;
pub use parts::assets::Assets;
pub use presets::{PRESETS, Preset, WorkerCount};
pub use run::run;
pub use server::{Control, Host, NoStateStore, Report, Server, Started, StateStore};
pub use setting::{LiveSetting, SettingRow};
pub use shape::{Shape, WORKERS_MAX};
pub use staff::Staffing;
