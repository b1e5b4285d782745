//! libstdc++'s map, compiled when the bench runs and asked through pipes.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The source, as the compiler reads it from its standard input.
const SOURCE: &str = include_str!("map.cpp");

/// A process that runs jobs on a `std::map`.
pub struct Foreign {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    program: PathBuf,
}

impl Foreign {
    /// Compiles and starts it.
    ///
    /// # Errors
    /// A sentence, if there is no compiler for C++ or it fails.
    pub fn start() -> Result<Foreign, String> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let name = format!("roundhouse-index-bench-{}", std::process::id());
        let program = std::env::temp_dir().join(name);
        compile(&compiler, &program)
            .map_err(|error| format!("`{compiler}` makes no std::map: {error}"))?;
        let child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cannot start std::map: {error}"))?;
        let (Some(asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the pipes to std::map are missing".to_owned());
        };
        Ok(Foreign { child, asks, answers: BufReader::new(answers), program })
    }

    /// Runs one job; returns nanoseconds for each operation, and the check sum.
    ///
    /// # Errors
    /// If the process has ended or gives another answer.
    pub fn ask(&mut self, job: &str, count: usize) -> io::Result<(f64, u64)> {
        writeln!(self.asks, "{job} {count}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (ns, check) = line.trim().split_once(' ').unwrap_or_default();
        match (ns.parse(), check.parse()) {
            (Ok(ns), Ok(check)) => Ok((ns, check)),
            _ => Err(io::Error::other(format!("expected a time and a sum, found {line:?}"))),
        }
    }
}

fn compile(compiler: &str, program: &PathBuf) -> io::Result<()> {
    let mut child = Command::new(compiler)
        .args(["-std=c++17", "-O3", "-x", "c++", "-", "-o"])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut source) = child.stdin.take() {
        source.write_all(SOURCE.as_bytes())?;
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.program);
    }
}
