//! Detects the framing of a server from its reply to `show`.
//!
//! `show` is the one request that every server of this protocol knows and that changes nothing.
//! Its reply differs in each framing: padding begins with a NUL, which no text holds; a block ends
//! with an empty line; the third kind ends with a line `EOF`; the fourth begins with its length.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::framing::{Framing, Shape};

/// The length of the course's blocks in bytes.
const COURSE: usize = 8192;
/// Silence after which a block of another size than the course's is taken to be whole.
const QUIET: Duration = Duration::from_millis(500);
/// Silence after which text without an end is taken to stay without one.
const STUCK: Duration = Duration::from_secs(3);
/// How long the first byte may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A longer reply does not answer `show`.
const REPLY_MAX: usize = 64 << 20;

/// Requests the book, and returns the framing and the book's text.
pub fn framing(stream: &mut TcpStream) -> Result<(Framing, Vec<u8>)> {
    stream.write_all(b"show\n").context("the connection is broken")?;
    let begin = Instant::now();
    let mut heard = Vec::new();
    let mut scratch = vec![0; 64 * 1024];
    loop {
        if let Some(framing) = by_end(&heard) {
            return Ok((framing, text(framing, &heard)));
        }
        let patience = match heard.as_slice() {
            [] => PATIENCE,
            some if some.contains(&0) => QUIET,
            _ => STUCK,
        };
        stream.set_read_timeout(Some(patience)).context("the connection is broken")?;
        match stream.read(&mut scratch) {
            Ok(0) if heard.is_empty() => {
                bail!("expected a reply to `show`, found that the server closes the connection")
            }
            Ok(0) => bail!("{}", unknown(&heard)),
            Ok(len) => heard.extend_from_slice(&scratch[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_silence(&error) && !heard.is_empty() => {
                let Some(framing) = by_silence(&heard) else { bail!("{}", unknown(&heard)) };
                return Ok((framing, text(framing, &heard)));
            }
            Err(error) if is_silence(&error) => bail!(
                "expected a reply to `show`, found nothing for {} s; is this a stock server, and \
                 is it free?",
                begin.elapsed().as_secs()
            ),
            Err(error) => return Err(error).context("the connection is broken"),
        }
        if heard.len() > REPLY_MAX {
            bail!("{}", unknown(&heard[..80]));
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The framing, if the received bytes are a whole reply.
fn by_end(heard: &[u8]) -> Option<Framing> {
    if heard.contains(&0) {
        return (heard.len() == COURSE).then_some(Framing::Fixed(COURSE));
    }
    let counted = wire::framing::Decoder::new(Framing::Length).next(heard, Shape::Block);
    if counted.is_some_and(|reply| reply.used == heard.len() && reply.text.len() < reply.used) {
        return Some(Framing::Length);
    }
    if heard == b"\n" || heard.ends_with(b"\n\n") {
        Some(Framing::Line)
    } else if heard == b"EOF\n" || heard.ends_with(b"\nEOF\n") {
        Some(Framing::Eof)
    } else {
        None
    }
}

/// The framing of a reply after which no more bytes come: a block of another size than the
/// course's.
fn by_silence(heard: &[u8]) -> Option<Framing> {
    (heard.contains(&0) && heard.len() >= 2).then_some(Framing::Fixed(heard.len()))
}

/// The reply's text.
fn text(framing: Framing, heard: &[u8]) -> Vec<u8> {
    let mut decoder = wire::framing::Decoder::new(framing);
    decoder.next(heard, Shape::Block).map(|reply| reply.text.to_vec()).unwrap_or_default()
}

fn unknown(heard: &[u8]) -> String {
    let shown = stats::words::visible(heard, 80);
    format!(
        "cannot tell how this server's replies end: `show` gave {} bytes, `{}`; name it with \
         --framing line, fixed:8192, eof or length",
        heard.len(),
        shown
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The detected protocol of a server that sends these pieces in order and does not close.
    fn told(pieces: &'static [&'static [u8]]) -> Result<(String, String), String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("ours")).expect("a server");
        let (mut far, _) = listener.accept().expect("a client");
        let server = std::thread::spawn(move || {
            far.read_exact(&mut [0; 5]).expect("a request");
            for piece in pieces {
                far.write_all(piece).expect("the client reads");
                std::thread::sleep(Duration::from_millis(20));
            }
            far
        });
        let outcome = framing(&mut near);
        drop(server.join().expect("all pieces are sent"));
        outcome
            .map(|(framing, text)| {
                (framing.to_string(), String::from_utf8_lossy(&text).into_owned())
            })
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(pieces: &'static [&'static [u8]], framing: &str) {
        assert_eq!(told(pieces), Ok((framing.to_owned(), "1 2 3\n4 5 6\n".to_owned())));
    }

    #[test]
    fn each_framing_is_told_from_its_end() {
        const PADDED: &[u8] = &{
            let mut block = [0; COURSE];
            let rows = b"1 2 3\n4 5 6\n";
            let mut at = 0;
            while at < rows.len() {
                block[at] = rows[at];
                at += 1;
            }
            block
        };
        check(&[b"1 2 3\n4 5 6\n\n"], "line");
        check(&[b"1 2 3\n", b"4 5 6", b"\n", b"\n"], "line");
        check(&[b"1 2 3\n4 5 6\nEOF\n"], "eof");
        check(&[b"1 2 3\n4 5 6\nE", b"OF\n"], "eof");
        check(&[b"12\n1 2 3\n", b"4 5 6\n"], "length");
        check(&[PADDED], "fixed:8192");
        check(&[b"1 2 3\n4 5 6\n\0\0\0\0"], "fixed:16");
        // A server may pad with what its buffer held before.
        check(&[b"1 2 3\n4 5 6\n\0 [buy] success\n"], "fixed:28");
    }

    #[test]
    fn what_has_no_end_is_named() {
        let error = told(&[b"1 2 3\n4 5 6\n"]).expect_err("no end");
        assert!(error.contains("12 bytes, `1 2 3\\n4") && error.contains("--framing"), "{error}");
    }
}
