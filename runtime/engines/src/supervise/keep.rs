//! Saving the state, even when clients have taken every descriptor.

use std::time::Duration;

use language::{eprintln, info};
use seam::Instant;
use sys::process;

use super::crew::Crew;
use super::state::Supervisor;

/// The time before a failed save is tried again.
const SAVE_RETRY: Duration = Duration::from_secs(1);
/// Tries of the last save.
const SAVES_LAST: usize = 3;

impl<C: Crew> Supervisor<'_, C> {
    /// Saves the state if that is due.
    pub(super) fn keep(&mut self, now: Instant) {
        if self.takeover.handed_over.is_some() {
            // Two writers of one file would undo each other's work; the successor writes it.
            return;
        }
        if self.saving.next.is_some_and(|moment| moment <= now) {
            self.saving.next = self.store.every().map(|every| now + every);
            if self.store.is_changed(&()) {
                self.saving.at = Some(now);
            }
        }
        if self.saving.at.is_some_and(|moment| moment <= now) {
            self.saving.at = None;
            self.save();
            if self.report.unsaved.is_some() {
                self.saving.at = Some(now + SAVE_RETRY);
            }
        }
    }

    /// Saves at the end, and tries again where that fails: nothing comes after it.
    pub(super) fn save_at_last(&mut self) {
        for _ in 0..SAVES_LAST {
            self.save();
            if self.report.unsaved.is_none() {
                return;
            }
            std::thread::sleep(SAVE_RETRY / 10);
        }
    }

    pub(super) fn save(&mut self) {
        let before = self.report.unsaved.take();
        self.saving.reserve.refill();
        let state = &();
        if self.takeover.handed_over.is_some() || !self.store.is_changed(state) {
            return;
        }
        let mut saved = self.store.save(state);
        if saved.is_err() && self.saving.reserve.is_needed() {
            saved = self.save_by_reserve();
        }
        match saved {
            Ok(()) if before.is_some() => info!("the last save has succeeded"),
            Ok(()) => {}
            Err(reason) => {
                // A fault that lasts is one line, not one for each try.
                if before.as_ref() != Some(&reason) {
                    eprintln!("{reason}");
                }
                self.report.unsaved = Some(reason);
            }
        }
    }

    /// Saves although no descriptor but the reserve is left.
    fn save_by_reserve(&mut self) -> Result<(), String> {
        let (store, state) = (&mut *self.store, &());
        if !self.common.shape.container.is_processes()
            && let Some(spare) = self.saving.reserve.descriptor()
            // Another process may take the descriptor that is freed here before the file does.
            && let Ok(saved) = process::apart(spare, || store.save(state))
        {
            return saved;
        }
        self.saving.reserve.release();
        let saved = self.store.save(state);
        self.saving.reserve.refill();
        saved
    }
}
