//! The load generator: asks a server questions over TCP, times every reply and checks every reply.
//!
//! Three axes, three traits, nothing multiplied out by hand:
//!
//! | axis | trait | says |
//! |---|---|---|
//! | [`arrive`] | [`Arrive`] | when somebody arrives |
//! | [`script`] | [`Script`] | what is asked, and whether the reply is right |
//! | [`stop`] | [`Stop`] | when it is enough |
//!
//! What one who arrived does (one request, a session, a user's endless loop) is a value,
//! [`work::Work`]; the three models of load are pairs of the two ([`model`]). [`drive`] owns the
//! sockets and joins everything in one loop on one thread. [`mod@run`] makes a measurement of it:
//! warm-up, window, drain, audit, and the verdict on the generator itself ([`health`], with
//! [`calibrate`]). [`search`] looks for the rate that an objective allows. [`crowd`] is the same
//! generator under remote control: users come and go, runs stop and start, figures are harvested
//! whenever somebody asks. [`mod@duet`] lets two servers take turns under one generator, which
//! tells differences of a few percent on a noisy machine. What comes out is described in
//! [`report`]. [`simulator`] is a published study's own client, threads and barrier and all.
//!
//! The generator depends on no service and on no engine: what it knows of a server it learns from
//! the wire and from `/proc`, like anybody else. The surprising thing: the answer of a request
//! that was never answered matters too. It is counted (`censored`, `lost`, `dropped`), it widens
//! the bounds of the audit, it keeps its place in every percentile, and it is never dropped from
//! the sum.
//!
//! # A generator under remote control
//!
//! ```no_run
//! use load::crowd::{Crowd, CrowdPlan};
//! use load::run::Talk;
//!
//! let plan = CrowdPlan::new("echo://127.0.0.1:6001".parse()?, Talk::Echo);
//! let crowd = Crowd::start(plan)?;       // asks the server, starts a thread; nobody is there yet
//! crowd.set_users(100)?;                 // an absolute number, up or down, at any time
//! std::thread::sleep(std::time::Duration::from_secs(3));
//! let harvest = crowd.harvest()?;        // everything since the last harvest
//! for kind in &harvest.kinds {
//!     println!("{}: {} right, {} wrong", kind.name, kind.tally.done, kind.tally.wrong);
//! }
//! crowd.set_users(0)?;                   // they leave when they are answered
//! let end = crowd.end()?;                // drains, audits, closes
//! assert!(end.check.ok);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod arrive;
pub mod beat;
pub mod calibrate;
pub mod censor;
pub mod crowd;
pub mod csv;
pub mod drive;
pub mod duet;
pub mod faults;
mod fuzz;
pub mod health;
pub mod listen;
pub mod model;
pub mod null;
pub mod parse;
pub mod probe;
pub mod report;
pub mod run;
pub mod scribe;
pub mod script;
pub mod search;
pub mod simulator;
pub mod slo;
pub mod stop;
pub mod tally;
pub mod timeline;
mod watch;
pub mod work;

pub use arrive::Arrive;
pub use crowd::{Crowd, CrowdPlan};
pub use duet::{Duet, DuetPlan};
pub use faults::{Fault, FaultKind, Faults};
pub use fuzz::fuzz;
pub use health::{Health, Verdict};
pub use model::{Arrivals, Model};
pub use parse::{Mix, Target, Usage};
pub use report::{DuetReport, Report};
pub use run::{Failure, Plan, run};
pub use script::Script;
pub use slo::Slo;
pub use stop::Stop;
