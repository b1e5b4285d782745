//! Calibrations are kept in `$XDG_CACHE_HOME/roundhouse/calibration.json`.

use ::load::calibrate::{Baseline, Calibration, calibrate};
use ::load::{Failure, Plan};
use anyhow::{Context, Result};
use language::{println, tr};
use stats::words::time;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Another build is another generator.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The file, by the XDG Base Directory Specification; `None` if the environment names no directory.
fn file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("roundhouse").join("calibration.json"))
}

/// The generator's limits on this machine for this plan, if they were measured.
pub fn baseline(plan: &Plan) -> Option<Baseline> {
    let text = fs::read_to_string(file()?).ok()?;
    let calibration: Calibration = serde_json::from_str(&text).ok()?;
    calibration.baseline(VERSION, plan.target.scheme, plan.model.depth())
}

/// Calibrates, and prints each result.
pub fn measure(window: Duration, json: bool) -> Result<Calibration, Failure> {
    calibrate(VERSION, window, |entry| {
        if json {
            return;
        }
        let line = format!(
            "{:<6} depth {:<3} {:>9.0}/s reached · {} CPU per request, so {:.0}/s a core · \
             an arrival noticed within {} (p99){}",
            entry.scheme,
            entry.depth,
            entry.measured_rps,
            time(entry.cpu_ns),
            entry.ceiling_rps,
            time(entry.tardiness_p99_ns as f64),
            if entry.counts_agree { "" } else { " · THE COUNTS DISAGREE" }
        );
        std::println!("{}", pages::terminal::folded(&tr(&line), 17));
    })
}

/// Saves a calibration for later verdicts.
pub fn keep(calibration: &Calibration, json: bool) -> Result<()> {
    let file = file().context("cannot save it: set XDG_CACHE_HOME or HOME")?;
    let dir = file.parent().context("a cache file has a folder")?;
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let text = serde_json::to_string_pretty(calibration)?;
    fs::write(&file, &text).with_context(|| format!("write {}", file.display()))?;
    if json {
        println!("{}", serde_json::to_string(calibration)?);
    } else {
        println!("kept in {}", file.display());
    }
    anyhow::ensure!(
        calibration.entries.iter().all(|entry| entry.counts_agree),
        "expected the null server and the generator to count the same requests"
    );
    Ok(())
}
