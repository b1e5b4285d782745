//! The stock market's protocol: `show`, `buy ID N`, `sell ID N` in a seeded mix.
//!
//! Every reply is checked against the [`Ledger`], in place: an order's reply by comparing a prefix,
//! a `show` row by row. With a single connection the order of execution is known, so the seed alone
//! determines every reply, to the byte.
//!
//! Each connection draws its requests from its own random stream, so that the requests of
//! connection 7 depend on the seed and not on the order of service.

use super::ledger::{BUY, Ledger, Order, SELL};
use super::{Replies, ReplyLog, Script, shown, unasked};
use crate::faults::FaultKind;
use crate::parse::{Mix, Usage};
use crate::report::Check;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use wire::framing::{Decoder, Framing, Shape};

/// The request that lists the market; also used for the audit.
pub const SHOW: &[u8] = b"show\n";
/// The kinds of requests: `show`, then orders by their side.
pub(super) const KINDS: [&str; 3] = ["show", "buy", "sell"];
/// The reply of an overloaded server to any request.
pub(super) const BUSY: &[u8] = b"BUSY\n";
pub(super) const NOT_ENOUGH: &[u8] = b"Not enough left stocks\n";

/// The stocks to trade, and the way to trade them.
#[derive(Clone, Debug, PartialEq)]
pub struct StockOptions {
    /// The weight of each command.
    pub mix: Mix,
    /// The ids to trade; empty means all that the server lists.
    pub ids: Vec<String>,
    /// Amounts are drawn uniformly from 1 to this.
    pub amount_max: u32,
    /// The server's framing of replies.
    pub framing: Framing,
    /// Whether replies may differ from the protocol in case, spaces, empty lines, and a missing
    /// newline at the end.
    pub is_lenient: bool,
    /// The seed of all random streams.
    pub seed: u64,
}

impl Default for StockOptions {
    fn default() -> Self {
        Self {
            mix: Mix::default(),
            ids: Vec::new(),
            amount_max: 10,
            framing: Framing::Line,
            is_lenient: false,
            seed: 1,
        }
    }
}

/// The script.
pub struct Stock {
    options: StockOptions,
    ledger: Ledger,
    /// Indices in the ledger of the ids to trade.
    traded: Vec<u32>,
    sessions: Vec<Session>,
    wrong: u64,
}

/// The outstanding requests of a connection.
struct Session {
    asked: VecDeque<Request>,
    decoder: Decoder,
    /// Whether the decoder has seen a part of the next reply.
    midway: bool,
    random: Pcg64Mcg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A listing, with its number if it is watched, or 0.
    Show(u64),
    Order(Order),
}

impl Stock {
    /// A script for `connections` connections that trades the stocks listed in `rows`, the text of
    /// a `show`.
    ///
    /// # Errors
    /// `rows` are not a market, or do not contain an id to trade.
    pub fn new(options: StockOptions, rows: &[u8], connections: usize) -> Result<Self, Usage> {
        let rows = if options.is_lenient { &tidied(rows) } else { rows };
        let ledger = Ledger::learn(rows, options.amount_max).map_err(Usage)?;
        let all: Vec<u32> = (0..).take(ledger.len()).collect();
        let traded = traded(&options.ids, all, |id| ledger.place(id))?;
        let mut stock = Self { options, ledger, traded, sessions: Vec::new(), wrong: 0 };
        stock.ledger.alone = connections == 1;
        stock.reserve(connections);
        Ok(stock)
    }

    /// The complete text of the reply to [`SHOW`] at the front of `bytes`, once it has arrived.
    pub fn show_text(framing: Framing, bytes: &[u8]) -> Option<&[u8]> {
        Decoder::new(framing).next(bytes, Shape::Block).map(|reply| reply.text)
    }

    /// Judges the text of one reply and records its meaning.
    fn judge(&mut self, asked: Request, text: &[u8]) -> Result<(), String> {
        let text = if self.options.is_lenient { &tidied(text) } else { text };
        let ledger = &mut self.ledger;
        if text == BUSY {
            if let Request::Order(order) = asked {
                ledger.withdraw(order);
            }
            return Ok(());
        }
        let order = match asked {
            Request::Show(number) => {
                ledger.check_rows(text).map_err(|why| format!("asked `show`: {why}"))?;
                ledger.listed(number, text);
                return Ok(());
            }
            Request::Order(order) => order,
        };
        // In lenient reading, the tidied text of the expected reply.
        let is = |expected: &[u8]| match self.options.is_lenient {
            true => text.eq_ignore_ascii_case(expected),
            false => text == expected,
        };
        let carried_out = is(success(order).text);
        if !carried_out && (order.side != BUY || !is(NOT_ENOUGH)) {
            ledger.lose(order);
            let (request, expected) = (ledger.text(order), shown(success(order).text));
            return Err(format!("asked `{request}`, expected {expected}, found {}", shown(text)));
        }
        let possible = ledger.may_answer(order, carried_out);
        match carried_out {
            true => ledger.acknowledge(order),
            false => ledger.refuse(order),
        }
        possible.map_err(|why| format!("asked `{}`: {why}", ledger.text(order)))
    }
}

impl Script for Stock {
    fn reserve(&mut self, connections: usize) {
        let session = |at: usize| Session {
            asked: VecDeque::new(),
            decoder: Decoder::new(self.options.framing),
            midway: false,
            random: stream(self.options.seed, at as u64),
        };
        let made = self.sessions.len();
        self.sessions.extend((made..connections).map(session));
        self.ledger.alone &= connections <= 1;
    }

    fn share(&mut self) {
        self.ledger.shared = true;
    }

    fn open(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        debug_assert!(session.asked.is_empty(), "closing settles what is owed");
        session.decoder = Decoder::new(self.options.framing);
        session.midway = false;
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        let session = &mut self.sessions[at];
        for _ in 0..count {
            let asked = draw(&self.options, &self.traded, &mut session.random);
            match asked {
                Request::Show(_) => out.extend_from_slice(SHOW),
                Request::Order(order) => self.ledger.ask(order, out),
            }
            session.asked.push_back(match asked {
                Request::Show(_) => Request::Show(self.ledger.watch()),
                order => order,
            });
        }
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        let by_eye = self.options.framing == Framing::Line && !self.ledger.alone;
        loop {
            let session = &mut self.sessions[at];
            if by_eye && !session.midway && !log.is_detailed() {
                quick(session, &mut self.ledger, bytes, &mut replies);
            }
            let Some(&asked) = session.asked.front() else { break };
            let rest = &bytes[replies.used..];
            let Some(reply) = session.decoder.next(rest, asked.shape()) else {
                session.midway = true;
                break;
            };
            session.midway = false;
            session.asked.pop_front();
            replies.used += reply.used;
            replies.done += 1;
            let (used, text) = (reply.used, reply.text);
            let is_refused = text == BUSY;
            replies.refused += u32::from(is_refused);
            let wrong = match self.judge(asked, text) {
                Ok(()) => false,
                Err(why) => {
                    log.fault(FaultKind::WrongReply, || why.clone());
                    true
                }
            };
            self.wrong += u64::from(wrong);
            replies.wrong += u32::from(wrong);
            log.note(asked.kind(), used, wrong || is_refused);
        }
        if self.sessions[at].asked.is_empty() && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn close(&mut self, at: usize) {
        for asked in self.sessions[at].asked.drain(..) {
            if let Request::Order(order) = asked {
                self.ledger.lose(order);
            }
        }
    }

    fn kinds(&self) -> Vec<String> {
        KINDS.map(String::from).to_vec()
    }

    fn audit(&self) -> &[u8] {
        SHOW
    }

    fn audit_is_refused(&self, reply: &[u8]) -> bool {
        Self::show_text(self.options.framing, reply) == Some(BUSY)
    }

    fn audit_is_whole(&self, reply: &[u8]) -> bool {
        Self::show_text(self.options.framing, reply).is_some()
    }

    fn totals(&self) -> Vec<u64> {
        let mut sums = self.ledger.totals();
        sums.insert(0, self.wrong);
        sums
    }

    fn verdict(&self, reply: &[u8], others: &[Vec<u64>]) -> Check {
        let text = Self::show_text(self.options.framing, reply).unwrap_or_default();
        let text = if self.options.is_lenient { &tidied(text) } else { text };
        let (mut ledger, mut wrong) = (self.ledger.clone(), self.wrong);
        for sums in others {
            let (theirs, sums) = sums.split_first().expect("made by `totals`");
            wrong += theirs;
            ledger.add(sums);
        }
        let settled = ledger.settle(text);
        Check {
            kind: "conservation".to_owned(),
            ok: settled.is_ok() && wrong == 0,
            detail: match (settled, wrong) {
                (Ok(detail) | Err(detail), 0) => detail,
                (Ok(detail) | Err(detail), wrong) => format!("{wrong} wrong replies; {detail}"),
            },
        }
    }
}

impl Request {
    fn kind(self) -> u16 {
        match self {
            Request::Show(_) => 0,
            Request::Order(order) => 1 + u16::from(order.side),
        }
    }

    fn shape(self) -> Shape {
        match self {
            Request::Show(_) => Shape::Block,
            Request::Order(_) => Shape::Line,
        }
    }
}

/// The stocks to trade: those with `ids` of the market's, each as `place` finds it, or `all`.
pub(super) fn traded(
    ids: &[String],
    all: Vec<u32>,
    place: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<u32>, Usage> {
    let count = all.len();
    let found = |id: &String| {
        let bad = || Usage(format!("expected ids of the market's {count} stocks, found {id}"));
        place(id).ok_or_else(bad)
    };
    if ids.is_empty() { Ok(all) } else { ids.iter().map(found).collect() }
}

/// The text without spaces around its lines and without empty lines, each line with its newline.
fn tidied(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).flat_map(|line| [line, b"\n"].concat()).collect()
}

/// Draws a request: one of the mix and, for an order, one of `traded` and an amount.
pub(super) fn draw(options: &StockOptions, traded: &[u32], random: &mut Pcg64Mcg) -> Request {
    let bits = random.next_u64();
    let Mix { show, buy, .. } = options.mix;
    let weight = share(bits as u32, options.mix.total());
    if weight < show {
        return Request::Show(0);
    }
    let stock = traded[share((bits >> 32) as u32, traded.len() as u32) as usize];
    let amount = 1 + share(random.next_u64() as u32, options.amount_max);
    let side = if weight < show + buy { BUY } else { SELL };
    Request::Order(Order { side, stock, amount })
}

/// The fast path, one comparison each: all replies at the front that acknowledge an order. A reply
/// that the decoder has seen a part of is left to the decoder.
fn quick(session: &mut Session, ledger: &mut Ledger, bytes: &[u8], replies: &mut Replies) {
    while let Some(&Request::Order(order)) = session.asked.front() {
        let rest = &bytes[replies.used..];
        let expected = success(order);
        // Compares sixteen bytes at once; the last reply of a batch has fewer after it.
        let right = match rest.first_chunk::<16>() {
            Some(front) => (u128::from_le_bytes(*front) ^ expected.bits) & expected.mask == 0,
            None => rest.starts_with(expected.text),
        };
        if !right {
            return;
        }
        ledger.acknowledge(order);
        session.asked.pop_front();
        replies.used += expected.text.len();
        replies.done += 1;
    }
}

/// A reply of at most 16 bytes, as text and as a number.
struct Expected {
    text: &'static [u8],
    bits: u128,
    /// Ones over the text's bytes.
    mask: u128,
}

impl Expected {
    const fn new(text: &'static [u8]) -> Self {
        let mut bytes = [0; 16];
        bytes.split_at_mut(text.len()).0.copy_from_slice(text);
        let mask = u128::MAX >> (128 - 8 * text.len() as u32);
        Self { text, bits: u128::from_le_bytes(bytes), mask }
    }
}

/// By [`Order::side`].
static SUCCESS: [Expected; 2] =
    [Expected::new(b"[buy] success\n"), Expected::new(b"[sell] success\n")];

fn success(order: Order) -> &'static Expected {
    &SUCCESS[usize::from(order.side)]
}

/// A uniform draw from `0..n` by multiplication (Lemire, "Fast Random Integer Generation in an
/// Interval", 2019), without its rejection: the bias is below n / 2^32.
fn share(bits: u32, n: u32) -> u32 {
    ((u64::from(bits) * u64::from(n)) >> 32) as u32
}

/// The random stream of one connection: far from its neighbours' streams, whatever the seed.
pub(super) fn stream(seed: u64, at: u64) -> Pcg64Mcg {
    let mut rng = stats::Rng::new(seed ^ at.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rng.roll().to_le_bytes());
    bytes[8..].copy_from_slice(&rng.roll().to_le_bytes());
    Pcg64Mcg::from_seed(bytes)
}

#[cfg(test)]
mod tests;
