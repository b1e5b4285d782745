//! Saving the state, even when clients have taken every descriptor.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use language::{eprintln, info};
use seam::Instant;
use sys::process;

use super::{Crew, Supervisor};

/// The time before a failed save is tried again.
const SAVE_RETRY: Duration = Duration::from_secs(1);
/// Tries of the last save.
const SAVES_LAST: usize = 3;
/// A descriptor held in reserve: where workers are threads, their clients can take all descriptors
/// of the process, and saving needs one.
pub(super) struct Reserve(Option<File>);

impl Reserve {
    /// Takes a descriptor, if one is left.
    pub(super) fn take() -> Reserve {
        Reserve(File::open(NOTHING).ok())
    }

    /// Whether no other descriptor is left while the reserve is.
    fn is_needed(&self) -> bool {
        let is_out = |error: io::Error| matches!(error.raw_os_error(), Some(MFILE | NFILE));
        self.0.is_some() && File::open(NOTHING).is_err_and(is_out)
    }

    /// Takes a descriptor again, as soon as one is free.
    fn refill(&mut self) {
        if self.0.is_none() {
            self.0 = File::open(NOTHING).ok();
        }
    }
}

/// A file that always opens.
const NOTHING: &str = "/dev/null";

// errno(3), Linux: no descriptor is left in the system, in the process.
const NFILE: i32 = 23;
const MFILE: i32 = 24;

impl<C: Crew> Supervisor<'_, C> {
    /// Saves the state if that is due.
    pub(super) fn keep(&mut self, now: Instant) {
        if self.handed_over.is_some() {
            // Two writers of one file would undo each other's work; the successor writes it.
            return;
        }
        if self.save_next.is_some_and(|moment| moment <= now) {
            self.save_next = self.store.every().map(|every| now + every);
            if self.store.is_changed(&()) {
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
        self.reserve.refill();
        let state = &();
        if self.handed_over.is_some() || !self.store.is_changed(state) {
            return;
        }
        let mut saved = self.store.save(state);
        if saved.is_err() && self.reserve.is_needed() {
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
            && let Some(spare) = &self.reserve.0
            // Another process may take the descriptor that is freed here before the file does.
            && let Ok(saved) = process::apart(spare.as_fd(), || store.save(state))
        {
            return saved;
        }
        self.reserve.0 = None;
        let saved = self.store.save(state);
        self.reserve.refill();
        saved
    }
}
