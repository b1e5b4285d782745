//! Signals as input of a loop (signalfd(2)) instead of interruptions.
//!
//! A thread blocks the signals it wants to read; threads and processes made afterwards inherit the
//! mask. The supervisor of a server without handlers reads all of them from one descriptor.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::call::{check, check_count, uninterrupted};

/// A signal by its number (signal(7)).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! signals {
    ($($name:ident = $number:ident),* $(,)?) => {
        impl Signal {
            $(#[doc = concat!("`", stringify!($number), "`.")]
            pub const $name: Self = Self(libc::$number);)*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(libc::$number => Some(stringify!($number)),)*
                    _ => None,
                }
            }
        }
    };
}

signals! {
    ABRT = SIGABRT, ALRM = SIGALRM, BUS = SIGBUS, CHLD = SIGCHLD, CONT = SIGCONT, HUP = SIGHUP,
    INT = SIGINT, KILL = SIGKILL, PIPE = SIGPIPE, QUIT = SIGQUIT, SEGV = SIGSEGV, STOP = SIGSTOP,
    TERM = SIGTERM, USR1 = SIGUSR1, USR2 = SIGUSR2, WINCH = SIGWINCH,
}

impl Signal {
    /// The signal with this number, from a wait status or outside.
    #[must_use]
    pub fn of(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// The set of these signals.
    ///
    /// # Errors
    /// `EINVAL` for an invalid signal.
    pub fn of(signals: &[Signal]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set that it is given.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for signal in signals {
            // SAFETY: the set is initialised and writable.
            check(unsafe { libc::sigaddset(&mut set, signal.0) })?;
        }
        Ok(Self(set))
    }

    /// Whether `signal` is in it.
    #[must_use]
    pub fn contains(&self, signal: Signal) -> bool {
        // SAFETY: the set is initialised and readable; a bad number answers -1.
        unsafe { libc::sigismember(&self.0, signal.0) == 1 }
    }
}

/// Blocks `signals` in the calling thread, in addition to those already blocked; returns the
/// previous set for [`restore`].
///
/// # Errors
/// `EINVAL` for an invalid signal.
pub fn block(signals: &[Signal]) -> io::Result<SignalSet> {
    mask(libc::SIG_BLOCK, &SignalSet::of(signals)?)
}

/// Makes `set` the blocked signals of the calling thread.
///
/// # Errors
/// None in practice.
pub fn restore(set: &SignalSet) -> io::Result<()> {
    mask(libc::SIG_SETMASK, set).map(|_| ())
}

fn mask(how: libc::c_int, set: &SignalSet) -> io::Result<SignalSet> {
    let mut former = SignalSet::of(&[])?;
    // SAFETY: both sets are initialised, and the former one is writable.
    match unsafe { libc::pthread_sigmask(how, &set.0, &mut former.0) } {
        0 => Ok(former),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Restores the default action of `signal`, mostly to end the process.
///
/// # Errors
/// `EINVAL` for `KILL`, `STOP` and invalid signals.
pub fn set_default(signal: Signal) -> io::Result<()> {
    // SAFETY: the default action runs no code of ours.
    let former = unsafe { libc::signal(signal.0, libc::SIG_DFL) };
    if former == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A descriptor that is readable while one of its signals is pending. Equal signals between two
/// reads merge into one.
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Reads `signals`, which must be blocked (by [`block`]) in every thread of the process, or
    /// they are delivered as usual.
    ///
    /// # Errors
    /// `EINVAL` for an invalid signal, `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = SignalSet::of(signals)?;
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: the set is initialised; -1 requests a new descriptor.
        let fd = check(unsafe { libc::signalfd(-1, &set.0, flags) })?;
        // SAFETY: the call made `fd` and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes one pending signal; `None` if there is none.
    ///
    /// # Errors
    /// None in practice.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let len = size_of_val(&info);
        let result = uninterrupted(|| {
            // SAFETY: `info` is writable for the announced length.
            check_count(unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), len) })
        });
        match result {
            Ok(read) => {
                assert_eq!(read, len, "a signalfd gives whole records (signalfd(2))");
                // SAFETY: the kernel has filled the whole record, which is made of integers.
                let number = unsafe { ptr::addr_of!((*info.as_ptr()).ssi_signo).read() };
                Ok(Some(Signal(number.cast_signed())))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise_here(signal: Signal) {
        // SAFETY: no memory is passed; pthread_kill of ourselves reaches this thread only.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal.0) }, 0);
    }

    #[test]
    fn a_blocked_signal_is_read_once() {
        let former = block(&[Signal::USR1, Signal::USR2]).unwrap();
        let signals = SignalFd::new(&[Signal::USR1, Signal::USR2]).unwrap();
        assert_eq!(signals.read().unwrap(), None);
        raise_here(Signal::USR2);
        raise_here(Signal::USR1);
        raise_here(Signal::USR1);
        assert_eq!(signals.read().unwrap(), Some(Signal::USR1));
        assert_eq!(signals.read().unwrap(), Some(Signal::USR2));
        assert_eq!(signals.read().unwrap(), None);
        restore(&former).unwrap();
    }

    #[test]
    fn masks_nest() {
        let first = block(&[Signal::HUP]).unwrap();
        assert!(!first.contains(Signal::HUP));
        let second = block(&[Signal::ALRM]).unwrap();
        assert!(second.contains(Signal::HUP) && !second.contains(Signal::ALRM));
        restore(&first).unwrap();
        assert!(!block(&[]).unwrap().contains(Signal::ALRM));
    }

    #[test]
    fn a_signal_knows_its_name() {
        assert_eq!(Signal::TERM.to_string(), "SIGTERM");
        assert_eq!(Signal::of(63).to_string(), "signal 63");
        assert!(SignalSet::of(&[Signal::of(0)]).is_err());
    }
}
