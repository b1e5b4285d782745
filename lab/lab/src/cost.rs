//! The cost of a whole process tree, ended members included.
//!
//! `/proc/PID` disappears when a process ends, so it cannot yield the CPU time of a server that
//! forks for each client. A control group keeps its totals: the server starts in a group of its
//! own, and the group is read at both ends of the load (cgroups(7), version 1 and 2). If groups
//! cannot be created, the clock ticks of waited-for children replace them, and the record says so.
//! The command starts as a shell that moves itself into the group and then becomes the server,
//! because a server that is moved after its start could already have forked outside the group.

mod group;

pub use group::Group;

use crate::observations::TreeLife;
use std::path::Path;

/// Watches one server from before its start to after its end.
pub struct CostWatch {
    group: Option<Group>,
    before: ChildCosts,
    ready: Option<Reading>,
    life: TreeLife,
}

/// The control group at one moment. The sum is exact; user and system time may be sampled at the
/// tick and need not add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    total_ns: u64,
    user_ns: u64,
    system_ns: u64,
}

impl Reading {
    /// The user and system time since an `earlier` reading: the exact sum, and the sampled split.
    /// The split is `None` if nothing was sampled.
    fn since(&self, earlier: &Reading) -> (u64, Option<f64>) {
        let total_ns = self.total_ns.saturating_sub(earlier.total_ns);
        let user = self.user_ns.saturating_sub(earlier.user_ns) as f64;
        let system = self.system_ns.saturating_sub(earlier.system_ns) as f64;
        (total_ns, (user + system > 0.0).then(|| user / (user + system)))
    }
}

/// The CPU of this process's ended children (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChildCosts {
    user_ticks: u64,
    system_ticks: u64,
    faults_minor: u64,
    faults_major: u64,
}

/// Clock ticks of `/proc` are a hundredth of a second on every Linux that this runs on.
const TICK_NS: u64 = 10_000_000;

impl CostWatch {
    /// Prepares to watch a server called `name`.
    pub fn new(name: &str) -> CostWatch {
        CostWatch {
            group: Group::make(name),
            before: ChildCosts::read(),
            ready: None,
            life: TreeLife::default(),
        }
    }

    /// The command prefix that starts a command in the group; empty without a group.
    pub fn prefix(&self) -> Vec<String> {
        self.group.as_ref().map(Group::prefix).unwrap_or_default()
    }

    /// The folder of the server's group, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.group.as_ref().map(Group::folder)
    }

    /// Records that the server is ready and a load begins.
    pub fn mark(&mut self) {
        self.ready = self.group.as_ref().and_then(Group::cpu);
    }

    /// The CPU time since [`CostWatch::mark`], if there is a group; it is that of `requests`.
    pub fn since_mark(&self, requests: u64) -> Option<TreeLife> {
        let (before, now) = self.ready.zip(self.group.as_ref().and_then(Group::cpu))?;
        let (total_ns, share) = now.since(&before);
        let user_ns = (total_ns as f64 * share.unwrap_or(0.0)) as u64;
        let mut life = TreeLife {
            source: "cgroup".to_string(),
            user_ns,
            system_ns: total_ns - user_ns,
            cpu_ns_per_request: per_request(total_ns, requests),
            ..TreeLife::default()
        };
        if share.is_none() {
            let doubt = "too little CPU time to tell user from system: all of it counts as system";
            life.doubts.push(doubt.to_string());
        }
        Some(life)
    }

    /// Records that the load has ended while the server still runs; it answered `requests` in all.
    pub fn unloaded(&mut self, requests: u64) {
        self.life = self.since_mark(requests).unwrap_or_default();
        self.life.memory_peak_kb = self.group.as_ref().and_then(Group::memory_peak_kb);
    }

    /// Records that the server will now be waited for, and no other child of this process.
    pub fn ending(&mut self) {
        self.before = ChildCosts::read();
    }

    /// The CPU time, nanoseconds, of programs that the server's processes started and never waited
    /// for, because they ignore the ends of children (wait(2), SIGCHLD). It is known to 20 ms after
    /// [`CostWatch::ending`] and the server's end, and 0 without a group.
    pub fn unwaited_ns(&self) -> u64 {
        let Some(all) = self.group.as_ref().and_then(Group::cpu) else { return 0 };
        let ticks = |it: &ChildCosts| it.user_ticks + it.system_ticks;
        let waited = ticks(&ChildCosts::read()).saturating_sub(ticks(&self.before));
        all.total_ns.saturating_sub((waited + 2) * TICK_NS)
    }

    /// Finishes after the server has ended and was waited for.
    pub fn ended(mut self, requests: u64) -> TreeLife {
        let now = ChildCosts::read();
        let life = &mut self.life;
        life.faults_minor = Some(now.faults_minor.saturating_sub(self.before.faults_minor));
        life.faults_major = Some(now.faults_major.saturating_sub(self.before.faults_major));
        if life.source.is_empty() {
            let ns = |now: u64, then: u64| now.saturating_sub(then) * TICK_NS;
            life.source = "ticks".to_string();
            life.user_ns = ns(now.user_ticks, self.before.user_ticks);
            life.system_ns = ns(now.system_ticks, self.before.system_ticks);
            life.cpu_ns_per_request = per_request(life.user_ns + life.system_ns, requests);
            life.doubts.push(
                "no control group may be made here: CPU time is known to 10 ms, start and stop of \
                 the server and the generator included"
                    .to_string(),
            );
        }
        self.life
    }
}

fn per_request(ns: u64, requests: u64) -> Option<f64> {
    (requests > 0).then(|| ns as f64 / requests as f64)
}

impl ChildCosts {
    fn read() -> ChildCosts {
        let stat = meter::proc::stat(std::process::id()).unwrap_or_default();
        let field = |number: usize| stat.get(number).copied().unwrap_or(0);
        ChildCosts {
            faults_minor: field(11),
            faults_major: field(13),
            user_ticks: field(16),
            system_ticks: field(17),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn sums_are_exact_and_split_as_sampled() {
        let before = Reading { total_ns: 100, user_ns: 10, system_ns: 20 };
        let after = Reading { total_ns: 1_100, user_ns: 40, system_ns: 30 };
        assert_eq!(after.since(&before), (1_000, Some(0.75)));
        assert_eq!(before.since(&before), (0, None));
    }

    #[test]
    fn programs_that_no_process_waits_for_are_told_from_those_that_are_waited_for() {
        let cost = |script: &str| {
            let mut watch = CostWatch::new("unwaited");
            let words = [watch.prefix(), ["sh", "-c", script].map(String::from).to_vec()].concat();
            let mut child = Command::new(&words[0]).args(&words[1..]).spawn().expect("a shell");
            watch.ending();
            child.wait().expect("it ends");
            watch.group.is_some().then(|| watch.unwaited_ns())
        };
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let Some(waited) = cost(&format!("({spin}) | cat")) else { return };
        // The inner shell has lost its parent, and `cat` sees when it ends.
        let unwaited = cost(&format!("( ({spin}) & ) | cat"));
        assert!(unwaited.is_some_and(|ns| ns > waited + 50_000_000), "{waited} {unwaited:?}");
    }

    #[test]
    fn a_tree_that_forks_and_ends_is_still_paid_for() {
        let mut watch = CostWatch::new("test");
        let script =
            "read go; i=0; while [ $i -lt 20 ]; do (:); i=$((i+1)); done; echo done; read end";
        let words = [watch.prefix(), ["sh", "-c", script].map(String::from).to_vec()].concat();
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        watch.mark();
        let mut stdin = child.stdin.take().expect("it was piped");
        std::io::Write::write_all(&mut stdin, b"go\n").expect("it reads");
        let mut said = String::new();
        let stdout = child.stdout.take().expect("it was piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said)
            .expect("it answers");
        watch.unloaded(20);
        drop(stdin);
        child.wait().expect("it ends");
        let life = watch.ended(20);
        assert!(["cgroup", "ticks"].contains(&life.source.as_str()), "{life:?}");
        if life.source == "cgroup" {
            assert!(life.user_ns + life.system_ns > 0, "{life:?}");
        }
        assert!(life.faults_minor.is_some_and(|faults| faults > 0), "{life:?}");
    }
}
