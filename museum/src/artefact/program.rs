//! Arms that need a separate process.
//!
//! A heap has a history: earlier allocations decide the cost of a later one. And the heap is chosen
//! when a program starts. So each measurement of a cold heap, and of a heap without its caches, is
//! a fresh process, the latter with other settings.

use super::echo;
use crate::code::source::{Source, replaced};
use crate::contest::{each, thread_time};
use crate::exhibit::Fault;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};

const KNOWN: &str = "heap BYTES LIVE COUNT, cold BYTES COUNT or echo SWITCHES PORT";

/// Runs the artefact that `words` name, for a hidden command of the program.
///
/// # Errors
/// A sentence: an unknown name, or the reason why it did not run.
pub fn run(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("no number: {text}"));
    match words.as_slice() {
        ["heap", bytes, live, count] => heap(number(bytes)?, number(live)?, number(count)?),
        ["cold", bytes, count] => cold(number(bytes)?, number(count)?),
        ["echo", switches, port] => echo::serve(switches, number(port)? as u16),
        _ => Err(format!("expected {KNOWN}, found `{}`", words.join(" "))),
    }
}

/// Prints nanoseconds for a replacement of one of `live` live objects.
fn heap(bytes: usize, live: usize, operations: usize) -> Result<(), String> {
    // With a second thread the C library takes its locks, as a server's does.
    let (_alive, parked) = std::sync::mpsc::channel::<()>();
    let parked = std::thread::Builder::new().spawn(move || parked.recv());
    parked.map_err(|why| why.to_string())?;
    println!("{}", replaced(&mut Sized(bytes), live.max(1), operations as u64));
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

/// Runs `artefact` of the program `exe` with these environment variables and returns the numbers
/// that it prints.
///
/// # Errors
/// [`Fault::Server`] if it cannot be started, or prints anything else.
pub fn numbers(exe: &Path, artefact: &str, env: &[(&str, &str)]) -> Result<Vec<f64>, Fault> {
    let cannot = |why: String| Fault::Server(format!("cannot run {artefact}: {why}"));
    let mut command = Command::new(exe);
    let ran = command.arg("artefact").args(artefact.split(' ')).envs(env.iter().copied());
    let ran = ran.stderr(Stdio::inherit()).output().map_err(|why| cannot(why.to_string()))?;
    let answer = String::from_utf8_lossy(&ran.stdout);
    let numbers: Result<Vec<f64>, _> = answer.trim().split(' ').map(str::parse).collect();
    numbers.map_err(|_| cannot(format!("expected numbers, found `{answer}`")))
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
