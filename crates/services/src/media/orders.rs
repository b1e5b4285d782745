//! What sessions order and streaming workers play: one slot for each transmission by datagrams, in
//! memory that all workers see, be they threads or processes.
//!
//! A slot has one writer on each side. The session writes the order under a count that is odd
//! while it writes, so that a streaming worker never acts on half of one; the streaming worker
//! writes how far it has come, and what receivers report. Who owns a slot is one word that changes
//! hands by exchange:
//!
//! ```text
//!   free -> held -> ordered -> taken -> held (the stream ended) | free (and nobody wants it)
//! ```
//!
//! The surprising thing is how a report finds its slot: the lower bits of a sender's number are the
//! slot's, masked by a secret. The upper ones are chance, as RFC 3550 wants all of them to be.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use seam::{BadSeed, Instant, Share, WorkerId};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

use wire::rtcp::ReceptionReport;

use super::group::{GROUPS, Group};
use super::run::Segment;

/// How many transmissions there can be.
pub const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;
/// The longest path of a file, in bytes.
pub const PATH_MAX: usize = 256;

/// Who owns a slot.
const FREE: u32 = 0;
const HELD: u32 = 1;
const ORDERED: u32 = 2;
const TAKEN: u32 = 3;

/// Bits of [`Slot::flags`].
const ENDS: u32 = 1;
const V4: u32 = 2;
const ALONE: u32 = 4;
const MEMBER: u32 = 8;
/// What does not change with the order.
const KEPT: u32 = V4 | ALONE | MEMBER;
/// Bits of [`Slot::wish`].
const GOES: u32 = 1;
const LEAVES: u32 = 2;

/// The shared state of the media service. All-zero bytes are a server without guests.
#[repr(C)]
pub struct Orders {
    /// What names and numbers are drawn from, by whoever serves this state.
    secret: [u8; 16],
    /// Masks the slots' numbers in the names of senders.
    mask: u32,
    hint: AtomicU32,
    ordered: [AtomicU64; SLOTS / 64],
    /// Which slots stand for sessions that listen to a group.
    pub(super) members: [AtomicU64; SLOTS / 64],
    /// When and how often it was last looked for whom a report to a group is from.
    pub(super) sought: AtomicU64,
    pub(super) groups: [Group; GROUPS],
    pub(super) slots: [Slot; SLOTS],
}

#[repr(C)]
pub(super) struct Slot {
    phase: AtomicU32,
    /// Odd while the order is being written; grows with each order.
    epoch: AtomicU32,
    session: AtomicU32,
    worker: AtomicU32,
    wish: AtomicU32,
    flags: AtomicU32,
    ssrc: AtomicU32,
    track: AtomicU32,
    address: [AtomicU64; 2],
    ports: AtomicU32,
    path_len: AtomicU32,
    stamp: AtomicU64,
    first: AtomicU64,
    stop: AtomicU64,
    /// Of a member: the group.
    from_ns: AtomicU64,
    /// Of a member: the slot of what it listens to, one up.
    pub(super) begin: AtomicU64,
    /// Of a member: by which name it reports, and a bit above if that is known.
    pub(super) numbers: AtomicU64,
    /// The next packet, and the lower 16 bits of the epoch that it belongs to.
    next: AtomicU64,
    packets: AtomicU32,
    octets: AtomicU32,
    lost: AtomicU32,
    jitter: AtomicU32,
    lost_share: AtomicU32,
    round_trip_ns: AtomicU64,
    heard_at: AtomicU64,
    path: [AtomicU64; PATH_MAX / 8],
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Media.
    pub rtp: SocketAddr,
    /// Control.
    pub rtcp: SocketAddr,
}

/// An order, as a streaming worker reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub epoch: u32,
    /// What to play.
    pub segment: Segment,
    /// Whether it is to be played.
    pub goes: bool,
    /// Whether it is to be ended.
    pub leaves: bool,
}

/// What is known of how a transmission is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// When a report came last, if one did.
    pub at: Option<Instant>,
    /// Packets sent.
    pub packets: u32,
    /// Packets lost since the beginning.
    pub lost: i32,
    /// The share lost lately, in 256ths.
    pub lost_share: u8,
    /// The jitter, in ticks of the media.
    pub jitter: u32,
    /// The time there and back, if it is known.
    pub round_trip: Option<Duration>,
}

/// What is known of how all transmissions are received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Transmissions of which somebody has reported.
    pub reporting: u64,
    /// Packets sent to those.
    pub packets: u64,
    /// How many of them were lost.
    pub lost: i64,
    /// The largest share lost lately, in 256ths.
    pub lost_share: u8,
    /// The longest time there and back.
    pub round_trip: Duration,
}

/// A transmission, for who sets it up.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Of which file.
    pub path: &'a str,
    /// Which state of the file.
    pub stamp: u64,
    /// Which track.
    pub track: usize,
    /// To whom.
    pub goal: Goal,
    /// 32 bits of chance.
    pub chance: u32,
    /// Nobody will order more of it than is ordered first: its end is the end.
    pub alone: bool,
}

// SAFETY: all-zero bytes are free slots and no orders; there is no pointer and no destructor; what
// changes through `&self` is atomic.
unsafe impl Share for Orders {
    /// The seed is 16 bytes of chance, or fewer.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let mask = seed.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.mask = mask & (SLOTS as u32 - 1);
        let chance = seed.iter().take(16);
        self.secret.iter_mut().zip(chance).for_each(|(own, seed)| *own = *seed);
        Ok(())
    }

    fn heal(&self, dead: WorkerId) {
        self.heal_groups(dead);
        for slot in 0..SLOTS {
            let it = &self.slots[slot];
            let phase = it.phase.load(SeqCst);
            if phase == FREE {
                continue;
            }
            if phase == TAKEN && it.worker.load(Relaxed) == dead.bits() {
                // Whoever takes it up next goes on where this one was.
                self.put_back(slot, true);
            }
            if it.session.load(Relaxed) != dead.bits() {
                continue;
            }
            match it.flags.load(Relaxed) & MEMBER {
                0 => self.release(slot),
                _ => self.leave(dead, slot),
            }
        }
    }
}

impl Orders {
    /// What names and numbers are drawn from.
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    // ---- the session's side

    /// Takes a free slot and sets it up; `None` if there is none, or `most` go to this address
    /// already. Says which it is and by which name it sends.
    pub fn set_up(&self, me: WorkerId, setup: &Setup<'_>, most: usize) -> Option<(usize, u32)> {
        if setup.path.len() > PATH_MAX || self.count_to(setup.goal.rtp.ip()) >= most {
            return None;
        }
        let slot = self.claim()?;
        let it = &self.slots[slot];
        it.session.store(me.bits(), Relaxed);
        it.worker.store(0, Relaxed);
        it.wish.store(0, Relaxed);
        let slot_bits = (slot as u32) ^ self.mask;
        let ssrc = (setup.chance & !(SLOTS as u32 - 1)) | slot_bits;
        it.ssrc.store(ssrc, Relaxed);
        it.track.store(setup.track as u32, Relaxed);
        it.stamp.store(setup.stamp, Relaxed);
        let (rtp, rtcp) = (setup.goal.rtp, setup.goal.rtcp);
        it.ports.store(u32::from(rtp.port()) << 16 | u32::from(rtcp.port()), Relaxed);
        let alone = if setup.alone { ALONE } else { 0 };
        it.flags.store(if rtp.is_ipv4() { V4 | alone } else { alone }, Relaxed);
        for (word, half) in it.address.iter().zip(halves(rtp.ip())) {
            word.store(half, Relaxed);
        }
        it.path_len.store(setup.path.len() as u32, Relaxed);
        for (word, bytes) in it.path.iter().zip(setup.path.as_bytes().chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        for word in [&it.packets, &it.octets, &it.lost, &it.jitter, &it.lost_share] {
            word.store(0, Relaxed);
        }
        for word in [&it.round_trip_ns, &it.heard_at, &it.next] {
            word.store(0, Relaxed);
        }
        Some((slot, ssrc))
    }

    /// A slot that stands for a session which listens to a track of a group.
    pub(super) fn set_up_member(
        &self,
        me: WorkerId,
        setup: &Setup<'_>,
        group: usize,
        most: usize,
    ) -> Option<(usize, u32)> {
        let found = self.set_up(me, setup, most)?;
        let it = &self.slots[found.0];
        it.from_ns.store(group as u64, Relaxed);
        it.begin.store(0, Relaxed);
        it.numbers.store(0, Relaxed);
        it.flags.fetch_or(MEMBER, Relaxed);
        self.members[found.0 / 64].fetch_or(1 << (found.0 % 64), Relaxed);
        Some(found)
    }

    /// A slot belongs to no session from now on.
    pub(super) fn disown(&self, slot: usize) {
        self.slots[slot].session.store(0, Relaxed);
    }

    /// The group and the track that a session listens to for which a slot stands.
    pub(super) fn membership(&self, slot: usize) -> (usize, usize) {
        let it = &self.slots[slot];
        (it.from_ns.load(Relaxed) as usize, it.track.load(Relaxed) as usize)
    }

    /// Orders that `segment` be played. The bell is the caller's to ring.
    pub fn play(&self, slot: usize, segment: &Segment) {
        let it = &self.slots[slot];
        let epoch = self.open(it);
        let ends = if segment.ends { ENDS } else { 0 };
        it.flags.store(it.flags.load(Relaxed) & KEPT | ends, Relaxed);
        it.first.store(segment.first, Relaxed);
        it.stop.store(segment.stop, Relaxed);
        it.from_ns.store(segment.from_ns, Relaxed);
        it.begin.store(segment.begin.ns(), Relaxed);
        let numbers = u64::from(segment.sequence) << 32 | u64::from(segment.timestamp);
        it.numbers.store(numbers, Relaxed);
        it.next.store(told(epoch.wrapping_add(1), segment.first), Relaxed);
        it.wish.store(GOES, Relaxed);
        it.epoch.store(epoch.wrapping_add(1), SeqCst);
        if it.phase.compare_exchange(HELD, ORDERED, SeqCst, SeqCst).is_ok() {
            self.ordered[slot / 64].fetch_or(1 << (slot % 64), SeqCst);
        }
    }

    /// Orders that no packet from `stop` on be sent.
    pub fn pause(&self, slot: usize, stop: u64) {
        let it = &self.slots[slot];
        let stop = stop.clamp(it.first.load(Relaxed), it.stop.load(Relaxed));
        let epoch = self.open(it);
        it.stop.store(stop, Relaxed);
        it.flags.store(it.flags.load(Relaxed) & KEPT, Relaxed);
        it.epoch.store(epoch.wrapping_add(1), SeqCst);
    }

    /// The packet behind the last one of what is paused: where it was to stop, or a little later if
    /// the streaming worker had gone on by the time that it heard of it.
    pub fn reached(&self, slot: usize) -> u64 {
        let it = &self.slots[slot];
        let (next, epoch) = (it.next.load(Relaxed), it.epoch.load(Relaxed));
        let stop = it.stop.load(Relaxed);
        if next >> INDEX_BITS == u64::from(epoch) & EPOCH { stop.max(next & INDEX) } else { stop }
    }

    /// Gives the slot back; what is being stream from it says bye.
    pub fn release(&self, slot: usize) {
        let it = &self.slots[slot];
        it.session.store(0, Relaxed);
        self.members[slot / 64].fetch_and(!(1 << (slot % 64)), Relaxed);
        let epoch = self.open(it);
        it.wish.store(LEAVES, SeqCst);
        it.epoch.store(epoch.wrapping_add(1), SeqCst);
        for phase in [HELD, ORDERED] {
            if it.phase.compare_exchange(phase, FREE, SeqCst, SeqCst).is_ok() {
                return;
            }
        }
    }

    /// How it is received.
    pub fn reception(&self, slot: usize) -> Reception {
        let it = &self.slots[slot];
        let at = it.heard_at.load(Acquire);
        let round_trip = it.round_trip_ns.load(Relaxed);
        // What a member listens to is stream from another slot.
        let of = self.listened_to(slot).map_or(it, |slot| &self.slots[slot]);
        Reception {
            at: (at > 0).then(|| Instant::from_ns(at)),
            packets: of.packets.load(Relaxed),
            lost: it.lost.load(Relaxed).cast_signed(),
            lost_share: it.lost_share.load(Relaxed) as u8,
            jitter: it.jitter.load(Relaxed),
            round_trip: (round_trip > 0).then(|| Duration::from_nanos(round_trip)),
        }
    }

    /// Whether it is being stream, or waits to be.
    pub fn is_underway(&self, slot: usize) -> bool {
        [ORDERED, TAKEN].contains(&self.slots[slot].phase.load(Acquire))
    }

    /// The packets that its stream has sent.
    pub fn packets(&self, slot: usize) -> u32 {
        self.slots[slot].packets.load(Relaxed)
    }

    /// What receivers report of all that is sent to single addresses.
    pub fn heard(&self) -> Echo {
        let used = self.slots.iter().filter(|slot| slot.phase.load(Relaxed) != FREE);
        let told = used.filter(|slot| slot.heard_at.load(Relaxed) > 0);
        told.fold(Echo::default(), |echo, slot| Echo {
            reporting: echo.reporting + 1,
            packets: echo.packets + u64::from(slot.packets.load(Relaxed)),
            lost: echo.lost + i64::from(slot.lost.load(Relaxed).cast_signed()),
            lost_share: echo.lost_share.max(slot.lost_share.load(Relaxed) as u8),
            round_trip: echo.round_trip.max(Duration::from_nanos(slot.round_trip_ns.load(Relaxed))),
        })
    }

    /// How many slots are not free.
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase.load(Relaxed) != FREE).count()
    }

    /// Slots of one address. Of IPv6 the first half counts: the other is the client's to choose.
    fn count_to(&self, ip: IpAddr) -> usize {
        let (halves, is_v4) = (halves(ip), ip.to_canonical().is_ipv4());
        let is_there = |slot: &&Slot| {
            slot.phase.load(Relaxed) != FREE
                && slot.address[0].load(Relaxed) == halves[0]
                && (slot.flags.load(Relaxed) & V4 != 0) == is_v4
                && (!is_v4 || slot.address[1].load(Relaxed) == halves[1])
        };
        self.slots.iter().filter(is_there).count()
    }

    fn claim(&self) -> Option<usize> {
        let from = self.hint.fetch_add(1, Relaxed) as usize;
        (0..SLOTS).map(|step| (from + step) % SLOTS).find(|slot| {
            let phase = &self.slots[*slot].phase;
            phase.load(Relaxed) == FREE
                && phase.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok()
        })
    }

    /// Begins to write an order; returns the odd count.
    fn open(&self, it: &Slot) -> u32 {
        let odd = it.epoch.load(Relaxed) | 1;
        it.epoch.store(odd, Relaxed);
        fence(Release);
        odd
    }

    /// As far as somebody has come who loses the processor while it writes.
    #[cfg(test)]
    pub(super) fn write_half(&self, slot: usize) {
        self.open(&self.slots[slot]);
    }

    // ---- the streaming worker's side

    /// Takes an order that nobody has taken.
    pub fn take(&self, me: WorkerId) -> Option<usize> {
        for (at, word) in self.ordered.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                if word.fetch_and(!(1 << bit), SeqCst) & (1 << bit) == 0 {
                    continue;
                }
                let slot = at * 64 + bit as usize;
                let it = &self.slots[slot];
                if it.phase.compare_exchange(ORDERED, TAKEN, SeqCst, SeqCst).is_ok() {
                    it.worker.store(me.bits(), Relaxed);
                    return Some(slot);
                }
            }
        }
        None
    }

    /// The count of the order; it differs from the one that was read if there is news.
    #[inline]
    pub fn epoch(&self, slot: usize) -> u32 {
        self.slots[slot].epoch.load(Acquire)
    }

    /// The order as it is; `None` while it is being written.
    pub fn order(&self, slot: usize) -> Option<Order> {
        let it = &self.slots[slot];
        let epoch = it.epoch.load(Acquire);
        let numbers = it.numbers.load(Relaxed);
        let wish = it.wish.load(Relaxed);
        let order = Order {
            epoch,
            segment: Segment {
                first: it.first.load(Relaxed),
                stop: it.stop.load(Relaxed),
                from_ns: it.from_ns.load(Relaxed),
                begin: Instant::from_ns(it.begin.load(Relaxed)),
                sequence: (numbers >> 32) as u16,
                timestamp: numbers as u32,
                ends: it.flags.load(Relaxed) & ENDS != 0,
            },
            goes: wish & GOES != 0,
            leaves: wish & LEAVES != 0,
        };
        fence(Acquire);
        (epoch.is_multiple_of(2) && it.epoch.load(Relaxed) == epoch).then_some(order)
    }

    /// Where packets go, by which name, of which track.
    pub fn route(&self, slot: usize) -> (Goal, u32, usize) {
        let it = &self.slots[slot];
        let ports = it.ports.load(Relaxed);
        let ip = self.ip(it);
        let goal = Goal {
            rtp: SocketAddr::new(ip, (ports >> 16) as u16),
            rtcp: SocketAddr::new(ip, ports as u16),
        };
        (goal, it.ssrc.load(Relaxed), it.track.load(Relaxed) as usize)
    }

    /// Whether its end is the end.
    pub fn is_alone(&self, slot: usize) -> bool {
        self.slots[slot].flags.load(Relaxed) & ALONE != 0
    }

    /// Of which file, and which state of it.
    pub fn file(&self, slot: usize) -> (String, u64) {
        let it = &self.slots[slot];
        let len = it.path_len.load(Relaxed) as usize;
        let mut bytes: Vec<u8> =
            it.path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        (String::from_utf8_lossy(&bytes).into_owned(), it.stamp.load(Relaxed))
    }

    /// Where the stream that was lost had been, if it had begun with this order.
    pub fn resumed(&self, slot: usize, order: &Order) -> u64 {
        let next = self.slots[slot].next.load(Relaxed);
        let is_of_it = next >> INDEX_BITS == u64::from(order.epoch) & EPOCH;
        let next = if is_of_it { next & INDEX } else { 0 };
        next.clamp(order.segment.first, order.segment.stop.max(order.segment.first))
    }

    /// Tells how far the stream has come, and how many packets and bytes of payload it has sent.
    #[inline]
    pub fn tell(&self, slot: usize, epoch: u32, next: u64, (packets, octets): (u32, u32)) {
        let it = &self.slots[slot];
        it.next.store(told(epoch, next), Relaxed);
        it.packets.store(packets, Relaxed);
        it.octets.store(octets, Relaxed);
    }

    /// What was sent by whoever had the stream before: packets and bytes of payload.
    pub fn sent_before(&self, slot: usize) -> (u32, u32) {
        let it = &self.slots[slot];
        (it.packets.load(Relaxed), it.octets.load(Relaxed))
    }

    /// The stream has ended.
    pub fn put_back(&self, slot: usize, again: bool) {
        let it = &self.slots[slot];
        let to = if again { ORDERED } else { HELD };
        if it.phase.compare_exchange(TAKEN, to, SeqCst, SeqCst).is_err() {
            return;
        }
        if it.wish.load(SeqCst) & LEAVES != 0 {
            let _ = it.phase.compare_exchange(to, FREE, SeqCst, SeqCst);
        } else if again {
            self.ordered[slot / 64].fetch_or(1 << (slot % 64), SeqCst);
        }
    }

    /// A receiver reports: notes it, if it is about one of ours and comes from where that goes.
    pub fn hear(&self, now: Instant, from: IpAddr, heard: &ReceptionReport, ntp: u64) -> bool {
        let slot = (heard.of ^ self.mask) as usize & (SLOTS - 1);
        let it = &self.slots[slot];
        let is_ours = it.phase.load(Acquire) != FREE && it.ssrc.load(Relaxed) == heard.of;
        let (from, to) = (from.to_canonical(), self.ip(it));
        match to.is_multicast() {
            _ if !is_ours => false,
            true => self.hear_member(now, (slot, from), heard, ntp),
            false if to != from => false,
            false => {
                self.note(it, now, heard, ntp);
                true
            }
        }
    }

    /// Notes what was reported to us.
    pub(super) fn note(&self, it: &Slot, now: Instant, heard: &ReceptionReport, ntp: u64) {
        it.lost.store(heard.lost.cast_unsigned(), Relaxed);
        it.lost_share.store(heard.lost_share.into(), Relaxed);
        it.jitter.store(heard.jitter, Relaxed);
        let round_trip = heard.round_trip(ntp).map_or(0, |time| time.as_nanos() as u64);
        it.round_trip_ns.store(round_trip, Relaxed);
        it.heard_at.store(now.ns(), Release);
    }

    pub(super) fn ip(&self, it: &Slot) -> IpAddr {
        let [high, low] = [0, 1].map(|half: usize| u128::from(it.address[half].load(Relaxed)));
        Ipv6Addr::from(high << 64 | low).to_canonical()
    }
}

const INDEX_BITS: u32 = 48;
const INDEX: u64 = (1 << INDEX_BITS) - 1;
const EPOCH: u64 = 0xffff;

/// An index with the order that it belongs to.
fn told(epoch: u32, next: u64) -> u64 {
    (u64::from(epoch) & EPOCH) << INDEX_BITS | (next & INDEX)
}

/// An address as two words; one of IPv4 as mapped into IPv6.
fn halves(ip: IpAddr) -> [u64; 2] {
    let whole = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bits = whole.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests;
