//! Proxies that are believed who their clients are.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use seam::Peer;
use wire::http::Head;

/// Trusted proxies: a network (RFC 4632), or the clients of a socket in the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// The addresses whose first bits, as many as the number, are those of the address.
    Net(IpAddr, u32),
    /// Peers without an address.
    Local,
}

impl Trusted {
    pub(crate) fn covers(self, peer: Peer) -> bool {
        match (self, peer) {
            (Trusted::Net(network, len), Peer::Net(address)) => {
                let ((own, of), (bits, size)) = (bits(network), bits(address.ip()));
                of == size && (own ^ bits).checked_shr(size - len).unwrap_or(0) == 0
            }
            (own, peer) => own == Trusted::Local && peer == Peer::Local,
        }
    }
}

/// The bits of an address, and their number.
fn bits(address: IpAddr) -> (u128, u32) {
    match address.to_canonical() {
        IpAddr::V4(four) => (four.to_bits().into(), 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    }
}

impl FromStr for Trusted {
    type Err = String;

    fn from_str(text: &str) -> Result<Trusted, String> {
        let (address, len) = text.split_once('/').map_or((text, None), |(it, len)| (it, Some(len)));
        let network = address.parse().ok().and_then(|network| {
            let size = bits(network).1;
            let len = len.map_or(Some(size), |len| len.parse().ok())?;
            (len <= size).then_some(Trusted::Net(network, len))
        });
        network.or((text == "unix").then_some(Trusted::Local)).ok_or_else(|| {
            format!("expected an address, a network such as 10.0.0.0/8, or unix, found `{text}`")
        })
    }
}

/// The client of a request: from the peer on, each trusted proxy names the one before it at the end
/// of `X-Forwarded-For`. `None` if the peer itself is the client.
pub fn client(trusted: &[Trusted], peer: Peer, head: &Head<'_>) -> Option<IpAddr> {
    let is_it = |(name, _): &(&str, &[u8])| name.eq_ignore_ascii_case("x-forwarded-for");
    let (mut at, mut client) = (peer, None);
    let hops = head.fields().filter(is_it).flat_map(|(_, value)| value.split(|it| *it == b','));
    for hop in hops.collect::<Vec<_>>().into_iter().rev() {
        let text = std::str::from_utf8(hop).unwrap_or_default().trim();
        let address = text.parse().or(text.parse().map(|it: SocketAddr| it.ip()));
        match address {
            Ok(address) if trusted.iter().any(|it| it.covers(at)) => {
                (at, client) = (Peer::Net((address, 0).into()), Some(address));
            }
            _ => break,
        }
    }
    client
}
