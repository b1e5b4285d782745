//! Sessions by id, for several workers: their table, and the choice of the thread that sends.
//!
//! A [`SessionId`](seam::SessionId) has a shard, an index and a generation. The dense index is the
//! place in the table: no hash, no tree. A slot that has used up its generations is retired and
//! never names a session again.
//!
//! A worker must hold a [`Ref`] to look inside: a closed session keeps its slot, and so its
//! buffers, until the last is dropped.
//!
//! The surprising thing: looking up a session takes no liveness test. A free slot holds a
//! generation that no id can have, and so does a closing one; one comparison decides all three
//! cases.

mod send;
mod shared;

pub use send::SharedOutbox;
pub use shared::{Ref, SharedTable};

use std::fmt;

/// A pool or a table has no room; this is the value, returned to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected a free slot, found all in use; give some back or plan for more")]
pub struct Full<T>(pub T);

impl<T: fmt::Debug> std::error::Error for Full<T> {}
