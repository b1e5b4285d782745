//! Conversations written as text, to play under many splits.
//!
//! ```text
//! # A comment.
//! > sent with a newline at its end
//! >| sent without
//! < expected with a newline at its end
//! <| expected without
//! = end          the client ends its half; without it it does so at the end of the file
//! = wait 250ms   the client does nothing for a while (also us, s)
//! = closed       the server has closed by itself: the client did not end its half
//! ```
//!
//! `
//!  \r \t \\ \0 \xNN` mean the same as in Rust. Empty lines are ignored.

use core::borrow::Borrow;
use core::time::Duration;

use seam::Service;

use crate::check::{Case, check};
use crate::laws::equal;
use crate::script::{Act, Client, Faults, Script};
use crate::transcript::{End, Transcript};
use crate::world::run;

/// A conversation of one client, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    acts: Vec<Act>,
    expected: Vec<u8>,
    stays: bool,
}

/// A malformed line of a golden file.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("line {}: {}", self.line, self.why)]
pub struct BadGolden {
    /// The line number, from 1.
    pub line: usize,
    /// The error.
    pub why: String,
}

impl std::error::Error for BadGolden {}

impl Golden {
    /// Reads a conversation.
    ///
    /// # Errors
    /// [`BadGolden`] names the malformed line.
    pub fn parse(text: &str) -> Result<Golden, BadGolden> {
        let mut golden = Golden { acts: Vec::new(), expected: Vec::new(), stays: false };
        for (at, line) in text.lines().enumerate() {
            golden.line(line).map_err(|why| BadGolden { line: at + 1, why })?;
        }
        if golden.stays {
            golden.acts.push(Act::Stay);
        }
        Ok(golden)
    }

    /// All bytes that the client sends.
    pub fn sent(&self) -> Vec<u8> {
        self.at_once().said()
    }

    /// All bytes that it must receive.
    pub fn expected(&self) -> &[u8] {
        &self.expected
    }

    /// Plays it once as written, with each reply awaited before the next line is sent; then with
    /// all lines sent at once under `count` seeds of rough weather.
    ///
    /// # Panics
    /// If a reply differs, with the smallest failing case found.
    pub fn play<S, B>(&self, service: &S, fresh: impl Fn() -> B, faults: &Faults, count: u64)
    where
        S: Service,
        B: Borrow<S::State>,
    {
        let client = Client { start: Duration::ZERO, acts: self.acts.clone() };
        let stepwise = Script { clients: vec![client] };
        let state = fresh();
        let heard = run(service, state.borrow(), &stepwise, faults, 0);
        if let Err(why) = heard.lawful().and_then(|()| self.judge(&heard)) {
            panic!("as written, each reply awaited: {why}");
        }
        let at_once = |seed| Case {
            script: Script { clients: vec![self.at_once()] },
            faults: Faults::rough(seed).with_assets(faults.assets.clone()),
            seed,
        };
        let whole = at_once(0).script;
        check(service, &fresh, count, at_once, |case, heard| {
            if case.script == whole { self.judge(heard) } else { Ok(()) }
        });
    }

    fn judge(&self, run: &Transcript) -> Result<(), String> {
        let heard = run.only();
        equal(&self.expected, &heard.bytes).map_err(|why| run.explain(why))?;
        if heard.end == End::Closed { Ok(()) } else { Err("the connection stays open".into()) }
    }

    /// The client that sends all lines without waiting.
    fn at_once(&self) -> Client {
        let waits = |act: &Act| matches!(act, Act::Expect(_));
        let acts = self.acts.iter().filter(|act| !waits(act)).cloned().collect();
        Client { start: Duration::ZERO, acts }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "" | "#" => {}
            ">" => self.acts.push(Act::Send(unescape(rest, "\n")?)),
            ">|" => self.acts.push(Act::Send(unescape(rest, "")?)),
            "<" => self.expect(&unescape(rest, "\n")?),
            "<|" => self.expect(&unescape(rest, "")?),
            "=" => match rest.split_whitespace().collect::<Vec<_>>()[..] {
                ["end"] => self.acts.push(Act::End),
                ["closed"] => self.stays = true,
                ["wait", span] => self.acts.push(Act::Wait(span_of(span)?)),
                _ => return Err(format!("expected end, closed or wait SPAN, found `{rest}`")),
            },
            _ => return Err(format!("expected > >| < <| = or #, found `{mark}`")),
        }
        Ok(())
    }

    fn expect(&mut self, bytes: &[u8]) {
        self.expected.extend_from_slice(bytes);
        if let Some(Act::Expect(_)) = self.acts.last() {
            self.acts.pop();
        }
        self.acts.push(Act::Expect(self.expected.len()));
    }
}

fn span_of(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number: u64 = digits.parse().map_err(|_| format!("expected 250ms, found `{text}`"))?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        unit => Err(format!("expected us, ms or s, found `{unit}`")),
    }
}

fn unescape(text: &str, end: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(b'\\') => b'\\',
                Some(b'x') => {
                    let digits: Vec<u8> = rest.by_ref().take(2).collect();
                    let digits = String::from_utf8_lossy(&digits);
                    u8::from_str_radix(&digits, 16)
                        .map_err(|_| format!("expected two hexadecimal digits, found `{digits}`"))?
                }
                _ => return Err("expected one of n r t 0 \\ xNN after a backslash".into()),
            },
            plain => plain,
        });
    }
    bytes.extend_from_slice(end.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use crate::laws::probe::{Probe, World};

    use super::*;

    const TALK: &str = "\
# Two requests and a rest.
> echo hi
< = hi
>| job a\\x62c
= wait 5ms
>| \\n
< cba
>| left
= end
< end 4
";

    #[test]
    fn a_conversation_is_read_and_played() {
        let golden = Golden::parse(TALK).expect("it is well formed");
        assert_eq!(golden.sent(), b"echo hi\njob abc\nleft");
        assert_eq!(golden.expected(), b"= hi\ncba\nend 4\n");
        golden.play(&Probe::narrow(), World::default, &Faults::calm(), 20);
        let bye = Golden::parse("> bye\n< bye\n= closed").expect("it is well formed");
        bye.play(&Probe::narrow(), World::default, &Faults::calm(), 20);
    }

    #[test]
    #[should_panic(expected = "after 3 equal bytes expected \"i\\n\" and found \"o\\n")]
    fn a_wrong_reply_is_shown_where_it_differs() {
        let golden = Golden::parse("> echo ho\n< = hi\n").expect("it is well formed");
        golden.play(&Probe::narrow(), World::default, &Faults::calm(), 0);
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        let check = |text, line, why: &str| {
            let bad = Golden::parse(text).expect_err("it is not well formed");
            assert_eq!(bad.line, line, "{bad}");
            assert!(bad.why.contains(why), "{bad}");
        };
        check("> a\nb", 2, "found `b`");
        check("= wait 5", 1, "expected us, ms or s");
        check("= wait long", 1, "expected 250ms");
        check("= stop", 1, "found `stop`");
        check("\n> \\q", 2, "after a backslash");
        check("< \\xg1", 1, "hexadecimal");
    }
}
