//! The choice of the sender: at most one send of a session is in flight, and no wake-up is lost.
//!
//! A mere flag would lose one. The sender sees an empty queue; another thread queues a message and
//! sees the flag still set; the sender clears the flag; the message stays there until the next one
//! comes. The other thread marks that gap with a third state, *dirty*.

use crate::sync::{AtomicU32, Ordering};

/// No thread sends.
const IDLE: u32 = 0;
/// A thread sends and has seen all messages.
const SENDING: u32 = 1;
/// A thread sends and must look again before it stops.
const DIRTY: u32 = 2;

/// The state after a message was queued, and whether the queueing thread must send.
const fn queued(state: u32) -> (u32, bool) {
    match state {
        IDLE => (SENDING, true),
        _ => (DIRTY, false),
    }
}

/// The state after the sender found nothing more, and whether it must look again.
const fn drained(state: u32) -> (u32, bool) {
    match state {
        DIRTY => (SENDING, true),
        _ => (IDLE, false),
    }
}

/// The send state of a session, for several threads. A thread that is told to send is the only
/// sender until it is told to stop.
///
/// Protocol: put the message into the queue, then call [`SharedOutbox::queued`]. If it
/// returns true, send until the queue is empty, then call [`SharedOutbox::drained`];
/// while that returns true, repeat.
#[derive(Debug)]
pub struct SharedOutbox {
    state: AtomicU32,
}

impl Default for SharedOutbox {
    fn default() -> Self {
        Self { state: AtomicU32::new(IDLE) }
    }
}

impl SharedOutbox {
    /// A message was queued. Returns whether the caller must begin to send.
    #[must_use]
    pub fn queued(&self) -> bool {
        self.change(queued)
    }

    /// The sender found nothing more. Returns whether it must look again.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.change(drained)
    }

    /// Acquire and release in both directions: a new sender sees all that was queued before, and
    /// the sender that finds `DIRTY` sees the writes of the thread that set it. An unchanged
    /// `DIRTY` needs the exchange too, because a mere load would order nothing.
    fn change(&self, step: fn(u32) -> (u32, bool)) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (new, told) = step(state);
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return told,
                Err(now) => state = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_comes_during_a_send_makes_the_sender_look_again() {
        let outbox = SharedOutbox::default();
        assert!(outbox.queued() && !outbox.queued());
        assert!(outbox.drained() && !outbox.drained() && outbox.queued());
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Watched, explore};
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Session {
        outbox: SharedOutbox,
        /// Messages in the queue.
        queue: AtomicU32,
        /// Messages sent: only the sender touches it.
        sent: Watched,
    }

    fn bring(session: &Session) {
        session.queue.fetch_add(1, Ordering::Relaxed);
        if !session.outbox.queued() {
            return;
        }
        loop {
            let taken = session.queue.swap(0, Ordering::Relaxed);
            session.sent.add(taken);
            if taken == 0 && !session.outbox.drained() {
                return;
            }
        }
    }

    #[test]
    fn loom_every_message_leaves_by_one_sender() {
        explore(|| {
            let session = Arc::new(Session::default());
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let session = session.clone();
                    thread::spawn(move || bring(&session))
                })
                .collect();
            bring(&session);
            others.into_iter().for_each(|it| it.join().unwrap());
            assert!(session.outbox.queued(), "no thread sends");
            assert_eq!(session.sent.read(), 3, "a message lies there");
        });
    }

    /// The mere flag that the state machine replaces: loom finds the message that stays queued.
    #[test]
    #[should_panic(expected = "a message lies there")]
    fn loom_a_mere_flag_loses_a_wake_up() {
        fn bring(flag: &AtomicU32, queue: &AtomicU32) {
            queue.fetch_add(1, Ordering::SeqCst);
            if flag.swap(1, Ordering::SeqCst) == 0 {
                while queue.swap(0, Ordering::SeqCst) > 0 {}
                flag.store(0, Ordering::SeqCst);
            }
        }
        loom::model(|| {
            let both = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
            let other = {
                let both = both.clone();
                thread::spawn(move || bring(&both.0, &both.1))
            };
            bring(&both.0, &both.1);
            other.join().unwrap();
            assert_eq!(both.1.load(Ordering::SeqCst), 0, "a message lies there");
        });
    }
}
