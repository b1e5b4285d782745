//! Why there is no ring, and the remedies.
//!
//! One error number has several causes: `EPERM` is a sysctl, a seccomp filter or a security module.
//! `/proc` is read afterwards to find the one.

use std::fmt;
use std::fs;
use std::io;

/// Why a ring could not be made.
#[derive(Debug)]
pub enum Refusal {
    /// The value of `kernel.io_uring_disabled`: 1 for unprivileged processes, 2 for all.
    Sysctl(u8),
    /// A seccomp filter of this process refuses the call of this name.
    Seccomp(Call),
    /// A security module (SELinux and others) forbids it, or something invisible to us.
    Forbidden,
    /// The machine or the control group is out of memory.
    Memory,
    /// No descriptor is left (`EMFILE`, `ENFILE`).
    Descriptors,
    /// The kernel, of this release, lacks a feature.
    Kernel {
        /// The feature.
        lacks: &'static str,
        /// The output of `uname -r`.
        release: String,
    },
    /// Any other error.
    Other(Call, io::Error),
}

/// The calls that a ring needs, `io_uring_setup(2)` and its two companions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Call {
    /// `io_uring_setup(2)`.
    #[display("io_uring_setup")]
    Setup,
    /// `io_uring_register(2)`.
    #[display("io_uring_register")]
    Register,
    /// `io_uring_enter(2)`.
    #[display("io_uring_enter")]
    Enter,
}

/// The facts that tell the causes apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    /// `kernel.io_uring_disabled`; kernels before 6.6 and those without io_uring have none.
    disabled: Option<u8>,
    /// This process has a seccomp filter.
    filtered: bool,
    /// It has `CAP_SYS_ADMIN`.
    admin: bool,
    /// `uname -r`.
    release: String,
}

const CAP_SYS_ADMIN: u32 = 21;

impl Facts {
    fn read() -> Facts {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = text("/proc/self/status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map_or("", str::trim)
        };
        let capabilities = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
        Facts {
            disabled: text("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
            filtered: field("Seccomp:") == "2",
            admin: capabilities >> CAP_SYS_ADMIN & 1 == 1,
            release: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl Refusal {
    /// The meaning of an error of `call` on this machine, in this process.
    pub(super) fn of(call: Call, error: io::Error) -> Refusal {
        Refusal::find(call, error, Facts::read())
    }

    fn find(call: Call, error: io::Error, facts: Facts) -> Refusal {
        let old = |lacks| Refusal::Kernel { lacks, release: facts.release.clone() };
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => match facts.disabled {
                Some(value @ 2..) => Refusal::Sysctl(value),
                Some(1) if !facts.admin => Refusal::Sysctl(1),
                _ if facts.filtered => Refusal::Seccomp(call),
                _ => Refusal::Forbidden,
            },
            // A kernel with this sysctl has io_uring, so the error comes from a filter.
            Some(libc::ENOSYS) if facts.filtered && facts.disabled.is_some() => {
                Refusal::Seccomp(call)
            }
            Some(libc::ENOSYS) => old("io_uring"),
            Some(libc::ENOMEM) => Refusal::Memory,
            Some(libc::EMFILE | libc::ENFILE) => Refusal::Descriptors,
            Some(libc::EINVAL) if call == Call::Setup => old("deferred completions (6.1)"),
            Some(libc::EINVAL) if call == Call::Register => old("provided buffer rings (5.19)"),
            _ => Refusal::Other(call, error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Sysctl(1) => f.write_str(
                "kernel.io_uring_disabled is 1, which leaves io_uring to the group \
                 kernel.io_uring_group and to CAP_SYS_ADMIN: join that group, or say `sysctl -w \
                 kernel.io_uring_disabled=0`",
            ),
            Refusal::Sysctl(value) => write!(
                f,
                "kernel.io_uring_disabled is {value}, which forbids io_uring to everybody: say \
                 `sysctl -w kernel.io_uring_disabled=0`"
            ),
            Refusal::Seccomp(call) => write!(
                f,
                "a seccomp filter of this process refuses {call}, as container runtimes do unless \
                 told otherwise: allow io_uring_setup, io_uring_enter and io_uring_register in the \
                 profile (docker: `--security-opt seccomp=PROFILE.json`)"
            ),
            Refusal::Forbidden => f.write_str(
                "neither a sysctl nor a seccomp filter forbids io_uring, so a security module \
                 does: look for the denial in the kernel's log, and allow it there",
            ),
            Refusal::Memory => f.write_str(
                "no memory is left for a ring: give the machine or the control group more, or use \
                 fewer workers",
            ),
            Refusal::Descriptors => {
                f.write_str("no descriptor is left for a ring: raise `ulimit -n`")
            }
            Refusal::Kernel { lacks, release } => {
                write!(f, "this kernel, {release}, lacks {lacks}: run Linux 6.1 or newer")
            }
            Refusal::Other(call, error) => write!(f, "{call}: {error}"),
        }?;
        match self {
            Refusal::Memory | Refusal::Descriptors | Refusal::Other(..) => Ok(()),
            _ => f.write_str(", or serve with epoll"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { disabled: Some(0), release: "6.18.1".to_owned(), ..Facts::default() }
    }

    #[track_caller]
    fn check(call: Call, errno: i32, facts: Facts, words: &[&str]) {
        let said = Refusal::find(call, io::Error::from_raw_os_error(errno), facts).to_string();
        for word in words {
            assert!(said.contains(word), "expected {word:?} in {said:?}");
        }
    }

    #[test]
    fn each_reason_comes_with_its_remedy() {
        let sysctl = |value| Facts { disabled: Some(value), ..facts() };
        let words = ["kernel.io_uring_disabled is 2", "kernel.io_uring_disabled=0", "epoll"];
        check(Call::Setup, libc::EPERM, sysctl(2), &words);
        let words = ["kernel.io_uring_disabled is 1", "kernel.io_uring_group"];
        check(Call::Setup, libc::EPERM, sysctl(1), &words);
        let filtered = Facts { filtered: true, ..facts() };
        let words = ["seccomp", "refuses io_uring_setup", "profile"];
        check(Call::Setup, libc::EPERM, filtered.clone(), &words);
        check(Call::Setup, libc::ENOSYS, filtered.clone(), &words);
        check(Call::Enter, libc::EACCES, filtered.clone(), &["refuses io_uring_enter"]);
        let privileged = Facts { admin: true, disabled: Some(1), ..filtered };
        check(Call::Setup, libc::EPERM, privileged, &["seccomp"]);
        check(Call::Setup, libc::EPERM, facts(), &["security module"]);
        check(Call::Setup, libc::ENOMEM, facts(), &["control group"]);
        check(Call::Setup, libc::EMFILE, facts(), &["ulimit -n"]);
        let old = Facts { disabled: None, release: "5.4.0".to_owned(), ..facts() };
        check(Call::Setup, libc::ENOSYS, old.clone(), &["5.4.0", "lacks io_uring", "6.1"]);
        check(Call::Setup, libc::EINVAL, old.clone(), &["deferred completions", "6.1"]);
        check(Call::Register, libc::EINVAL, old, &["buffer rings", "epoll"]);
        check(Call::Enter, libc::EFAULT, facts(), &["io_uring_enter", "os error 14"]);
    }

    #[test]
    fn the_facts_of_this_process_can_be_read() {
        let found = Facts::read();
        assert!(!found.release.is_empty(), "{found:?}");
    }
}
