//! Whether the market did what its replies say: the book before the run, the book afterwards, and
//! between them each order that was acknowledged.
//!
//! Client processes count every acknowledged order in shared memory: one counter per stock, sold
//! minus bought. At the end, the book before plus the counters must be the book after, for every
//! stock. The counters are a fixed array, because processes share it; more ids than cells share
//! one, and then their sum is checked. Replies are read leniently, as students' servers differ in
//! spelling. An order without a reply may or may not have been executed, so the amounts of such a
//! run cannot be checked, and it is not called right.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use anyhow::{Result, bail};
use wire::framing::Framing;

use super::super::orders::Order;
use crate::course::link::{self, Link};

/// Net amounts are kept for this many stocks; ids that are equal modulo it share one, and their
/// sum is checked.
const CELLS: usize = 1 << 16;
/// Stocks that a verdict names.
const SHOWN_MAX: usize = 5;

/// The book: how many are left of each id.
pub type Book = BTreeMap<u32, i64>;

/// The effects of the acknowledged orders, and the replies that no order can have.
pub struct NetOrders {
    /// Sold minus bought, by the id modulo [`CELLS`].
    net: [AtomicI64; CELLS],
    /// Replies that do not answer their requests.
    pub wrong: AtomicU64,
}

/// The meaning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Bought,
    Sold,
    NotEnough,
    Other,
}

impl Meaning {
    /// Of the reply to an order. Servers differ in capitals, in the last letter of "stocks", and in
    /// whether "success" follows the bracket.
    pub fn of(text: &[u8]) -> Meaning {
        let text = String::from_utf8_lossy(text).to_lowercase();
        let is_fail = text.contains("fail") || text.contains("error");
        match text.trim() {
            text if text.contains("not enough left") => Meaning::NotEnough,
            text if text.starts_with("[buy]") && !is_fail => Meaning::Bought,
            text if text.starts_with("[sell]") && !is_fail => Meaning::Sold,
            _ => Meaning::Other,
        }
    }
}

/// The rows of `show`: lines that begin with three whole numbers. Other lines, such as a title, are
/// skipped.
pub fn rows(text: &[u8]) -> Book {
    let text = String::from_utf8_lossy(text);
    let row = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (id, left) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next()?.parse::<i64>().ok()?;
        Some((id, left))
    };
    text.lines().filter_map(row).collect()
}

/// Asks for the whole book.
pub fn book(at: SocketAddr, framing: Framing) -> Result<Book> {
    let mut link = Link::new(link::connect(at)?, framing);
    let text = link.ask(b"show\n", &mut |waiting| eprintln!("multiclient: {waiting}"))?;
    let book = rows(&text);
    if book.is_empty() {
        let found = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
        bail!("expected lines `ID LEFT PRICE` in the reply to `show`, found {found:?}");
    }
    Ok(book)
}

impl NetOrders {
    /// Counts the reply to `order`, given the book before the run, if it is known.
    pub fn count(&self, order: Order, text: &[u8], before: Option<&Book>) {
        let known = |id| before.is_none_or(|book| book.contains_key(&id));
        let is_right = match (order, Meaning::of(text)) {
            (Order::Show, _) => before.is_none_or(|book| rows(text).keys().eq(book.keys())),
            (Order::Buy { id, count }, Meaning::Bought) => {
                self.add(id, -i64::from(count), known(id))
            }
            (Order::Sell { id, count }, Meaning::Sold) => self.add(id, i64::from(count), known(id)),
            (Order::Buy { .. }, Meaning::NotEnough) => true,
            (Order::Buy { id, .. } | Order::Sell { id, .. }, Meaning::Other) => !known(id),
            _ => false,
        };
        self.wrong.fetch_add(u64::from(!is_right), Ordering::Relaxed);
    }

    fn add(&self, id: u32, net: i64, known: bool) -> bool {
        self.net[id as usize % CELLS].fetch_add(net, Ordering::Relaxed);
        known
    }
}

/// The result of a check.
pub struct BookVerdict {
    pub is_right: bool,
    pub text: String,
}

impl BookVerdict {
    /// There is no verdict, which is not a good one.
    pub fn none(reason: &anyhow::Error) -> BookVerdict {
        let text = format!("no verdict: {reason:#}; --no-check runs without");
        BookVerdict { is_right: false, text }
    }
}

/// Compares the books. `unanswered` orders may have been executed or not.
pub fn verdict(before: &Book, after: &Book, effects: &NetOrders, unanswered: u64) -> BookVerdict {
    let wrong = effects.wrong.load(Ordering::Relaxed);
    let mut faults = Vec::new();
    if wrong > 0 {
        faults.push(format!("{wrong} replies do not answer their requests"));
    }
    if !before.keys().eq(after.keys()) {
        faults.push(format!(
            "`show` listed {} stocks before and {} after",
            before.len(),
            after.len()
        ));
    }
    let cells = |book: &Book| {
        let mut cells = BTreeMap::<usize, (u32, i64)>::new();
        for (id, left) in book {
            cells.entry(*id as usize % CELLS).or_insert((*id, 0)).1 += left;
        }
        cells
    };
    let found = cells(after);
    let mut differing = 0;
    for (cell, (id, left)) in cells(before) {
        let net = effects.net[cell].load(Ordering::Relaxed);
        let found = found.get(&cell).map_or(0, |it| it.1);
        if left + net != found && unanswered == 0 {
            differing += 1;
            if differing <= SHOWN_MAX {
                faults.push(format!(
                    "stock {id}: {left} before, {net:+} by the replies, so {} expected, {found} \
                     found",
                    left + net
                ));
            }
        }
    }
    if differing > SHOWN_MAX {
        faults.push(format!("and {} more stocks", differing - SHOWN_MAX));
    }
    if unanswered > 0 {
        faults.push(format!("{unanswered} orders have no reply, so the amounts cannot be checked"));
    } else if differing > 0 {
        faults.push("unless other clients traded meanwhile".to_owned());
    }
    let sum = |book: &Book| book.values().sum::<i64>();
    let (was, is, stocks) = (sum(before), sum(after), before.len());
    match faults.is_empty() {
        true => BookVerdict {
            is_right: true,
            text: format!("right: {stocks} stocks, {was} left before {:+} = {is} after", is - was),
        },
        false => BookVerdict { is_right: false, text: format!("WRONG: {}", faults.join("; ")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::Region;

    fn effects() -> Region<super::super::tally::Tally> {
        Region::<super::super::tally::Tally>::alone(&[])
    }

    #[test]
    fn replies_of_several_servers_mean_the_same() {
        let check =
            |text: &str, meaning| assert_eq!(Meaning::of(text.as_bytes()), meaning, "{text}");
        check("[buy] success\n", Meaning::Bought);
        check("[Buy] Success", Meaning::Bought);
        check("[Sell]\n", Meaning::Sold);
        check("Not enough left stock\n", Meaning::NotEnough);
        check("[buy] not enough left stocks\n", Meaning::NotEnough);
        check("[buy] fail\n", Meaning::Other);
        check("", Meaning::Other);
    }

    #[test]
    fn a_lost_or_invented_share_is_found() {
        let before = rows(b"[show]\n1 7 1000\n5 3 3700\n");
        assert_eq!(before, Book::from([(1, 7), (5, 3)]));
        let (buy, sell) = (Order::Buy { id: 1, count: 4 }, Order::Sell { id: 5, count: 2 });
        let check = |replies: &[(Order, &str)], after: &str, want: &str| {
            let tally = effects();
            for (order, text) in replies {
                tally.effects.count(*order, text.as_bytes(), Some(&before));
            }
            let found = verdict(&before, &rows(after.as_bytes()), &tally.effects, 0);
            assert!(found.text.contains(want), "{}: expected {want}", found.text);
            assert_eq!(found.is_right, want.starts_with("right"));
        };
        let both = [(buy, "[buy] success\n"), (sell, "[sell] success\n")];
        check(&both, "1 3 1000\n5 5 3700\n", "right: 2 stocks, 10 left before -2 = 8 after");
        check(
            &both,
            "1 7 1000\n5 5 3700\n",
            "stock 1: 7 before, -4 by the replies, so 3 expected, 7",
        );
        check(&both, "1 3 1000\n", "2 stocks before and 1 after");
        let right = "1 7 1000\n5 3 3700\n";
        check(&[(buy, "Not enough left stocks\n")], right, "right");
        check(&[(sell, "Not enough left stocks\n")], right, "1 replies do not answer");
        check(&[(buy, "[sell] success\n")], right, "1 replies do not answer");
        check(&[(buy, "error: no such stock\n")], right, "1 replies do not answer");
        check(&[(Order::Buy { id: 9, count: 1 }, "error: no such stock\n")], right, "right");
        check(&[(Order::Show, right)], right, "right");
        check(&[(Order::Show, "1 7 1000\n5")], right, "1 replies do not answer");
    }

    #[test]
    fn orders_without_a_reply_leave_no_verdict_that_is_right() {
        let (book, tally) = (rows(b"1 7 1000\n"), effects());
        let found = verdict(&book, &book, &tally.effects, 3);
        assert!(!found.is_right && found.text.contains("3 orders have no reply"), "{}", found.text);
    }
}
