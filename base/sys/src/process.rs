//! Processes: fork, watch, end (fork(2), pidfd_open(2), waitpid(2), prctl(2)).
//!
//! [`fork`] is a safe function because it refuses to fork where that would be unsafe. The child of
//! a multi-threaded process has one thread and the locks of all of them, above all the allocator's.
//! With a single thread the child is a complete copy.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use rustix::io::retry_on_intr;
use rustix::process::{PidfdFlags, WaitOptions, waitpid};

use crate::call::{check, uninterrupted};
use crate::signal::Signal;

/// The addresses of the C library's functions that allocate: what a program calls through them can
/// be counted by probes (malloc(3), posix_memalign(3)).
#[must_use]
pub fn allocator_calls() -> [usize; 4] {
    [
        libc::malloc as *const () as usize,
        libc::calloc as *const () as usize,
        libc::realloc as *const () as usize,
        libc::posix_memalign as *const () as usize,
    ]
}

/// A process id; always positive, because zero and negative numbers mean groups of processes to
/// kill(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.0)]
pub struct Pid(i32);

impl Pid {
    /// The process with this id; `None` unless it is positive.
    #[must_use]
    pub fn of(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Its id.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    pub(crate) fn raw(self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.0).expect("a process id is positive")
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pid({})", self.0)
    }
}

/// The process that is running after a [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The child. It must not return to the caller's caller: end it with [`exit_now`].
    Child,
    /// The parent, with the id of the child.
    Parent(Pid),
}

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Exit {
    /// It exited with this code, 0 to 255.
    #[display("exit code {_0}")]
    Code(i32),
    /// A signal ended it.
    #[display("killed by {_0}")]
    Signal(Signal),
}

/// Splits this process in two. Memory is copied lazily, shared mappings stay shared, descriptors
/// are the same open files in both.
///
/// # Errors
/// `Unsupported` where the calling process has a second thread (also one that the kernel made for
/// io_uring), or where `/proc` cannot tell; `EAGAIN` at the limit of processes; `ENOMEM`.
pub fn fork() -> io::Result<Fork> {
    let threads = count_threads()?;
    if threads != 1 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "expected one thread in /proc/self/task before a fork, found {threads}; \
                 fork before threads and rings are made"
            ),
        ));
    }
    // SAFETY: the calling thread is the only one of the process, and no other thread can have
    // started since the count, so the child finds no lock held by a thread that it does not have.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        number => Ok(Fork::Parent(Pid(number))),
    }
}

/// Splits off a process that ends at once, and waits for its end: what a process costs before it
/// does anything. Unlike [`fork`] it may be called alongside other threads.
///
/// # Errors
/// `EAGAIN` at the limit of processes; `ENOMEM`.
pub fn fork_in_vain() -> io::Result<()> {
    // SAFETY: the child calls only `_exit`, which may be called after a fork alongside other
    // threads (signal-safety(7)).
    let child = match check(unsafe { libc::fork() })? {
        // SAFETY: it takes a number and does not return.
        0 => unsafe { libc::_exit(0) },
        number => Pid(number),
    };
    wait(child).map(|_| ())
}

/// The link count of the task directory is the number of threads plus two; listing the directory
/// would be noticeable with a fork per connection.
fn count_threads() -> io::Result<u64> {
    let tasks = std::fs::metadata("/proc/self/task").map_err(|error| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "expected /proc/self/task to count threads before a fork: {error}; mount /proc"
            ),
        )
    })?;
    Ok(tasks.nlink().saturating_sub(2))
}

/// Does `work` on a thread with its own copy of the descriptor table, in which `spare` is closed.
/// So one descriptor can be opened there even at the process's limit, and no other thread can take
/// it first (unshare(2), `CLONE_FILES`).
///
/// Descriptors opened there are not open here, and those closed here meanwhile are closed to their
/// peers only after `work`.
///
/// # Errors
/// `EAGAIN` at the limit of threads; `EPERM` where a filter forbids unshare(2), as container
/// runtimes do; `ENOMEM`. Nothing was done then.
///
/// # Panics
/// As `work`.
pub fn apart<T: Send>(spare: BorrowedFd<'_>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let number = spare.as_raw_fd();
    let begin = move || {
        // SAFETY: no memory is passed, and the copy has the same numbers.
        check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
        // SAFETY: in the copy, which this thread alone has, nothing owns or uses the number: the
        // borrowed descriptor belongs to the caller, and by contract `work` does not use it.
        check(unsafe { libc::close(number) })?;
        Ok(work())
    };
    thread::scope(|scope| {
        let begun = thread::Builder::new().name("apart".into()).spawn_scoped(scope, begin)?;
        begun.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// A descriptor that becomes readable when `pid` ends. Close-on-exec. The process must be a child
/// that was not reaped, or its id may have been reused.
///
/// # Errors
/// `ESRCH` if there is no such process, `EMFILE`, `ENFILE`.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(pid.raw(), PidfdFlags::empty())?)
}

/// Reaps the child `pid` if it has ended; `None` while it runs. The kernel may reuse a reaped id.
///
/// # Errors
/// `ECHILD` if it is not our child or was reaped already.
pub fn reap(pid: Pid) -> io::Result<Option<Exit>> {
    wait_for(pid, WaitOptions::NOHANG)
}

/// Waits until the child `pid` has ended and reaps it.
///
/// # Errors
/// `ECHILD` if it is not our child or was reaped already.
pub fn wait(pid: Pid) -> io::Result<Exit> {
    loop {
        if let Some(exit) = wait_for(pid, WaitOptions::empty())? {
            return Ok(exit);
        }
    }
}

/// A child that has ended and was not reaped; `None` if there is none. It stays until [`reap`].
#[must_use]
pub fn ended() -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let found = uninterrupted(|| {
        // SAFETY: `info` is writable.
        check(unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) })
    });
    // The only error is that there are no children (`ECHILD`).
    found.ok()?;
    // SAFETY: the record was zeroed, and filled by the kernel if there is such a child.
    Pid::of(unsafe { info.assume_init().si_pid() })
}

/// Gives unused pages of the heap back to the kernel (malloc_trim(3)): a fork copies the tables of
/// all others. Does nothing under a C library without that call.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no memory is passed, and memory in use stays as it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn wait_for(pid: Pid, options: WaitOptions) -> io::Result<Option<Exit>> {
    let found = retry_on_intr(|| waitpid(Some(pid.raw()), options))?;
    // A process that is stopped or continued is reported to tracers only, and has not ended.
    Ok(found.and_then(|(_, status)| match status.exit_status() {
        Some(code) => Some(Exit::Code(code)),
        None => Some(Exit::Signal(Signal::of(status.terminating_signal()?))),
    }))
}

/// Sends `signal` to `pid`.
///
/// # Errors
/// `ESRCH` if there is no such process, `EPERM`, `EINVAL` for an invalid signal.
pub fn kill(pid: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::kill(pid.0, signal.number()) }).map(|_| ())
}

/// Makes the kernel end this process before those with the ordinary score when memory runs out
/// (proc_pid_oom_score_adj(5)). Needs no privilege.
///
/// # Errors
/// `/proc` is not mounted or not writable.
pub fn end_first_without_memory() -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "500")
}

/// Asks the kernel to send `signal` to this process when its parent ends. An end before this call
/// goes unnoticed, so compare [`parent`] afterwards with the id known from before the fork. The
/// kernel watches the **thread** that forked: a parent must fork from a thread that stays.
///
/// # Errors
/// `EINVAL` for an invalid signal.
pub fn set_parent_death_signal(signal: Signal) -> io::Result<()> {
    let number = libc::c_ulong::from(signal.number().cast_unsigned());
    // SAFETY: this option takes a number, no memory.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number) }).map(|_| ())
}

/// Keeps other programs of the same user from this process's memory and descriptors in `/proc`
/// (PR_SET_DUMPABLE, PR_SET_DUMPABLE(2const)). Programs that run as root still reach them.
///
/// # Errors
/// Those of prctl(2).
pub fn shut_proc() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Sends `signal` to the process of `command` when the thread that starts it ends, as
/// [`set_parent_death_signal`] does. The setting survives an exec, but not that of a set-user-ID
/// program (prctl(2)).
pub fn end_with_parent(command: &mut Command, signal: Signal) {
    let starter = this();
    let set = move || {
        set_parent_death_signal(signal)?;
        if parent() == Some(starter) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls and touches no lock and no allocator.
    unsafe { command.pre_exec(set) };
}

/// Ends this process at once, without flushing or running destructors or exit handlers. A forked
/// child must end this way, because its copy of the parent's buffers is the parent's to write.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ending has no precondition.
    unsafe { libc::_exit(code) }
}

/// This process.
#[must_use]
pub fn this() -> Pid {
    Pid(rustix::process::getpid().as_raw_pid())
}

/// The parent of this process; `None` if it is in another process namespace.
#[must_use]
pub fn parent() -> Option<Pid> {
    rustix::process::getppid().map(|pid| Pid(pid.as_raw_pid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The harness runs this next to a main thread; tests/fork.rs tries forks that succeed.
    #[test]
    fn a_process_with_threads_is_refused() {
        let error = std::thread::spawn(fork).join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("/proc/self/task"), "{error}");
    }

    #[test]
    fn apart_a_number_is_free_that_is_taken_here() {
        use crate::inherit::is_inheritable;
        use std::fs::File;
        use std::os::fd::AsFd;
        let open = || File::open("/dev/null").unwrap();
        let spare = open();
        let others: Vec<File> = (0..3).map(|_| open()).collect();
        let there = apart(spare.as_fd(), || {
            let seen = others.iter().all(|file| is_inheritable(file).is_ok());
            (seen, is_inheritable(&spare).is_ok(), open().as_raw_fd() <= spare.as_raw_fd())
        });
        match there {
            Ok(there) => assert_eq!(there, (true, false, true)),
            // A filter forbids the call, as container runtimes do.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}"),
        }
        assert!(is_inheritable(&spare).is_ok());
    }

    #[test]
    fn numbers_of_groups_are_no_processes() {
        assert_eq!(Pid::of(0), None);
        assert_eq!(Pid::of(-1), None);
        assert_eq!(Pid::of(this().number()), Some(this()));
        assert_eq!(this().number().cast_unsigned(), std::process::id());
        assert_eq!(
            parent().map(|pid| pid.number().cast_unsigned()),
            Some(std::os::unix::process::parent_id())
        );
    }

    #[test]
    fn who_is_no_child_cannot_be_collected() {
        assert_eq!(reap(this()).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        kill(this(), Signal::CONT).unwrap();
        assert_eq!(kill(this(), Signal::of(999)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
