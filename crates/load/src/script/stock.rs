//! The stock market's protocol: `show`, `buy ID N`, `sell ID N` in a seeded mix.
//!
//! Every reply is checked against the [`Ledger`], in place: an order's reply by comparing a
//! prefix, a `show` row by row. With a single connection the order of execution is known, so the
//! seed alone says what every reply must be, to the byte.
//!
//! Each connection draws its requests from a random stream of its own, so that what connection 7
//! asks depends on the seed and not on who was served first.

use super::ledger::{BUY, Ledger, Order, SELL};
use super::{Account, Ear, Heard, Script, shown, unasked};
use crate::faults::FaultKind;
use crate::parse::{Mix, Usage};
use crate::report::Check;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use wire::framing::{Decoder, Framing, Shape};

/// The request that lists the market, and the audit's question.
pub const SHOW: &[u8] = b"show\n";
/// The kinds of requests: `show`, then orders by their side.
const KINDS: [&str; 3] = ["show", "buy", "sell"];
const NOT_ENOUGH: &[u8] = b"Not enough left stocks\n";

/// What to trade, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct StockOptions {
    /// How often each command is asked.
    pub mix: Mix,
    /// The ids to trade; empty means all that the server shows.
    pub ids: Vec<String>,
    /// Amounts are drawn evenly from 1 to this.
    pub amount_max: u32,
    /// How the server marks the end of a reply.
    pub framing: Framing,
    /// What all random streams grow from.
    pub seed: u64,
}

/// The script.
pub struct Stock {
    options: StockOptions,
    ledger: Ledger,
    /// Places in the ledger of the ids to trade.
    traded: Vec<u32>,
    sessions: Vec<Session>,
    wrong: u64,
}

/// What a connection owes.
struct Session {
    asked: VecDeque<Asked>,
    decoder: Decoder,
    /// Whether the decoder has looked at a part of the next reply.
    midway: bool,
    random: Pcg64Mcg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Show,
    Order(Order),
}

impl Stock {
    /// A script for `connections` connections that trades what the server showed in `rows`, the
    /// text of a `show`.
    ///
    /// # Errors
    /// If `rows` are no market, or an id to trade is not in it.
    pub fn new(options: StockOptions, rows: &[u8], connections: usize) -> Result<Self, Usage> {
        let ledger = Ledger::learn(rows, options.amount_max).map_err(Usage)?;
        let place = |id: &String| {
            ledger.place(id).ok_or_else(|| {
                Usage(format!("expected ids of the market's {} stocks, found {id}", ledger.len()))
            })
        };
        let traded = match options.ids[..] {
            [] => (0..).take(ledger.len()).collect(),
            _ => options.ids.iter().map(place).collect::<Result<_, _>>()?,
        };
        let mut stock = Self { options, ledger, traded, sessions: Vec::new(), wrong: 0 };
        stock.ledger.alone = connections == 1;
        stock.reserve(connections);
        Ok(stock)
    }

    /// The whole text of the reply to [`SHOW`] at the front of `bytes`, once it is there.
    pub fn show_text(framing: Framing, bytes: &[u8]) -> Option<&[u8]> {
        Decoder::new(framing).next(bytes, Shape::Block).map(|reply| reply.text)
    }

    /// Judges the text of one reply and writes down what it means.
    fn judge(&mut self, asked: Asked, text: &[u8]) -> Result<(), String> {
        let order = match asked {
            Asked::Show => {
                return self.ledger.check_rows(text).map_err(|why| format!("asked `show`: {why}"));
            }
            Asked::Order(order) => order,
        };
        let ledger = &mut self.ledger;
        let carried_out = text == success(order).text;
        if !carried_out && (order.side != BUY || text != NOT_ENOUGH) {
            ledger.lose(order);
            let (request, expected) = (ledger.text(order), shown(success(order).text));
            return Err(format!("asked `{request}`, expected {expected}, found {}", shown(text)));
        }
        let possible = ledger.may_answer(order, carried_out);
        match carried_out {
            true => ledger.acknowledge(order),
            false => ledger.refused += 1,
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
                Asked::Show => out.extend_from_slice(SHOW),
                Asked::Order(order) => self.ledger.ask(order, out),
            }
            session.asked.push_back(asked);
        }
    }

    fn hear(&mut self, at: usize, bytes: &[u8], ear: &mut Ear<'_>) -> Heard {
        let mut heard = Heard::default();
        let by_eye = self.options.framing == Framing::Line && !self.ledger.alone;
        loop {
            let session = &mut self.sessions[at];
            if by_eye && !session.midway && !ear.is_detailed() {
                quick(session, &mut self.ledger, bytes, &mut heard);
            }
            let Some(&asked) = session.asked.front() else { break };
            let rest = &bytes[heard.used..];
            let Some(reply) = session.decoder.next(rest, asked.shape()) else {
                session.midway = true;
                break;
            };
            session.midway = false;
            session.asked.pop_front();
            heard.used += reply.used;
            heard.done += 1;
            let (used, text) = (reply.used, reply.text);
            let wrong = match self.judge(asked, text) {
                Ok(()) => false,
                Err(why) => {
                    ear.fault(FaultKind::WrongReply, || why.clone());
                    true
                }
            };
            self.wrong += u64::from(wrong);
            heard.wrong += u32::from(wrong);
            ear.note(asked.kind(), used, wrong);
        }
        if self.sessions[at].asked.is_empty() && heard.used < bytes.len() {
            heard.used += unasked(&bytes[heard.used..], ear);
        }
        heard
    }

    fn close(&mut self, at: usize) {
        for asked in self.sessions[at].asked.drain(..) {
            if let Asked::Order(order) = asked {
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

    fn audit_is_whole(&self, reply: &[u8]) -> bool {
        Self::show_text(self.options.framing, reply).is_some()
    }

    fn account(&self) -> Account {
        let mut sums = self.ledger.account();
        sums.insert(0, self.wrong);
        Account(sums)
    }

    fn verdict(&self, reply: &[u8], others: &[Account]) -> Check {
        let text = Self::show_text(self.options.framing, reply).unwrap_or_default();
        let (mut ledger, mut wrong) = (self.ledger.clone(), self.wrong);
        for Account(sums) in others {
            let (theirs, sums) = sums.split_first().expect("made by `account`");
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

impl Asked {
    /// Its place in [`KINDS`].
    fn kind(self) -> u16 {
        match self {
            Asked::Show => 0,
            Asked::Order(order) => 1 + u16::from(order.side),
        }
    }

    fn shape(self) -> Shape {
        match self {
            Asked::Show => Shape::Block,
            Asked::Order(_) => Shape::Line,
        }
    }
}

/// Draws a request: one of the mix and, for an order, a stock and an amount.
fn draw(options: &StockOptions, traded: &[u32], random: &mut Pcg64Mcg) -> Asked {
    let bits = random.next_u64();
    let Mix { show, buy, .. } = options.mix;
    let weight = share(bits as u32, options.mix.total());
    if weight < show {
        return Asked::Show;
    }
    let stock = traded[share((bits >> 32) as u32, traded.len() as u32) as usize];
    let amount = 1 + share(random.next_u64() as u32, options.amount_max);
    let side = if weight < show + buy { BUY } else { SELL };
    Asked::Order(Order { side, stock, amount })
}

/// The common case, decided by one comparison each: all replies at the front that say success to
/// an order. Leaves alone what the decoder has already looked at a part of.
fn quick(session: &mut Session, ledger: &mut Ledger, bytes: &[u8], heard: &mut Heard) {
    while let Some(&Asked::Order(order)) = session.asked.front() {
        let rest = &bytes[heard.used..];
        let expected = success(order);
        // Sixteen bytes in one comparison; the last reply of a batch has fewer behind it.
        let right = match rest.first_chunk::<16>() {
            Some(front) => (u128::from_le_bytes(*front) ^ expected.bits) & expected.mask == 0,
            None => rest.starts_with(expected.text),
        };
        if !right {
            return;
        }
        ledger.acknowledge(order);
        session.asked.pop_front();
        heard.used += expected.text.len();
        heard.done += 1;
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

/// An even draw from `0..n` by multiplication (Lemire, "Fast Random Integer Generation in an
/// Interval", 2019), without its rejection: the bias is below n / 2^32.
fn share(bits: u32, n: u32) -> u32 {
    ((u64::from(bits) * u64::from(n)) >> 32) as u32
}

/// The random stream of one connection: far from its neighbours', whatever the seed.
fn stream(seed: u64, at: u64) -> Pcg64Mcg {
    let mut rng = stats::Rng::new(seed ^ at.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rng.roll().to_le_bytes());
    bytes[8..].copy_from_slice(&rng.roll().to_le_bytes());
    Pcg64Mcg::from_seed(bytes)
}

#[cfg(test)]
mod tests;
