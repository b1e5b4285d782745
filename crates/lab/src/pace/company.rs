//! Other processes on the sender's core.

use super::trial::pinned;
use std::path::Path;
use std::process::{Child, Stdio};

/// Processes that spin, and loops that start processes forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Company {
    /// Processes that only compute.
    pub spinners: u32,
    /// Loops that start a process, wait for it and start the next.
    pub forks: u32,
}

impl Company {
    /// The published overload: fifty loops, and a fork storm instead of a compiler.
    pub const PUBLISHED: Company = Company { spinners: 50, forks: 1 };

    /// The processes as text.
    pub fn words(self) -> String {
        match (self.spinners, self.forks) {
            (0, 0) => "alone".to_string(),
            (spinners, 0) => format!("beside {spinners} spinning processes"),
            (0, _) => "beside a fork storm".to_string(),
            (spinners, _) => format!("beside {spinners} spinning processes and a fork storm"),
        }
    }
}

/// Running processes, until this is dropped.
pub(super) struct Present(Vec<Child>);

impl Present {
    /// Starts the processes on `core`; `exe` is the program with the command `pin`.
    pub(super) fn start(exe: &Path, company: Company, core: Option<usize>) -> Result<Self, String> {
        let mut present = Present(Vec::new());
        let spin = (0..company.spinners).map(|_| "while :; do :; done");
        let fork = (0..company.forks).map(|_| "while :; do /bin/true; done");
        for loops in spin.chain(fork) {
            let mut command = pinned(exe, core, "sh");
            command.args(["-c", loops]).stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.stderr(Stdio::null()).spawn();
            present.0.push(child.map_err(|why| format!("cannot start a shell: {why}"))?);
        }
        Ok(present)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has ended needs no signal.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
