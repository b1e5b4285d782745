//! A generator on another machine.
//!
//! The servers, their counters and this laboratory are on one machine, the generator on the other.
//! It is started once for each measurement by a command such as `ssh HOST roundhouse far`, gets its
//! `Task` as a line of JSON on its standard input, and ends when that input ends. Clocks of the
//! two machines are never compared: times and rates are the generator's, CPU time the server's.

use crate::server::Process;
use meter::counters::{CounterPlace, CounterServer};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{fs, thread};

/// Empty exchanges by which the floor between the machines is measured.
const ROUND_TRIPS: usize = 300;
/// The time limit for the first contact, an ssh login among it.
const HELLO: Duration = Duration::from_secs(30);

/// A generator on another machine.
pub struct Far {
    /// The command that reaches it.
    command: Vec<String>,
    /// The address of this machine at which the servers have to listen, so that the other one
    /// reaches them.
    pub host: IpAddr,
    counters: CounterServer,
    /// Its network, if that is a separate one on this machine.
    pub nest: Option<File>,
    /// A login, perhaps, without which the command fails.
    _link: KeepAlive,
    /// The facts of the network between the two.
    pub network: Network,
}

/// Whatever keeps a command to another machine working.
pub type KeepAlive = Box<dyn Any + Send + Sync>;

/// The network between servers and generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The address at which the servers listen.
    pub address: String,
    /// The interface through which they answer; `?` if the routing table does not tell.
    pub interface: String,
    /// The generator's machine.
    pub generator: meter::Machine,
    /// The median of empty exchanges over TCP (ns): no request can be answered sooner.
    pub floor_p50_ns: u64,
    /// 99 % of them are shorter (ns).
    pub floor_p99_ns: u64,
    /// The generator is on this machine, in a separate network, joined by a pair of veth devices.
    #[serde(default)]
    pub is_cable: bool,
}

impl Network {
    /// The network as a sentence.
    pub fn words(&self) -> String {
        let Network { address, interface, generator, floor_p50_ns, floor_p99_ns, .. } = self;
        let (half, rest) =
            (stats::words::time(*floor_p50_ns as f64), stats::words::time(*floor_p99_ns as f64));
        if self.is_cable {
            return format!(
                "the generator is in a separate network on this machine, joined by a pair of veth \
                 devices; the servers listen at {address} ({interface}); an empty exchange over \
                 TCP takes {half}, 1 % of them {rest} or more"
            );
        }
        format!(
            "the generator has a machine of its own ({}, {} cores, {}); the servers listen at \
             {address} ({interface}); an empty exchange over TCP takes {}, 1 % of them {} or more",
            generator.cpu, generator.cores, generator.kernel, half, rest
        )
    }
}

/// The work of the other machine.
#[derive(Serialize, Deserialize)]
enum Task {
    Floor(String),
    /// Run these words; `{exe}` stands for the program there, `{turns}` for a file with the text.
    Run {
        words: Vec<String>,
        turns: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Floor {
    machine: meter::Machine,
    ns: Vec<u64>,
}

impl Far {
    /// Reaches the generator by `command` and measures the floor. The servers will listen at
    /// `host`, an address of this machine; `room` is a directory for files.
    ///
    /// # Errors
    /// The command fails, or the other machine cannot connect to `host`.
    pub fn reach(
        command: Vec<String>,
        link: KeepAlive,
        host: IpAddr,
        room: &Path,
    ) -> Result<Far, String> {
        let counters = CounterServer::open(host)
            .map_err(|why| format!("expected an address of this machine, found {host}: {why}"))?;
        let network = Network::default();
        let mut far = Far { command, host, counters, nest: None, _link: link, network };
        let task = Task::Floor(far.counters.place().to_string());
        let mut process = far.start(&task, room, "floor")?;
        let _ = process.ended_within(HELLO);
        let output = process.output();
        let Floor { machine, mut ns } = serde_json::from_str(output.trim()).map_err(|_| {
            format!("the generator's machine does not answer: {}", process.complaint())
        })?;
        ns.sort_unstable();
        let at = |share: usize| ns.get(ns.len() * share / 100).copied().unwrap_or_default();
        far.network = Network {
            address: host.to_string(),
            interface: far.counters.peer().and_then(interface).unwrap_or_else(|| "?".to_string()),
            generator: machine,
            floor_p50_ns: at(50),
            floor_p99_ns: at(99),
            is_cable: false,
        };
        Ok(far)
    }

    /// The flags by which a generator asks for counters.
    pub(crate) fn flags(&self) -> [String; 2] {
        ["--watch-at".to_string(), self.counters.place().to_string()]
    }

    /// Starts clients with the words of local ones, `PROGRAM load …` or `PROGRAM multiclient …`.
    /// The processor of a generator is chosen there, and the file of turns goes along.
    ///
    /// # Errors
    /// A file that goes along cannot be read, or the command to the other machine not be started.
    pub fn generate(&self, words: &[String], dir: &Path, name: &str) -> Result<Process, String> {
        let (mut there, mut turns) = (vec!["{exe}".to_string()], String::new());
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--cpu" => _ = words.next(),
                "--turns" => {
                    let file = words.next().ok_or("expected a file after --turns")?;
                    turns = fs::read_to_string(file)
                        .map_err(|why| format!("cannot read {file}: {why}"))?;
                    there.extend(["--turns".to_string(), "{turns}".to_string()]);
                }
                _ => there.push(word.clone()),
            }
        }
        self.start(&Task::Run { words: there, turns }, dir, name)
    }

    fn start(&self, task: &Task, dir: &Path, name: &str) -> Result<Process, String> {
        let line = serde_json::to_string(task).map_err(|why| why.to_string())?;
        Process::start_with(&self.command, Some(line + "\n"), dir, name, |_| ())
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Far").field(&self.network).finish()
    }
}

/// Does one task of a laboratory, whose line is read from standard input, with `exe` as the
/// generator. When standard input ends, so does the generator.
///
/// # Errors
/// The task cannot be read, or its counters not be reached.
pub fn serve(exe: &Path) -> anyhow::Result<ExitCode> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let (words, turns) = match serde_json::from_str(&line)? {
        Task::Floor(place) => {
            let place: CounterPlace = place.parse().map_err(anyhow::Error::msg)?;
            let ns = place.round_trips(ROUND_TRIPS)?;
            let ns = ns.iter().map(|it| it.as_nanos() as u64).collect();
            let machine = meter::Machine::identify()?;
            println!("{}", serde_json::to_string(&Floor { machine, ns })?);
            return Ok(ExitCode::SUCCESS);
        }
        Task::Run { words, turns } => (words, turns),
    };
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(turns.as_bytes())?;
    let (path, exe) = (file.path().display().to_string(), exe.display().to_string());
    let filled = words.iter().map(|word| word.replace("{turns}", &path).replace("{exe}", &exe));
    let filled: Vec<String> = filled.collect();
    let [program, args @ ..] = &filled[..] else {
        anyhow::bail!("expected a command from the laboratory, found none");
    };
    let mut command = Command::new(program);
    command.args(args);
    let is_generator = args.first().is_some_and(|word| word == "load");
    if let Some(placement) = crate::machine::Placement::choose().filter(|_| is_generator) {
        command.args(["--cpu", &placement.second.to_string()]);
    }
    sys::process::end_with_parent(&mut command, sys::signal::Signal::TERM);
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    thread::Builder::new().spawn(move || {
        // A laboratory that ends, or whose connection breaks, needs the generator no more.
        _ = io::stdin().lock().read_to_end(&mut Vec::new());
        if let Some(pid) = pid {
            _ = kill_process(pid, Signal::TERM);
        }
    })?;
    let status = child.wait()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// The interface of the route to `peer`, from the kernel's table (proc_net_route: addresses and
/// masks are little-endian hexadecimal numbers). An address of this machine is reached by `lo`.
fn interface(peer: IpAddr) -> Option<String> {
    let IpAddr::V4(peer) = peer else { return None };
    route(&fs::read_to_string("/proc/net/route").ok()?, peer)
}

fn route(table: &str, peer: Ipv4Addr) -> Option<String> {
    if peer.is_loopback() {
        return Some("lo".to_string());
    }
    let peer = u32::from_le_bytes(peer.octets());
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let rows = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, to, _, _, _, _, _, mask, ..] = words[..] else { return None };
        let (to, mask) = (number(to)?, number(mask)?);
        (peer & mask == to).then(|| (mask.count_ones(), name.to_string()))
    });
    rows.max().map(|(_, name)| name)
}

/// The file of this program on another machine, from its home directory: a program is found again
/// by its hash.
pub fn installed(hash: &str) -> PathBuf {
    [".cache", "roundhouse", hash, "roundhouse"].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_names_the_interface() {
        let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            eth0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0\n\
            veth1 0000400A 00000000 0001 0 0 0 0000FFFF 0 0 0\n";
        let check = |peer: [u8; 4], want: &str| {
            assert_eq!(route(table, peer.into()).as_deref(), Some(want));
        };
        check([10, 64, 3, 4], "veth1");
        check([8, 8, 8, 8], "eth0");
        check([127, 0, 0, 1], "lo");
        assert_eq!(route("", [8, 8, 8, 8].into()), None);
    }
}
