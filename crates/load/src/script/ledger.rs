//! What the market's rows must be: the model that replies are held against.
//!
//! The rows are learned from the server's own `show` before the run. From then on each stock has
//! two sums of acknowledged orders and two of orders whose outcome is unknown. At the end
//! `initial + sold - bought = final`, exactly if nothing is unknown, within bounds otherwise. This
//! holds only while nobody else trades; a second client makes it fail, and should.

/// One stock.
#[derive(Clone, Debug)]
struct Stock {
    /// Id and a space: how its row and the middle of an order begin.
    id: Box<[u8]>,
    /// A space, the price and the newline: how its row ends.
    price: Box<[u8]>,
    initial: u64,
    bought: u64,
    sold: u64,
    unknown_bought: u64,
    unknown_sold: u64,
    /// All that was ever offered for sale, whatever became of it.
    offered: u64,
}

/// A buy or a sell of some pieces of one stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) sell: bool,
    pub(super) stock: u32,
    pub(super) amount: u32,
}

/// All stocks, in the order of the server's rows.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    stocks: Vec<Stock>,
    /// Buys refused because too little was left.
    pub(super) refused: u64,
}

impl Ledger {
    /// Learns the stocks from the rows of a `show`, each ended by a newline.
    pub(super) fn learn(rows: &[u8]) -> Result<Self, String> {
        let mut stocks = Vec::new();
        for row in rows.split_inclusive(|&byte| byte == b'\n') {
            let (id, left, price) = columns(row).ok_or_else(|| {
                format!("expected rows `ID LEFT PRICE`, found {}", super::shown(row))
            })?;
            stocks.push(Stock {
                id: id.into(),
                price: price.into(),
                initial: left,
                bought: 0,
                sold: 0,
                unknown_bought: 0,
                unknown_sold: 0,
                offered: 0,
            });
        }
        if stocks.is_empty() {
            return Err("expected at least one stock in the market, found none".to_owned());
        }
        Ok(Self { stocks, refused: 0 })
    }

    /// How many stocks there are.
    pub(super) fn len(&self) -> usize {
        self.stocks.len()
    }

    /// The place of the stock with this id.
    pub(super) fn place(&self, id: &str) -> Option<u32> {
        let wanted = id.as_bytes();
        let found =
            self.stocks.iter().position(|stock| stock.id.strip_suffix(b" ") == Some(wanted));
        found.and_then(|place| u32::try_from(place).ok())
    }

    /// Writes an order down as asked and appends its request to `out`.
    pub(super) fn ask(&mut self, order: Order, out: &mut Vec<u8>) {
        let stock = &mut self.stocks[order.stock as usize];
        if order.sell {
            stock.offered += u64::from(order.amount);
        }
        stock.request(order, out);
    }

    /// The server says that the order was carried out.
    pub(super) fn acknowledge(&mut self, order: Order) {
        let stock = &mut self.stocks[order.stock as usize];
        *(if order.sell { &mut stock.sold } else { &mut stock.bought }) += u64::from(order.amount);
    }

    /// Nobody knows whether the order was carried out.
    pub(super) fn lose(&mut self, order: Order) {
        let stock = &mut self.stocks[order.stock as usize];
        let sum = if order.sell { &mut stock.unknown_sold } else { &mut stock.unknown_bought };
        *sum += u64::from(order.amount);
    }

    /// The request of an order as text, for messages.
    pub(super) fn text(&self, order: Order) -> String {
        let mut out = Vec::new();
        self.stocks[order.stock as usize].request(order, &mut out);
        String::from_utf8_lossy(&out).trim_end().to_owned()
    }

    /// Whether the rows of a `show` in the middle of the run can be right: every stock in its
    /// place with its price, and never more left than was there and was ever offered.
    pub(super) fn check_rows(&self, mut rows: &[u8]) -> Result<(), String> {
        for stock in &self.stocks {
            let (left, used) = stock.read(rows).ok_or_else(|| stock.expected(rows))?;
            if left > stock.initial + stock.offered {
                let most = stock.initial + stock.offered;
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

    /// Balances the books against the rows of a `show` after the run. `Ok` says how; `Err` names
    /// the first stock that does not balance, with both numbers.
    pub(super) fn settle(&self, mut rows: &[u8]) -> Result<String, String> {
        let (mut bought, mut sold, mut unknown) = (0, 0, 0);
        for stock in &self.stocks {
            let (left, used) = stock.read(rows).ok_or_else(|| stock.expected(rows))?;
            rows = &rows[used..];
            let balance =
                i128::from(stock.initial) + i128::from(stock.sold) - i128::from(stock.bought);
            let least = balance - i128::from(stock.unknown_bought);
            let most = balance + i128::from(stock.unknown_sold);
            if !(least..=most).contains(&i128::from(left)) {
                let wanted =
                    if least == most { format!("{balance}") } else { format!("{least} to {most}") };
                return Err(format!(
                    "stock {}expected {wanted} left (initial {} + sold {} - bought {}), found {left}",
                    stock.name(),
                    stock.initial,
                    stock.sold,
                    stock.bought
                ));
            }
            bought += stock.bought;
            sold += stock.sold;
            unknown += stock.unknown_bought + stock.unknown_sold;
        }
        if !rows.is_empty() {
            return Err(format!("expected the end of the rows, found {}", super::shown(rows)));
        }
        let exact = match unknown {
            0 => "exactly".to_owned(),
            _ => format!("within bounds ({unknown} pieces in orders without a reply)"),
        };
        Ok(format!(
            "{} stocks balance {exact}: {bought} bought, {sold} sold, {} orders refused",
            self.stocks.len(),
            self.refused
        ))
    }
}

impl Stock {
    /// Reads this stock's row off the front; the pieces left and the bytes used.
    fn read(&self, rows: &[u8]) -> Option<(u64, usize)> {
        let rest = rows.strip_prefix(&*self.id)?;
        let (left, digits) = number(rest)?;
        rest[digits..].starts_with(&self.price).then_some(())?;
        Some((left, self.id.len() + digits + self.price.len()))
    }

    fn request(&self, order: Order, out: &mut Vec<u8>) {
        out.extend_from_slice(if order.sell { b"sell " } else { b"buy " });
        out.extend_from_slice(&self.id);
        push_number(order.amount, out);
        out.push(b'\n');
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

/// `ID LEFT PRICE\n` as id with its space, number, price with space and newline.
fn columns(row: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let id = number(row).map(|(_, digits)| digits)?;
    let rest = row[id..].strip_prefix(b" ")?;
    let (left, digits) = number(rest)?;
    let price = &rest[digits..];
    let (_, length) = number(price.strip_prefix(b" ")?)?;
    (price[1 + length..] == *b"\n").then_some((&row[..=id], left, price))
}

/// The number at the front and how many digits it has.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = bytes[..digits]
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    (digits > 0).then_some((value, digits))
}

fn push_number(mut value: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[u8] = b"1 7 1000\n5 3 3700\n30 10 1200\n";

    fn order(sell: bool, stock: u32, amount: u32) -> Order {
        Order { sell, stock, amount }
    }

    /// Trades `orders` (the flag says whether it was acknowledged) and settles against `rows`.
    fn check(orders: &[(Order, bool)], rows: &[u8], expected: Result<&str, &str>) {
        let mut ledger = Ledger::learn(ROWS).expect("three rows");
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
        let trade = [(order(false, 0, 3), true), (order(true, 2, 5), true)];
        check(&trade, b"1 4 1000\n5 3 3700\n30 15 1200\n", Ok("3 stocks balance exactly"));
        check(&trade, b"1 4 1000\n5 3 3700\n30 14 1200\n", Err("stock 30: expected 15 left"));
        check(&trade, b"1 4 1000\n5 3 3700\n", Err("stock 30: expected a row"));
        check(&trade, b"1 4 1000\n30 15 1200\n5 3 3700\n", Err("stock 5: expected a row"));
        check(&trade, b"1 4 1000\n5 3 3700\n30 15 1200\n9 9 9\n", Err("end of the rows"));
        check(&trade, b"1 4 1000\n5 3 3701\n30 15 1200\n", Err("ends in `3700`"));
    }

    #[test]
    fn orders_without_a_reply_widen_the_bounds() {
        let trade = [(order(false, 0, 3), false), (order(true, 0, 5), false)];
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
        let mut ledger = Ledger::learn(ROWS).expect("three rows");
        ledger.ask(order(true, 1, 2), &mut Vec::new());
        assert_eq!(ledger.check_rows(b"1 0 1000\n5 5 3700\n30 10 1200\n"), Ok(()));
        assert!(ledger.check_rows(b"1 0 1000\n5 6 3700\n30 10 1200\n").is_err());
        assert!(ledger.check_rows(b"1 -1 1000\n5 3 3700\n30 10 1200\n").is_err());
        assert!(ledger.check_rows(b"1 7 1000\n5 3 3700\n").is_err());
    }

    #[test]
    fn requests() {
        let mut ledger = Ledger::learn(ROWS).expect("three rows");
        let mut out = Vec::new();
        ledger.ask(order(false, 2, 10), &mut out);
        ledger.ask(order(true, 0, u32::MAX), &mut out);
        assert_eq!(out, b"buy 30 10\nsell 1 4294967295\n");
        assert_eq!(ledger.text(order(false, 1, 7)), "buy 5 7");
        assert_eq!(
            (ledger.place("30"), ledger.place("3"), ledger.place("")),
            (Some(2), None, None)
        );
    }

    #[test]
    fn what_is_no_market_is_refused() {
        for rows in [&b""[..], b"hello\n", b"1 2\n", b"1 2 3 4\n", b"1 2 3", b"1 -2 3\n", b"\n"] {
            assert!(Ledger::learn(rows).is_err(), "{}", rows.escape_ascii());
        }
    }
}
