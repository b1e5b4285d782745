//! The requests of the stock protocol, as one table.
//!
//! Only [`COMMANDS`] names commands: parsing, `help`, the error for a wrong number of arguments and
//! the shape of the reply follow from its rows, so a new command is a new row and a new
//! [`Request`].
//!
//! A request is one line of words separated by blanks. Parsing checks everything that the words
//! alone can decide; the market decides whether a stock exists.

use crate::book::INT_MAX;
use crate::trade::{Side, Trade};
use std::fmt;
use wire::decimal::{self, Bad};
use wire::framing::Shape;

/// A request to the market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The whole book.
    Show,
    /// Buy from the server, or sell to it.
    Trade(Trade),
    /// End the connection.
    Exit,
    /// The list of commands.
    Help,
}

/// One row of the table.
#[derive(Debug)]
pub struct Command {
    /// The first word of the line.
    pub name: &'static str,
    /// The parameters, all whole numbers from 1 to [`INT_MAX`].
    pub params: &'static [&'static str],
    /// One line for `help`.
    pub about: &'static str,
    /// The shape of every reply to the command, errors included.
    pub shape: Shape,
}

const PARAMS_MAX: usize = 2;

/// Makes the request of a command from its values; those that it lacks are 0.
type Maker = fn([u64; PARAMS_MAX]) -> Request;

/// Declares the table: NAME [PARAMETERS] SHAPE ABOUT => REQUEST.
macro_rules! commands {
    ($($name:literal $params:tt $shape:ident $about:literal => $make:expr;)+) => {
        /// The commands, in the order in which `help` lists them.
        pub const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            params: &$params,
            about: $about,
            shape: Shape::$shape,
        }),+];

        const MAKERS: &[Maker] = &[$($make),+];
    };
}

commands! {
    "show" [] Block "list every stock as ID LEFT PRICE" => |_| Request::Show;
    "buy" ["ID", "N"] Line "buy N of stock ID, if that many are left" => |n| trade(Side::Buy, n);
    "sell" ["ID", "N"] Line "sell N of stock ID" => |n| trade(Side::Sell, n);
    "help" [] Block "list the commands" => |_| Request::Help;
    "exit" [] Line "end the connection" => |_| Request::Exit;
}

fn trade(side: Side, [id, count]: [u64; PARAMS_MAX]) -> Request {
    Request::Trade(Trade { side, id: id as u32, count: count as u32 })
}

/// Why a line is not a request.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BadRequest<'a> {
    /// Nothing but blanks.
    Empty,
    /// A line of HTTP: a page in a browser of this machine may post its orders after it.
    Http,
    /// The first word is not a command.
    UnknownCommand { found: &'a [u8] },
    /// Too few or too many words.
    WrongArity { command: &'static str, params: &'static [&'static str], found: usize },
    /// A word is not a number, zero, negative, or too great.
    NotInRange { param: &'static str, found: &'a [u8] },
}

/// A line, read once.
#[derive(Debug, Clone, Copy)]
pub struct Parsed<'a> {
    /// The shape of the reply, also if the line is no request.
    pub shape: Shape,
    /// The client's own number for the order; 0: none.
    pub number: u64,
    /// The request, or the first fault.
    pub request: Result<Request, BadRequest<'a>>,
}

/// The shape of the reply to `line`; clients need it to find the end of the reply.
pub fn shape(line: &[u8]) -> Shape {
    let at = words(line).next().and_then(named);
    at.map_or(Shape::Line, |at| COMMANDS[at].shape)
}

/// Parses a line without its terminator. With `has_numbers` an order may end with `#NUMBER`.
pub fn parse(line: &[u8], has_numbers: bool) -> Parsed<'_> {
    let bad = |bad| Parsed { shape: Shape::Line, number: 0, request: Err(bad) };
    let mut words = words(line);
    let Some(found) = words.next() else { return bad(BadRequest::Empty) };
    let Some(at) = named(found) else {
        return bad(match wire::line::is_http(line) {
            true => BadRequest::Http,
            false => BadRequest::UnknownCommand { found },
        });
    };
    let command = &COMMANDS[at];
    let last = words.clone().last().filter(|_| has_numbers && command.is_order());
    let number = last.and_then(own_number);
    let count = words.clone().count() - usize::from(number.is_some());
    let request = command.values(words, count).map(MAKERS[at]);
    Parsed { shape: command.shape, number: number.unwrap_or(0), request }
}

/// Appends the reply to `help`: one line per command.
pub fn help(out: &mut Vec<u8>) {
    let usages: Vec<String> = COMMANDS.iter().map(|it| usage(it.name, it.params)).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0);
    for (command, usage) in COMMANDS.iter().zip(&usages) {
        out.extend_from_slice(format!("{usage:<width$}  {}\n", command.about).as_bytes());
    }
}

fn named(word: &[u8]) -> Option<usize> {
    COMMANDS.iter().position(|command| command.name.as_bytes() == word)
}

/// The number in `#NUMBER`, from 1.
fn own_number(word: &[u8]) -> Option<u64> {
    decimal::parse(word.strip_prefix(b"#")?).ok().filter(|number| *number > 0)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty())
}

impl Command {
    /// Whether it moves shares, so that a client may number it.
    fn is_order(&self) -> bool {
        self.params.contains(&"N")
    }

    /// The values of the parameters, from the first `found` of `words`.
    fn values<'a>(
        &self,
        words: impl Iterator<Item = &'a [u8]>,
        found: usize,
    ) -> Result<[u64; PARAMS_MAX], BadRequest<'a>> {
        if found != self.params.len() {
            let (command, params) = (self.name, self.params);
            return Err(BadRequest::WrongArity { command, params, found });
        }
        let mut values = [0; PARAMS_MAX];
        for ((value, param), word) in values.iter_mut().zip(self.params).zip(words) {
            *value = match decimal::parse(word) {
                Ok(value) if (1..=u64::from(INT_MAX)).contains(&value) => value,
                Ok(_) | Err(Bad::NotDigits | Bad::Overflow) => {
                    return Err(BadRequest::NotInRange { param, found: word });
                }
            };
        }
        Ok(values)
    }
}

/// A command as a user types it, such as `buy ID N`.
fn usage(command: &str, params: &[&str]) -> String {
    params.iter().fold(command.to_owned(), |usage, param| usage + " " + param)
}

/// A peer's bytes in our replies: escaped and shortened.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 24;
        let shown = stats::words::visible(self.0, SHOWN_MAX);
        let more = if self.0.len() > SHOWN_MAX { "..." } else { "" };
        write!(f, "`{}{more}`", shown)
    }
}

impl BadRequest<'_> {
    /// Whether the connection must end: what follows was not written by a client of the market.
    pub fn is_last(&self) -> bool {
        matches!(self, BadRequest::Http)
    }
}

impl fmt::Display for BadRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRequest::Empty => f.write_str("expected a command, found an empty line; try `help`"),
            BadRequest::Http => f.write_str(
                "expected a command, found a request of HTTP, as browsers send; closing",
            ),
            BadRequest::UnknownCommand { found } => {
                f.write_str("expected a command (")?;
                for (index, command) in COMMANDS.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, command.name)?;
                }
                write!(f, "), found {}; try `help`", Quoted(found))
            }
            BadRequest::WrongArity { command, params, found } => {
                let usage = usage(command, params);
                let plural = if *found == 1 { "" } else { "s" };
                write!(f, "expected `{usage}`, found {found} argument{plural}")
            }
            BadRequest::NotInRange { param, found } => write!(
                f,
                "expected {param}, a whole number from 1 to {INT_MAX}, found {}",
                Quoted(found)
            ),
        }
    }
}

impl std::error::Error for BadRequest<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Request) {
        let parsed = parse(line.as_bytes(), false);
        assert_eq!(parsed.request.expect(line), expected, "{line:?}");
    }

    fn buy(id: u32, count: u32) -> Request {
        Request::Trade(Trade { side: Side::Buy, id, count })
    }

    fn check_refused(line: impl AsRef<[u8]>, expected: &str) {
        let parsed = parse(line.as_ref(), true);
        let message = parsed.request.expect_err("refused").to_string();
        assert_eq!(message, expected);
    }

    #[test]
    fn requests() {
        check("show", Request::Show);
        check("exit", Request::Exit);
        check("help", Request::Help);
        check("buy 5 3", buy(5, 3));
        let (side, id, count) = (Side::Sell, 2147483647, 2147483647);
        check("sell 2147483647 2147483647", Request::Trade(Trade { side, id, count }));
        check(" \tbuy   5\t\t3  ", buy(5, 3));
        check("show \r", Request::Show);
        check("buy 007 0000000000000000000000003", buy(7, 3));
    }

    #[test]
    fn refusals() {
        let range = |param, found: &str| {
            format!("expected {param}, a whole number from 1 to 2147483647, found `{found}`")
        };
        check_refused("", "expected a command, found an empty line; try `help`");
        check_refused(" \t\r", "expected a command, found an empty line; try `help`");
        let commands = "expected a command (show, buy, sell, help, exit), found";
        check_refused("slel3 1", &format!("{commands} `slel3`; try `help`"));
        check_refused("SHOW", &format!("{commands} `SHOW`; try `help`"));
        check_refused(b"\x00\xff\x1b", &format!("{commands} `\\x00\\xff\\x1b`; try `help`"));
        check_refused("b".repeat(25), &format!("{commands} `{}...`; try `help`", "b".repeat(24)));
        check_refused("show #7", "expected `show`, found 1 argument");
        check_refused("buy 1 #7", "expected `buy ID N`, found 1 argument");
        check_refused("buy 1 2 #0", "expected `buy ID N`, found 3 arguments");
        check_refused("buy 1 2#7", &range("N", "2#7"));
        check_refused("buy 1", "expected `buy ID N`, found 1 argument");
        check_refused("sell 1 2 3", "expected `sell ID N`, found 3 arguments");
        check_refused("show 1", "expected `show`, found 1 argument");
        check_refused("buy 2 @", &range("N", "@"));
        check_refused("buy x 1", &range("ID", "x"));
        check_refused("buy 1 0", &range("N", "0"));
        check_refused("buy 0 1", &range("ID", "0"));
        check_refused("buy 1 -5", &range("N", "-5"));
        check_refused("buy 1 +5", &range("N", "+5"));
        check_refused("buy 1 1.5", &range("N", "1.5"));
        check_refused("sell 1 2147483648", &range("N", "2147483648"));
        check_refused("sell 1 99999999999999999999", &range("N", "99999999999999999999"));
    }

    #[test]
    fn an_order_has_a_number_of_its_client_where_a_log_keeps_it() {
        let parsed = parse(b" buy 5  3 #8123\r", true);
        assert_eq!((parsed.number, parsed.request.ok()), (8123, Some(buy(5, 3))));
        let refused = parse(b"buy 5 3 #8123", false).request.expect_err("no log");
        assert_eq!(refused.to_string(), "expected `buy ID N`, found 3 arguments");
    }

    #[test]
    fn the_first_word_decides_the_shape_even_of_an_error() {
        for (line, expected) in [
            ("show", Shape::Block),
            ("  show 7", Shape::Block),
            ("help", Shape::Block),
            ("buy 1 1", Shape::Line),
            ("Show", Shape::Line),
            ("", Shape::Line),
        ] {
            assert_eq!(shape(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn help_has_one_line_for_each_command() {
        let mut out = Vec::new();
        help(&mut out);
        let out = String::from_utf8(out).expect("help is text");
        assert_eq!(out.lines().count(), COMMANDS.len());
        assert!(out.contains("buy ID N   buy N of stock ID"), "{out}");
    }
}
