//! When the state is kept.

use std::time::Duration;

use seam::{Instant, Service};

use super::{Crew, Supervisor};
use crate::say::say;

/// How long to wait before a failed save is tried again.
const SAVE_RETRY: Duration = Duration::from_secs(1);

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// Saves what is due.
    pub(super) fn keep(&mut self, now: Instant) {
        if self.handed_over {
            // Two who write one file would undo each other's work; the successor writes it.
            return;
        }
        if self.save_next.is_some_and(|moment| moment <= now) {
            self.save_next = self.keeper.every().map(|every| now + every);
            if self.keeper.is_changed(self.common.house.state) {
                self.save_at = Some(now);
            }
        }
        if self.save_at.is_some_and(|moment| moment <= now) {
            self.save_at = None;
            self.save();
            if self.report.unsaved.is_some() {
                self.save_at = Some(now + SAVE_RETRY);
            }
        }
    }

    pub(super) fn save(&mut self) {
        self.report.unsaved = None;
        if !self.handed_over
            && self.keeper.is_changed(self.common.house.state)
            && let Err(reason) = self.keeper.save(self.common.house.state)
        {
            say!("{reason}");
            self.report.unsaved = Some(reason);
        }
    }
}
