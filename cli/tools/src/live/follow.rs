//! `roundhouse live FILE`: the page of a race from its raw file, as it grows.
//!
//! It shows a race that runs elsewhere on the machine or without `--live`, or a finished one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use lab::live::{Live, Snapshot};
use lab::race::RaceEvent;
use lab::record::{self, Run};

/// The interval at which the file is read.
const LOOK: Duration = Duration::from_millis(300);

/// The arguments of `live`.
#[derive(clap::Args)]
pub struct Args {
    /// The raw file of a race, report.jsonl; its last run is shown
    file: PathBuf,
    /// Where to serve the page; port 0 picks one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

/// Serves the page until it is interrupted. One line of JSON on stdout says where.
pub fn run(args: Args) -> Result<ExitCode> {
    let stop = crate::interrupt::watch()?;
    let shots = Arc::new(Mutex::new(Vec::new()));
    let mut seen = Seen::default();
    if !seen.look(&args.file, &shots)? {
        anyhow::bail!("{}: expected the raw file of a race, found no run", args.file.display());
    }
    let latest = Arc::clone(&shots);
    let shown = super::show(args.listen, move || {
        let mut shots = latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut earlier = std::mem::take(&mut *shots);
        let present = earlier.pop().unwrap_or_default();
        // It is the current snapshot until the next one.
        shots.push(present.clone());
        (earlier, present)
    })?;
    let line = serde_json::json!({
        "listening": shown.listening().to_string(),
        "service": "live",
        "pid": std::process::id(),
    });
    println!("{line}");
    while !stop.load(Ordering::Relaxed) {
        // A file that is being written may be unreadable for a moment; earlier data stays.
        let _ = seen.look(&args.file, &shots);
        thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of the file that has been read.
#[derive(Default)]
struct Seen {
    changed: Option<(u64, Option<SystemTime>)>,
    runs: usize,
    trials: usize,
    live: Option<Live>,
}

impl Seen {
    /// Reads the new part of the file and appends a snapshot for each block that ended in it; false
    /// while there is no run.
    fn look(&mut self, path: &Path, shots: &Mutex<Vec<Snapshot>>) -> Result<bool> {
        let about = std::fs::metadata(path)?;
        let changed = Some((about.len(), about.modified().ok()));
        if changed == self.changed {
            return Ok(self.live.is_some());
        }
        let runs = record::read(path)?;
        self.changed = changed;
        let Some(run) = runs.last() else { return Ok(false) };
        if runs.len() != self.runs || run.trials.len() < self.trials {
            (self.runs, self.trials, self.live) = (runs.len(), 0, None);
        }
        let live = self.live.get_or_insert_with(|| {
            let live = Live::new(&run.manifest);
            live.hear(RaceEvent::Race(run.manifest.plan.trials()));
            live
        });
        let mut fresh = Vec::new();
        for at in self.trials..run.trials.len() {
            let trial = &run.trials[at];
            if run.trials.get(at + 1).is_some_and(|next| next.block == trial.block) {
                live.hear(RaceEvent::Known(trial));
            } else {
                live.hear(RaceEvent::End(trial));
                fresh.push(clocked(live.snapshot(), run));
            }
        }
        if fresh.is_empty() {
            fresh.push(clocked(live.snapshot(), run));
        }
        self.trials = run.trials.len();
        shots.lock().unwrap_or_else(PoisonError::into_inner).append(&mut fresh);
        Ok(true)
    }
}

/// The snapshot by the clock of the race rather than by ours.
fn clocked(mut shot: Snapshot, run: &Run) -> Snapshot {
    let last = run.trials.last();
    shot.elapsed_ms = last.map_or(0, |trial| (trial.begun_ms + trial.took_ms) as u64);
    shot.block = last.map_or(0, |trial| trial.block + 1);
    let left = u64::from(shot.total.saturating_sub(shot.done));
    shot.left_ms = (shot.done > 0).then(|| shot.elapsed_ms * left / u64::from(shot.done));
    shot.ended = run.finished;
    shot
}
