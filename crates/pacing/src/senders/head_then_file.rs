//! What `sendfile` and `splice` have in common: a head that is sent with `MSG_MORE`, to which the
//! kernel adds pages of a file.
//!
//! It is the path of MARS (Buddhikot et al., ICMCS 1998) and of splice (Fall and Pasquale, ICMCS
//! 1994) as today's Linux has it: the payload goes from the page cache to the socket inside the
//! kernel. It takes one call more for each packet than a copy would, so whether it pays depends on
//! the length of a payload.
//!
//! The surprising thing: what waits for more belongs to the socket, and so to every thread that
//! sends from it. Only the one streaming worker may use these senders. And the kernel gets the
//! checksum wrong where a page ends at an odd place of the payload ([`sys::splice::odd_part`]):
//! such a payload is copied by `sendfile`, and leaves `splice` in two parts.

use std::io;

use seam::{Burst, Packet};
use sys::udp::{Sent, Udp};

use super::outlet::{Count, Outlet};
use super::wheel_sendto::WheelSendto;

/// After a failure the head must not wait for the next packet's bytes: it leaves alone, which a
/// receiver sees as a packet without a payload.
pub fn flushed(socket: &Udp, packet: &Packet, sent: io::Result<()>) -> io::Result<()> {
    if sent.is_err() {
        let _ = socket.send_to(&[], packet.to, false);
    }
    sent
}

/// Sends each packet by `send`, which says how many calls it took, or nothing for one that is not
/// of a file; such a one is copied.
pub fn one_by_one(
    outlet: &Outlet<'_>,
    burst: &Burst,
    count: &mut Count,
    mut send: impl FnMut(&Udp, &Packet, &[u8]) -> io::Result<Option<usize>>,
) {
    let mut copied = WheelSendto::default();
    outlet.each_run(burst, count, |socket, run| {
        let mut sent = Sent::default();
        for packet in run {
            let took = match send(socket, packet, burst.front(packet)) {
                Ok(Some(calls)) => Ok(calls),
                Ok(None) => copied.send(outlet, burst, packet, socket),
                Err(error) => Err(error),
            };
            match took {
                Ok(calls) => {
                    sent.calls += calls;
                    sent.count += 1;
                }
                Err(error) => {
                    sent.error = Some(error);
                    break;
                }
            }
        }
        sent
    });
}
