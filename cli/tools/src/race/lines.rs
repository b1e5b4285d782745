//! The progress of a race without a terminal: a line for each block, and problems.

use lab::race::RaceEvent;
use lab::trial::{Ending, Trial};
use language::{eprintln, info};

/// Writes to stderr.
#[derive(Default)]
pub struct Lines {
    done: u32,
    block: Option<u32>,
}

impl Lines {
    /// Takes the next event.
    pub fn hear(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::Known(_) | RaceEvent::Skip(_) => self.done += 1,
            RaceEvent::News(text) => info!("{text}"),
            RaceEvent::Begin(slot, ..) => {
                if self.block != Some(slot.block) {
                    info!("block {} · {} trials so far", slot.block + 1, self.done);
                }
                self.block = Some(slot.block);
            }
            RaceEvent::End(trial) => {
                tell(trial);
                self.done += 1;
            }
            RaceEvent::Race(_) => {}
        }
    }
}

fn tell(trial: &Trial) {
    let place = format!("{}, {}, block {}", trial.arm, trial.point, trial.block + 1);
    match &trial.ending {
        Ending::Measured { load } => {
            if let Some(check) = load.checked().filter(|check| !check.ok) {
                eprintln!("MODEL CHECK FAILED: {place}: {}", check.detail);
            }
        }
        Ending::Unavailable { reason } => eprintln!("{}: {reason}", trial.arm),
        Ending::Failed { reason } => eprintln!("{place}: {reason}"),
    }
}
