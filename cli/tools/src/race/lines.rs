//! The progress of a race without a terminal: a line for each block, and problems.

use lab::race::RaceEvent;
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
                if let Some(fault) = trial.fault() {
                    eprintln!("{fault}");
                }
                self.done += 1;
            }
            RaceEvent::Race(_) => {}
        }
    }
}
