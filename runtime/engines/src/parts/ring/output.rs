//! Output on a ring: one send with all the output that waits, and what its completion changes.

use std::io;

use seam::{Buffers, Closed, Cx, Out, Part};
use sys::uring::{Chunk, Load};

use crate::context::WorkerContext;
use crate::limits::RING_SLICES;
use crate::parts::connection::Connection;

/// Handles the completion of a send, in part or, if `load` comes back, as a whole; returns whether
/// it is over.
pub fn land<X>(
    context: &WorkerContext<'_>,
    cx: &Cx<'_, ()>,
    connection: &mut Connection<X>,
    (result, load): (io::Result<usize>, Option<Load>),
    buffers: &mut Buffers,
) -> bool {
    connection.conn.lend(buffers);
    match result {
        Ok(len) => connection.landed(context, cx, len),
        Err(_) => connection.conn.abort(Closed::Reset),
    }
    let Some(load) = load else { return false };
    // The bytes that a failed send did not carry are lost with the connection.
    let lost = connection.conn.out().flying();
    if lost > 0 {
        connection.conn.landed(context.service, cx, lost);
    }
    reuse(load, buffers);
    true
}

/// Takes the output to be sent; there are no files before it.
pub fn load(out: &mut Out) -> Option<Load> {
    let mut chunks = Vec::new();
    let mut first = None;
    while chunks.len() < RING_SLICES {
        let chunk = match out.take() {
            Some(Part::Bytes(bytes)) => Chunk::Owned(bytes),
            Some(Part::Shared(bytes, range)) => Chunk::Shared(bytes, range),
            Some(Part::File(..)) => unreachable!("files go by calls"),
            None => break,
        };
        // A single piece, the common case, needs no list.
        match first.take() {
            None if chunks.is_empty() => first = Some(chunk),
            None => chunks.push(chunk),
            Some(earlier) => chunks.extend([earlier, chunk]),
        }
    }
    match first {
        Some(chunk) => Some(Load::One(chunk)),
        None if chunks.is_empty() => None,
        None => Some(Load::Rope(chunks)),
    }
}

/// Returns the buffers of a landed send to the spare ones.
fn reuse(load: Load, buffers: &mut Buffers) {
    let mut put = |chunk| {
        if let Chunk::Owned(bytes) = chunk {
            buffers.put(bytes);
        }
    };
    match load {
        Load::One(chunk) => put(chunk),
        Load::Rope(chunks) => chunks.into_iter().for_each(put),
    }
}
