//! How a race looks while it runs: a bar on a terminal, a line for each block elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use lab::block::Slot;
use lab::race::Observer;
use lab::trial::{Ending, Trial};
use pages::words;
use std::io::IsTerminal;

/// Draws on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u32,
    done: u32,
    block: Option<u32>,
}

impl Progress {
    /// A bar if stderr is a terminal, lines otherwise.
    pub fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
        if let (Some(bar), Ok(style)) =
            (&bar, ProgressStyle::with_template("{bar:30} {pos}/{len} · {eta} left · {wide_msg}"))
        {
            bar.set_style(style);
        }
        Progress { bar, total: 0, done: 0, block: None }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn step(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
            if self.done == self.total {
                bar.finish_and_clear();
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Progress {
    fn race(&mut self, trials: u32) {
        self.total = trials;
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(trials));
        }
    }

    fn begin(&mut self, slot: &Slot, arm: &str, point: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("block {}, {point}, {arm}", slot.block + 1));
        } else if self.block != Some(slot.block) {
            self.say(&format!("block {} · {} of {} trials", slot.block + 1, self.done, self.total));
        }
        self.block = Some(slot.block);
    }

    fn end(&mut self, trial: &Trial) {
        let place = format!("{}, {}, block {}", trial.arm, trial.point, trial.block + 1);
        match &trial.ending {
            Ending::Measured { load } => {
                if let Some(check) = load.checked().filter(|check| !check.ok) {
                    self.say(&format!("MODEL CHECK FAILED: {place}: {}", check.detail));
                }
                if let Some(bar) = &self.bar {
                    let speed = words::grouped(load.throughput_rps);
                    bar.set_message(format!("{place}: {speed} requests/s"));
                }
            }
            Ending::Unavailable { reason } if trial.counted => {
                self.say(&format!("{}: {reason}", trial.arm));
            }
            Ending::Failed { reason } if trial.counted => {
                self.say(&format!("{place}: {reason}"));
            }
            Ending::Unavailable { .. } | Ending::Failed { .. } => {}
        }
        if trial.counted {
            self.step();
        }
    }

    fn skip(&mut self, _arm: &str) {
        self.step();
    }
}
