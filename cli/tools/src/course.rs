//! The clients of the course, under the names it used.
//!
//! The stock market is a classic assignment in systems programming (CSE4100 at Sogang University,
//! with the text book *Computer Systems: A Programmer's Perspective*). Its kit has three programs:
//! `stockserver PORT`, `stockclient HOST PORT`, `multiclient HOST PORT N`. Each of ours can replace
//! the one of that name: it takes the same arguments, speaks the same 8192-byte blocks and prints
//! the same lines.

pub mod detect;
mod link;
pub mod multiclient;
pub mod names;
mod orders;
mod rand;
pub mod stockclient;
