//! Passing descriptors between processes (`SCM_RIGHTS`, unix(7), cmsg(3)) over a channel that
//! preserves message boundaries (`SOCK_SEQPACKET`).
//!
//! A descriptor in flight is owned by the channel. The sender may close its own copy at once; if
//! the message is never received, the kernel closes the passed descriptor with the channel.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::call::{check, check_count, uninterrupted};

/// Space for the control message that carries one descriptor, aligned as its header requires.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

// SAFETY: CMSG_SPACE only computes with its argument.
const CONTROL_LEN: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;

/// The two ends of a channel; both send and receive. They block, up to a receive timeout if one is
/// set ([`crate::socket::set_receive_timeout`]).
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array is writable for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: the call made both and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Sends a copy of `passed` with a message of at least one byte; never blocks.
///
/// # Errors
/// `WouldBlock` if the channel is full, `BrokenPipe` if the other end is closed, `ETOOMANYREFS` if
/// more descriptors are in flight than may be open.
pub fn send(channel: impl AsFd, passed: BorrowedFd<'_>, words: &[u8]) -> io::Result<()> {
    let mut control = Control([0; CONTROL_LEN]);
    // The kernel only reads from it.
    let (start, len) = (words.as_ptr().cast_mut().cast(), words.len());
    let mut slice = libc::iovec { iov_base: start, iov_len: len };
    let message = message(&mut slice, &mut control);
    // SAFETY: the control buffer is aligned and has room for a header and one descriptor, so the
    // first header lies in it, and so does its data.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(passed.as_raw_fd());
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    uninterrupted(|| {
        // SAFETY: the message names buffers that outlive the call, and `passed` is open.
        check_count(unsafe { libc::sendmsg(channel.as_fd().as_raw_fd(), &message, flags) })
    })
    .map(|_| ())
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
    let mut control = Control([0; CONTROL_LEN]);
    let mut slice = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: words.len() };
    let mut message = message(&mut slice, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC | if wait { 0 } else { libc::MSG_DONTWAIT };
    let len = uninterrupted(|| {
        // SAFETY: the message names buffers that are writable for their lengths and outlive the
        // call.
        check_count(unsafe { libc::recvmsg(channel.as_fd().as_raw_fd(), &mut message, flags) })
    })?;
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    // SAFETY: recvmsg filled the control buffer up to the length in the message, so a header that
    // is found lies in it; one of this kind carries a descriptor that we now own.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        let number = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok(Some((OwnedFd::from_raw_fd(number), len)))
    }
}

/// A message of one slice with all of `control`.
fn message(slice: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: a msghdr is made of integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN as _;
    message
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
