//! Clients that know every byte of every answer: the bytes are right, or the connection ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use stats::Rng;

use crate::server::connect;
use crate::site::GREAT;

/// The fates of the connections of one client or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that came whole.
    pub whole: u64,
    /// Connections that were refused, or reset before they were established.
    pub refused: u64,
    /// Connections that ended with a request under way.
    pub lost: u64,
}

impl Tally {
    /// Both together.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            whole: self.whole + other.whole,
            refused: self.refused + other.refused,
            lost: self.lost + other.lost,
        }
    }
}

/// A request and its answer.
struct Question {
    bytes: Vec<u8>,
    status: &'static str,
    body: Vec<u8>,
}

impl Question {
    fn get(path: &str, fields: &str, status: &'static str, body: Vec<u8>) -> Question {
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
        Question { bytes, status, body }
    }

    /// A random request to the site or the demonstration; `last` ends the conversation.
    fn roll(rng: &mut Rng, last: bool) -> Question {
        let close = if last { "Connection: close\r\n" } else { "" };
        match rng.below(4) {
            0 => Question::get("/plaintext", close, "200 OK", b"Hello, World!".to_vec()),
            1 => Question::get("/a.txt", close, "200 OK", b"0123456789".to_vec()),
            2 => {
                let len = 1 + rng.below(200_000);
                let from = rng.below(GREAT - len);
                let range = format!("Range: bytes={from}-{}\r\n{close}", from + len - 1);
                let body = (from..from + len).map(|at| great_byte(at as u32)).collect();
                Question::get("/great", &range, "206 Partial Content", body)
            }
            _ => {
                let body: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.roll() as u8).collect();
                let len = body.len();
                let head =
                    format!("POST / HTTP/1.1\r\nHost: a\r\n{close}Content-Length: {len}\r\n");
                let bytes = [head.as_bytes(), b"\r\n", &body].concat();
                Question { bytes, status: "200 OK", body }
            }
        }
    }
}

/// A byte of `/great`.
fn great_byte(at: u32) -> u8 {
    (at / 4).to_le_bytes()[at as usize % 4]
}

/// Has conversations of one to four questions until `over`.
///
/// # Panics
/// If a byte of an answer is wrong.
pub fn converse(address: SocketAddr, seed: u64, mut over: impl FnMut() -> bool) -> Tally {
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    while !over() {
        let mut stream = match connect(address) {
            Ok(stream) => stream,
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::TimedOut, "neither accepted nor refused");
                tally.refused += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
        };
        let is_whole = conversation(&mut stream, &mut rng, &mut tally.whole);
        tally.lost += u64::from(!is_whole);
    }
    tally
}

/// Asks one to four questions; returns whether all were answered.
fn conversation(stream: &mut TcpStream, rng: &mut Rng, whole: &mut u64) -> bool {
    let (questions, at_once) = (1 + rng.below(4), rng.once_in(2));
    let mut ahead = Vec::new();
    let all: Vec<Question> =
        (0..questions).map(|it| Question::roll(rng, it + 1 == questions)).collect();
    if at_once {
        let bytes: Vec<u8> = all.iter().flat_map(|it| it.bytes.iter().copied()).collect();
        // Answers may still arrive; missing ones are noticed below.
        let _ = stream.write_all(&bytes);
    }
    for question in &all {
        if !at_once {
            let _ = stream.write_all(&question.bytes);
        }
        match answer(stream, question, &mut ahead) {
            None => return false,
            Some(closes) => {
                *whole += 1;
                if closes {
                    return true;
                }
            }
        }
    }
    true
}

/// Reads the answer to a question: whether it is the last of its connection, or `None` if the
/// connection ends before.
fn answer(stream: &mut TcpStream, question: &Question, ahead: &mut Vec<u8>) -> Option<bool> {
    loop {
        check_prefix(question, ahead);
        if let Some(head) = head_len(ahead) {
            let fields = String::from_utf8_lossy(&ahead[..head]).into_owned();
            let len = question.body.len();
            assert!(fields.contains(&format!("\r\nContent-Length: {len}\r\n")), "{fields}");
            if ahead.len() >= head + len {
                ahead.drain(..head + len);
                return Some(fields.contains("\r\nConnection: close\r\n"));
            }
        }
        let mut scratch = [0; 64 * 1024];
        match stream.read(&mut scratch) {
            Ok(0) => return None,
            Ok(len) => ahead.extend_from_slice(&scratch[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let hangs = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!hangs, "an answer that does not come, on a connection that does not end");
                return None;
            }
        }
    }
}

/// Every byte so far is one of the right answer.
fn check_prefix(question: &Question, seen: &[u8]) {
    let start = format!("HTTP/1.1 {}\r\n", question.status);
    let common = start.len().min(seen.len());
    let (found, wanted) = (&seen[..common], &start.as_bytes()[..common]);
    assert_eq!(found.escape_ascii().to_string(), wanted.escape_ascii().to_string());
    if let Some(head) = head_len(seen) {
        let body = &seen[head..];
        let common = body.len().min(question.body.len());
        assert!(body[..common] == question.body[..common], "a wrong byte in a body");
    }
}

fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}
