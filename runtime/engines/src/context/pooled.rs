//! The context of a slot that several workers share.

use std::cell::Cell;

use seam::{Effects, WorkerId};

use super::WorkerContext;
use super::carrier::{Carrier, Governed};

impl<'a> WorkerContext<'a> {
    /// The context of the slot that several workers share: whichever of them leads accepts, counts
    /// and ticks there.
    pub fn of_pool(&self, id: WorkerId) -> WorkerContext<'a> {
        WorkerContext {
            id,
            is_first: true,
            effects: Effects::new(false, false),
            edition: Cell::new(self.edition.get()),
            grown: Cell::new(0),
            governed: Governed::new(Carrier::Unwatched),
            ..*self
        }
    }

    /// The context of a slot that no thread owns: threads count and step sessions there in turn.
    #[cfg(feature = "tokio")]
    pub fn of_seat(&self, id: WorkerId) -> WorkerContext<'a> {
        WorkerContext {
            is_first: false,
            effects: self.effects.alike(),
            governed: Governed::new(self.governed.carrier),
            ..self.of_pool(id)
        }
    }
}
