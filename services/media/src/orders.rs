//! The sessions' orders to the streaming worker: one slot for each stream of datagrams, in memory
//! that all workers share, be they threads or processes.
//!
//! A slot has one writer on each side. The session writes the order under a count that is odd while
//! it writes, so that the streaming worker never acts on half an order. The streaming worker writes
//! its progress and receivers' reports. The owner of a slot is one word, changed by
//! compare-and-exchange:
//!
//! ```text
//!   free -> held -> ordered -> taken -> held (the stream ended) | free (no session wants it)
//! ```
//!
//! A report finds its slot by the SSRC: its lower bits are the slot's number, masked by a secret.
//! Its upper bits are random, as RFC 3550 requires of all bits.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use seam::{BadSeed, Dead, Instant, Share, WorkerId};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

use wire::rtcp::ReceptionReport;

use super::cursor::Segment;
use super::group::{GROUPS, Group};

/// The maximum number of streams.
pub const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;
/// The longest path of a file, in bytes.
pub const PATH_MAX: usize = 256;

/// The states of a slot's owner word.
const FREE: u32 = 0;
const HELD: u32 = 1;
const ORDERED: u32 = 2;
const TAKEN: u32 = 3;

/// Bits of [`Slot::flags`].
const ENDS: u32 = 1;
const V4: u32 = 2;
/// Bits of [`Slot::wish`].
const GOES: u32 = 1;
const LEAVES: u32 = 2;

/// The shared state of the media service. All-zero bytes are a server without clients.
#[repr(C)]
pub struct Orders {
    /// The secret from which names and numbers are derived.
    secret: [u8; 16],
    /// Masks the slots' numbers in SSRCs.
    mask: u32,
    hint: AtomicU32,
    ordered: [AtomicU64; SLOTS / 64],
    /// The slots that represent members of a group.
    pub(super) members: [AtomicU64; SLOTS / 64],
    skipped: AtomicU64,
    /// When the member that sent a group report was last searched, and how often in that span.
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
    /// In a member's slot: the group.
    from_ns: AtomicU64,
    /// In a member's slot: the slot of its track, plus one.
    pub(super) begin: AtomicU64,
    /// In a member's slot: the SSRC of its reports, and a bit above that says it is known.
    pub(super) numbers: AtomicU64,
    /// The next packet, and the lower 16 bits of the epoch of its order.
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

/// The addresses that packets are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub rtp: SocketAddr,
    pub rtcp: SocketAddr,
}

/// An order, as a streaming worker reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The order's number.
    pub epoch: u32,
    pub segment: Segment,
    /// Whether the segment plays.
    pub goes: bool,
    /// Whether the stream ends.
    pub leaves: bool,
}

/// A stream to be set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub path: &'a str,
    /// The version of the file.
    pub stamp: u64,
    pub track: usize,
    pub destination: Destination,
    pub random: u32,
}

/// The receivers' reports about one stream.
#[derive(Clone, Copy, Debug)]
pub struct Reception {
    /// When the last report arrived; `None` before the first.
    pub at: Option<Instant>,
    /// Packets sent.
    pub packets: u32,
    /// Packets lost since the beginning.
    pub lost: i32,
    /// The jitter, in ticks of the media.
    pub jitter: u32,
}

/// The receivers' reports about all streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceptionTotals {
    /// Streams with reports.
    pub reporting: u64,
    /// Packets lost.
    pub lost: i64,
    /// The largest fraction lost since the report before, in 256ths.
    pub lost_share: u8,
    /// The longest round trip.
    pub round_trip: Duration,
}

// SAFETY: all-zero bytes are free slots and no orders; there is no pointer and no destructor; what
// changes through `&self` is atomic.
unsafe impl Share for Orders {
    /// The seed is up to 16 random bytes.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let mask = seed.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.mask = mask & (SLOTS as u32 - 1);
        let random = seed.iter().take(16);
        self.secret.iter_mut().zip(random).for_each(|(own, seed)| *own = *seed);
        Ok(())
    }

    fn heal(&self, dead: Dead) {
        self.heal(dead.worker());
    }
}

impl Orders {
    /// Releases what the worker `dead` held; the worker that replaces it continues its streams.
    pub fn heal(&self, dead: WorkerId) {
        self.heal_groups(dead);
        for slot in 0..SLOTS {
            let it = &self.slots[slot];
            let phase = it.phase.load(SeqCst);
            if phase == FREE {
                continue;
            }
            if phase == TAKEN && it.worker.load(Relaxed) == dead.bits() {
                // The worker that replaces the dead one continues its streams.
                self.put_back(slot, true);
            }
            if it.session.load(Relaxed) != dead.bits() {
                continue;
            }
            match self.is_member(slot) {
                false => self.release(slot),
                true => self.leave(dead, slot),
            }
        }
    }

    /// The secret from which names and numbers are derived.
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    // ---- the session's side

    /// Takes a free slot and sets it up; returns the slot and its SSRC. `None` if no slot is free,
    /// or if `most` streams go to this address already.
    pub fn set_up(&self, me: WorkerId, setup: &Setup<'_>, most: usize) -> Option<(usize, u32)> {
        if setup.path.len() > PATH_MAX || self.count_to(setup.destination.rtp.ip()) >= most {
            return None;
        }
        let slot = self.claim()?;
        let it = &self.slots[slot];
        it.session.store(me.bits(), Relaxed);
        it.worker.store(0, Relaxed);
        it.wish.store(0, Relaxed);
        let slot_bits = (slot as u32) ^ self.mask;
        let ssrc = (setup.random & !(SLOTS as u32 - 1)) | slot_bits;
        it.ssrc.store(ssrc, Relaxed);
        it.track.store(setup.track as u32, Relaxed);
        it.stamp.store(setup.stamp, Relaxed);
        let (rtp, rtcp) = (setup.destination.rtp, setup.destination.rtcp);
        it.ports.store(u32::from(rtp.port()) << 16 | u32::from(rtcp.port()), Relaxed);
        it.flags.store(if rtp.is_ipv4() { V4 } else { 0 }, Relaxed);
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

    /// Takes a slot that represents a member of a group, for one track.
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
        self.members[found.0 / 64].fetch_or(1 << (found.0 % 64), Relaxed);
        Some(found)
    }

    /// Whether the slot represents a member of a group.
    pub(super) fn is_member(&self, slot: usize) -> bool {
        self.members[slot / 64].load(Relaxed) & 1 << (slot % 64) != 0
    }

    pub(super) fn disown(&self, slot: usize) {
        self.slots[slot].session.store(0, Relaxed);
    }

    /// The group and the track of a member's slot.
    pub(super) fn membership(&self, slot: usize) -> (usize, usize) {
        let it = &self.slots[slot];
        (it.from_ns.load(Relaxed) as usize, it.track.load(Relaxed) as usize)
    }

    /// Orders to play `segment`. The caller rings the streaming worker.
    pub fn play(&self, slot: usize, segment: &Segment) {
        let it = &self.slots[slot];
        let epoch = self.open(it);
        let ends = if segment.ends { ENDS } else { 0 };
        it.flags.store(it.flags.load(Relaxed) & V4 | ends, Relaxed);
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

    /// Counts packets that were left out because they were too late.
    pub(super) fn skip(&self, packets: u64) {
        self.skipped.fetch_add(packets, Relaxed);
    }

    /// The packets that were left out because they were too late.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// Orders the stream to stop before packet `stop`.
    pub fn pause(&self, slot: usize, stop: u64) {
        let it = &self.slots[slot];
        let stop = stop.clamp(it.first.load(Relaxed), it.stop.load(Relaxed));
        let epoch = self.open(it);
        it.stop.store(stop, Relaxed);
        it.flags.store(it.flags.load(Relaxed) & V4, Relaxed);
        it.epoch.store(epoch.wrapping_add(1), SeqCst);
    }

    /// The packet after the last one that was sent before the pause: the ordered stop, or a later
    /// one if the streaming worker was ahead when it saw the order.
    pub fn reached(&self, slot: usize) -> u64 {
        let it = &self.slots[slot];
        let (next, epoch) = (it.next.load(Relaxed), it.epoch.load(Relaxed));
        let stop = it.stop.load(Relaxed);
        if next >> INDEX_BITS == u64::from(epoch) & EPOCH { stop.max(next & INDEX) } else { stop }
    }

    /// Releases the slot; a stream that runs from it sends a BYE.
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

    /// The receivers' reports.
    pub fn reception(&self, slot: usize) -> Reception {
        let it = &self.slots[slot];
        let at = it.heard_at.load(Acquire);
        // A member's track is sent from another slot.
        let of = self.listened_to(slot).map_or(it, |slot| &self.slots[slot]);
        Reception {
            at: (at > 0).then(|| Instant::from_ns(at)),
            packets: of.packets.load(Relaxed),
            lost: it.lost.load(Relaxed).cast_signed(),
            jitter: it.jitter.load(Relaxed),
        }
    }

    /// Whether the stream runs or waits to be started.
    pub fn is_underway(&self, slot: usize) -> bool {
        [ORDERED, TAKEN].contains(&self.slots[slot].phase.load(Acquire))
    }

    /// The receivers' reports about all unicast streams.
    pub fn heard(&self) -> ReceptionTotals {
        let used = self.slots.iter().filter(|slot| slot.phase.load(Relaxed) != FREE);
        let told = used.filter(|slot| slot.heard_at.load(Relaxed) > 0);
        told.fold(ReceptionTotals::default(), |totals, slot| ReceptionTotals {
            reporting: totals.reporting + 1,
            lost: totals.lost + i64::from(slot.lost.load(Relaxed).cast_signed()),
            lost_share: totals.lost_share.max(slot.lost_share.load(Relaxed) as u8),
            round_trip: totals
                .round_trip
                .max(Duration::from_nanos(slot.round_trip_ns.load(Relaxed))),
        })
    }

    /// The number of slots in use.
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase.load(Relaxed) != FREE).count()
    }

    /// The number of slots of one address. Of an IPv6 address only the first half counts, because
    /// the client chooses the other.
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

    /// Leaves the order half written, as a preempted writer does.
    #[cfg(test)]
    pub(super) fn write_half(&self, slot: usize) {
        self.open(&self.slots[slot]);
    }

    // ---- the streaming worker's side

    /// Takes an order that no worker has taken.
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

    /// The number of the order; it differs from the one that was read if the order has changed.
    #[inline]
    pub fn epoch(&self, slot: usize) -> u32 {
        self.slots[slot].epoch.load(Acquire)
    }

    /// The current order; `None` while it is being written.
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

    /// Destination, SSRC and track.
    pub fn route(&self, slot: usize) -> (Destination, u32, usize) {
        let it = &self.slots[slot];
        let ports = it.ports.load(Relaxed);
        let ip = self.ip(it);
        let destination = Destination {
            rtp: SocketAddr::new(ip, (ports >> 16) as u16),
            rtcp: SocketAddr::new(ip, ports as u16),
        };
        (destination, it.ssrc.load(Relaxed), it.track.load(Relaxed) as usize)
    }

    /// The path of the file and its version.
    pub fn file(&self, slot: usize) -> (String, u64) {
        let it = &self.slots[slot];
        let len = it.path_len.load(Relaxed) as usize;
        let mut bytes: Vec<u8> =
            it.path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        (String::from_utf8_lossy(&bytes).into_owned(), it.stamp.load(Relaxed))
    }

    /// Where to resume a stream whose worker died, if it had begun with this order.
    pub fn resumed(&self, slot: usize, order: &Order) -> u64 {
        let next = self.slots[slot].next.load(Relaxed);
        let is_of_it = next >> INDEX_BITS == u64::from(order.epoch) & EPOCH;
        let next = if is_of_it { next & INDEX } else { 0 };
        next.clamp(order.segment.first, order.segment.stop.max(order.segment.first))
    }

    /// Stores the position of the stream and its counts of packets and payload bytes.
    #[inline]
    pub fn tell(&self, slot: usize, epoch: u32, next: u64, (packets, octets): (u32, u32)) {
        let it = &self.slots[slot];
        it.next.store(told(epoch, next), Relaxed);
        it.packets.store(packets, Relaxed);
        it.octets.store(octets, Relaxed);
    }

    /// The counts of packets and payload bytes that were sent before this worker took the stream.
    pub fn sent_before(&self, slot: usize) -> (u32, u32) {
        let it = &self.slots[slot];
        (it.packets.load(Relaxed), it.octets.load(Relaxed))
    }

    /// Gives back the slot of a stream that has ended.
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

    /// Stores a receiver's report, if it is about one of our streams and comes from that stream's
    /// address.
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

/// A packet's index, combined with the number of its order.
fn told(epoch: u32, next: u64) -> u64 {
    (u64::from(epoch) & EPOCH) << INDEX_BITS | (next & INDEX)
}

/// An address as two words; IPv4 mapped into IPv6.
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
