//! A server's process tree over time: processes and threads that started and ended.
//!
//! The count is made from outside: a thread reads the tree below one pid ten times a second from
//! `/proc`, and a thread that was not there before has started. This works the same for every
//! server, and costs only the reader's time on another core. A thread that lives for less than the
//! time between two reads is never seen, so the count does not fit servers that fork for each
//! connection. Spare workers live for at least a second, because their supervisors check once a
//! second.

use meter::TreeCost;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Between two reads.
const EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Churn {
    /// Threads that came, those of new processes among them; the main thread of a process is one.
    pub threads_started: u32,
    pub threads_ended: u32,
    pub processes_started: u32,
    pub processes_ended: u32,
    /// The time of observation, seconds.
    pub watched_s: f64,
    /// Each look: seconds since the first, processes, threads; those too before it was counted.
    pub looks: Vec<(f64, u32, u32)>,
}

/// Context switches of a tree since its threads began, by the kind of the thread switched away
/// from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Of the main threads, one a process.
    pub processes: u64,
    /// Of all further threads.
    pub threads: u64,
}

/// A thread that watches a tree until it is stopped.
pub struct Watcher {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Churn>,
}

type Tree = HashSet<(u32, u32)>;

impl Churn {
    /// Threads that came or went.
    pub fn threads(&self) -> u32 {
        self.threads_started + self.threads_ended
    }

    pub fn threads_a_minute(&self) -> f64 {
        f64::from(self.threads()) * 60.0 / self.watched_s.max(1e-9)
    }

    /// Processes that came or went, a minute.
    pub fn processes_a_minute(&self) -> f64 {
        f64::from(self.processes_started + self.processes_ended) * 60.0 / self.watched_s.max(1e-9)
    }

    fn look(&mut self, now: &Tree, at: Duration) {
        let [processes, threads] = counted(now);
        self.looks.push((at.as_secs_f64(), processes, threads));
    }

    fn count(&mut self, before: &Tree, now: &Tree) {
        let [started, ended] = [counted(now.difference(before)), counted(before.difference(now))];
        self.processes_started += started[0];
        self.threads_started += started[1];
        self.processes_ended += ended[0];
        self.threads_ended += ended[1];
    }
}

/// Processes and threads among these; the main thread of a process is one.
fn counted<'t>(tree: impl IntoIterator<Item = &'t (u32, u32)>) -> [u32; 2] {
    let one = |[processes, threads]: [u32; 2], (pid, tid): &(u32, u32)| {
        [processes + u32::from(pid == tid), threads + 1]
    };
    tree.into_iter().fold([0; 2], one)
}

impl Watcher {
    /// Begins to read the tree below `root`, and to count after `settled`: a server that has just
    /// started finds its size first. Threads that are there already do not count.
    pub fn start(root: u32, settled: Duration) -> Watcher {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = spawn(move || {
            let begun = Instant::now();
            let mut churn = Churn::default();
            let mut before = tree(root);
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(EVERY);
                let now = tree(root);
                if now.is_empty() {
                    break;
                }
                let at = begun.elapsed();
                churn.look(&now, at);
                if at > settled {
                    churn.count(&before, &now);
                }
                before = now;
            }
            churn.watched_s = begun.elapsed().saturating_sub(settled).as_secs_f64();
            churn
        });
        Watcher { over, thread }
    }

    pub fn end(self) -> Churn {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The tree below `root`: processes with their threads. A process that ends meanwhile is left out.
fn tree(root: u32) -> Tree {
    let mut found = Tree::new();
    let mut ahead = vec![root];
    while let Some(pid) = ahead.pop() {
        let Ok(list) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let tids: Vec<u32> =
            list.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
        // Supervisors fork from their first thread; only the tree's root may do it from others.
        let forkers = tids.iter().filter(|tid| **tid == pid || pid == root);
        for tid in forkers {
            let path = format!("/proc/{pid}/task/{tid}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            ahead.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
        }
        found.extend(tids.into_iter().map(|tid| (pid, tid)));
    }
    found
}

impl Switches {
    pub fn of(tree: &TreeCost) -> Switches {
        let mut sum = Switches::default();
        for (pid, tid, count) in tree.threads() {
            if pid == tid { sum.processes += count } else { sum.threads += count }
        }
        sum
    }

    pub fn all(self) -> u64 {
        self.processes + self.threads
    }

    /// The increase since an `earlier` reading; threads that ended meanwhile are lost.
    pub fn since(self, earlier: Switches) -> Switches {
        Switches {
            processes: self.processes.saturating_sub(earlier.processes),
            threads: self.threads.saturating_sub(earlier.threads),
        }
    }
}

/// Context switches of the whole machine since it began (`ctxt` of `/proc/stat`, proc_stat(5)).
pub fn machine_switches() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: &[(u32, &[u32])]) -> Tree {
        rows.iter().flat_map(|(pid, tids)| tids.iter().map(|tid| (*pid, *tid))).collect()
    }

    #[test]
    fn new_threads_have_started_and_missing_ones_have_ended() {
        let mut churn = Churn::default();
        let one = sample(&[(1, &[1, 2]), (7, &[7, 8])]);
        let two = sample(&[(1, &[1, 3]), (9, &[9, 10, 11])]);
        churn.count(&one, &one);
        assert_eq!(churn.threads(), 0);
        churn.count(&one, &two);
        assert_eq!((churn.threads_started, churn.threads_ended), (4, 3));
        assert_eq!((churn.processes_started, churn.processes_ended), (1, 1));
        churn.look(&two, Duration::from_secs(1));
        assert_eq!(churn.looks, [(1.0, 2, 5)]);
    }

    #[test]
    fn this_process_is_a_tree_that_switches() {
        let own = std::process::id();
        assert!(tree(own).contains(&(own, own)));
        let switches = || Switches::of(&TreeCost::read(own).expect("it lives"));
        let (before, all) = (switches(), machine_switches());
        std::thread::sleep(Duration::from_millis(20));
        let gained = switches().since(before);
        assert!(gained.processes + gained.threads > 0, "this thread slept");
        assert!(machine_switches() > all, "and the machine has counted it");
    }
}
