//! Payloads that go from the page cache to the socket inside the kernel: no read, no copy by us.
//!
//! The head is sent with the word that more will come, and the kernel adds the file's pages to it:
//! the path of MARS (Buddhikot et al., ICMCS 1998) and of splice (Fall and Pasquale, ICMCS 1994)
//! as today's Linux has it. It takes a call more for each packet than a copy would, so whether it
//! pays depends on the length of a payload.
//!
//! The surprising thing: what waits for more belongs to the socket, and so to every thread that
//! sends from it. There is one caster worker, and it alone may use these. And the kernel gets the
//! checksum wrong where a page ends at an odd place of the payload ([`odd_part`]): such a payload
//! is copied by `sendfile`, and leaves `splice` in two parts.

use std::io;

use seam::{Burst, Packet, Payload};
use sys::splice::{Pipe, odd_part, sendfile};
use sys::udp::{Sent, Udp};

use super::Transmit;
use super::outlet::{Count, Outlet};

/// send with `MSG_MORE`, then sendfile.
#[derive(Default)]
pub struct Sendfile;

impl Transmit for Sendfile {
    fn sends_open_files(&self) -> bool {
        true
    }

    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        one_by_one(outlet, burst, count, |socket, packet, front| {
            let Payload::File(source, range) = &packet.payload else { return Ok(None) };
            if odd_part(range.start, packet.payload.len()).is_some() {
                return Ok(None);
            }
            let file = outlet.files.file(source).ok_or(io::ErrorKind::NotFound)?;
            socket.send_to(front, packet.to, true)?;
            let sent = sendfile(socket, file, range.start, packet.payload.len());
            flushed(socket, packet, sent).map(|()| Some(2))
        });
    }
}

/// splice from the file into a pipe, and from there behind a head that was sent with `MSG_MORE`.
pub struct Splice(Pipe);

impl Splice {
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Splice> {
        Pipe::new().map(Splice)
    }
}

impl Transmit for Splice {
    fn sends_open_files(&self) -> bool {
        true
    }

    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        one_by_one(outlet, burst, count, |socket, packet, front| {
            let Payload::File(source, range) = &packet.payload else { return Ok(None) };
            let file = outlet.files.file(source).ok_or(io::ErrorKind::NotFound)?;
            let len = packet.payload.len();
            self.0.put_file(file, range.start, len)?;
            socket.send_to(front, packet.to, true)?;
            let first = odd_part(range.start, len).unwrap_or(0);
            let front_left = if first > 0 { self.0.drain_front(socket, first) } else { Ok(()) };
            let sent = front_left.and_then(|()| self.0.drain(socket, len - first));
            flushed(socket, packet, sent).map(|()| Some(3 + usize::from(first > 0)))
        });
    }
}

/// After a failure the head must not wait for the next packet's bytes: it leaves alone, which a
/// receiver sees as a packet without a payload.
fn flushed(socket: &Udp, packet: &Packet, sent: io::Result<()>) -> io::Result<()> {
    if sent.is_err() {
        let _ = socket.send_to(&[], packet.to, false);
    }
    sent
}

/// Sends each packet by `send`, which says how many calls it took, or nothing for one that is not
/// of a file; such a one is copied.
fn one_by_one(
    outlet: &Outlet<'_>,
    burst: &Burst,
    count: &mut Count,
    mut send: impl FnMut(&Udp, &Packet, &[u8]) -> io::Result<Option<usize>>,
) {
    let mut copied = super::Sendto::default();
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
