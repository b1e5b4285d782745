//! The program that makes frames: it takes the next row of a table, writes the headers of Ethernet,
//! IPv4 and UDP with their checksums into the frame, then the packet, and passes it to this machine
//! or redirects it to the device that the route names.
//!
//! Each row is one packet. The row holds the sum over its bytes, computed when they were written;
//! the program adds addresses and lengths, as a network card would.
//!
//! The program looks routes up as for a *forwarded* packet, so forwarding must be enabled on the
//! device from which frames seem to come. It returns a packet whose neighbour is unknown, because
//! only the ordinary path sends a request for the neighbour's address.

use sys::bpf::{Assembly, Helper, Label, Math, Table, When, Width};
use sys::xdp::Verdict;

use super::jobs::{
    BYTES, COUNT, CUT, DEVICE, FIRST, FRAGMENT, HEADS, HOPS, LEN, NUMBER, PACKET_MAX, PLAIN_HEADS,
    PORTS, ROUTE_FAILED, SOURCE, STATUS, SUM, TAKEN, TO,
};

/// Stack slots: the key of a row, and the argument of the route lookup (`bpf_fib_lookup`, 64
/// bytes).
const KEY: i16 = -4;
const ASK: i16 = -72;
/// Its fields.
const ASK_PORTS: i16 = ASK + 2;
const ASK_LEN: i16 = ASK + 6;
const ASK_DEVICE: i16 = ASK + 8;
const ASK_SERVICE: i16 = ASK + 12;
const ASK_SOURCE: i16 = ASK + 16;
const ASK_TO: i16 = ASK + 32;
/// The hardware addresses of the result, ours and the neighbour's.
const OURS: i16 = ASK + 52;
const THEIRS: i16 = ASK + 58;

/// Assembles the program. Frames seem to come by `device`, which has the hardware address `own`.
pub fn assemble(table: &Table, device: u32, own: [u8; 6]) -> Assembly {
    use Width::Word;
    let mut code = Assembly::default();
    let [stranger, failed, dropped, heads, near] = [(); 5].map(|()| code.label());
    code.math_by(Math::Mov, 6, 1);
    code.math(Math::Mov, 1, 0);
    code.store(Word, 10, KEY, 1);
    row(&mut code, table);
    // A frame that is not ours arrived by the device.
    code.jump_if(When::Equal, 0, 0, stranger);
    code.load(Word, 2, 0, TAKEN);
    code.load(Word, 3, 0, COUNT);
    code.jump_if_by(When::AtLeast, 2, 3, stranger);
    code.math(Math::Add, 2, 1);
    code.store(Word, 0, TAKEN, 2);
    code.store(Word, 10, KEY, 2);
    row(&mut code, table);
    code.jump_if(When::Equal, 0, 0, stranger);
    code.math_by(Math::Mov, 7, 0);
    fill(&mut code, dropped);
    code.load(Word, 9, 7, DEVICE);
    code.jump_if(When::Equal, 9, 0, near);
    ask(&mut code, device);
    code.jump_if(When::Differs, 0, 0, failed);
    code.load(Word, 1, 10, ASK_DEVICE);
    code.math(Math::Mov, 0, 0);
    code.jump_if_by(When::Differs, 1, 9, failed);
    code.jump(heads);
    code.here(near);
    address(&mut code, own);
    code.here(heads);
    write_heads(&mut code, dropped);
    code.math(Math::Mov, 1, 1);
    code.store(Word, 7, STATUS, 1);
    code.jump_if(When::Equal, 9, 0, stranger);
    code.math_by(Math::Mov, 1, 9);
    code.math(Math::Mov, 2, 0);
    code.call(Helper::Redirect);
    code.exit();
    code.here(failed);
    code.math(Math::Add, 0, ROUTE_FAILED as i32);
    code.store(Word, 7, STATUS, 0);
    code.here(dropped);
    code.math(Math::Mov, 0, Verdict::Drop as i32);
    code.exit();
    code.here(stranger);
    code.math(Math::Mov, 0, Verdict::Pass as i32);
    code.exit();
    code
}

/// Looks up the route of row 7, whose packet has the length 8, as for a forwarded packet; register
/// 0 is zero on success.
fn ask(code: &mut Assembly, device: u32) {
    use Width::{Double, Half, Word};
    code.math(Math::Mov, 1, 0);
    (0..8).for_each(|at| code.store(Double, 10, ASK + at * 8, 1));
    code.math(Math::Mov, 1, INET);
    code.store(Width::Byte, 10, ASK, 1);
    code.math(Math::Mov, 1, 17);
    code.store(Width::Byte, 10, ASK + 1, 1);
    for (from, to, width) in [
        (PORTS, ASK_PORTS, Half),
        (PORTS + 2, ASK_PORTS + 2, Half),
        (FIRST + 1, ASK_SERVICE, Width::Byte),
        (SOURCE, ASK_SOURCE, Word),
        (TO, ASK_TO, Word),
    ] {
        code.load(width, 1, 7, from);
        code.store(width, 10, to, 1);
    }
    code.math(Math::Add, 8, PLAIN_HEADS as i32);
    code.store(Half, 10, ASK_LEN, 8);
    code.math(Math::Add, 8, -(PLAIN_HEADS as i32));
    code.math(Math::Mov, 1, device as i32);
    code.store(Word, 10, ASK_DEVICE, 1);
    code.math_by(Math::Mov, 1, 6);
    code.math_by(Math::Mov, 2, 10);
    code.math(Math::Add, 2, ASK.into());
    code.math(Math::Mov, 3, 64);
    code.math(Math::Mov, 4, 0);
    code.call(Helper::LookupRoute);
}

/// The hardware addresses of a frame to this machine.
fn address(code: &mut Assembly, own: [u8; 6]) {
    use Width::{Half, Word};
    let [a, b, c, d, e, f] = own;
    for (at, value) in [(OURS, 0), (THEIRS + 2, u32::from_ne_bytes([c, d, e, f]))] {
        code.math(Math::Mov, 1, value as i32);
        code.store(Word, 10, at, 1);
    }
    for (at, value) in [(OURS + 4, 0), (THEIRS, u16::from_ne_bytes([a, b]))] {
        code.math(Math::Mov, 1, value.into());
        code.store(Half, 10, at, 1);
    }
}

/// `AF_INET`, the same wherever Linux runs.
const INET: i32 = 2;

/// Register 0: the row whose number lies at `KEY`, or zero.
fn row(code: &mut Assembly, table: &Table) {
    code.table(1, table);
    code.math_by(Math::Mov, 2, 10);
    code.math(Math::Add, 2, KEY.into());
    code.call(Helper::Lookup);
}

/// Makes the frame as long as the packet of row 7, and copies the packet; register 8: its length.
fn fill(code: &mut Assembly, dropped: Label) {
    let (fits, some, none) = (code.label(), code.label(), code.label());
    code.load(Width::Word, 2, 7, CUT);
    code.jump_if(When::Equal, 2, 0, fits);
    code.math_by(Math::Mov, 1, 6);
    code.call(Helper::AdjustTail);
    code.jump_if(When::Differs, 0, 0, dropped);
    code.here(fits);
    code.load(Width::Word, 8, 7, LEN);
    code.jump_if(When::AtLeast, 8, 1, some);
    code.jump(none);
    code.here(some);
    code.jump_if(When::Above, 8, PACKET_MAX as i32, dropped);
    code.math_by(Math::Mov, 1, 6);
    code.math(Math::Mov, 2, HEADS as i32);
    code.math_by(Math::Mov, 3, 7);
    code.math(Math::Add, 3, BYTES.into());
    code.math_by(Math::Mov, 4, 8);
    code.call(Helper::StoreFrame);
    code.jump_if(When::Differs, 0, 0, dropped);
    code.here(none);
}

/// Writes the headers: 7 is the row, 8 the length; hardware addresses are on the stack.
fn write_heads(code: &mut Assembly, dropped: Label) {
    use Width::{Half, Word};
    code.load(Word, 2, 6, 0);
    code.load(Word, 3, 6, 4);
    code.math_by(Math::Mov, 1, 2);
    code.math(Math::Add, 1, HEADS as i32);
    code.jump_if_by(When::Above, 1, 3, dropped);
    for (at, from, width) in
        [(0, THEIRS, Half), (2, THEIRS + 2, Word), (6, OURS, Word), (10, OURS + 4, Half)]
    {
        code.load(width, 1, 10, from);
        code.store(width, 2, at, 1);
    }
    code.math(Math::Mov, 1, 0x0800_u16.to_be().into());
    code.store(Half, 2, 12, 1);
    for (at, from, width) in [
        (14, FIRST, Half),
        (18, NUMBER, Half),
        (20, FRAGMENT, Half),
        (22, HOPS, Half),
        (26, SOURCE, Word),
        (30, TO, Word),
        (34, PORTS, Half),
        (36, PORTS + 2, Half),
    ] {
        code.load(width, 1, 7, from);
        code.store(width, 2, at, 1);
    }
    // 5: the sum of the addresses, for both checksums. 3 and 4: the lengths.
    code.math(Math::Mov, 5, 0);
    add(code, 5, &[SOURCE, SOURCE + 2, TO, TO + 2]);
    for (length, at, more) in [(3, 16, PLAIN_HEADS), (4, 38, 8)] {
        code.math_by(Math::Mov, length, 8);
        code.math(Math::Add, length, more as i32);
        code.in_network_order(length, 16);
        code.store(Half, 2, at, length);
    }
    code.math_by(Math::Mov, 1, 5);
    code.math_by(Math::Add, 1, 3);
    add(code, 1, &[FIRST, NUMBER, FRAGMENT, HOPS]);
    close(code, 1, 3);
    code.store(Half, 2, 24, 1);
    // The length counts twice, in the header and the pseudo-header; the protocol number once.
    code.math_by(Math::Mov, 1, 5);
    code.math_by(Math::Add, 1, 4);
    code.math_by(Math::Add, 1, 4);
    code.math(Math::Add, 1, 17_u16.to_be().into());
    add(code, 1, &[PORTS, PORTS + 2, SUM, SUM + 2]);
    close(code, 1, 3);
    let whole = code.label();
    // Zero would mean that there is none (RFC 768).
    code.jump_if(When::Differs, 1, 0, whole);
    code.math(Math::Mov, 1, 0xffff);
    code.here(whole);
    code.store(Half, 2, 40, 1);
}

/// Adds half words of the row, through register 0.
fn add(code: &mut Assembly, to: u8, from: &[i16]) {
    for &at in from {
        code.load(Width::Half, 0, 7, at);
        code.math_by(Math::Add, to, 0);
    }
}

/// Adds the carries and inverts the bits.
fn close(code: &mut Assembly, sum: u8, spare: u8) {
    for _ in 0..2 {
        code.math_by(Math::Mov, spare, sum);
        code.math(Math::Shr, spare, 16);
        code.math(Math::And, sum, 0xffff);
        code.math_by(Math::Add, sum, spare);
    }
    code.math(Math::Xor, sum, 0xffff);
    code.math(Math::And, sum, 0xffff);
}
