//! Senders in a media server: receivers get the same packets from each (`same`), and each runs with
//! the requested rank (`ranks`). The client of these tests also sends requests that no player sends
//! (`talk`).
//!
//! A hundred sessions at a time would starve the players of the other tests, so these tests are a
//! separate program.

mod ranks;
mod receiver;
mod same;
#[path = "../media/stage.rs"]
mod stage;
mod talk;
