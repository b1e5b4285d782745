//! Plain numbers that name workers, sessions and files.

use core::cell::Cell;
use core::fmt;

const SLOT_BITS: u32 = 12;
const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;

/// The maximum number of live workers: the width of the shard field of a [`SessionId`].
pub const SHARDS_MAX: usize = 1 << SLOT_BITS;

/// A worker, thread or process: a slot and a generation.
///
/// Slots are reused when a worker is replaced and generations are not, so a lock that names its
/// owner cannot mistake a successor for a dead worker. The value 0 names no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(u32);

thread_local! {
    /// Other threads of the program, such as a test's, have the last name of all.
    static ME: Cell<WorkerId> =
        const { Cell::new(WorkerId::new(SHARDS_MAX - 1, WorkerId::GENERATION_MAX)) };
}

impl WorkerId {
    /// The largest generation; the first follows it.
    pub const GENERATION_MAX: u32 = (1 << (32 - SLOT_BITS)) - 1;

    /// Names the `generation`-th worker in `slot`.
    ///
    /// # Panics
    /// If `slot` is not below [`SHARDS_MAX`], or `generation` is 0 or needs more than 20 bits. Both
    /// come from the supervisor, never from a peer.
    pub const fn new(slot: usize, generation: u32) -> WorkerId {
        assert!(slot < SHARDS_MAX && generation > 0 && generation < 1 << (32 - SLOT_BITS));
        WorkerId(generation << SLOT_BITS | slot as u32)
    }

    /// The name for a number read from shared memory; `None` for 0, which names no worker.
    pub const fn from_bits(bits: u32) -> Option<WorkerId> {
        if bits >> SLOT_BITS == 0 { None } else { Some(WorkerId(bits)) }
    }

    /// The worker that this thread works for, or a name that no worker has. Engines and the
    /// simulator say it before a service is called; a helper thread has the name of its worker,
    /// which ends after it.
    pub fn current() -> WorkerId {
        ME.get()
    }

    /// This thread works for this worker from now on.
    #[inline]
    pub fn enter(self) {
        ME.set(self);
    }

    /// The number that stands for this worker in shared memory; never 0.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Its worker slot on the scoreboard, below [`SHARDS_MAX`].
    pub const fn slot(self) -> usize {
        (self.0 & (SHARDS_MAX as u32 - 1)) as usize
    }

    /// The number of workers that have had that slot, this one included; at least 1.
    pub const fn generation(self) -> u32 {
        self.0 >> SLOT_BITS
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.generation())
    }
}

/// The unique name of a connection for the server's lifetime: shard,
/// index and generation in 60 bits.
///
/// The top four bits are always zero, so an engine can tag the number and use it as `epoll` data or
/// as `io_uring` user data. The generation distinguishes a late event of a closed connection from
/// one of its successor in the same table slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

impl SessionId {
    /// Names no session: [`crate::Cx::me`] in a tick.
    pub const NONE: SessionId = SessionId(0);
    /// The maximum number of sessions in a shard at once.
    pub const INDEX_MAX: u32 = 1 << INDEX_BITS;
    /// The generation after which a table slot must be retired.
    pub const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;

    /// Names the `generation`-th session in slot `index` of the worker in worker slot `shard`.
    ///
    /// # Panics
    /// If a field does not fit or `generation` is 0. All fields come
    /// from a table, never from a peer.
    pub const fn new(shard: usize, index: u32, generation: u32) -> SessionId {
        assert!(shard < SHARDS_MAX && index < SessionId::INDEX_MAX);
        assert!(generation > 0 && generation <= SessionId::GENERATION_MAX);
        let high = (shard as u64) << GENERATION_BITS | generation as u64;
        SessionId(high << INDEX_BITS | index as u64)
    }

    /// The name for a number that came back from the kernel; tag bits must be cleared.
    pub const fn from_bits(bits: u64) -> SessionId {
        debug_assert!(bits >> 60 == 0);
        SessionId(bits)
    }

    /// The number for this name; its top four bits are zero.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The worker slot of the session's worker.
    pub const fn shard(self) -> usize {
        (self.0 >> (INDEX_BITS + GENERATION_BITS)) as usize
    }

    /// Its slot in that worker's table.
    pub const fn index(self) -> u32 {
        (self.0 & (SessionId::INDEX_MAX as u64 - 1)) as u32
    }

    /// The number of sessions that have had that slot, this one included.
    pub const fn generation(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32 & SessionId::GENERATION_MAX
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.shard(), self.index(), self.generation())
    }
}

/// A file opened by the launcher or a job; the service never sees a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssetId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_packing_and_leave_the_tag_bits_free() {
        let id =
            SessionId::new(SHARDS_MAX - 1, SessionId::INDEX_MAX - 1, SessionId::GENERATION_MAX);
        assert_eq!(id.shard(), SHARDS_MAX - 1);
        assert_eq!(id.index(), SessionId::INDEX_MAX - 1);
        assert_eq!(id.generation(), SessionId::GENERATION_MAX);
        assert_eq!(id.bits() >> 60, 0);
        assert_eq!(SessionId::from_bits(id.bits()), id);
        let worker = WorkerId::new(77, 3);
        assert_eq!((worker.slot(), worker.generation()), (77, 3));
        assert_eq!(WorkerId::from_bits(worker.bits()), Some(worker));
        assert_eq!(WorkerId::from_bits(0), None);
    }
}
