//! A name server with authority for a table of hosts (RFC 1035, 3596): A and AAAA, no data for
//! other types, NXDOMAIN for other names.
//!
//! `cargo run -p roundhouse-runtime --example udp-dns -- --port 5353`, then
//! `dig @127.0.0.1 -p 5353 www.example AAAA`

#![forbid(unsafe_code)]

use roundhouse::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The names in lower case, with their addresses.
const HOSTS: [(&[u8], Ipv4Addr, Option<Ipv6Addr>); 2] = [
    (
        b"www.example",
        Ipv4Addr::new(192, 0, 2, 80),
        Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 80)),
    ),
    (b"mail.example", Ipv4Addr::new(192, 0, 2, 25), None),
];
/// How long others may keep an answer (seconds).
const TTL: u32 = 300;

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
/// The flags of a query and of a response: QR, AA, RD and the opcode.
const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const RECURSION_DESIRED: u16 = 0x0100;
const OPCODE: u16 = 0x7800;

/// The code of a response (RFC 1035, section 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    NoError = 0,
    FormErr = 1,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
}

/// The question of a query.
struct Question {
    /// In lower case, labels joined by dots.
    name: Vec<u8>,
    kind: u16,
    class: u16,
    /// Where it ends in the message.
    end: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the only question; `None` if it is malformed. A first name is never compressed.
fn question(query: &[u8]) -> Option<Question> {
    let (mut name, mut at) = (Vec::new(), HEADER);
    loop {
        let len = usize::from(*query.get(at)?);
        let label = query.get(at + 1..at + 1 + len)?;
        at += 1 + len;
        if len == 0 {
            break;
        }
        if len > 63 || at - HEADER > 254 {
            return None;
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend(label.iter().map(u8::to_ascii_lowercase));
    }
    let (kind, class) = (word(query, at)?, word(query, at + 2)?);
    Some(Question { name, kind, class, end: at + 4 })
}

/// Appends the address that is asked for, and returns the code.
fn resolve(question: &Question, answer: &mut Vec<u8>) -> Code {
    const CLASS_IN: u16 = 1;
    if question.class != CLASS_IN {
        return Code::Refused;
    }
    let Some((_, v4, v6)) = HOSTS.iter().find(|(name, ..)| *name == question.name) else {
        return Code::NxDomain;
    };
    let data = match (question.kind, v6) {
        (TYPE_A, _) => v4.octets().to_vec(),
        (TYPE_AAAA, Some(v6)) => v6.octets().to_vec(),
        _ => return Code::NoError,
    };
    // A pointer to the name in the question.
    answer.extend((0xc000 | HEADER as u16).to_be_bytes());
    answer.extend(question.kind.to_be_bytes());
    answer.extend(CLASS_IN.to_be_bytes());
    answer.extend(TTL.to_be_bytes());
    answer.extend((data.len() as u16).to_be_bytes());
    answer.extend(data);
    Code::NoError
}

/// A response has the query's id; without one, and to another response, there is none: two servers
/// could answer each other for ever.
fn answer(query: &[u8], reply: &mut ReplyBuffer<'_>) -> After {
    let (Some(id), Some(flags), Some(questions)) = (word(query, 0), word(query, 2), word(query, 4))
    else {
        return After::Silence;
    };
    if flags & RESPONSE != 0 {
        return After::Silence;
    }
    let mut answers = Vec::new();
    let asked = question(query).filter(|_| questions == 1);
    let code = match &asked {
        _ if flags & OPCODE != 0 => Code::NotImp,
        None => Code::FormErr,
        Some(asked) => resolve(asked, &mut answers),
    };
    // A question that cannot be read is not repeated.
    let asked = asked.filter(|_| !matches!(code, Code::FormErr | Code::NotImp));
    let echoed = asked.as_ref().map_or(&[][..], |asked| &query[HEADER..asked.end]);
    let authority = if matches!(code, Code::NoError | Code::NxDomain) { AUTHORITATIVE } else { 0 };
    let flags = RESPONSE | flags & (OPCODE | RECURSION_DESIRED) | authority | code as u16;
    let counts = [u16::from(asked.is_some()), u16::from(!answers.is_empty()), 0, 0];
    for word in [id, flags].into_iter().chain(counts) {
        reply.put(word.to_be_bytes());
    }
    reply.put(echoed).put(answers).sent()
}

fn main() -> ExitCode {
    datagrams(answer).main()
}
