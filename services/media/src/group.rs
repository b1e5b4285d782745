//! Multicast groups: a title is sent once, to an address that many clients listen to.
//!
//! A title gets a group at the first request for it and keeps it. Simultaneous sessions therefore
//! share the group, and a player can use an address again. The title is sent from the first `PLAY`
//! until the last session has ended. Each session of a group holds a member: a slot that sends no
//! packets, so that the members of a dead worker can be found and released.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use memory::Lock;
use seam::{Instant, WorkerId};
use wire::rtcp::ReceptionReport;

use super::cursor::Segment;
use super::orders::{Orders, Setup};

/// The maximum number of titles with a group.
pub const GROUPS: usize = 256;
/// The maximum number of tracks of a title that is sent to a group.
pub const TRACKS_MAX: usize = 8;

/// At most this many searches in a span, in nanoseconds, for the member that sent a report to a
/// group. Any host can send to a group, and a search through a thousand members takes some ten
/// microseconds.
const SEEK_MAX: u64 = 64;
const SEEK_SPAN_NS: u64 = 16_000_000;
/// The bit of a member's word that marks the rest as an SSRC.
const NAMED: u64 = 1 << 32;

/// One title's group. All-zero bytes are a free one.
#[repr(C)]
pub struct Group {
    /// The title, as a number; 0: free.
    key: AtomicU64,
    lock: Lock,
    /// 1 while the title is sent.
    plays: AtomicU32,
    /// The time in the file at the moment `begin`, at which it was first played.
    from_ns: AtomicU64,
    begin: AtomicU64,
    tracks: [Track; TRACKS_MAX],
}

#[repr(C)]
struct Track {
    members: AtomicU32,
    /// The sending slot plus one; 0 while there is no member.
    slot: AtomicU32,
}

/// The groups available to titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The address of the first one; the others follow.
    pub first: IpAddr,
    /// The port of the first track's media.
    pub port: u16,
    /// The TTL.
    pub ttl: u8,
    /// Unicast datagrams are refused.
    pub only: bool,
}

impl Groups {
    /// The address of a group.
    pub fn address(&self, group: usize) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => {
                Ipv4Addr::from(first.to_bits().saturating_add(group as u32)).into()
            }
            IpAddr::V6(first) => {
                Ipv6Addr::from(first.to_bits().saturating_add(group as u128)).into()
            }
        }
    }

    /// The ports of a track's media and control.
    pub fn ports(&self, track: usize) -> Option<(u16, u16)> {
        let media = self.port.checked_add(u16::try_from(2 * track).ok()?)?;
        (track < TRACKS_MAX).then_some((media, media.checked_add(1)?))
    }
}

/// The time in the file at which a group began, and the moment.
pub type Began = (u64, Instant);

impl Orders {
    /// The group of the title with this key; `None` if all are taken by others.
    pub fn group(&self, key: u64) -> Option<usize> {
        let key = key.max(1);
        (0..GROUPS).find(|group| {
            let known = &self.groups[*group].key;
            match known.load(SeqCst) {
                0 => match known.compare_exchange(0, key, SeqCst, SeqCst) {
                    Ok(_) => true,
                    Err(other) => other == key,
                },
                other => other == key,
            }
        })
    }

    /// Adds a session to a track of a group; the session's client is at the destination of
    /// `member`. The first session sets up the track as `sent` says. Returns the slot that
    /// represents the session, and the SSRC of the track.
    pub fn join(
        &self,
        me: WorkerId,
        group: usize,
        (member, sent): (&Setup<'_>, &Setup<'_>),
        most: usize,
    ) -> Option<(usize, u32)> {
        let it = &self.groups[group];
        let (slot, _) = self.set_up_member(me, member, group, most)?;
        let locked = it.lock.lock(me);
        let track = &it.tracks[sent.track];
        if track.slot.load(Relaxed) == 0 {
            // The sending slot belongs to no session, because the first member may leave first.
            let Some((stream, _)) = self.set_up(me, sent, usize::MAX) else {
                drop(locked);
                self.release(slot);
                return None;
            };
            self.disown(stream);
            track.slot.store(stream as u32 + 1, Relaxed);
        }
        track.members.fetch_add(1, Relaxed);
        let stream = track.slot.load(Relaxed) as usize - 1;
        self.slots[slot].begin.store(stream as u64 + 1, Relaxed);
        Some((slot, self.route(stream).1))
    }

    /// Removes the session that `slot` represents. The track ends with its last member.
    pub fn leave(&self, me: WorkerId, slot: usize) {
        let (group, track) = self.membership(slot);
        self.release(slot);
        let Some(it) = self.groups.get(group) else { return };
        let _locked = it.lock.lock(me);
        let Some(of) = it.tracks.get(track) else { return };
        if of.members.load(Relaxed) > 1 {
            of.members.fetch_sub(1, Relaxed);
            return;
        }
        of.members.store(0, Relaxed);
        let stream = of.slot.swap(0, Relaxed);
        if stream > 0 {
            self.release(stream as usize - 1);
        }
        if it.tracks.iter().all(|track| track.slot.load(Relaxed) == 0) {
            it.plays.store(0, Relaxed);
        }
    }

    /// Plays the tracks of a group that do not play yet. `began` applies if this session is the
    /// first; later sessions get the first one's value. `segment` makes the segment of a track.
    /// Returns when the group began, and whether to ring the streaming worker.
    pub fn play_group(
        &self,
        me: WorkerId,
        group: usize,
        began: Began,
        tracks: impl Iterator<Item = usize>,
        segment: impl Fn(usize, Began) -> Option<Segment>,
    ) -> (Began, bool) {
        let it = &self.groups[group];
        let _locked = it.lock.lock(me);
        let slots = || it.tracks.iter().map(|track| track.slot.load(Relaxed) as usize);
        let is_sent = slots().any(|slot| slot > 0 && self.is_underway(slot - 1));
        let began = if is_sent && it.plays.load(Relaxed) > 0 {
            (it.from_ns.load(Relaxed), Instant::from_ns(it.begin.load(Relaxed)))
        } else {
            it.from_ns.store(began.0, Relaxed);
            it.begin.store(began.1.ns(), Relaxed);
            it.plays.store(1, Relaxed);
            began
        };
        let mut rings = false;
        for track in tracks {
            let slot = it.tracks.get(track).map_or(0, |track| track.slot.load(Relaxed) as usize);
            if slot == 0 || self.is_underway(slot - 1) {
                continue;
            }
            if let Some(segment) = segment(track, began) {
                self.play(slot - 1, &segment);
                rings = true;
            }
        }
        (began, rings)
    }

    /// The slot that sends the stream to which a member listens.
    pub(super) fn listened_to(&self, member: usize) -> Option<usize> {
        let slot = self.slots[member].begin.load(Relaxed).checked_sub(1);
        let slot = slot.filter(|_| self.is_member(member))?;
        usize::try_from(slot).ok().filter(|slot| *slot < self.slots.len())
    }

    /// Handles a report from the host at `from` about the group to which slot `stream` sends.
    /// Stores it with that host's member that has this SSRC, or with one whose SSRC is unknown yet.
    /// False if there is no such member, because hosts without a session may listen to a group,
    /// too.
    pub(super) fn hear_member(
        &self,
        now: Instant,
        (stream, from): (usize, IpAddr),
        heard: &ReceptionReport,
        ntp: u64,
    ) -> bool {
        let (span, sought) = (now.ns() / SEEK_SPAN_NS, self.sought.load(Relaxed));
        let (last, looks) = (sought / SEEK_MAX, sought % SEEK_MAX);
        match span == last {
            true if looks + 1 == SEEK_MAX => return false,
            true => self.sought.store(sought + 1, Relaxed),
            false => self.sought.store(span * SEEK_MAX, Relaxed),
        }
        let name = NAMED | u64::from(heard.from);
        let (mut known, mut unknown) = (None, None);
        for (at, word) in self.members.iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != 0 && known.is_none() {
                let it = &self.slots[at * 64 + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                if it.begin.load(Relaxed) != stream as u64 + 1 || self.ip(it) != from {
                    continue;
                }
                match it.numbers.load(Relaxed) {
                    it_is if it_is == name => known = Some(it),
                    0 => unknown = unknown.or(Some(it)),
                    _ => {}
                }
            }
        }
        let Some(it) = known.or(unknown) else { return false };
        it.numbers.store(name, Relaxed);
        self.note(it, now, heard, ntp);
        true
    }

    /// Releases what a dead worker held.
    pub(super) fn heal_groups(&self, dead: WorkerId) {
        for group in &self.groups {
            group.lock.force_release(dead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Destination;
    use crate::test_server::orders;

    const ME: WorkerId = WorkerId::new(1, 1);
    const OTHER: WorkerId = WorkerId::new(2, 1);
    const WORKER: WorkerId = WorkerId::new(3, 1);

    fn setup(ip: [u8; 4], random: u32) -> Setup<'static> {
        let destination = Destination { rtp: (ip, 5000).into(), rtcp: (ip, 5001).into() };
        Setup { path: "a.ts", stamp: 7, track: 0, destination, random }
    }

    fn segment(_track: usize, (from_ns, begin): Began) -> Option<Segment> {
        let (first, stop) = (0, 100);
        let (sequence, timestamp) = (1, 2);
        Some(Segment { first, stop, from_ns, begin, sequence, timestamp, ends: true })
    }

    #[test]
    fn a_title_keeps_its_group_and_others_get_others() {
        let orders = orders();
        let one = orders.group(99).expect("a group");
        assert_eq!(orders.group(99), Some(one));
        // The key that maps to the neighbouring entry.
        assert_ne!(orders.group(99 + GROUPS as u64), Some(one));
        for key in 1000..1000 + GROUPS as u64 {
            orders.group(key);
        }
        assert_eq!(orders.group(5), None, "all are taken");
        assert_eq!(orders.group(99), Some(one));
        let groups = Groups { first: [239, 1, 2, 250].into(), port: 5004, ttl: 1, only: false };
        assert_eq!(groups.address(10), IpAddr::from([239, 1, 3, 4]));
        assert_eq!((groups.ports(1), groups.ports(8)), (Some((5006, 5007)), None));
    }

    #[test]
    fn a_group_is_sent_from_the_first_play_to_the_last_leave() {
        let orders = orders();
        let group = orders.group(1).expect("a group");
        let sent = setup([239, 0, 0, 1], 9);
        let join = |me, ip| orders.join(me, group, (&setup(ip, 5), &sent), 2);
        let (one, ssrc) = join(ME, [1, 1, 1, 1]).expect("room");
        let (two, same) = join(OTHER, [2, 2, 2, 2]).expect("room");
        assert_eq!(ssrc, same);
        assert!(join(ME, [1, 1, 1, 1]).is_some());
        assert!(join(ME, [1, 1, 1, 1]).is_none(), "so many to an address and no more");
        let play = |ms: u64| {
            let began = (0, Instant::from_ns(ms));
            orders.play_group(ME, group, began, std::iter::once(0), segment)
        };
        assert_eq!(play(5), ((0, Instant::from_ns(5)), true));
        let stream = orders.take(WORKER).expect("it is ordered");
        assert_eq!(play(9), ((0, Instant::from_ns(5)), false), "it is sent already");
        orders.leave(ME, one);
        orders.heal(ME);
        assert!(!orders.order(stream).expect("whole").leaves, "one is left");
        orders.leave(OTHER, two);
        assert!(orders.order(stream).expect("whole").leaves);
        orders.put_back(stream, false);
        assert_eq!(orders.count(), 0);
    }

    #[test]
    fn members_report_each_for_its_session() {
        let orders = orders();
        let group = orders.group(1).expect("a group");
        let sent = setup([239, 0, 0, 1], 9);
        let join = |ip| orders.join(ME, group, (&setup(ip, 5), &sent), 9).expect("room");
        let ((one, ssrc), (two, _), (far, _)) = (join([1; 4]), join([1; 4]), join([2; 4]));
        orders.play_group(ME, group, (0, Instant::from_ns(5)), std::iter::once(0), segment);
        let stream = orders.take(WORKER).expect("it is ordered");
        orders.tell(stream, orders.epoch(stream), 9, (42, 420));
        let report = |from: u32, ip: [u8; 4], lost: i32, ns: u64| {
            let heard = ReceptionReport {
                from,
                of: ssrc,
                lost_share: 1,
                lost,
                sequence: 9,
                jitter: 3,
                last_report: 0,
                since_report: 0,
            };
            orders.hear(Instant::from_ns(ns), ip.into(), &heard, 0)
        };
        assert!(
            report(7, [1; 4], 3, 1) && report(8, [1; 4], 4, 2),
            "the first come, a session each"
        );
        assert!(!report(9, [1; 4], 1, 3), "two listen there, and both have names");
        assert!(!report(9, [3; 4], 1, 3), "nobody listens there");
        assert!(report(7, [1; 4], 5, 4));
        let found = [one, two, far].map(|slot| orders.reception(slot));
        assert_eq!(found.map(|it| it.lost), [5, 4, 0]);
        assert_eq!(found.map(|it| it.packets), [42; 3], "what was sent to the group");
        assert_eq!(found[0].at, Some(Instant::from_ns(4)));
        assert_eq!(found[2].at, None);
        assert_eq!(orders.heard().reporting, 2);
        // Any host can send to a group, so searches are limited.
        let flood = (0..1000).filter(|_| report(8, [1; 4], 6, 5)).count();
        assert!((10..=64).contains(&flood), "{flood}");
        assert!(report(8, [1; 4], 7, SEEK_SPAN_NS * 2), "later it is");
        // A session that has left no longer counts, and its SSRC is free for the next session
        // there.
        orders.leave(ME, one);
        assert!(!report(7, [1; 4], 1, SEEK_SPAN_NS * 4));
        let (again, _) = join([1; 4]);
        assert_eq!(orders.reception(again).at, None);
        assert!(report(10, [1; 4], 2, SEEK_SPAN_NS * 6));
        assert_eq!(orders.reception(again).lost, 2);
    }
}
