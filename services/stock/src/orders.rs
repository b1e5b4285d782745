//! The second market: clients buy from each other, by limit orders.
//!
//! ```text
//!   order_book   one stock: levels by price, orders by age, trades
//!   service      requests -> replies
//! ```
//!
//! It speaks the lines and framings of the first market with another table of commands
//! ([`super::command::ORDERS`]). An order trades at once with the best orders of the other side,
//! the oldest first, at their prices; the rest waits. Each share that one client buys another one
//! sells, so shares and money are conserved. Nothing is saved: the market begins and ends empty.

mod order_book;
mod service;

pub use order_book::{BAND, NotPlaced, ORDERS_MAX, OrderBook, Placed, State, Summary};
pub use service::OrderMarket;

use crate::book;
use index::sorted;
use seam::{BadSeed, Dead, Share, WorkerId};

/// The most stocks of one exchange.
pub const BOOKS_MAX: usize = 128;

/// The shared state: a book for each stock, in the order of the file. All-zero bytes are an
/// exchange without stocks.
#[repr(C)]
pub struct Exchange {
    count: u32,
    /// The books by ascending id.
    sorted: [u32; BOOKS_MAX],
    books: [OrderBook; BOOKS_MAX],
}

// SAFETY: every field is valid when zero (numbers, atomics and locks), none holds a pointer or has
// a destructor, and what changes through `&self` is atomic.
unsafe impl Share for Exchange {
    /// Takes the bytes of a `stock.txt`: its ids, and its prices as the middles of the bands.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let entries = book::parse(seed, BOOKS_MAX).map_err(|bad| BadSeed(bad.to_string()))?;
        for (book, entry) in self.books.iter_mut().zip(&entries) {
            book.found(entry.id, entry.price);
        }
        self.count = entries.len() as u32;
        let sorted = &mut self.sorted[..entries.len()];
        sorted.iter_mut().zip(0..).for_each(|(row, at)| *row = at);
        sorted.sort_unstable_by_key(|row| entries[*row as usize].id);
        Ok(())
    }

    fn heal(&self, dead: Dead) {
        self.heal(dead.worker());
    }
}

impl Exchange {
    /// Completes what the worker `dead` had begun, and releases what it held.
    pub fn heal(&self, dead: WorkerId) {
        self.books().iter().for_each(|book| book.heal(dead));
    }

    /// The books, in the order of the file.
    pub fn books(&self) -> &[OrderBook] {
        &self.books[..self.count as usize]
    }

    /// The book of stock `id`.
    pub fn find(&self, id: u32) -> Option<&OrderBook> {
        let rows = &self.sorted[..self.count as usize];
        let row = sorted::find(rows, |row| self.books[row as usize].id(), &id)?;
        Some(&self.books[row as usize])
    }
}
