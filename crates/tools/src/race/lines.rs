//! The progress of a race without a terminal: a line for each block, and problems.

use lab::block::Slot;
use lab::race::Observer;
use lab::trial::{Ending, Trial};
use language::{eprintln, info};

/// Writes to stderr.
#[derive(Default)]
pub struct Lines {
    total: u32,
    done: u32,
    block: Option<u32>,
}

impl Observer for Lines {
    fn race(&mut self, trials: u32) {
        self.total = trials;
    }

    fn known(&mut self, trial: &Trial) {
        self.done += u32::from(trial.counted);
    }

    fn news(&mut self, text: &str) {
        info!("{text}");
    }

    fn begin(&mut self, slot: &Slot, _arm: &str, _point: &str) {
        if self.block != Some(slot.block) {
            info!("block {} · {} of {} trials", slot.block + 1, self.done, self.total);
        }
        self.block = Some(slot.block);
    }

    fn end(&mut self, trial: &Trial) {
        let place = format!("{}, {}, block {}", trial.arm, trial.point, trial.block + 1);
        match &trial.ending {
            Ending::Measured { load } => {
                if let Some(check) = load.checked().filter(|check| !check.ok) {
                    eprintln!("MODEL CHECK FAILED: {place}: {}", check.detail);
                }
            }
            Ending::Unavailable { reason } if trial.counted => eprintln!("{}: {reason}", trial.arm),
            Ending::Failed { reason } if trial.counted => eprintln!("{place}: {reason}"),
            Ending::Unavailable { .. } | Ending::Failed { .. } => {}
        }
        self.done += u32::from(trial.counted);
    }

    fn skip(&mut self, _arm: &str) {
        self.done += 1;
    }
}
