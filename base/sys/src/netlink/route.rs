//! Route lookups.

use std::io;
use std::net::Ipv4Addr;

use super::{Message, Netlink, attributes};

/// The location of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This machine.
    Here,
    /// One other machine.
    There,
    /// Several machines: a group, or a broadcast address.
    Many,
    /// Unreachable.
    Nowhere,
}

/// The route of packets to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The location of the address.
    pub reach: Reach,
    /// The device by which they leave.
    pub device: u32,
    /// Their source address, unless the sender chose one.
    pub source: Option<Ipv4Addr>,
}

impl Netlink {
    /// The route to an address for a socket bound to `from`; an unspecified address means unbound.
    ///
    /// # Errors
    /// `ENETUNREACH`, `EHOSTUNREACH`; `EINVAL` for a source that is not this machine's.
    pub fn route(&self, to: Ipv4Addr, from: Ipv4Addr) -> io::Result<Route> {
        let mut ask = Message::new(libc::RTM_GETROUTE, 0);
        let bits = if from.is_unspecified() { 0 } else { 32 };
        // An rtmsg: the family, the lengths of both addresses, and nothing else.
        ask.put(&[libc::AF_INET as u8, 32, bits, 0]).put(&[0; 8]);
        ask.attribute(libc::RTA_DST, &to.octets());
        if bits > 0 {
            ask.attribute(libc::RTA_SRC, &from.octets());
        }
        let answers = self.list(ask)?;
        let answer = answers.first().ok_or(io::ErrorKind::NotFound)?;
        let (head, rest) = answer.split_at_checked(12).ok_or(io::ErrorKind::InvalidData)?;
        let reach = match head[7] {
            libc::RTN_UNICAST => Reach::There,
            libc::RTN_LOCAL => Reach::Here,
            libc::RTN_BROADCAST | libc::RTN_MULTICAST | libc::RTN_ANYCAST => Reach::Many,
            _ => Reach::Nowhere,
        };
        let word = |kind| {
            let (_, value) = attributes(rest).find(|(found, _)| *found == kind)?;
            value.first_chunk::<4>().copied()
        };
        let device = word(libc::RTA_OIF).map_or(0, u32::from_ne_bytes);
        Ok(Route { reach, device, source: word(libc::RTA_PREFSRC).map(Ipv4Addr::from) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::index_of;

    #[test]
    fn this_machine_is_here_and_everybody_is_many() {
        let netlink = Netlink::open().expect("a socket");
        let home = Ipv4Addr::LOCALHOST;
        let route = netlink.route(home, Ipv4Addr::UNSPECIFIED).expect("a route");
        let device = index_of(c"lo").expect("a device");
        assert_eq!(route, Route { reach: Reach::Here, device, source: Some(home) });
        let bound = netlink.route(home, home).expect("a route");
        assert_eq!((bound.reach, bound.device), (Reach::Here, device));
        let everybody = netlink.route(Ipv4Addr::new(127, 255, 255, 255), home);
        assert_eq!(everybody.expect("a route").reach, Reach::Many);
    }
}
