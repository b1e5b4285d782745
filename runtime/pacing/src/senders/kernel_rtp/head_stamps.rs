//! Headers that the kernel writes where packets leave the queue, and in all segments of a message
//! that it will segment later.
//!
//! The headers of a stream differ by one in the sequence number and by a constant in the timestamp
//! (RFC 3550, section 5.1), as long as the stream continues evenly. Such a run has a row in a table
//! from which the program counts: it writes the header that the source would have sent, or leaves
//! the packet as it is (run 0). A packet with a marker is a separate run.
//!
//! A message that will still be segmented, or whose checksum the device computes, needs no repair
//! of its checksum, because there the field holds only the sum of the addresses. The same call
//! repairs the checksum if it is complete, and does nothing if it is not.

use std::collections::HashMap;
use std::io;

use sys::bpf::{Assembly, Helper, Label, Math, Table, When, Width};

use super::bucket::FRAME;

/// The maximum number of runs; a window usually has one for each stream.
const RUNS: usize = 1 << 16;
/// The length of a header, in bytes.
pub const HEAD: usize = 12;
/// The words of a row: first sequence number, first timestamp, step of the timestamp, the first two
/// bytes, the SSRC, and one that makes the row a multiple of eight bytes.
const WORDS: usize = 6;
/// The maximum number of segments in a message.
const PIECES: i32 = 64;

/// The runs and the table that the program reads them from.
pub struct HeadStamps {
    table: Table,
    /// The row that was assigned last.
    last: u16,
    open: HashMap<u32, Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    row: u16,
    /// The sequence number and timestamp of its first packet.
    first: (u16, u32),
    /// The sequence number and timestamp of its last packet.
    last: (u16, u32),
    /// The step of the timestamp; unknown before the second packet.
    step: Option<u32>,
    /// The constant part: the first two bytes and the SSRC.
    constant: [u8; 6],
}

/// Splits a header into sequence number, timestamp and the rest.
fn read(front: &[u8]) -> Option<(u16, u32, [u8; 6])> {
    let head: &[u8; HEAD] = front.first_chunk()?;
    let [v, t, n0, n1, t0, t1, t2, t3, s0, s1, s2, s3] = *head;
    let words = (u16::from_be_bytes([n0, n1]), u32::from_be_bytes([t0, t1, t2, t3]));
    (v >> 6 == 2).then_some((words.0, words.1, [v, t, s0, s1, s2, s3]))
}

impl Run {
    /// Continues with a packet, if it fits.
    fn go_on(&mut self, (number, time, constant): (u16, u32, [u8; 6])) -> bool {
        let step = time.wrapping_sub(self.last.1);
        let fits = constant == self.constant
            && number == self.last.0.wrapping_add(1)
            && self.step.is_none_or(|known| known == step);
        if fits {
            (self.last, self.step) = ((number, time), Some(step));
        }
        fits
    }
}

impl HeadStamps {
    /// # Errors
    /// `EPERM` without `CAP_BPF`.
    pub fn new() -> io::Result<HeadStamps> {
        Ok(HeadStamps { table: Table::new(WORDS, RUNS)?, last: 0, open: HashMap::new() })
    }

    /// The run of the next packet of stream `owner`, which begins with `front`; 0 if the packet is
    /// not RTP.
    pub fn run(&mut self, owner: u32, front: &[u8]) -> u16 {
        let Some(head) = read(front) else { return 0 };
        if let Some(run) = self.open.get_mut(&owner)
            && run.go_on(head)
        {
            return run.row;
        }
        // Rows are reused in turn, because a window has fewer runs than there are rows.
        self.last = self.last.checked_add(1).unwrap_or(1);
        let (number, time, constant) = head;
        let (row, first) = (self.last, (number, time));
        let run = Run { row, first, last: first, step: None, constant };
        if let Some(before) = self.open.insert(owner, run) {
            self.write(&before);
        }
        row
    }

    /// Writes the runs to the table; later packets begin new ones.
    pub fn close(&mut self) {
        for run in std::mem::take(&mut self.open).into_values() {
            self.write(&run);
        }
    }

    fn write(&self, run: &Run) {
        let (number, time) = run.first;
        let [v, t, ssrc @ ..] = run.constant;
        // The program adds the number to the first two bytes, and copies the SSRC as it is.
        let front = u32::from_be_bytes([v, t, 0, 0]);
        let step = run.step.unwrap_or(0);
        let row = [u32::from(number), time, step, front, u32::from_ne_bytes(ssrc)];
        self.table.write(usize::from(run.row), &row);
    }
}

/// Fields of the classifier's context (`__sk_buff`).
const CAME_BY: i16 = 36;
const SEGMENTS: i16 = 164;
const SEGMENT: i16 = 176;
/// Stack slots: the key, the three words of a header together, the length of a segment.
const KEY: i16 = -4;
const SSRC: i16 = -8;
const TIME: i16 = -12;
const FRONT: i16 = -16;
const STRIDE: i16 = -24;

/// Assembles the part of the program that writes headers: register 6 has the packet, 7 its mark. It
/// jumps to `done` for packets that keep theirs, or get it later: only a packet that has waited in
/// the queue has arrived at its device from another device.
pub fn write(code: &mut Assembly, stamps: &HeadStamps, done: Label) {
    code.math(Math::And, 7, 0xffff);
    code.jump_if(When::Equal, 7, 0, done);
    code.load(Width::Word, 2, 6, CAME_BY);
    code.jump_if(When::Equal, 2, 0, done);
    code.store(Width::Word, 10, KEY, 7);
    code.table(1, &stamps.table);
    code.math_by(Math::Mov, 2, 10);
    code.math(Math::Add, 2, KEY.into());
    code.call(Helper::Lookup);
    code.jump_if(When::Equal, 0, 0, done);
    code.math_by(Math::Mov, 8, 0);
    code.load(Width::Word, 2, 6, SEGMENT);
    code.store(Width::Double, 10, STRIDE, 2);
    // Register 7 counts segments, 9 holds their number; an unsegmented message has one.
    code.load(Width::Word, 9, 6, SEGMENTS);
    let (cut, again, sum) = (code.label(), code.label(), code.label());
    code.jump_if(When::Differs, 9, 0, cut);
    code.math(Math::Mov, 9, 1);
    code.here(cut);
    code.math(Math::Mov, 7, 0);
    code.load(Width::Word, 1, 8, 16);
    code.store(Width::Word, 10, SSRC, 1);
    code.here(again);
    // The first two bytes and the sequence number, and the timestamp, in network order; then those
    // of the next packet.
    code.load(Width::Word, 1, 8, 0);
    code.math_by(Math::Mov, 2, 1);
    code.math(Math::Add, 2, 1);
    code.store(Width::Word, 8, 0, 2);
    code.math(Math::And, 1, 0xffff);
    code.load(Width::Word, 3, 8, 12);
    code.math_by(Math::Add, 1, 3);
    code.in_network_order(1, 32);
    code.store(Width::Word, 10, FRONT, 1);
    code.load(Width::Word, 1, 8, 4);
    code.math_by(Math::Mov, 2, 1);
    code.load(Width::Word, 3, 8, 8);
    code.math_by(Math::Add, 2, 3);
    code.store(Width::Word, 8, 4, 2);
    code.in_network_order(1, 32);
    code.store(Width::Word, 10, TIME, 1);
    code.load(Width::Double, 2, 10, STRIDE);
    code.math_by(Math::Mul, 2, 7);
    code.math(Math::Add, 2, FRAME as i32);
    code.math_by(Math::Mov, 1, 6);
    code.math_by(Math::Mov, 3, 10);
    code.math(Math::Add, 3, FRONT.into());
    code.math(Math::Mov, 4, HEAD as i32);
    code.math(Math::Mov, 5, 0);
    code.call(Helper::StoreBytes);
    code.math(Math::Add, 7, 1);
    code.jump_if_by(When::AtLeast, 7, 9, sum);
    code.jump_if(When::AtLeast, 7, PIECES, sum);
    code.jump(again);
    code.here(sum);
    // Only a message of one segment may have a complete checksum.
    code.jump_if(When::Differs, 7, 1, done);
    for place in [FRONT, TIME, SSRC] {
        code.math_by(Math::Mov, 1, 6);
        code.math(Math::Mov, 2, FRAME as i32 - 2);
        // These bytes were zero before.
        code.math(Math::Mov, 3, 0);
        code.load(Width::Word, 4, 10, place);
        // Four bytes; BPF_F_MARK_MANGLED_0: an absent checksum stays absent.
        code.math(Math::Mov, 5, 4 | 1 << 5);
        code.call(Helper::ReplaceChecksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u16, time: u32) -> Vec<u8> {
        let mut head = vec![0x80, 96];
        head.extend(number.to_be_bytes());
        head.extend(time.to_be_bytes());
        head.extend([1, 2, 3, 4, 99]);
        head
    }

    #[test]
    fn a_run_goes_on_while_number_and_time_grow_evenly() {
        let first = read(&head(0xffff, 10)).expect("a head");
        let (constant, start) = (first.2, (first.0, first.1));
        let run = Run { row: 1, first: start, last: start, step: None, constant };
        let mut even = run;
        for step in 1..5 {
            assert!(even.go_on(read(&head(0xffff_u16.wrapping_add(step), 10)).expect("a head")));
        }
        assert_eq!((even.step, even.last.0), (Some(0), 3));
        let mut broken = run;
        assert!(broken.go_on(read(&head(0, 250)).expect("a head")));
        for (number, time) in [(1, 489), (2, 490), (0, 490)] {
            let before = broken;
            assert!(!broken.go_on(read(&head(number, time)).expect("a head")));
            assert_eq!(broken, before);
        }
        let mut marked = head(1, 490);
        marked[1] |= 0x80;
        assert!(!broken.go_on(read(&marked).expect("a head")));
        assert!(broken.go_on(read(&head(1, 490)).expect("a head")));
    }

    #[test]
    fn what_is_no_head_is_not_read() {
        assert_eq!(read(&[0x80; 11]), None);
        assert_eq!(read(&[0x40; 12]), None);
        assert!(read(&[0x80; 12]).is_some());
    }
}
