//! A session's place between its task and the leader.

use std::task::Waker;

/// The state of a session that its task and the leader share.
#[derive(Default)]
pub struct Seat {
    /// It receives.
    pub reads: bool,
    /// The last send would have blocked.
    pub blocked: bool,
    /// It has more to do than a turn allows.
    pub has_more: bool,
    /// It is over: its task closes it.
    pub is_over: bool,
    /// Its task, while that waits.
    pub waker: Option<Waker>,
}

impl Seat {
    /// Lets the task close the connection.
    pub fn end(&mut self) {
        self.is_over = true;
        self.wake();
    }

    /// Wakes the task.
    pub fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
