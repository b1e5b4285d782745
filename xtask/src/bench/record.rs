//! The place and the machine of a bench run, and its files in `runs/`.

use anyhow::Context;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Above this number of processes that want to run, a run is worth a doubt before it begins.
const LOAD_MAX: f64 = 0.5;

/// Whether others are busy here, as a doubt.
pub(super) fn busy() -> Option<String> {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy = average.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (busy > LOAD_MAX)
        .then(|| format!("the machine was busy before the run (load average {busy:.2})"))
}

/// The files `NAME.md` and `NAME.jsonl` of a bench, each after the manifest.
pub(super) struct Record {
    manifest: Manifest,
    name: String,
    title: String,
}

impl Record {
    /// A record of the tree as it is now, before the first file is written.
    ///
    /// # Errors
    /// If the commit or the date is unknown.
    pub(super) fn new(name: &str, title: &str) -> anyhow::Result<Self> {
        let manifest = Manifest::read()?;
        Ok(Self { manifest, name: name.to_owned(), title: title.to_owned() })
    }

    /// The folder of the files.
    pub(super) fn folder(&self) -> PathBuf {
        self.manifest.folder()
    }

    /// Writes the result, over an earlier one.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn write(
        &self,
        text: &str,
        rows: &[Value],
        doubts: &[String],
    ) -> anyhow::Result<()> {
        let Self { manifest, name, title } = self;
        let dir = self.folder();
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let mut lines = manifest.line(name, doubts);
        lines.extend(rows.iter().map(|row| format!("{row}\n")));
        let head = format!(
            "# {title}\n\nMachine: {}, {} CPUs, {}. Commit {}. {}.\n\n",
            manifest.cpu, manifest.cpus, manifest.kernel, manifest.commit, manifest.date
        );
        for (kind, text) in [("md", head + text), ("jsonl", lines)] {
            let path = dir.join(format!("{name}.{kind}"));
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The place and the machine of a run.
pub(super) struct Manifest {
    date: String,
    pub(super) commit: String,
    kernel: String,
    cpu: String,
    cpus: usize,
}

impl Manifest {
    pub(super) fn read() -> anyhow::Result<Self> {
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

    /// The folder of this day and machine in `runs/`.
    pub(super) fn folder(&self) -> PathBuf {
        crate::root().join("runs").join(format!("{}-{}", self.date, self.slug()))
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
    use super::*;

    #[test]
    fn a_machine_has_a_name_that_fits_a_path() {
        let manifest = Manifest::read().unwrap();
        let slug = manifest.slug();
        assert!(slug.chars().all(|c| c.is_alphanumeric() || c == '-'), "{slug}");
        assert_eq!(manifest.date.len(), "2000-01-01".len());
    }
}
