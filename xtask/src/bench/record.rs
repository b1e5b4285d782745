//! The table of a bench run, and what is kept of it in `runs/`.

use super::Row;
use anyhow::Context;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The rows as a Markdown table, for the terminal and for the file.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| CPU per request, left / right | depth | left | right | ratio | wanted | verdict |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let wanted = row.wanted.map_or(String::new(), |wanted| format!(">= {wanted:.2}"));
        let Row { name, depth, .. } = row;
        let found = match &row.found {
            Ok(found) => {
                let interval = found.interval.map(|(low, high)| format!(" [{low:.3} {high:.3}]"));
                let interval = interval.unwrap_or_default();
                let (left, right) = (found.left_ns, found.right_ns);
                format!("{left:.0} ns | {right:.0} ns | {:.3}{interval}", found.ratio)
            }
            Err(why) => format!("— | — | {}", why.replace(['\n', '|'], " ")),
        };
        text += &format!("| {name} | {depth} | {found} | {wanted} | {} |\n", row.verdict());
    }
    text
}

/// Writes `engines.md` and `engines.jsonl`, or `engines-ARM.…` of a run of one arm only, into
/// `runs/DATE-MACHINE/`; returns that folder.
///
/// # Errors
/// Where the folder cannot be written or the date cannot be asked for.
pub(super) fn save(rows: &[Row], text: &str, only: Option<&str>) -> anyhow::Result<PathBuf> {
    let manifest = Manifest::read()?;
    let dir = crate::root().join("runs").join(format!("{}-{}", manifest.date, manifest.slug()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut lines = manifest.line();
    for row in rows {
        let found = match &row.found {
            Ok(found) => json!({
                "ratio": found.ratio, "interval": found.interval,
                "left_ns": found.left_ns, "right_ns": found.right_ns,
            }),
            Err(why) => json!({"absent": why}),
        };
        let line = json!({
            "duet": row.name, "depth": row.depth, "wanted": row.wanted,
            "verdict": row.verdict(), "found": found,
        });
        lines += &format!("{line}\n");
    }
    let head = format!(
        "# Engines against bare loops\n\nMachine: {}, {} CPUs, {}. Commit {}. {}.\n\n",
        manifest.cpu, manifest.cpus, manifest.kernel, manifest.commit, manifest.date
    );
    let name = only.map_or("engines".to_owned(), |arm| format!("engines-{arm}"));
    for (kind, text) in [("md", head + text), ("jsonl", lines)] {
        let path = dir.join(format!("{name}.{kind}"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(dir)
}

/// Where and on what a run took place.
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

    fn line(&self) -> String {
        let Self { date, commit, kernel, cpu, cpus } = self;
        let value = json!({
            "schema": "roundhouse.bench/1", "date": date, "commit": commit, "kernel": kernel,
            "cpu": cpu, "cpus": cpus,
        });
        format!("{value}\n")
    }
}

/// What a command prints, without its last newline.
fn said(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(args).current_dir(crate::root()).output();
    let output = output.with_context(|| format!("start `{program}`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    #[test]
    fn a_row_without_a_measurement_says_why() {
        let interval = Some((0.96, 1.01));
        let found = Reading { ratio: 0.98, interval, left_ns: 210.4, right_ns: 215.0 };
        let row = |found| Row { name: "a / b".to_owned(), depth: 16, wanted: Some(0.9), found };
        let text = table(&[row(Ok(found)), row(Err("skipped: no redis | here".to_owned()))]);
        let measured = "| a / b | 16 | 210 ns | 215 ns | 0.980 [0.960 1.010] | >= 0.90 | met |";
        assert!(text.contains(measured), "{text}");
        assert!(text.contains("| — | — | skipped: no redis   here | >= 0.90 |  |"), "{text}");
    }

    #[test]
    fn a_machine_has_a_name_that_fits_a_path() {
        let manifest = Manifest::read().unwrap();
        let slug = manifest.slug();
        assert!(slug.chars().all(|c| c.is_alphanumeric() || c == '-'), "{slug}");
        assert_eq!(manifest.date.len(), "2000-01-01".len());
    }
}
