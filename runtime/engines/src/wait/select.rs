//! Readiness by `select(2)`: one loop, all sessions of the worker, three bit sets. The calls of the
//! loop are those of `poll.rs`.
//!
//! The cost of a turn grows with the open connections: the kernel examines every descriptor up to
//! the highest, and so does this loop in the answer. A descriptor of 1024 or more does not fit:
//! such a connection is closed at once, without effect on the others.

pub use sys::select::SelectSet as Waiter;
