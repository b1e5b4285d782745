//! A bound on the memory of a server and of the kernel on its behalf: a control group
//! (cgroups(7), version 2; the files are described in the kernel's admin-guide/cgroup-v2.rst).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The place of the groups on a machine with systemd.
const ROOT: &str = "/sys/fs/cgroup";

/// A group that a server is started in.
pub struct Cage {
    /// The words before the server's command line.
    pub before: Vec<String>,
    /// The group, if it is ours to remove.
    group: Option<PathBuf>,
}

impl Cage {
    /// A group of at most `bytes`; `None` without the permission to make one.
    pub fn new(bytes: u64) -> Option<Cage> {
        Cage::group(bytes).or_else(|| Cage::scope(bytes))
    }

    /// A group next to our own or above it: only groups without processes pass controllers on.
    fn group(bytes: u64) -> Option<Cage> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let own = Path::new(ROOT).join(own);
        let hands_on = |group: &&Path| {
            let controllers = fs::read_to_string(group.join("cgroup.subtree_control"));
            controllers.is_ok_and(|words| words.split_whitespace().any(|word| word == "memory"))
        };
        let above = own.ancestors().take_while(|path| path.starts_with(ROOT)).find(hands_on)?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let group = above.join(format!("roundhouse-it-{}-{serial}", std::process::id()));
        fs::create_dir(&group).ok()?;
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
        let before = ["sh", "-c", &enter].map(str::to_owned).to_vec();
        let cage = Cage { before, group: Some(group.clone()) };
        fs::write(group.join("memory.max"), bytes.to_string()).ok()?;
        // A machine without swap has no such file.
        let _ = fs::write(group.join("memory.swap.max"), "0");
        let mut try_it = Command::new(&cage.before[0]);
        let tried = try_it.args(&cage.before[1..]).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success()).then_some(cage)
    }

    /// A scope made by systemd.
    fn scope(bytes: u64) -> Option<Cage> {
        if !Path::new("/run/systemd/system").exists() {
            return None;
        }
        let bound = format!("MemoryMax={bytes}");
        let line = ["systemd-run", "--quiet", "--user", "--scope", "-p", &bound];
        let line = [&line[..], &["-p", "MemorySwapMax=0"]].concat();
        let mut try_it = Command::new(line[0]);
        try_it.args(&line[1..]).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
        let works = try_it.status().is_ok_and(|status| status.success());
        let before = line.iter().map(|&word| word.to_owned()).collect();
        works.then_some(Cage { before, group: None })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            // The kernel removes it only after its last process; a killed one may remain a moment.
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() {
                    return;
                }
                std::thread::sleep(super::ms(10));
            }
        }
    }
}
