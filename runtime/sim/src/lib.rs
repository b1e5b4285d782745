//! A whole server in one thread without a socket, a clock or chance: scripted clients drive
//! services through [`seam::Conn`] over a network that a seed determines.
//!
//! [`run`] is a pure function of service, state, [`Script`], [`Faults`] and seed; it plays clients
//! against sessions as an engine would and returns a [`Transcript`]. [`check`] runs many seeds,
//! judges each transcript, and on failure shrinks the case and prints the seed that replays it.
//! [`chunking`] and [`determinism`] hold a service to its laws; [`Golden`] plays a written
//! conversation under many splits.
//!
//! A [`seam::PacedSource`] is driven by [`play_paced`], and held to its laws by [`paced_laws`].
//!
//! A [`Talk`] is one connection without a network, for exact replies.
//!
//! The surprising thing: the simulated engine is meaner than the real ones. It writes at once or
//! later at random, delivers bytes after it was told to stop, wakes sessions for nothing, and its
//! workers take turns in an order that no machine would choose. The contract at the top of
//! `seam::Conn` allows all of that.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod check;
mod clients;
mod connection;
mod fuzz;
mod golden;
pub mod laws;
mod link;
mod paced;
mod rng;
mod script;
mod talk;
mod transcript;
mod world;

pub use check::{Case, check, find, seeds};
pub use fuzz::fuzz;
pub use golden::{BadGolden, Golden};
pub use laws::{chunking, determinism};
pub use paced::{Deed, Made, PacedLaw, PacedReport, Whims, paced_case, paced_laws, play_paced};
pub use script::{Act, Client, Faults, Script};
pub use talk::Talk;
pub use transcript::{End, Heard, Transcript};
pub use world::run;
