//! What sessions order and casters play: one slot for each transmission by datagrams, in memory
//! that all workers see, be they threads or processes.
//!
//! A slot has one writer on each side. The session writes the order under a count that is odd
//! while it writes, so that a caster never acts on half of one; the caster writes how far it has
//! come, and what receivers report. Who owns a slot is one word that changes hands by exchange:
//!
//! ```text
//!   free -> held -> ordered -> taken -> held (the cast ended) | free (and nobody wants it)
//! ```
//!
//! The surprising thing is how a report finds its slot: the lower bits of a sender's number are the
//! slot's, masked by a secret. The upper ones are chance, as RFC 3550 wants all of them to be.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use seam::{BadSeed, Instant, Share, WorkerId};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

use wire::rtcp::Heard;

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
/// Bits of [`Slot::wish`].
const GOES: u32 = 1;
const LEAVES: u32 = 2;

/// The shared state of the media service. All-zero bytes are a house without guests.
#[repr(C)]
pub struct Orders {
    /// Masks the slots' numbers in the names of senders.
    mask: u32,
    hint: AtomicU32,
    ordered: [AtomicU64; SLOTS / 64],
    slots: [Slot; SLOTS],
}

#[repr(C)]
struct Slot {
    phase: AtomicU32,
    /// Odd while the order is being written; grows with each order.
    epoch: AtomicU32,
    session: AtomicU32,
    caster: AtomicU32,
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
    from_ns: AtomicU64,
    begin: AtomicU64,
    numbers: AtomicU64,
    /// The next packet, and the lower 16 bits of the epoch that it belongs to.
    next: AtomicU64,
    packets: AtomicU32,
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

/// An order, as a caster reads it.
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
}

// SAFETY: all-zero bytes are free slots and no orders; there is no pointer and no destructor; what
// changes through `&self` is atomic.
unsafe impl Share for Orders {
    /// The seed is four bytes of chance, or nothing.
    fn found(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let mask = seed.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.mask = mask & (SLOTS as u32 - 1);
        Ok(())
    }

    fn heal(&self, dead: WorkerId) {
        for slot in 0..SLOTS {
            let it = &self.slots[slot];
            let phase = it.phase.load(SeqCst);
            if phase == FREE {
                continue;
            }
            if phase == TAKEN && it.caster.load(Relaxed) == dead.bits() {
                // Whoever takes it up next goes on where this one was.
                self.put_back(slot, true);
            }
            if it.session.load(Relaxed) == dead.bits() {
                self.release(slot);
            }
        }
    }
}

impl Orders {
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
        it.caster.store(0, Relaxed);
        it.wish.store(0, Relaxed);
        let slot_bits = (slot as u32) ^ self.mask;
        let ssrc = (setup.chance & !(SLOTS as u32 - 1)) | slot_bits;
        it.ssrc.store(ssrc, Relaxed);
        it.track.store(setup.track as u32, Relaxed);
        it.stamp.store(setup.stamp, Relaxed);
        let (rtp, rtcp) = (setup.goal.rtp, setup.goal.rtcp);
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
        for word in [&it.packets, &it.lost, &it.jitter, &it.lost_share] {
            word.store(0, Relaxed);
        }
        for word in [&it.round_trip_ns, &it.heard_at, &it.next] {
            word.store(0, Relaxed);
        }
        Some((slot, ssrc))
    }

    /// Orders that `segment` be played. The bell is the caller's to ring.
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

    /// Orders that no packet from `stop` on be sent.
    pub fn pause(&self, slot: usize, stop: u64) {
        let it = &self.slots[slot];
        let stop = stop.clamp(it.first.load(Relaxed), it.stop.load(Relaxed));
        let epoch = self.open(it);
        it.stop.store(stop, Relaxed);
        it.flags.store(it.flags.load(Relaxed) & V4, Relaxed);
        it.epoch.store(epoch.wrapping_add(1), SeqCst);
    }

    /// The packet behind the last one of what is paused: where it was to stop, or a little later if
    /// the caster had gone on by the time that it heard of it.
    pub fn reached(&self, slot: usize) -> u64 {
        let it = &self.slots[slot];
        let (next, epoch) = (it.next.load(Relaxed), it.epoch.load(Relaxed));
        let stop = it.stop.load(Relaxed);
        if next >> INDEX_BITS == u64::from(epoch) & EPOCH { stop.max(next & INDEX) } else { stop }
    }

    /// Gives the slot back; what is being cast from it says farewell.
    pub fn release(&self, slot: usize) {
        let it = &self.slots[slot];
        it.session.store(0, Relaxed);
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
        Reception {
            at: (at > 0).then(|| Instant::from_ns(at)),
            packets: it.packets.load(Relaxed),
            lost: it.lost.load(Relaxed).cast_signed(),
            lost_share: it.lost_share.load(Relaxed) as u8,
            jitter: it.jitter.load(Relaxed),
            round_trip: (round_trip > 0).then(|| Duration::from_nanos(round_trip)),
        }
    }

    /// How many slots are not free.
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase.load(Relaxed) != FREE).count()
    }

    fn count_to(&self, ip: IpAddr) -> usize {
        let halves = halves(ip);
        let is_there = |slot: &&Slot| {
            slot.phase.load(Relaxed) != FREE
                && slot.address[1].load(Relaxed) == halves[1]
                && slot.address[0].load(Relaxed) == halves[0]
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

    // ---- the caster's side

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
                    it.caster.store(me.bits(), Relaxed);
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

    /// Of which file, and which state of it.
    pub fn file(&self, slot: usize) -> (String, u64) {
        let it = &self.slots[slot];
        let len = it.path_len.load(Relaxed) as usize;
        let mut bytes: Vec<u8> =
            it.path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.truncate(len);
        (String::from_utf8_lossy(&bytes).into_owned(), it.stamp.load(Relaxed))
    }

    /// Where the cast that was lost had been, if it had begun with this order.
    pub fn resumed(&self, slot: usize, order: &Order) -> u64 {
        let next = self.slots[slot].next.load(Relaxed);
        let is_of_it = next >> INDEX_BITS == u64::from(order.epoch) & EPOCH;
        let next = if is_of_it { next & INDEX } else { 0 };
        next.clamp(order.segment.first, order.segment.stop.max(order.segment.first))
    }

    /// Tells how far the cast has come.
    #[inline]
    pub fn tell(&self, slot: usize, epoch: u32, next: u64, packets: u32) {
        let it = &self.slots[slot];
        it.next.store(told(epoch, next), Relaxed);
        it.packets.store(packets, Relaxed);
    }

    /// The cast has ended.
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
    pub fn hear(&self, now: Instant, from: IpAddr, heard: &Heard, ntp: u64) -> bool {
        let slot = (heard.of ^ self.mask) as usize & (SLOTS - 1);
        let it = &self.slots[slot];
        let is_ours = it.phase.load(Acquire) != FREE && it.ssrc.load(Relaxed) == heard.of;
        if !is_ours || self.ip(it) != from.to_canonical() {
            return false;
        }
        it.lost.store(heard.lost.cast_unsigned(), Relaxed);
        it.lost_share.store(heard.lost_share.into(), Relaxed);
        it.jitter.store(heard.jitter, Relaxed);
        let round_trip = heard.round_trip(ntp).map_or(0, |time| time.as_nanos() as u64);
        it.round_trip_ns.store(round_trip, Relaxed);
        it.heard_at.store(now.ns(), Release);
        true
    }

    fn ip(&self, it: &Slot) -> IpAddr {
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
mod tests {
    use super::*;
    use memory::{Placement, Region};

    fn orders() -> Region<Orders> {
        let mut orders = Region::<Orders>::place(Placement::Private).expect("memory");
        orders.found(&[1, 2, 3, 4]).expect("four bytes");
        orders
    }

    fn goal(ip: [u8; 4]) -> Goal {
        Goal { rtp: (ip, 5000).into(), rtcp: (ip, 5001).into() }
    }

    const PATH: &str = "folder/a film with a long name.ts";

    fn setup(ip: [u8; 4], chance: u32) -> Setup<'static> {
        Setup { path: PATH, stamp: 7, track: 1, goal: goal(ip), chance }
    }

    const SEGMENT: Segment = Segment {
        first: 10,
        stop: 100,
        from_ns: 5,
        begin: Instant::from_ns(6),
        sequence: 65_000,
        timestamp: 0xffff_fff0,
        ends: true,
    };

    const ME: WorkerId = WorkerId::new(1, 1);
    const CASTER: WorkerId = WorkerId::new(2, 1);

    #[test]
    fn an_order_arrives_as_it_was_given_and_the_slot_comes_back() {
        let orders = orders();
        let setup = setup([127, 0, 0, 1], 0xabcd_ef01);
        let (slot, ssrc) = orders.set_up(ME, &setup, 9).expect("a slot");
        assert_eq!(orders.take(CASTER), None, "nothing is ordered yet");
        orders.play(slot, &SEGMENT);
        assert_eq!(orders.take(CASTER), Some(slot));
        assert_eq!(orders.take(CASTER), None, "an order is taken once");
        let order = orders.order(slot).expect("a whole order");
        assert_eq!((order.segment, order.goes, order.leaves), (SEGMENT, true, false));
        assert_eq!(orders.route(slot), (setup.goal, ssrc, 1));
        assert_eq!(orders.file(slot), (PATH.to_owned(), 7));
        orders.tell(slot, order.epoch, 40, 30);
        assert_eq!(orders.resumed(slot, &order), 40);
        orders.pause(slot, 20);
        let paused = orders.order(slot).expect("a whole order");
        assert_eq!((paused.segment.stop, paused.segment.ends), (20, false));
        assert_eq!(orders.reached(slot), 20, "as far as is known");
        orders.tell(slot, paused.epoch, 21, 11);
        assert_eq!(orders.reached(slot), 21, "what is sent is sent");
        assert_ne!(paused.epoch, order.epoch);
        orders.release(slot);
        assert!(orders.order(slot).is_some_and(|order| order.leaves));
        assert_eq!(orders.count(), 1, "the cast still says farewell");
        orders.put_back(slot, false);
        assert_eq!(orders.count(), 0);
    }

    #[test]
    fn whoever_ends_last_frees_the_slot() {
        let orders = orders();
        let held = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
        orders.release(held);
        assert_eq!(orders.count(), 0, "never ordered");
        let ordered = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
        orders.play(ordered, &SEGMENT);
        orders.release(ordered);
        assert_eq!((orders.count(), orders.take(CASTER)), (0, None), "ordered, never taken");
        let ended = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
        orders.play(ended, &SEGMENT);
        assert_eq!(orders.take(CASTER), Some(ended));
        orders.put_back(ended, false);
        assert_eq!(orders.count(), 1, "its session is there");
        orders.play(ended, &SEGMENT);
        assert_eq!(orders.take(CASTER), Some(ended), "and may order again");
        orders.put_back(ended, false);
        orders.release(ended);
        assert_eq!(orders.count(), 0);
    }

    #[test]
    fn dead_workers_lose_their_slots_and_casts_are_taken_up_by_others() {
        let orders = orders();
        let slot = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
        orders.play(slot, &SEGMENT);
        assert_eq!(orders.take(CASTER), Some(slot));
        let order = orders.order(slot).expect("an order");
        orders.tell(slot, order.epoch, 55, 45);
        orders.heal(CASTER);
        let next = WorkerId::new(2, 2);
        assert_eq!(orders.take(next), Some(slot));
        assert_eq!(orders.resumed(slot, &order), 55, "it goes on where the other was");
        orders.heal(ME);
        assert!(orders.order(slot).is_some_and(|order| order.leaves));
        orders.heal(next);
        assert_eq!((orders.count(), orders.take(CASTER)), (0, None));
    }

    #[test]
    fn slots_and_shares_of_an_address_are_bounded() {
        let orders = orders();
        let setup_here = setup([1, 1, 1, 1], 5);
        for _ in 0..3 {
            orders.set_up(ME, &setup_here, 3).expect("a slot");
        }
        assert_eq!(orders.set_up(ME, &setup_here, 3), None);
        assert!(orders.set_up(ME, &setup([2, 2, 2, 2], 5), 3).is_some());
        let long = "x".repeat(PATH_MAX + 1);
        let long = Setup { path: &long, ..setup_here };
        assert_eq!(orders.set_up(ME, &long, 99), None);
    }

    #[test]
    fn a_report_counts_if_it_is_about_ours_and_comes_from_there() {
        let orders = orders();
        let (slot, ssrc) = orders.set_up(ME, &setup([1, 1, 1, 1], !0), 9).expect("a slot");
        let mut heard = Heard {
            from: 1,
            of: ssrc,
            lost_share: 3,
            lost: -4,
            sequence: 5,
            jitter: 6,
            last_report: 0,
            since_report: 0,
        };
        let now = Instant::from_ns(77);
        assert!(!orders.hear(now, [2, 2, 2, 2].into(), &heard, 0), "from elsewhere");
        assert_eq!(orders.reception(slot).at, None);
        assert!(orders.hear(now, [1, 1, 1, 1].into(), &heard, 0));
        let reception = orders.reception(slot);
        assert_eq!((reception.at, reception.lost, reception.jitter), (Some(now), -4, 6));
        heard.of ^= 1 << 31;
        assert!(!orders.hear(now, [1, 1, 1, 1].into(), &heard, 0), "about nobody");
    }
}
