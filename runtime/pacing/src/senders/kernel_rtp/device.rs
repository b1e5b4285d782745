//! A device (`ifb`) with a token bucket, and a filter on every other device that redirects our
//! packets to it: instead of leaving at once they wait in the bucket, and leave by the kernel's
//! timer interrupt.
//!
//! The filter recognises our packets by their mark, so other traffic is neither touched nor
//! delayed, and routes, addresses and sockets stay as they are. Dropping the device removes
//! everything. A killed process leaves it in place; the next process that opens a device removes
//! those of dead processes, and `ip link del NAME` does it by hand. Without the device the filters
//! have no effect, and no other packet has such marks.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use seam::Channel;
use sys::bpf::{Assembly, Math, Program, When, Width};
use sys::claim::Claim;
use sys::netlink::{self, Netlink};

use super::bucket::{BURST, RATE, costs};
use super::head_stamps::{self, HeadStamps};
use crate::sockets::StreamSockets;

/// Prefix of the devices' names; process and number follow.
const NAME: &str = "rhp";
/// The maximum number of bytes in the queue: more than any window.
const LIMIT: u32 = 1 << 30;
/// Send buffer in bytes, with the kernel's overhead for each packet.
const ROOM: u32 = 256 << 20;
/// `mark` in the classifier's context (`__sk_buff`).
const MARK: i16 = 8;

/// Devices that this process has opened.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// The device with its queue, until it is dropped.
pub struct PacedDevice {
    netlink: Netlink,
    device: u32,
    /// The devices with a filter that redirects to this one.
    paths: Vec<u32>,
    stamps: HeadStamps,
    /// The address that pauses are sent to: an unused one of our device's network.
    nowhere: SocketAddr,
    program: Program,
    /// How often the queue was emptied.
    purged: u16,
}

impl PacedDevice {
    /// Sets everything up.
    ///
    /// # Errors
    /// The missing feature of the machine, and the remedy.
    pub fn open(sockets: &StreamSockets) -> io::Result<PacedDevice> {
        for channel in [Channel::Rtp, Channel::Rtcp] {
            let ip = sockets.of(channel).local_addr()?.ip();
            if ip.is_ipv6() && !ip.is_unspecified() {
                let text = format!("expected a socket that can send over IPv4, found one of {ip}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            let force = sockets.of(channel).force_send_buffer(ROOM);
            force.map_err(|error| explained(error, "a send buffer of 256 MB"))?;
        }
        let netlink = Netlink::open()?;
        // Two processes that set up at the same time must not remove each other's `clsact`.
        let alone = Claim::of_machine("lanes")?;
        sweep(&netlink)?;
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}{}x{}", std::process::id(), number % 1000);
        let cname = CString::new(name.as_str()).expect("no zero in it");
        let network = |index: u32| {
            // A network of four addresses from the range that RFC 2544 reserves for benchmarks.
            Ipv4Addr::from(0xc612_0000 | (index & 0x7fff) << 2 | 1)
        };
        let address = network(std::process::id().wrapping_mul(31).wrapping_add(number));
        let device = netlink
            .add_ifb(&cname, address, 30)
            .map_err(|error| explained(error, "a device of the kind `ifb`"))?;
        let nowhere = SocketAddr::from((Ipv4Addr::from(u32::from(address) + 1), 9));
        let program = HeadStamps::new().and_then(|stamps| {
            let program = program(key(device), &stamps);
            program.map(|program| (program, stamps))
        });
        let (program, stamps) = match program {
            Ok(both) => both,
            Err(error) => {
                // The first error is reported; an error of the removal would add nothing.
                let _ = netlink.remove(device);
                return Err(explained(error, "a program that picks packets"));
            }
        };
        let mut lane =
            PacedDevice { netlink, device, paths: Vec::new(), stamps, nowhere, program, purged: 0 };
        let led = lane.lead(&name);
        // After a failure the drop removes what was made, and needs the lock for that.
        drop(alone);
        led.map(|()| lane)
    }

    fn lead(&mut self, name: &str) -> io::Result<()> {
        // Sockets bound to the loopback address must be able to send pauses, too.
        fs::write(format!("/proc/sys/net/ipv4/conf/{name}/route_localnet"), "1")
            .map_err(|error| explained(error, "permission to send from 127.0.0.1 by its device"))?;
        let costs = costs();
        let added = self.netlink.add_bucket(self.device, &bucket(&costs));
        added.map_err(|error| explained(error, "the queue `tbf`"))?;
        for (index, name) in netlink::devices()? {
            if is_ours(&name).is_some() {
                continue;
            }
            let program = self.program.as_fd();
            self.netlink.lead(index, preference(self.device), program, self.device).map_err(
                |error| explained(error, "filters with a program and an action (mirred)"),
            )?;
            self.paths.push(index);
        }
        Ok(())
    }

    pub fn nowhere(&self) -> SocketAddr {
        self.nowhere
    }

    /// The mark of packets that wait here; `run` selects the headers written into them, 0 none.
    pub fn mark(&self, run: u16) -> u32 {
        key(self.device) << 16 | u32::from(run)
    }

    /// The headers that the kernel writes.
    pub fn stamps(&mut self) -> &mut HeadStamps {
        &mut self.stamps
    }

    /// The number of messages that have left since it was opened.
    ///
    /// # Errors
    /// The device was removed from outside.
    pub fn left(&self) -> io::Result<u64> {
        self.netlink.link(self.device).map(|link| link.sent)
    }

    /// Discards the waiting packets, and starts over with a full bucket.
    ///
    /// # Errors
    /// The device has been removed.
    pub fn purge(&mut self) -> io::Result<()> {
        self.purged = self.purged.wrapping_add(1);
        self.netlink.empty_bucket(self.device, self.purged, &bucket(&costs()))
    }
}

impl Drop for PacedDevice {
    fn drop(&mut self) {
        // The sweep of the next device removes what remains.
        let _alone = Claim::of_machine("lanes");
        for &path in &self.paths {
            let _ = self.netlink.unlead(path, preference(self.device));
        }
        let _ = self.netlink.remove(self.device);
    }
}

fn bucket(costs: &[u16]) -> netlink::Bucket<'_> {
    netlink::Bucket { rate: RATE, burst: BURST, limit: LIMIT, costs }
}

/// The part of the mark that names a device: its upper half.
fn key(device: u32) -> u32 {
    0x8000 | device & 0x7fff
}

/// The preference of our filter on each device.
fn preference(device: u32) -> u16 {
    (0x4000 | device & 0x3fff) as u16
}

/// The program on every device: -1 for our packets, which redirects them to our device, 0 for all
/// others.
fn program(key: u32, stamps: &HeadStamps) -> io::Result<Program> {
    let mut code = Assembly::default();
    let (ours, others) = (code.label(), code.label());
    code.math_by(Math::Mov, 6, 1);
    code.load(Width::Word, 7, 6, MARK);
    code.math_by(Math::Mov, 2, 7);
    code.math(Math::Shr, 2, 16);
    code.jump_if(When::Differs, 2, key as i32, others);
    head_stamps::write(&mut code, stamps, ours);
    code.here(ours);
    code.math(Math::Mov, 0, -1);
    code.exit();
    code.here(others);
    code.math(Math::Mov, 0, 0);
    code.exit();
    Program::classifier(code)
}

/// Removes the devices of killed processes.
fn sweep(netlink: &Netlink) -> io::Result<()> {
    let all = netlink::devices()?;
    for (device, name) in &all {
        let Some(process) = is_ours(name) else { continue };
        if fs::exists(format!("/proc/{process}"))? {
            continue;
        }
        for (path, _) in all.iter().filter(|(path, _)| path != device) {
            // Some devices may lack the filter.
            let _ = netlink.unlead(*path, preference(*device));
        }
        netlink.remove(*device)?;
    }
    Ok(())
}

/// The process that owns a device, if the name is one of ours.
fn is_ours(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.strip_prefix(NAME)?.split_once('x')?.0.parse().ok()
}

/// Adds the missing feature and the remedy to an error.
fn explained(error: io::Error, what: &str) -> io::Error {
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
