//! The service's own clock.

use memory::Phase;
use seam::{Instant, SessionId};

use crate::context::WorkerContext;

/// Calls the service's tick if it is due at `now`; returns when it is due next. While the server
/// leaves, its successor calls it.
#[inline]
pub fn tick(context: &WorkerContext<'_>, next: Option<Instant>, now: Instant) -> Option<Instant> {
    match next {
        Some(moment) if moment <= now => (context.phase() != Phase::Leaving)
            .then(|| context.service.tick(&context.cx(now, SessionId::NONE)))
            .flatten(),
        _ => next,
    }
}
