//! The expected reply of a [`super::Probe`], without a session, a step or an output.

use seam::SessionId;

use super::{LINE_MAX, Request, numbered};
use crate::rng::Rng;

/// The bytes that a client receives if it sends `input` and then ends its half of the
/// connection, without the news.
pub fn expected(input: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    let mut rest = input;
    let mut lingers = false;
    loop {
        let Some(len) = rest.iter().position(|&byte| byte == b'\n') else {
            if rest.len() >= LINE_MAX {
                reply.extend_from_slice(b"long\n");
            } else {
                let left = if lingers { "left\n" } else { "" };
                reply.extend_from_slice(format!("end {}\n{left}", rest.len()).as_bytes());
            }
            return reply;
        };
        if len >= LINE_MAX {
            reply.extend_from_slice(b"long\n");
            return reply;
        }
        let request = Request::parse(&rest[..len]);
        rest = &rest[len + 1..];
        match request {
            Request::Echo(text) => reply.extend_from_slice(&[b"= ", text, b"\n"].concat()),
            Request::Much(lines)
            | Request::Flow(lines)
            | Request::Shy(lines)
            | Request::Shared(lines)
            | Request::File(lines) => reply.extend((0..lines).flat_map(numbered)),
            Request::Wait(_) => reply.extend_from_slice(b"waited\n"),
            Request::Job(text) => {
                reply.extend(text.iter().rev());
                reply.push(b'\n');
            }
            Request::Toil(lines) => {
                reply.extend((0..lines).flat_map(numbered));
                reply.extend_from_slice(b"toiled\n");
            }
            Request::Pause => reply.extend_from_slice(b"paused\n"),
            Request::Linger => {
                lingers = true;
                reply.extend_from_slice(b"lingers\n");
            }
            Request::Bye => {
                reply.extend_from_slice(b"bye\n");
                return reply;
            }
            Request::Unknown(len) => reply.extend_from_slice(format!("? {len}\n").as_bytes()),
            Request::Nudge(_)
            | Request::Count
            | Request::Ticks
            | Request::Id
            | Request::Tell(..) => {}
        }
    }
}

/// The received bytes without the news: the lines that begin with `#` or `~`.
pub fn plain(received: &[u8]) -> Vec<u8> {
    received
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !matches!(line.first(), Some(b'#' | b'~')))
        .flatten()
        .copied()
        .collect()
}

/// The requests that [`requests`] may choose, and their maximum sizes.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    /// `much`, `flow`, `shy`, `toil`, `shared` and `file` ask for at most this many lines.
    pub lines_max: usize,
    /// `wait` and `nudge` ask for at most this many milliseconds.
    pub wait_ms_max: usize,
    /// Whether the engine can send asset 0, which holds [`super::asset`].
    pub files: bool,
    /// Whether requests may end the conversation early: lines that are too long, or `bye`.
    pub endings: bool,
}

impl Default for Menu {
    fn default() -> Menu {
        Menu { lines_max: 300, wait_ms_max: 20, files: false, endings: false }
    }
}

/// `count` requests that `seed` chooses from `menu`, as bytes to send.
pub fn requests(seed: u64, count: usize, menu: Menu) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut lines = Vec::new();
    for _ in 0..count {
        let line = match rng.below(if menu.endings { 58 } else { 56 }) {
            0..=11 => format!("echo {}", word(&mut rng)),
            12..=14 => format!("much {}", rng.below(menu.lines_max + 1)),
            15..=18 => format!("flow {}", rng.below(menu.lines_max + 1)),
            19..=21 => format!("shared {}", rng.below(menu.lines_max.min(super::SHARED_MAX) + 1)),
            22..=24 if menu.files => {
                format!("file {}", rng.below(menu.lines_max.min(super::SHARED_MAX) + 1))
            }
            25..=27 => format!("wait {}", rng.below(menu.wait_ms_max + 1)),
            28 => format!("nudge {}", rng.below(menu.wait_ms_max + 1)),
            29..=33 => format!("job {}", word(&mut rng)),
            34..=36 => "count".into(),
            37 => "ticks".into(),
            38 => "id".into(),
            39 => {
                // One of the first sessions of the first workers, so that some exist.
                let to = SessionId::new(rng.below(3), rng.below(4) as u32, 1);
                format!("tell {} {}", to.bits(), word(&mut rng))
            }
            40 => String::new(),
            41..=45 => format!("{} ", word(&mut rng)),
            46..=48 => format!("shy {}", rng.below(menu.lines_max + 1)),
            49..=51 => format!("toil {}", rng.below(menu.lines_max + 1)),
            52..=54 => "pause".into(),
            55 => "linger".into(),
            56 => "bye".into(),
            57 => "x".repeat(LINE_MAX - 2 + rng.below(5)),
            _ => "much 1".into(),
        };
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }
    lines
}

/// A few letters, and sometimes many.
fn word(rng: &mut Rng) -> String {
    let len = if rng.below(8) == 0 { rng.below(200) } else { rng.below(12) };
    (0..len).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], reply: &[u8]) {
        let text = String::from_utf8_lossy(input);
        assert_eq!(expected(input), reply, "{text}");
    }

    #[test]
    fn replies_are_what_the_table_says() {
        check(b"", b"end 0\n");
        check(b"echo a b\nwhat\n\njob abc", b"= a b\n? 4\n? 0\nend 7\n");
        check(b"job abc\nmuch 1\nbye\necho x\n", b"cba\n0000000 roundly\nbye\n");
        check(b"count\nid\ntell 5 hi\nwait 3\n", b"waited\nend 0\n");
        check(&[b'x'; LINE_MAX], b"long\n");
        check(&[&[b'x'; LINE_MAX - 1][..], b"\n"].concat(), b"? 255\nend 0\n");
        assert_eq!(plain(b"= a\n#id 5\n~hi\n= b\n~"), b"= a\n= b\n");
    }

    #[test]
    fn a_seed_chooses_the_requests() {
        let menu = Menu { files: true, endings: true, ..Menu::default() };
        assert_eq!(requests(1, 100, menu), requests(1, 100, menu));
        let many = String::from_utf8(requests(2, 4000, menu)).expect("requests are ASCII");
        let words = ["echo", "much", "flow", "shared", "file", "wait", "nudge", "job", "count"];
        for word in
            words.iter().chain(&["ticks", "id", "tell", "bye", "shy", "toil", "pause", "linger"])
        {
            assert!(many.lines().any(|line| line.starts_with(word)), "{word} is never chosen");
        }
        assert!(many.lines().any(|line| line.len() >= LINE_MAX), "no line is too long");
    }
}
