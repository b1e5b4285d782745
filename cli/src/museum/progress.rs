//! The progress of an exhibit: a bar on a terminal, a line for each step elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use language::{Level, debug, info};
use museum::{Effort, Listener};
use stats::words;
use std::io::IsTerminal;
use std::time::Duration;

/// Draws on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: u32,
    done: u32,
}

impl Progress {
    /// A bar if stderr is a terminal, lines otherwise.
    pub fn new(title: &str, effort: Effort) -> Progress {
        let Effort { steps, time } = effort;
        info!("{title}: {steps} steps, about {}", words::span(time));
        let is_drawn = std::io::stderr().is_terminal() && Level::chosen() == Level::Plain;
        let bar = is_drawn.then(|| ProgressBar::new(u64::from(effort.steps)));
        if let (Some(bar), Ok(style)) =
            (&bar, ProgressStyle::with_template("{bar:30} {pos}/{len} · {elapsed} · {wide_msg}"))
        {
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Progress { bar, steps, done: 0 }
    }
}

impl Listener for Progress {
    fn begin(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_string()),
            None => debug!("begin: {what}"),
        }
    }

    fn step(&mut self, result: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(result.to_string());
            }
            None => info!("{}/{} · {result}", self.done, self.steps),
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
