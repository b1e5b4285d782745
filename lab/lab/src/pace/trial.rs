//! One trial: sets up the surroundings, runs a sending process in them, and removes them.
//!
//! The order matters: the device for the packets, the other processes, the cycle soak, and last the
//! sender, which is this program again (`senders rate`) on its own core with the wanted rank. The
//! sender prints one line of JSON, the `Reading`. Everything that was set up belongs to a value
//! whose drop removes it, so a trial that fails or is stopped leaves no process and no device
//! behind. The soak measures the whole core, the kernel's work included; a result below the
//! sender's own CPU time means that the soak was disturbed, and is discarded.

use super::company::{Company, Present};
use super::sink::{Device, Sink};
use super::soak::{Soak, cost_ns};
use super::{Reading, Work};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the core is idle before and after, while the soak measures its own speed.
const CALM: Duration = Duration::from_millis(300);
/// How long other processes run before the sender starts.
const SETTLE: Duration = Duration::from_millis(100);
/// How much longer than its schedule a trial may take, because overload slows everything.
const PATIENCE: Duration = Duration::from_secs(40);

/// The sender's scheduling rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// The usual rank.
    #[default]
    Usual,
    /// A nice value.
    Nice(i32),
    /// Real-time priority (SCHED_FIFO).
    RealTime(u32),
}

impl Rank {
    /// Its name in a table.
    pub fn words(self) -> String {
        match self {
            Rank::Usual => "nice 0".to_string(),
            Rank::Nice(value) => format!("nice {value}"),
            Rank::RealTime(priority) => format!("FIFO {priority}"),
        }
    }

    /// The command prefix that sets the rank.
    fn prefix(self) -> Vec<String> {
        match self {
            Rank::Usual => Vec::new(),
            Rank::Nice(value) => vec!["nice".into(), "-n".into(), value.to_string()],
            Rank::RealTime(priority) => vec!["chrt".into(), "-f".into(), priority.to_string()],
        }
    }
}

/// The argument of the sending process, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sending {
    /// The name of the sender.
    pub sender: String,
    /// The packets.
    pub work: Work,
    /// The sender's core and the receiver's.
    pub cores: Option<(usize, usize)>,
    /// Where to; `None`: to itself.
    pub to: Option<SocketAddr>,
}

/// The surroundings of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The sender's core and the receiver's; `None` leaves both to the kernel.
    pub cores: Option<(usize, usize)>,
    /// The packets' destination.
    pub sink: Sink,
    /// The sender's rank.
    pub rank: Rank,
    /// Other processes on the core.
    pub company: Company,
    /// Run the cycle soak.
    pub soak: bool,
}

/// One run of one sender.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The program that offers `senders` and `pin`.
    pub exe: &'a Path,
    /// The sender's name.
    pub sender: &'a str,
    /// The work.
    pub work: Work,
    /// The surroundings.
    pub around: Around,
}

impl Trial<'_> {
    /// Runs the trial; ends early when `stop` becomes true.
    ///
    /// # Errors
    /// The reason why it could not run.
    pub fn run(&self, stop: &AtomicBool) -> Result<Reading, String> {
        let Around { cores, sink, company, .. } = self.around;
        let device = Device::make(sink)?;
        let core = cores.map(|(sender, _)| sender);
        let present = Present::start(self.exe, company, core)?;
        if company != Company::default() {
            thread::sleep(SETTLE);
        }
        let soak = match core.filter(|_| self.around.soak) {
            Some(core) => {
                let soak = Soak::start(self.exe, core)?;
                thread::sleep(CALM);
                Some(soak)
            }
            None => None,
        };
        let mut child = self
            .command(device.as_ref())
            .spawn()
            .map_err(|why| format!("cannot start `{}`: {why}", self.exe.display()))?;
        let output = finish(&mut child, self.work.length() + PATIENCE, stop);
        drop(present);
        let output = output?;
        let mut reading: Reading = serde_json::from_str(&output)
            .map_err(|why| format!("{} did not report: {why}", self.sender))?;
        reading.sink = sink.words().to_string();
        if let Some(ticks) = soak.map(Soak::stop) {
            let before = ticks.first().map_or(0, |(at, _)| at + CALM.as_nanos() as u64 * 4 / 5);
            let span = [reading.began_ns, reading.ended_ns];
            let each = reading.each_ns();
            // The cost of a core cannot be below that of one of its processes; if it is, the soak
            // was disturbed.
            reading.soak_ns =
                cost_ns(&ticks, before, span, reading.sent).filter(|ns| *ns >= each * 0.9);
        }
        Ok(reading)
    }

    /// The sending process, with its rank.
    fn command(&self, device: Option<&Device>) -> Command {
        let mut words = self.around.rank.prefix();
        words.push(self.exe.display().to_string());
        let mut command = Command::new(&words[0]);
        let sending = Sending {
            sender: self.sender.to_string(),
            work: self.work,
            cores: self.around.cores,
            to: device.map(|device| device.to),
        };
        let sending = serde_json::to_string(&sending).expect("plain fields");
        command.args(&words[1..]).args(["senders", "rate", &sending]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A command on `core` that ends with this process; `pin` does both.
pub(super) fn pinned(exe: &Path, core: Option<usize>, program: &str) -> Command {
    match core {
        Some(core) => {
            let mut command = Command::new(exe);
            command.arg("pin").arg(core.to_string()).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Waits for the end of a child and returns its output.
fn finish(child: &mut Child, at_most: Duration, stop: &AtomicBool) -> Result<String, String> {
    let end = Instant::now() + at_most;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) => {
                // Its end is awaited below in any case.
                let _ = child.kill();
                let _ = child.wait();
                return Err("it was stopped".to_string());
            }
            Ok(None) if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("still running after {} s", at_most.as_secs()));
            }
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Err(why) => return Err(format!("cannot wait for it: {why}")),
        }
    };
    let mut said = [String::new(), String::new()];
    if let (Some(out), Some(err)) = (&mut child.stdout, &mut child.stderr) {
        let read = out.read_to_string(&mut said[0]).and_then(|_| err.read_to_string(&mut said[1]));
        read.map_err(|why| format!("cannot read what it printed: {why}"))?;
    }
    let [out, err] = said;
    match status.success() {
        true => Ok(out),
        false => Err(err.trim().rsplit('\n').next().unwrap_or_default().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(exe: &Path) -> Trial<'_> {
        let around = Around::default();
        let work = Work::audio(Duration::from_millis(60));
        Trial { exe, sender: "plain", work, around }
    }

    #[test]
    fn a_program_that_says_nothing_or_is_not_there_is_an_error_in_words() {
        let go = AtomicBool::new(false);
        let silent = trial(Path::new("/bin/true")).run(&go).expect_err("true prints nothing");
        assert!(silent.contains("plain did not report"), "{silent}");
        let absent = trial(Path::new("/nowhere")).run(&go).expect_err("there is none");
        assert!(absent.contains("cannot start `/nowhere`"), "{absent}");
    }

    #[test]
    fn who_is_stopped_does_not_wait_for_the_end() {
        let begun = Instant::now();
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let found = finish(&mut child, Duration::from_secs(60), &AtomicBool::new(true));
        assert_eq!(found, Err("it was stopped".to_string()));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_rank_is_said_and_put_in_front() {
        let around = Around { rank: Rank::RealTime(50), cores: Some((0, 1)), ..Around::default() };
        let exe = Path::new("/bin/true");
        let command = Trial { around, ..trial(exe) }.command(None);
        assert_eq!(command.get_program(), "chrt");
        let words: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
        assert_eq!(words[..5], ["-f", "50", "/bin/true", "senders", "rate"]);
        let sending: Sending = serde_json::from_str(&words[5]).expect("JSON");
        assert_eq!((&*sending.sender, sending.cores), ("plain", Some((0, 1))));
        assert_eq!(Rank::Nice(-10).words(), "nice -10");
    }
}
