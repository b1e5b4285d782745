//! Other processes on the sender's core.

use super::trial::pinned;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// The compiler that a compile needs.
const COMPILER: &str = "cc";
/// Files of the tree that is compiled, and functions of each.
const TREE: (u32, u32) = (64, 200);

/// Processes that spin, and loops that start processes forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Company {
    /// Processes that only compute.
    pub spinners: u32,
    /// Loops that start a process, wait for it and start the next.
    pub forks: u32,
    /// Loops that compile a tree of C files, one process a file.
    pub compiles: u32,
}

impl Company {
    /// The published overload: fifty loops, and a compile of a C tree; without a compiler, a fork
    /// storm in its place.
    pub fn published() -> Company {
        let compiles = u32::from(which::which(COMPILER).is_ok());
        Company { spinners: 50, forks: 1 - compiles, compiles }
    }

    /// The processes as text.
    pub fn words(self) -> String {
        let Company { spinners, forks, compiles } = self;
        let spinning = (spinners > 0).then(|| format!("{spinners} spinning processes"));
        let storm = (forks > 0).then(|| "a fork storm".to_string());
        let compile = (compiles > 0).then(|| "a compile of a C tree".to_string());
        let all: Vec<String> = spinning.into_iter().chain(storm).chain(compile).collect();
        if all.is_empty() { "alone".to_string() } else { format!("beside {}", all.join(" and ")) }
    }
}

/// Writes the C files of a compile.
fn tree() -> std::io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for file in 0..TREE.0 {
        let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n");
        for number in 0..TREE.1 {
            _ = writeln!(
                text,
                "int f{file}_{number}(int n) {{ int s = {number}; for (int i = 0; i < n; i++) \
                 s += abs(s * i % {}); return printf(\"%d\", s); }}",
                number + 7
            );
        }
        std::fs::write(folder.path().join(format!("{file}.c")), text)?;
    }
    Ok(folder)
}

/// Running processes, until this is dropped, and the tree that they compile.
pub(super) struct Present {
    children: Vec<Child>,
    _tree: Option<TempDir>,
}

impl Present {
    /// Starts the processes on `core`; `exe` is the program with the command `pin`.
    pub(super) fn start(exe: &Path, company: Company, core: Option<usize>) -> Result<Self, String> {
        if company.compiles > 0 && which::which(COMPILER).is_err() {
            return Err(format!("expected a C compiler `{COMPILER}` in PATH; install one (gcc)"));
        }
        let tree = (company.compiles > 0).then(tree).transpose();
        let tree = tree.map_err(|why| format!("cannot write a tree of C files: {why}"))?;
        let place = tree.as_ref().map(|it| it.path().to_owned());
        let mut present = Present { children: Vec::new(), _tree: tree };
        let spin = (0..company.spinners).map(|_| "while :; do :; done");
        let fork = (0..company.forks).map(|_| "while :; do /bin/true; done");
        let compile =
            format!("while :; do for it in *.c; do {COMPILER} -O2 -c $it -o $$.o; done; done");
        let compile = (0..company.compiles).map(|_| compile.as_str());
        for loops in spin.chain(fork).chain(compile) {
            let mut command = pinned(exe, core, "sh");
            if let Some(place) = &place {
                command.current_dir(place);
            }
            command.args(["-c", loops]).stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.stderr(Stdio::null()).spawn();
            present.children.push(child.map_err(|why| format!("cannot start a shell: {why}"))?);
        }
        Ok(present)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        for child in &mut self.children {
            // A process that has ended needs no signal.
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}
