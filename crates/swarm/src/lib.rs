//! The generator as a worker of a Locust swarm.
//!
//! One machine makes only so much load. Locust has what many machines need: a master that gives
//! out users and adds up what they saw, a page to watch it on, files and reports. Its own workers
//! are Python and cost more than the servers they test; ours is a process of `roundhouse` that
//! speaks the master's language. The master is the one from PyPI, unchanged, and reads one file of
//! ours, `locustfile.py`, which names the classes of users and adds fields and tabs to its page.
//!
//! ```text
//!   master  <- message, link ->  worker  <- crew ->  fleet  ->  crowds of the crate load
//!                                  |                   |
//!                                stats, key         options
//! ```
//!
//! - [`message`]: what is said, as bytes. [`worker`]: who says what when, without a socket or a
//!   clock. [`run`] gives it both.
//! - [`crew`]: the seam towards the generator, and [`fleet`] the crew that makes real requests.
//!   [`stats`] and [`key`] turn what it tells into Locust's numbers.
//!
//! The surprising thing: Locust counts in milliseconds only by habit. Its maps of response times
//! take any number as a key, so ours have the digits below, and an unpatched master shows a median
//! of 0.0432 ms where every other worker reports 0.

pub mod crew;
pub mod fleet;
mod gauge;
pub mod key;
mod link;
pub mod message;
mod options;
pub mod run;
pub mod stats;
pub mod worker;
