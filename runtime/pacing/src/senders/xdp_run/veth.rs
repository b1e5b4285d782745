//! A pair of devices for the sender: frames have to come from a device, and the program has to be
//! attached to one. Neither end is ever up, so no other traffic uses them.
//!
//! Dropping the pair removes it. A killed process leaves it in place; the next process that makes a
//! pair removes those of dead processes, and `ip link del NAME` does it by hand. No other part of
//! the machine is touched.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use sys::claim::Claim;
use sys::netlink::{self, Netlink};

/// Prefix of the devices' names; process, half and number follow.
const NAME: &str = "rhf";
/// The hardware address of our end; there is no other device on that wire.
pub const OWN: [u8; 6] = [2, 0x72, 0x68, 0x66, 0, 1];
/// The dummy address (RFC 7600). A source filter drops packets that arrive by a device without an
/// address.
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Pairs that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Our end of a pair, until it is dropped.
pub struct VethPair {
    netlink: Netlink,
    index: u32,
}

impl VethPair {
    /// # Errors
    /// The missing feature of the machine, and the remedy.
    pub fn make() -> io::Result<VethPair> {
        let netlink = Netlink::open()?;
        // Two sweeps at the same time would remove the same devices.
        let alone = Claim::of_machine("pairs")?;
        sweep(&netlink)?;
        let number = MADE.fetch_add(1, Ordering::Relaxed) % 1000;
        let name = |half| format!("{NAME}{}{half}{number}", std::process::id());
        let (ours, other) = (name('x'), name('y'));
        let names = [&ours, &other].map(|it| CString::new(it.as_str()).expect("no zero in it"));
        let index = netlink
            .add_pair([&names[0], &names[1]], OWN, None)
            .map_err(|error| explained(error, "a pair of devices (`veth`)"))?;
        drop(alone);
        let pair = VethPair { netlink, index };
        // Frames that arrive by it have this machine's own addresses, 127.0.0.1 included, and
        // routes are looked up as for forwarded packets.
        for what in ["accept_local", "route_localnet", "forwarding"] {
            set(&ours, what, "1")?;
        }
        set(&ours, "rp_filter", "0")?;
        if filter() == Some(2) {
            let own = pair.netlink.add_address(index, DUMMY, 32);
            own.map_err(|error| explained(error, "permission to give a device an address"))?;
        }
        Ok(pair)
    }

    /// Its interface index.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        // The sweep of the next pair removes what remains.
        let _ = self.netlink.remove(self.index);
    }
}

/// Whether frames for this machine pass its source filter. A strict filter accepts packets from
/// this machine only by the loopback device.
pub fn is_near() -> bool {
    filter() != Some(1)
}

/// The source filter of all devices (`net.ipv4.conf.all.rp_filter`).
fn filter() -> Option<u32> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter").ok()?;
    text.trim().parse().ok()
}

fn set(device: &str, what: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/ipv4/conf/{device}/{what}"), value)
        .map_err(|error| explained(error, &format!("permission to set `{what}` of a device")))
}

/// Removes the devices of killed processes.
fn sweep(netlink: &Netlink) -> io::Result<()> {
    for (device, name) in netlink::devices()? {
        let Some(process) = is_ours(&name) else { continue };
        if !fs::exists(format!("/proc/{process}"))? {
            // Removing one end removes the other, which may have been found first.
            let _ = netlink.remove(device);
        }
    }
    Ok(())
}

/// The process that owns a device, if the name is one of ours.
fn is_ours(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.strip_prefix(NAME)?.split_once(['x', 'y'])?.0.parse().ok()
}

/// Adds the missing feature and the remedy to an error.
pub fn explained(error: io::Error, what: &str) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "run it with CAP_NET_ADMIN and CAP_BPF (as root)",
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            "it needs Linux 5.18 with `veth`: use `sendmmsg+gso`"
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
        assert_eq!(is_ours(c"rhf4194304x999"), Some(4_194_304));
        assert_eq!(is_ours(c"rhf12y0"), Some(12));
        for other in [c"lo", c"rhf", c"rhfx1", c"rhf12", c"rhp12x0", c"rhfax1"] {
            assert_eq!(is_ours(other), None, "{other:?}");
        }
        // IFNAMSIZ is 16 with its zero.
        assert!("rhf4194304x999".len() < 16);
    }
}
