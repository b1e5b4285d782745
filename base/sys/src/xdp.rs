//! Frames of a network device in user space (AF_XDP: if_xdp.h, the kernel's
//! networking/af_xdp.rst).
//!
//! A socket owns one receive queue of a device. Frames lie in memory that the kernel and the
//! process share (the UMEM), and four rings say which side has which frame. Half of the frames
//! belong to the [`FrameReceiver`], half to the [`FrameSender`], so that a reply can be written
//! while the frame that it answers is read.
//!
//! A program on the device ([`Redirection`]) picks the frames: those for one address and port of
//! TCP. All others go on to the kernel.

mod redirect;
mod ring;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use self::ring::{Ring, RingKind};
use crate::bpf::QueueTable;
use crate::call::{check, set_option, uninterrupted};
use crate::map::Mapping;
use crate::netlink::{Netlink, index_of};

pub use self::redirect::{Claim, Mode, Redirection};

/// Bytes of a frame's place: a packet of 1,500 bytes with its head, and room for the driver.
const FRAME: usize = 2048;
/// Frames to receive into, and as many to send: 4 MiB each, for a burst of a few thousand packets.
const FRAMES: u32 = 2048;

/// The name of a network device: at most 15 bytes (`IFNAMSIZ`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceName {
    bytes: [u8; 15],
    len: u8,
}

impl DeviceName {
    /// The name, if a device can have it.
    #[must_use]
    pub fn new(name: &str) -> Option<DeviceName> {
        let is_bad = |byte: u8| byte == b'/' || byte == 0 || byte.is_ascii_whitespace();
        if name.is_empty() || name.len() > 15 || name.bytes().any(is_bad) || name == ".." {
            return None;
        }
        let mut bytes = [0; 15];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(DeviceName { bytes, len: name.len() as u8 })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A network device of this namespace.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: DeviceName,
    index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The largest packet, without the Ethernet head.
    pub mtu: usize,
    /// Its receive queues.
    pub queues: usize,
    /// Its frames have not crossed a wire: their checksums may be left to hardware that never
    /// comes.
    pub is_virtual: bool,
}

impl Device {
    /// The device of that name.
    ///
    /// # Errors
    /// `NotFound` without such a device; `InvalidData` for one without Ethernet frames.
    pub fn find(name: DeviceName) -> io::Result<Device> {
        let index = CString::new(name.as_str()).ok().and_then(|text| index_of(&text));
        let index = index.ok_or(io::ErrorKind::NotFound)?;
        let link = Netlink::open()?.link(index)?;
        // ARPHRD_ETHER
        let mac = link.mac.first_chunk().copied().filter(|_| link.kind == 1);
        let mac = mac.ok_or(io::ErrorKind::InvalidData)?;
        let queues = channels(name).unwrap_or(link.queues_max).max(1) as usize;
        let is_virtual = !link.has_parent;
        Ok(Device { name, index, mac, mtu: link.mtu as usize, queues, is_virtual })
    }
}

/// The receive queues in use (`ETHTOOL_GCHANNELS`), where the driver tells them.
fn channels(name: DeviceName) -> Option<u32> {
    // A struct ethtool_channels: the command, four maxima, then the counts of receive, send, other
    // and combined queues.
    let mut counts = [0_u32; 9];
    counts[0] = 0x3c;
    // A struct ifreq: the name, and a pointer in the union after it.
    let mut request = [0_u64; 5];
    let mut bytes = [0_u8; 16];
    bytes[..usize::from(name.len)].copy_from_slice(name.as_str().as_bytes());
    for (word, part) in request.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*part);
    }
    request[2] = counts.as_mut_ptr() as u64;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) }).ok()?;
    // SAFETY: the kernel has just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the request is as long as a struct ifreq; it points to counts that are writable for
    // the length of a struct ethtool_channels.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), 0x8946, request.as_mut_ptr()) }).ok()?;
    Some(counts[5] + counts[8]).filter(|count| *count > 0)
}

/// The part of a socket that both halves share.
#[derive(Debug)]
struct Umem {
    fd: OwnedFd,
    memory: Mapping,
}

/// A socket on one queue of a device.
#[derive(Debug)]
pub struct XdpSocket {
    /// Frames that have come.
    pub receiver: FrameReceiver,
    /// Frames that leave.
    pub sender: FrameSender,
    /// The driver moves frames without a copy.
    pub is_zero_copy: bool,
}

/// The half that receives.
#[derive(Debug)]
pub struct FrameReceiver {
    umem: Arc<Umem>,
    came: Ring,
    fill: Ring,
    /// The frame that was lent last.
    lent: Option<u64>,
    /// The frames so far, and their bytes.
    pub counts: [u64; 2],
}

/// The half that sends.
#[derive(Debug)]
pub struct FrameSender {
    umem: Arc<Umem>,
    go: Ring,
    gone: Ring,
    free: Vec<u64>,
    /// The frames so far, and their bytes.
    pub counts: [u64; 2],
}

impl XdpSocket {
    /// Opens a socket on a queue; frames are moved without a copy where the driver can do that.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`; `EAFNOSUPPORT` where the kernel has no AF_XDP; `EBUSY` where
    /// the queue has a socket; `ENOBUFS` above the limit of locked memory.
    pub fn open(device: &Device, queue: u32) -> io::Result<XdpSocket> {
        let (mut socket, bound) = XdpSocket::prepare(device, queue, libc::XDP_ZEROCOPY)?;
        if bound.is_ok() {
            socket.is_zero_copy = true;
            return Ok(socket);
        }
        // A failed bind leaves a socket that cannot be bound again.
        drop(socket);
        let (socket, bound) = XdpSocket::prepare(device, queue, libc::XDP_COPY)?;
        bound.map(|()| socket)
    }

    /// A socket with its rings, and the result of its bind.
    fn prepare(device: &Device, queue: u32, copy: u16) -> io::Result<(XdpSocket, io::Result<()>)> {
        let fd = raw_socket()?;
        let memory = Mapping::private(2 * FRAMES as usize * FRAME)?;
        let register = libc::xdp_umem_reg {
            addr: memory.as_ptr() as u64,
            len: memory.len() as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &register)?;
        let ring = |kind| Ring::new(fd.as_fd(), kind, FRAMES);
        let mut fill = ring(RingKind::Fill)?;
        let (gone, came, go) =
            (ring(RingKind::Completion)?, ring(RingKind::Receive)?, ring(RingKind::Send)?);
        let places = |from: u32| (from..from + FRAMES).map(|frame| u64::from(frame) * FRAME as u64);
        for place in places(0) {
            fill.push(place, 0);
        }
        fill.publish();
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: copy | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: device.index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is readable for its length.
        let bound = check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })
            .map(drop);
        let umem = Arc::new(Umem { fd, memory });
        let counts = [0; 2];
        let receiver = FrameReceiver { umem: umem.clone(), came, fill, lent: None, counts };
        let sender = FrameSender { umem, go, gone, free: places(FRAMES).collect(), counts };
        Ok((XdpSocket { receiver, sender, is_zero_copy: false }, bound))
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.umem.fd.as_fd()
    }
}

impl FrameReceiver {
    /// The next frame; the one before it goes back to the kernel.
    pub fn take(&mut self) -> Option<&[u8]> {
        if let Some(place) = self.lent.take() {
            // The ring has a place for each frame of this half.
            self.fill.push(place, 0);
            self.fill.publish();
        }
        let (place, len) = self.came.pop()?;
        // A driver leaves headroom before the bytes.
        let start = place - place % FRAME as u64;
        self.lent = Some(start);
        self.counts = [self.counts[0] + 1, self.counts[1] + u64::from(len)];
        self.umem.bytes(place, len as usize)
    }
}

impl FrameSender {
    /// Whether a frame is free.
    pub fn is_free(&mut self) -> bool {
        if self.free.is_empty() {
            while let Some((place, _)) = self.gone.pop() {
                self.free.push(place);
            }
        }
        !self.free.is_empty()
    }

    /// Writes a frame of `len` bytes, and queues it; false if no frame is free or it is too long.
    pub fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if len > FRAME || !self.is_free() {
            return false;
        }
        let Some(place) = self.free.pop() else { return false };
        assert!(place % FRAME as u64 == 0 && place as usize + FRAME <= self.umem.memory.len());
        // SAFETY: the place lies inside the mapping, and is ours alone: it was in the list of free
        // ones, and the kernel reads it only after the ring has it.
        let bytes = unsafe {
            let start = self.umem.memory.as_ptr().add(place as usize);
            std::slice::from_raw_parts_mut(start, len)
        };
        write(bytes);
        self.go.push(place, len as u32);
        self.go.publish();
        self.counts = [self.counts[0] + 1, self.counts[1] + len as u64];
        true
    }

    /// Whether frames wait that a call must start.
    #[must_use]
    pub fn must_kick(&self) -> bool {
        self.go.needs_wakeup() && !self.go.is_taken()
    }

    /// Starts the frames that were queued. Frames that the device does not take now
    /// leave with the next call.
    ///
    /// # Errors
    /// `ENETDOWN` and others of the device.
    pub fn kick(&mut self) -> io::Result<()> {
        let fd = self.umem.fd.as_raw_fd();
        let (null, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
        let sent = uninterrupted(|| {
            // SAFETY: no memory is passed.
            let sent = unsafe { libc::sendto(fd, null, 0, flags, null.cast(), 0) };
            crate::call::check_count(sent)
        });
        match sent {
            Err(error)
                if !matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

impl Umem {
    /// Bytes of a frame that the kernel has given to the process.
    fn bytes(&self, place: u64, len: usize) -> Option<&[u8]> {
        let place = place as usize;
        if place.checked_add(len)? > self.memory.len() || place % FRAME + len > FRAME {
            return None;
        }
        // SAFETY: the bytes lie inside the mapping, and until the frame goes back to the fill ring
        // the kernel does not write them; the receiver borrows itself mutably until then.
        Some(unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(place), len) })
    }
}

/// The reason why this process can have no [`XdpSocket`]s with a program, if there is one.
#[must_use]
pub fn lack() -> Option<io::Error> {
    raw_socket().map(drop).and_then(|()| QueueTable::new(1)).err()
}

fn raw_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, kind, 0) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_short_and_plain() {
        assert_eq!(DeviceName::new("eth0").map(|it| it.to_string()).as_deref(), Some("eth0"));
        for bad in ["", "a/b", "a b", "..", "sixteen-bytes-ab"] {
            assert_eq!(DeviceName::new(bad), None, "{bad}");
        }
        let none = Device::find(DeviceName::new("no-such-device").expect("a name"));
        assert_eq!(none.expect_err("no device").kind(), io::ErrorKind::NotFound);
        let loopback = Device::find(DeviceName::new("lo").expect("a name"));
        assert_eq!(loopback.expect_err("no frames").kind(), io::ErrorKind::InvalidData);
    }
}
