//! The race laboratory: plans, trials, blocks, statistics, records and doubts.
//!
//! A race compares *arms* (servers and their parameters) by randomised complete blocks of fresh
//! processes, and answers with a ratio, its interval and one of four words: faster, slower,
//! equivalent, unresolved. The laboratory depends on no engine, no service and no load generator:
//! it sees processes, sockets, `/proc` and JSON lines. So a foreign server is an arm like one of
//! ours, and no engine can flatter itself.
//!
//! ```text
//! Plan --block::schedule--> Slot --trial::Runner--> Trial --record--> report.jsonl
//!                                                    \--verdict::analyse--> Summary --doubts
//! ```

pub mod block;
pub mod cause;
pub mod census;
pub mod command;
pub mod condition;
pub mod cost;
pub mod doubts;
pub mod draft;
pub mod duet;
pub mod far;
pub mod file;
pub mod idle;
pub mod live;
pub mod load;
pub mod machine;
pub mod metric;
pub mod observations;
pub mod pace;
pub mod plan;
pub mod prices;
pub mod probe;
pub mod race;
pub mod record;
pub mod runner;
pub mod server;
pub mod service;
pub mod trial;
mod turns;
pub mod verdict;
