//! Datagrams sent through a ring (io_uring(7)): all by one call, with or without a copy.
//!
//! A send to a UDP socket completes while it is submitted, so a ring saves only calls, and
//! sendmmsg(2) saves the same calls for less work each.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{IoUring, cqueue, opcode, types};

use super::{Batch, Filling, Udp};

/// The number of sends that the ring holds at a time.
const ENTRIES: u32 = 1024;

/// A ring for sends; each call waits until its sends have ended.
pub struct SendRing {
    ring: IoUring,
    zerocopy: bool,
    results: Vec<i32>,
}

impl SendRing {
    /// A ring whose sends copy, or with `zerocopy` do not (`IORING_OP_SENDMSG_ZC`, 6.1).
    ///
    /// # Errors
    /// io_uring is absent or forbidden, or the kernel does not know the operation.
    pub fn new(zerocopy: bool) -> io::Result<SendRing> {
        let ring = IoUring::builder().setup_clamp().build(ENTRIES)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let code = if zerocopy { opcode::SendMsgZc::CODE } else { opcode::SendMsg::CODE };
        if !probe.is_supported(code) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel's rings do not know this way to send (6.1 does)",
            ));
        }
        Ok(SendRing { ring, zerocopy, results: Vec::new() })
    }

    /// Sends the datagrams that `fill` adds; returns for each, in order, whether it left, and the
    /// number of calls. A failed datagram does not delay later ones.
    ///
    /// # Errors
    /// The ring itself fails, which leaves nothing in flight.
    pub fn send<'d>(
        &mut self,
        batch: &mut Batch,
        socket: &Udp,
        fill: impl FnOnce(&mut Filling<'_, 'd>),
    ) -> io::Result<(&[i32], usize)> {
        batch.fill(socket, fill);
        let headers = batch.headers();
        self.results.clear();
        self.results.resize(headers.len(), -libc::EIO);
        let (mut next, mut calls) = (0, 0);
        while next < headers.len() {
            let (pushed, expected) = self.push(socket, headers, next);
            next += pushed;
            calls += self.finish(expected)?;
        }
        batch.clear();
        Ok((&self.results, calls))
    }

    /// Fills the queue; returns the number of sends in it, and the number of their completions.
    fn push(&mut self, socket: &Udp, headers: &[libc::mmsghdr], first: usize) -> (usize, usize) {
        let fd = types::Fd(socket.as_fd().as_raw_fd());
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT).cast_unsigned();
        let mut queue = self.ring.submission();
        let mut pushed = 0;
        for (at, header) in headers.iter().enumerate().skip(first) {
            let message = &raw const header.msg_hdr;
            let entry = match self.zerocopy {
                true => opcode::SendMsgZc::new(fd, message).flags(flags).build(),
                false => opcode::SendMsg::new(fd, message).flags(flags).build(),
            };
            // SAFETY: header, pieces and addresses stay where they are until `finish` has seen the
            // completion, because `send` does not return before.
            if unsafe { queue.push(&entry.user_data(at as u64)) }.is_err() {
                break;
            }
            pushed += 1;
        }
        (pushed, pushed)
    }

    /// Submits and waits until `expected` sends are over, notices of those without a copy included.
    fn finish(&mut self, expected: usize) -> io::Result<usize> {
        let (mut open, mut calls) = (expected, 0);
        while open > 0 {
            calls += 1;
            match self.ring.submit_and_wait(open) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Sends in flight still read the caller's memory, so this function cannot return.
                Err(error) => panic!("a ring failed with {open} sends in flight: {error}"),
            }
            for entry in self.ring.completion() {
                if !cqueue::notif(entry.flags()) {
                    self.results[entry.user_data() as usize] = entry.result();
                }
                if !cqueue::more(entry.flags()) {
                    open -= 1;
                }
            }
        }
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pair, take};
    use super::*;

    #[test]
    fn all_leave_by_one_call_and_one_that_fails_is_told() {
        for zerocopy in [false, true] {
            let Ok(mut ring) = SendRing::new(zerocopy) else {
                eprintln!("skipped: io_uring is missing");
                return;
            };
            let (sender, receiver, to) = pair();
            let long = vec![0; 70_000];
            let mut batch = Batch::default();
            let (results, calls) = ring
                .send(&mut batch, &sender, |filling| {
                    for bytes in [&b"one"[..], b"two", &long, b"three"] {
                        filling.datagram(to);
                        filling.piece(bytes);
                    }
                })
                .unwrap();
            assert_eq!(results, [3, 3, -libc::EMSGSIZE, 5]);
            assert!(calls >= 1);
            let heard = [take(&receiver), take(&receiver), take(&receiver)];
            assert_eq!(heard, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        }
    }
}
