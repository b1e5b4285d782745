//! The progress of a race: a bar on a terminal, elsewhere a line for each block; and problems.

use indicatif::{ProgressBar, ProgressStyle};
use lab::plan::Plan;
use lab::race::RaceEvent;
use lab::trial::{Ending, Trial};
use language::{Level, eprintln, info};
use std::io::IsTerminal;
use std::time::Duration;

/// Writes to stderr.
#[derive(Default)]
pub struct Lines {
    bar: Option<ProgressBar>,
    is_budgeted: bool,
    done: u32,
    block: Option<u32>,
}

impl Lines {
    /// The progress of this plan, with a bar if stderr is a terminal and messages are the usual
    /// ones. A budget ends a race, not the number of its blocks.
    pub fn of(plan: &Plan) -> Lines {
        let budget_ms = plan.turns.budget_ms;
        let is_drawn = std::io::stderr().is_terminal() && Level::chosen() == Level::Plain;
        let len = budget_ms.unwrap_or_else(|| u64::from(plan.trials()));
        let bar = is_drawn.then(|| ProgressBar::new(len));
        if let (Some(bar), Ok(style)) =
            (&bar, ProgressStyle::with_template("{bar:30} {elapsed} · {wide_msg}"))
        {
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Lines { bar, is_budgeted: budget_ms.is_some(), ..Lines::default() }
    }

    /// Takes the next event.
    pub fn hear(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::Known(trial) => self.done += u32::from(trial.counted),
            RaceEvent::News(text) => self.above(|| info!("{text}")),
            RaceEvent::Begin(slot, arm, point) => match &self.bar {
                Some(bar) => bar.set_message(format!("{arm}, {point}")),
                None if self.block != Some(slot.block) => {
                    info!("block {} · {} trials so far", slot.block + 1, self.done);
                    self.block = Some(slot.block);
                }
                None => {}
            },
            RaceEvent::End(trial) => {
                self.above(|| tell(trial));
                self.done += u32::from(trial.counted);
            }
            RaceEvent::Skip(_) => self.done += 1,
            RaceEvent::Race(_) => {}
        }
        if let Some(bar) = &self.bar {
            let elapsed_ms = bar.elapsed().as_millis() as u64;
            bar.set_position(if self.is_budgeted { elapsed_ms } else { self.done.into() });
        }
    }

    /// Writes above the bar.
    fn above(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Reports what went wrong.
fn tell(trial: &Trial) {
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
}
