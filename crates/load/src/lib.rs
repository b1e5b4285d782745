//! The load generator: asks a server questions over TCP, times every reply and checks every reply.
//!
//! Three axes, three traits, nothing multiplied out by hand:
//!
//! | axis | trait | says |
//! |---|---|---|
//! | [`arrive`] | [`Arrive`] | when the next request is due |
//! | [`script`] | [`Script`] | what is asked, and whether the reply is right |
//! | [`stop`] | [`Stop`] | when it is enough |
//!
//! [`drive`] owns the sockets and joins the three in one loop on one thread. [`mod@run`] makes a
//! measurement of it: warm-up, window, drain, audit. [`mod@duet`] lets two servers take turns
//! under one generator, which tells differences of a few percent on a noisy machine. What comes
//! out is described in [`report`].
//!
//! The generator depends on no service and on no engine: what it knows of a server it learns from
//! the wire and from `/proc`, like anybody else. The surprising thing: the answer of a request
//! that was never answered matters too. It is counted (`censored`, `lost`), it widens the bounds
//! of the audit, and it is never dropped from the sum.

pub mod arrive;
pub mod drive;
pub mod duet;
pub mod faults;
pub mod parse;
pub mod probe;
pub mod report;
pub mod run;
pub mod script;
pub mod stop;
mod watch;

pub use arrive::Arrive;
pub use duet::{Duet, DuetPlan};
pub use faults::{Fault, FaultKind, Faults};
pub use parse::{Mix, Target, Usage};
pub use report::{DuetReport, Report};
pub use run::{Failure, Plan, run};
pub use script::Script;
pub use stop::Stop;
