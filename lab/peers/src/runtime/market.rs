//! The stock market on tokio: a task for each connection, a mutex around the book.
//!
//! It is the server that a textbook on async Rust would write, as an arm for races. The protocol is
//! that of the stock market in lines; the reply to `show` ends with an empty line. The mutex is
//! held for one order or one copy of the book, and never across an `await`. `Burn` adds a known
//! amount of work to each request, so that the laboratory can be tested: it must find exactly this
//! slowdown.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer lines are not part of the market's protocol.
const LINE_MAX: usize = 4096;

struct Stock {
    id: i64,
    left: i64,
    price: i64,
}

#[derive(Default)]
pub(super) struct Market {
    stocks: Mutex<Vec<Stock>>,
    places: HashMap<i64, usize>,
    /// Work wasted on each request: a slowdown of known size, which the laboratory must find.
    burn: Burn,
}

/// A number of empty rounds for each request. One request in [`Burn::EVERY`] is timed, and the
/// number of rounds adapts. The duration of a round depends on whether the core's sibling is busy,
/// which a virtual machine does not reveal.
#[derive(Default)]
struct Burn {
    /// The wanted duration, nanoseconds; 0 = no work.
    wanted_ns: f64,
    /// The cost of reading the clock twice, nanoseconds.
    clock_ns: f64,
    rounds: AtomicU64,
    requests: AtomicU64,
}

impl Burn {
    /// Timing every request would add the cost of the clock.
    const EVERY: u64 = 32;
    /// A timed request that took longer than this multiple of the wanted time was interrupted.
    const DISTURBED: f64 = 8.0;
    /// The fraction of the way by which one timed request adjusts the rounds.
    const STEP: f64 = 0.03;

    fn of(time: Duration) -> Burn {
        let ns = |time: Duration| time.as_secs_f64() * 1e9;
        let nothing = (0..1_000).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        let burn = Burn { wanted_ns: ns(time), clock_ns: ns(nothing), ..Burn::default() };
        // A first guess: a round takes about a nanosecond. It converges within some thousand
        // requests.
        burn.rounds.store(burn.wanted_ns as u64, Ordering::Relaxed);
        burn
    }

    fn work(&self) {
        if self.wanted_ns == 0.0 {
            return;
        }
        let rounds = self.rounds.load(Ordering::Relaxed);
        if !self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(Burn::EVERY) {
            return spin(rounds);
        }
        let begun = Instant::now();
        spin(rounds);
        let took_ns = begun.elapsed().as_secs_f64() * 1e9 - self.clock_ns;
        self.rounds.store(self.follow(rounds, took_ns), Ordering::Relaxed);
    }

    /// The rounds for coming requests, if `rounds` took `took_ns`.
    fn follow(&self, rounds: u64, took_ns: f64) -> u64 {
        let ratio = self.wanted_ns / took_ns.max(1.0);
        if ratio < 1.0 / Burn::DISTURBED {
            return rounds;
        }
        let step = 1.0 + Burn::STEP * (ratio.min(2.0) - 1.0);
        // A few rounds times a small step would otherwise never change.
        let next = (rounds as f64 * step).round() as u64;
        match next == rounds {
            true if ratio > 1.0 => rounds + 1,
            true if ratio < 1.0 => rounds.saturating_sub(1).max(1),
            _ => next.max(1),
        }
    }
}

/// Counts to `rounds` in a way that no compiler can remove.
fn spin(rounds: u64) {
    for round in 0..rounds {
        std::hint::black_box(round);
    }
}

impl Market {
    /// Reads a book: one line per stock with id, pieces left, and price.
    pub(super) fn open(path: &Path, burn: Duration) -> Result<Market> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Market { burn: Burn::of(burn), ..Market::parse(&text) })
    }

    fn parse(text: &str) -> Market {
        let row = |line: &str| {
            let mut numbers = line.split_whitespace().map(str::parse::<i64>);
            let mut next = || numbers.next()?.ok();
            Some(Stock { id: next()?, left: next()?, price: next()? })
        };
        let stocks: Vec<Stock> = text.lines().filter_map(row).collect();
        let places = stocks.iter().enumerate().map(|(at, stock)| (stock.id, at)).collect();
        Market { stocks: Mutex::new(stocks), places, burn: Burn::default() }
    }

    /// Appends the reply to one request; `false` after the last one.
    fn answer(&self, request: &str, out: &mut String) -> bool {
        self.burn.work();
        let mut words = request.split_whitespace();
        match words.next() {
            None => out.push('\n'),
            Some("show") => {
                for stock in self.stocks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    // Writing into a String cannot fail.
                    let _ = writeln!(out, "{} {} {}", stock.id, stock.left, stock.price);
                }
                out.push('\n');
            }
            Some(side @ ("buy" | "sell")) => {
                let mut number = || words.next()?.parse::<i64>().ok().filter(|&it| it > 0);
                let (id, amount) = (number(), number());
                let place = id.and_then(|id| self.places.get(&id));
                let reply = match (place, amount) {
                    (Some(&at), Some(amount)) => self.trade(side, at, amount),
                    _ => "error: expected the id of a stock and an amount\n",
                };
                out.push_str(reply);
            }
            Some("exit") => return false,
            Some(_) => out.push_str("error: expected show, buy, sell or exit\n"),
        }
        true
    }

    fn trade(&self, side: &str, at: usize, amount: i64) -> &'static str {
        let mut stocks = self.stocks.lock().unwrap_or_else(PoisonError::into_inner);
        let left = &mut stocks[at].left;
        match (side, left.checked_add(amount)) {
            ("sell", Some(more)) => {
                *left = more;
                "[sell] success\n"
            }
            ("sell", None) => "error: expected fewer to be left\n",
            _ if *left < amount => "Not enough left stocks\n",
            _ => {
                *left -= amount;
                "[buy] success\n"
            }
        }
    }
}

/// One client. Replies to requests that arrived together are sent together.
pub(super) async fn client(mut peer: TcpStream, market: Arc<Market>) -> std::io::Result<()> {
    let mut input = Vec::with_capacity(LINE_MAX);
    let mut out = String::new();
    loop {
        if peer.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut begin = 0;
        let mut more = true;
        while let Some(length) = input[begin..].iter().position(|&byte| byte == b'\n') {
            let line = &input[begin..begin + length];
            more = market.answer(&String::from_utf8_lossy(line), &mut out);
            begin += length + 1;
            if !more {
                break;
            }
        }
        input.drain(..begin);
        peer.write_all(out.as_bytes()).await?;
        out.clear();
        if !more || input.len() > LINE_MAX {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_burnt_follows_the_machine() {
        let burn = Burn { wanted_ns: 200.0, ..Burn::default() };
        // The rounds converge from any start.
        for (begin, each) in [(200, 0.25), (5_000, 0.25), (1, 0.5), (800, 2.0)] {
            let mut rounds = begin;
            for _ in 0..1_000 {
                rounds = burn.follow(rounds, rounds as f64 * each);
            }
            let took = rounds as f64 * each;
            assert!((took - 200.0).abs() < 10.0, "{begin} rounds of {each} ns became {took} ns");
        }
        assert_eq!(burn.follow(500, 1e6), 500, "who was interrupted learns nothing");
        Burn::default().work();
        let burn = Burn::of(Duration::from_nanos(200));
        (0..100).for_each(|_| burn.work());
        assert!(burn.rounds.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn the_market_answers_as_ours_does() {
        let market = Market::parse("1 10 100\n2 5 50\n");
        let mut out = String::new();
        for (request, want) in [
            ("show", "1 10 100\n2 5 50\n\n"),
            ("buy 1 4", "[buy] success\n"),
            ("buy 1 7", "Not enough left stocks\n"),
            ("sell 2 1", "[sell] success\n"),
            ("sell 3 1", "error: expected the id of a stock and an amount\n"),
            ("buy 1 -1", "error: expected the id of a stock and an amount\n"),
            ("sell 2 9223372036854775807", "error: expected fewer to be left\n"),
            ("", "\n"),
            ("show", "1 6 100\n2 6 50\n\n"),
        ] {
            out.clear();
            assert!(market.answer(request, &mut out), "{request}");
            assert_eq!(out, want, "{request}");
        }
        assert!(!market.answer("exit", &mut out));
    }
}
