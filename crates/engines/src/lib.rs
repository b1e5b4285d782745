//! How we serve: every architecture is a point in a space, *container* x *accept* x *wait*.
//!
//! - [`Container`]: where the workers live (one alone, threads, processes).
//! - [`Accept`]: who takes a connection (all from one queue, or one queue each).
//! - [`Wait`]: how a worker waits for bytes and moves them (blocking calls, `epoll`, `io_uring`).
//!
//! A named engine is a row of [`PRESETS`]. The files of `wait/` hold the three loops; `container/`
//! starts workers and learns of their end; `supervise` is one loop on one thread that keeps the
//! house; `parts/` is what two loops need, written once. No engine knows a protocol: all of them
//! drive [`seam::Conn`].

mod container;
mod desk;
mod fault;
mod handover;
mod helpers;
mod house;
mod knobs;
mod parts;
mod run;
mod shape;
mod supervise;
mod wait;

pub use fault::Fault;
pub use handover::Handover;
pub use house::{Control, House, Keeper, NoKeeper, Ready, Report};
pub use knobs::Knobs;
pub use parts::assets::Assets;
pub use run::run;
pub use shape::{Accept, Container, PRESETS, Preset, Refused, Shape, Wait};
pub use wait::uring::tactics::{AcceptBy, CloseBy, RecvBy, Rings, SendBy, Tactics};
