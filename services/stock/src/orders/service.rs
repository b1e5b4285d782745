//! Bytes to requests to replies: the market of orders as a service.

use super::{Exchange, OrderBook, Placed, State};
use crate::command::{self, BookRequest, ORDERS, OrderRequest, Parsed};
use crate::trade::Side;
use crate::work::compute;
use crate::{LINE_MAX, Options, TOO_LONG, connected};
use core::convert::Infallible;
use core::fmt;
use memory::Locked;
use seam::{Cx, Event, Limits, Out, Peer, Service, Step};
use std::io::Write as _;
use wire::framing::{Framing, Shape};
use wire::line::{self, Next};

/// The room for errors, `help` and `depth`, in bytes.
const TEXT_MIN: usize = 1023;
/// The prices of each side that `depth` lists.
const LEVELS: usize = 5;

/// The service; its state is an [`Exchange`]. Of its options it has the framing, the work and the
/// limits; each book has a lock of its own.
#[derive(Debug)]
pub struct OrderMarket {
    options: Options,
}

impl OrderMarket {
    /// A service with `options`.
    pub fn new(options: Options) -> OrderMarket {
        OrderMarket { options }
    }

    /// The bytes of text that replies about this many stocks may have. Before the first connection,
    /// check that the framing has room for them.
    pub fn room(stocks: usize) -> usize {
        // Three numbers of an `int`, four of 20 digits, and what separates them.
        const ROW: usize = 128;
        TEXT_MIN.max(stocks * ROW)
    }

    fn serve(&self, cx: &Cx<'_, Exchange>, input: &[u8], out: &mut Out) -> Step<Infallible> {
        let (mut used, mut answered, mut goes_on) = (0, 0, true);
        while goes_on && used < input.len() && !out.is_full() {
            let rest = &input[used..];
            let len = match line::next(rest, LINE_MAX) {
                Next::Line { text, used } => {
                    goes_on = self.answer(cx, text, out);
                    used
                }
                Next::More => break,
                Next::TooLong => {
                    self.refuse(TOO_LONG, Shape::Line, out);
                    goes_on = false;
                    rest.len()
                }
            };
            cx.note(|note| *note = format!("server received {len} bytes"));
            used += len;
            answered += 1;
        }
        cx.answered(answered);
        if goes_on { Step::read(used) } else { Step::close(used) }
    }

    /// Answers one line; whether the connection goes on.
    fn answer(&self, cx: &Cx<'_, Exchange>, text: &[u8], out: &mut Out) -> bool {
        let Parsed { shape, request, .. } = command::parse(text, false);
        let request = match request {
            Ok(request) => request,
            Err(bad) => {
                self.refuse(bad, shape, out);
                return !bad.is_last();
            }
        };
        if !matches!(request, OrderRequest::Exit) && !cx.admit() {
            self.reply(shape, out, |bytes| bytes.extend_from_slice(b"BUSY\n"));
            return true;
        }
        match request {
            OrderRequest::Show => self.reply(shape, out, |bytes| {
                cx.state.books().iter().for_each(|book| show(cx, book, bytes));
            }),
            OrderRequest::Help => self.reply(shape, out, |bytes| command::help(ORDERS, bytes)),
            OrderRequest::OfStock { id, request } => match cx.state.find(id) {
                Some(book) => self.in_book(request, book, &book.lock(cx.worker), shape, out),
                None => {
                    self.refuse(format_args!("expected the ID of a stock, found {id}"), shape, out);
                }
            },
            OrderRequest::Exit => {
                // In framings where every request has a reply, `exit` has one too.
                if self.options.framing != Framing::Line {
                    self.reply(shape, out, |bytes| bytes.extend_from_slice(b"exit\n"));
                }
                return false;
            }
        }
        true
    }

    /// Answers a request to one book, which the worker has taken.
    fn in_book(
        &self,
        request: BookRequest,
        book: &OrderBook,
        _alone: &Locked<'_>,
        shape: Shape,
        out: &mut Out,
    ) {
        let unknown = |number| format!("expected the number of a recent order, found {number}");
        match request {
            BookRequest::Limit { side, count, price } => {
                compute(self.options.work);
                match book.place(side, count, price) {
                    Ok(placed) => self.say(Done(side, placed), shape, out),
                    Err(why) => self.refuse(why, shape, out),
                }
            }
            BookRequest::Cancel { number } => match book.cancel(number) {
                Some(0) => self.say(format_args!("#{number} is not open"), shape, out),
                Some(open) => {
                    self.say(format_args!("[cancel] #{number} took back {open}"), shape, out);
                }
                None => self.refuse(unknown(number), shape, out),
            },
            BookRequest::State { number } => match book.state(number) {
                Some(state) => self.say(format_args!("#{number} {state}"), shape, out),
                None => self.refuse(unknown(number), shape, out),
            },
            BookRequest::Depth => self.reply(shape, out, |bytes| depth(book, bytes)),
        }
    }

    fn say(&self, words: impl fmt::Display, shape: Shape, out: &mut Out) {
        self.reply(shape, out, |bytes| {
            writeln!(bytes, "{words}").expect("a Vec takes every byte");
        });
    }

    #[cold]
    fn refuse(&self, why: impl fmt::Display, shape: Shape, out: &mut Out) {
        self.say(format_args!("error: {why}"), shape, out);
    }

    fn reply(&self, shape: Shape, out: &mut Out, text: impl FnOnce(&mut Vec<u8>)) {
        let start = out.bytes().len();
        text(out.bytes());
        self.options
            .framing
            .finish(start, shape, out.bytes())
            .expect("`room` has left room for every reply");
    }
}

/// Appends the row of a book.
fn show(cx: &Cx<'_, Exchange>, book: &OrderBook, out: &mut Vec<u8>) {
    let it = {
        let _alone = book.lock(cx.worker);
        book.summary()
    };
    let ([bid, ask], [buying, selling]) = (it.best, it.open);
    let (id, price, traded, value) = (book.id(), it.price, it.traded, it.value);
    writeln!(out, "{id} {bid} {ask} {price} {buying} {selling} {traded} {value}")
        .expect("a Vec takes every byte");
}

/// Appends the best prices: sellers from the dearest, then buyers, so that the best meet.
fn depth(book: &OrderBook, out: &mut Vec<u8>) {
    let best = |side| book.depth(side).take(LEVELS).collect::<Vec<_>>();
    let (sellers, buyers) = (best(Side::Sell), best(Side::Buy));
    let sellers = sellers.iter().rev().map(|level| ("sell", level));
    for (side, (price, shares)) in sellers.chain(buyers.iter().map(|level| ("buy", level))) {
        writeln!(out, "{side} {price} {shares}").expect("a Vec takes every byte");
    }
}

struct Done(Side, Placed);

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done(side, Placed { number, filled, value, open }) = self;
        write!(f, "[{side}] #{number} filled {filled} for {value}, open {open}")
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { side, size, filled, price, is_cancelled } = *self;
        let rest = if is_cancelled { "taken back" } else { "open" };
        write!(f, "{side} {size} at {price}: filled {filled}, {rest} {}", size - filled)
    }
}

impl Service for OrderMarket {
    type State = Exchange;
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn refuses(&self) -> bool {
        true
    }

    fn open(&self, cx: &Cx<'_, Exchange>, peer: Peer, _out: &mut Out) {
        cx.note(|note| *note = connected(peer));
    }

    fn step(
        &self,
        cx: &Cx<'_, Exchange>,
        _session: &mut (),
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        match event {
            Event::Bytes(input) => self.serve(cx, input, out),
            // A line without its newline is not executed: it may be the prefix of a larger order.
            Event::Eof | Event::Drain => Step::close(0),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Outcome(never) => match never {},
        }
    }

    fn work(&self, _exchange: &Exchange, job: Infallible) -> Infallible {
        match job {}
    }
}
