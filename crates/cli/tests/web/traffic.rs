//! Clients that know every byte of every answer: the bytes are right, or the connection ends.
//!
//! The tests check how a connection ends, so the counts distinguish an end before the first answer,
//! between two answers, and in the middle of one.

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
    /// Connections that were reset before the first answer began: so the kernel answers clients
    /// that wait to be accepted when a server closes its listener.
    pub unheard: u64,
    /// Connections that ended in good order before the first answer began: a worker had
    /// accepted them and did not serve them.
    pub unasked: u64,
    /// Connections that ended after whole answers and before the next began.
    pub between: u64,
    /// Connections that ended in the middle of an answer.
    pub cut: u64,
}

impl Tally {
    /// Both together.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            whole: self.whole + other.whole,
            refused: self.refused + other.refused,
            unheard: self.unheard + other.unheard,
            unasked: self.unasked + other.unasked,
            between: self.between + other.between,
            cut: self.cut + other.cut,
        }
    }

    /// Connections that were lost with a request under way.
    pub fn lost(self) -> u64 {
        self.unheard + self.unasked + self.between + self.cut
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

/// The end of a connection.
enum End {
    Asked,
    Unheard,
    Unasked,
    Between,
    Cut,
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
        match conversation(&mut stream, &mut rng, &mut tally.whole) {
            End::Asked => {}
            End::Unheard => tally.unheard += 1,
            End::Unasked => tally.unasked += 1,
            End::Between => tally.between += 1,
            End::Cut => tally.cut += 1,
        }
    }
    tally
}

fn conversation(stream: &mut TcpStream, rng: &mut Rng, whole: &mut u64) -> End {
    let (questions, at_once) = (1 + rng.below(4), rng.once_in(2));
    let mut ahead = Vec::new();
    let (mut any, mut reset) = (false, false);
    let all: Vec<Question> =
        (0..questions).map(|it| Question::roll(rng, it + 1 == questions)).collect();
    if at_once {
        let bytes: Vec<u8> = all.iter().flat_map(|it| it.bytes.iter().copied()).collect();
        // Answers may still arrive; missing ones are noticed below. A reset that is reported here
        // appears as an ordinary end there.
        reset |= stream.write_all(&bytes).is_err();
    }
    for question in &all {
        if !at_once {
            reset |= stream.write_all(&question.bytes).is_err();
        }
        match answer(stream, question, &mut ahead) {
            Answer::Whole(closes) => {
                *whole += 1;
                any = true;
                if closes {
                    return End::Asked;
                }
            }
            _ if !ahead.is_empty() => return End::Cut,
            _ if any => return End::Between,
            Answer::Reset => return End::Unheard,
            Answer::Ended if reset => return End::Unheard,
            Answer::Ended => return End::Unasked,
        }
    }
    End::Asked
}

/// The fate of a question.
enum Answer {
    /// A whole answer; whether it is the last of its connection.
    Whole(bool),
    /// The connection ended before the answer.
    Ended,
    /// The connection was reset before the answer.
    Reset,
}

/// Reads the answer to a question. The bytes of an incomplete answer stay in `ahead`.
fn answer(stream: &mut TcpStream, question: &Question, ahead: &mut Vec<u8>) -> Answer {
    loop {
        check_prefix(question, ahead);
        if let Some(head) = head_len(ahead) {
            let fields = String::from_utf8_lossy(&ahead[..head]).into_owned();
            let len = question.body.len();
            assert!(fields.contains(&format!("\r\nContent-Length: {len}\r\n")), "{fields}");
            if ahead.len() >= head + len {
                ahead.drain(..head + len);
                return Answer::Whole(fields.contains("\r\nConnection: close\r\n"));
            }
        }
        let mut scratch = [0; 64 * 1024];
        match stream.read(&mut scratch) {
            Ok(0) => return Answer::Ended,
            Ok(len) => ahead.extend_from_slice(&scratch[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let hangs = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!hangs, "an answer that does not come, on a connection that does not end");
                return Answer::Reset;
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
