//! The load generator: sends requests over TCP or TLS, times every reply and checks every reply.
//!
//! Three axes, freely combined:
//!
//! | axis | type | decides |
//! |---|---|---|
//! | [`arrive`] | [`ArrivalProcess`] | when users or requests arrive |
//! | [`script`] | [`Script`] | what is sent, and whether the reply is right |
//! | [`stop`] | [`Stop`] | when to stop |
//! The effect of an arrival (one request, a session, a user's endless loop) is a value,
//! [`work::Work`]; the three load models are pairs of an arrival process and work ([`model`]).
//!
//! - [`drive`] owns the sockets and runs everything in one loop on one thread.
//! - [`mod@run`] makes a measurement: warm-up, window, drain, audit, and the verdict on the
//!   generator itself ([`health`]).
//! - [`search`] looks for the highest rate that meets an objective.
//! - [`turns`] lets servers take turns under one generator, which resolves differences of a few
//!   percent on a noisy machine.
//! - [`report`] describes the output.
//!
//! The generator depends on no service and no engine: it learns about a server only from the wire
//! and from `/proc`. Unanswered requests count, too: they are reported (`censored`, `lost`,
//! `dropped`), widen the bounds of the audit, and keep their rank in every percentile.

pub mod arrive;
pub mod censor;
pub mod drive;
pub mod faults;
mod fuzz;
pub mod health;
pub mod listen;
pub mod model;
pub mod parse;
pub mod probe;
pub mod report;
mod rows;
pub mod run;
pub mod script;
pub mod search;
pub mod slo;
pub mod snapshot;
mod stages;
pub mod stop;
pub mod tally;
pub mod timeline;
pub mod tls;
mod tunnel;
pub mod turns;
mod watch;
mod websocket;
pub mod work;

pub use arrive::ArrivalProcess;
pub use clock::Instant;
pub use faults::{Fault, FaultKind, Faults};
pub use fuzz::fuzz;
pub use health::{Health, Verdict};
pub use model::{Arrivals, Model};
pub use parse::{Mix, Target, Usage};
pub use report::{Report, TurnsReport};
pub use run::{Failure, Plan, run};
pub use script::Script;
pub use slo::Slo;
pub use stages::Stages;
pub use stop::Stop;
pub use turns::TurnsPlan;
