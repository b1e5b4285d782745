//! A system call filter for a child, like that of a container runtime (seccomp(2)).
//!
//! It serves to test how a program behaves when calls are refused, and is no protection: it knows
//! only the native system call table.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::call::{check, check_long};
use crate::uring::Call;

/// A refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The call.
    pub call: Call,
    /// Refuse it only if its second argument equals this, such as the opcode of
    /// `io_uring_register(2)`.
    pub second: Option<u32>,
    /// The error to return.
    pub errno: u16,
}

/// Runs `command` under a filter that refuses the `rules` and allows everything else. Its children
/// inherit the filter. Where the kernel has no seccomp, starting `command` fails.
pub fn confine(command: &mut Command, rules: &[Rule]) {
    let filter = program(rules);
    let install = move || {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the first call takes numbers; the second reads the program, which outlives it.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            check_long(libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program))?;
        }
        io::Result::Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls and touches no lock and no allocator;
    // the filter was built before.
    unsafe { command.pre_exec(install) };
}

// Offsets in `struct seccomp_data`: the call number, and the low half of its second argument.
const NUMBER: u32 = 0;
const SECOND: u32 = if cfg!(target_endian = "little") { 24 } else { 28 };

/// The rules as a classic BPF program.
fn program(rules: &[Rule]) -> Vec<libc::sock_filter> {
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0);
    let equal =
        |what, else_skip| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, what, else_skip);
    let answer = |what| step(libc::BPF_RET | libc::BPF_K, what, 0);
    let mut steps = Vec::new();
    for rule in rules {
        let number = match rule.call {
            Call::Setup => libc::SYS_io_uring_setup,
            Call::Register => libc::SYS_io_uring_register,
            Call::Enter => libc::SYS_io_uring_enter,
        };
        steps.push(load(NUMBER));
        steps.push(equal(number as u32, if rule.second.is_some() { 3 } else { 1 }));
        if let Some(second) = rule.second {
            steps.extend([load(SECOND), equal(second, 1)]);
        }
        steps.push(answer(libc::SECCOMP_RET_ERRNO | u32::from(rule.errno)));
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    steps
}

fn step(code: u32, k: u32, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_skipped_where_it_does_not_apply() {
        let rule = Rule { call: Call::Register, second: Some(20), errno: 22 };
        let steps = program(&[rule, Rule { second: None, ..rule }]);
        // Each jump leads to the next rule's load, or to the final return.
        let after = |at: usize| at + 1 + usize::from(steps[at].jf);
        assert_eq!((after(1), after(3), after(6)), (5, 5, 8));
        assert_eq!(steps.len(), 9);
        assert_eq!(steps[8].k, libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn a_confined_child_runs_and_says_so() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        confine(&mut command, &[Rule { call: Call::Setup, second: None, errno: 1 }]);
        let Ok(output) = command.output() else {
            println!("skipped: this kernel has no filters of system calls");
            return;
        };
        let status = String::from_utf8_lossy(&output.stdout);
        assert!(status.lines().any(|line| line == "Seccomp:\t2"), "{status}");
    }
}
