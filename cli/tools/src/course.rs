//! The clients of the course, under the names it used.
//!
//! Each takes the same arguments as the course's program of its name, speaks the same 8192-byte
//! blocks and prints the same lines.

pub mod detect;
mod link;
pub mod multiclient;
pub mod names;
mod orders;
mod rand;
pub mod stockclient;
