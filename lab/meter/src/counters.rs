//! The counters of a server, read on this machine or asked of the one that the server runs on.
//!
//! A generator reads them between its windows, while the server is drained. If the two are on
//! different machines, a [`CounterServer`] next to the server answers over TCP. Each machine uses
//! its own clock alone: CPU time is the server's, elapsed time the generator's.

use crate::{Memory, ProcError, TreeCost};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The longest request or answer, in bytes: a tree of 10,000 threads is below it.
const LINE_MAX: u64 = 4 << 20;
/// The time within which an answer arrives.
const PATIENCE: Duration = Duration::from_secs(10);

/// The counters of a process tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSample {
    /// CPU time and context switches.
    pub tree: TreeCost,
    /// The CPU time of all processes that ever ran in the control group (ns), if there is one.
    pub group_ns: Option<u64>,
    /// Memory, if it was asked for.
    pub memory: Option<Memory>,
}

/// The place where counters are read.
#[derive(Debug)]
pub enum CounterSource {
    /// This machine's `/proc`.
    Here,
    /// A [`CounterServer`].
    There(Mutex<BufReader<TcpStream>>, CounterPlace),
}

/// The address of a [`CounterServer`] and the token that it expects: `HOST:PORT/TOKEN`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{address}/{token}")]
pub struct CounterPlace {
    address: SocketAddr,
    token: String,
}

#[derive(Serialize, Deserialize)]
struct Request {
    token: String,
    /// The root of the process tree; `None` asks for an empty answer.
    pid: Option<u32>,
    group: Option<PathBuf>,
    memory: bool,
}

type Answer = Result<CounterSample, String>;

impl std::str::FromStr for CounterPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<CounterPlace, String> {
        let parts = text.split_once('/').and_then(|(at, token)| Some((at.parse().ok()?, token)));
        let (address, token) = parts.ok_or_else(|| {
            format!("expected ADDRESS:PORT/TOKEN of a counter server, found `{text}`")
        })?;
        Ok(CounterPlace { address, token: token.to_string() })
    }
}

impl CounterSource {
    /// CounterSource of this machine, or of another one.
    ///
    /// # Errors
    /// The other machine's counter server cannot be reached.
    pub fn open(place: Option<&CounterPlace>) -> Result<CounterSource, ProcError> {
        let Some(place) = place else { return Ok(CounterSource::Here) };
        let connected = TcpStream::connect_timeout(&place.address, PATIENCE).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = connected.map_err(|why| place.fault(&why.to_string()))?;
        Ok(CounterSource::There(Mutex::new(BufReader::new(stream)), place.clone()))
    }

    /// Reads the tree below `pid`, its control group in the folder `group`, and perhaps its memory.
    ///
    /// # Errors
    /// See [`TreeCost::read`]; the other machine may fail to answer.
    pub fn read(
        &self,
        pid: u32,
        group: Option<&Path>,
        memory: bool,
    ) -> Result<CounterSample, ProcError> {
        match self {
            CounterSource::Here => {
                let tree = TreeCost::read(pid)?;
                let group_ns = group.and_then(group_ns);
                // Memory is read last, because reading it locks the server's memory map.
                let memory = memory.then(|| Memory::read(pid)).transpose()?;
                Ok(CounterSample { tree, group_ns, memory })
            }
            CounterSource::There(stream, place) => {
                let group = group.map(Path::to_path_buf);
                let token = place.token.clone();
                let request = Request { token, pid: Some(pid), group, memory };
                ask(stream, &request).map_err(|why| place.fault(&why))
            }
        }
    }
}

impl CounterPlace {
    /// The time of `count` empty requests, one after another: the floor of every exchange between
    /// the two machines.
    ///
    /// # Errors
    /// The counter server cannot be reached.
    pub fn round_trips(&self, count: usize) -> Result<Vec<Duration>, ProcError> {
        let CounterSource::There(stream, _) = CounterSource::open(Some(self))? else {
            return Ok(Vec::new());
        };
        let request = Request { token: self.token.clone(), pid: None, group: None, memory: false };
        let one = |_| {
            let begun = Instant::now();
            ask(&stream, &request).map_err(|why| self.fault(&why))?;
            Ok(begun.elapsed())
        };
        (0..count).map(one).collect()
    }

    fn fault(&self, why: &str) -> ProcError {
        ProcError::Unreadable {
            path: format!("the server's counters at {}", self.address),
            why: why.to_string(),
        }
    }
}

fn ask(stream: &Mutex<BufReader<TcpStream>>, request: &Request) -> Answer {
    let mut stream = stream.lock().map_err(|_| "another reader has failed")?;
    let mut line = serde_json::to_string(request).map_err(|why| why.to_string())?;
    line.push('\n');
    stream.get_mut().write_all(line.as_bytes()).map_err(|why| why.to_string())?;
    let mut answer = String::new();
    let read = stream.by_ref().take(LINE_MAX).read_line(&mut answer);
    match read.map_err(|why| why.to_string())? {
        0 => Err("expected an answer, found the end of the connection".to_string()),
        _ => serde_json::from_str::<Answer>(&answer).map_err(|why| why.to_string())?,
    }
}

/// Answers questions about the process trees of this machine, until the process ends.
#[derive(Debug)]
pub struct CounterServer {
    place: CounterPlace,
    peer: Arc<Mutex<Option<IpAddr>>>,
}

impl CounterServer {
    /// Listens at a free port of `host`. A random token keeps others out: each request has it.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn open(host: IpAddr) -> io::Result<CounterServer> {
        let listener = TcpListener::bind((host, 0))?;
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = CounterPlace { address: listener.local_addr()?, token: token.clone() };
        let peer = Arc::new(Mutex::new(None));
        let last = Arc::clone(&peer);
        thread::Builder::new().name("counters".to_string()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let token = token.clone();
                if let (Ok(from), Ok(mut last)) = (stream.peer_addr(), last.lock()) {
                    *last = Some(from.ip());
                }
                // A client whose connection fails has ended; the next one is served.
                let serve = move || drop(serve(stream, &token));
                drop(thread::Builder::new().name("counters".to_string()).spawn(serve));
            }
        })?;
        Ok(CounterServer { place, peer })
    }

    /// The address of the client that connected last.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.lock().ok().and_then(|last| *last)
    }

    /// Where it listens, for [`CounterSource::open`].
    pub fn place(&self) -> &CounterPlace {
        &self.place
    }
}

fn serve(stream: TcpStream, token: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let request = match serde_json::from_str::<Request>(&line) {
            Ok(request) if request.token == token => request,
            _ => return Ok(()),
        };
        let answer: Answer = match request.pid {
            None => Ok(CounterSample::default()),
            Some(pid) => CounterSource::Here
                .read(pid, request.group.as_deref(), request.memory)
                .map_err(|why| why.to_string()),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        lines.get_mut().write_all(text.as_bytes())?;
    }
}

/// The CPU time of all processes that ever ran in the control group with this folder (ns):
/// `cpu.stat` of version 2, `cpuacct.usage` of version 1 (cgroups(7)). Unlike `/proc` it keeps the
/// exact time of threads and processes that have ended.
fn group_ns(folder: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    if let Some(text) = read("cpuacct.usage") {
        return text.trim().parse().ok();
    }
    let text = read("cpu.stat")?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    usage.trim().parse::<u64>().ok().map(|us| us * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_the_same_over_tcp() {
        let server = CounterServer::open(IpAddr::from([127, 0, 0, 1])).expect("a free port");
        let place: CounterPlace = server.place().to_string().parse().expect("as it was written");
        assert_eq!(&place, server.place());
        let there = CounterSource::open(Some(&place)).expect("it listens");
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let read = |counters: &CounterSource| counters.read(child.id(), None, true);
        let (near, far) =
            (read(&CounterSource::Here).expect("it runs"), read(&there).expect("it runs"));
        assert_eq!(near.tree.pids().collect::<Vec<_>>(), far.tree.pids().collect::<Vec<_>>());
        assert!(far.memory.is_some_and(|memory| memory.processes == 1));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let gone = there.read(child.id(), None, false).expect_err("it has ended").to_string();
        assert!(gone.contains("has the server ended"), "{gone}");
        assert_eq!(place.round_trips(3).expect("it answers").len(), 3);
    }

    #[test]
    fn a_client_without_the_token_gets_no_answer() {
        let server = CounterServer::open(IpAddr::from([127, 0, 0, 1])).expect("a free port");
        let place = CounterPlace { token: "guessed".to_string(), ..server.place().clone() };
        let refused = CounterSource::open(Some(&place))
            .and_then(|there| there.read(std::process::id(), None, false))
            .expect_err("the token is wrong");
        assert!(refused.to_string().contains("end of the connection"), "{refused}");
        assert!("1.2.3.4/x".parse::<CounterPlace>().is_err());
    }
}
