//! Arms that need a separate process, and the parent's end of their pipes.
//!
//! A heap has a history: earlier allocations decide the cost of a later one. And the heap is chosen
//! when a program starts. So a cold heap is a fresh process for each measurement, and a heap
//! without its caches is a process started with other settings.

use super::echo;
use crate::code::source::{Source, replaced};
use crate::contest::{each, thread_time};
use crate::exhibit::Fault;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The commands of an artefact.
const KNOWN: &str = "heap, cold BYTES COUNT or echo SWITCHES";

/// Runs the artefact that `words` name, for a hidden command of the program.
///
/// # Errors
/// A sentence: an unknown name, or the reason why it did not run.
pub fn run(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("no number: {text}"));
    match words.as_slice() {
        ["heap"] => heap(),
        ["cold", bytes, count] => cold(number(bytes)?, number(count)?),
        ["echo", switches] => echo::serve(switches),
        _ => Err(format!("expected {KNOWN}, found `{}`", words.join(" "))),
    }
}

/// Answers each line `BYTES LIVE OPERATIONS` with nanoseconds for a replacement of one of LIVE
/// live objects.
fn heap() -> Result<(), String> {
    // With a second thread the C library takes its locks, as a server's does.
    let (_alive, parked) = std::sync::mpsc::channel::<()>();
    let parked = std::thread::Builder::new().spawn(move || parked.recv());
    parked.map_err(|why| why.to_string())?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|why| why.to_string())?;
        let numbers: Vec<usize> = line.split(' ').filter_map(|it| it.parse().ok()).collect();
        let [bytes, live, operations] = numbers[..] else {
            return Err(format!("expected BYTES LIVE OPERATIONS, found `{line}`"));
        };
        println!("{}", replaced(&mut Sized(bytes), live.max(1), operations as u64));
    }
    Ok(())
}

/// An object from the heap, whose size is known when it is made.
fn object(bytes: usize) -> Box<[MaybeUninit<u64>]> {
    let mut it = Box::new_uninit_slice(bytes.div_ceil(8).max(1));
    it[0].write(bytes as u64);
    black_box(it)
}

/// The heap, for objects of that many bytes.
struct Sized(usize);

impl Source for Sized {
    type Held = Box<[MaybeUninit<u64>]>;

    fn take(&mut self) -> Self::Held {
        object(self.0)
    }

    fn give(&mut self, held: Self::Held) {
        drop(held);
    }
}

/// Allocates `count` objects in a process that has allocated next to nothing, and again after
/// freeing all of them. Prints nanoseconds each and page faults for both.
fn cold(bytes: usize, count: usize) -> Result<(), String> {
    let mut held = Vec::with_capacity(count);
    held.resize_with(count, || None);
    let mut rounds = Vec::new();
    let faults = || page_faults().ok_or("expected the tenth field of /proc/self/stat");
    for _ in 0..2 {
        let (before, start) = (faults()?, thread_time());
        for place in &mut held {
            *place = Some(object(bytes));
        }
        let took = each(thread_time().saturating_sub(start), count as u64);
        rounds.push((took, faults()? - before));
        held.iter_mut().for_each(|place| *place = None);
    }
    println!("{} {} {} {}", rounds[0].0, rounds[1].0, rounds[0].1, rounds[1].1);
    Ok(())
}

/// Pages that this process had to be given without a disk (proc_pid_stat(5), `minflt`).
fn page_faults() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(7)?.parse().ok()
}

/// An artefact that answers lines with lines.
pub struct Subprocess {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Subprocess {
    /// Starts `artefact` of the program `exe` with these environment variables.
    ///
    /// # Errors
    /// [`Fault::Server`] if it cannot be started.
    pub fn start(exe: &Path, artefact: &[&str], env: &[(&str, &str)]) -> Result<Subprocess, Fault> {
        let cannot = |why: &str| Fault::Server(format!("cannot run {}: {why}", exe.display()));
        let mut child = Command::new(exe)
            .arg("artefact")
            .args(artefact)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| cannot(&why.to_string()))?;
        let asks = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| cannot("it has no output"))?;
        Ok(Subprocess { child, asks, answers: BufReader::new(answers) })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line, unless it is empty, and reads the answer.
    ///
    /// # Errors
    /// [`Fault::Server`] if the process has ended.
    pub fn ask(&mut self, line: &str) -> Result<String, Fault> {
        let gone = |why: String| Fault::Server(format!("the artefact is gone: {why}"));
        if let Some(asks) = self.asks.as_mut().filter(|_| !line.is_empty()) {
            writeln!(asks, "{line}").map_err(|why| gone(why.to_string()))?;
        }
        let mut answer = String::new();
        let read = self.answers.read_line(&mut answer).map_err(|why| gone(why.to_string()))?;
        if read == 0 {
            return Err(gone("it has closed its output".to_string()));
        }
        Ok(answer.trim().to_string())
    }

    /// Requests numbers.
    ///
    /// # Errors
    /// [`Fault::Server`] if the process has ended or its answer has no numbers.
    pub fn numbers(&mut self, line: &str) -> Result<Vec<f64>, Fault> {
        let answer = self.ask(line)?;
        let numbers: Result<Vec<f64>, _> = answer.split(' ').map(str::parse).collect();
        numbers.map_err(|_| Fault::Server(format!("expected numbers, found `{answer}`")))
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        // The end of its input ends it; one that does not hear is killed.
        self.asks = None;
        for _ in 0..200 {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(std::time::Duration::from_millis(10)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_artefact_is_refused_with_what_there_is() {
        let error = run(&["vase".to_string()]).expect_err("there is none");
        assert!(error.contains("cold BYTES COUNT") && error.contains("`vase`"), "{error}");
        assert!(run(&["cold".into(), "x".into(), "1".into()]).is_err());
    }

    #[test]
    fn faults_are_counted() {
        let before = page_faults().expect("/proc is mounted");
        let all: Vec<_> = (0..64).map(|_| vec![1_u8; 1 << 16]).collect();
        black_box(all);
        assert!(page_faults().expect("/proc is mounted") >= before);
        assert!(replaced(&mut Sized(64), 8, 1_000) > 0.0);
    }
}
