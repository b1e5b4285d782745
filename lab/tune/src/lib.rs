//! The tuner: chooses an architecture and its settings for a workload and an objective.
//!
//! A *candidate* is a server with settings. A *heat* is one short run of it: a fresh process, open
//! arrivals at the workload's rate, the share of requests answered within the objective, CPU time
//! for a request. Heats come in blocks: each candidate once, in random order, with the same
//! arrivals, so that a disturbance of the machine affects all alike.
//!
//! ```text
//! Space --seeds--> screen --leaders--> refine --finalists--> confirm --> Found --> tuned.toml
//!                  costlier and failing    their neighbours      at .8, 1, 1.2 of the load,
//!                  candidates leave                            compared with the default
//! ```
//!
//! The search is a pure function of its heats ([`Heats`]). So a stopped search continues from its
//! record.

pub mod account;
mod field;
mod live;
mod search;
mod space;
pub mod workload;

pub use field::Heat;
pub use live::{Machine, Recipe, Record};
pub use search::{Advice, Finalist, Found, Heats, SearchStep, SearchTerms, Stage, search};
pub use space::{Candidate, Facts, Family, Knob, PerWorker, Space};
