//! A market of limit orders: `buy ID N PRICE`, `sell ID N PRICE`, `cancel ID NUMBER`, `show`.
//!
//! The replies say what each order traded at once and what it left open; the rows of `show` have
//! the sums of each stock. For every stock and side this must hold, exactly if every request was
//! answered, within bounds otherwise:
//!
//! ```text
//! ordered - taken back = open + traded      sum of all replies' trades = traded, and its value
//! ```
//!
//! because each trade has one order that was there and one that came. As in the market of shares it
//! fails if another client trades meanwhile.

use super::stock::{BUSY, SHOW, Stock, StockOptions, share, stream, traded};
use super::{Replies, ReplyLog, Script, Totals, shown, unasked};
use crate::faults::FaultKind;
use crate::parse::{Mix, Usage};
use crate::report::Check;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::io::Write as _;
use wire::framing::{Decoder, Shape};

const KINDS: [&str; 4] = ["show", "buy", "sell", "cancel"];
/// Prices are drawn from the last one by up to this much, so that about half of the orders trade.
const SPREAD: u32 = 10;
/// One in this many orders is a cancellation instead, of the connection's oldest open order, so
/// that a book does not fill up with old ones.
const CANCELS: u32 = 8;
/// Id, best bid and ask, price, open shares of buyers and sellers, traded shares, their value.
type Row = [u64; 8];
const ROW: &str = "% % % % % % % %\n";

/// One stock, and what was ordered of it.
#[derive(Clone, Debug)]
struct Listed {
    before: Row,
    /// By side: shares in answered orders, those taken back, those in orders without an answer,
    /// and those in cancellations without one.
    sums: [[u64; 4]; 2],
    /// Shares and value of the trades in all replies.
    taken: [u64; 2],
}

const ORDERED: usize = 0;
const BACK: usize = 1;
const LOST: usize = 2;
const LOST_BACK: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Order {
    stock: u32,
    /// 0 buys, 1 sells.
    side: usize,
    size: u32,
    price: u64,
    /// 0 until it is answered.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Show,
    Order(Order),
    Cancel(Order),
}

/// The script.
pub struct OrderBooks {
    options: StockOptions,
    stocks: Vec<Listed>,
    /// Indices of the stocks to trade.
    traded: Vec<u32>,
    sessions: Vec<Session>,
    wrong: u64,
    refused: u64,
}

struct Session {
    asked: VecDeque<Request>,
    /// Its orders that were left open.
    open: VecDeque<Order>,
    decoder: Decoder,
    random: Pcg64Mcg,
}

/// The numbers of a text that is `pattern` with a number for each `%`.
fn numbers<const N: usize>(pattern: &str, mut text: &[u8]) -> Option<[u64; N]> {
    let mut found = [0; N];
    let mut parts = pattern.split('%');
    text = text.strip_prefix(parts.next()?.as_bytes())?;
    for (number, part) in found.iter_mut().zip(parts) {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *number = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
        text = text[digits..].strip_prefix(part.as_bytes())?;
    }
    text.is_empty().then_some(found)
}

fn rows(text: &[u8]) -> Option<Vec<Row>> {
    text.split_inclusive(|byte| *byte == b'\n').map(|row| numbers(ROW, row)).collect()
}

impl OrderBooks {
    /// Whether these rows of a `show` are those of a market of orders.
    pub fn are_listed(rows: &[u8]) -> bool {
        let first = rows.split_inclusive(|byte| *byte == b'\n').next();
        first.is_some_and(|row| numbers::<8>(ROW, row).is_some())
    }

    /// A script for `connections` connections that trades the stocks listed in `listed`.
    ///
    /// # Errors
    /// The rows do not contain an id to trade, or the options do not fit.
    pub fn new(options: StockOptions, listed: &[u8], connections: usize) -> Result<Self, Usage> {
        if options.is_lenient {
            return Err(Usage("--lenient reads a market of shares, found one of orders".into()));
        }
        let rows = rows(listed).ok_or_else(|| {
            let found = shown(listed);
            Usage(format!("expected rows of eight numbers, found {found}"))
        })?;
        let place = |id: &str| rows.iter().position(|row| row[0].to_string() == id);
        let all = (0..).take(rows.len()).collect();
        let traded = traded(&options.ids, all, |id| place(id).map(|at| at as u32))?;
        let listed = |before| Listed { before, sums: [[0; 4]; 2], taken: [0; 2] };
        let stocks = rows.into_iter().map(listed).collect();
        let (sessions, wrong, refused) = (Vec::new(), 0, 0);
        let mut it = Self { options, stocks, traded, sessions, wrong, refused };
        it.reserve(connections);
        Ok(it)
    }

    /// Judges the text of one reply and records its meaning.
    fn judge(&mut self, at: usize, asked: Request, text: &[u8]) -> Result<(), String> {
        if text == BUSY {
            return Ok(());
        }
        let bad = |it: &Self, expected: &str| {
            let asked = String::from_utf8_lossy(&it.text(asked)).trim().to_owned();
            Err(format!("asked `{asked}`, expected {expected}, found {}", shown(text)))
        };
        match asked {
            Request::Show => match rows(text) {
                Some(rows) if self.may_list(&rows) => Ok(()),
                _ => bad(self, "the market's rows, no bid as high as the ask"),
            },
            Request::Order(order) => {
                let pattern = match order.side {
                    0 => "[buy] #% filled % for %, open %\n",
                    _ => "[sell] #% filled % for %, open %\n",
                };
                let sums = &mut self.stocks[order.stock as usize];
                if text.ends_with(b"are open; cancel some, or try again later\n") {
                    self.refused += 1;
                    return Ok(());
                }
                let Some([number, filled, value, open]) = numbers(pattern, text) else {
                    sums.sums[order.side][LOST] += u64::from(order.size);
                    return bad(self, pattern.trim());
                };
                sums.sums[order.side][ORDERED] += u64::from(order.size);
                sums.taken[0] += filled;
                sums.taken[1] = sums.taken[1].wrapping_add(value);
                let limit = filled.saturating_mul(order.price);
                let is_fair = if order.side == 0 { value <= limit } else { value >= limit };
                if filled.checked_add(open) != Some(order.size.into()) || !is_fair {
                    return bad(self, "a sum of its size, at its price or better");
                }
                if open > 0 {
                    self.sessions[at].open.push_back(Order { number, ..order });
                }
                Ok(())
            }
            Request::Cancel(order) => {
                let found = numbers("[cancel] #% took back %\n", text);
                let is_over = text.ends_with(b" is not open\n")
                    || text.starts_with(b"error: expected the number of a recent order");
                match found {
                    Some([number, back])
                        if number == order.number && (1..=order.size.into()).contains(&back) =>
                    {
                        self.stocks[order.stock as usize].sums[order.side][BACK] += back;
                        Ok(())
                    }
                    None if is_over => Ok(()),
                    _ => {
                        self.lose(asked);
                        bad(self, "[cancel] with what was open, or that it is not open")
                    }
                }
            }
        }
    }

    /// Whether the rows of a `show` during the run can be right.
    fn may_list(&self, rows: &[Row]) -> bool {
        let is_right = |(stock, row): (&Listed, &Row)| {
            let [id, bid, ask, ..] = *row;
            id == stock.before[0] && (bid == 0 || ask == 0 || bid < ask)
        };
        rows.len() == self.stocks.len() && self.stocks.iter().zip(rows).all(is_right)
    }

    /// The outcome of a request is unknown.
    fn lose(&mut self, asked: Request) {
        let (order, sum) = match asked {
            Request::Show => return,
            Request::Order(order) => (order, LOST),
            Request::Cancel(order) => (order, LOST_BACK),
        };
        self.stocks[order.stock as usize].sums[order.side][sum] += u64::from(order.size);
    }

    fn text(&self, asked: Request) -> Vec<u8> {
        let mut text = Vec::new();
        self.put(asked, &mut text);
        text
    }

    fn put(&self, asked: Request, out: &mut Vec<u8>) {
        let id = |order: Order| self.stocks[order.stock as usize].before[0];
        match asked {
            Request::Show => out.extend_from_slice(SHOW),
            Request::Order(order) => {
                let side = KINDS[1 + order.side];
                writeln!(out, "{side} {} {} {}", id(order), order.size, order.price)
                    .expect("a Vec takes every byte");
            }
            Request::Cancel(order) => writeln!(out, "cancel {} {}", id(order), order.number)
                .expect("a Vec takes every byte"),
        }
    }

    fn draw(&mut self, at: usize) -> Request {
        let session = &mut self.sessions[at];
        let bits = session.random.next_u64();
        let Mix { show, buy, .. } = self.options.mix;
        let weight = share(bits as u32, self.options.mix.total());
        if weight < show {
            return Request::Show;
        }
        let more = session.random.next_u64();
        if share(more as u32, CANCELS) == 0
            && let Some(order) = session.open.pop_front()
        {
            return Request::Cancel(order);
        }
        let stock = self.traded[share((bits >> 32) as u32, self.traded.len() as u32) as usize];
        let last = self.stocks[stock as usize].before[3].max(u64::from(SPREAD) + 1);
        let price =
            last - u64::from(SPREAD) + u64::from(share((more >> 32) as u32, 2 * SPREAD + 1));
        let size = 1 + share(session.random.next_u64() as u32, self.options.amount_max);
        let side = usize::from(weight >= show + buy);
        Request::Order(Order { stock, side, size, price, number: 0 })
    }

    /// Balances the books against the rows of a `show` after the run.
    fn settle(&self, text: &[u8]) -> Result<String, String> {
        let rows = rows(text).filter(|rows| self.may_list(rows));
        let rows =
            rows.ok_or_else(|| format!("expected the market's rows, found {}", shown(text)))?;
        let (mut traded, mut unknown) = (0, 0);
        for (stock, after) in self.stocks.iter().zip(&rows) {
            stock.balance(after)?;
            traded += after[6].wrapping_sub(stock.before[6]);
            unknown += stock.sums.iter().map(|it| it[LOST] + it[LOST_BACK]).sum::<u64>();
        }
        let exact = match unknown {
            0 => "exactly".to_owned(),
            _ => format!("within bounds ({unknown} shares in requests without a reply)"),
        };
        let (stocks, refused) = (self.stocks.len(), self.refused);
        Ok(format!(
            "{stocks} order books balance {exact}: {traded} shares traded, {refused} orders refused"
        ))
    }
}

impl Listed {
    fn balance(&self, after: &Row) -> Result<(), String> {
        let traded = i128::from(after[6]) - i128::from(self.before[6]);
        let check = |what: &str, found: i128, [least, most]: [i128; 2]| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let wanted =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            Err(format!("stock {}: expected {wanted} {what}, found {found}", after[0]))
        };
        for (side, what) in ["bought or wanted", "sold or offered"].into_iter().enumerate() {
            let [ordered, back, lost, lost_back] = self.sums[side].map(i128::from);
            let open = i128::from(after[4 + side]) - i128::from(self.before[4 + side]);
            let bounds = [ordered - back - lost_back, ordered - back + lost];
            check(what, open + traded, bounds)?;
        }
        let lost: u64 = self.sums.iter().map(|it| it[LOST]).sum();
        let [taken, value] = self.taken;
        check("traded", traded, [taken.into(), i128::from(taken) + i128::from(lost)])?;
        let paid = after[7].wrapping_sub(self.before[7]);
        let bounds = if lost == 0 { [value.into(); 2] } else { [0, u64::MAX.into()] };
        check("paid", paid.into(), bounds)
    }
}

impl Script for OrderBooks {
    fn reserve(&mut self, connections: usize) {
        let session = |at: usize| Session {
            asked: VecDeque::new(),
            open: VecDeque::new(),
            decoder: Decoder::new(self.options.framing),
            random: stream(self.options.seed, at as u64),
        };
        let made = self.sessions.len();
        self.sessions.extend((made..connections).map(session));
    }

    fn open(&mut self, at: usize) {
        self.sessions[at].decoder = Decoder::new(self.options.framing);
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        for _ in 0..count {
            let asked = self.draw(at);
            self.put(asked, out);
            self.sessions[at].asked.push_back(asked);
        }
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        while let Some(&asked) = self.sessions[at].asked.front() {
            let shape = if let Request::Show = asked { Shape::Block } else { Shape::Line };
            let rest = &bytes[replies.used..];
            let Some(reply) = self.sessions[at].decoder.next(rest, shape) else { break };
            self.sessions[at].asked.pop_front();
            replies.used += reply.used;
            replies.done += 1;
            let (used, is_refused) = (reply.used, reply.text == BUSY);
            replies.refused += u32::from(is_refused);
            let judged = self.judge(at, asked, reply.text);
            if let Err(why) = &judged {
                log.fault(FaultKind::WrongReply, || why.clone());
            }
            self.wrong += u64::from(judged.is_err());
            replies.wrong += u32::from(judged.is_err());
            let kind = match asked {
                Request::Show => 0,
                Request::Order(order) => 1 + order.side as u16,
                Request::Cancel(_) => 3,
            };
            log.note(kind, used, judged.is_err() || is_refused);
        }
        if self.sessions[at].asked.is_empty() && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn close(&mut self, at: usize) {
        for asked in std::mem::take(&mut self.sessions[at].asked) {
            self.lose(asked);
        }
    }

    fn kinds(&self) -> Vec<String> {
        KINDS.map(String::from).to_vec()
    }

    fn audit(&self) -> &[u8] {
        SHOW
    }

    fn audit_is_refused(&self, reply: &[u8]) -> bool {
        Stock::show_text(self.options.framing, reply) == Some(BUSY)
    }

    fn audit_is_whole(&self, reply: &[u8]) -> bool {
        Stock::show_text(self.options.framing, reply).is_some()
    }

    fn totals(&self) -> Totals {
        let sums = self.stocks.iter().flat_map(|it| it.sums.into_iter().flatten().chain(it.taken));
        Totals([self.wrong, self.refused].into_iter().chain(sums).collect())
    }

    fn verdict(&self, reply: &[u8], others: &[Totals]) -> Check {
        let text = Stock::show_text(self.options.framing, reply).unwrap_or_default();
        let Self { options, stocks, traded, .. } = self;
        let (options, stocks, traded) = (options.clone(), stocks.clone(), traded.clone());
        let (sessions, wrong, refused) = (Vec::new(), self.wrong, self.refused);
        let mut all = Self { options, stocks, traded, sessions, wrong, refused };
        for Totals(theirs) in others {
            let (heads, theirs) = theirs.split_at(2);
            (all.wrong, all.refused) = (all.wrong + heads[0], all.refused + heads[1]);
            for (stock, sums) in all.stocks.iter_mut().zip(theirs.chunks_exact(10)) {
                let own = stock.sums.iter_mut().flatten().chain(&mut stock.taken);
                own.zip(sums).for_each(|(own, more)| *own = own.wrapping_add(*more));
            }
        }
        let settled = all.settle(text);
        let ok = settled.is_ok() && all.wrong == 0;
        let (Ok(detail) | Err(detail)) = settled;
        let detail = match all.wrong {
            0 => detail,
            wrong => format!("{wrong} wrong replies; {detail}"),
        };
        Check { kind: "conservation".to_owned(), ok, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;
    use wire::framing::Framing;

    const BEFORE: &[u8] = b"5 0 0 1000 0 0 0 0\n";

    /// One order of 4 shares is sent, answered by `reply`, and audited by `after`.
    fn check(side: &str, reply: Option<&str>, after: &str, expected: Result<&str, &str>) {
        let mix = format!("{side}=1").parse().expect("a mix");
        let framing = Framing::Line;
        let (ids, amount_max, seed) = (Vec::new(), 1, 1);
        let options = StockOptions { mix, ids, amount_max, framing, is_lenient: false, seed };
        let mut it = OrderBooks::new(options, BEFORE, 1).expect("a row");
        it.open(0);
        let mut asked = Vec::new();
        it.ask(0, 1, &mut asked);
        let asked = String::from_utf8(asked).expect("text");
        assert!(asked.starts_with(&format!("{side} 5 1 ")), "{asked}");
        let mut faults = Faults::default();
        if let Some(reply) = reply {
            let reply = format!("{reply}\n");
            let replies = it.receive(0, reply.as_bytes(), &mut ReplyLog::new(&mut faults, None));
            assert_eq!((replies.used, replies.done), (reply.len(), 1));
        }
        it.close(0);
        let found = it.verdict(format!("{after}\n\n").as_bytes(), &[it.totals()]);
        let once = it.verdict(format!("{after}\n\n").as_bytes(), &[]);
        // A lost order may count or not, and a refused one never does.
        let counts = reply.is_some_and(|it| it != "BUSY");
        assert!(!(counts && once.ok && found.ok), "another thread's orders count too");
        let (ok, part) = match expected {
            Ok(part) => (true, part),
            Err(part) => (false, part),
        };
        assert!(once.ok == ok && once.detail.contains(part), "{side} {reply:?}: {once:?}");
    }

    #[test]
    fn orders_are_open_traded_or_taken_back() {
        assert!(OrderBooks::are_listed(BEFORE) && !OrderBooks::are_listed(b"5 10 1000\n"));
        let open = "[buy] #1 filled 0 for 0, open 1";
        check("buy", Some(open), "5 1000 0 1000 1 0 0 0", Ok("balance exactly: 0 shares"));
        check("buy", Some(open), "5 1000 0 1000 2 0 0 0", Err("expected 1 bought or wanted"));
        check("buy", Some(open), "5 1000 999 1000 1 0 0 0", Err("the market's rows"));
        check("buy", Some("BUSY"), "5 0 0 1000 0 0 0 0", Ok("exactly"));
        check("buy", None, "5 1000 0 1000 1 0 0 0", Ok("within bounds (1 shares"));
        let dear = "[buy] #1 filled 1 for 1011, open 0";
        check("buy", Some(dear), "5 0 0 1011 0 0 1 1011", Err("1 wrong replies"));
        let more = "[sell] #1 filled 1 for 2000, open 1";
        check("sell", Some(more), "5 0 0 1000 0 1 1 2000", Err("1 wrong replies"));
        let sold = "[sell] #1 filled 1 for 2000, open 0";
        check("sell", Some(sold), "5 0 0 1000 0 0 0 0", Err("expected 1 sold or offered"));
    }
}
