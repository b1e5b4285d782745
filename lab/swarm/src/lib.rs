//! The generator as a worker of a Locust swarm.
//!
//! One machine can make only a limited load. Locust has the parts that several machines need: a
//! master that distributes users and adds up their results, a web page, files and reports. Its own
//! workers are written in Python and cost more CPU than the servers under test. This worker is a
//! process of `roundhouse` that speaks the master's protocol. The master is the unchanged one from
//! PyPI. It reads our file `locustfile.py`, which names the classes of users and adds fields and
//! tabs to its page.
//!
//! ```text
//!   master  <- message, link ->  worker  <- crew ->  load_crew  ->  user pools of the crate load
//!                                  |                    |
//!                                stats, key          options
//! ```
//!
//! - [`message`]: the messages as bytes. [`worker`]: the protocol without socket or clock; [`run`]
//!   provides both.
//! - [`crew`]: the interface to the generator; [`load_crew`] makes real requests. [`stats`] and
//!   [`key`] convert the results to Locust's numbers.
//!
//! Locust counts in milliseconds only by convention. Its maps of response times accept any number
//! as a key, so ours have decimals, and an unpatched master shows a median of 0.0432 ms where other
//! workers report 0.

pub mod crew;
pub mod key;
mod link;
pub mod load_crew;
pub mod message;
mod options;
pub mod run;
pub mod stats;
mod usage;
pub mod worker;
