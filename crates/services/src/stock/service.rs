//! Bytes to requests to replies: the stock market as a service.
//!
//! A step handles all requests in its input. The common shape, `buy ID N` or `sell ID N` with
//! single blanks and short numbers, is parsed directly; everything else goes through the command
//! table, which alone decides what is valid. The batch enters the market once, at its first order,
//! because entering costs more than an order.

use crate::stock::book::LEFT_MAX;
use crate::stock::command::{self, Request};
use crate::stock::show::Show;
use crate::stock::trade::{self, Side, Trade};
use crate::stock::{Lock, Market, Order, Refusal};
use memory::Writing;
use seam::{Cx, Event, Limits, Out, Peer, Service, Step};
use std::convert::Infallible;
use std::fmt;
use std::io::Write as _;
use wire::framing::{Framing, Shape};
use wire::line::{self, Next};

/// The longest request in bytes, its newline included: the course's MAXLINE of 8192 less the NUL.
pub const LINE_MAX: usize = 8191;

/// The minimum room for errors and `help` in a `fixed` framing, in bytes.
const TEXT_MIN: usize = 511;

/// The options of the service.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How replies end.
    pub framing: Framing,
    /// The order of `show`.
    pub order: Order,
    /// How orders and `show` are synchronised.
    pub lock: Lock,
    /// The limits of a connection and of the server; `input_max` is more than [`LINE_MAX`].
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            framing: Framing::Line,
            order: Order::default(),
            lock: Lock::default(),
            limits: Limits {
                // A line and what comes with it in one receive.
                input_max: 2 * (LINE_MAX + 1),
                // 32 blocks of the course's size: a batch of depth 16 never fills the output.
                output_high: 256 * 1024,
                output_low: 64 * 1024,
                sessions_max: 1 << 16,
            },
        }
    }
}

/// The stock service; its state is a [`Market`].
#[derive(Debug)]
pub struct Stock {
    options: Options,
    show: Show,
    bought: Box<[u8]>,
    sold: Box<[u8]>,
    not_enough: Box<[u8]>,
}

/// The replies do not fit into the framing, so the server must not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooNarrow {
    stocks: usize,
    /// The length of `show` in bytes.
    show: usize,
    framing: Framing,
}

impl Stock {
    /// A service with `options`.
    ///
    /// # Panics
    /// If `options.limits.input_max` is not more than [`LINE_MAX`]: a long line would end the
    /// connection before it could be answered.
    pub fn new(options: Options) -> Stock {
        assert!(options.limits.input_max > LINE_MAX, "a whole line must fit into the input");
        let framed = |text: &[u8]| {
            let mut reply = Vec::new();
            let fits = options.framing.encode(text, Shape::Line, &mut reply);
            // `fits` refuses too narrow a framing before the first request.
            fits.map(|()| reply.into_boxed_slice()).unwrap_or_default()
        };
        Stock {
            show: Show::new(options.order, options.framing),
            bought: framed(b"[buy] success\n"),
            sold: framed(b"[sell] success\n"),
            not_enough: framed(b"Not enough left stocks\n"),
            options,
        }
    }

    /// Whether every reply of `market` fits into the framing now. Check this once, before the first
    /// connection. If the amounts grow beyond it later, `show` is answered with an error.
    ///
    /// # Errors
    /// [`TooNarrow`] says how much room is needed.
    pub fn fits(&self, market: &Market) -> Result<(), TooNarrow> {
        let (show, _) = market.show_len();
        if show.max(TEXT_MIN) <= self.options.framing.text_max() {
            return Ok(());
        }
        Err(TooNarrow { stocks: market.len(), show, framing: self.options.framing })
    }

    /// A note to the operator if `show` fits now and may not when the amounts have grown.
    pub fn outgrown(&self, market: &Market) -> Option<String> {
        let (_, longest) = market.show_len();
        let Options { framing, .. } = self.options;
        (longest > framing.text_max()).then(|| {
            format!(
                "framing {framing}: `show` fits now, and is answered with an error once it is \
                 longer than {} bytes because amounts have grown",
                framing.text_max()
            )
        })
    }

    /// Answers requests until the input has no complete one or the output is full.
    fn serve(&self, cx: &Cx<'_, Market>, input: &[u8], out: &mut Out) -> Step<Infallible> {
        let mut turn = Turn { stock: self, cx, entered: None };
        let (mut used, mut answered) = (0, 0);
        while used < input.len() && !out.is_full() {
            let rest = &input[used..];
            let (len, goes_on) = match trade::common(rest) {
                Some((trade, len)) => {
                    turn.trade(trade, out);
                    (len, true)
                }
                None => match line::next(rest, LINE_MAX) {
                    Next::Line { text, used } => (used, turn.answer(text, out)),
                    Next::More => break,
                    Next::TooLong => {
                        turn.refuse(TOO_LONG, Shape::Line, out);
                        (rest.len(), false)
                    }
                },
            };
            cx.note(|note| *note = format!("server received {len} bytes"));
            used += len;
            answered += 1;
            if !goes_on {
                cx.answered(answered);
                return Step::close(used);
            }
        }
        cx.answered(answered);
        Step::read(used)
    }

    fn frame(&self, start: usize, shape: Shape, out: &mut Out) {
        self.options
            .framing
            .finish(start, shape, out.bytes())
            .expect("`fits` has left room for every reply");
    }
}

const TOO_LONG: &str = "expected a line of at most 8191 bytes, found a longer one; closing";

/// One step's access to the market.
struct Turn<'a> {
    stock: &'a Stock,
    cx: &'a Cx<'a, Market>,
    /// The entry into the market, made at the first order of the batch.
    entered: Option<Writing<'a>>,
}

impl Turn<'_> {
    /// Answers one line; false if it was the last.
    fn answer(&mut self, text: &[u8], out: &mut Out) -> bool {
        match command::parse(text) {
            Ok(Request::Buy { id, count }) => self.trade(Trade { side: Side::Buy, id, count }, out),
            Ok(Request::Sell { id, count }) => {
                self.trade(Trade { side: Side::Sell, id, count }, out);
            }
            Ok(Request::Show) => self.show(out),
            Ok(Request::Help) => {
                let start = out.bytes().len();
                command::help(out.bytes());
                self.stock.frame(start, Shape::Block, out);
            }
            Ok(Request::Exit) => {
                self.bye(out);
                return false;
            }
            Err(bad) => self.refuse(bad, command::shape(text), out),
        }
        true
    }

    #[inline]
    fn trade(&mut self, trade: Trade, out: &mut Out) {
        let Stock { options, bought, sold, not_enough, .. } = self.stock;
        let Cx { state: market, worker, .. } = *self.cx;
        let Some(row) = market.find(trade.id) else {
            let id = trade.id;
            return self.refuse(
                format_args!("expected the ID of a stock, found {id}"),
                Shape::Line,
                out,
            );
        };
        if self.entered.is_none() {
            self.entered = Some(market.enter(worker));
        }
        let done = market.locked(options.lock, worker, row, || match trade.side {
            Side::Buy => market.buy(row, trade.count),
            Side::Sell => market.sell(row, trade.count),
        });
        match (done, trade.side) {
            (Ok(()), Side::Buy) => out.bytes().extend_from_slice(bought),
            (Ok(()), Side::Sell) => out.bytes().extend_from_slice(sold),
            (Err(Refusal::NotEnough), _) => out.bytes().extend_from_slice(not_enough),
            (Err(Refusal::TooMany), _) => {
                let most = format_args!("expected at most {LEFT_MAX} to be left, found more");
                self.refuse(most, Shape::Line, out);
            }
        }
    }

    fn show(&mut self, out: &mut Out) {
        // A worker that waits for all writers to leave must not be one of them.
        self.entered = None;
        let Cx { state: market, worker, .. } = *self.cx;
        self.stock.show.reply(market, self.stock.options.lock, worker, out);
    }

    /// In framings where every request has a reply, `exit` has one too.
    fn bye(&self, out: &mut Out) {
        if self.stock.options.framing != Framing::Line {
            let start = out.bytes().len();
            out.bytes().extend_from_slice(b"exit\n");
            self.stock.frame(start, Shape::Line, out);
        }
    }

    #[cold]
    fn refuse(&self, why: impl fmt::Display, shape: Shape, out: &mut Out) {
        let start = out.bytes().len();
        writeln!(out.bytes(), "error: {why}").expect("a Vec takes every byte");
        self.stock.frame(start, shape, out);
    }
}

impl Service for Stock {
    type State = Market;
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn open(&self, cx: &Cx<'_, Market>, peer: Peer, _out: &mut Out) {
        cx.note(|note| {
            *note = match peer {
                Peer::Net(at) => format!("Connected to ({}, {})", at.ip(), at.port()),
                Peer::Local => "Connected to (local, 0)".to_owned(),
            };
        });
    }

    fn step(
        &self,
        cx: &Cx<'_, Market>,
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

    fn work(&self, _market: &Market, job: Infallible) -> Infallible {
        match job {}
    }
}

impl fmt::Display for TooNarrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooNarrow { stocks, show, framing } = self;
        write!(
            f,
            "expected every reply to fit into the {} text bytes of framing {framing}, found that ",
            framing.text_max(),
        )?;
        if TEXT_MIN <= framing.text_max() {
            let advice = "serve fewer stocks, or use --framing line";
            return write!(f, "`show` of {stocks} stocks takes {show} bytes; {advice}");
        }
        write!(
            f,
            "errors and `help` take up to {TEXT_MIN} bytes; the course's framing is fixed:8192"
        )
    }
}

impl std::error::Error for TooNarrow {}
