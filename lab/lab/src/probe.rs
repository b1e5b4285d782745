//! The protocol of a server, found out by polite requests: each goes over a separate connection,
//! and none changes anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time that a server has for each reply.
const PATIENCE: Duration = Duration::from_millis(500);
/// A request that HTTP servers answer, redis refuses in its own words, and other servers of lines
/// refuse in theirs.
const HEAD: &[u8] = b"HEAD / HTTP/1.0\r\n\r\n";
/// A TLS record with an empty ClientHello, which every TLS server refuses by an alert (RFC 8446
/// section 6).
const HELLO: &[u8] = &[22, 3, 1, 0, 4, 1, 0, 0, 0];
/// The preface of HTTP/2 with empty SETTINGS, which each such server answers with its own (RFC 9113
/// section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A protocol that the load generator speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Its name for people.
    pub name: &'static str,
    /// The generator's target, with `{address}`.
    pub target: &'static str,
    /// Further arguments of the generator.
    pub load: &'static [&'static str],
    /// Whether a web server has nothing at `/` (404).
    pub is_bare: bool,
}

const HTTP: Protocol =
    Protocol { name: "HTTP", target: "http://{address}/", load: &[], is_bare: false };
/// A server is asked by its address, which few certificates name.
const HTTPS: Protocol = Protocol {
    name: "TLS, taken for HTTPS; its certificate is not checked",
    target: "https://{address}/",
    load: &["--insecure"],
    ..HTTP
};
/// A server that does not speak HTTP/1.1.
const HTTP2: Protocol =
    Protocol { name: "HTTP/2 alone; for gRPC name a method", load: &["--http2"], ..HTTP };
const REDIS: Protocol = Protocol {
    name: "redis, by PING",
    target: "line://{address}",
    load: &["--request", "PING\\r\\n", "--expect-prefix", "+PONG"],
    ..HTTP
};
const STOCK: Protocol = Protocol { name: "the stock market", target: "stock://{address}", ..HTTP };
const LINES: Protocol = Protocol {
    name: "lines; each request is `ping`",
    target: "line://{address}",
    load: &["--request", "ping"],
    ..HTTP
};
/// Words of a line that refuses a request.
const REFUSALS: [&str; 5] = ["err", "unknown", "invalid", "expected", "usage"];

/// Asks the server at `address` (HOST:PORT) which protocol it speaks.
///
/// # Errors
/// A sentence that says what was asked and what came back.
pub fn protocol(address: &str) -> Result<Protocol, String> {
    let address = sys::resolve::server(address)
        .map_err(|_| format!("expected HOST:PORT, found `{address}`"))?;
    let head = ask(address, HEAD)?;
    let is_refused = head.starts_with(b"HTTP/1.1 400") || head.starts_with(b"HTTP/1.0 400");
    if (head.is_empty() || is_refused || is_tls(&head)) && is_tls(&ask(address, HELLO)?) {
        return Ok(HTTPS);
    }
    if is_settings(&head) || (head.is_empty() && is_settings(&ask(address, PREFACE)?)) {
        return Ok(HTTP2);
    }
    if head.starts_with(b"HTTP/1.1 426") {
        return Err(format!(
            "{address} answers HTTP with 426 (Upgrade Required): give the URL of its protocol, \
             such as ws://{{address}}/"
        ));
    }
    if head.starts_with(b"HTTP/") {
        let is_bare = head.get(9..12) == Some(&b"404"[..]);
        return Ok(Protocol { is_bare, ..HTTP });
    }
    if head.starts_with(b"-ERR") || head.starts_with(b"-NOAUTH") {
        return Ok(REDIS);
    }
    if is_book(&ask(address, b"show\n")?) {
        return Ok(STOCK);
    }
    if is_line(&ask(address, b"ping\n")?) {
        return Ok(LINES);
    }
    let found = match head.is_empty() {
        true => "no reply".to_string(),
        false => format!("`{}`", stats::words::visible(&head, 60)),
    };
    Err(format!(
        "{address} speaks no protocol that is known here: expected HTTP, HTTP/2, TLS, redis, the \
         market or lines that answer `ping`, found {found} to a HEAD request; give it as a URL, \
         such as line://{{address}} with --request"
    ))
}

/// The reply to one request, up to a pause of [`PATIENCE`]; empty if none comes.
fn ask(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |why: std::io::Error| format!("cannot ask {address}: {why}");
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
    if stream.write_all(request).is_ok() {
        // A reply is whole at the end of a line; a server that closes has said all.
        while reply.len() < 1 << 16 {
            match stream.read(&mut part) {
                Ok(len) if len > 0 => reply.extend_from_slice(&part[..len]),
                _ => break,
            }
            if reply.ends_with(b"\n") {
                break;
            }
        }
    }
    Ok(reply)
}

/// Whether a TLS record came back: an alert or a handshake.
fn is_tls(reply: &[u8]) -> bool {
    matches!(reply, [21 | 22, 3, ..])
}

/// Whether SETTINGS of HTTP/2 came back first (RFC 9113 section 6.5).
fn is_settings(reply: &[u8]) -> bool {
    matches!(reply, [0, _, len, 4, 0, 0, 0, 0, 0, ..] if len % 6 == 0)
}

/// Whether these are lines of a book of stocks: id, shares left, price.
fn is_book(reply: &[u8]) -> bool {
    let text = String::from_utf8_lossy(reply);
    let text = text.trim_end_matches('\0');
    let is_stock = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() == 3 && words.iter().all(|word| word.parse::<i64>().is_ok())
    };
    !text.trim().is_empty() && text.trim().lines().all(is_stock)
}

/// Whether a `ping` came back in one line that does not refuse it.
fn is_line(reply: &[u8]) -> bool {
    let text = String::from_utf8_lossy(reply).to_lowercase();
    let is_one = text.ends_with('\n') && text.lines().count() == 1;
    is_one && text.contains("ping") && !REFUSALS.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that gives one reply to what each connection sends first.
    fn serve(reply: fn(&[u8]) -> Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, mut part) = (stream.expect("a client"), [0; 100]);
                let len = stream.read(&mut part).unwrap_or(0);
                // A client that has gone needs no reply.
                let _ = stream.write_all(&reply(&part[..len]));
            }
        });
        address
    }

    #[test]
    fn each_protocol_is_known_by_its_replies() {
        fn check(reply: fn(&[u8]) -> Vec<u8>, want: Protocol) {
            assert_eq!(protocol(&serve(reply)), Ok(want));
        }
        check(|_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), HTTP);
        check(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), HTTP);
        check(|_| b"-ERR unknown command 'HEAD'\r\n".to_vec(), REDIS);
        let market = |asked: &[u8]| match asked {
            b"show\n" => b"1 5 1000\n2 0 30\n".to_vec(),
            _ => b"invalid command\n".to_vec(),
        };
        check(market, STOCK);
        check(|asked| asked.to_vec(), LINES);
        check(|asked| [b"hello, ", asked].concat(), LINES);
        check(|_| b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0d".to_vec(), HTTP2);
        let silent = |asked: &[u8]| match asked.starts_with(b"PRI") {
            true => b"\0\0\0\x04\0\0\0\0\0".to_vec(),
            false => Vec::new(),
        };
        check(silent, HTTP2);
        check(|_| b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(), Protocol { is_bare: true, ..HTTP });
    }

    #[test]
    fn an_unknown_protocol_is_quoted() {
        let why = protocol(&serve(|_| b"220 mail ready\r\n".to_vec())).expect_err("not known");
        assert!(why.contains("`220 mail ready\\r\\n`") && why.contains("--request"), "{why}");
        let refuses = |asked: &[u8]| [b"unknown command ", asked].concat();
        assert!(protocol(&serve(refuses)).is_err());
        let tls = |asked: &[u8]| match asked[0] {
            22 => vec![21, 3, 3, 0, 2, 2, 50],
            _ => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        };
        assert_eq!(protocol(&serve(tls)), Ok(HTTPS));
        assert!(protocol("nowhere").expect_err("no port").contains("expected HOST:PORT"));
    }
}
