//! Inboxes for returned slots: other workers push chains by one
//! exchange, the owner takes all at once.
//!
//! The owner takes the whole list by a swap and never pops, so there is no ABA problem and no tag
//! (the `TransferStack` of sharded-slab, the `thread_free` list of mimalloc).

use crate::sync::{AtomicU32, Ordering};

use super::NONE;

/// The head of a list of free slots; the links are the caller's.
#[derive(Debug)]
pub(crate) struct Inbox {
    head: AtomicU32,
}

impl Inbox {
    /// An empty inbox.
    pub(crate) fn new() -> Inbox {
        Inbox { head: AtomicU32::new(NONE) }
    }

    /// Pushes a chain from `first` to the slot whose link is `last`.
    pub(crate) fn push(&self, first: u32, last: &AtomicU32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            last.store(head, Ordering::Relaxed);
            // Release: the owner sees the chain, and all earlier writes to its slots.
            match self.head.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the whole list: the first slot of a chain, or [`NONE`].
    pub(crate) fn take_all(&self) -> u32 {
        if self.head.load(Ordering::Relaxed) == NONE {
            return NONE;
        }
        self.head.swap(NONE, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Post {
        inbox: Inbox,
        links: [AtomicU32; 4],
    }

    #[test]
    fn loom_every_slot_comes_home_once() {
        loom::model(|| {
            let links = std::array::from_fn(|_| AtomicU32::new(NONE));
            let post = Arc::new(Post { inbox: Inbox::new(), links });
            let senders: Vec<_> = [(0, 1), (2, 3)]
                .into_iter()
                .map(|(first, last)| {
                    let post = post.clone();
                    thread::spawn(move || {
                        post.links[first].store(last as u32, Ordering::Relaxed);
                        post.inbox.push(first as u32, &post.links[last]);
                    })
                })
                .collect();
            let mut seen = [0; 4];
            let mut collect = || {
                let mut at = post.inbox.take_all();
                while at != NONE {
                    seen[at as usize] += 1;
                    at = post.links[at as usize].load(Ordering::Relaxed);
                }
            };
            collect();
            senders.into_iter().for_each(|it| it.join().unwrap());
            collect();
            assert_eq!(seen, [1; 4]);
        });
    }
}
