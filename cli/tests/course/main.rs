//! The commands of the course: stockserver, stockclient, multiclient under their own names, the
//! course's clients as they were (a replica), and `path`.
//!
//! Facts that hold under every architecture are tested under each preset of `engines::PRESETS`. The
//! test reads that table at run time, so it covers a new engine without a change here.

mod class;
mod crowd;
mod exits;
mod golden;
mod names;
mod oracle;
mod path;
mod pitfalls;
mod replica;
mod server;
mod terminal;

#[path = "../../tools/src/course/rand.rs"]
mod rand;
