//! The header of the PROXY protocol, by which a proxy names the client of a connection before its
//! first byte: a line (version 1) or a block (version 2), as sections 2.1 and 2.2 of haproxy's
//! proxy-protocol.txt define them.
//!
//! The PROXY layer of a server calls `next` before any byte reaches TLS or the service. The first
//! bytes decide the version: `PROXY ` or the signature of version 2. An incomplete header gives
//! `None`, and the layer waits for more; any other beginning is an error, because guessing would
//! let a client choose its own address. A header without a client (UNKNOWN, LOCAL, a Unix socket)
//! is valid, and the peer's address then counts.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stats::Rng;

/// The longest header in bytes, extensions included; nginx has the same limit.
pub const HEADER_MAX: usize = 4096;
/// The longest line of version 1, its CR LF included (section 2.1).
const LINE_MAX: usize = 107;
/// The beginning of a block of version 2 (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The length of a block before its addresses.
const FIXED: usize = 16;

/// A header at the front of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in bytes.
    pub len: usize,
    /// The client; `None` if it is the peer of the connection, or has no address of the Internet.
    pub client: Option<SocketAddr>,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
#[display("expected {} in the header of the PROXY protocol, found something else", self.0)]
pub struct BadProxyHeader(&'static str);

impl std::error::Error for BadProxyHeader {}

/// Reads the header at the front of `bytes`; `None` if it is incomplete.
///
/// # Errors
/// [`BadProxyHeader`], whatever may follow.
pub fn next(bytes: &[u8]) -> Result<Option<ProxyHeader>, BadProxyHeader> {
    let may_be = |mark: &[u8]| bytes.starts_with(mark) || mark.starts_with(bytes);
    match bytes {
        _ if may_be(b"PROXY ") => line(bytes),
        _ if may_be(SIGNATURE) => block(bytes),
        _ => Err(BadProxyHeader("`PROXY ` or the signature of version 2")),
    }
}

/// Version 1.
fn line(bytes: &[u8]) -> Result<Option<ProxyHeader>, BadProxyHeader> {
    let seen = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = seen.windows(2).position(|two| two == b"\r\n") else {
        let is_long = seen.len() == LINE_MAX;
        return if is_long { Err(BadProxyHeader("at most 107 bytes")) } else { Ok(None) };
    };
    let words: Vec<&[u8]> = seen[..end].split(|byte| *byte == b' ').collect();
    let client = match words[1..] {
        [b"UNKNOWN", ..] => None,
        [b"TCP4", from, to, port, to_port] => {
            Some(pair::<Ipv4Addr>(from, to).zip(ports(port, to_port)))
        }
        [b"TCP6", from, to, port, to_port] => {
            Some(pair::<Ipv6Addr>(from, to).zip(ports(port, to_port)))
        }
        _ => return Err(BadProxyHeader("TCP4, TCP6 or UNKNOWN and four words")),
    };
    let client = match client {
        Some(None) => return Err(BadProxyHeader("two addresses of the family and two ports")),
        found => found.flatten().map(SocketAddr::from),
    };
    Ok(Some(ProxyHeader { len: end + 2, client }))
}

/// The first of two addresses of one family.
fn pair<A: core::str::FromStr + Into<IpAddr>>(from: &[u8], to: &[u8]) -> Option<IpAddr> {
    let read = |text: &[u8]| core::str::from_utf8(text).ok()?.parse::<A>().ok();
    read(to)?;
    read(from).map(Into::into)
}

/// The first of two ports.
fn ports(from: &[u8], to: &[u8]) -> Option<u16> {
    let read = |text: &[u8]| {
        let is_decimal = matches!(text, [b'0'] | [b'1'..=b'9', ..]);
        core::str::from_utf8(text).ok().filter(|_| is_decimal)?.parse().ok()
    };
    read(to).and(read(from))
}

/// Version 2.
fn block(bytes: &[u8]) -> Result<Option<ProxyHeader>, BadProxyHeader> {
    let Some(fixed) = bytes.get(..FIXED) else { return Ok(None) };
    let len = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    // Protocol and family of a header whose sender speaks for itself (LOCAL) do not count.
    let family = match (fixed[12], fixed[13]) {
        (0x20, _) => 0,
        (0x21, family) if family >> 4 <= 3 && family & 15 <= 2 => family,
        _ => return Err(BadProxyHeader("version 2, LOCAL or PROXY, and a known family")),
    };
    if len > HEADER_MAX {
        return Err(BadProxyHeader("at most 4096 bytes"));
    }
    let Some(body) = bytes.get(FIXED..len) else { return Ok(None) };
    let client = match (family, body) {
        (0x11, [a, b, c, d, _, _, _, _, p, q, _, _, ..]) => {
            Some((IpAddr::from([*a, *b, *c, *d]), [*p, *q]))
        }
        (0x21, _) if body.len() >= 36 => {
            let address: [u8; 16] = core::array::from_fn(|at| body[at]);
            Some((IpAddr::from(address), [body[32], body[33]]))
        }
        (0x11 | 0x21, _) => return Err(BadProxyHeader("addresses of their family's length")),
        // Sockets of the file system, datagrams, and what the sender does not know.
        _ => None,
    };
    let client = client.map(|(address, port)| (address, u16::from_be_bytes(port)).into());
    Ok(Some(ProxyHeader { len, client }))
}

fn valid(rng: &mut Rng) -> (Vec<u8>, Option<SocketAddr>) {
    let address: IpAddr = match rng.once_in(2) {
        true => IpAddr::from((rng.roll() as u32).to_be_bytes()),
        false => IpAddr::from((u128::from(rng.roll()) << 64).to_be_bytes()),
    };
    let port = rng.roll() as u16;
    let client = Some(SocketAddr::new(address, port)).filter(|_| !rng.once_in(4));
    if rng.once_in(2) {
        let family = if address.is_ipv4() { "TCP4" } else { "TCP6" };
        let text = match client {
            Some(_) => format!("PROXY {family} {address} {address} {port} 1\r\n"),
            None => rng.pick(&["PROXY UNKNOWN\r\n", "PROXY UNKNOWN x  y\r\n"]).to_string(),
        };
        return (text.into_bytes(), client);
    }
    let bits = match address {
        IpAddr::V4(four) => [four.octets(), [0; 4]].concat(),
        IpAddr::V6(six) => [six.octets(), [0; 16]].concat(),
    };
    let family = if address.is_ipv4() { 0x11 } else { 0x21 };
    let command = match client {
        Some(_) => [0x21, family],
        None => *rng.pick(&[[0x20, family], [0x20, 0xff], [0x21, 0], [0x21, family + 1]]),
    };
    let more = vec![b'x'; rng.below(50)];
    let body = [&bits[..], &port.to_be_bytes(), &[0, 1], &more].concat();
    let len = (body.len() as u16).to_be_bytes();
    ([&SIGNATURE[..], &command, &len, &body].concat(), client)
}

/// One round: a valid header is read at any cut, and a changed one means the same whatever follows;
/// `at` names it in messages.
///
/// # Panics
/// When a promise is broken.
pub(crate) fn fuzz(rng: &mut Rng, at: &str) {
    let (mut bytes, client) = valid(rng);
    let len = bytes.len();
    for cut in 0..len {
        assert_eq!(next(&bytes[..cut]), Ok(None), "{at}: {bytes:?} cut at {cut}");
    }
    bytes.extend_from_slice(b"GET /");
    assert_eq!(next(&bytes), Ok(Some(ProxyHeader { len, client })), "{at}: {bytes:?}");
    let place = rng.below(bytes.len());
    bytes[place] = rng.roll() as u8;
    if let Ok(Some(found)) = next(&bytes) {
        let short = found.len.saturating_sub(1);
        assert_eq!(next(&bytes[..found.len]), Ok(Some(found)), "{at}: {bytes:?}");
        assert_eq!(next(&bytes[..short]), Ok(None), "{at}: {bytes:?} cut at {short}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions() {
        fn check(bytes: &[u8], want: Result<Option<&str>, &str>) {
            let whole = [bytes, b"rest"].concat();
            let found = next(&whole);
            let text = found.map(|found| found.expect("whole").client.map(|it| it.to_string()));
            let text = text.as_ref().map(|it| it.as_deref()).map_err(|bad| bad.0);
            assert_eq!(text, want, "{}", bytes.escape_ascii());
            let is_whole = found.is_ok_and(|it| it.is_some_and(|it| it.len == bytes.len()));
            assert_eq!(is_whole, want.is_ok(), "{}", bytes.escape_ascii());
        }
        let four = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n";
        check(four, Ok(Some("192.0.2.7:56324")));
        check(b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", Ok(Some("[2001:db8::1]:0")));
        check(b"PROXY UNKNOWN\r\n", Ok(None));
        check(b"PROXY UNKNOWN ffff:f..f 1 2\r\n", Ok(None));
        let pairs = "two addresses of the family and two ports";
        for words in [
            "TCP4 ::1 ::1 1 2",
            "TCP6 1.2.3.4 ::1 1 2",
            "TCP4 1.2.3.4 x 1 2",
            "TCP4 1.2.3.4 1.2.3.4 65536 2",
            "TCP4 1.2.3.4 1.2.3.4 +1 2",
            "TCP4 1.2.3.4 1.2.3.4 01 2",
            "TCP4 1.2.3.4 1.2.3.4 1 ",
        ] {
            check(format!("PROXY {words}\r\n").as_bytes(), Err(pairs));
        }
        let words = "TCP4, TCP6 or UNKNOWN and four words";
        check(b"PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n", Err(words));
        check(b"PROXY TCP5\r\n", Err(words));
        check(b"PROXY \r\n", Err(words));
        check(&[&b"PROXY TCP4 "[..], &[b'1'; 96]].concat(), Err("at most 107 bytes"));
        check(b"GET / HTTP/1.1\r\n", Err("`PROXY ` or the signature of version 2"));
        let two = |kind: [u8; 2], body: &[u8]| {
            [SIGNATURE, &kind[..], &(body.len() as u16).to_be_bytes(), body].concat()
        };
        let four = [1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 2, 0, b'x'];
        check(&two([0x21, 0x11], &four), Ok(Some("1.2.3.4:256")));
        check(&two([0x21, 0x21], &[0; 36]), Ok(Some("[::]:0")));
        check(&two([0x20, 0xff], &four), Ok(None));
        check(&two([0x21, 0x31], &[0; 216]), Ok(None));
        let short = "addresses of their family's length";
        check(&two([0x21, 0x11], &four[..11]), Err(short));
        check(&two([0x21, 0x21], &[0; 35]), Err(short));
        let kind = "version 2, LOCAL or PROXY, and a known family";
        for bad in [[0x11, 0x11], [0x22, 0x11], [0x21, 0x41], [0x21, 0x13]] {
            check(&two(bad, &four), Err(kind));
        }
        check(&two([0x20, 0], &[0; HEADER_MAX]), Err("at most 4096 bytes"));
    }
}
