//! Orders of the market of shares with numbers, each of which the server executes once: `buy ID
//! N #NUMBER` -> `[buy] success @PLACE`.
//!
//! An order whose connection ends without an answer is sent again under its number, at another node
//! if there is one. Each end is a line in a file; `roundhouse check` proves the lines of all
//! clients against each other and against the log. Books are not balanced: others may trade.

use super::ledger::{BUY, Order};
use super::stock::{self, BUSY, KINDS, NOT_ENOUGH, SHOW, StockOptions, stream, traded};
use super::{Replies, ReplyLog, Script, shown, unasked};
use crate::faults::FaultKind;
use crate::parse::Usage;
use crate::report::Check;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};
use wire::framing::{Decoder, Shape};
use wire::receipt::{Receipt, ReceiptEnd};

/// A run draws the upper bits of its numbers at random, because numbers must never come back. The
/// lower bits count: 64 billion orders.
const COUNTER: u64 = (1 << 36) - 1;

/// The file of receipts, which all threads of a run write.
#[derive(Clone)]
pub struct ReceiptFile(Arc<Mutex<Result<BufWriter<File>, String>>>);

/// The script.
pub struct Receipts {
    options: StockOptions,
    file: ReceiptFile,
    /// Ids of the stocks to trade.
    traded: Vec<u32>,
    sessions: Vec<Session>,
    last: u64,
    /// Orders that were placed, refused, without an answer, and wrong replies.
    counts: [u64; 4],
}

struct Session {
    /// Requests without an answer, in the order of sending.
    asked: VecDeque<Request>,
    /// How many of them were sent on this connection.
    sent: usize,
    decoder: Decoder,
    random: Pcg64Mcg,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Show,
    Order(Receipt),
}

impl ReceiptFile {
    /// A file that will be written to `file`.
    pub fn new(file: File) -> Self {
        Self(Arc::new(Mutex::new(Ok(BufWriter::new(file)))))
    }

    fn with(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(whole) = &mut *file
            && let Err(error) = write(whole)
        {
            *file = Err(format!("cannot write the receipts: {error}"));
        }
    }

    fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().err().cloned()
    }
}

impl Receipts {
    /// A script for `connections` connections that trades the stocks listed in `rows`, the text of
    /// a `show`; `file` takes the receipts.
    ///
    /// # Errors
    /// `rows` are not a market of shares, or do not contain an id to trade.
    pub fn new(
        options: StockOptions,
        rows: &[u8],
        connections: usize,
        file: ReceiptFile,
    ) -> Result<Self, Usage> {
        let lines = rows.split_inclusive(|&byte| byte == b'\n');
        let ids: Option<Vec<u32>> = lines.filter(|row| !row.starts_with(b"@")).map(id).collect();
        let ids = ids.filter(|ids| !ids.is_empty()).ok_or_else(|| {
            Usage(format!("expected a market of shares for --receipts, found {}", shown(rows)))
        })?;
        let listed = |id: &str| id.parse().ok().filter(|id| ids.contains(id));
        let traded = traded(&options.ids, ids.clone(), listed)?;
        let unique = u64::from(std::process::id()) << 32 ^ sys::clock::now_ns() ^ options.seed;
        let last = stats::Rng::new(unique).roll() & !COUNTER;
        let (sessions, counts) = (Vec::new(), [0; 4]);
        let mut it = Self { options, file, traded, sessions, last, counts };
        it.reserve(connections);
        Ok(it)
    }

    fn draw(&mut self, at: usize) -> Request {
        let drawn = stock::draw(&self.options, &self.traded, &mut self.sessions[at].random);
        let stock::Request::Order(Order { side, stock, amount }) = drawn else {
            return Request::Show;
        };
        let change = if side == BUY { -(amount as i32) } else { amount as i32 };
        self.last += 1;
        let (called, returned) = (sys::clock::now_ns(), u64::MAX);
        let (request, end) = (self.last, ReceiptEnd::Unknown);
        Request::Order(Receipt { called, returned, stock, change, request, end })
    }

    fn end(&mut self, order: Receipt, end: ReceiptEnd) {
        let (count, returned) = match end {
            ReceiptEnd::Placed(_) => (0, sys::clock::now_ns()),
            ReceiptEnd::Refused => (1, sys::clock::now_ns()),
            ReceiptEnd::Unknown => (2, u64::MAX),
        };
        self.counts[count] += 1;
        let receipt = Receipt { end, returned, ..order };
        self.file.with(|file| writeln!(file, "{receipt}"));
    }
}

/// The id at the beginning of a row of a market of shares.
fn id(row: &[u8]) -> Option<u32> {
    let words: Vec<&str> = std::str::from_utf8(row).ok()?.split_whitespace().collect();
    let [id, _, _] = words[..] else { return None };
    id.parse().ok()
}

fn put(asked: Request, out: &mut Vec<u8>) {
    match asked {
        Request::Show => out.extend_from_slice(SHOW),
        Request::Order(Receipt { stock, change, request, .. }) => {
            let (side, count) = (side(change), change.unsigned_abs());
            writeln!(out, "{} {stock} {count} #{request}", KINDS[side])
                .expect("a Vec takes every byte");
        }
    }
}

/// The place of an order's kind in [`KINDS`].
fn side(change: i32) -> usize {
    if change < 0 { 1 } else { 2 }
}

/// The end of an order by its reply, if that is right.
fn ended(order: Receipt, text: &[u8]) -> Option<ReceiptEnd> {
    if text == NOT_ENOUGH && order.change < 0 {
        return Some(ReceiptEnd::Refused);
    }
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix('[')?.strip_prefix(KINDS[side(order.change)])?;
    text.strip_prefix("] success @")?.trim_end().parse().ok().map(ReceiptEnd::Placed)
}

/// Whether the server has no answer now: it is overloaded, or its store is silent or has stopped.
/// The order counts or not.
fn is_later(text: &[u8]) -> bool {
    text == BUSY || (text.starts_with(b"error: ") && !text.starts_with(b"error: expected "))
}

impl Script for Receipts {
    fn reserve(&mut self, connections: usize) {
        let session = |at: usize| Session {
            asked: VecDeque::new(),
            sent: 0,
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
            if self.sessions[at].sent == self.sessions[at].asked.len() {
                let asked = self.draw(at);
                self.sessions[at].asked.push_back(asked);
            }
            let session = &mut self.sessions[at];
            put(session.asked[session.sent], out);
            session.sent += 1;
        }
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        while let Some(&asked) = self.sessions[at].asked.front()
            && self.sessions[at].sent > 0
        {
            let shape = if let Request::Show = asked { Shape::Block } else { Shape::Line };
            let rest = &bytes[replies.used..];
            let Some(reply) = self.sessions[at].decoder.next(rest, shape) else { break };
            replies.used += reply.used;
            if is_later(reply.text) {
                replies.over = true;
                return replies;
            }
            self.sessions[at].asked.pop_front();
            self.sessions[at].sent -= 1;
            replies.done += 1;
            let (used, mut is_wrong, mut kind) = (reply.used, false, 0);
            if let Request::Order(order) = asked {
                let end = ended(order, reply.text);
                self.end(order, end.unwrap_or(ReceiptEnd::Unknown));
                (is_wrong, kind) = (end.is_none(), side(order.change));
            }
            if is_wrong {
                self.counts[3] += 1;
                replies.wrong += 1;
                log.fault(FaultKind::WrongReply, || {
                    let kind = KINDS[kind];
                    format!("expected `[{kind}] success @NUMBER`, found {}", shown(reply.text))
                });
            }
            log.note(kind as u16, used, is_wrong);
        }
        if self.sessions[at].sent == 0 && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn close(&mut self, at: usize) {
        self.sessions[at].sent = 0;
    }

    fn is_numbered(&self) -> bool {
        true
    }

    fn finish(&mut self) {
        for at in 0..self.sessions.len() {
            for asked in std::mem::take(&mut self.sessions[at].asked) {
                if let Request::Order(order) = asked {
                    self.end(order, ReceiptEnd::Unknown);
                }
            }
        }
        self.file.with(|file| file.flush());
    }

    fn kinds(&self) -> Vec<String> {
        KINDS.map(String::from).to_vec()
    }

    fn totals(&self) -> Vec<u64> {
        self.counts.to_vec()
    }

    fn verdict(&self, _reply: &[u8], others: &[Vec<u64>]) -> Check {
        let sum = |at: usize| self.counts[at] + others.iter().map(|it| it[at]).sum::<u64>();
        let [placed, refused, unknown, wrong] = [0, 1, 2, 3].map(sum);
        let failure = self.file.failure();
        Check {
            kind: "receipts".to_owned(),
            ok: failure.is_none() && unknown + wrong == 0,
            detail: failure.unwrap_or_else(|| {
                format!(
                    "{placed} orders have a receipt, the market refused {refused}, {unknown} have \
                     no answer; `roundhouse check` compares the receipts"
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;

    /// One buyer sends two orders; `reply` comes, with `$` for the second order's number.
    fn check(reply: &str, (done, wrong, is_over): (u32, u32, bool), unanswered: u64) {
        let file = || tempfile::tempfile().expect("a temporary file");
        let options = StockOptions {
            mix: "buy=1".parse().expect("a mix"),
            amount_max: 1,
            ..StockOptions::default()
        };
        let make = |rows| Receipts::new(options.clone(), rows, 1, ReceiptFile::new(file()));
        assert!(make(b"hello\n").is_err() && make(b"1 2 3 4 5 6 7 8\n").is_err());
        let mut it = make(b"7 9 1\n@3 1 ms\n").expect("a market");
        let (mut first, mut second, mut faults) = (Vec::new(), Vec::new(), Faults::default());
        it.open(0);
        it.ask(0, 2, &mut first);
        let text = format!("{reply}\n");
        let found = it.receive(0, text.as_bytes(), &mut ReplyLog::new(&mut faults, None));
        assert_eq!((found.done, found.wrong, found.over), (done, wrong, is_over), "{reply}");
        assert_eq!(faults.total(), u64::from(wrong));
        // After a loss the same orders come again, in their order, and then a new one.
        it.close(0);
        it.open(0);
        it.ask(0, 2 - done, &mut second);
        let (first, second) = [first, second].map(|it| String::from_utf8(it).expect("text")).into();
        assert!(first.starts_with("buy 7 1 #") && first.ends_with(&second), "{first} {second}");
        it.ask(0, 1, &mut Vec::new());
        it.finish();
        assert_eq!(it.totals()[2], unanswered);
        assert_eq!(it.verdict(b"", &[it.totals()]).ok, unanswered == 0);
    }

    #[test]
    fn orders_without_an_answer_come_again_under_their_numbers() {
        check("[buy] success @17", (1, 0, false), 2);
        check("[buy] success @17\n[buy] success @18", (2, 0, false), 1);
        check("Not enough left stocks", (1, 0, false), 2);
        check("BUSY", (0, 0, true), 3);
        check("[buy] success @17\nerror: the log has stopped", (1, 0, true), 2);
        check("error: expected a new number or the same order", (1, 1, false), 3);
        check("[sell] success @17", (1, 1, false), 3);
        check("[buy] success", (1, 1, false), 3);
        check("[buy] succ", (1, 1, false), 3);
    }
}
