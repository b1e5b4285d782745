//! Bytes to requests to replies: the stock market as a service.
//!
//! A step handles all requests in its input. The common shape, `buy ID N` or `sell ID N` with
//! single blanks and short numbers, is parsed directly; everything else goes through the command
//! table, which alone decides what is valid. The batch enters the market once, at its first order,
//! because entering costs more than an order.
//!
//! With a log ([`Durability`]), a batch also enters the queue of orders first. If orders must be on
//! the disk before they are answered, the replies leave with a job that waits for that; requests
//! other than orders begin the next batch.

mod fit;

use crate::book::LEFT_MAX;
use crate::command::{self, Parsed, Request};
use crate::queue::{ORDERS_WAITING, Placing, Settled, Unplaced};
use crate::replicated::NodeView;
use crate::show::Show;
use crate::trade::{self, Side, Trade};
use crate::work::compute;
use crate::{Durability, Lock, Market, Order, Reads, Refusal, connected};
use memory::{FileWords, Writing};
use seam::{Cx, Event, Limits, Out, Peer, Service, Step};
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use wire::framing::{Framing, Shape};
use wire::line::{self, Next};

/// The longest request in bytes, its newline included: the course's MAXLINE of 8192 less the NUL.
pub const LINE_MAX: usize = 8191;

/// The options of the service.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How replies end.
    pub framing: Framing,
    /// The order of `show`.
    pub order: Order,
    /// How orders and `show` are synchronised.
    pub lock: Lock,
    /// The events that an answered order survives; all but `None` need a logged market.
    pub durability: Durability,
    /// Steps of computation for each order ([`compute`]), under the lock that the order takes.
    pub work: u64,
    /// The limits of a connection and of the server; `input_max` is more than [`LINE_MAX`].
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            framing: Framing::Line,
            order: Order::default(),
            lock: Lock::default(),
            durability: Durability::default(),
            work: 0,
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
    /// Where orders lie before they count, with [`Durability::Os`].
    file: Option<FileWords>,
    nodes: Option<Nodes>,
}

/// The other nodes of a market that several serve: orders wait for their common log.
struct Nodes {
    /// Where `show` reads.
    reads: Reads,
    view: Arc<dyn NodeView>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("reads", &self.reads).finish_non_exhaustive()
    }
}

/// Replies that leave when the orders before them are durable.
#[derive(Debug, Default)]
pub struct HeldReplies {
    /// The last of the orders.
    upto: u64,
    pub(super) replies: Vec<u8>,
    /// Replies that the log of several nodes decides.
    open: Vec<OpenReply>,
    shows: bool,
}

#[derive(Debug)]
struct OpenReply {
    at: usize,
    ticket: u64,
    side: Side,
    request: u64,
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
            file: None,
            nodes: None,
        }
    }

    /// The same service, which puts orders into `file`, if there is one, before they count.
    #[must_use]
    pub fn with_file(self, file: Option<FileWords>) -> Stock {
        Stock { file, ..self }
    }

    /// The same service on one of several nodes: `show` reads where `reads` says, and the common
    /// log, which `view` knows, decides the orders.
    ///
    /// # Panics
    /// If an order would be answered before it is in the log: [`Durability::Sync`] alone waits.
    #[must_use]
    pub fn with_nodes(self, reads: Reads, view: Arc<dyn NodeView>) -> Stock {
        assert_eq!(self.options.durability, Durability::Sync, "orders wait for the common log");
        Stock { nodes: Some(Nodes { reads, view }), ..self }
    }

    /// Answers requests until the input has no complete one or the output is full.
    fn serve(&self, cx: &Cx<'_, Market>, input: &[u8], out: &mut Out) -> Step<HeldReplies> {
        let mut turn = Turn::new(self, cx);
        let (mut used, mut answered) = (0, 0);
        while used < input.len() && !out.is_full() {
            let rest = &input[used..];
            // Clients that send whole buffers pad their requests (rio_writen of a fixed length).
            let padding = rest.iter().take_while(|byte| **byte == 0).count();
            if padding > 0 {
                used += padding;
                continue;
            }
            let (len, answered_as) = match trade::common(rest) {
                Some((_, len)) if !cx.admit() => {
                    self.busy(Shape::Line, out.bytes());
                    (len, Answered::GoesOn)
                }
                Some((trade, len)) => {
                    turn.trade(trade, out);
                    (len, Answered::GoesOn)
                }
                None => match line::next(rest, LINE_MAX) {
                    Next::Line { text, used } => (used, turn.answer(text, out)),
                    Next::More => break,
                    Next::TooLong if turn.holds() => break,
                    Next::TooLong => {
                        self.refuse(TOO_LONG, Shape::Line, out.bytes());
                        (rest.len(), Answered::Last)
                    }
                },
            };
            if answered_as == Answered::Later {
                break;
            }
            cx.note(|note| *note = format!("server received {len} bytes"));
            used += len;
            answered += 1;
            if answered_as == Answered::Last {
                cx.answered(answered);
                return Step::close(used);
            }
            if turn.held.shows {
                break;
            }
        }
        cx.answered(answered);
        match turn.finish(out) {
            Some(held) => Step::offload(used, held),
            None => Step::read(used),
        }
    }

    /// The end of a wait for the log.
    fn settle(
        &self,
        cx: &Cx<'_, Market>,
        (settled, held): (Settled, HeldReplies),
        out: &mut Out,
    ) -> Step<HeldReplies> {
        let why = match settled {
            Settled::Durable => {
                out.bytes().extend_from_slice(&held.replies);
                if held.shows {
                    Turn::new(self, cx).show(out);
                }
                return Step::read(0);
            }
            Settled::Late => {
                let log = if self.nodes.is_some() { "store" } else { "disk" };
                format!("the {log} {LATE}")
            }
            Settled::Stopped => STOPPED.to_owned(),
        };
        self.refuse(why, Shape::Line, out.bytes());
        Step::close(0)
    }

    /// Fills in the replies that the log has decided; returns whether all are known.
    fn fill_in(&self, market: &Market, held: &mut HeldReplies) -> bool {
        let known = std::mem::take(&mut held.replies);
        let mut from = 0;
        for OpenReply { at, ticket, side, request } in held.open.drain(..) {
            held.replies.extend_from_slice(&known[from..at]);
            from = at;
            let Some(outcome) = market.orders().outcome(ticket) else { return false };
            self.reply(side, request, outcome, &mut held.replies);
        }
        held.replies.extend_from_slice(&known[from..]);
        true
    }

    /// The reply to an order; `request` is the client's number for it, or 0.
    fn reply(&self, side: Side, request: u64, placed: Result<u64, Unplaced>, out: &mut Vec<u8>) {
        let is_buy = side == Side::Buy;
        match placed {
            Ok(_) if request == 0 => {
                out.extend_from_slice(if is_buy { &self.bought } else { &self.sold });
            }
            Ok(seq) => {
                let (start, side) = (out.len(), if is_buy { "buy" } else { "sell" });
                writeln!(out, "[{side}] success @{seq}").expect("a Vec takes every byte");
                self.frame(start, Shape::Line, out);
            }
            Err(Unplaced::Market(Refusal::NotEnough)) => out.extend_from_slice(&self.not_enough),
            Err(Unplaced::Market(Refusal::TooMany)) => self.refuse_amount(out),
            Err(Unplaced::Full | Unplaced::Slow) if self.nodes.is_some() => {
                self.busy(Shape::Line, out);
            }
            Err(unplaced) => self.refuse(unplaced, Shape::Line, out),
        }
    }

    #[cold]
    fn refuse_amount(&self, out: &mut Vec<u8>) {
        let most = format_args!("expected at most {LEFT_MAX} to be left, found more");
        self.refuse(most, Shape::Line, out);
    }

    /// The server or its store is overloaded: nothing is executed.
    #[cold]
    fn busy(&self, shape: Shape, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"BUSY\n");
        self.frame(start, shape, out);
    }

    #[cold]
    fn refuse(&self, why: impl fmt::Display, shape: Shape, out: &mut Vec<u8>) {
        let start = out.len();
        writeln!(out, "error: {why}").expect("a Vec takes every byte");
        self.frame(start, shape, out);
    }

    fn frame(&self, start: usize, shape: Shape, out: &mut Vec<u8>) {
        let framed = self.options.framing.finish(start, shape, out);
        framed.expect("`fits` has left room for every reply");
    }
}

const TOO_LONG: &str = "expected a line of at most 8191 bytes, found a longer one; closing";

const LATE: &str = "has not answered: the orders since the last reply may count or not; \
                    closing, try again with the same #NUMBER";
const STOPPED: &str = "the log has stopped: the orders since the last reply may count or not after \
                       a restart; closing";

/// One step's access to the market.
struct Turn<'a> {
    stock: &'a Stock,
    cx: &'a Cx<'a, Market>,
    /// The entry into the market, made at the first order of the batch.
    entered: Option<Writing<'a>>,
    /// The entry into the queue of orders, made before that if there is a log.
    placing: Option<Placing<'a>>,
    /// Replies that wait for the orders of the batch, if [`HeldReplies::upto`] names one: the
    /// replies from `start` on.
    held: HeldReplies,
    start: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    GoesOn,
    Last,
    /// Not now: replies before it are held.
    Later,
}

impl<'a> Turn<'a> {
    fn new(stock: &'a Stock, cx: &'a Cx<'a, Market>) -> Turn<'a> {
        let held = HeldReplies::default();
        Turn { stock, cx, entered: None, placing: None, held, start: 0 }
    }

    fn answer(&mut self, text: &[u8], out: &mut Out) -> Answered {
        let has_log = self.stock.options.durability != Durability::None;
        let Parsed { shape, number, request } = command::parse(text, has_log);
        let request = match request {
            Ok(request) => request,
            Err(bad) if bad.is_last() && self.holds() => return Answered::Later,
            Err(bad) => {
                self.stock.refuse(bad, shape, out.bytes());
                return if bad.is_last() { Answered::Last } else { Answered::GoesOn };
            }
        };
        if self.holds() {
            if !matches!(request, Request::Trade(_)) {
                return Answered::Later;
            }
        } else if request != Request::Exit && !self.cx.admit() {
            self.stock.busy(shape, out.bytes());
            return Answered::GoesOn;
        }
        match request {
            Request::Trade(trade) if has_log => self.place(trade, number, out),
            Request::Trade(trade) => self.trade(trade, out),
            Request::Show => match &self.stock.nodes {
                Some(Nodes { reads: Reads::Strict, view }) => self.read(&**view, out),
                Some(Nodes { reads: Reads::Local, view }) => {
                    let Cx { state, worker, now, .. } = *self.cx;
                    (self.entered, self.placing) = (None, None);
                    self.stock.show.aged(state, worker, (view.last(), view.age_ms(now)), out);
                }
                None => self.show(out),
            },
            Request::Help => {
                let start = out.bytes().len();
                command::help(out.bytes());
                self.stock.frame(start, Shape::Block, out.bytes());
            }
            Request::Exit => {
                self.bye(out);
                return Answered::Last;
            }
        }
        Answered::GoesOn
    }

    /// Whether replies must wait for the disk.
    fn holds(&self) -> bool {
        self.held.upto > 0 && self.stock.options.durability == Durability::Sync
    }

    /// Ends the batch; returns the replies that must wait.
    #[inline]
    fn finish(&mut self, out: &mut Out) -> Option<HeldReplies> {
        (self.entered, self.placing) = (None, None);
        if self.held.upto == 0 {
            return None;
        }
        let orders = self.cx.state.orders();
        if !self.holds() {
            let (placed, durable) = orders.ends();
            if placed - durable > ORDERS_WAITING as u64 / 4 {
                orders.wake();
            }
            return None;
        }
        orders.wake();
        let replies = out.bytes().split_off(self.start);
        Some(HeldReplies { replies, ..std::mem::take(&mut self.held) })
    }

    /// The replies from here on wait for order `upto`.
    fn hold(&mut self, upto: u64, out: &mut Out) {
        if self.held.upto == 0 {
            self.start = out.bytes().len();
        }
        self.held.upto = self.held.upto.max(upto);
    }

    /// Asks the common log what an order does, or what all orders before now did.
    fn ask(
        &mut self,
        view: &dyn NodeView,
        order: (u32, i32),
        request: u64,
        out: &mut Out,
    ) -> Result<u64, Unplaced> {
        let Cx { state: market, worker, .. } = *self.cx;
        let placing = self.placing.get_or_insert_with(|| Placing::enter(market, worker));
        let ticket = placing.ticket(order, request, view.decided())?;
        self.hold(ticket, out);
        Ok(ticket)
    }

    /// `show` after all orders that were answered before, on any node.
    fn read(&mut self, view: &dyn NodeView, out: &mut Out) {
        match self.ask(view, (0, 0), 0, out) {
            Ok(_) => self.held.shows = true,
            Err(Unplaced::Full | Unplaced::Slow) => self.stock.busy(Shape::Block, out.bytes()),
            Err(stopped) => self.stock.refuse(stopped, Shape::Block, out.bytes()),
        }
    }

    /// Executes an order that a log numbers; `request` is the client's own number for it, or 0.
    fn place(&mut self, Trade { side, id, count }: Trade, request: u64, out: &mut Out) {
        let Stock { options, file, nodes, .. } = self.stock;
        let Cx { state: market, worker, .. } = *self.cx;
        let Some(row) = market.find(id) else { return self.refuse_id(id, out) };
        let change = if side == Side::Buy { -(count as i32) } else { count as i32 };
        if let Some(Nodes { view, .. }) = nodes {
            return match self.ask(&**view, (id, change), request, out) {
                Ok(ticket) => {
                    let at = out.bytes().len() - self.start;
                    self.held.open.push(OpenReply { at, ticket, side, request });
                }
                unplaced => self.stock.reply(side, request, unplaced, out.bytes()),
            };
        }
        if self.placing.is_none() {
            // In this order: a worker that waits for the queue must not be inside.
            self.placing = Some(Placing::enter(market, worker));
            self.entered = Some(market.enter(worker));
        }
        let Some(placing) = &self.placing else { return };
        let file = file.as_ref().map(|file| file.words());
        let placed = market.locked(options.lock, worker, row, || {
            compute(options.work);
            placing.place((row, id), change, request, file)
        });
        if let Ok(seq) = placed {
            self.hold(seq, out);
        }
        self.stock.reply(side, request, placed, out.bytes());
    }

    #[inline]
    fn trade(&mut self, trade: Trade, out: &mut Out) {
        let Stock { options, bought, sold, not_enough, .. } = self.stock;
        if options.durability != Durability::None {
            return self.place(trade, 0, out);
        }
        let Cx { state: market, worker, .. } = *self.cx;
        let Some(row) = market.find(trade.id) else { return self.refuse_id(trade.id, out) };
        if self.entered.is_none() {
            self.entered = Some(market.enter(worker));
        }
        let done = market.locked(options.lock, worker, row, || {
            compute(options.work);
            match trade.side {
                Side::Buy => market.buy(row, trade.count),
                Side::Sell => market.sell(row, trade.count),
            }
        });
        match (done, trade.side) {
            (Ok(()), Side::Buy) => out.bytes().extend_from_slice(bought),
            (Ok(()), Side::Sell) => out.bytes().extend_from_slice(sold),
            (Err(Refusal::NotEnough), _) => out.bytes().extend_from_slice(not_enough),
            (Err(Refusal::TooMany), _) => self.stock.refuse_amount(out.bytes()),
        }
    }

    #[cold]
    fn refuse_id(&self, id: u32, out: &mut Out) {
        let why = format_args!("expected the ID of a stock, found {id}");
        self.stock.refuse(why, Shape::Line, out.bytes());
    }

    fn show(&mut self, out: &mut Out) {
        // A worker that waits for all writers to leave must not be one of them.
        (self.entered, self.placing) = (None, None);
        let Cx { state: market, worker, .. } = *self.cx;
        self.stock.show.reply(market, self.stock.options.lock, worker, out);
    }

    /// In framings where every request has a reply, `exit` has one too.
    fn bye(&self, out: &mut Out) {
        if self.stock.options.framing != Framing::Line {
            let start = out.bytes().len();
            out.bytes().extend_from_slice(b"exit\n");
            self.stock.frame(start, Shape::Line, out.bytes());
        }
    }
}

impl Service for Stock {
    type State = Market;
    type Session = ();
    type Job = HeldReplies;
    type Outcome = (Settled, HeldReplies);

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn refuses(&self) -> bool {
        true
    }

    fn open(&self, cx: &Cx<'_, Market>, peer: Peer, _out: &mut Out) {
        cx.note(|note| *note = connected(peer));
    }

    fn step(
        &self,
        cx: &Cx<'_, Market>,
        _session: &mut (),
        event: Event<'_, (Settled, HeldReplies)>,
        out: &mut Out,
    ) -> Step<HeldReplies> {
        match event {
            Event::Bytes(input) => self.serve(cx, input, out),
            // A line without its newline is not executed: it may be the prefix of a larger order.
            Event::Eof | Event::Drain => Step::close(0),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Outcome(outcome) => self.settle(cx, outcome, out),
        }
    }

    fn work(&self, market: &Market, mut job: HeldReplies) -> (Settled, HeldReplies) {
        match market.orders().wait(job.upto) {
            Settled::Durable if !self.fill_in(market, &mut job) => (Settled::Late, job),
            settled => (settled, job),
        }
    }
}
