//! The market's expected rows: the model that replies are checked against.
//!
//! The rows are learned from the server's own `show` before the run. From then on each stock has
//! two sums of acknowledged orders and two of orders whose outcome is unknown. At the end this must
//! hold, exactly if nothing is unknown, within bounds otherwise:
//!
//! ```text
//! initial + sold - bought = final
//! ```
//!
//! It holds only while no other client trades; with a second client it fails, as it should.

use super::listing::{HIGH, LOW, Listing};

#[derive(Clone, Debug)]
struct Stock {
    /// Id and a space: the beginning of its row.
    id: Box<[u8]>,
    /// The beginnings of its orders: `buy ID `, `sell ID `.
    heads: [Snippet<HEAD>; 2],
    /// A space, the price and the newline: the end of its row.
    price: Box<[u8]>,
    initial: u64,
    /// Pieces in all orders sent, whatever their outcome.
    asked: [u64; 2],
    /// Pieces in acknowledged orders.
    done: [u64; 2],
    /// Pieces in orders whose outcome is unknown.
    unknown: [u64; 2],
}

/// The side of an order that takes pieces from the market.
pub(super) const BUY: u8 = 0;
/// The side of an order that brings pieces to the market.
pub(super) const SELL: u8 = 1;

/// A short text that is copied as its whole array: a copy of known length compiles to a few moves,
/// one of unknown length to a call. This halves the cost of writing a request.
#[derive(Clone, Copy, Debug)]
struct Snippet<const SIZE: usize> {
    bytes: [u8; SIZE],
    length: usize,
}

/// Room for `sell `, an id of 20 digits and a space.
const HEAD: usize = 32;
/// Room for an amount of 10 digits and the newline.
const TAIL: usize = 16;

/// A buy or a sell of some pieces of one stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// [`BUY`] or [`SELL`]. It is a number because the two come in a random order that defeats
    /// branch prediction, and an index needs no branch.
    pub(super) side: u8,
    pub(super) stock: u32,
    pub(super) amount: u32,
}

/// All stocks, in the order of the server's rows.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    stocks: Vec<Stock>,
    /// The ends of orders, by amount, up to the largest amount drawn.
    tails: Vec<Snippet<TAIL>>,
    /// Buys refused because too little was left.
    pub(super) refused: u64,
    /// All orders come from one connection and no other client trades, so every reply is
    /// predictable.
    pub(super) alone: bool,
    /// Other clients trade, whose orders are not in this ledger.
    pub(super) shared: bool,
    listing: Option<Listing>,
    /// The number of listings that were watched, and of those that mixed two states.
    listings: [u64; 2],
}

impl Ledger {
    /// Learns the stocks from the rows of a `show`, each ended by a newline. Orders will be for at
    /// most `amount_max` pieces.
    pub(super) fn learn(rows: &[u8], amount_max: u32) -> Result<Self, String> {
        let mut stocks = Vec::new();
        for row in rows.split_inclusive(|&byte| byte == b'\n') {
            let (id, left, price) = columns(row).ok_or_else(|| {
                format!("expected rows `ID LEFT PRICE`, found {}", super::shown(row))
            })?;
            stocks.push(Stock {
                id: id.into(),
                heads: [b"buy ".as_slice(), b"sell "]
                    .map(|verb| Snippet::new(&[verb, id].concat())),
                price: price.into(),
                initial: left,
                asked: [0; 2],
                done: [0; 2],
                unknown: [0; 2],
            });
        }
        if stocks.is_empty() {
            return Err("expected at least one stock in the market, found none".to_owned());
        }
        let tail = |amount: u32| Snippet::new(format!("{amount}\n").as_bytes());
        let tails = (0..=amount_max).map(tail).collect();
        let (listing, listings) = (None, [0; 2]);
        Ok(Self { stocks, tails, refused: 0, alone: false, shared: false, listing, listings })
    }

    pub(super) fn len(&self) -> usize {
        self.stocks.len()
    }

    pub(super) fn place(&self, id: &str) -> Option<u32> {
        let wanted = id.as_bytes();
        let found =
            self.stocks.iter().position(|stock| stock.id.strip_suffix(b" ") == Some(wanted));
        found.and_then(|place| u32::try_from(place).ok())
    }

    /// Records an order as sent and appends its request to `out`.
    pub(super) fn ask(&mut self, order: Order, out: &mut Vec<u8>) {
        let stock = &mut self.stocks[order.stock as usize];
        stock.asked[usize::from(order.side)] += u64::from(order.amount);
        stock.heads[usize::from(order.side)].append(out);
        self.tails[order.amount as usize].append(out);
        self.move_bound(order, if order.side == BUY { LOW } else { HIGH });
    }

    pub(super) fn acknowledge(&mut self, order: Order) {
        let stock = &mut self.stocks[order.stock as usize];
        stock.done[usize::from(order.side)] += u64::from(order.amount);
        self.move_bound(order, if order.side == BUY { HIGH } else { LOW });
    }

    /// The server refused the order, a buy.
    pub(super) fn refuse(&mut self, order: Order) {
        self.refused += 1;
        self.withdraw(order);
    }

    /// The overloaded server refused the order before it looked at it.
    pub(super) fn withdraw(&mut self, order: Order) {
        let other = if order.side == BUY { SELL } else { BUY };
        self.stocks[order.stock as usize].asked[usize::from(order.side)] -= u64::from(order.amount);
        self.move_bound(Order { side: other, ..order }, if order.side == BUY { LOW } else { HIGH });
    }

    fn move_bound(&mut self, order: Order, bound: usize) {
        if let Some(listing) = &mut self.listing {
            let by = i64::from(order.amount);
            listing.note(order.stock, bound, if order.side == BUY { -by } else { by });
        }
    }

    /// Begins to watch a listing that is requested now, if none is watched; returns its number, or
    /// 0.
    pub(super) fn watch(&mut self) -> u64 {
        if self.shared || self.listing.as_ref().is_some_and(|it| !it.is_full()) {
            return 0;
        }
        let bounds = |it: &Stock| {
            let low = it.initial + it.done[usize::from(SELL)];
            let high = it.initial + it.asked[usize::from(SELL)];
            [low as i64 - it.asked[usize::from(BUY)] as i64, high as i64 - it.done[0] as i64]
        };
        self.listings[0] += 1;
        self.listing = Some(Listing::new(self.listings[0], self.stocks.iter().map(bounds)));
        self.listings[0]
    }

    /// The listing `number` has arrived, with correct `rows`.
    pub(super) fn listed(&mut self, number: u64, mut rows: &[u8]) {
        let lefts = self.stocks.iter().map_while(|stock| {
            let (left, used) = stock.read(rows)?;
            rows = &rows[used..];
            Some(left as i64)
        });
        if let Some(listing) = self.listing.take_if(|it| it.number == number) {
            self.listings[1] += u64::from(listing.mixes_states(lefts));
        }
    }

    /// The outcome of the order is unknown.
    pub(super) fn lose(&mut self, order: Order) {
        let stock = &mut self.stocks[order.stock as usize];
        stock.unknown[usize::from(order.side)] += u64::from(order.amount);
    }

    /// Whether this answer to an order is possible: success, or a refusal for lack of pieces.
    ///
    /// If replies are predictable (the oracle), there is one right answer. Otherwise a refusal is
    /// certainly wrong if there were enough pieces even if every buy ever sent had succeeded and no
    /// sell had.
    pub(super) fn may_answer(&self, order: Order, success: bool) -> Result<(), String> {
        let stock = &self.stocks[order.stock as usize];
        let wanted = u64::from(order.amount);
        if let Some(left) = self.oracle(stock).filter(|_| order.side == BUY) {
            return match (left >= wanted, success) {
                (true, false) => Err(format!("{left} were left, and it was refused")),
                (false, true) => Err(format!("only {left} were left, and it was executed")),
                _ => Ok(()),
            };
        }
        let least = stock.initial.saturating_sub(stock.asked[usize::from(BUY)]);
        if success || self.shared || least == 0 {
            return Ok(());
        }
        Err(format!("at least {} were left, and it was refused", least + wanted))
    }

    /// The expected amount of a stock after all answered orders, if it is known.
    fn oracle(&self, stock: &Stock) -> Option<u64> {
        let [bought, sold] = stock.done;
        let known = self.alone && !self.shared && stock.unknown == [0; 2];
        known.then(|| (stock.initial + sold).checked_sub(bought)).flatten()
    }

    /// The request of an order as text, for messages.
    pub(super) fn text(&self, order: Order) -> String {
        let head = &self.stocks[order.stock as usize].heads[usize::from(order.side)];
        format!("{}{}", String::from_utf8_lossy(&head.bytes[..head.length]), order.amount)
    }

    /// Whether the rows of a `show` during the run can be right: every stock in order with its
    /// price, and never more left than initially plus all sells. If replies are predictable,
    /// exactly that many.
    pub(super) fn check_rows(&self, mut rows: &[u8]) -> Result<(), String> {
        for stock in &self.stocks {
            let (left, used) = stock.read(rows).ok_or_else(|| stock.expected(rows))?;
            if let Some(exact) = self.oracle(stock).filter(|&exact| exact != left) {
                return Err(format!(
                    "stock {}expected exactly {exact} left, found {left}",
                    stock.name()
                ));
            }
            let most = stock.initial + stock.asked[usize::from(SELL)];
            if left > most && !self.shared {
                return Err(format!(
                    "stock {}expected at most {most} left, found {left}",
                    stock.name()
                ));
            }
            rows = &rows[used..];
        }
        match rows {
            [] => Ok(()),
            more => Err(format!("expected the end of the rows, found {}", super::shown(more))),
        }
    }

    /// The sums of all stocks, for another thread's verdict: `done` and `unknown` of each, and
    /// finally the refusals.
    pub(super) fn totals(&self) -> Vec<u64> {
        let sums = self.stocks.iter().flat_map(|stock| [stock.done, stock.unknown]).flatten();
        sums.chain([self.refused]).collect()
    }

    /// Adds the counts of another thread's ledger of the same market.
    pub(super) fn add(&mut self, account: &[u64]) {
        for (stock, sums) in self.stocks.iter_mut().zip(account.chunks_exact(4)) {
            for side in 0..2 {
                stock.done[side] += sums[side];
                stock.unknown[side] += sums[2 + side];
            }
        }
        self.refused += account.last().copied().unwrap_or(0);
    }

    /// Balances the books against the rows of a `show` after the run. `Ok` describes the result;
    /// `Err` names the first stock that does not balance, with both numbers.
    pub(super) fn settle(&self, mut rows: &[u8]) -> Result<String, String> {
        let (mut bought, mut sold, mut unknown) = (0, 0, 0);
        for stock in &self.stocks {
            let (left, used) = stock.read(rows).ok_or_else(|| stock.expected(rows))?;
            rows = &rows[used..];
            stock.balance(left)?;
            bought += stock.done[usize::from(BUY)];
            sold += stock.done[usize::from(SELL)];
            unknown += stock.unknown.iter().sum::<u64>();
        }
        if !rows.is_empty() {
            return Err(format!("expected the end of the rows, found {}", super::shown(rows)));
        }
        let exact = match unknown {
            0 => "exactly".to_owned(),
            _ => format!("within bounds ({unknown} pieces in orders without a reply)"),
        };
        let torn = match self.listings {
            [_, 0] => String::new(),
            [watched, torn] => format!(
                "; {torn} of {watched} watched listings mix two states, as a lock for each stock \
                 allows"
            ),
        };
        Ok(format!(
            "{} stocks balance {exact}: {bought} bought, {sold} sold, {} orders refused{torn}",
            self.stocks.len(),
            self.refused
        ))
    }
}

impl Stock {
    /// Parses this stock's row at the front; returns the pieces left and the bytes used.
    fn read(&self, rows: &[u8]) -> Option<(u64, usize)> {
        let rest = rows.strip_prefix(&*self.id)?;
        let (left, digits) = number(rest)?;
        rest[digits..].starts_with(&self.price).then_some(())?;
        Some((left, self.id.len() + digits + self.price.len()))
    }

    /// Whether `left` is consistent with the orders.
    fn balance(&self, left: u64) -> Result<(), String> {
        let ([bought, sold], [maybe_bought, maybe_sold]) = (self.done, self.unknown);
        let exact = i128::from(self.initial) + i128::from(sold) - i128::from(bought);
        let least = exact - i128::from(maybe_bought);
        let most = exact + i128::from(maybe_sold);
        if (least..=most).contains(&i128::from(left)) {
            return Ok(());
        }
        let wanted = if least == most { exact.to_string() } else { format!("{least} to {most}") };
        Err(format!(
            "stock {}expected {wanted} left (initial {} + sold {sold} - bought {bought}), found \
             {left}",
            self.name(),
            self.initial,
        ))
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.id).replace(' ', ": ")
    }

    fn expected(&self, rows: &[u8]) -> String {
        let price = String::from_utf8_lossy(&self.price);
        let end = rows.iter().position(|&byte| byte == b'\n').map_or(rows.len(), |at| at + 1);
        let found = super::shown(&rows[..end]);
        format!(
            "stock {}expected a row that ends in `{}`, found {found}",
            self.name(),
            price.trim()
        )
    }
}

/// Splits `ID LEFT PRICE\n` into id with its space, number, price with space and newline.
fn columns(row: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let id = number(row).map(|(_, digits)| digits)?;
    let rest = row[id..].strip_prefix(b" ")?;
    let (left, digits) = number(rest)?;
    let price = &rest[digits..];
    let (_, length) = number(price.strip_prefix(b" ")?)?;
    (price[1 + length..] == *b"\n").then_some((&row[..=id], left, price))
}

/// The number at the front and its count of digits.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut digits) = (0u64, 0);
    while let Some(digit) = bytes.get(digits).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then_some((value, digits))
}

impl<const SIZE: usize> Snippet<SIZE> {
    /// `text` must fit the array; the callers' constants ensure that.
    fn new(text: &[u8]) -> Self {
        let mut bytes = [0; SIZE];
        bytes[..text.len()].copy_from_slice(text);
        Self { bytes, length: text.len() }
    }

    fn append(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[u8] = b"1 7 1000\n5 3 3700\n30 10 1200\n";

    fn order(side: u8, stock: u32, amount: u32) -> Order {
        Order { side, stock, amount }
    }

    /// Trades `orders` (the flag means acknowledged) and settles against `rows`.
    fn check(orders: &[(Order, bool)], rows: &[u8], expected: Result<&str, &str>) {
        let mut ledger = Ledger::learn(ROWS, 10).expect("three rows");
        for &(order, known) in orders {
            ledger.ask(order, &mut Vec::new());
            if known { ledger.acknowledge(order) } else { ledger.lose(order) }
        }
        match (ledger.settle(rows), expected) {
            (Ok(found), Ok(part)) | (Err(found), Err(part)) => {
                assert!(found.contains(part), "expected {part:?}, found {found:?}");
            }
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn books_balance_or_name_the_stock() {
        let trade = [(order(BUY, 0, 3), true), (order(SELL, 2, 5), true)];
        check(&trade, b"1 4 1000\n5 3 3700\n30 15 1200\n", Ok("3 stocks balance exactly"));
        check(&trade, b"1 4 1000\n5 3 3700\n30 14 1200\n", Err("stock 30: expected 15 left"));
        check(&trade, b"1 4 1000\n5 3 3700\n", Err("stock 30: expected a row"));
        check(&trade, b"1 4 1000\n30 15 1200\n5 3 3700\n", Err("stock 5: expected a row"));
        check(&trade, b"1 4 1000\n5 3 3700\n30 15 1200\n9 9 9\n", Err("end of the rows"));
        check(&trade, b"1 4 1000\n5 3 3701\n30 15 1200\n", Err("ends in `3700`"));
    }

    #[test]
    fn orders_without_a_reply_widen_the_bounds() {
        let trade = [(order(BUY, 0, 3), false), (order(SELL, 0, 5), false)];
        for left in 4..=12 {
            let rows = format!("1 {left} 1000\n5 3 3700\n30 10 1200\n");
            check(&trade, rows.as_bytes(), Ok("within bounds (8 pieces"));
        }
        for left in [0, 3, 13] {
            let rows = format!("1 {left} 1000\n5 3 3700\n30 10 1200\n");
            check(&trade, rows.as_bytes(), Err("expected 4 to 12 left"));
        }
    }

    #[test]
    fn rows_in_the_middle_of_a_run() {
        let mut ledger = Ledger::learn(ROWS, 10).expect("three rows");
        ledger.ask(order(SELL, 1, 2), &mut Vec::new());
        assert_eq!(ledger.check_rows(b"1 0 1000\n5 5 3700\n30 10 1200\n"), Ok(()));
        assert!(ledger.check_rows(b"1 0 1000\n5 6 3700\n30 10 1200\n").is_err());
        assert!(ledger.check_rows(b"1 -1 1000\n5 3 3700\n30 10 1200\n").is_err());
        assert!(ledger.check_rows(b"1 7 1000\n5 3 3700\n").is_err());
    }

    #[test]
    fn a_listing_that_mixes_two_states_is_found() {
        let torn = |rows: &str, first_is_known: bool| {
            let mut ledger = Ledger::learn(ROWS, 10).expect("three rows");
            let number = ledger.watch();
            assert_eq!((number, ledger.watch()), (1, 0), "one at a time");
            let [first, second] = [order(BUY, 0, 3), order(SELL, 2, 5)];
            ledger.ask(first, &mut Vec::new());
            if first_is_known {
                ledger.acknowledge(first);
            }
            ledger.ask(second, &mut Vec::new());
            ledger.listed(number, rows.as_bytes());
            ledger.listings[1] == 1
        };
        for rows in ["1 7 1000\n5 3 3700\n30 10 1200\n", "1 4 1000\n5 3 3700\n30 15 1200\n"] {
            assert!(!torn(rows, true) && !torn(rows, false), "{rows}");
        }
        let mixed = "1 7 1000\n5 3 3700\n30 15 1200\n";
        assert!(torn(mixed, true), "the second order came after the reply to the first");
        assert!(!torn(mixed, false), "the two may have changed places");
    }

    #[test]
    fn requests() {
        let mut ledger = Ledger::learn(ROWS, 10).expect("three rows");
        let mut out = Vec::new();
        ledger.ask(order(BUY, 2, 10), &mut out);
        ledger.ask(order(SELL, 0, 7), &mut out);
        assert_eq!(out, b"buy 30 10\nsell 1 7\n");
        assert_eq!(ledger.text(order(BUY, 1, 7)), "buy 5 7");
        assert_eq!(
            (ledger.place("30"), ledger.place("3"), ledger.place("")),
            (Some(2), None, None)
        );
    }

    #[test]
    fn what_is_no_market_is_refused() {
        for rows in [
            &b""[..],
            b"hello\n",
            b"1 2\n",
            b"1 2 3 4\n",
            b"1 2 3",
            b"1 -2 3\n",
            b"\n",
            b"99999999999999999999 1 1\n",
        ] {
            assert!(Ledger::learn(rows, 10).is_err(), "{}", rows.escape_ascii());
        }
    }
}
