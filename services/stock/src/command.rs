//! The requests of the stock protocol, as one table for each market.
//!
//! Only [`SHARES`] and [`ORDERS`] name commands: parsing, `help`, the error for a wrong number of
//! arguments and the shape of the reply follow from their rows, so a new command is a new row and a
//! new [`ShareRequest`] or [`OrderRequest`].
//!
//! A request is one line of words separated by blanks. Parsing checks everything that the words
//! alone can decide; the market decides whether a stock exists.

use crate::book::{INT_MAX, LEFT_MAX};
use crate::trade::{Side, Trade};
use std::fmt;
use wire::decimal::{self, Bad};
use wire::framing::Shape;

/// A request to the market of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareRequest {
    /// The whole book.
    Show,
    /// Buy from the server, or sell to it.
    Trade(Trade),
    /// End the connection.
    Exit,
    /// The list of commands.
    Help,
}

/// A request to the market of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderRequest {
    /// The whole book.
    Show,
    /// A request to the order book of stock `id`.
    OfStock {
        /// 1 to [`INT_MAX`].
        id: u32,
        /// The action there.
        request: BookRequest,
    },
    /// End the connection.
    Exit,
    /// The list of commands.
    Help,
}

/// A request to one order book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookRequest {
    /// Buy or sell `count` from or to another client, at `price` or better.
    Limit {
        /// Whether it buys.
        side: Side,
        /// 1 to [`INT_MAX`].
        count: u32,
        /// 1 to [`INT_MAX`].
        price: u32,
    },
    /// Take back what is open of an order.
    Cancel {
        /// From 1.
        number: u64,
    },
    /// The state of an order.
    State {
        /// From 1.
        number: u64,
    },
    /// The best prices.
    Depth,
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
}

/// The commands of a market, in the order in which `help` lists them.
pub type Commands = &'static [Command];

/// The most parameters of a command.
pub const PARAMS_MAX: usize = 3;

/// The requests of one market.
pub trait Request: Sized + 'static {
    /// Its commands.
    const COMMANDS: Commands;
    /// Makes the request of each command, in the same order, from the values of its parameters; the
    /// remaining values are 0.
    const MAKERS: &'static [fn([u64; PARAMS_MAX]) -> Self];
}

/// Declares the table of a market: NAME [PARAMETERS] SHAPE ABOUT => REQUEST.
macro_rules! commands {
    ($(#[$doc:meta])* $table:ident of $request:ident;
     $($name:literal $params:tt $shape:ident $about:literal => $make:expr;)+) => {
        $(#[$doc])*
        pub const $table: Commands = &[$(Command {
            name: $name,
            params: &$params,
            about: $about,
            shape: Shape::$shape,
        }),+];

        impl Request for $request {
            const COMMANDS: Commands = $table;
            const MAKERS: &'static [fn([u64; PARAMS_MAX]) -> $request] = &[$($make),+];
        }
    };
}

commands! {
    /// The commands of the market of shares, in which the server buys and sells.
    SHARES of ShareRequest;
    "show" [] Block "list every stock as ID LEFT PRICE" => |_| ShareRequest::Show;
    "buy" ["ID", "N"] Line "buy N of stock ID, if that many are left" => |n| trade(Side::Buy, n);
    "sell" ["ID", "N"] Line "sell N of stock ID" => |n| trade(Side::Sell, n);
    "help" [] Block "list the commands" => |_| ShareRequest::Help;
    "exit" [] Line "end the connection" => |_| ShareRequest::Exit;
}

commands! {
    /// The commands of the market of orders, in which clients buy from each other.
    ORDERS of OrderRequest;
    "show" [] Block "list every stock as ID BID ASK PRICE BUYING SELLING TRADED VALUE"
        => |_| OrderRequest::Show;
    "depth" ["ID"] Block "list the best prices of stock ID as SIDE PRICE N"
        => |[id, ..]| of_stock(id, BookRequest::Depth);
    "buy" ["ID", "N", "PRICE"] Line "buy N of stock ID, each for PRICE or less"
        => |n| limit(Side::Buy, n);
    "sell" ["ID", "N", "PRICE"] Line "sell N of stock ID, each for PRICE or more"
        => |n| limit(Side::Sell, n);
    "cancel" ["ID", "NUMBER"] Line "take back what is open of an order"
        => |[id, number, _]| of_stock(id, BookRequest::Cancel { number });
    "order" ["ID", "NUMBER"] Line "tell the state of an order"
        => |[id, number, _]| of_stock(id, BookRequest::State { number });
    "help" [] Block "list the commands" => |_| OrderRequest::Help;
    "exit" [] Line "end the connection" => |_| OrderRequest::Exit;
}

fn trade(side: Side, [id, count, _]: [u64; PARAMS_MAX]) -> ShareRequest {
    ShareRequest::Trade(Trade { side, id: id as u32, count: count as u32 })
}

fn limit(side: Side, [id, count, price]: [u64; PARAMS_MAX]) -> OrderRequest {
    of_stock(id, BookRequest::Limit { side, count: count as u32, price: price as u32 })
}

fn of_stock(id: u64, request: BookRequest) -> OrderRequest {
    OrderRequest::OfStock { id: id as u32, request }
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
    UnknownCommand { table: Commands, found: &'a [u8] },
    /// Too few or too many words.
    WrongArity { command: &'static str, params: &'static [&'static str], found: usize },
    /// A word is not a number, zero, negative, or too great.
    NotInRange { param: &'static str, found: &'a [u8] },
}

/// A line, read once.
#[derive(Debug, Clone, Copy)]
pub struct Parsed<'a, R> {
    /// The shape of the reply, also if the line is no request.
    pub shape: Shape,
    /// The client's own number for the order; 0: none.
    pub number: u64,
    /// The request, or the first fault.
    pub request: Result<R, BadRequest<'a>>,
}

/// The shape of the reply to `line`; clients need it to find the end of the reply.
pub fn shape(table: Commands, line: &[u8]) -> Shape {
    let at = words(line).next().and_then(|word| named(table, word));
    at.map_or(Shape::Line, |at| table[at].shape)
}

/// Parses a line without its terminator. With `has_numbers` an order may end with `#NUMBER`.
pub fn parse<R: Request>(line: &[u8], has_numbers: bool) -> Parsed<'_, R> {
    let table = R::COMMANDS;
    let bad = |bad| Parsed { shape: Shape::Line, number: 0, request: Err(bad) };
    let mut words = words(line);
    let Some(found) = words.next() else { return bad(BadRequest::Empty) };
    let Some(at) = named(table, found) else {
        return bad(match is_http(line) {
            true => BadRequest::Http,
            false => BadRequest::UnknownCommand { table, found },
        });
    };
    let command = &table[at];
    let last = words.clone().last().filter(|_| has_numbers && command.is_order());
    let number = last.and_then(own_number);
    let count = words.clone().count() - usize::from(number.is_some());
    let request = command.values(words, count).map(R::MAKERS[at]);
    Parsed { shape: command.shape, number: number.unwrap_or(0), request }
}

/// Appends the reply to `help`: one line per command.
pub fn help(table: Commands, out: &mut Vec<u8>) {
    let usages: Vec<String> = table.iter().map(|command| command.usage().to_string()).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0);
    for (command, usage) in table.iter().zip(&usages) {
        out.extend_from_slice(format!("{usage:<width$}  {}\n", command.about).as_bytes());
    }
}

fn named(table: Commands, word: &[u8]) -> Option<usize> {
    table.iter().position(|command| command.name.as_bytes() == word)
}

/// Whether a line is the first of an HTTP request, or its host.
fn is_http(line: &[u8]) -> bool {
    let is_host = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:"));
    let version = words(line).last().and_then(|word| word.strip_prefix(b"HTTP/"));
    is_host || version.is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

/// The number in `#NUMBER`, from 1.
fn own_number(word: &[u8]) -> Option<u64> {
    decimal::parse(word.strip_prefix(b"#")?).ok().filter(|number| *number > 0)
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
                Ok(value) if (1..=most(param)).contains(&value) => value,
                Ok(_) | Err(Bad::NotDigits | Bad::Overflow) => {
                    return Err(BadRequest::NotInRange { param, found: word });
                }
            };
        }
        Ok(values)
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
    use super::*;

    fn check(line: &str, expected: ShareRequest) {
        let parsed = parse::<ShareRequest>(line.as_bytes(), false);
        assert_eq!(parsed.request.expect(line), expected, "{line:?}");
    }

    fn buy(id: u32, count: u32) -> ShareRequest {
        ShareRequest::Trade(Trade { side: Side::Buy, id, count })
    }

    fn check_refused(line: impl AsRef<[u8]>, expected: &str) {
        let parsed = parse::<ShareRequest>(line.as_ref(), true);
        let message = parsed.request.expect_err("refused").to_string();
        assert_eq!(message, expected);
    }

    #[test]
    fn requests() {
        check("show", ShareRequest::Show);
        check("exit", ShareRequest::Exit);
        check("help", ShareRequest::Help);
        check("buy 5 3", buy(5, 3));
        let (side, id, count) = (Side::Sell, 2147483647, 2147483647);
        check("sell 2147483647 2147483647", ShareRequest::Trade(Trade { side, id, count }));
        check(" \tbuy   5\t\t3  ", buy(5, 3));
        check("show \r", ShareRequest::Show);
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
        let parsed = parse::<ShareRequest>(b" buy 5  3 #8123\r", true);
        assert_eq!((parsed.number, parsed.request.ok()), (8123, Some(buy(5, 3))));
        let refused = parse::<ShareRequest>(b"buy 5 3 #8123", false).request.expect_err("no log");
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
        let check = |line: &str, request| {
            let parsed = parse::<OrderRequest>(line.as_bytes(), false);
            let expected = OrderRequest::OfStock { id: 1, request };
            assert_eq!(parsed.request.expect(line), expected);
        };
        let (count, price) = (2, 3);
        check("buy 1 2 3", BookRequest::Limit { side: Side::Buy, count, price });
        check("sell 1 2 3", BookRequest::Limit { side: Side::Sell, count, price });
        check("cancel 1 9223372036854775807", BookRequest::Cancel { number: i64::MAX as u64 });
        check("order 1 7", BookRequest::State { number: 7 });
        check("depth 1", BookRequest::Depth);
        let refused = parse::<OrderRequest>(b"buy 1 2", false).request.expect_err("no price");
        let refused = refused.to_string();
        assert_eq!(refused, "expected `buy ID N PRICE`, found 2 arguments");
    }
}
