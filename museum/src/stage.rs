//! The stage of an exhibit: real processes, a place for their files, and a listener for progress.
//!
//! The stage offers several kinds of measurement and knows nothing of any exhibit. It appends every
//! measurement to one file of JSON lines as it happens. After the visitor's request to stop, every
//! measurement returns [`Fault::Stopped`], and the exhibit ends with the results so far.

mod crowd;
mod pace;
mod quiet;
mod race;
mod tree;
mod web;

pub use crowd::{Crowd, Hold};
pub use web::{ClientRun, Clients, Up, Web, WebRun};

use crate::exhibit::Fault;
use crate::law::Scale;
use lab::far::Far;
use lab::machine::{Host, Placement, date_now};
use lab::plan::{Arm, Provision};
use lab::server::{LOCALHOST, Process, ProcessExit, Server};
use lab::service::Service;
use serde::Serialize;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The schema of the raw file's first line and of the JSON that the command prints.
pub const SCHEMA: &str = "roundhouse.museum/3";

/// The time limit for a server's start, and for its end. A pool of a thousand threads on a busy
/// machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval of the check whether a program has ended; coarse, because the check shares the
/// cores with the measurement.
const GLANCE: Duration = Duration::from_millis(10);
/// Each stock's initial shares: enough to refuse no order, so that all answers have the same
/// length.
const LEFT: u64 = 1_000_000_000;

/// The visitor's choices, and the program's data about itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program that offers `serve`, `load`, `multiclient` and `pin`.
    pub exe: PathBuf,
    /// Its version.
    pub version: String,
    /// The commit it was built from, if the program knows it.
    pub commit: Option<String>,
    /// The factor by which waits are shortened.
    pub scale: Scale,
    /// Sizes of the crowd in place of the published ones.
    pub clients: Option<Vec<u32>>,
    /// Blocks, rounds and fresh pairs in place of the usual ones.
    pub blocks: Option<u32>,
    /// Orders and requests come from it.
    pub seed: u32,
    /// The smallest sizes: enough to see that an exhibit works, too few for a claim. Exhibits that
    /// wait for clients go by the scale instead.
    pub quick: bool,
    /// The published sizes and lengths.
    pub full: bool,
    /// The clients' machine, if it is another.
    pub far: Option<Arc<Far>>,
}

impl Settings {
    /// Sizes of the crowd, in order.
    pub fn clients(&self, published: &[u32]) -> Vec<u32> {
        let mut all = self.clients.clone().unwrap_or_else(|| published.to_vec());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Blocks, rounds or fresh pairs.
    pub fn blocks(&self, usual: u32) -> u32 {
        self.blocks.unwrap_or(usual)
    }

    /// Blocks of a contest: as chosen, the fewest that have an interval if it has to be quick, or
    /// `usual`.
    pub fn rounds(&self, usual: u32) -> u32 {
        self.blocks(if self.quick { stats::VALUES_MIN as u32 } else { usual })
    }

    /// The amount of work: `usual`, or a `share`th of it in a quick run.
    pub fn amount(&self, usual: u64, share: u64) -> u64 {
        if self.quick { (usual / share.max(1)).max(1) } else { usual }
    }

    /// Length of a window that is usually `usual`: shortened with the waits, but not below 100 ms,
    /// which still covers some thousand requests.
    pub fn window(&self, usual: Duration) -> Duration {
        self.scale.of(usual).max(Duration::from_millis(100)).min(usual)
    }

    /// The command that repeats an exhibit.
    pub fn command(&self, name: &str) -> String {
        let mut words = format!("roundhouse museum {name}");
        let mut flag = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!(" --{name} {value}")));
        };
        let factor = self.scale.factor();
        flag("scale", (self.scale != Scale::WHOLE).then(|| factor.to_string()));
        let clients = self.clients.as_ref();
        let all = |all: &Vec<u32>| all.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        flag("clients", clients.map(all));
        flag("blocks", self.blocks.map(|it| it.to_string()));
        flag("seed", (self.seed != 1).then(|| self.seed.to_string()));
        words.push_str(if self.quick { " --quick" } else { "" });
        words.push_str(if self.full { " --full" } else { "" });
        words
    }

    #[cfg(test)]
    pub(crate) fn sample(factor: f64) -> Settings {
        Settings { scale: Scale::new(factor).expect("a scale"), ..Settings::default() }
    }
}

impl Default for Settings {
    /// The published sizes, and no program.
    fn default() -> Settings {
        Settings {
            exe: PathBuf::new(),
            version: "0".to_string(),
            commit: None,
            scale: Scale::WHOLE,
            clients: None,
            blocks: None,
            seed: 1,
            quick: false,
            full: false,
            far: None,
        }
    }
}

/// Follows the progress.
pub trait Listener {
    /// Something begins that may take long.
    fn begin(&mut self, what: &str);
    /// One of [`crate::Effort::steps`] is done, with this result.
    fn step(&mut self, result: &str);
}

pub struct Stage<'a> {
    settings: Settings,
    room: PathBuf,
    raw: File,
    stop: Arc<AtomicBool>,
    listener: &'a mut dyn Listener,
    host: Host,
    placement: Option<Placement>,
    date: String,
    doubts: Vec<String>,
    /// Servers started so far: each has a separate directory.
    servers: u32,
    /// The number of runs on a machine that was not quiet.
    pub(crate) quiet: quiet::Quiet,
    pub(crate) contests: crate::contest::Ran,
}

impl<'a> Stage<'a> {
    /// Prepares to run the exhibit `name`. Files go into `room`, which must be an empty directory
    /// that the caller removes. Measurements are appended to the file `raw`. When `stop` becomes
    /// true the running measurement ends and no other begins.
    ///
    /// # Errors
    /// If the raw file cannot be written or the machine cannot be identified.
    pub fn new(
        name: &str,
        settings: &Settings,
        room: &Path,
        raw: &Path,
        stop: Arc<AtomicBool>,
        listener: &'a mut dyn Listener,
    ) -> Result<Stage<'a>, Fault> {
        let unwritable = |why| Fault::File(format!("cannot append to {}: {why}", raw.display()));
        let host = Host::identify()
            .map_err(|why| Fault::File(format!("cannot identify this machine: {why}")))?;
        let Settings { scale, version, commit, seed, .. } = settings;
        let date = date_now();
        let head = json!({
            "row": "museum", "schema": SCHEMA, "exhibit": name, "version": version,
            "commit": commit, "scale": scale.factor(), "seed": seed, "clients": settings.clients,
            "blocks": settings.blocks, "quick": settings.quick, "full": settings.full,
            "host": host, "network": settings.far.as_ref().map(|far| &far.network), "date": date,
        });
        let file = OpenOptions::new().create(true).append(true).open(raw).map_err(unwritable)?;
        let mut stage = Stage {
            settings: settings.clone(),
            room: room.to_path_buf(),
            raw: file,
            stop,
            listener,
            host,
            placement: Placement::choose(),
            date,
            doubts: Vec::new(),
            servers: 0,
            quiet: quiet::Quiet::default(),
            contests: crate::contest::Ran::default(),
        };
        if stage.placement.is_none() {
            stage.doubt("Only one core may be used, so server and clients share it.");
        }
        if cfg!(debug_assertions) {
            stage.doubt(
                "This program was built without optimisation or with assertions, so the cost of a \
                 request here is not that of a release build.",
            );
        }
        stage.record(&head)?;
        Ok(stage)
    }

    /// The visitor's choices.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Goes on unless the visitor has asked to stop.
    ///
    /// # Errors
    /// [`Fault::Stopped`].
    pub fn goes_on(&self) -> Result<(), Fault> {
        if self.stopped() { Err(Fault::Stopped) } else { Ok(()) }
    }

    /// Whether the visitor has asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The stop flag, for exhibits that run their own threads.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Adds a reason for distrust; repeated ones are added once.
    pub fn doubt(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.doubts.contains(&text) {
            self.doubts.push(text);
        }
    }

    pub fn doubts(&self) -> Vec<String> {
        self.quiet.doubt().into_iter().chain(self.doubts.iter().cloned()).collect()
    }

    pub fn date(&self) -> &str {
        &self.date
    }

    /// The reason why the run supports no claim, if there is one.
    pub fn excuse(&self) -> Option<String> {
        let stopped = self.stopped().then(|| "It was stopped before its end.".to_string());
        let quick = self.settings.quick.then(|| "A quick run supports no claim.".to_string());
        stopped.or(quick).or_else(|| self.quiet.excuse())
    }

    /// The time, machine and program of the run.
    pub fn facts(&self) -> Vec<(String, String)> {
        let machine = &self.host.machine;
        let kind = if self.host.virtual_machine { "virtual machine" } else { "machine" };
        let commit = self.settings.commit.as_deref().unwrap_or("unknown");
        let mut facts = vec![
            ("Date".to_string(), self.date.clone()),
            ("Machine".to_string(), format!("{kind}, {} cores, {}", machine.cores, machine.cpu)),
            ("Kernel".to_string(), machine.kernel.clone()),
            ("Program".to_string(), format!("{}, commit {commit}", self.settings.version)),
        ];
        let far = self.settings.far.iter();
        facts.extend(far.map(|far| ("Network".to_string(), far.network.words())));
        facts.extend(self.quiet.fact());
        facts.extend(self.host.settings.iter().cloned());
        facts
    }

    /// An arm of ours: `roundhouse serve stock` on `engine` with these flags.
    pub fn arm(&self, name: &str, flags: &str) -> Arm {
        Service::Stock.ours(&self.settings.exe, name, flags)
    }

    /// The initial book of every server: the course's ten stocks, plenty of each.
    pub fn book(&self) -> Provision {
        let prices = [1_000, 20_000, 1_200, 5_000, 3_700, 1_300, 1_410, 1_700, 1_200, 1_010];
        let rows = prices.iter().zip(1..).map(|(price, id)| format!("{id} {LEFT} {price}\n"));
        Provision { name: "stock.txt".to_string(), text: rows.collect() }
    }

    /// A new directory for the files of a program.
    fn folder(&mut self, kind: &str) -> Result<PathBuf, Fault> {
        self.servers += 1;
        let dir = self.room.join(format!("{kind}-{}", self.servers));
        let cannot = |why| Fault::File(format!("cannot make {}: {why}", dir.display()));
        fs::create_dir_all(&dir).map_err(cannot)?;
        Ok(dir)
    }

    /// Waits for the end of clients, and calls `look` meanwhile.
    ///
    /// # Errors
    /// If they are still there after `limit`, or the visitor stopped the run.
    pub(crate) fn attend(
        &self,
        clients: &mut Process,
        limit: Duration,
        mut look: impl FnMut(&Process),
    ) -> Result<ProcessExit, Fault> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(ended) = clients.ended() {
                return Ok(ended);
            }
            self.goes_on()?;
            look(clients);
            sleep(GLANCE);
        }
        let limit = stats::words::span(limit);
        Err(Fault::Clients(format!("they were still there after {limit}")))
    }

    /// Starts a server of ours in its own directory and waits until it is ready.
    fn serve(&mut self, flags: &str) -> Result<Server, Fault> {
        let dir = self.folder("server")?;
        let arm = Arm { files: vec![self.book()], ..self.arm("server", flags) };
        let far = self.settings.far.as_ref();
        let host = far.map_or(LOCALHOST, |far| far.host);
        Server::boot((host, 0), &[], &arm, &dir, "server", PATIENCE).map_err(Fault::Server)
    }

    /// Starts clients by the words of a program of this machine, on the clients' machine.
    fn send(&self, words: &[String], dir: &Path) -> Result<Process, Fault> {
        let started = match &self.settings.far {
            Some(far) => far.generate(words, dir, "clients"),
            None => Process::start(words, dir, "clients"),
        };
        started.map_err(Fault::Clients)
    }

    /// Runs another command of this program, for whose words `{dir}` is a separate folder, and
    /// returns the text of the file that it leaves there, if it does.
    ///
    /// # Errors
    /// If the program does not start, or the visitor stopped the run.
    pub(crate) fn helper(
        &mut self,
        words: &[&str],
        limit: Duration,
        file: &str,
    ) -> Result<Option<String>, Fault> {
        let dir = self.folder("helper")?;
        let folder = dir.display().to_string();
        let words = words.iter().map(|word| word.replace("{dir}", &folder));
        let exe = self.settings.exe.display().to_string();
        let command: Vec<String> = [exe].into_iter().chain(words).collect();
        let mut program = Process::start(&command, &dir, "helper").map_err(Fault::Lab)?;
        // The file that it left before the limit is its answer.
        let _ = self.attend(&mut program, limit, |_| {});
        program.stop(PATIENCE);
        self.goes_on()?;
        Ok(fs::read_to_string(dir.join(file)).ok())
    }

    /// Reports that something begins that may take long.
    pub fn begin(&mut self, what: &str) -> Result<(), Fault> {
        self.goes_on()?;
        self.listener.begin(what);
        Ok(())
    }

    pub fn step(&mut self, result: &str) {
        self.listener.step(result);
    }

    /// Appends a line to the raw file.
    pub(crate) fn record(&mut self, row: &impl Serialize) -> Result<(), Fault> {
        let mut line = serde_json::to_string(row).expect("rows are strings and numbers");
        line.push('\n');
        let written = self.raw.write_all(line.as_bytes());
        written.map_err(|why| Fault::File(format!("cannot write the raw file: {why}")))
    }
}
