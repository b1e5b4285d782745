//! The servers of media: ours, GStreamer's, and one ffmpeg for each client.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// GStreamer's server for one file, a pipeline for each client or one for all.
const GSTREAMER: &str = include_str!("gst_server.py");
/// The first port; each server has one of its own, even and not its predecessor's, which may still
/// be closing.
const PORT: u16 = 15_804;
static STARTED: AtomicU16 = AtomicU16::new(0);
/// The time limit for a server's start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Gstreamer,
    Ffmpeg,
    /// One live source for all clients.
    OursLive,
    GstreamerLive,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Gstreamer => "GStreamer",
            Kind::Ffmpeg => "ffmpeg a client",
            Kind::OursLive => "ours, live",
            Kind::GstreamerLive => "GStreamer, shared",
        }
    }

    /// Whether all clients receive one source's current output.
    pub fn is_live(self) -> bool {
        matches!(self, Kind::OursLive | Kind::GstreamerLive)
    }
}

/// A network namespace for server and receivers, where it can be created (root). There the loopback
/// device can drop everything, so that only the server's own work remains.
pub struct Net {
    name: Option<String>,
}

impl Net {
    pub fn make() -> Net {
        let name = format!("rhm{}", std::process::id());
        let up = ["netns", "exec", &name, "ip", "link", "set", "lo", "up"];
        let is_made = ip(&["netns", "add", &name]) && ip(&up);
        Net { name: is_made.then_some(name) }
    }

    /// A program in it on a core.
    pub fn on_core(&self, roundhouse: &Path, core: u32, program: &Path) -> Command {
        let pin =
            [roundhouse.as_os_str(), "pin".as_ref(), core.to_string().as_ref(), "--".as_ref()]
                .map(std::ffi::OsStr::to_owned);
        let mut command = match &self.name {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).args(pin);
                command
            }
            None => {
                let mut command = Command::new(&pin[0]);
                command.args(&pin[1..]);
                command
            }
        };
        command.arg(program);
        command
    }

    /// Makes the device drop all packets after its queue.
    ///
    /// # Errors
    /// If there is no network namespace.
    pub fn free(&self) -> anyhow::Result<()> {
        let name = self.name.as_ref().context("to free packets needs root and `ip netns`")?;
        let queue = ["tc", "qdisc", "add", "dev", "lo", "root", "pfifo", "limit", "0"];
        let words: Vec<&str> = ["netns", "exec", name].into_iter().chain(queue).collect();
        ensure!(ip(&words), "a queue of length 0 could not be set up");
        Ok(())
    }

    /// Packets arrive again.
    pub fn deliver(&self) {
        if let Some(name) = &self.name {
            // Without a queue there is nothing to delete.
            ip(&["netns", "exec", name, "tc", "qdisc", "del", "dev", "lo", "root"]);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            ip(&["netns", "del", name]);
        }
    }
}

/// Whether ip(8) succeeded.
fn ip(words: &[&str]) -> bool {
    let ran = Command::new("ip").args(words).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// A server that runs, until this is dropped.
pub struct Server {
    children: Vec<Child>,
    /// The writer of the live source, on the receivers' core; no part of the server.
    source: Option<Child>,
    pub url: String,
}

/// The film: half a minute of constant 3 Mbit/s, encoded once.
///
/// # Errors
/// If ffmpeg is missing or fails.
pub fn film(room: &Path) -> anyhow::Result<PathBuf> {
    let film = room.join("film.ts");
    if film.is_file() {
        return Ok(film);
    }
    let rough = room.join("rough.ts");
    let words = "-loglevel error -y -f lavfi -i testsrc2=size=640x360:rate=25 -t 30 -c:v libx264 \
                 -preset ultrafast -b:v 2600k -maxrate 2600k -bufsize 600k -g 25 \
                 -muxrate 3000k -f mpegts";
    let ended = Command::new("ffmpeg").args(words.split_whitespace()).arg(&rough).status();
    ensure!(ended.context("start ffmpeg (apt install ffmpeg)")?.success(), "ffmpeg made no film");
    // The rename is atomic, so a partial file is never mistaken for the film.
    std::fs::rename(&rough, &film)?;
    Ok(film)
}

impl Server {
    /// Starts one on core 0 and waits until it accepts requests.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(
        kind: Kind,
        net: &Net,
        [roundhouse, film, room]: [&Path; 3],
        sessions: u32,
    ) -> anyhow::Result<Server> {
        let number = PORT + STARTED.fetch_add(1, Ordering::Relaxed) % 1000 * 4;
        let mut server = Server { children: Vec::new(), source: None, url: String::new() };
        let quiet = |command: &mut Command| -> anyhow::Result<Child> {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Ok(command.spawn()?)
        };
        let on_core = |program: &Path| net.on_core(roundhouse, 0, program);
        let port = number.to_string();
        let pipe = room.join("live.ts");
        if kind.is_live() {
            server.source = Some(quiet(&mut source(roundhouse, film, &pipe)?)?);
        }
        match kind {
            Kind::Ours | Kind::OursLive => {
                let mut command = on_core(roundhouse);
                command.args(["serve", "media", "--port", &port, "--admin", "none"]);
                command.args(["--per-address", "10000"]);
                match kind {
                    Kind::Ours => command.arg("--loop").arg(film),
                    _ => command.arg("--source").arg(format!("film.ts={}", pipe.display())),
                };
                server.children.push(quiet(&mut command)?);
                server.url = format!("rtsp://127.0.0.1:{number}/film.ts");
            }
            Kind::Gstreamer | Kind::GstreamerLive => {
                let script = room.join("gst_server.py");
                std::fs::write(&script, GSTREAMER)?;
                // The distribution's Python, which has its bindings.
                let mut command = on_core(Path::new("/usr/bin/python3"));
                command.arg(script).arg(&port);
                match kind {
                    Kind::Gstreamer => command.arg(film),
                    _ => command.arg(&pipe).arg("shared"),
                };
                server.children.push(quiet(&mut command)?);
                server.url = format!("rtsp://127.0.0.1:{number}/film");
            }
            Kind::Ffmpeg => {
                for _ in 0..sessions {
                    let mut command = on_core(Path::new("ffmpeg"));
                    command.args(["-loglevel", "quiet", "-re", "-stream_loop", "-1", "-i"]);
                    command.arg(film).args(["-c", "copy", "-f", "rtp_mpegts"]);
                    command.arg(format!("rtp://127.0.0.1:{number}?pkt_size=1328"));
                    server.children.push(quiet(&mut command)?);
                }
                server.url = format!("rtp://127.0.0.1:{number}");
                // Their initialisation takes some tenths of a second of the core each.
                std::thread::sleep(
                    Duration::from_millis(500) + Duration::from_millis(250) * sessions,
                );
                return Ok(server);
            }
        }
        server.wait(kind, number)?;
        Ok(server)
    }

    /// Until the port is open, in whichever network the server is.
    fn wait(&mut self, kind: Kind, port: u16) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_listening(self.children[0].id(), port) {
            if let Some(status) = self.children[0].try_wait()? {
                bail!("{} ended with {status}: is it installed?", kind.name());
            }
            ensure!(Instant::now() < end, "{} did not open its port", kind.name());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// CPU of all its processes for each second of the next `time`.
    ///
    /// # Errors
    /// If one of them ends.
    pub fn share(&self, time: Duration) -> anyhow::Result<f64> {
        let (before, from) = (self.cpu()?, Instant::now());
        std::thread::sleep(time);
        let (after, took) = (self.cpu()?, from.elapsed());
        Ok(after.saturating_sub(before).as_secs_f64() / took.as_secs_f64())
    }

    /// CPU time of all its processes with their children, exact (`/proc/PID/task/TID/schedstat`).
    /// It excludes ended threads.
    ///
    /// # Errors
    /// If one of them has ended.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let parents = parents();
        let mut ns = 0;
        for child in &self.children {
            let mut tree = vec![child.id()];
            while let Some(process) = tree.pop() {
                ns += process_ns(process).with_context(|| format!("process {process} ended"))?;
                tree.extend(parents.get(&process).into_iter().flatten());
            }
        }
        Ok(Duration::from_nanos(ns))
    }
}

/// A live source: writes the film into a named pipe at its own pace, over and over.
fn source(roundhouse: &Path, film: &Path, pipe: &Path) -> anyhow::Result<Command> {
    // One of an earlier server has a writer of its own.
    let _ = std::fs::remove_file(pipe);
    let made = Command::new("mkfifo").arg(pipe).status().context("start mkfifo")?;
    ensure!(made.success(), "no named pipe at {}", pipe.display());
    let mut command = Command::new(roundhouse);
    command.args(["pin", "1", "--", "ffmpeg", "-loglevel", "quiet", "-y", "-re"]);
    command.args(["-stream_loop", "-1", "-i"]).arg(film);
    command.args(["-c", "copy", "-muxrate", "3000k", "-f", "mpegts"]).arg(pipe);
    Ok(command)
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut source = self.source.take();
        if let Some(source) = &mut source {
            // The source may have ended with its reader.
            let _ = source.kill();
            let _ = source.wait();
        }
        for child in &self.children {
            // SIGTERM first: a server of several processes takes its children with it.
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        }
        let end = Instant::now() + Duration::from_secs(3);
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a program listens at `port` in the network of `process` (proc_pid_net(5)).
fn is_listening(process: u32, port: u16) -> bool {
    let listens = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{name}"));
        let ends = format!(":{port:04X}");
        text.unwrap_or_default().lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, state) = (words.next(), words.nth(1));
            local.is_some_and(|it| it.ends_with(&ends)) && state == Some("0A")
        })
    };
    listens("tcp") || listens("tcp6")
}

/// The children of every process.
fn parents() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|it| it.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

fn process_ns(process: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(tasks.filter_map(of).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_open_when_somebody_listens_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let reads = |wanted| {
            // The kernel's list may miss a line while other sockets come and go, and a child that
            // another test starts holds a copy of the listener until it runs its program.
            let end = Instant::now() + Duration::from_secs(10);
            while is_listening(std::process::id(), port) != wanted && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            is_listening(std::process::id(), port) == wanted
        };
        assert!(reads(true));
        drop(listener);
        assert!(reads(false));
    }

    #[test]
    fn our_own_processes_are_found_and_charged() {
        let mine = std::process::id();
        assert!(process_ns(mine).is_some_and(|ns| ns > 0));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = parents().get(&mine).is_some_and(|all| all.contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert_eq!(process_ns(u32::MAX), None);
    }
}
