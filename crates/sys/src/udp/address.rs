//! An address in the form of system calls. It has 28 bytes instead of the 128 of
//! `sockaddr_storage`, because one is written for each datagram.

use std::net::{Ipv4Addr, SocketAddr};

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
