//! The table of a bench run, and its files in `runs/`.

use super::duet::Length;
use super::{Bench, Outcome, Reading, Row};
use anyhow::Context;
use serde_json::json;
use stats::Goal;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Above this number of processes that want to run, a run is worth a doubt before it begins.
const LOAD_MAX: f64 = 0.5;

/// Adds the doubts that are known before anything is measured.
pub(super) fn machine_doubts(outcome: &mut Outcome, length: &Length) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        outcome.doubt("one core: servers and generator share it".to_owned());
    }
    if length.fresh_pairs < 6 {
        let pairs = length.fresh_pairs;
        outcome.doubt(format!("{pairs} fresh pairs have no interval: nothing here is resolved"));
    }
    if let Some(doubt) = busy() {
        outcome.doubt(doubt);
    }
}

/// The result as Markdown, for the terminal and for the file: note, table, doubts.
pub(super) fn text(bench: &Bench, outcome: &Outcome) -> String {
    let mut text = format!("{}\n\n{}", bench.note, table(bench.left_right, &outcome.rows));
    if !outcome.doubts.is_empty() {
        text += "\nDoubts:\n\n";
        for doubt in &outcome.doubts {
            text += &format!("- {doubt}\n");
        }
    }
    text
}

fn table(left_right: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "| {left_right} | load | left | right | found | wanted | verdict |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let wanted = match row.wanted {
            None => String::new(),
            Some(Goal::AtLeast(bound)) => format!(">= {bound:.2}"),
            Some(Goal::AtMost(bound)) => format!("<= {bound:.0} B"),
        };
        let found = match &row.found {
            Ok(found) => measured(row, found),
            Err(why) => format!("— | — | {}", why.replace(['\n', '|'], " ")),
        };
        let Row { name, load, .. } = row;
        text += &format!("| {name} | {load} | {found} | {wanted} | {} |\n", row.verdict());
    }
    text
}

/// Left, right and the value with its interval: a ratio, or bytes.
fn measured(row: &Row, found: &Reading) -> String {
    let value = found.value;
    let ends = |places: usize| {
        let interval = found.interval;
        interval.map(|it| format!(" [{:.places$} {:.places$}]", it.low, it.high))
    };
    let unit = if row.name.ends_with("instructions") { "" } else { " ns" };
    match found.each_ns {
        Some((left, right)) => {
            let interval = ends(3).unwrap_or_default();
            format!("{left:.0}{unit} | {right:.0}{unit} | {value:.3}{interval}")
        }
        None => format!(" |  | {value:.0} B{}", ends(0).unwrap_or_default()),
    }
}

/// Whether others are busy here, as a doubt.
pub(super) fn busy() -> Option<String> {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy = average.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (busy > LOAD_MAX)
        .then(|| format!("the machine was busy before the run (load average {busy:.2})"))
}

/// Writes `NAME.md` and `NAME.jsonl`, or `NAME-ARM.…` for a run of one arm only, into
/// `runs/DATE-MACHINE/`; returns that folder.
///
/// # Errors
/// If the folder cannot be written or the date is unknown.
pub(super) fn save(
    bench: &Bench,
    outcome: &Outcome,
    text: &str,
    only: Option<&str>,
) -> anyhow::Result<PathBuf> {
    let name = only.map_or(bench.name.to_owned(), |arm| format!("{}-{arm}", bench.name));
    let lines: Vec<_> = outcome.rows.iter().map(line).collect();
    keep(&name, bench.title, text, &lines, &outcome.doubts)
}

/// Writes `NAME.md` and `NAME.jsonl`, each after the manifest.
///
/// # Errors
/// As [`save`].
pub(super) fn keep(
    name: &str,
    title: &str,
    text: &str,
    rows: &[serde_json::Value],
    doubts: &[String],
) -> anyhow::Result<PathBuf> {
    let manifest = Manifest::read()?;
    let dir = crate::root().join("runs").join(format!("{}-{}", manifest.date, manifest.slug()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut lines = manifest.line(name, doubts);
    for row in rows {
        lines += &format!("{row}\n");
    }
    let head = format!(
        "# {title}\n\nMachine: {}, {} CPUs, {}. Commit {}. {}.\n\n",
        manifest.cpu, manifest.cpus, manifest.kernel, manifest.commit, manifest.date
    );
    for (kind, text) in [("md", head + text), ("jsonl", lines)] {
        let path = dir.join(format!("{name}.{kind}"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(dir)
}

/// A row as one JSON value.
fn line(row: &Row) -> serde_json::Value {
    let found = match &row.found {
        Ok(Reading { value, interval, each_ns }) => {
            let interval = interval.map(|it| [it.low, it.high]);
            match each_ns {
                Some((left, right)) => json!({
                    "ratio": value, "interval": interval, "left_ns": left, "right_ns": right,
                }),
                None => json!({"bytes": value, "interval": interval}),
            }
        }
        Err(why) => json!({"absent": why}),
    };
    json!({
        "duet": row.name, "load": row.load, "wanted": row.wanted, "verdict": row.verdict(),
        "found": found,
    })
}

/// The place and the machine of a run.
struct Manifest {
    date: String,
    commit: String,
    kernel: String,
    cpu: String,
    cpus: usize,
}

impl Manifest {
    fn read() -> anyhow::Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let cpu = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
        let dirty = !said("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let commit = said("git", &["rev-parse", "--short=12", "HEAD"])?;
        Ok(Self {
            date: said("date", &["+%Y-%m-%d"])?,
            commit: if dirty { format!("{commit} with changes") } else { commit },
            kernel: said("uname", &["-sr"])?,
            cpu: cpu.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// The machine as part of a file name.
    fn slug(&self) -> String {
        let words = self.cpu.to_lowercase().replace("(r)", "").replace("(tm)", "");
        let words: Vec<&str> =
            words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        format!("{}cpu-{}", self.cpus, words.join("-"))
    }

    fn line(&self, bench: &str, doubts: &[String]) -> String {
        let Self { date, commit, kernel, cpu, cpus } = self;
        let value = json!({
            "schema": "roundhouse.bench/2", "bench": bench, "doubts": doubts,
            "date": date, "commit": commit, "kernel": kernel, "cpu": cpu, "cpus": cpus,
        });
        format!("{value}\n")
    }
}

/// The output of a command, without its last newline.
fn said(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(args).current_dir(crate::root()).output();
    let output = output.with_context(|| format!("start `{program}`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{at_least, at_most};
    use super::*;

    #[test]
    fn rows_are_ratios_bytes_or_reasons() {
        let ends = |low, high| Some(stats::Interval { low, high, cover: 0.96 });
        let interval = ends(0.96, 1.01);
        let found = Reading { value: 0.98, interval, each_ns: Some((210.4, 215.0)) };
        let bytes = Reading { value: 512.4, interval: ends(500.0, 600.0), each_ns: None };
        let row = |wanted, found| {
            let (name, load) = ("a / b".to_owned(), "depth 16".to_owned());
            Row { name, load, wanted, found }
        };
        let text = table(
            "a / b",
            &[
                row(at_least(0.9), Ok(found)),
                row(at_most(2048.0), Ok(bytes)),
                row(at_least(0.9), Err("skipped: no redis | here".to_owned())),
            ],
        );
        for want in [
            "| a / b | depth 16 | 210 ns | 215 ns | 0.980 [0.960 1.010] | >= 0.90 | reached |",
            "| a / b | depth 16 |  |  | 512 B [500 600] | <= 2048 B | reached |",
            "| — | — | skipped: no redis   here | >= 0.90 |  |",
        ] {
            assert!(text.contains(want), "expected {want} in {text}");
        }
    }

    #[test]
    fn a_machine_has_a_name_that_fits_a_path() {
        let manifest = Manifest::read().unwrap();
        let slug = manifest.slug();
        assert!(slug.chars().all(|c| c.is_alphanumeric() || c == '-'), "{slug}");
        assert_eq!(manifest.date.len(), "2000-01-01".len());
    }
}
