//! Shared by `sendfile` and `splice`: a header sent with `MSG_MORE`, to which the kernel adds pages
//! of a file.
//!
//! This is the path of MARS (Buddhikot et al., ICMCS 1998) and of splice (Fall and Pasquale, ICMCS
//! 1994) in today's Linux: the payload goes from the page cache to the socket inside the kernel. It
//! takes one call more for each packet than a copy, so it pays only for long payloads.
//!
//! Data that waits for more belongs to the socket, and so to every thread that sends from it; only
//! a single streaming worker may use these senders. The kernel also computes a wrong checksum if a
//! page ends at an odd place of the payload ([`sys::splice::odd_part`]): `sendfile` copies such a
//! payload, `splice` sends it in two parts.

use std::io;

use seam::{Burst, Packet};
use sys::udp::Udp;

use super::outlet::{Count, Outlet};
use super::read_then_send::ReadThenSend;

/// Sends the header alone, as a packet without a payload, after a failure; otherwise it would wait
/// for the next packet's bytes.
pub fn flushed(socket: &Udp, packet: &Packet, sent: io::Result<()>) -> io::Result<()> {
    if sent.is_err() {
        let _ = socket.send_to(&[], packet.to, false);
    }
    sent
}

/// Sends each packet by `send`, which returns how many calls it took, or `None` for a packet whose
/// payload is not in a file; such a packet is copied.
pub fn one_by_one(
    outlet: &Outlet<'_>,
    burst: &Burst,
    count: &mut Count,
    mut send: impl FnMut(&Udp, &Packet, &[u8]) -> io::Result<Option<usize>>,
) {
    let mut copied = ReadThenSend::default();
    outlet.each(burst, count, |socket, packet| {
        let took = send(socket, packet, burst.front(packet))?;
        took.map_or_else(|| copied.send(outlet, burst, packet, socket), Ok)
    });
}
