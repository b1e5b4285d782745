//! Datagrams on a ring: `recvmsg(2)` until cancelled, into provided buffers, and `sendmsg(2)` for
//! many datagrams of one block of bytes.
//!
//! A buffer begins with a head (`struct io_uring_recvmsg_out`: the lengths of name, control
//! messages and payload, and flags), then come room for the name and for control messages, then the
//! payload (io_uring_prep_recvmsg_multishot(3)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{opcode, types};

use super::{Armed, BUFFER_GROUP, Completion, Filled, KIND_DATAGRAM, KIND_RECEIVE, Uring, tag};
use crate::udp::{Batch, Filling, Letter, Udp};

const HEAD: usize = 16;
/// Room for a `sockaddr_in6` of 28 bytes.
const NAME: usize = 32;
/// Room for a control message of one int (`UDP_GRO`), which takes 24 bytes.
const CONTROL: usize = 32;
/// The bytes of a provided buffer before the datagram.
pub const DATAGRAM_OVERHEAD: u32 = (HEAD + NAME + CONTROL) as u32;
/// The bits of a token for the number of a message; the rest is for that of its parcel.
const MESSAGE_BITS: u32 = 24;

/// Messages that the kernel may be reading.
pub(super) struct Parcel {
    bytes: Vec<u8>,
    /// Its headers point into `bytes`, which is not touched until the last completion.
    batch: Batch,
    /// Completions that have not come yet.
    open: usize,
    unsent: Vec<Unsent>,
}

/// A message that did not leave.
#[derive(Debug)]
pub struct Unsent {
    /// Its number in the send.
    pub index: usize,
    /// The reason.
    pub error: io::Error,
}

impl Uring {
    /// Receives datagrams until cancelled, or until an empty one has come
    /// (`IORING_RECV_MULTISHOT`, 6.0). Each comes as [`Completion::Received`]; [`Uring::letter`]
    /// reads it.
    ///
    /// # Panics
    /// If the setup had no buffers.
    pub fn receive_datagrams(&mut self, socket: &Udp, token: u64) -> Armed {
        assert!(self.buffers.is_some(), "a ring without buffers");
        let header = self.received_as.get_or_insert_with(|| {
            // SAFETY: a msghdr is made of integers and pointers, for which zero is a value.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_namelen = NAME as libc::socklen_t;
            header.msg_controllen = CONTROL as _;
            Box::new(header)
        });
        let (fd, header) = (types::Fd(socket.as_fd().as_raw_fd()), &raw const **header);
        let entry = opcode::RecvMsgMulti::new(fd, header, BUFFER_GROUP).build();
        self.arm(entry, tag(KIND_RECEIVE, token))
    }

    /// The datagram of a receive; `None` if the sender has no address.
    #[inline]
    pub fn letter<'a>(&'a self, filled: &'a Filled) -> Option<Letter<'a>> {
        let (head, rest) = self.bytes(filled).split_at_checked(HEAD)?;
        let (name, rest) = rest.split_at_checked(NAME)?;
        let (control, payload) = rest.split_at_checked(CONTROL)?;
        let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        let control = &control[..(word(4) as usize).min(CONTROL)];
        Letter::of(payload, name, control, word(12).cast_signed())
    }

    /// Sends the datagrams that `fill` makes of `bytes`, each by a sendmsg(2) that waits for room
    /// in the send buffer, if the socket is in blocking mode. The bytes come back in
    /// [`Completion::SentDatagrams`].
    ///
    /// # Panics
    /// If there are more than 2^24 messages, or none.
    pub fn send_datagrams(
        &mut self,
        socket: &Udp,
        bytes: Vec<u8>,
        fill: impl for<'d> FnOnce(&mut Filling<'_, 'd>, &'d [u8]),
    ) {
        let mut batch = self.batches.pop().unwrap_or_default();
        batch.fill(socket, |filling| fill(filling, &bytes));
        let open = batch.headers().len();
        assert!(open > 0 && open < 1 << MESSAGE_BITS, "expected messages, found {open}");
        let index = self.parcels.put(Parcel { bytes, batch, open, unsent: Vec::new() });
        let fd = types::Fd(socket.as_fd().as_raw_fd());
        for at in 0..open {
            let header = &raw const self.parcels.at(index).batch.headers()[at].msg_hdr;
            let entry = opcode::SendMsg::new(fd, header).flags(libc::MSG_NOSIGNAL as u32).build();
            let token = u64::from(index) << MESSAGE_BITS | at as u64;
            self.push(entry.user_data(tag(KIND_DATAGRAM, token)));
        }
    }

    pub(super) fn datagram_left(&mut self, token: u64, result: i32) -> Completion {
        let (index, at) = ((token >> MESSAGE_BITS) as u32, token as usize % (1 << MESSAGE_BITS));
        let parcel = self.parcels.at(index);
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result);
            parcel.unsent.push(Unsent { index: at, error });
        }
        parcel.open -= 1;
        if parcel.open > 0 {
            return Completion::Quiet;
        }
        let Parcel { bytes, batch, unsent, .. } = self.parcels.take(index);
        self.batches.push(batch);
        Completion::SentDatagrams { bytes, unsent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::{Raw, Received, Setup};
    use std::net::SocketAddr;
    use std::time::Duration;

    #[test]
    fn datagrams_come_with_their_senders_and_failures_with_their_numbers() {
        let setup = Setup { buffers: 8, buffer_len: 256, ..Setup::default() };
        let Ok(mut ring) = Uring::new(&setup) else {
            eprintln!("skipped: io_uring is missing");
            return;
        };
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Udp::bind(local, &Default::default()).unwrap();
        let (to, long) = (socket.local_addr().unwrap(), vec![1; 70_000]);
        socket.set_gro(true).unwrap();
        crate::socket::set_nonblocking(&socket, false).unwrap();
        ring.receive_datagrams(&socket, 5);
        let bytes = [&b"aaabbbc"[..], &long].concat();
        ring.send_datagrams(&socket, bytes.clone(), |filling, bytes| {
            for (range, segment) in [(0..7, 3), (7..70_007, 0), (100..400, 0), (0..0, 0)] {
                filling.datagram(to);
                filling.piece(&bytes[range]);
                if segment > 0 {
                    filling.segment(segment);
                }
            }
        });
        let (mut heard, mut sent, mut batch) = (Vec::new(), None, Vec::<Raw>::new());
        while heard.len() < 5 || sent.is_none() {
            ring.wait(Some(Duration::from_secs(10)), &mut batch).unwrap();
            assert!(!batch.is_empty(), "only {heard:?} came");
            for raw in batch.split_off(0) {
                match ring.completion(&raw) {
                    Completion::Received { token: 5, input: Received::Bytes(filled), .. } => {
                        let letter = ring.letter(&filled).unwrap();
                        assert_eq!(letter.from, to);
                        heard.extend(letter.datagrams().map(|it| (it.len(), letter.is_cut)));
                        ring.give_back(filled);
                    }
                    Completion::SentDatagrams { bytes, unsent } => sent = Some((bytes, unsent)),
                    _ => {}
                }
            }
        }
        let room = 256 - DATAGRAM_OVERHEAD as usize;
        assert_eq!(heard, [(3, false), (3, false), (1, false), (room, true), (0, false)]);
        let (back, unsent) = sent.unwrap();
        assert!(back == bytes && unsent.len() == 1 && unsent[0].index == 1, "{unsent:?}");
        assert_eq!(unsent[0].error.raw_os_error(), Some(libc::EMSGSIZE));
    }
}
