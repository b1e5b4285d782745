//! Pairs of devices, addresses, and a device's abilities for programs.

use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{ACK, CREATE, EXCLUSIVE, Message, Netlink, attributes, index_of};

/// `GENL_ID_CTRL`: resolves families of generic netlink.
const CONTROL: u16 = 0x10;
/// `NETDEV_XDP_ACT_NDO_XMIT`
const TAKES_FRAMES: u64 = 4;

impl Netlink {
    /// Makes two devices, each of which receives what the other sends (`veth`), both down; the
    /// second in the network `away`, if given. `own` is the first one's hardware address. Returns
    /// the first one's index.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`; `EOPNOTSUPP` where the kernel has no such device; `EEXIST`.
    pub fn add_pair(
        &self,
        names: [&CStr; 2],
        own: [u8; 6],
        away: Option<BorrowedFd<'_>>,
    ) -> io::Result<u32> {
        let mut link = Message::new(libc::RTM_NEWLINK, ACK | CREATE | EXCLUSIVE);
        link.put(&[0; 16]).text(libc::IFLA_IFNAME, names[0]);
        link.attribute(libc::IFLA_ADDRESS, &own);
        let info = link.open(libc::IFLA_LINKINFO);
        // IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER: an ifinfomsg and its attributes.
        link.text(1, c"veth");
        let data = link.open(2);
        let peer = link.open(1);
        link.put(&[0; 16]).text(libc::IFLA_IFNAME, names[1]);
        if let Some(network) = away {
            link.attribute(libc::IFLA_NET_NS_FD, &network.as_raw_fd().to_ne_bytes());
        }
        link.close(peer).close(data).close(info);
        self.ask(link)?;
        index_of(names[0]).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Gives a device an address, and a route to the `prefix` around it once it is up. An address
    /// without neighbours (32) is not announced.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`, `EEXIST`.
    pub fn add_address(&self, device: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut own = Message::new(libc::RTM_NEWADDR, ACK | CREATE);
        let scope = if prefix == 32 { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE };
        own.put(&[libc::AF_INET as u8, prefix, 0, scope]).put(&device.to_ne_bytes());
        own.attribute(libc::IFA_LOCAL, &address.octets());
        own.attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(own)
    }

    /// Sets a neighbour's hardware address permanently (`NUD_PERMANENT`), so that no request for it
    /// is needed.
    ///
    /// # Errors
    /// `ENODEV`, `EPERM`.
    pub fn add_neighbour(&self, device: u32, of: Ipv4Addr, address: [u8; 6]) -> io::Result<()> {
        let mut known = Message::new(libc::RTM_NEWNEIGH, ACK | CREATE);
        known.put(&[libc::AF_INET as u8, 0, 0, 0]).put(&device.to_ne_bytes());
        known.put(&0x80_u16.to_ne_bytes()).put(&[0; 2]);
        // NDA_DST, NDA_LLADDR
        known.attribute(1, &of.octets()).attribute(2, &address);
        self.ask(known)
    }
}

/// The abilities of devices for programs that handle frames (the family `netdev` of generic
/// netlink).
#[derive(Debug)]
pub struct Abilities {
    netlink: Netlink,
    family: u16,
}

impl Abilities {
    /// # Errors
    /// `ENOENT` before Linux 6.3, which lacks it.
    pub fn ask() -> io::Result<Abilities> {
        let netlink = Netlink::about(libc::NETLINK_GENERIC)?;
        // CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME; the answer has CTRL_ATTR_FAMILY_ID.
        let mut ask = Message::new(CONTROL, 0);
        ask.put(&[3, 1, 0, 0]).text(2, c"netdev");
        let id = netlink.value(ask, 1)?;
        let family = id.first_chunk().map(|id| u16::from_ne_bytes(*id));
        Ok(Abilities { netlink, family: family.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Whether a device currently sends frames that a program redirects to it (`ndo_xdp_xmit`).
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn takes_frames(&self, device: u32) -> io::Result<bool> {
        // NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX; the answer has NETDEV_A_DEV_XDP_FEATURES.
        let mut ask = Message::new(self.family, 0);
        ask.put(&[1, 1, 0, 0]).attribute(1, &device.to_ne_bytes());
        let features = self.netlink.value(ask, 3)?;
        let features = features.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(features & TAKES_FRAMES != 0)
    }
}

impl Netlink {
    /// The attribute of a kind in a reply of generic netlink.
    fn value(&self, ask: Message, kind: u16) -> io::Result<Vec<u8>> {
        let answers = self.list(ask)?;
        // After the 4 bytes of a genlmsghdr.
        let body = answers.first().and_then(|body| body.get(4..)).unwrap_or_default();
        let found = attributes(body).find(|(found, _)| *found == kind);
        found.map(|(_, value)| value.to_vec()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::apart;

    #[test]
    fn the_loopback_device_takes_no_frames() {
        let device = index_of(c"lo").expect("every namespace has one");
        match Abilities::ask() {
            Ok(abilities) => assert!(!abilities.takes_frames(device).expect("it is there")),
            // Before Linux 6.3.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
        }
    }

    #[test]
    fn a_pair_has_the_address_that_it_was_given_and_goes_together() {
        let made = apart(|| {
            let netlink = Netlink::open()?;
            let device = netlink.add_pair([c"one", c"two"], [2, 0, 0, 0, 0, 9], None)?;
            netlink.add_address(device, Ipv4Addr::new(198, 18, 0, 1), 30)?;
            netlink.raise(device)?;
            let of = Ipv4Addr::new(198, 18, 0, 2);
            netlink.add_neighbour(device, of, [2, 0, 0, 0, 0, 8])?;
            let address = std::fs::read_to_string("/proc/thread-self/net/arp")?;
            assert!(address.contains("02:00:00:00:00:08"), "{address}");
            netlink.remove(device)?;
            assert_eq!(index_of(c"two"), None);
            Ok(())
        });
        match made {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!(
                    "skipped: queues and programs of the kernel's need CAP_NET_ADMIN, CAP_BPF"
                );
            }
            other => other.expect("a pair"),
        }
    }
}
