//! The receivers that frames can reach, and their routes. The kernel's routing table is queried
//! once for each receiver, and again after a while or when a frame was returned.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use seam::Instant;
use sys::netlink::{Abilities, Netlink, Reach};

/// How long an answer is valid.
const HOLDS: Duration = Duration::from_secs(10);
/// The maximum number of remembered receivers; beyond that all are forgotten.
const KNOWN_MAX: usize = 1 << 16;

/// The device by which frames to a receiver leave, and their source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// 0: the receiver is on this machine.
    pub device: u32,
    pub source: Ipv4Addr,
}

/// The known routes.
pub struct Routes {
    netlink: Netlink,
    /// `None` before Linux 6.3, where the kernel cannot tell: then only this machine is reached.
    abilities: Option<Abilities>,
    /// Whether frames for this machine pass its source filter.
    is_near: bool,
    known: HashMap<Ipv4Addr, (Option<Route>, Instant)>,
    devices: HashMap<u32, (bool, Instant)>,
}

impl Routes {
    /// # Errors
    /// No descriptor is left.
    pub fn new(is_near: bool) -> io::Result<Routes> {
        let (netlink, abilities) = (Netlink::open()?, Abilities::ask().ok());
        Ok(Routes { netlink, abilities, is_near, known: HashMap::new(), devices: HashMap::new() })
    }

    /// The route of frames from `from`, or from the route's own address, to a receiver, and the
    /// receiver's address; `None` if only a socket can reach it.
    pub fn to(
        &mut self,
        receiver: SocketAddr,
        from: Ipv4Addr,
        now: Instant,
    ) -> Option<(Route, Ipv4Addr)> {
        let IpAddr::V4(to) = receiver.ip().to_canonical() else { return None };
        let found = match self.known.get(&to) {
            Some((way, until)) if now < *until => *way,
            _ => {
                let way = self.ask(to, from, now);
                if self.known.len() >= KNOWN_MAX {
                    self.known.clear();
                }
                self.known.insert(to, (way, now + HOLDS));
                way
            }
        };
        found.map(|way| (way, to))
    }

    /// Forgets the route to `to`, because frames were returned: the route has changed.
    pub fn forget(&mut self, to: SocketAddr) {
        if let IpAddr::V4(to) = to.ip().to_canonical() {
            self.known.remove(&to);
        }
    }

    fn ask(&mut self, to: Ipv4Addr, from: Ipv4Addr, now: Instant) -> Option<Route> {
        // Groups have neither a neighbour nor a single device; the routes do not always say so.
        if to.is_multicast() || to.is_broadcast() {
            return None;
        }
        let route = self.netlink.route(to, from).ok()?;
        let source = if from.is_unspecified() { route.source? } else { from };
        let device = match route.reach {
            Reach::Here => self.is_near.then_some(0),
            Reach::There => self.takes_frames(route.device, now).then_some(route.device),
            Reach::Many | Reach::Nowhere => None,
        };
        device.map(|device| Route { device, source })
    }

    fn takes_frames(&mut self, device: u32, now: Instant) -> bool {
        if let Some((does, until)) = self.devices.get(&device)
            && now < *until
        {
            return *does;
        }
        let ask = |abilities: &Abilities| abilities.takes_frames(device).unwrap_or(false);
        let does = self.abilities.as_ref().is_some_and(ask);
        self.devices.insert(device, (does, now + HOLDS));
        does
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_near_is_reached_by_frames_and_groups_are_not() {
        let mut ways = Routes::new(true).expect("a socket");
        let home = Ipv4Addr::LOCALHOST;
        let (from, now) = (Ipv4Addr::UNSPECIFIED, Instant::from_ns(1));
        let mut to = |ip: &str| ways.to(SocketAddr::new(ip.parse().expect("one"), 9), from, now);
        let near = Some((Route { device: 0, source: home }, home));
        assert_eq!(to("127.0.0.1"), near);
        assert_eq!(to("::ffff:127.0.0.1"), near, "the same");
        for ip in ["239.1.2.3", "255.255.255.255", "127.255.255.255", "::1", "ff02::1"] {
            assert_eq!(to(ip), None, "{ip}");
        }
        let mut strict = Routes::new(false).expect("a socket");
        assert_eq!(strict.to(SocketAddr::from((home, 9)), from, now), None);
    }
}
