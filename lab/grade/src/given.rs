//! Trials that a teacher writes: talks of clients with a server of any line protocol.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;

use crate::client::{Client, lost};
use crate::market::quoted;
use crate::stand::Stand;
use crate::trials::{Act, FEW, Outcome, Trial};

/// One trial of a file; docs/grade.md describes the keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenTrial {
    name: String,
    points: u32,
    #[serde(default)]
    about: String,
    /// Clients that connect before the first one talks.
    #[serde(default = "one")]
    clients: usize,
    /// How often each client makes the steps.
    #[serde(default = "one")]
    repeat: usize,
    /// The limit of the whole trial.
    #[serde(default = "half_a_minute")]
    seconds: u64,
    steps: Vec<Step>,
}

/// A step of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Step {
    Send(String),
    /// Sends the text byte by byte, so that the server reads parts of it.
    Pieces(String),
    /// Waits for exactly this text.
    Expect(String),
    /// Waits for a line like this one, in which `*` stands for any text.
    Line(String),
    /// Sends nothing for this number of milliseconds.
    Pause(u64),
    /// Waits until the server closes the connection (true), or closes it with the replies unread.
    End(bool),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trials {
    trial: Vec<GivenTrial>,
}

fn one() -> usize {
    1
}

fn half_a_minute() -> u64 {
    30
}

/// Reads a file of trials, all of them or `only` these.
///
/// # Errors
/// The text is no such file, or a name, a number or an expression in it is wrong.
pub fn read(text: &str, only: &[String]) -> Result<Vec<GivenTrial>, String> {
    let trials = toml::from_str::<Trials>(text).map_err(|error| error.to_string())?.trial;
    for trial in &trials {
        let told = |why: String| format!("trial `{}`: {why}", trial.name);
        if trials.iter().filter(|other| other.name == trial.name).count() > 1 {
            return Err(told("expected each name once".to_owned()));
        }
        if !(1..=1000).contains(&trial.clients) || !(1..=100_000).contains(&trial.repeat) {
            return Err(told("expected 1 to 1000 clients, 1 to 100000 repeats".to_owned()));
        }
    }
    if let Some(name) = only.iter().find(|name| trials.iter().all(|trial| trial.name != **name)) {
        let names: Vec<&str> = trials.iter().map(|trial| trial.name.as_str()).collect();
        return Err(format!("expected a trial ({}), found `{name}`", names.join(", ")));
    }
    Ok(trials.into_iter().filter(|it| only.is_empty() || only.contains(&it.name)).collect())
}

impl GivenTrial {
    /// Its row.
    pub(crate) fn trial(&self) -> Trial<'_> {
        let GivenTrial { name, about, points, seconds, .. } = self;
        let (points, seconds, book) = (*points, *seconds, FEW);
        Trial { name, points, about, book, seconds, act: Act::Talk(self) }
    }

    /// Makes the trial with all its clients at once.
    pub(crate) fn run(&self, stand: &mut Stand<'_>) -> Outcome {
        let open = (0..self.clients).map(|_| stand.connect());
        let open = open.collect::<Result<Vec<_>, String>>()?;
        let ends: Vec<Outcome> = thread::scope(|scope| {
            let talks: Vec<_> =
                open.into_iter().map(|client| scope.spawn(|| self.talk(client))).collect();
            talks.into_iter().map(|talk| talk.join().expect("a client does not panic")).collect()
        });
        stand.each(self.clients, ends)
    }

    fn talk(&self, mut client: Client) -> Outcome {
        for round in 1..=self.repeat {
            for (at, step) in self.steps.iter().enumerate() {
                let told = |why| match self.repeat {
                    1 => format!("step {}: {why}", at + 1),
                    _ => format!("step {} of round {round}: {why}", at + 1),
                };
                if !step.make(&mut client).map_err(told)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Step {
    /// Makes the step. Whether the connection is still open.
    fn make(&self, client: &mut Client) -> Result<bool, String> {
        match self {
            Step::Send(text) => client.send(text.as_bytes())?,
            Step::Pieces(text) => client.dribble(&text.as_bytes().chunks(1).collect::<Vec<_>>())?,
            Step::Expect(text) => {
                let begins = |got: &[u8]| got.iter().zip(text.as_bytes()).all(|(a, b)| a == b);
                let whole = |got: &[u8]| got.len() >= text.len() || !begins(got);
                receive(client, whole).map_err(|why| format!("{}: {why}", wanted(text)))?;
                let ahead = &mut client.link.ahead;
                if !begins(ahead) {
                    return Err(format!("{}, found {}", wanted(text), quoted(ahead)));
                }
                ahead.drain(..text.len());
            }
            Step::Line(pattern) => {
                let name = format!("expected a line like `{pattern}`");
                receive(client, |got| got.contains(&b'\n'))
                    .map_err(|why| format!("{name}: {why}"))?;
                let ahead = &mut client.link.ahead;
                let end = ahead.iter().position(|&byte| byte == b'\n').unwrap_or(ahead.len() - 1);
                let line: Vec<u8> = ahead.drain(..=end).collect();
                if !is_like(String::from_utf8_lossy(&line).trim(), pattern) {
                    return Err(format!("{name}, found {}", quoted(&line)));
                }
            }
            Step::Pause(time) => thread::sleep(Duration::from_millis(*time)),
            Step::End(false) => return Ok(false),
            Step::End(true) => {
                let told = || "expected the server to close the connection".to_owned();
                return client.sees_end().then_some(false).ok_or_else(told);
            }
        }
        Ok(true)
    }
}

/// Whether a line is like `pattern`, in which `*` stands for any text.
fn is_like(line: &str, pattern: &str) -> bool {
    let pattern = format!("(?s)^{}$", regex::escape(pattern).replace(r"\*", ".*"));
    Regex::new(&pattern).is_ok_and(|it| it.is_match(line))
}

fn wanted(text: &str) -> String {
    format!("expected {}", quoted(text.as_bytes()))
}

/// Receives until `is_whole`.
fn receive(client: &mut Client, is_whole: impl Fn(&[u8]) -> bool) -> Result<(), String> {
    let got = client.until(|ahead, _| is_whole(ahead).then_some(()));
    let after = || match client.link.ahead.as_slice() {
        [] => String::new(),
        some => format!(" after {}", quoted(some)),
    };
    let told = |why: &io::Error| lost(why, client.access.patience);
    got.map_err(|why| match why.kind() {
        ErrorKind::UnexpectedEof => format!("the server closed the connection{}", after()),
        ErrorKind::TimedOut => told(&why) + &after(),
        ErrorKind::InvalidData => told(&why),
        _ => format!("the server closed the connection: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_or_its_fault_is_named() {
        let text = "[[trial]]\nname = \"echo\"\npoints = 5\nsteps = [{ send = \"a\\n\" }, \
                    { line = \"a*\" }, { end = false }]\n";
        let trials = read(text, &[]).expect("a trial");
        assert_eq!((trials[0].clients, trials[0].repeat, trials[0].steps.len()), (1, 1, 3));
        for (change, why) in [
            (text.replace("points", "pionts"), "pionts"),
            (text.replace("send", "sned"), "sned"),
            (text.repeat(2), "each name once"),
            (text.replace("points = 5", "points = 5\nclients = 0"), "1 to 1000 clients"),
        ] {
            assert!(read(&change, &[]).is_err_and(|error| error.contains(why)), "{change}");
        }
        for (line, pattern, is_right) in [
            ("abc", "abc", true),
            ("abcd", "abc", false),
            ("[buy] success", "[buy]*", true),
            ("1 20 300", "1 * 300", true),
            ("1 300", "1 * 300", false),
            ("a-b-c", "*b*", true),
            ("a-c", "a*b*c", false),
        ] {
            assert_eq!(is_like(line, pattern), is_right, "{line} {pattern}");
        }
        let other = ["other".to_owned()];
        assert!(read(text, &other).is_err_and(|why| why.contains("(echo), found `other`")));
    }
}
