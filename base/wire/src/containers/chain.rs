//! Several files as one program: a playlist, played without a gap.
//!
//! File ranges are those of the concatenated files; readers know where each file begins. Times,
//! timestamps and indices continue from file to file.

use super::plan::{Packet, Payload, Plan, SECOND, Track, scaled};
use super::{Program, Unplayable};

/// A file of the chain.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The index of its first packet.
    first: u64,
    /// The time at which it begins.
    start_ns: u64,
    start_ticks: u64,
    /// The offset at which its bytes begin.
    from: u64,
    /// The offset at which its bytes in [`Program::made`] begin.
    made: usize,
    plan: Plan,
}

impl Link {
    /// The index after its last packet.
    fn end(&self) -> u64 {
        self.first + self.plan.len()
    }

    fn packet(&self, index: u64) -> Packet {
        let mut packet = self.plan.packet(index - self.first);
        packet.at_ns += self.start_ns;
        packet.ticks += self.start_ticks;
        // The clock of the stream jumps here (RFC 2250 section 2), or a talkspurt begins.
        packet.marker |= index == self.first;
        packet.payload = match packet.payload {
            Payload::File(range) => Payload::File(range.start + self.from..range.end + self.from),
            Payload::Swapped(range) => {
                Payload::Swapped(range.start + self.from..range.end + self.from)
            }
            Payload::Made(range) => Payload::Made(range.start + self.made..range.end + self.made),
        };
        packet
    }
}

/// Consecutive plans.
#[derive(Clone, Debug)]
pub(super) struct Chain(Vec<Link>);

impl Chain {
    fn link(&self, index: u64) -> &Link {
        let behind = self.0.partition_point(|link| link.first <= index);
        &self.0[behind.saturating_sub(1)]
    }

    pub fn len(&self) -> u64 {
        self.0.last().map_or(0, Link::end)
    }

    pub fn begins_ns(&self) -> u64 {
        self.0.first().map_or(0, |link| link.plan.begins_ns())
    }

    pub fn packet(&self, index: u64) -> Packet {
        self.link(index).packet(index)
    }

    pub fn at_ns(&self, index: u64) -> u64 {
        let link = self.link(index);
        link.start_ns + link.plan.at_ns(index - link.first).unwrap_or(0)
    }

    /// The last packet at which a player can start, among those up to `last`, which is due by `ns`.
    pub fn sync_at(&self, last: u64, ns: u64) -> u64 {
        let link = self.link(last);
        link.first + link.plan.sync_at(ns.saturating_sub(link.start_ns))
    }

    pub fn sync_from(&self, index: u64) -> u64 {
        let links = self.0.iter().filter(|link| link.end() > index);
        let syncs = links.map(|link| {
            let from = index.saturating_sub(link.first);
            (link.end(), link.first + link.plan.sync_from(from))
        });
        syncs.into_iter().find(|(end, sync)| sync < end).map_or(self.len(), |(_, sync)| sync)
    }
}

/// Makes one program of several, each with the length of its file in bytes.
///
/// # Errors
/// The programs differ in kind, or there is none.
pub fn chain(parts: Vec<(Program, u64)>) -> Result<Program, Unplayable> {
    let Some((first, _)) = parts.first() else {
        return Err(Unplayable::Damaged("expected a file in the list, found none"));
    };
    let mut chained = Program { duration_ns: 0, made: [].into(), ..first.clone() };
    let mut links: Vec<Vec<Link>> = vec![Vec::new(); chained.tracks.len()];
    let (mut made, mut from) = (Vec::new(), 0);
    for (program, len) in &parts {
        check(&chained.tracks, &program.tracks)?;
        for (track, links) in program.tracks.iter().zip(&mut links) {
            links.push(Link {
                first: links.last().map_or(0, Link::end),
                start_ns: chained.duration_ns,
                start_ticks: scaled(chained.duration_ns, track.clock.into(), SECOND),
                from,
                made: made.len(),
                plan: track.plan.clone(),
            });
        }
        made.extend_from_slice(&program.made);
        from += len;
        chained.duration_ns = chained.duration_ns.saturating_add(program.duration_ns);
    }
    for (track, links) in chained.tracks.iter_mut().zip(links) {
        track.plan = Chain(links).into();
    }
    chained.made = made.into();
    Ok(chained)
}

/// Whether a player can continue from one file to the other with the same description.
fn check(before: &[Track], after: &[Track]) -> Result<(), Unplayable> {
    let told = |track: &Track| (track.payload_type, track.encoding.clone());
    let same = before.len() == after.len()
        && before.iter().zip(after).all(|(one, other)| {
            // H.264 and H.265 carry their parameters in the stream.
            let goes_on = one.parameters == other.parameters || one.encoding.starts_with("H26");
            told(one) == told(other) && goes_on
        });
    if same {
        return Ok(());
    }
    let words = |tracks: &[Track]| {
        tracks.iter().map(|track| track.encoding.as_str()).collect::<Vec<_>>().join(" and ")
    };
    Err(Unplayable::Codec(format!(
        "found {} after {} in a list, whose files must be alike",
        words(after),
        words(before)
    )))
}
