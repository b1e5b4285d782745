//! Sending by calls: one `send(2)` for output in one piece, one `sendmsg(2)` for several pieces,
//! one `sendfile(2)` for a file. Loops that may block and loops that may not share this code.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use seam::Out;
use sys::sendfile;
use sys::socket::{self, SendFlags};

use super::assets::Assets;
use crate::limits::{SEND_SLICES, SENDFILE_BYTES};

/// Whether a call may wait for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// For as long as the socket's send timeout.
    Blocking,
    /// The call answers `WouldBlock` instead.
    Nonblocking,
}

/// Sends the oldest output, once; returns how many bytes the kernel took.
///
/// # Errors
/// `WouldBlock` if the peer takes nothing; other errors of the socket or the file, and
/// `UnexpectedEof` for a file that has become shorter. Then the connection can only be closed.
#[inline]
pub fn transmit(assets: &Assets, fd: &OwnedFd, out: &Out, mode: CallMode) -> io::Result<usize> {
    match (out.single(), mode) {
        (Some(bytes), CallMode::Nonblocking) => socket::send_nowait(fd, bytes),
        (Some(bytes), CallMode::Blocking) => socket::send(fd, bytes),
        (None, _) => transmit_rope(assets, fd, out, mode),
    }
}

fn transmit_rope(assets: &Assets, fd: &OwnedFd, out: &Out, mode: CallMode) -> io::Result<usize> {
    if let Some((source, range)) = out.front_file() {
        return send_file(fd, assets.file(source)?, range, mode);
    }
    let mut slices = [IoSlice::new(&[]); SEND_SLICES];
    let filled = out.gather(&mut slices);
    let slices = &slices[..filled];
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::DONTWAIT, mode == CallMode::Nonblocking);
    // A reply's head shares a packet with the first bytes of its file.
    flags.set(SendFlags::MORE, out.has_file());
    socket::send_vectored(fd, slices, flags)
}

/// Sends a part of a file without a copy.
fn send_file(
    fd: &OwnedFd,
    file: BorrowedFd<'_>,
    range: Range<u64>,
    mode: CallMode,
) -> io::Result<usize> {
    let len = (range.end - range.start).min(SENDFILE_BYTES as u64) as usize;
    let sent = match mode {
        CallMode::Blocking => sendfile::send_file(fd, file, range.start, len)?,
        CallMode::Nonblocking => sendfile::send_file_nowait(fd, file, range.start, len)?,
    };
    if sent == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(sent) }
}
