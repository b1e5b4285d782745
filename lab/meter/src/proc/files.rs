//! The files of one process under `/proc`, and nothing but reading them.
//!
//! A process may end between any two of these reads; every missing file means "gone" and never
//! "zero".

use super::{Memory, ProcError, ProcessCost, TICK_NS, ThreadCost};
use crate::machine::{kilobytes, value_of};
use std::{fs, io};

/// Reads one process and pushes the pids of its children to `children`.
pub(super) fn process(pid: u32, children: &mut Vec<u32>) -> Result<ProcessCost, ProcError> {
    let path = format!("/proc/{pid}/stat");
    let text = read(pid, &path)?;
    let stat = fields(&text).ok_or_else(|| strange(path, &text))?;
    let mut process = ProcessCost {
        pid,
        started: stat[22],
        cpu_ns: sys::clock::process_cpu_ns(pid).ok_or(ProcError::Gone { pid })?,
        reaped_ns: (stat[16] + stat[17]) * TICK_NS,
        reaped_faults: stat[11],
        threads: Vec::new(),
    };
    for tid in tasks(pid)? {
        // A thread may end here; its process keeps its time.
        let Ok(found) = thread(pid, tid) else { continue };
        process.threads.push(found);
        match fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")) {
            Ok(list) => {
                children.extend(list.split_ascii_whitespace().filter_map(|x| x.parse::<u32>().ok()))
            }
            // The file is missing where the kernel was built without it, once for each thread.
            Err(_) if tid == pid => children.extend(children_by_parent(pid)),
            Err(_) => {}
        }
    }
    Ok(process)
}

/// Memory of one process; `None` if it ended.
pub(super) fn memory(pid: u32) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let status_kb = |key| value_of(&status, key).and_then(kilobytes);
    let rollup_kb = |key| value_of(&rollup, key).and_then(kilobytes);
    Some(Memory {
        // A zombie has neither; it holds no memory.
        rss_kb: rollup_kb("Rss").or_else(|| status_kb("VmRSS")).unwrap_or(0),
        pss_kb: match status_kb("VmRSS") {
            Some(_) => rollup_kb("Pss"),
            None => Some(0),
        },
        // A process that has ended shares nothing either.
        own_kb: match status_kb("VmRSS") {
            Some(_) => rollup_kb("Pss_Anon").zip(rollup_kb("Pss_Shmem")).map(|(a, b)| a + b),
            None => Some(0),
        },
        peak_kb: status_kb("VmHWM").unwrap_or(0),
        processes: 1,
        threads: value_of(&status, "Threads").and_then(|n| n.parse().ok()).unwrap_or(0),
    })
}

/// The fields of `/proc/PID/stat`, also of a thread's, at their numbers in proc_pid_stat(5): the
/// letter of the state, field 3, as its code, and 0 for what is no number. `None` if there is no
/// such process.
pub fn stat(pid: u32) -> Option<Vec<u64>> {
    fields(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name, in brackets, may hold spaces and brackets: fields are counted from the last one.
pub(super) fn fields(text: &str) -> Option<Vec<u64>> {
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let mut fields = vec![0, 0, 0, words.next()?.bytes().next()?.into()];
    fields.extend(words.map(|word| word.parse().unwrap_or(0)));
    (fields.len() > 22).then_some(fields)
}

fn thread(pid: u32, tid: u32) -> Result<ThreadCost, ProcError> {
    let status = read(pid, &format!("/proc/{pid}/task/{tid}/status"))?;
    let count = |key| value_of(&status, key).and_then(|n| n.parse().ok()).unwrap_or(0);
    let [run_ns, delay_ns] = schedstat(pid, tid).unwrap_or_default();
    Ok(ThreadCost {
        tid,
        run_ns,
        delay_ns,
        voluntary: count("voluntary_ctxt_switches"),
        involuntary: count("nonvoluntary_ctxt_switches"),
    })
}

/// A thread's time on a core and its time waiting for one, nanoseconds; the third number counts its
/// turns (Documentation/scheduler/sched-stats.rst). `None` where the kernel does not count them.
pub(super) fn schedstat(pid: u32, tid: u32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

pub(super) fn tasks(pid: u32) -> Result<Vec<u32>, ProcError> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path).map_err(|e| missing(pid, &path, &e))?;
    Ok(numbers(entries).collect())
}

fn children_by_parent(parent: u32) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let is_child = |pid: &u32| stat(*pid).is_some_and(|it| it[4] == u64::from(parent));
    numbers(all).filter(is_child).collect()
}

fn numbers(entries: fs::ReadDir) -> impl Iterator<Item = u32> {
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read(pid: u32, path: &str) -> Result<String, ProcError> {
    fs::read_to_string(path).map_err(|e| missing(pid, path, &e))
}

fn missing(pid: u32, path: &str, error: &io::Error) -> ProcError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ProcError::Unreadable {
            path: path.to_owned(),
            why: format!("{error}; run as the user who owns process {pid}"),
        },
        // ENOENT before the open, ESRCH after it.
        _ => ProcError::Gone { pid },
    }
}

fn strange(path: String, text: &str) -> ProcError {
    let start: String = text.chars().take(60).collect();
    ProcError::Unreadable {
        path,
        why: format!("expected the fields of a process, found {start:?}"),
    }
}
