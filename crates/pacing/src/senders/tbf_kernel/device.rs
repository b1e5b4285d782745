//! A queue of the kernel's for packets of the future: a device (`ifb`) with a token bucket, and on
//! every other device a filter that leads our packets through it. Where they would have left at
//! once they wait in the bucket, and leave by the kernel's timer interrupt.
//!
//! Packets are known by their mark, so nothing else on the machine is touched or delayed, and
//! routes, addresses and sockets are what they always were. What is set up here is taken away when
//! the lane is dropped. A process that is killed leaves it behind; the next lane that is opened
//! removes what belongs to no living process, and `ip link del NAME` does it by hand: without the
//! device the filters find nothing to lead to, and nobody else has such marks.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use seam::Channel;
use sys::bpf::{Assembly, Math, Program, When, Width};
use sys::netlink::{self, Netlink};

use super::super::bpf_stamp::{self, HeadStamps};
use super::bucket::{BURST, RATE, costs};
use crate::sockets::StreamSockets;

/// How the devices of all lanes begin; the process and a number follow.
const NAME: &str = "rhp";
/// Tokens that may wait: more than any window holds.
const LIMIT: u32 = 1 << 30;
/// Bytes of packets that may wait, with what the kernel adds to each.
const ROOM: u32 = 256 << 20;
/// `mark` in the structure that a classifier sees (`__sk_buff`).
const MARK: i16 = 8;

/// Lanes that this process has opened.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// The queue, while it lasts.
pub struct PacedDevice {
    netlink: Netlink,
    device: u32,
    /// Devices that lead our packets here.
    paths: Vec<u32>,
    stamps: Option<HeadStamps>,
    /// Where pauses go: behind our device, where nobody is.
    nowhere: SocketAddr,
    program: Program,
    /// How often.
    purged: u16,
}

impl PacedDevice {
    /// Sets everything up; with `stamping` the kernel writes what differs between the heads of
    /// packets.
    ///
    /// # Errors
    /// What the machine lacks, and what to do.
    pub fn open(sockets: &StreamSockets, stamping: bool) -> io::Result<PacedDevice> {
        for channel in [Channel::Rtp, Channel::Rtcp] {
            let ip = sockets.of(channel).local_addr()?.ip();
            if ip.is_ipv6() && !ip.is_unspecified() {
                let text = format!("expected a socket that can send over IPv4, found one of {ip}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            let force = sockets.of(channel).force_send_buffer(ROOM);
            force.map_err(|error| told(error, "a send buffer of 256 MB"))?;
        }
        let netlink = Netlink::open()?;
        // Two lanes that come and go must not take the place for filters from each other.
        let alone = alone()?;
        sweep(&netlink)?;
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}{}x{}", std::process::id(), number % 1000);
        let cname = CString::new(name.as_str()).expect("no zero in it");
        let network = |index: u32| {
            // A network of four addresses in what RFC 2544 keeps for measurements.
            Ipv4Addr::from(0xc612_0000 | (index & 0x7fff) << 2 | 1)
        };
        let address = network(std::process::id().wrapping_mul(31).wrapping_add(number));
        let device = netlink
            .add_ifb(&cname, address, 30)
            .map_err(|error| told(error, "a device of the kind `ifb`"))?;
        let nowhere = SocketAddr::from((Ipv4Addr::from(u32::from(address) + 1), 9));
        let stamps = match stamping {
            true => HeadStamps::new().map(Some),
            false => Ok(None),
        };
        let program = stamps.and_then(|stamps| {
            let program = program(key(device), stamps.as_ref());
            program.map(|program| (program, stamps))
        });
        let (program, stamps) = match program {
            Ok(both) => both,
            Err(error) => {
                // The error is told; that of the removal would say nothing more.
                let _ = netlink.remove(device);
                return Err(told(error, "a program that picks packets"));
            }
        };
        let mut lane =
            PacedDevice { netlink, device, paths: Vec::new(), stamps, nowhere, program, purged: 0 };
        let led = lane.lead(&name);
        // What failed takes away what was made, and waits for its turn to do so.
        drop(alone);
        led.map(|()| lane)
    }

    fn lead(&mut self, name: &str) -> io::Result<()> {
        // Sockets that are bound to the loopback address send pauses as well.
        fs::write(format!("/proc/sys/net/ipv4/conf/{name}/route_localnet"), "1")
            .map_err(|error| told(error, "leave to send from 127.0.0.1 by its device"))?;
        let costs = costs();
        let added = self.netlink.add_bucket(self.device, &bucket(&costs));
        added.map_err(|error| told(error, "the queue `tbf`"))?;
        for (index, name) in netlink::devices()? {
            if is_ours(&name).is_some() {
                continue;
            }
            let program = self.program.as_fd();
            self.netlink
                .lead(index, preference(self.device), program, self.device)
                .map_err(|error| told(error, "filters with a program and an action (mirred)"))?;
            self.paths.push(index);
        }
        Ok(())
    }

    /// Where pauses go.
    pub fn nowhere(&self) -> SocketAddr {
        self.nowhere
    }

    /// The mark of packets that wait here; `run` says what is stamped on them, nought nothing.
    pub fn mark(&self, run: u16) -> u32 {
        key(self.device) << 16 | u32::from(run)
    }

    /// What stamps them, if they are.
    pub fn stamps(&mut self) -> Option<&mut HeadStamps> {
        self.stamps.as_mut()
    }

    /// How many messages have left since it was opened.
    ///
    /// # Errors
    /// Somebody has removed the device.
    pub fn left(&self) -> io::Result<u64> {
        self.netlink.counts(self.device).map(|counts| counts.sent)
    }

    /// Forgets what waits, and begins anew with a full bucket.
    ///
    /// # Errors
    /// Somebody has removed the device.
    pub fn purge(&mut self) -> io::Result<()> {
        self.purged = self.purged.wrapping_add(1);
        self.netlink.empty_bucket(self.device, self.purged, &bucket(&costs()))
    }
}

impl Drop for PacedDevice {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one's sweep.
        let _alone = alone();
        for &path in &self.paths {
            let _ = self.netlink.unlead(path, preference(self.device));
        }
        let _ = self.netlink.remove(self.device);
    }
}

/// What paces a lane.
fn bucket(costs: &[u16]) -> netlink::Bucket<'_> {
    netlink::Bucket { rate: RATE, burst: BURST, limit: LIMIT, costs }
}

/// The upper half of the mark.
fn key(device: u32) -> u32 {
    0x8000 | device & 0x7fff
}

/// Under which number a filter stands on each device.
fn preference(device: u32) -> u16 {
    (0x4000 | device & 0x3fff) as u16
}

/// The program on every device: -1 for packets of ours, which leads them through the lane, 0 for
/// all others.
fn program(key: u32, stamps: Option<&HeadStamps>) -> io::Result<Program> {
    let mut code = Assembly::default();
    let (ours, others) = (code.label(), code.label());
    code.math_by(Math::Mov, 6, 1);
    code.load(Width::Word, 7, 6, MARK);
    code.math_by(Math::Mov, 2, 7);
    code.math(Math::Shr, 2, 16);
    code.jump_if(When::Differs, 2, key as i32, others);
    if let Some(stamps) = stamps {
        bpf_stamp::write(&mut code, stamps, ours);
    }
    code.here(ours);
    code.math(Math::Mov, 0, -1);
    code.exit();
    code.here(others);
    code.math(Math::Mov, 0, 0);
    code.exit();
    Program::classifier(code)
}

/// Holds off other lanes of this machine that are set up or taken away.
fn alone() -> io::Result<File> {
    let path = std::env::temp_dir().join("roundhouse-lanes.lock");
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Removes what processes left behind that were killed.
fn sweep(netlink: &Netlink) -> io::Result<()> {
    let all = netlink::devices()?;
    for (device, name) in &all {
        let Some(process) = is_ours(name) else { continue };
        if fs::exists(format!("/proc/{process}"))? {
            continue;
        }
        for (path, _) in all.iter().filter(|(path, _)| path != device) {
            // Not every device has a filter of it.
            let _ = netlink.unlead(*path, preference(*device));
        }
        netlink.remove(*device)?;
    }
    Ok(())
}

/// The process to which a device of a lane belongs.
fn is_ours(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.strip_prefix(NAME)?.split_once('x')?.0.parse().ok()
}

/// An error with what was missing and what to do.
fn told(error: io::Error, what: &str) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "run it with CAP_NET_ADMIN and CAP_BPF (as root)",
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            "the kernel lacks it: load its module (ifb, sch_tbf, act_mirred, cls_bpf) or use \
             `sendmmsg+gso`"
        }
        _ => "use `sendmmsg+gso` instead",
    };
    io::Error::new(error.kind(), format!("expected {what}, found: {error}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_names_its_process() {
        assert_eq!(is_ours(c"rhp4194304x999"), Some(4_194_304));
        for other in [c"lo", c"rhp", c"rhpx1", c"rhp12", c"rhsink", c"rhpax1"] {
            assert_eq!(is_ours(other), None, "{other:?}");
        }
        // IFNAMSIZ is 16 with its zero.
        assert!("rhp4194304x999".len() < 16);
    }
}
