//! The `Host` field of a request (RFC 9110 section 7.2), as far as it protects a local server.
//!
//! A page of another site can let its own name point to 127.0.0.1 and then read a local server as
//! if it were its own (DNS rebinding). Its requests carry that name. An address, or `localhost`,
//! cannot be rebound.

use std::net::{IpAddr, Ipv4Addr};

use super::is_host;

/// The address that a `Host` field names by number or as `localhost`, with or without a port;
/// `None` for any other name.
pub fn address(host: &[u8]) -> Option<IpAddr> {
    let host = std::str::from_utf8(host).ok()?.trim();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.eq_ignore_ascii_case("localhost") {
        true => Some(Ipv4Addr::LOCALHOST.into()),
        false => name.parse().ok(),
    }
}

/// Whether this is an origin in the form in which browsers send it (RFC 6454 section 6.2).
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_scheme = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.');
    let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
    !scheme.is_empty()
        && scheme.bytes().all(is_scheme)
        && !host.is_empty()
        && is_lower
        && is_host(host.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn only_addresses_and_localhost_are_safe() {
        let check = |host: &str, safe: bool| {
            assert_eq!(address(host.as_bytes()).is_some(), safe, "{host}");
        };
        for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]:9", "[::1]", "LocalHost:1", "192.0.2.7"]
        {
            check(host, true);
        }
        for host in ["evil.example", "evil.example:80", "localhost.evil.example", "", ":80"] {
            check(host, false);
        }
        assert!(address(b"\xff").is_none());
    }
}
