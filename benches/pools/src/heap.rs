//! A program that runs workloads on request, and the other end of the pipe.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

use crate::OPERATIONS;
use crate::objects::{Heap, cross, pairs};

/// Answers each line of standard input until its end: `pairs LIVE` or `cross`.
///
/// # Panics
/// If standard output is closed.
pub fn serve() {
    for line in io::stdin().lock().lines() {
        let line = line.expect("the driver writes lines");
        let cost = match line.split_once(' ') {
            Some(("pairs", live)) => {
                pairs(&mut Heap, live.parse().expect("a number of objects"), OPERATIONS)
            }
            _ => cross(Heap, Heap, OPERATIONS),
        };
        println!("{cost}");
    }
}

/// A program that [`serve`]s.
pub struct Child {
    process: Process,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts the program `name` from this program's directory.
    ///
    /// # Panics
    /// If it is missing: build all binaries of the package.
    #[must_use]
    pub fn start(name: &str) -> Child {
        let path = std::env::current_exe().expect("this program has a path").with_file_name(name);
        let mut process = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", path.display()));
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("it was piped"));
        Child { process, input, output }
    }

    /// Requests one round; returns nanoseconds.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn ask(&mut self, request: &str) -> f64 {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{request}").expect("the program reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the program answers");
        answer.trim().parse().unwrap_or_else(|_| panic!("expected a number, found {answer:?}"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The end of its input ends the program.
        self.input = None;
        let _ = self.process.wait();
    }
}
