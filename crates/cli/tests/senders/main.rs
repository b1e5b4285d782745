//! Senders in a media server: whichever it is, receivers get the same (`same`), and it runs in
//! front of whom it was told (`ranks`).
//!
//! A hundred sessions at a time would starve the players of the other tests, so these are a program
//! of their own.

mod ranks;
mod receiver;
mod same;
#[path = "../media/stage.rs"]
mod stage;
