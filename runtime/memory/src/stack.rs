//! A stack of indices that many threads push to and pop from, whose head carries a tag.
//!
//! Treiber's stack (IBM RJ 5118, 1986). A pop that reads `next` and is overtaken by a pop and a
//! push of the same index would put a stale link at the head (the ABA problem); the tag in the
//! head's upper half counts changes and makes its exchange fail. Only a wrap of the tag, 2^32
//! changes between two instructions, could do harm.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The head: tag in the upper half, index in the lower. The links are the caller's.
#[derive(Debug)]
pub struct Stack {
    head: AtomicU64,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack::new()
    }
}

impl Stack {
    /// No index: the end of a chain.
    pub const NONE: u32 = u32::MAX;

    /// An empty stack.
    #[must_use]
    pub fn new() -> Stack {
        Stack { head: AtomicU64::new(u64::from(Stack::NONE)) }
    }

    /// Puts `index`, which is on no stack, on top. `link` is its own.
    pub fn push(&self, index: u32, link: &AtomicU32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            let new = next_tag(head) | u64::from(index);
            // Release: a thread that pops it sees the link, and all writes before the push.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the index on top. `link_of` finds the link of any index that was ever pushed.
    pub fn pop<'a>(&self, link_of: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let top = head as u32;
            if top == Stack::NONE {
                return None;
            }
            // It may be stale if another thread took `top` meanwhile; then the tag has changed.
            let below = link_of(top).load(Ordering::Relaxed);
            let new = next_tag(head) | u64::from(below);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(top),
                Err(now) => head = now,
            }
        }
    }
}

fn next_tag(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}
