//! The commands of the course: stockserver, stockclient, multiclient under their own names, the
//! course's clients as they were (a replica), the comfortable client on a terminal, and `path`.
//!
//! Facts that hold under every architecture are tried under each preset of `engines::PRESETS`,
//! which is read when the test runs: a new engine is covered without a line here.

mod crowd;
mod exits;
mod golden;
mod names;
mod oracle;
mod path;
mod pitfalls;
mod replica;
mod server;
mod talk;
mod terminal;

#[path = "../../../tools/src/course/rand.rs"]
mod rand;
