//! An address in the form of system calls. It has 28 bytes instead of the 128 of
//! `sockaddr_storage`, because one is written for each datagram.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// A `sockaddr_in` or a `sockaddr_in6` (ip(7), ipv6(7)).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Address {
    bytes: [u8; 28],
    len: u8,
}

impl Address {
    /// `address` in the form for a socket of IPv6, or of IPv4.
    #[inline]
    pub fn new(address: SocketAddr, is_v6: bool) -> Address {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match (address, is_v6) {
            (SocketAddr::V4(v4), false) => return Address::v4(bytes, *v4.ip()),
            (SocketAddr::V4(v4), true) => {
                bytes[8..24].copy_from_slice(&v4.ip().to_ipv6_mapped().octets());
            }
            (SocketAddr::V6(v6), _) => {
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
        }
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
        Address { bytes, len: 28 }
    }

    fn v4(mut bytes: [u8; 28], ip: Ipv4Addr) -> Address {
        bytes[..2].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
        bytes[4..8].copy_from_slice(&ip.octets());
        Address { bytes, len: 16 }
    }

    #[inline]
    pub fn as_ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    #[inline]
    pub fn len(&self) -> libc::socklen_t {
        self.len.into()
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6`; an IPv4 address in the form of IPv6 becomes one of
/// IPv4. `None` for another family.
#[inline]
pub(crate) fn read(name: &[u8]) -> Option<SocketAddr> {
    let family = libc::c_int::from(u16::from_ne_bytes(*name.first_chunk()?));
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    let word = |at: usize| name.get(at..)?.first_chunk::<4>().copied();
    if family == libc::AF_INET {
        return Some(SocketAddr::from((Ipv4Addr::from(word(4)?), port)));
    }
    if family != libc::AF_INET6 {
        return None;
    }
    let ip = Ipv6Addr::from(*name.get(8..)?.first_chunk::<16>()?);
    if let Some(ip) = ip.to_ipv4_mapped() {
        return Some(SocketAddr::from((ip, port)));
    }
    let (flow, scope) = (u32::from_be_bytes(word(4)?), u32::from_ne_bytes(word(24)?));
    Some(SocketAddrV6::new(ip, port, flow, scope).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, is_v6: bool) {
        let address: SocketAddr = address.parse().unwrap();
        let written = Address::new(address, is_v6);
        assert_eq!(read(&written.bytes), Some(address));
        assert_eq!(read(&written.bytes[..written.len as usize - 9]), None);
    }

    #[test]
    fn what_is_written_is_read() {
        check("10.1.2.3:65535", false);
        check("10.1.2.3:53", true);
        check("[2001:db8::1]:53", true);
        check("[fe80::1%7]:53", true);
        assert_eq!((read(&[]), read(&[0; 28])), (None, None));
    }
}
