//! Facts about reading process trees: parsed text first, then live processes.

use super::files::fields;
use super::*;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A shell with a child that burns CPU until the shell is killed.
fn busy_shell() -> Child {
    Command::new("sh")
        .args(["-c", "(while :; do :; done) & wait"])
        .spawn()
        .expect("a shell is installed")
}

/// Waits until the tree below `pid` has `n` processes; the shell needs a moment to fork.
fn tree_of(pid: u32, n: usize) -> TreeCost {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let tree = TreeCost::read(pid).expect("the shell runs");
        if tree.processes.len() == n {
            return tree;
        }
        assert!(Instant::now() < end, "expected {n} processes, found {tree:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn end(mut child: Child, tree: &TreeCost) {
    for pid in tree.pids().collect::<Vec<_>>() {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    child.wait().expect("it was started here");
}

#[test]
fn a_name_with_spaces_and_brackets() {
    let stat = "7 (a) b (c)) S 3 7 7 0 -1 0 1 2 3 4 11 22 33 44 20 0 1 0 555 9 9";
    let found = fields(stat).expect("all fields are there");
    assert_eq!([3, 4, 8, 11, 16, 17, 22].map(|at| found[at]), [83, 3, 0, 2, 33, 44, 555]);
    assert!(fields("7 (cut) S 3 7").is_none());
}

#[test]
fn a_child_is_part_of_the_tree() {
    let shell = busy_shell();
    let before = tree_of(shell.id(), 2);
    std::thread::sleep(Duration::from_millis(120));
    let after = TreeCost::read(shell.id()).expect("the shell runs");
    let cost = after.since(&before);
    let memory = Memory::read(shell.id()).expect("the shell runs");
    end(shell, &after);
    assert_eq!((cost.processes, cost.threads), (2, 2), "{cost:?}");
    // The child wants a whole processor; a tenth of one leaves room for a crowded machine.
    assert!((12_000_000..10_000_000_000).contains(&cost.cpu_ns), "{cost:?}");
    assert_eq!((memory.processes, memory.threads), (2, 2), "{memory:?}");
    assert!(memory.rss_kb > 100 && memory.peak_kb >= memory.rss_kb / 2, "{memory:?}");
    assert!(memory.pss_kb.is_some_and(|pss| pss <= memory.rss_kb), "{memory:?}");
}

#[test]
fn own_work_is_counted_to_the_nanosecond() {
    let before = TreeCost::read(std::process::id()).expect("we run");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(60) {
        std::hint::black_box(start);
    }
    let after = TreeCost::read(std::process::id()).expect("we run");
    let cost = after.since(&before);
    assert!(cost.cpu_ns > 5_000_000, "{cost:?}");
    assert_eq!(after.since(&after).cpu_ns, 0);
}

#[test]
fn a_death_in_between_is_reported() {
    let shell = busy_shell();
    let before = tree_of(shell.id(), 2);
    let child = before.pids().nth(1).expect("two pids");
    let killed = Command::new("kill").args(["-STOP", &shell.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let killed = Command::new("kill").args(["-9", &child.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    // A stopped shell cannot reap: the child stays as a zombie until the shell continues.
    let zombie = TreeCost::read(shell.id()).expect("the shell is stopped");
    assert_eq!(zombie.processes.len(), 2);
    let mut after = zombie.clone();
    after.processes.retain(|process| process.pid != child);
    let cost = after.since(&before);
    end(shell, &zombie);
    let said = cost.doubts.join("; ");
    assert!(said.contains(&format!("process {child} ended")), "{said}");
}

#[test]
fn a_tree_that_is_gone_is_an_error() {
    let mut child = Command::new("true").spawn().expect("true is installed");
    let pid = child.id();
    child.wait().expect("it was started here");
    assert!(matches!(TreeCost::read(pid), Err(ProcError::Gone { pid: found }) if found == pid));
    assert!(Memory::read(pid).is_err());
}

/// One process with its time (ns), the ticks of the children that it waited for, and its threads.
fn process(pid: u32, cpu_ns: u64, reaped: u64, threads: &[u32]) -> ProcessCost {
    let thread = |&tid: &u32| ThreadCost {
        tid,
        voluntary: 1,
        involuntary: 1,
        delay_ns: 2,
        ..ThreadCost::default()
    };
    let threads = threads.iter().map(thread).collect();
    ProcessCost {
        pid,
        started: 1,
        cpu_ns,
        reaped_ns: reaped * TICK_NS,
        reaped_faults: reaped,
        threads,
    }
}

fn check(before: Vec<ProcessCost>, after: Vec<ProcessCost>, cpu_ns: u64, doubts: &[&str]) {
    let cost = TreeCost { processes: after }.since(&TreeCost { processes: before });
    assert_eq!(cost.cpu_ns, cpu_ns, "{cost:?}");
    assert_eq!(cost.doubts.len(), doubts.len(), "{cost:?}");
    for (found, expected) in cost.doubts.iter().zip(doubts) {
        assert!(found.contains(expected), "{found}");
    }
    let ended = |doubt: &&str| !doubt.contains("threads");
    assert_eq!(cost.is_coarse, doubts.iter().any(ended), "{cost:?}");
    assert_eq!(cost.is_partial, !doubts.is_empty(), "{cost:?}");
}

#[test]
fn switches_of_workers_that_no_reading_caught_are_not_counted_as_none() {
    let run = |cpu_ns: u64, run_ns: u64, faults: u64| {
        let mut one = process(1, cpu_ns, 0, &[1]);
        (one.threads[0].run_ns, one.reaped_faults) = (run_ns, faults);
        TreeCost { processes: vec![one] }
    };
    let before = run(1_000, 1_000, 3);
    assert!(!run(9_000, 8_900, 3).since(&before).is_partial);
    // A thread for each connection: the clock of the process has more than its living threads.
    assert!(run(9_000, 2_000, 3).since(&before).is_partial);
    // A process for each connection, too short for a tick.
    assert!(run(9_000, 9_000, 4).since(&before).is_partial);
    let before = TreeCost::read(std::process::id()).expect("we run");
    for _ in 0..20 {
        let work = || (0..200_000_u64).fold(0, |sum, it| std::hint::black_box(sum ^ it));
        std::thread::spawn(work).join().expect("it ends");
    }
    let after = TreeCost::read(std::process::id()).expect("we run");
    assert!(after.since(&before).is_partial, "{before:?} {after:?}");
}

#[test]
fn differences() {
    const MS: u64 = 1_000_000;
    let (a, b) = (process(1, 30, 0, &[1, 2]), process(1, 75, 0, &[1, 2]));
    check(vec![a], vec![b], 45, &[]);
    // A new thread and a new process count whole.
    let (a, b) = (process(1, 10, 0, &[1]), process(1, 18, 0, &[1, 2]));
    check(vec![a], vec![b, process(9, 3, 0, &[9])], 11, &[]);
    // The time of an ended thread stays with its process.
    let (a, b) = (process(1, 10, 0, &[1, 2]), process(1, 30, 0, &[1]));
    check(vec![a], vec![b], 20, &["1 threads of process 1 ended"]);
    // Children that no reading caught, as with one process per connection.
    let (a, b) = (process(1, 1, 4, &[1]), process(1, 6, 9, &[1]));
    check(vec![a], vec![b], 50 * MS + 5, &["children of process 1"]);
    // A worker that has used 30 ms dies after 20 ms more.
    let (a, b) = (process(1, 1, 0, &[1]), process(1, 6, 5, &[1]));
    let dead = process(2, 30 * MS, 0, &[2]);
    check(vec![a, dead], vec![b], 20 * MS + 5, &["children of", "process 2 ended"]);
    // The same pid, but another process.
    let (a, mut b) = (process(1, 8, 0, &[1]), process(1, 5, 0, &[1]));
    b.started = 2;
    check(vec![a], vec![b], 5, &["process 1 ended"]);
}

#[test]
fn stretches_add_up() {
    let mut sum = Cost { cpu_ns: 1, voluntary: 2, doubts: vec!["x".into()], ..Cost::default() };
    let more = Cost { cpu_ns: 10, involuntary: 5, threads: 3, ..sum.clone() };
    sum.add(more);
    assert_eq!((sum.cpu_ns, sum.switches(), sum.threads, sum.doubts.len()), (11, 9, 3, 1));
}
