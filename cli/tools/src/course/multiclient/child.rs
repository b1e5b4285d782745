//! One client of the crowd: a process that connects, sends orders, waits, and closes without
//! `exit`.
//!
//! It does the same as a child of the course's `multiclient`, in the same order: print `child PID`,
//! connect, seed by the process id, and for each order draw, send, read one reply, print it and
//! pause (also after the last).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::orders::Orders;
use super::Plan;
use super::tally::Tally;
use crate::course::link::{self, Link};

/// The number of clients that report why they failed; the others are only counted.
const FAILURES_SHOWN: u64 = 3;
/// Output is printed in pieces of at most this length, which a pipe takes at once.
const PRINT_MAX: usize = 4096;

/// Runs client `index` of the crowd, and returns its exit code.
pub fn run(plan: &Plan, index: u32, tally: &Tally, lock: BorrowedFd<'_>, begin: Instant) -> i32 {
    match trade(plan, index, tally, lock, begin) {
        Ok(()) => 0,
        Err(error) => {
            if tally.failed.fetch_add(1, Ordering::Relaxed) < FAILURES_SHOWN {
                say(&format!("{error:#}"));
            }
            1
        }
    }
}

fn trade(
    plan: &Plan,
    index: u32,
    tally: &Tally,
    lock: BorrowedFd<'_>,
    begin: Instant,
) -> Result<()> {
    let pid = std::process::id();
    let mut page = Page::new(plan, lock)?;
    page.add(format!("child {pid}\n").as_bytes())?;
    page.turn()?;
    let knock = Instant::now();
    let mut link = Link::new(link::connect(plan.at)?, plan.framing);
    tally.came_in(begin.elapsed(), knock.elapsed());
    let seed = plan.seed.map_or(pid, |seed| seed.wrapping_add(index));
    let mut slow = |waiting: String| {
        // One waiting client reports for all.
        if tally.slow.fetch_add(1, Ordering::Relaxed) == 0 {
            say(&waiting);
        }
    };
    for order in Orders::new(seed, plan.menu).take(plan.orders) {
        let text = link.ask(order.to_string().as_bytes(), &mut slow)?;
        tally.answered(&text);
        tally.effects.count(order, &text, plan.before.as_ref());
        page.add(&text)?;
        if !plan.pause.is_zero() {
            // Before a pause the output is printed at once.
            page.turn()?;
            std::thread::sleep(plan.pause);
        }
    }
    page.turn()
}

/// Prints a message in one write, because standard error has no buffer, and pieces of several
/// processes would mix.
fn say(words: &str) {
    let line = format!("multiclient: child {}: {words}\n", std::process::id());
    // If standard error is closed, the message is lost.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// A client's output that is not printed yet. Outputs of two clients never mix: a page is printed
/// whole, under a lock that the kernel releases if its holder is killed.
struct Page {
    text: Vec<u8>,
    /// The output is not wanted.
    is_silent: bool,
    lock: File,
}

impl Page {
    fn new(plan: &Plan, lock: BorrowedFd<'_>) -> Result<Page> {
        // The file is opened once more, because a lock belongs to an open file (flock(2)), and all
        // clients inherit the same one.
        let path = format!("/proc/self/fd/{}", lock.as_raw_fd());
        let lock = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        Ok(Page { text: Vec::new(), is_silent: plan.is_silent, lock })
    }

    fn add(&mut self, text: &[u8]) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        if self.text.len() + text.len() > PRINT_MAX {
            self.turn()?;
        }
        self.text.extend_from_slice(text);
        Ok(())
    }

    /// Prints the page.
    fn turn(&mut self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.lock.lock().context("cannot wait for the others to print")?;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&self.text).and_then(|()| stdout.flush()).context("cannot print")?;
        self.text.clear();
        self.lock.unlock().context("cannot let the others print")
    }
}

/// The pause of the course: one second, after each order and also after the last.
pub const PAUSE: Duration = Duration::from_secs(1);
