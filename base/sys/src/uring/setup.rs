//! Making a ring: each flag is a switch, with a fallback where the kernel lacks it.
//!
//! A kernel that does not know a setup flag answers `EINVAL` without naming it. Newer kernels only
//! add flags, so the newest requested one is dropped, then the next newest, until the kernel
//! accepts: the rest is all that it knows.
//!
//! Two modes of io_uring are not among the switches. `IORING_SETUP_SQPOLL` makes a kernel thread
//! spin for each ring, which takes a core from a worker and excludes `DEFER_TASKRUN`. Descriptors
//! that exist only in the ring cannot be shut down, measured or passed by system calls, as the
//! engine needs.

use std::fmt;
use std::io;

use io_uring::{IoUring, opcode};

use super::refusal::{Call, Refusal};

/// A switch of a ring. The number after each name is the kernel version that introduced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `IORING_SETUP_SINGLE_ISSUER` (6.0): one thread submits.
    SingleIssuer,
    /// `IORING_SETUP_DEFER_TASKRUN` (6.1): completions are processed only while we wait. Needs
    /// [`Flag::SingleIssuer`].
    DeferTaskrun,
    /// `IORING_SETUP_COOP_TASKRUN` (5.19): a completion interrupts no thread. No effect with
    /// [`Flag::DeferTaskrun`].
    CoopTaskrun,
    /// `IORING_SETUP_SUBMIT_ALL` (5.18): one bad entry does not stop those after it.
    SubmitAll,
    /// `IORING_SETUP_CLAMP` (5.6): a queue that is too long is shortened instead of refused.
    Clamp,
    /// `IORING_SETUP_CQSIZE` (5.5): the completion queue is four times as long as the submission
    /// queue; the kernel's default is twice.
    Cqsize,
    /// `IORING_SETUP_NO_SQARRAY` (6.6): entries are submitted in their order, without an index.
    NoSqarray,
    /// `IORING_REGISTER_RING_FDS` (5.18): entering skips the lookup of the ring's descriptor.
    RegisteredFd,
    /// `IORING_ENTER_NO_IOWAIT` (6.15): a waiting worker does not count as waiting for a disk,
    /// which would raise the clock of an idle core.
    NoIowait,
    /// `IORING_RECVSEND_POLL_FIRST` (5.19): a receive that will have to wait is not tried first.
    PollFirst,
}

/// The flags with their names on the command line, oldest first.
pub const FLAGS: &[(Flag, &str)] = &[
    (Flag::Cqsize, "cqsize"),
    (Flag::Clamp, "clamp"),
    (Flag::SubmitAll, "submit-all"),
    (Flag::RegisteredFd, "registered-fd"),
    (Flag::CoopTaskrun, "coop-taskrun"),
    (Flag::PollFirst, "poll-first"),
    (Flag::SingleIssuer, "single-issuer"),
    (Flag::DeferTaskrun, "defer-taskrun"),
    (Flag::NoSqarray, "no-sqarray"),
    (Flag::NoIowait, "no-iowait"),
];

/// The flags of `io_uring_setup(2)`, oldest first.
const SETUP: &[Flag] = &[
    Flag::Cqsize,
    Flag::Clamp,
    Flag::SubmitAll,
    Flag::CoopTaskrun,
    Flag::SingleIssuer,
    Flag::DeferTaskrun,
    Flag::NoSqarray,
];

/// A set of [`Flag`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

/// Why a list of switches is invalid.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{}", self.0)]
pub struct BadFlags(String);

impl std::error::Error for BadFlags {}

impl Flags {
    /// No flag is switched on.
    pub const NONE: Flags = Flags(0);
    /// Every flag is switched on.
    pub const ALL: Flags = Flags((1 << FLAGS.len()) - 1);

    /// Whether the set has `flag`.
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & 1 << flag as u16 != 0
    }

    /// This set with `flag`.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Flags {
        Flags(self.0 | 1 << flag as u16)
    }

    /// This set without `flag`.
    #[must_use]
    pub const fn without(self, flag: Flag) -> Flags {
        Flags(self.0 & !(1 << flag as u16))
    }

    /// This set without any of `others`.
    #[must_use]
    pub const fn minus(self, others: Flags) -> Flags {
        Flags(self.0 & !others.0)
    }

    /// The names of the flags, oldest first.
    pub fn words(self) -> Vec<&'static str> {
        FLAGS.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, word)| *word).collect()
    }

    /// This set, changed by a list of switches such as `-defer-taskrun,+clamp`. A word without a
    /// sign is switched on, and `-all` and `+all` stand for every flag.
    ///
    /// # Errors
    /// A word that is no flag, with the list of flags; a flag without the one it needs.
    pub fn switched(self, list: &str) -> Result<Flags, BadFlags> {
        let mut flags = self;
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (on, word) = match item.strip_prefix('-') {
                Some(word) => (false, word),
                None => (true, item.strip_prefix('+').unwrap_or(item)),
            };
            let known = FLAGS.iter().find(|(_, known)| *known == word);
            flags = match known {
                Some((flag, _)) if on => flags.with(*flag),
                Some((flag, _)) => flags.without(*flag),
                None if word == "all" => {
                    if on {
                        Flags::ALL
                    } else {
                        Flags::NONE
                    }
                }
                None => {
                    let words = Flags::ALL.words().join(", ");
                    return Err(BadFlags(format!(
                        "expected + or - and one of {words}, all; found `{item}`"
                    )));
                }
            };
        }
        if flags.has(Flag::DeferTaskrun) && !flags.has(Flag::SingleIssuer) {
            return Err(BadFlags(String::from(
                "expected single-issuer with defer-taskrun, which needs it: switch both off \
                 (-single-issuer,-defer-taskrun)",
            )));
        }
        Ok(flags)
    }
}

impl Default for Flags {
    fn default() -> Flags {
        Flags::ALL
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}

/// The settings of a ring. Requested flags that the kernel lacks are left out;
/// [`super::Uring::flags`] and [`super::Uring::refused`] list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Submission queue entries, 1 to 32768; the kernel rounds up to a power of two.
    pub entries: u32,
    /// The requested flags.
    pub flags: Flags,
    /// The number of provided receive buffers: a power of two, at most 32768, or 0 for none.
    pub buffers: u16,
    /// Bytes in each of them.
    pub buffer_len: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { entries: 256, flags: Flags::default(), buffers: 256, buffer_len: 2048 }
    }
}

/// Makes a ring with all requested flags that the kernel knows; returns those too.
pub(super) fn build(setup: &Setup) -> Result<(IoUring, Flags), Refusal> {
    let mut wished = setup.flags;
    if !wished.has(Flag::SingleIssuer) {
        wished = wished.without(Flag::DeferTaskrun);
    }
    let (ring, mut flags) = settle(wished, |flags| {
        let mut builder = IoUring::builder();
        builder.dontfork();
        for &flag in SETUP.iter().filter(|flag| flags.has(**flag)) {
            match flag {
                Flag::Cqsize => builder.setup_cqsize(setup.entries.saturating_mul(4)),
                Flag::Clamp => builder.setup_clamp(),
                Flag::SubmitAll => builder.setup_submit_all(),
                Flag::CoopTaskrun => builder.setup_coop_taskrun(),
                Flag::SingleIssuer => builder.setup_single_issuer(),
                Flag::DeferTaskrun => builder.setup_defer_taskrun(),
                Flag::NoSqarray => builder.setup_no_sqarray(),
                Flag::RegisteredFd | Flag::NoIowait | Flag::PollFirst => continue,
            };
        }
        builder.build(setup.entries)
    })
    .map_err(|error| Refusal::of(Call::Setup, error))?;
    if !ring.params().is_feature_no_iowait() {
        flags = flags.without(Flag::NoIowait);
    }
    // Provided buffers came with the same kernel as that feature.
    let skilled = Feature::MultishotAccept.is_there(&ring);
    if !skilled.map_err(|error| Refusal::of(Call::Register, error))? {
        flags = flags.without(Flag::PollFirst);
    }
    Ok((ring, flags))
}

/// Tries all requested flags, then drops the newest until the answer is not `EINVAL`; returns the
/// answer and the flags.
fn settle<T>(wished: Flags, mut ask: impl FnMut(Flags) -> io::Result<T>) -> io::Result<(T, Flags)> {
    let mut flags = wished;
    loop {
        match ask(flags) {
            Ok(made) => return Ok((made, flags)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let newest = SETUP.iter().rev().find(|flag| flags.has(**flag));
                let Some(&newest) = newest else { return Err(error) };
                flags = flags.without(newest);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Kernel features besides flags. The kernel reports operations, not their modes, so a mode is
/// detected by an operation that came with the same kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `IORING_ACCEPT_MULTISHOT` and provided buffer rings (5.19, as `IORING_OP_SOCKET`).
    MultishotAccept,
    /// `IORING_RECV_MULTISHOT` (6.0, as `IORING_OP_SEND_ZC`).
    MultishotReceive,
}

impl Feature {
    pub(super) fn is_there(self, ring: &IoUring) -> io::Result<bool> {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(match self {
            Feature::MultishotAccept => opcode::Socket::CODE,
            Feature::MultishotReceive => opcode::SendZc::CODE,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_flags_are_dropped_until_the_kernel_agrees() {
        // The features that each kernel knows, as it would answer.
        let known = |flags: &[Flag]| flags.iter().fold(Flags::NONE, |set, flag| set.with(*flag));
        for upto in 0..=SETUP.len() {
            let kernel = known(&SETUP[..upto]);
            let mut asked = 0;
            let (made, flags) = settle(Flags::ALL, |flags| {
                asked += 1;
                let strange = known(SETUP).minus(kernel);
                let refused = SETUP.iter().any(|flag| flags.has(*flag) && strange.has(*flag));
                if refused { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(7) }
            })
            .unwrap();
            assert_eq!((made, asked), (7, SETUP.len() - upto + 1));
            assert_eq!(known(SETUP).minus(Flags::ALL.minus(flags)), kernel);
        }
    }

    #[test]
    fn other_refusals_are_no_matter_of_flags() {
        for errno in [libc::EPERM, libc::ENOMEM, libc::ENOSYS] {
            let mut asked = 0;
            let refused: io::Result<((), Flags)> = settle(Flags::ALL, |_| {
                asked += 1;
                Err(io::Error::from_raw_os_error(errno))
            });
            assert_eq!((refused.unwrap_err().raw_os_error(), asked), (Some(errno), 1));
        }
        let never: io::Result<((), Flags)> =
            settle(Flags::ALL, |_| Err(io::Error::from_raw_os_error(libc::EINVAL)));
        assert_eq!(never.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn switches_are_read() {
        let check = |list: &str, want: Flags| {
            assert_eq!(Flags::ALL.switched(list), Ok(want), "{list}");
        };
        check("", Flags::ALL);
        check("+clamp", Flags::ALL);
        check("-clamp", Flags::ALL.without(Flag::Clamp));
        check("-all,clamp, +cqsize", Flags::NONE.with(Flag::Clamp).with(Flag::Cqsize));
        check("-clamp,+clamp", Flags::ALL);
        check(
            "-defer-taskrun,-single-issuer",
            Flags::ALL.without(Flag::DeferTaskrun).without(Flag::SingleIssuer),
        );
        let words = |list| Flags::ALL.switched(list).unwrap_err().to_string();
        assert!(words("-clump").contains("`-clump`") && words("-clump").contains("no-sqarray"));
        assert!(words("-single-issuer").contains("-defer-taskrun"));
    }

    #[test]
    fn every_flag_has_a_word_and_a_place_of_its_own() {
        for (index, (flag, word)) in FLAGS.iter().enumerate() {
            assert_eq!(Flags::NONE.switched(word).is_ok(), *flag != Flag::DeferTaskrun);
            assert!(FLAGS[..index].iter().all(|(other, _)| other != flag));
        }
        assert_eq!(Flags::ALL.words().len(), FLAGS.len());
        assert_eq!(Flags::NONE.with(Flag::Clamp).to_string(), "clamp");
    }
}
