//! The raw file: append-only JSON lines.
//!
//! A run is one manifest line followed by one line per trial, rejected attempts included. Each line
//! is written whole before the next trial starts, so an interrupted race leaves every trial that it
//! had finished. Several runs may share a file; [`read`] returns them in order.

mod older;

use crate::census::Census;
use crate::far::Network;
use crate::machine::{Host, Placement, date_now};
use crate::plan::{Arm, BLOCKS_MAX, Plan, fnv1a};
use crate::prices::Prices;
use crate::trial::Trial;
use anyhow::Context;
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// The schema of manifest lines.
pub const SCHEMA: &str = "roundhouse.race/1";

/// The data needed to judge or repeat a run; the first line of its record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `roundhouse.race/1`.
    pub schema: String,
    /// The start, UTC (RFC 3339).
    pub date: String,
    /// The program's version.
    pub version: String,
    /// The commit it was built from, if the program knows it.
    pub commit: Option<String>,
    /// FNV-1a over the program's file: two runs with the same value ran the same build.
    pub program: String,
    /// The command line that was given.
    pub command: String,
    /// The machine.
    pub host: Host,
    /// The roles of the cores; absent if nothing was pinned.
    pub placement: Option<Placement>,
    /// Fingerprint of the plan.
    pub plan_hash: String,
    /// The plan.
    pub plan: Plan,
    /// The programs of the arms, so that a repetition can tell whether they are the same.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// The network, if the generator was on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
}

/// The program of an arm at the time when the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the arm.
    pub arm: String,
    /// The file that its command starts, searched in `PATH`; empty if there is none.
    pub path: String,
    /// FNV-1a over it; empty if it cannot be read.
    pub hash: String,
    /// The first line of the output of `--version` (or its like), if any.
    #[serde(default)]
    pub version: String,
}

/// The capacity of an arm at a closed load point, measured before the first block; the rates of
/// open points derive from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Name of the arm.
    pub arm: String,
    /// Answered requests per second, one value per pilot trial.
    pub throughput_rps: Vec<f64>,
    /// Their median: the arm's capacity.
    pub capacity_rps: Option<f64>,
    /// The generator was the bottleneck; the true capacity is higher.
    #[serde(default)]
    pub generator_limited: bool,
}

/// One sitting of a race, which begins with a start or a resumption.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// From 0; trials name theirs in [`crate::observations::Observations::sitting`].
    pub number: u32,
    /// The start, UTC (RFC 3339).
    pub date: String,
    /// The fingerprint of the program that ran it.
    pub program: String,
}

impl Manifest {
    /// Describes a run of `plan` that begins now, by the program at `exe`.
    ///
    /// # Errors
    /// If `/proc` or the program's file cannot be read.
    pub fn describe(
        plan: &Plan,
        exe: &Path,
        version: &str,
        commit: Option<&str>,
        placement: Option<Placement>,
    ) -> anyhow::Result<Manifest> {
        let bytes = std::fs::read(exe).with_context(|| format!("cannot read {}", exe.display()))?;
        Ok(Manifest {
            schema: SCHEMA.to_string(),
            date: date_now(),
            version: version.to_string(),
            commit: commit.map(String::from),
            program: format!("{:016x}", fnv1a(&bytes)),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            host: Host::identify().context("cannot identify this machine")?,
            placement,
            plan_hash: plan.hash(),
            plan: plan.clone(),
            programs: plan.arms.iter().map(Program::of).collect(),
            network: None,
        })
    }
}

/// A run as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its first line.
    pub manifest: Manifest,
    /// All attempts, in order.
    pub trials: Vec<Trial>,
    /// The arms' capacities, measured beforehand; empty if no load point needs them.
    pub pilots: Vec<Pilot>,
    /// System calls, if they were counted.
    pub census: Vec<Census>,
    /// The prices of system calls and the like, if they were measured.
    pub prices: Option<Prices>,
    /// Sittings after the first.
    pub resumed: Vec<Sitting>,
    /// Whether it completed.
    pub finished: bool,
}

/// One line.
#[derive(Serialize, Deserialize, derive_more::From)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    /// The first one of a run.
    Manifest(Box<Manifest>),
    /// An attempt.
    Trial(Box<Trial>),
    /// An arm's capacity, as the pilot measured it.
    Pilot(Pilot),
    /// A count of system calls.
    Census(Census),
    /// The prices of system calls.
    Prices(Prices),
    /// The race goes on.
    Resumed(Sitting),
    /// The race completed.
    #[from(skip)]
    Finished {
        /// When it did, UTC (RFC 3339).
        date: String,
    },
}

impl Run {
    /// The number of blocks that were begun: a race may end before its plan's last one.
    pub fn blocks(&self) -> u32 {
        self.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0)
    }

    fn take(&mut self, row: Row) {
        match row {
            // Each manifest begins a separate run.
            Row::Manifest(_) => {}
            Row::Trial(trial) => self.trials.push(*trial),
            Row::Pilot(pilot) => self.pilots.push(pilot),
            Row::Census(census) => self.census.push(census),
            Row::Prices(prices) => self.prices = Some(prices),
            Row::Resumed(sitting) => self.resumed.push(sitting),
            Row::Finished { .. } => self.finished = true,
        }
    }
}

impl Program {
    /// Finds and reads the program that `arm` starts.
    pub fn of(arm: &Arm) -> Program {
        let path = arm.program();
        let bytes = path.as_ref().and_then(|path| std::fs::read(path).ok());
        Program {
            arm: arm.name.clone(),
            path: path.map(|path| path.display().to_string()).unwrap_or_default(),
            hash: bytes.map(|bytes| format!("{:016x}", fnv1a(&bytes))).unwrap_or_default(),
            version: String::new(),
        }
    }
}

/// Writes one run.
pub struct Recorder {
    file: File,
}

impl Recorder {
    /// Opens `path` for appending, creates it if necessary, and writes the manifest.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub fn begin(path: &Path, manifest: &Manifest) -> anyhow::Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot append to {}", path.display()))?;
        let mut recorder = Recorder { file };
        recorder.append(Box::new(manifest.clone()))?;
        Ok(recorder)
    }

    /// Continues the last run of `path`.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub fn resume(path: &Path, sitting: &Sitting) -> anyhow::Result<Recorder> {
        let failed = || format!("cannot append to {}", path.display());
        let text = sys::input::read(path, BYTES_MAX).with_context(failed)?;
        let file = OpenOptions::new().append(true).open(path).with_context(failed)?;
        // A last line that a crash cut off is no result.
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).with_context(failed)?;
        let mut recorder = Recorder { file };
        recorder.append(sitting.clone())?;
        Ok(recorder)
    }

    /// Appends a line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&mut self, row: impl Into<Row>) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&row.into())?;
        line.push(b'\n');
        self.file.write_all(&line).context("cannot append to the raw file")
    }
}

/// The longest line of a raw file, in bytes: a manifest with its files takes a few hundred kB.
const LINE_MAX: u64 = 16 << 20;
/// The longest raw file, unpacked: some hundred thousand trials of 3 kB.
const BYTES_MAX: u64 = 1 << 30;

/// Takes the control characters out of the texts of a line of JSON, apart from tabs and line ends:
/// the record of another machine must not steer this terminal.
fn disarm(line: &mut [u8]) {
    let mut at = 0;
    while at + 1 < line.len() {
        match (line[at], line[at + 1]) {
            (b'\\', b'u') => {
                let digits = line.get(at + 2..at + 6).and_then(|it| std::str::from_utf8(it).ok());
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let is_control = code.and_then(char::from_u32).is_some_and(char::is_control);
                if is_control && !matches!(code, Some(0x09 | 0x0a | 0x0d)) {
                    line[at + 2..at + 6].copy_from_slice(b"fffd");
                }
                at += 2;
            }
            (b'\\', b'b' | b'f') => {
                line[at + 1] = b't';
                at += 2;
            }
            (b'\\', _) => at += 2,
            (0x7f, _) => {
                line[at] = b'?';
                at += 1;
            }
            // U+0080 to U+009F.
            (0xc2, 0x80..=0x9f) => {
                line[at..at + 2].fill(b'?');
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// Reads all runs of a raw file; the ending `.gz` marks one that gzip(1) has packed.
///
/// # Errors
/// If the file cannot be read or is too large, or a line (given by its number) does not follow this
/// schema. A last line that a crash cut off is left out.
pub fn read(path: &Path) -> anyhow::Result<Vec<Run>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    language::debug!("reading {}", path.display());
    let packed = path.extension().is_some_and(|ending| ending == "gz");
    let text: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = BufReader::new(text.take(BYTES_MAX));
    let (mut runs, mut line): (Vec<Run>, Vec<u8>) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        let read = (&mut text).take(LINE_MAX).read_until(b'\n', &mut line);
        if read.with_context(|| format!("cannot read {}", path.display()))? == 0 {
            break;
        }
        let place = || format!("{}:{number}", path.display());
        disarm(&mut line);
        let is_whole = line.ends_with(b"\n");
        if !is_whole && (line.len() as u64 == LINE_MAX || text.get_ref().limit() == 0) {
            anyhow::bail!(
                "{}: expected lines of at most {LINE_MAX} bytes and {BYTES_MAX} in all, found more",
                place()
            );
        }
        let row: Row = match serde_json::from_slice(&line).and_then(older::converted) {
            Ok(Some(row)) => row,
            Ok(None) => continue,
            Err(why) if !is_whole && why.is_eof() => break,
            Err(why) => {
                anyhow::bail!("{}: expected a manifest or a trial of {SCHEMA}: {why}", place())
            }
        };
        if let Err(why) = bounded(&row) {
            anyhow::bail!("{}: {why}", place());
        }
        match row {
            Row::Manifest(manifest) => {
                runs.push(Run { manifest: *manifest, ..Run::default() });
            }
            row => match runs.last_mut() {
                Some(run) => run.take(row),
                None => anyhow::bail!("{}: a trial before any manifest", path.display()),
            },
        }
    }
    Ok(runs)
}

/// Refuses numbers that would make an analysis endless.
fn bounded(row: &Row) -> Result<(), String> {
    let check = |what: &str, found: u32, most: u32| match found <= most {
        true => Ok(()),
        false => Err(format!("expected {what} up to {most}, found {found}")),
    };
    match row {
        Row::Manifest(manifest) => check("blocks", manifest.plan.blocks, BLOCKS_MAX),
        Row::Trial(trial) => check("blocks, counted from 0,", trial.block, BLOCKS_MAX),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{manifest, trial};
    use tempfile::tempdir;

    #[test]
    fn a_foreign_record_cannot_steer_a_terminal() {
        let check = |line: &str, want: &str| {
            let mut bytes = line.as_bytes().to_vec();
            disarm(&mut bytes);
            assert_eq!(String::from_utf8(bytes).expect("text"), want);
        };
        check(
            r#""\u001b]0;x\u0007\u009b \\u001b\n\u000a""#,
            r#""\ufffd]0;x\ufffd\ufffd \\u001b\n\u000a""#,
        );
        check("\"\u{9b}31m \u{7f} \\b é\"", "\"??31m ? \\t é\"");
        check(r#""\u00""#, r#""\u00""#);
    }

    #[test]
    fn runs_are_appended_and_read_back() {
        let room = tempdir().expect("a temporary directory");
        let path = room.path().join("report.jsonl");
        for _ in 0..2 {
            let mut recorder = Recorder::begin(&path, &manifest()).expect("writable");
            recorder.append(Box::new(trial("epoll", 0, 10.0))).expect("writable");
            recorder.append(Box::new(trial("uring", 0, 12.0))).expect("writable");
        }
        let runs = read(&path).expect("what we wrote");
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0], runs[1]);
        assert_eq!(runs[0].manifest, manifest());
        assert_eq!(runs[0].trials[1], trial("uring", 0, 12.0));
        // A file for keeping is packed and read all the same.
        let file = File::create(room.path().join("kept.jsonl.gz")).expect("writable");
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        packed.write_all(&std::fs::read(&path).expect("written")).expect("writable");
        packed.finish().expect("writable");
        assert_eq!(read(&room.path().join("kept.jsonl.gz")).expect("what was packed"), runs);
        std::fs::copy(&path, room.path().join("not.jsonl.gz")).expect("writable");
        let found =
            format!("{:#}", read(&room.path().join("not.jsonl.gz")).expect_err("it is not gzip"));
        assert!(found.contains("cannot read") && found.contains("not.jsonl.gz"), "{found}");
    }

    #[test]
    fn numbers_and_files_without_measure_are_refused() {
        let room = tempdir().expect("a temporary directory");
        let path = room.path().join("report.jsonl");
        let check = |change: &dyn Fn(&mut Manifest, &mut Trial), want: &str| {
            let (mut manifest, mut trial) = (manifest(), trial("epoll", 0, 10.0));
            change(&mut manifest, &mut trial);
            let mut recorder = Recorder::begin(&path, &manifest).expect("writable");
            recorder.append(Box::new(trial)).expect("writable");
            let found = read(&path).expect_err("without measure").to_string();
            std::fs::remove_file(&path).expect("ours");
            assert!(found.contains(want), "{found}");
        };
        check(&|manifest, _| manifest.plan.blocks = 1 << 30, ":1: expected blocks up to 10000");
        check(&|_, trial| trial.block = 1_000_000, ":2: expected blocks");
        let file = File::create(room.path().join("bomb.jsonl.gz")).expect("writable");
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        let zeros = vec![0; 1 << 20];
        (0..=LINE_MAX >> 20).for_each(|_| packed.write_all(&zeros).expect("writable"));
        packed.finish().expect("writable");
        let found = read(&room.path().join("bomb.jsonl.gz")).expect_err("a bomb").to_string();
        assert!(found.contains("expected lines of at most"), "{found}");
    }

    #[test]
    fn a_line_cut_off_by_a_crash_loses_only_itself() {
        let room = tempdir().expect("a temporary directory");
        let path = room.path().join("report.jsonl");
        let mut recorder = Recorder::begin(&path, &manifest()).expect("writable");
        recorder.append(Box::new(trial("epoll", 0, 10.0))).expect("writable");
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, format!("{text}{{\"row\":\"trial\",\"or")).expect("writable");
        assert_eq!(read(&path).expect("all but the last line")[0].trials.len(), 1);
        std::fs::write(&path, format!("{{\"row\":\"x\"}}\n{text}")).expect("writable");
        let found = read(&path).expect_err("a strange line").to_string();
        assert!(found.contains("report.jsonl:1:"), "{found}");
    }
}
