//! The life of the server: started on a port that stays its own, ended by a signal, started again.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::server::{LOCALHOST, Server};
use meter::TreeCost;
use rustix::process::{Pid, Signal, kill_process};

use crate::{CheckupOptions, Subject};

/// The variable by which processes of a check-up are found at its end.
const MARK: &str = "ROUNDHOUSE_CHECKUP";
/// The time of a graceful end in a trial, and at the end of the check-up.
const END: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(2);

pub(crate) struct Life {
    subject: Subject,
    options: CheckupOptions,
    server: Option<Server>,
    /// Where it listens.
    pub(crate) at: SocketAddr,
    /// The time from its last start to its readiness.
    pub(crate) boot: Duration,
    starts: u32,
}

impl Life {
    /// Starts the server, or finds the one that runs.
    pub(crate) fn begin(subject: &Subject, options: &CheckupOptions) -> Result<Life, String> {
        let at = subject.address.unwrap_or((LOCALHOST, 0).into());
        let (subject, options) = (subject.clone(), options.clone());
        let mut life = Life { subject, options, server: None, at, boot: Duration::ZERO, starts: 0 };
        life.start()?;
        Ok(life)
    }

    /// Whether this program starts and ends the server.
    pub(crate) fn is_ours(&self) -> bool {
        self.subject.arm.is_some()
    }

    /// The root of its process tree, if it can be seen.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::root).or(self.subject.pid)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let tree = self.pid().and_then(|pid| TreeCost::read(pid).ok());
        tree.map(|tree| tree.pids().collect()).unwrap_or_default()
    }

    /// Starts it if it does not run; nothing for a server of others.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let Some(mut arm) = self.subject.arm.clone() else { return Ok(()) };
        if self.server.is_some() && self.ended().is_none() {
            return Ok(());
        }
        self.server = None;
        self.starts += 1;
        arm.environment.insert(MARK.to_owned(), mark(&self.options.room));
        let name = format!("server-{}", self.starts);
        let (room, boot) = (&self.options.room, self.options.boot);
        let place = (self.at.ip(), self.at.port());
        let mut server = Server::boot(place, &[], &arm, room, &name, boot)?;
        if let Some(ended) = server.process.ended() {
            let how = ended.how;
            return Err(format!(
                "the command ended ({how}) and its server runs on: let it run in the foreground"
            ));
        }
        // One that announces its address chooses it.
        self.at = server.address.parse().unwrap_or(self.at);
        self.boot = server.boot;
        self.server = Some(server);
        Ok(())
    }

    /// Its end in words, with its last ones; `None` while it runs, and of a server of others.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let process = &mut self.server.as_mut()?.process;
        let ended = process.ended()?;
        let words = process.complaint();
        let wrote = if words.is_empty() { words } else { format!("; it wrote: {words}") };
        Some(format!("{}{wrote}", ended.how))
    }

    /// Sends a signal to the root of the tree, if it is ours.
    pub(crate) fn signal(&self, signal: Signal) {
        self.server.iter().for_each(|it| it.process.signal(signal));
    }

    /// Waits for its end: its status and the time, or `None` if it still runs.
    pub(crate) fn wait(&mut self) -> Option<(String, Duration)> {
        let begun = Instant::now();
        let ended = self.server.as_mut()?.process.ended_within(END)?;
        Some((ended.how, begun.elapsed()))
    }

    /// Ends what is left of it, so that it can be started again.
    pub(crate) fn bury(&mut self) {
        self.server = None;
        leave_nothing(&self.options);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.process.stop(LAST);
        }
        if self.is_ours() {
            leave_nothing(&self.options);
        }
    }
}

/// The value of [`MARK`]: the folder is of this check-up alone.
fn mark(room: &Path) -> String {
    room.display().to_string()
}

/// Kills the processes of this check-up that left their group, as daemons do.
pub(crate) fn leave_nothing(options: &CheckupOptions) {
    let wanted = format!("{MARK}={}\0", mark(&options.room));
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment);
        if text.contains(&wanted)
            && let Some(pid) = Pid::from_raw(pid)
        {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
