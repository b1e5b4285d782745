//! The members of all rooms as they agreed with their sessions, in memory that all workers share. A
//! session writes its own member; the streaming worker copies all of them when one has changed.

use core::net::IpAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use memory::shared::{Bytes, Counter, SnapshotCell};
use seam::{Dead, PacketClass, Share, WorkerId};

use crate::live::Ring;

/// The maximum number of members of all rooms.
pub const MEMBERS: usize = 256;
/// The maximum number of speakers of a room that announce themselves.
pub const SPEAKERS: usize = 32;
/// The maximum number of tracks of a member: sound and pictures.
pub const TRACKS: usize = 2;
/// The longest name of a room or a member, and the longest description, in bytes.
pub(super) const NAME_MAX: usize = 64;
pub(super) const DESCRIPTION_MAX: usize = 2048;
/// The maximum number of speakers that a listener mutes.
pub(super) const DEAF_MAX: usize = SPEAKERS;

/// The state of a relay.
#[repr(C)]
pub struct Rooms {
    /// The datagrams that have arrived, of all rooms.
    pub(super) ring: Ring,
    /// Grows with each change of a member.
    pub(super) changes: Counter,
    /// The worker that runs the stream; 0 if none does.
    pub(super) sender: AtomicU32,
    /// Datagrams that the relay dropped because it was too far behind.
    pub(super) dropped: Counter,
    /// The number of seats that are taken.
    present: AtomicU64,
    members: [SnapshotCell<Member>; MEMBERS],
    /// When a packet or report of each member last arrived.
    pub(super) heard_ns: [AtomicU64; MEMBERS],
}

seam::share! {
    /// One member.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Member {
        /// Distinguishes members of one seat; 0 is an empty seat.
        pub id: u64,
        /// The worker of its session.
        pub owner: u32,
        /// Its session has begun: `RECORD` or `PLAY`.
        pub is_open: bool,
        /// `PAUSE`: a speaker is not relayed, a listener gets nothing.
        pub is_muted: bool,
        pub speaks: bool,
        pub room: Bytes<NAME_MAX>,
        /// The name of a speaker; the own name of a listener, whose packets it does not want.
        pub name: Bytes<NAME_MAX>,
        /// The only speaker that a listener wants; empty: all.
        pub only: Bytes<NAME_MAX>,
        pub description: Bytes<DESCRIPTION_MAX>,
        /// 4 or 16 bytes.
        pub ip: Bytes<16>,
        /// The member's ports for media and reports of each track; 0 if it is not set up.
        pub ports: [[u16; 2]; TRACKS],
        /// The position of each track's class in [`PacketClass::ALL`].
        pub classes: [u8; TRACKS],
        /// The [`key`]s of the speakers that a listener has muted; 0 is none.
        pub deaf: [u64; DEAF_MAX],
    }
}

// SAFETY: all-zero bytes are empty rooms; there is no pointer and no destructor; what changes
// through `&self` is atomic or lies behind the lock of its cell.
unsafe impl Share for Rooms {
    fn heal(&self, dead: Dead) {
        let worker = dead.worker();
        let _ = self.sender.compare_exchange(worker.bits(), 0, SeqCst, SeqCst);
        for (seat, member) in self.members.iter().enumerate() {
            member.heal(dead);
            if self.get(worker, seat).owner == worker.bits() {
                self.leave(worker, seat);
            }
        }
    }
}

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rooms").field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl Rooms {
    /// The members of all rooms that have announced themselves or listen.
    pub fn count(&self) -> u64 {
        self.present.load(Relaxed)
    }

    /// Datagrams that arrived, and those that were dropped because the relay was too far behind.
    pub fn datagrams(&self) -> (u64, u64) {
        (self.ring.count(), self.dropped.get())
    }

    pub(super) fn get(&self, me: WorkerId, seat: usize) -> Member {
        self.members[seat % MEMBERS].get(me)
    }

    /// The speakers of a room.
    pub(super) fn speakers<'a>(
        &'a self,
        me: WorkerId,
        room: &'a str,
    ) -> impl Iterator<Item = Member> + 'a {
        let all = (0..MEMBERS).map(move |seat| self.get(me, seat));
        all.filter(move |it| it.id != 0 && it.speaks && *it.room == *room.as_bytes())
    }

    /// Takes an empty seat; `None` if there is none.
    pub(super) fn arrive(&self, me: WorkerId, new: &Member) -> Option<usize> {
        let is_taken = |seat: &usize| {
            let cell = &self.members[*seat];
            cell.get(me).id == 0
                && cell.update(me, |old| if old.id == 0 { *new } else { old }).id == new.id
        };
        let seat = (0..MEMBERS).find(is_taken)?;
        self.present.fetch_add(1, Relaxed);
        Some(seat)
    }

    /// Changes a member.
    pub(super) fn update(&self, me: WorkerId, seat: usize, change: impl FnOnce(&mut Member)) {
        self.members[seat % MEMBERS].update(me, |mut member| {
            change(&mut member);
            member
        });
        self.changes.add(1);
    }

    /// Empties a seat.
    pub(super) fn leave(&self, me: WorkerId, seat: usize) {
        self.update(me, seat, |member| (member.id, member.owner) = (0, 0));
        self.present.fetch_sub(1, Relaxed);
    }

    /// Notes that a member was heard.
    pub(super) fn hear(&self, seat: usize, ns: u64) {
        self.heard_ns[seat % MEMBERS].store(ns, Relaxed);
    }
}

impl Member {
    /// A member without tracks; `None` if a text is too long.
    pub fn new(id: u64, me: WorkerId, [room, name, only]: [&str; 3], ip: IpAddr) -> Option<Member> {
        let ip = match ip {
            IpAddr::V4(ip) => Bytes::new(ip.octets()),
            IpAddr::V6(ip) => Bytes::new(ip.octets()),
        };
        Some(Member {
            id,
            owner: me.bits(),
            is_open: false,
            is_muted: false,
            speaks: false,
            room: Bytes::new(room)?,
            name: Bytes::new(name)?,
            only: Bytes::new(only)?,
            description: Bytes::new("")?,
            ip: ip?,
            ports: [[0; 2]; TRACKS],
            classes: [0; TRACKS],
            deaf: [0; DEAF_MAX],
        })
    }

    pub fn ip(&self) -> Option<IpAddr> {
        let four = <[u8; 4]>::try_from(&*self.ip).map(IpAddr::from);
        four.or_else(|_| <[u8; 16]>::try_from(&*self.ip).map(IpAddr::from)).ok()
    }

    pub fn class(&self, track: usize) -> PacketClass {
        PacketClass::ALL[usize::from(self.classes[track]) % PacketClass::ALL.len()]
    }

    /// Mutes or unmutes a speaker; false if too many are muted.
    pub fn set_deaf(&mut self, speaker: u64, is_deaf: bool) -> bool {
        let (old, new) = if is_deaf { (0, speaker) } else { (speaker, 0) };
        if self.deaf.contains(&speaker) == is_deaf {
            return true;
        }
        let place = self.deaf.iter_mut().find(|it| **it == old);
        place.map(|it| *it = new).is_some()
    }
}

/// A number of a name (FNV-1a), 0 for the empty one.
pub(super) fn key(name: &[u8]) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}
