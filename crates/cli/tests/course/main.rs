//! The commands of the course: stockserver, stockclient, multiclient under their own names, the
//! course's clients as they were (a replica), and the comfortable client on a terminal.
//!
//! What must hold under every architecture is tried under each preset of `engines::PRESETS`, which
//! is read when the test runs: a new engine is covered without a line here.

mod crowd;
mod exits;
mod golden;
mod names;
mod oracle;
mod pitfalls;
mod replica;
#[path = "../screen/mod.rs"]
mod screen;
mod server;
mod talk;
mod terminal;

#[path = "../../../tools/src/course/rand.rs"]
mod rand;
