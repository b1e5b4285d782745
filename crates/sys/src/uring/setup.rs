//! How a ring is made: each flag a switch, and what is done where the kernel lacks one.
//!
//! A kernel that does not know a setup flag answers `EINVAL` and does not say which. Kernels only
//! ever learn flags, so the newest of those wished for is dropped, and the next newest, until the
//! kernel agrees: what is left is all that it knows.
//!
//! Two modes of io_uring are no switches. `IORING_SETUP_SQPOLL` lets a thread of the kernel's spin
//! for each ring, which takes a core from a worker and excludes `DEFER_TASKRUN`. Descriptors that
//! live in the ring only cannot be shut down, measured or passed by calls, which the engine does.

use std::fmt;
use std::io;

use io_uring::{IoUring, opcode};

use super::refusal::{Call, Refusal};

/// What can be switched about a ring. The number behind each is the kernel that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `IORING_SETUP_SINGLE_ISSUER` (6.0): one thread submits.
    SingleIssuer,
    /// `IORING_SETUP_DEFER_TASKRUN` (6.1): completions are made when we wait, not in between. Needs
    /// [`Flag::SingleIssuer`].
    DeferTaskrun,
    /// `IORING_SETUP_COOP_TASKRUN` (5.19): a completion interrupts nobody. Changes nothing beside
    /// [`Flag::DeferTaskrun`].
    CoopTaskrun,
    /// `IORING_SETUP_SUBMIT_ALL` (5.18): one bad entry does not hold up those behind it.
    SubmitAll,
    /// `IORING_SETUP_CLAMP` (5.6): a queue that is too long is shortened instead of refused.
    Clamp,
    /// `IORING_SETUP_CQSIZE` (5.5): the completion queue is four times as long as the other; by
    /// itself the kernel makes it twice as long.
    Cqsize,
    /// `IORING_SETUP_NO_SQARRAY` (6.6): entries are submitted in their order, without an index.
    NoSqarray,
    /// `IORING_REGISTER_RING_FDS` (5.18): an enter does not look the ring's descriptor up.
    RegisteredFd,
    /// `IORING_ENTER_NO_IOWAIT` (6.15): a worker that waits does not count as waiting for a disk,
    /// which would raise the clock of an idle core.
    NoIowait,
    /// `IORING_RECVSEND_POLL_FIRST` (5.19): a receive that will have to wait does not try first.
    PollFirst,
}

/// The flags with their words, the oldest first, as they are told and taken.
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

/// Those that `io_uring_setup(2)` decides about, the oldest first.
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

/// Why a list of switches is not understood, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFlags(String);

impl fmt::Display for BadFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadFlags {}

impl Flags {
    /// Nothing is switched on.
    pub const NONE: Flags = Flags(0);
    /// Everything is switched on.
    pub const ALL: Flags = Flags((1 << FLAGS.len()) - 1);

    /// Whether `flag` is among them.
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & 1 << flag as u16 != 0
    }

    /// These and `flag`.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Flags {
        Flags(self.0 | 1 << flag as u16)
    }

    /// These but not `flag`.
    #[must_use]
    pub const fn without(self, flag: Flag) -> Flags {
        Flags(self.0 & !(1 << flag as u16))
    }

    /// These but none of `others`.
    #[must_use]
    pub const fn minus(self, others: Flags) -> Flags {
        Flags(self.0 & !others.0)
    }

    /// Their words, the oldest flag first.
    pub fn words(self) -> Vec<&'static str> {
        FLAGS.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, word)| *word).collect()
    }

    /// These, changed by a list of switches such as `-defer-taskrun,+clamp`; a word without a sign
    /// is switched on, and `-all` and `+all` stand for every flag.
    ///
    /// # Errors
    /// A word that is no flag, with those that are; a flag without the one it needs.
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
                "expected single-issuer beside defer-taskrun, which needs it: switch both off \
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

/// How a ring is made. Each flag is wished for and done without where the kernel lacks it;
/// [`super::Uring::flags`] and [`super::Uring::refused`] tell which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Submission queue entries, 1 to 32768; the kernel rounds up to a power of two.
    pub entries: u32,
    /// What is wished for.
    pub flags: Flags,
    /// How many buffers are provided for receiving: a power of two, at most 32768, or 0 for none.
    pub buffers: u16,
    /// Bytes in each of them.
    pub buffer_len: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { entries: 256, flags: Flags::default(), buffers: 256, buffer_len: 2048 }
    }
}

/// Makes a ring with as many of the wished flags as the kernel knows; says which those are.
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
    // It came with the same kernel.
    let skilled = Skill::MultishotAccept.is_there(&ring);
    if !skilled.map_err(|error| Refusal::of(Call::Register, error))? {
        flags = flags.without(Flag::PollFirst);
    }
    Ok((ring, flags))
}

/// Asks with all that is wished for, then without the newest, until the answer is another than
/// `EINVAL`; with the answer comes what was asked for.
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

/// What a kernel can do beside its flags. It tells of operations, not of their modes, so that a
/// mode is known by an operation that came with the same kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skill {
    /// `IORING_ACCEPT_MULTISHOT` and provided buffer rings (5.19, as `IORING_OP_SOCKET`).
    MultishotAccept,
    /// `IORING_RECV_MULTISHOT` (6.0, as `IORING_OP_SEND_ZC`).
    MultishotReceive,
}

impl Skill {
    pub(super) fn is_there(self, ring: &IoUring) -> io::Result<bool> {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(match self {
            Skill::MultishotAccept => opcode::Socket::CODE,
            Skill::MultishotReceive => opcode::SendZc::CODE,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_flags_are_dropped_until_the_kernel_agrees() {
        // What each kernel knows, as it would answer.
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
