//! The servers of media: ours, GStreamer's, and one ffmpeg for each client.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// GStreamer's server for one file, a pipeline for each client; it prints its port.
const GSTREAMER: &str = include_str!("gst_server.py");
/// The first port; each server has one of its own, even and not its predecessor's, which may still
/// be closing.
const PORT: u16 = 15_804;
static STARTED: AtomicU16 = AtomicU16::new(0);
/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Gstreamer,
    Ffmpeg,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Gstreamer => "GStreamer",
            Kind::Ffmpeg => "ffmpeg a client",
        }
    }
}

/// A server that runs, until this is dropped.
pub struct Server {
    children: Vec<Child>,
    pub url: String,
}

/// The film: half a minute of constant 3 Mbit/s, made once.
///
/// # Errors
/// If there is no ffmpeg, or it cannot make it.
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
    // Whole or not at all: what was broken off must not be taken for it.
    std::fs::rename(&rough, &film)?;
    Ok(film)
}

impl Server {
    /// Starts one on core 0 and waits until it can be asked.
    ///
    /// # Errors
    /// If it is not installed or does not come up.
    pub fn start(
        kind: Kind,
        roundhouse: &Path,
        film: &Path,
        room: &Path,
        sessions: u32,
    ) -> anyhow::Result<Server> {
        let number = PORT + STARTED.fetch_add(1, Ordering::Relaxed) % 1000 * 4;
        let mut server = Server { children: Vec::new(), url: String::new() };
        let quiet = |command: &mut Command| -> anyhow::Result<Child> {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Ok(command.spawn()?)
        };
        let on_core = |program: &Path| {
            let mut command = Command::new(roundhouse);
            command.args(["pin", "0", "--"]).arg(program);
            command
        };
        let port = number.to_string();
        match kind {
            Kind::Ours => {
                let mut command = on_core(roundhouse);
                command.args(["serve", "media", "--port", &port, "--loop", "--admin", "none"]);
                command.args(["--per-address", "10000"]).arg(film);
                server.children.push(quiet(&mut command)?);
                server.url = format!("rtsp://127.0.0.1:{number}/film.ts");
            }
            Kind::Gstreamer => {
                let script = room.join("gst_server.py");
                std::fs::write(&script, GSTREAMER)?;
                // The distribution's Python, which has its bindings.
                let mut command = on_core(Path::new("/usr/bin/python3"));
                command.arg(script).arg(&port).arg(film);
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
                // What they begin with takes some tenths of a second of the core each.
                std::thread::sleep(
                    Duration::from_millis(500) + Duration::from_millis(250) * sessions,
                );
                return Ok(server);
            }
        }
        server.wait(kind, number)?;
        Ok(server)
    }

    /// Until the port is open.
    fn wait(&mut self, kind: Kind, port: u16) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.children[0].try_wait()? {
                bail!("{} ended with {status}: is it installed?", kind.name());
            }
            ensure!(Instant::now() < end, "{} did not open its port", kind.name());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// CPU time of all its processes with their children, exact (`/proc/PID/task/TID/schedstat`);
    /// threads that have ended are not in it.
    ///
    /// # Errors
    /// If one of them has ended.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
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

impl Drop for Server {
    fn drop(&mut self) {
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
