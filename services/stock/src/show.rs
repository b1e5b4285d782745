//! The reply to `show`, rendered as rarely as possible.
//!
//! A small book is rendered into each connection's output, which costs less than sharing. A large
//! one is rendered once per version and shared by all connections of the process, so a thousand
//! readers of an idle market hold one copy.

use crate::{Lock, Market, Order};
use seam::{Out, WorkerId};
use std::sync::{Arc, Mutex, PoisonError};
use wire::framing::{Framing, Shape};

/// Up to this many stocks, some 2 KiB of text, each connection gets its own rendering. A reference
/// count that all workers write would cost as much, and any order invalidates a shared copy.
const OWN_COPY_MAX: usize = 64;

/// Renders `show` and remembers the last rendering.
#[derive(Debug)]
pub struct Show {
    order: Order,
    framing: Framing,
    last: Mutex<Option<Rendered>>,
}

#[derive(Debug, Clone)]
struct Rendered {
    version: u64,
    reply: Arc<[u8]>,
}

impl Show {
    /// A renderer that has rendered nothing yet.
    pub fn new(order: Order, framing: Framing) -> Show {
        Show { order, framing, last: Mutex::new(None) }
    }

    /// Appends the framed reply. `me` must not have entered the market.
    pub fn reply(&self, market: &Market, lock: Lock, me: WorkerId, out: &mut Out) {
        match lock {
            Lock::Snapshot if market.len() > OWN_COPY_MAX => {
                let reply = self.shared(market, me);
                let len = reply.len();
                out.shared(reply, 0..len);
            }
            Lock::Snapshot => self.framed(out.bytes(), |out| self.own_copy(market, me, out)),
            Lock::PerStock => {
                self.framed(out.bytes(), |out| market.render_by_row(self.order, out));
            }
            Lock::Global => {
                self.framed(out.bytes(), |out| market.render_locked(self.order, me, out));
            }
        }
    }

    /// Appends the framed reply of a node that reads for itself: after the rows a line `@LAST AGE
    /// ms`. It has all orders up to number `last`, and may lack those of the last `age`
    /// milliseconds.
    pub fn aged(&self, market: &Market, me: WorkerId, (last, age): (u64, u64), out: &mut Out) {
        let mut lefts = vec![0; market.len()];
        market.copy_lefts(me, &mut lefts);
        self.framed(out.bytes(), |out| {
            market.render(self.order, &lefts, out);
            out.extend_from_slice(format!("@{last} {age} ms\n").as_bytes());
        });
    }

    fn own_copy(&self, market: &Market, me: WorkerId, out: &mut Vec<u8>) {
        let mut lefts = [0; OWN_COPY_MAX];
        let lefts = &mut lefts[..market.len()];
        market.copy_lefts(me, lefts);
        market.render(self.order, lefts, out);
    }

    /// The reply for the current version, from the last rendering if nothing has changed since.
    fn shared(&self, market: &Market, me: WorkerId) -> Arc<[u8]> {
        // The lock is held while rendering, because other threads would only render the same book
        // again.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| !market.changed_since(last.version)) {
            return Arc::clone(&last.reply);
        }
        let mut lefts = vec![0; market.len()];
        let version = market.copy_lefts(me, &mut lefts);
        let mut text = Vec::new();
        self.framed(&mut text, |out| market.render(self.order, &lefts, out));
        let reply: Arc<[u8]> = text.into();
        *last = Some(Rendered { version, reply: Arc::clone(&reply) });
        reply
    }

    fn framed(&self, out: &mut Vec<u8>, render: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        render(out);
        if let Err(overfull) = self.framing.finish(start, Shape::Block, out) {
            // The amounts have grown since the start. A part of the list would be a wrong answer.
            out.extend_from_slice(
                format!("error: {overfull}, because amounts have grown\n").as_bytes(),
            );
            self.framing
                .finish(start, Shape::Block, out)
                .expect("a service starts only if its errors fit");
        }
    }
}
