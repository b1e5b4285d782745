//! The progress of a long command: a bar on a terminal, a line for each step elsewhere.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use language::{Level, debug, info};
use museum::{Effort, Listener};
use stats::words;
use std::io::IsTerminal;
use std::time::Duration;

/// A bar on stderr, which goes with its handle; hidden where it is no terminal, and with `--quiet`
/// and `--verbose`.
pub fn bar(steps: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() || Level::chosen() != Level::Plain {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("a template of ours");
    let bar = ProgressBar::new(steps).with_style(style).with_finish(ProgressFinish::AndClear);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Draws on stderr.
pub struct Progress {
    bar: ProgressBar,
    steps: u32,
    done: u32,
}

impl Progress {
    pub fn new(title: &str, Effort { steps, time }: Effort) -> Progress {
        info!("{title}: {steps} steps, about {}", words::span(time));
        let bar = bar(steps.into(), "{bar:30} {pos}/{len} · {elapsed} · {wide_msg}");
        Progress { bar, steps, done: 0 }
    }
}

impl Listener for Progress {
    fn begin(&mut self, what: &str) {
        self.bar.set_message(what.to_string());
        debug!("begin: {what}");
    }

    fn step(&mut self, result: &str) {
        self.done += 1;
        self.bar.inc(1);
        self.bar.set_message(result.to_string());
        if self.bar.is_hidden() {
            info!("{}/{} · {result}", self.done, self.steps);
        }
    }
}
