//! The stock market's protocol: `show`, `buy ID N`, `sell ID N` in a seeded mix.
//!
//! Every reply is checked against the [`Ledger`], in place: an order's reply by comparing a
//! prefix, a `show` row by row. Each connection draws its requests from a random stream of its
//! own, so that what connection 7 asks depends on the seed and not on who was served first.

use super::ledger::{Ledger, Order};
use super::{Heard, Script, shown};
use crate::faults::{FaultKind, Faults};
use crate::parse::{Mix, Usage};
use crate::report::Check;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use wire::framing::{Decoder, Framing, Shape};

/// The request that lists the market, and the audit's question.
pub const SHOW: &[u8] = b"show\n";
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
        let ledger = Ledger::learn(rows).map_err(Usage)?;
        let place = |id: &String| {
            ledger.place(id).ok_or_else(|| {
                Usage(format!("expected ids of the market's {} stocks, found {id}", ledger.len()))
            })
        };
        let traded = match options.ids[..] {
            [] => (0..).take(ledger.len()).collect(),
            _ => options.ids.iter().map(place).collect::<Result<_, _>>()?,
        };
        let session = |at: usize| Session {
            asked: VecDeque::new(),
            decoder: Decoder::new(options.framing),
            midway: false,
            random: stream(options.seed, at as u64),
        };
        let sessions = (0..connections).map(session).collect();
        Ok(Self { options, ledger, traded, sessions, wrong: 0 })
    }

    /// The whole text of the reply to [`SHOW`] at the front of `bytes`, once it is there.
    pub fn show_text(framing: Framing, bytes: &[u8]) -> Option<&[u8]> {
        Decoder::new(framing).next(bytes, Shape::Block).map(|reply| reply.text)
    }

    /// Draws the next request of a connection.
    fn draw(&mut self, at: usize) -> Asked {
        let random = &mut self.sessions[at].random;
        let bits = random.next_u64();
        let weight = share(bits as u32, self.options.mix.total());
        let Mix { show, buy, .. } = self.options.mix;
        if weight < show {
            return Asked::Show;
        }
        let stock = self.traded[share((bits >> 32) as u32, self.traded.len() as u32) as usize];
        let amount = 1 + share(random.next_u64() as u32, self.options.amount_max);
        Asked::Order(Order { sell: weight >= show + buy, stock, amount })
    }

    /// Judges the text of one reply; false if it is wrong.
    fn judge(&mut self, asked: Asked, text: &[u8], faults: &mut Faults) {
        let mistake = match asked {
            Asked::Show => match self.ledger.check_rows(text) {
                Ok(()) => return,
                Err(why) => format!("asked `show`: {why}"),
            },
            Asked::Order(order) if text == success(order) => {
                return self.ledger.acknowledge(order);
            }
            Asked::Order(order) if !order.sell && text == NOT_ENOUGH => {
                self.ledger.refused += 1;
                return;
            }
            Asked::Order(order) => {
                self.ledger.lose(order);
                let (request, expected) = (self.ledger.text(order), shown(success(order)));
                format!("asked `{request}`, expected {expected}, found {}", shown(text))
            }
        };
        self.wrong += 1;
        faults.count(FaultKind::WrongReply, || mistake);
    }
}

impl Script for Stock {
    fn open(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        debug_assert!(session.asked.is_empty(), "closing settles what is owed");
        session.decoder = Decoder::new(self.options.framing);
        session.midway = false;
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        for _ in 0..count {
            let asked = self.draw(at);
            match asked {
                Asked::Show => out.extend_from_slice(SHOW),
                Asked::Order(order) => self.ledger.ask(order, out),
            }
            self.sessions[at].asked.push_back(asked);
        }
    }

    fn hear(&mut self, at: usize, bytes: &[u8], faults: &mut Faults) -> Heard {
        let mut heard = Heard::default();
        while let Some(&asked) = self.sessions[at].asked.front() {
            let session = &mut self.sessions[at];
            let rest = &bytes[heard.used..];
            if let Some((order, used)) = quick(session, asked, self.options.framing, rest) {
                self.ledger.acknowledge(order);
                heard.used += used;
            } else {
                let Some(reply) = session.decoder.next(rest, asked.shape()) else {
                    session.midway = true;
                    break;
                };
                session.midway = false;
                heard.used += reply.used;
                self.judge(asked, reply.text, faults);
            }
            self.sessions[at].asked.pop_front();
            heard.done += 1;
        }
        if self.sessions[at].asked.is_empty() && heard.used < bytes.len() {
            let extra = &bytes[heard.used..];
            faults.count(FaultKind::UnaskedBytes, || format!("found {}", shown(extra)));
            heard.used = bytes.len();
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

    fn audit(&self) -> &[u8] {
        SHOW
    }

    fn audit_is_whole(&self, reply: &[u8]) -> bool {
        Self::show_text(self.options.framing, reply).is_some()
    }

    fn verdict(&self, reply: &[u8]) -> Check {
        let text = Self::show_text(self.options.framing, reply).unwrap_or_default();
        let settled = self.ledger.settle(text);
        Check {
            kind: "conservation".to_owned(),
            ok: settled.is_ok() && self.wrong == 0,
            detail: match (settled, self.wrong) {
                (Ok(detail) | Err(detail), 0) => detail,
                (Ok(detail) | Err(detail), wrong) => format!("{wrong} wrong replies; {detail}"),
            },
        }
    }
}

impl Asked {
    fn shape(self) -> Shape {
        match self {
            Asked::Show => Shape::Block,
            Asked::Order(_) => Shape::Line,
        }
    }
}

/// The common case, decided by one comparison: the next reply is there and says success. Used
/// only where the decoder has not yet looked at a part of it.
fn quick(session: &Session, asked: Asked, framing: Framing, rest: &[u8]) -> Option<(Order, usize)> {
    match asked {
        Asked::Order(order) if framing == Framing::Line && !session.midway => {
            let expected = success(order);
            rest.starts_with(expected).then_some((order, expected.len()))
        }
        _ => None,
    }
}

fn success(order: Order) -> &'static [u8] {
    if order.sell { b"[sell] success\n" } else { b"[buy] success\n" }
}

/// An even draw from `0..n` by multiplication (Lemire, "Fast Random Integer Generation in an
/// Interval", 2019), without its rejection: the bias is below n / 2^32.
fn share(bits: u32, n: u32) -> u32 {
    ((u64::from(bits) * u64::from(n)) >> 32) as u32
}

/// The random stream of one connection: far from its neighbours', whatever the seed.
fn stream(seed: u64, at: u64) -> Pcg64Mcg {
    let mut dice = wire::dice::Dice::new(seed ^ at.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&dice.roll().to_le_bytes());
    bytes[8..].copy_from_slice(&dice.roll().to_le_bytes());
    Pcg64Mcg::from_seed(bytes)
}

#[cfg(test)]
mod tests;
