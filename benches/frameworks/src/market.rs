//! The market of the bare loops (`bare/market.h`) as the least that a task or a coroutine can do
//! for it: parse `buy ID N`, `sell ID N` or `show`, look the id up, update one word, format the
//! reply. `frameworks-bench tokio-loop|may-loop PORT STOCKS` serves it on one thread.

use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use may::io::WaitIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SLOTS: usize = 4096;
const INPUT_MAX: usize = 1 << 13;
/// The longest line without its end.
const TAIL_MAX: usize = 56;
const DIGITS_MAX: usize = 18;

struct Stock {
    id: u64,
    left: AtomicU64,
    price: u64,
}

struct Market {
    stocks: Vec<Stock>,
    /// 1 + the index of a stock; 0 is free.
    slots: Vec<u16>,
}

fn slot_of(id: u64) -> usize {
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize
}

/// A number at the start, and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let value = text[..len]
        .iter()
        .fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    (1..=DIGITS_MAX).contains(&len).then(|| (value, &text[len..]))
}

/// The id and the count of an order.
fn order(text: &[u8]) -> Option<(u64, u64)> {
    let (id, rest) = number(text)?;
    let (count, rest) = number(rest.strip_prefix(b" ")?)?;
    (rest.is_empty() && count > 0).then_some((id, count))
}

impl Market {
    /// Reads the file of stocks that the command line names.
    fn open() -> io::Result<Market> {
        let invalid = || io::Error::other("expected a file of up to 1024 lines `ID LEFT PRICE`");
        let path = std::env::args().nth(3).ok_or_else(invalid)?;
        let mut market = Market { stocks: Vec::new(), slots: vec![0; SLOTS] };
        for line in std::fs::read_to_string(path)?.lines() {
            let mut words = line.split(' ').map_while(|word| word.parse().ok());
            let (Some(id), Some(left), Some(price)) = (words.next(), words.next(), words.next())
            else {
                return Err(invalid());
            };
            let mut at = slot_of(id);
            while market.slots[at] > 0 {
                at = (at + 1) % SLOTS;
            }
            market.stocks.push(Stock { id, left: AtomicU64::new(left), price });
            market.slots[at] = market.stocks.len() as u16;
        }
        (market.stocks.len() <= 1024).then_some(market).ok_or_else(invalid)
    }

    fn find(&self, id: u64) -> Option<&Stock> {
        let mut at = slot_of(id);
        while self.slots[at] > 0 {
            let stock = &self.stocks[usize::from(self.slots[at]) - 1];
            if stock.id == id {
                return Some(stock);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }

    /// Changes one word of the stock that an order names.
    fn trade(&self, text: &[u8], sells: bool) -> &'static [u8] {
        let Some((id, count)) = order(text) else { return b"not understood\n" };
        let Some(stock) = self.find(id) else { return b"no such stock\n" };
        // One thread changes it.
        let left = stock.left.load(Relaxed);
        match (sells, left >= count) {
            (true, _) => stock.left.store(left + count, Relaxed),
            (false, true) => stock.left.store(left - count, Relaxed),
            (false, false) => return b"Not enough left stocks\n",
        }
        if sells { b"[sell] success\n" } else { b"[buy] success\n" }
    }

    /// Answers all whole lines at the start of `input`; returns their length, or `None` if the
    /// line after them is too long.
    fn work(&self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut at = 0;
        while let Some(len) = input[at..].iter().position(|byte| *byte == b'\n') {
            let line = &input[at..at + len];
            at += len + 1;
            if let Some(text) = line.strip_prefix(b"buy ") {
                out.extend_from_slice(self.trade(text, false));
            } else if let Some(text) = line.strip_prefix(b"sell ") {
                out.extend_from_slice(self.trade(text, true));
            } else if line == b"show" {
                for Stock { id, left, price } in &self.stocks {
                    // A vector takes every byte.
                    let _ = writeln!(out, "{id} {} {price}", left.load(Relaxed));
                }
                out.push(b'\n');
            } else {
                out.extend_from_slice(b"not understood\n");
            }
        }
        (input.len() - at <= TAIL_MAX).then_some(at)
    }
}

struct Buffers {
    input: Vec<u8>,
    /// The length of the tail of a split line at the start of `input`.
    kept: usize,
    out: Vec<u8>,
}

impl Buffers {
    fn new() -> Buffers {
        Buffers { input: vec![0; INPUT_MAX], kept: 0, out: Vec::with_capacity(INPUT_MAX) }
    }

    /// Answers `len` more bytes; whether the connection goes on.
    fn answer(&mut self, market: &Market, len: usize) -> bool {
        self.out.clear();
        let end = self.kept + len;
        let Some(used) = market.work(&self.input[..end], &mut self.out) else { return false };
        self.input.copy_within(used..end, 0);
        self.kept = end - used;
        len > 0
    }
}

/// A task for each connection, on a runtime of one thread.
pub fn tokio_loop(port: u16) -> io::Result<()> {
    async fn serve(mut stream: tokio::net::TcpStream, market: Rc<Market>) -> io::Result<()> {
        let mut it = Buffers::new();
        loop {
            let len = stream.read(&mut it.input[it.kept..]).await?;
            if !it.answer(&market, len) {
                return Ok(());
            }
            stream.write_all(&it.out).await?;
        }
    }
    let market = Rc::new(Market::open()?);
    let accept = async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(serve(stream, Rc::clone(&market)));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, accept)
}

/// A coroutine for each connection, on one thread.
pub fn may_loop(port: u16) -> io::Result<()> {
    fn serve(mut stream: may::net::TcpStream, market: &Market) -> io::Result<()> {
        let mut it = Buffers::new();
        loop {
            let room = it.input.len() - it.kept;
            let len = stream.read(&mut it.input[it.kept..])?;
            if !it.answer(market, len) {
                return Ok(());
            }
            stream.write_all(&it.out)?;
            if len < room {
                // Another receive would find nothing; the next edge says when it does.
                stream.wait_io();
            }
        }
    }
    may::config().set_workers(1);
    let market = Arc::new(Market::open()?);
    let accept = move || -> io::Result<()> {
        let listener = may::net::TcpListener::bind(("127.0.0.1", port))?;
        loop {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let market = Arc::clone(&market);
            may::go!(move || serve(stream, &market));
        }
    };
    may::go!(accept).join().map_err(|_| io::Error::other("the server ended"))?
}
