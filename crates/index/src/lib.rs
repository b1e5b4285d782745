//! Ordered structures over storage that the caller lends.
//!
//! A value that several processes share can hold no pointer, so none of these can own a `Vec`:
//! nodes are numbered, links are numbers, and the arrays belong to whoever lays out the shared
//! value. Zero bytes are a valid, empty structure everywhere.
//!
//! - [`Tree`]: what every binary tree here can say about its nodes; walks are written once on top
//!   of it.
//! - [`level_order`]: the complete tree that fills level by level, as the course's stock server
//!   keeps it.
//! - [`by_id`]: from a 32-bit id to a row in one probe.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod by_id;
pub mod level_order;
mod tree;

pub use tree::{InOrder, PreOrder, Tree};
