//! Code that the loop of a ring and the completion port share.

pub mod accepting;
pub mod flight;
pub mod output;
