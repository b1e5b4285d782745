//! The model of the market: the book of a server after the orders that it has acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use memchr::{memchr, memmem};
use stats::Rng;

/// Stocks with ids 1 to `count`, each with `left` left, as a file.
pub fn book(count: u32, left: u64) -> String {
    (1..=count).map(|id| format!("{id} {left} {}\n", id * 10)).collect()
}

/// A shown or saved book: the remaining count of each id.
pub type Lefts = BTreeMap<u32, i64>;

/// Reads a whole book; `None` if it is torn.
pub fn parse(text: &str) -> Option<Lefts> {
    let whole = text.is_empty() || text.ends_with('\n');
    let row = |line: &str| {
        let (id, rest) = line.split_once(' ')?;
        let (left, price) = rest.split_once(' ')?;
        let id: u32 = id.parse().ok()?;
        // Prices never change, so they show whether a row is intact.
        (price.parse() == Ok(id * 10)).then_some((id, left.parse().ok()?))
    };
    if whole { text.lines().map(row).collect() } else { None }
}

/// A request of a trader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Buy(u32, i64),
    Sell(u32, i64),
    Show,
}

impl Request {
    /// A random request for stocks 1 to `stocks`; every sixteenth is a `show`.
    pub fn roll(rng: &mut Rng, stocks: usize) -> Request {
        let (id, count) = (1 + rng.below(stocks) as u32, 1 + rng.below(10) as i64);
        match rng.below(16) {
            0 => Request::Show,
            1..8 => Request::Sell(id, count),
            _ => Request::Buy(id, count),
        }
    }

    /// The line that is sent.
    pub fn line(self) -> String {
        match self {
            Request::Buy(id, count) => format!("buy {id} {count}\n"),
            Request::Sell(id, count) => format!("sell {id} {count}\n"),
            Request::Show => "show\n".to_owned(),
        }
    }
}

/// The possible change of a stock after some orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The changes by acknowledged orders.
    sure: i64,
    /// The most that orders without a reply may have taken.
    taken_max: i64,
    /// The most that orders without a reply may have added.
    added_max: i64,
}

/// The changes of all stocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account(BTreeMap<u32, Change>);

impl Account {
    /// Takes the replies to `pending`, oldest first, off the front of `heard`. Requests without a
    /// whole reply stay in `pending`, and an incomplete reply stays in `heard`.
    #[track_caller]
    pub fn settle(&mut self, pending: &mut VecDeque<Request>, heard: &mut Vec<u8>) {
        let mut used = 0;
        while let Some(&request) = pending.front() {
            let rest = &heard[used..];
            let len = match request {
                Request::Show => memmem::find(rest, b"\n\n").map(|at| at + 2),
                _ => memchr(b'\n', rest).map(|at| at + 1),
            };
            let Some(len) = len else { break };
            let reply = std::str::from_utf8(&rest[..len]).expect("replies are text");
            self.answered(request, reply);
            pending.pop_front();
            used += len;
        }
        heard.drain(..used);
    }

    #[track_caller]
    fn answered(&mut self, request: Request, reply: &str) {
        match (request, reply) {
            (Request::Buy(id, count), "[buy] success\n") => self.stock(id).sure -= count,
            (Request::Buy(..), "Not enough left stocks\n") => {}
            (Request::Sell(id, count), "[sell] success\n") => self.stock(id).sure += count,
            (Request::Show, block) => {
                let book = block.strip_suffix('\n').and_then(parse);
                assert!(book.is_some_and(|book| !book.is_empty()), "a torn show: {block:?}");
            }
            (request, reply) => panic!("expected the answer to {request:?}, found {reply:?}"),
        }
    }

    /// Enters requests whose execution is unknown.
    pub fn doubt(&mut self, pending: impl IntoIterator<Item = Request>) {
        for request in pending {
            match request {
                Request::Buy(id, count) => self.stock(id).taken_max += count,
                Request::Sell(id, count) => self.stock(id).added_max += count,
                Request::Show => {}
            }
        }
    }

    /// Adds another trader's account.
    pub fn add(&mut self, other: &Account) {
        for (&id, change) in &other.0 {
            let sum = self.stock(id);
            sum.sure += change.sure;
            sum.taken_max += change.taken_max;
            sum.added_max += change.added_max;
        }
    }

    /// Whether any order was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn stock(&mut self, id: u32) -> &mut Change {
        self.0.entry(id).or_default()
    }

    /// The possible remaining counts of a stock.
    fn range(&self, id: u32, before: i64) -> RangeInclusive<i64> {
        let change = self.0.get(&id).copied().unwrap_or_default();
        let sure = before + change.sure;
        sure - change.taken_max..=sure + change.added_max
    }

    /// Initial + sold - bought = final, for each stock, up to the orders in doubt.
    #[track_caller]
    pub fn check(&self, initial: &Lefts, last: &Lefts) {
        assert!(initial.keys().eq(last.keys()), "expected the same stocks, found {last:?}");
        for (id, &before) in initial {
            let range = self.range(*id, before);
            let left = last[id];
            assert!(range.contains(&left), "stock {id}: expected {range:?} left, found {left}");
        }
    }
}
