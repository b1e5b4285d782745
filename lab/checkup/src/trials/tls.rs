//! TLS: versions that no server may speak any more, and sessions that are resumed.

use std::io::{Read, Write};
use std::time::Duration;

use load::model::Model;
use load::work::Think;

use super::Finding;
use crate::stand::{STARVED, Stand};

/// TLS 1.0 and 1.1, with their second byte.
const OLD: [(&str, u8); 2] = [("TLS 1.0", 1), ("TLS 1.1", 2)];
/// Suites of those versions: ECDHE and RSA with AES-CBC and SHA.
const SUITES: [u8; 12] = [0xc0, 0x09, 0xc0, 0x0a, 0xc0, 0x13, 0xc0, 0x14, 0x00, 0x2f, 0x00, 0x35];
/// The groups x25519 and secp256r1, and uncompressed points.
const EXTENSIONS: [u8; 16] = [0, 10, 0, 6, 0, 4, 0, 29, 0, 23, 0, 11, 0, 2, 1, 0];

/// A ClientHello of an old version (RFC 2246 section 7.4.1.2, RFC 4346).
fn hello(minor: u8) -> Vec<u8> {
    let length = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    body.push(0);
    body.extend(length(&SUITES));
    body.extend(SUITES);
    body.extend([1, 0]);
    body.extend(length(&EXTENSIONS));
    body.extend(EXTENSIONS);
    let mut handshake = vec![1, 0];
    handshake.extend(length(&body));
    handshake.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(length(&handshake));
    record.extend(handshake);
    record
}

pub(super) fn versions(stand: &mut Stand) -> Result<Finding, String> {
    let mut spoken = Vec::new();
    for (name, minor) in OLD {
        let ask = || {
            let mut socket = stand.socket()?;
            socket.set_read_timeout(Some(STARVED))?;
            socket.write_all(&hello(minor))?;
            let mut reply = [0; 11];
            // A refusal is an alert or the end of the connection.
            let _ = socket.read_exact(&mut reply);
            Ok::<_, std::io::Error>(reply)
        };
        let reply = ask().map_err(|why| format!("a client cannot connect: {why}"))?;
        // A ServerHello with its version behind record and handshake.
        if reply[0] == 22 && reply[5] == 2 && reply[9..] == [3, minor] {
            spoken.push(name);
        }
    }
    Ok(match spoken.is_empty() {
        true => Finding::good("TLS 1.0 and 1.1 are refused"),
        false => Finding::fault(
            format!("the server speaks {}", spoken.join(", ")),
            "RFC 8996: TLS 1.0 and 1.1 must not be negotiated",
        ),
    })
}

pub(super) fn resumption(stand: &mut Stand) -> Result<Finding, String> {
    let mut plan = stand.plan(2, stand.span(1.0)).ok_or("no protocol is known")?;
    plan.model = Model::Closed { depth: 1, think: Think::None, ramp: None };
    plan.settings.requests_per_connection = Some(1);
    plan.settings.drain = Duration::from_millis(500);
    plan.watch = None;
    let report = stand.load(&plan)?;
    let tls = report.tls.as_ref().ok_or("no handshake was made")?;
    let (all, resumed) = (tls.handshake.count, tls.resumed);
    let evidence = format!("{resumed} of {all} handshakes resume a session of {}", tls.version);
    Ok(match 2 * resumed > all {
        true => Finding::good(evidence),
        false => Finding::attention(evidence, "a client that comes back pays for a full handshake"),
    }
    .measured("handshake_ns", tls.handshake.p50_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_has_the_lengths_of_its_parts() {
        let hello = hello(2);
        assert_eq!(usize::from(hello[4]) + 5, hello.len());
        assert_eq!(usize::from(hello[8]) + 9, hello.len());
        assert_eq!(hello[9..11], [3, 2]);
    }
}
