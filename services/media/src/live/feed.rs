//! Turns the bytes of a transport stream into datagrams with due times.
//!
//! The stream carries its own clock (PCR), by which players decode. Arrival times say little: an
//! encoder writes a picture at a time, and a file arrives as fast as it is read. So the datagrams
//! between two clock readings are spread over the time between the readings, a little after their
//! arrival. If bytes arrive faster than their clock, they stay in the pipe and block its writer; if
//! they arrive slower, the whole schedule is shifted once.

use std::time::Duration;

use seam::Instant;
use wire::containers::ts::{GROUP, JUMP, PACKET, PCR_HZ, PCR_WRAP, SYNC_BYTE, inspect};

use super::ring::{DATAGRAM, Ring};

/// The delay from a datagram's arrival to its due time: longer than a picture, so that the
/// datagrams of a picture can be spread.
const LEAD: Duration = Duration::from_millis(200);
/// While more than this is buffered, the source is not read.
const AHEAD: Duration = Duration::from_secs(1);
/// If the clock is not read for this span or for `WAITING_MAX` datagrams, it is no longer awaited.
const SILENCE: Duration = Duration::from_millis(500);
const WAITING_MAX: usize = 1024;
/// The maximum number of datagrams between a program table and the picture that it belongs to.
const TABLE_NEAR: usize = 32;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The longest step of the clock that counts as elapsed time, in nanoseconds.
const GONE_MAX: u64 = 10 * SECOND;

/// The time that bytes take at a rate, in nanoseconds.
fn spent(bytes: u64, pace: u64) -> u64 {
    u64::try_from((u128::from(bytes) * u128::from(pace)) >> 16).unwrap_or(u64::MAX)
}

/// A datagram whose due time is not known yet.
struct Waiting {
    /// Bytes of the stream before it.
    from: u64,
    bytes: Vec<u8>,
    sync: bool,
    /// The datagram begins with the program table.
    table: bool,
}

/// Bytes that were read and have no due time yet.
#[derive(Default)]
pub struct Feed {
    /// The beginning of an incomplete packet.
    rest: Vec<u8>,
    waiting: Vec<Waiting>,
    /// The number of bytes in whole packets so far.
    position: u64,
    /// The PID whose clock counts.
    pid: Option<u16>,
    /// The last clock reading: position, ticks, and when it arrived.
    read: Option<(u64, u64, Instant)>,
    /// The source's own time at that reading, in nanoseconds.
    elapsed: u64,
    /// The moment at which the source's own time was 0.
    origin: Option<u64>,
    /// The recent pace: nanoseconds per byte, in units of 2^-16.
    pace: u64,
    /// When the oldest of `waiting` arrived.
    since: Option<Instant>,
    /// The last datagram in the ring that began with a table.
    table: Option<u64>,
}

impl Feed {
    /// Whether enough is buffered that reading can wait.
    pub fn is_ahead(&self, ring: &Ring, now: Instant) -> bool {
        ring.last_ns().is_some_and(|last| last > (now + AHEAD).ns())
    }

    /// Takes bytes as they arrived.
    pub fn take(&mut self, bytes: &[u8], now: Instant, ring: &Ring) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while rest.len() - at >= PACKET {
            let behind = rest.get(at + PACKET);
            if rest[at] != SYNC_BYTE || behind.is_some_and(|byte| *byte != SYNC_BYTE) {
                let next = rest[at + 1..].iter().position(|byte| *byte == SYNC_BYTE);
                let skipped = next.map_or(rest.len() - at, |next| next + 1);
                ring.stray(skipped as u64);
                at += skipped;
                continue;
            }
            self.packet(&rest[at..at + PACKET], now, ring);
            at += PACKET;
        }
        self.rest.extend_from_slice(&rest[at.min(rest.len())..]);
    }

    fn packet(&mut self, packet: &[u8], now: Instant, ring: &Ring) {
        let Some(told) = inspect(packet) else { return };
        let is_table = told.pid == 0;
        let is_sync = told.sync && self.pid.is_none_or(|pid| pid == told.pid);
        // A datagram begins where a player may begin.
        let is_new = is_table || is_sync || self.waiting.last().is_none_or(Waiting::is_full);
        if is_new {
            let bytes = Vec::with_capacity(DATAGRAM);
            let from = self.position;
            self.waiting.push(Waiting { from, bytes, sync: false, table: is_table });
            self.since.get_or_insert(now);
        }
        if let Some(last) = self.waiting.last_mut() {
            last.bytes.extend_from_slice(packet);
        }
        if is_sync {
            self.mark(ring);
        }
        // A broken stream may name ticks that its clock does not have.
        if let Some(pcr) = told.pcr.map(|pcr| pcr % PCR_WRAP)
            && *self.pid.get_or_insert(told.pid) == told.pid
        {
            self.clock(pcr, now, ring);
        }
        self.position += PACKET as u64;
    }

    /// Marks the last datagram, or the table shortly before it, as a place where a player can
    /// begin.
    fn mark(&mut self, ring: &Ring) {
        let waits = self.waiting.len();
        let mut near = self.waiting.iter_mut().rev().take(TABLE_NEAR);
        if let Some(table) = near.find(|waiting| waiting.table) {
            table.sync = true;
            return;
        }
        match self.table {
            Some(table) if table + TABLE_NEAR as u64 > ring.count() + waits as u64 => {
                ring.mark(table);
            }
            _ => {
                if let Some(last) = self.waiting.last_mut() {
                    last.sync = true;
                }
            }
        }
    }

    /// Handles a clock reading in the last packet.
    fn clock(&mut self, pcr: u64, now: Instant, ring: &Ring) {
        let Some((before, ticks, came)) = self.read.replace((self.position, pcr, now)) else {
            return;
        };
        let bytes = (self.position - before).max(1);
        let gone = (pcr + PCR_WRAP - ticks) % PCR_WRAP;
        let gone_ns = match gone > JUMP {
            // The clock jumped, as at the start of another recording: time continues at the
            // previous pace, or by our own clock.
            true if self.pace > 0 => spent(bytes, self.pace).min(GONE_MAX),
            true => (now.since(came).as_nanos() as u64).min(GONE_MAX),
            false => (u128::from(gone) * u128::from(SECOND) / u128::from(PCR_HZ)) as u64,
        };
        let from_ns = self.elapsed;
        self.elapsed += gone_ns;
        self.pace = (gone_ns << 16) / bytes;
        // Datagrams that began before this packet get their due times now; the last one may still
        // grow.
        let position = self.position;
        let known = self.waiting.partition_point(|waiting| waiting.from <= position);
        let known = known.min(self.waiting.len().saturating_sub(1));
        let at_ns = |from: u64| {
            let part = u128::from(from.saturating_sub(before)) * u128::from(gone_ns);
            from_ns + (part / u128::from(bytes)) as u64
        };
        self.release(known, at_ns, now, ring);
    }

    /// Assigns due times to the first `count` waiting datagrams. `at_ns` gives the source's own
    /// time.
    fn release(&mut self, count: usize, at_ns: impl Fn(u64) -> u64, now: Instant, ring: &Ring) {
        if count == 0 {
            return;
        }
        let first = at_ns(self.waiting[0].from);
        let due = self.origin.map(|origin| origin + first);
        let earliest = ring.last_ns().unwrap_or(0);
        let is_late = due.is_some_and(|due| due < now.ns());
        if is_late {
            ring.tarry();
        }
        // A worker that took over the source continues after the datagrams in the ring.
        let origin = match self.origin.filter(|_| !is_late) {
            Some(origin) => origin,
            None => (now + LEAD).ns().max(earliest).saturating_sub(first),
        };
        self.origin = Some(origin);
        for waiting in self.waiting.drain(..count) {
            let due = (origin + at_ns(waiting.from)).max(earliest);
            if waiting.table {
                self.table = Some(ring.count());
            }
            ring.push(due, waiting.sync, &waiting.bytes);
        }
        self.since = (!self.waiting.is_empty()).then_some(now);
    }

    /// Releases datagrams by our own clock if the source's clock is silent.
    pub fn hurry(&mut self, now: Instant, ring: &Ring) {
        let is_silent = self.since.is_some_and(|since| now.since(since) > SILENCE);
        if is_silent || self.waiting.len() > WAITING_MAX {
            self.let_go(now, ring);
        }
    }

    fn let_go(&mut self, now: Instant, ring: &Ring) {
        let (count, pace) = (self.waiting.len(), self.pace);
        let Some(first) = self.waiting.first().map(|waiting| waiting.from) else { return };
        let (before, from_ns) =
            self.read.map_or((first, self.elapsed), |(before, ..)| (before, self.elapsed));
        let at_ns = |from: u64| from_ns + spent(from.saturating_sub(before), pace).min(GONE_MAX);
        self.release(count, at_ns, now, ring);
    }

    /// The source has ended.
    pub fn end(&mut self, now: Instant, ring: &Ring) {
        self.let_go(now, ring);
        ring.end();
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.bytes.len() >= PACKET * GROUP
    }
}
