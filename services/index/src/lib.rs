//! Ordered structures over storage that the caller lends.
//!
//! A value that several processes share can hold no pointer, so no structure here can own a `Vec`:
//! nodes are numbered, links are numbers, and the code that lays out the shared value owns the
//! arrays. Zero bytes are a valid, empty structure everywhere.
//!
//! - [`Tree`]: the node interface of every binary tree here; the walk is written once on top
//!   of it.
//! - [`level_order`]: the complete tree that fills level by level, as the course's stock server
//!   keeps it.
//! - [`Bst`], [`RedBlack`]: the unbalanced and the balanced binary search tree, over one array of
//!   [`Node`]s; read through a [`View`].
//! - [`by_id`]: from a 32-bit id to a row in one probe.
//!
//! Each search tree has a checker of all its invariants ([`SearchTree::check`]), and mutants prove
//! that the checker reports violations.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod arena;
pub mod by_id;
mod check;
mod fuzz;
pub mod level_order;
mod links;
mod search;
#[cfg(test)]
mod search_tests;
mod tree;
mod view;

pub use arena::{NODES_MAX, Node, Refused};
pub use check::{Broken, Shape};
pub use fuzz::fuzz;
pub use search::{Bst, RedBlack, SearchTree};
pub use tree::{PreOrder, Tree};
pub use view::{Ascending, View};
