//! The requests of the stock protocol, as one table for each market.
//!
//! Only [`SHARES`] and [`ORDERS`] name commands: parsing, `help`, the error for a wrong number of
//! arguments and the shape of the reply follow from their rows, so a new command is a new row and a
//! new [`Request`].
//!
//! A request is one line of words separated by blanks. Parsing checks everything that the words
//! alone can decide; the market decides whether a stock exists.

use crate::book::{INT_MAX, LEFT_MAX};
use crate::trade::Side;
use std::fmt;
use wire::decimal::{self, Bad};
use wire::framing::Shape;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The whole book.
    Show,
    /// Buy `count` of stock `id`.
    Buy {
        /// 1 to [`INT_MAX`].
        id: u32,
        /// 1 to [`INT_MAX`].
        count: u32,
    },
    /// Sell `count` of stock `id`.
    Sell {
        /// 1 to [`INT_MAX`].
        id: u32,
        /// 1 to [`INT_MAX`].
        count: u32,
    },
    /// Buy or sell `count` of stock `id` from or to another client, at `price` or better.
    Limit {
        /// Whether it buys.
        side: Side,
        /// 1 to [`INT_MAX`].
        id: u32,
        /// 1 to [`INT_MAX`].
        count: u32,
        /// 1 to [`INT_MAX`].
        price: u32,
    },
    /// Take back what is open of an order of stock `id`.
    Cancel {
        /// 1 to [`INT_MAX`].
        id: u32,
        /// From 1.
        number: u64,
    },
    /// The state of an order of stock `id`.
    Order {
        /// 1 to [`INT_MAX`].
        id: u32,
        /// From 1.
        number: u64,
    },
    /// The best prices of stock `id`.
    Depth {
        /// 1 to [`INT_MAX`].
        id: u32,
    },
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
    /// The parameters, all whole numbers from 1 to [`INT_MAX`], `NUMBER` to [`LEFT_MAX`].
    pub params: &'static [&'static str],
    /// One line for `help`.
    pub about: &'static str,
    /// The shape of every reply to the command, errors included.
    pub shape: Shape,
    /// Makes the request from the values of `params`; the remaining values are 0.
    make: fn([u64; PARAMS_MAX]) -> Request,
}

/// The commands of a market, in the order in which `help` lists them.
pub type Commands = &'static [Command];

/// The most parameters of a command.
pub const PARAMS_MAX: usize = 3;

const HELP: Command = Command {
    name: "help",
    params: &[],
    about: "list the commands",
    shape: Shape::Block,
    make: |_| Request::Help,
};
const EXIT: Command = Command {
    name: "exit",
    params: &[],
    about: "end the connection",
    shape: Shape::Line,
    make: |_| Request::Exit,
};

/// The commands of the market of shares, in which the server buys and sells.
pub const SHARES: Commands = &[
    Command {
        name: "show",
        params: &[],
        about: "list every stock as ID LEFT PRICE",
        shape: Shape::Block,
        make: |_| Request::Show,
    },
    Command {
        name: "buy",
        params: &["ID", "N"],
        about: "buy N of stock ID, if that many are left",
        shape: Shape::Line,
        make: |[id, count, _]| Request::Buy { id: id as u32, count: count as u32 },
    },
    Command {
        name: "sell",
        params: &["ID", "N"],
        about: "sell N of stock ID",
        shape: Shape::Line,
        make: |[id, count, _]| Request::Sell { id: id as u32, count: count as u32 },
    },
    HELP,
    EXIT,
];

/// The commands of the market of orders, in which clients buy from each other.
pub const ORDERS: Commands = &[
    Command {
        name: "show",
        params: &[],
        about: "list every stock as ID BID ASK PRICE BUYING SELLING TRADED VALUE",
        shape: Shape::Block,
        make: |_| Request::Show,
    },
    Command {
        name: "depth",
        params: &["ID"],
        about: "list the best prices of stock ID as SIDE PRICE N",
        shape: Shape::Block,
        make: |[id, ..]| Request::Depth { id: id as u32 },
    },
    Command {
        name: "buy",
        params: &["ID", "N", "PRICE"],
        about: "buy N of stock ID, each for PRICE or less",
        shape: Shape::Line,
        make: |numbers| limit(Side::Buy, numbers),
    },
    Command {
        name: "sell",
        params: &["ID", "N", "PRICE"],
        about: "sell N of stock ID, each for PRICE or more",
        shape: Shape::Line,
        make: |numbers| limit(Side::Sell, numbers),
    },
    Command {
        name: "cancel",
        params: &["ID", "NUMBER"],
        about: "take back what is open of an order",
        shape: Shape::Line,
        make: |[id, number, _]| Request::Cancel { id: id as u32, number },
    },
    Command {
        name: "order",
        params: &["ID", "NUMBER"],
        about: "tell the state of an order",
        shape: Shape::Line,
        make: |[id, number, _]| Request::Order { id: id as u32, number },
    },
    HELP,
    EXIT,
];

fn limit(side: Side, [id, count, price]: [u64; PARAMS_MAX]) -> Request {
    Request::Limit { side, id: id as u32, count: count as u32, price: price as u32 }
}

/// Why a line is not a request.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BadRequest<'a> {
    /// Nothing but blanks.
    Empty,
    /// The first word is not a command.
    UnknownCommand { table: Commands, found: &'a [u8] },
    /// Too few or too many words.
    WrongArity { command: &'static str, params: &'static [&'static str], found: usize },
    /// A word is not a number, zero, negative, or too great.
    NotInRange { param: &'static str, found: &'a [u8] },
}

/// The shape of the reply to `line`; clients need it to find the end of the reply.
pub fn shape(table: Commands, line: &[u8]) -> Shape {
    let command = words(line).next().and_then(|word| named(table, word));
    command.map_or(Shape::Line, |command| command.shape)
}

/// Parses a line without its terminator.
///
/// # Errors
/// [`BadRequest`] for the first fault.
pub fn parse(table: Commands, line: &[u8]) -> Result<Request, BadRequest<'_>> {
    let mut words = words(line);
    let found = words.next().ok_or(BadRequest::Empty)?;
    let command = named(table, found).ok_or(BadRequest::UnknownCommand { table, found })?;
    let found = words.clone().count();
    if found != command.params.len() {
        return Err(BadRequest::WrongArity {
            command: command.name,
            params: command.params,
            found,
        });
    }
    let mut numbers = [0; PARAMS_MAX];
    for ((number, param), word) in numbers.iter_mut().zip(command.params).zip(words) {
        *number = match decimal::parse(word) {
            Ok(value) if (1..=most(param)).contains(&value) => value,
            Ok(_) | Err(Bad::NotDigits | Bad::Overflow) => {
                return Err(BadRequest::NotInRange { param, found: word });
            }
        };
    }
    Ok((command.make)(numbers))
}

/// Appends the reply to `help`: one line per command.
pub fn help(table: Commands, out: &mut Vec<u8>) {
    let usages: Vec<String> = table.iter().map(|command| command.usage().to_string()).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0);
    for (command, usage) in table.iter().zip(&usages) {
        out.extend_from_slice(format!("{usage:<width$}  {}\n", command.about).as_bytes());
    }
}

fn named(table: Commands, word: &[u8]) -> Option<&'static Command> {
    table.iter().find(|command| command.name.as_bytes() == word)
}

/// The greatest value of a parameter.
fn most(param: &str) -> u64 {
    if param == "NUMBER" { LEFT_MAX } else { INT_MAX.into() }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty())
}

impl Command {
    /// The command as a user types it, such as `buy ID N`.
    pub fn usage(&self) -> impl fmt::Display {
        Usage(self.name, self.params)
    }
}

struct Usage(&'static str, &'static [&'static str]);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.1.iter().fold(self.0.to_owned(), |usage, param| usage + " " + param);
        f.pad(&usage)
    }
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

impl fmt::Display for BadRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRequest::Empty => f.write_str("expected a command, found an empty line; try `help`"),
            BadRequest::UnknownCommand { table, found } => {
                f.write_str("expected a command (")?;
                for (index, command) in table.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, command.name)?;
                }
                write!(f, "), found {}; try `help`", Quoted(found))
            }
            BadRequest::WrongArity { command, params, found } => {
                let usage = Usage(command, params);
                let plural = if *found == 1 { "" } else { "s" };
                write!(f, "expected `{usage}`, found {found} argument{plural}")
            }
            BadRequest::NotInRange { param, found } => write!(
                f,
                "expected {param}, a whole number from 1 to {}, found {}",
                most(param),
                Quoted(found)
            ),
        }
    }
}

impl std::error::Error for BadRequest<'_> {}

#[cfg(test)]
mod tests {
    use super::{ORDERS, Request, SHARES, Side, help, parse, shape};
    use wire::framing::Shape;

    fn check(line: &str, expected: Request) {
        assert_eq!(parse(SHARES, line.as_bytes()).expect(line), expected, "{line:?}");
    }

    fn check_refused(line: impl AsRef<[u8]>, expected: &str) {
        let message = parse(SHARES, line.as_ref()).expect_err("refused").to_string();
        assert_eq!(message, expected);
    }

    #[test]
    fn requests() {
        check("show", Request::Show);
        check("exit", Request::Exit);
        check("help", Request::Help);
        check("buy 5 3", Request::Buy { id: 5, count: 3 });
        check("sell 2147483647 2147483647", Request::Sell { id: 2147483647, count: 2147483647 });
        check(" \tbuy   5\t\t3  ", Request::Buy { id: 5, count: 3 });
        check("show \r", Request::Show);
        check("buy 007 0000000000000000000000003", Request::Buy { id: 7, count: 3 });
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
    fn the_first_word_decides_the_shape_even_of_an_error() {
        for (line, expected) in [
            ("show", Shape::Block),
            ("  show 7", Shape::Block),
            ("help", Shape::Block),
            ("buy 1 1", Shape::Line),
            ("Show", Shape::Line),
            ("", Shape::Line),
        ] {
            assert_eq!(shape(SHARES, line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn help_has_one_line_for_each_command() {
        for (table, line) in [
            (SHARES, "buy ID N   buy N of stock ID"),
            (ORDERS, "show              list"),
            (ORDERS, "sell ID N PRICE   sell N of"),
        ] {
            let mut out = Vec::new();
            help(table, &mut out);
            let out = String::from_utf8(out).expect("help is text");
            assert_eq!(out.lines().count(), table.len());
            assert!(out.contains(line), "{out}");
        }
    }

    #[test]
    fn the_market_of_orders_has_prices_and_numbers() {
        let check = |line: &str, expected| {
            assert_eq!(parse(ORDERS, line.as_bytes()).expect(line), expected);
        };
        let (id, count, price) = (1, 2, 3);
        check("buy 1 2 3", Request::Limit { side: Side::Buy, id, count, price });
        check("sell 1 2 3", Request::Limit { side: Side::Sell, id, count, price });
        check("cancel 1 9223372036854775807", Request::Cancel { id, number: i64::MAX as u64 });
        check("order 1 7", Request::Order { id, number: 7 });
        check("depth 1", Request::Depth { id });
        let refused = parse(ORDERS, b"buy 1 2").expect_err("no price").to_string();
        assert_eq!(refused, "expected `buy ID N PRICE`, found 2 arguments");
    }
}
