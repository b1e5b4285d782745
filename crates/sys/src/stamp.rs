//! Arrival times of stream data by the kernel's clock (`SO_TIMESTAMPNS`, socket(7)).
//!
//! A reader that is scheduled late sees only when it ran. Over the loopback interface the kernel
//! timestamps the data while the sender sends, so the timestamp separates the sender's time from
//! the reader's.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::call::{check, check_count, uninterrupted};

/// Space for the control message: a header of two words, and two words of time.
const CONTROL: usize = 64;

/// Aligned as control messages require.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Asks the kernel to timestamp data on this socket; the very first data may lack a stamp.
///
/// # Errors
/// None in practice.
pub fn ask_for_stamps(fd: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the option is an int that outlives the call.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), len) }).map(drop)
}

/// Receives into `buffer`; returns the number of bytes and when the last of them arrived, in
/// nanoseconds since 1970, if the kernel provides it. Blocks if the descriptor does, up to its
/// receive timeout.
///
/// # Errors
/// As [`crate::socket::recv`].
pub fn recv_stamped(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; CONTROL]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a header is made of integers and pointers; zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_name = ptr::null_mut();
    let fd = fd.as_fd().as_raw_fd();
    let len = uninterrupted(|| {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: buffer and control message are ours, have the announced sizes, and outlive the
        // call.
        check_count(unsafe { libc::recvmsg(fd, &raw mut message, 0) })
    })?;
    Ok((len, stamp(&control, message.msg_controllen as _)))
}

/// The time in a control message, if it holds one.
fn stamp(control: &Control, len: usize) -> Option<u64> {
    let word = |at: usize| {
        let bytes = control.0[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let kind = u64::from(libc::SOL_SOCKET.cast_unsigned())
        | u64::from(libc::SCM_TIMESTAMPNS.cast_unsigned()) << 32;
    (len >= 32 && word(8) == kind).then(|| word(16) * 1_000_000_000 + word(24))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_was_read_late_has_come_when_it_was_sent() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let mut buffer = [0; 16];
        sender.write_all(b"one").unwrap();
        assert_eq!(recv_stamped(&receiver, &mut buffer).unwrap(), (3, None), "nobody asked");
        ask_for_stamps(&receiver).unwrap();
        // The kernel starts to timestamp a moment after the first request on the machine.
        let found = (0..1000).find_map(|_| {
            let before = now();
            sender.write_all(b"two").unwrap();
            let after = now();
            std::thread::sleep(Duration::from_millis(5));
            let (len, stamp) = recv_stamped(&receiver, &mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"two");
            Some((before, u128::from(stamp?), after))
        });
        let (before, stamp, after) = found.expect("it was asked for");
        // The wall clock may be set meanwhile, but that is unlikely.
        assert!(before <= stamp && stamp <= after + 4_000_000, "{before} {stamp} {after}");
    }
}
