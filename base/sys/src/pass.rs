//! Passing descriptors between processes (`SCM_RIGHTS`, unix(7), cmsg(3)) over a channel that
//! preserves message boundaries (`SOCK_SEQPACKET`).
//!
//! A descriptor in flight is owned by the channel. The sender may close its own copy at once; if
//! the message is never received, the kernel closes the passed descriptor with the channel.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Space for the control message that carries one descriptor.
const CONTROL: [MaybeUninit<u8>; rustix::cmsg_space!(ScmRights(1))] =
    [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];

/// The two ends of a channel; both send and receive. They block, up to a receive timeout if one is
/// set (`SO_RCVTIMEO`).
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a copy of `passed` with a message of at least one byte; never blocks.
///
/// # Errors
/// `WouldBlock` if the channel is full, `BrokenPipe` if the other end is closed, `ETOOMANYREFS` if
/// more descriptors are in flight than may be open.
pub fn send(channel: impl AsFd, passed: BorrowedFd<'_>, words: &[u8]) -> io::Result<()> {
    let (mut space, passed) = (CONTROL, [passed]);
    let mut control = SendAncillaryBuffer::new(&mut space);
    let has_room = control.push(SendAncillaryMessage::ScmRights(&passed));
    debug_assert!(has_room, "the space is made for one descriptor");
    let (words, flags) = ([IoSlice::new(words)], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    retry_on_intr(|| sendmsg(&channel, &words, &mut control, flags))?;
    Ok(())
}

/// Receives a descriptor, close-on-exec, and its message into `words`; returns also the length of
/// the message. With `wait` it blocks as the channel does. `None` means that the other end is
/// closed, or that a message came without a descriptor.
///
/// # Errors
/// `WouldBlock` if none came in time; `EMFILE` if the message came and its descriptor could not be
/// opened here (the kernel has closed it).
pub fn receive(
    channel: impl AsFd,
    wait: bool,
    words: &mut [u8],
) -> io::Result<Option<(OwnedFd, usize)>> {
    let mut space = CONTROL;
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    flags.set(RecvFlags::DONTWAIT, !wait);
    let mut words = [IoSliceMut::new(words)];
    let message = retry_on_intr(|| recvmsg(&channel, &mut words, &mut control, flags))?;
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    let passed = control.drain().find_map(|it| match it {
        RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
        _ => None,
    });
    Ok(passed.map(|passed| (passed, message.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inherit::is_inheritable;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_passed_outlives_the_senders_copy() {
        let (ours, theirs) = pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        send(&ours, far.as_fd(), b"a socket").unwrap();
        drop(far);
        let mut words = [0; 20];
        let (passed, len) = receive(&theirs, true, &mut words).unwrap().unwrap();
        assert_eq!(&words[..len], b"a socket");
        assert!(!is_inheritable(&passed).unwrap());
        near.write_all(b"hello").unwrap();
        drop(near);
        let mut text = String::new();
        UnixStream::from(passed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn an_empty_channel_and_an_ended_one_are_told_apart() {
        let (ours, theirs) = pair().unwrap();
        let nothing = receive(&theirs, false, &mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        crate::socket::send(&ours, b"x").unwrap();
        assert!(
            receive(&theirs, true, &mut [0]).unwrap().is_none(),
            "a message without a descriptor"
        );
        drop(ours);
        assert!(receive(&theirs, true, &mut [0]).unwrap().is_none());
    }

    #[test]
    fn a_full_channel_answers_at_once_and_messages_keep_their_order() {
        let (ours, theirs) = pair().unwrap();
        let (_near, far) = UnixStream::pair().unwrap();
        let mut sent = 0;
        while send(&ours, far.as_fd(), b"x").is_ok() {
            sent += 1;
            assert!(sent < 1_000_000, "a channel has an end");
        }
        for _ in 0..sent {
            assert!(receive(&theirs, false, &mut [0]).unwrap().is_some());
        }
        assert!(receive(&theirs, false, &mut [0]).is_err());
    }
}
