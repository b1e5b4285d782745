//! One stock's orders: buyers and sellers by price, then by time.
//!
//! Each price of the band is a level, a list of its orders by age; bitmaps of two storeys find the
//! best level of a side. An order lies at its number modulo [`ORDERS_MAX`] until a later one needs
//! the place, so its owner can ask for its fate.
//!
//! A worker can be killed at any instruction. The facts are few: the last number, each order's fill
//! and cancellation, the price and the sums. They change by one store each, a trade's four through
//! a [`Trade`] that is published first. Everything else follows from them: [`OrderBook::heal`]
//! completes the trade, makes levels and bitmaps again, and finishes the last order.

use crate::trade::Side;
use memory::{Lock, Locked, Padded};
use seam::WorkerId;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The open orders of one stock.
pub const ORDERS_MAX: usize = 1 << 14;
/// The prices that orders of one stock may have, one beside the other.
pub const BAND: usize = 1 << 14;

const WORDS: usize = BAND / 64;
/// Set in an order's kind if it sells, and if it was cancelled.
const SELLS: u32 = 1;
const CANCELLED: u32 = 2;

/// The orders of a stock; all-zero bytes are an empty book.
#[repr(C)]
pub struct OrderBook {
    lock: Padded<Lock>,
    id: u32,
    /// The price of level 0.
    floor: u32,
    /// The number of the last order.
    last: AtomicU64,
    /// Of the last trade; before it, that of the file.
    price: AtomicU64,
    traded: AtomicU64,
    value: AtomicU64,
    trade: Trade,
    sides: [Half; 2],
    levels: [Level; BAND],
    orders: [Order; ORDERS_MAX],
}

/// One side of the book.
#[repr(C)]
struct Half {
    /// Its open orders, and their shares.
    orders: AtomicU32,
    shares: AtomicU64,
    /// A bit for each word that is not zero.
    groups: [AtomicU64; WORDS / 64],
    /// A bit for each level that has orders, the best first.
    words: [AtomicU64; WORDS],
}

/// The orders of one price, by age: places plus 1; 0: none.
#[repr(C)]
struct Level {
    first: AtomicU32,
    last: AtomicU32,
    shares: AtomicU64,
}

#[repr(C)]
struct Order {
    number: AtomicU64,
    size: AtomicU32,
    filled: AtomicU32,
    level: AtomicU32,
    kind: AtomicU32,
    /// Its neighbours in the level, as places plus 1.
    before: AtomicU32,
    after: AtomicU32,
}

/// A trade that is being carried out, as the values after it; `maker` is 0 otherwise.
#[repr(C)]
struct Trade {
    /// The place of the order that was there, plus 1.
    maker: AtomicU32,
    maker_filled: AtomicU32,
    taker_filled: AtomicU32,
    price: AtomicU32,
    traded: AtomicU64,
    value: AtomicU64,
}

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its number.
    pub number: u64,
    /// Its shares that were traded at once, and their value, modulo 2^64.
    pub filled: u32,
    /// See `filled`.
    pub value: u64,
    /// Its shares that wait for others.
    pub open: u32,
}

/// Why an order was refused. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum NotPlaced {
    /// The price is beyond the band.
    #[display("expected PRICE from {_0} to {_1}, the band of this stock, found {_2}")]
    Beyond(u32, u32, u32),
    /// There is no room.
    #[display("{ORDERS_MAX} orders of this stock are open; cancel some, or try again later")]
    Full,
}

impl std::error::Error for NotPlaced {}

/// The state of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Its side.
    pub side: Side,
    /// Its shares in all, and those traded.
    pub size: u32,
    /// See `size`.
    pub filled: u32,
    /// Its price.
    pub price: u32,
    /// Whether the rest was taken back.
    pub is_cancelled: bool,
}

/// The sums of a book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The best price of buyers and of sellers; 0: none.
    pub best: [u32; 2],
    /// The price of the last trade; before it, that of the file.
    pub price: u32,
    /// Open shares of buyers and of sellers.
    pub open: [u64; 2],
    /// Shares traded.
    pub traded: u64,
    /// Their value, modulo 2^64.
    pub value: u64,
}

/// Stores what another worker may have to complete: after everything before it, also in a process
/// that is killed.
macro_rules! store {
    ($place:expr, $value:expr) => {{
        #[cfg(test)]
        tests::burn();
        $place.store($value, Release)
    }};
}

fn put(number: &AtomicU64, by: i64) {
    number.store(number.load(Relaxed).wrapping_add_signed(by), Relaxed);
}

impl OrderBook {
    /// Makes the empty book of stock `id`; `price` is the middle of its band.
    pub fn found(&mut self, id: u32, price: u32) {
        self.id = id;
        self.floor = price.saturating_sub(BAND as u32 / 2).clamp(1, i32::MAX as u32 - BAND as u32);
        *self.price.get_mut() = price.into();
    }

    /// The stock.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Takes the book for `me`.
    pub fn lock(&self, me: WorkerId) -> Locked<'_> {
        self.lock.lock(me)
    }

    /// Trades an order of `size` shares, and keeps what is left of it. The caller has the lock.
    ///
    /// # Errors
    /// [`NotPlaced`].
    pub fn place(&self, side: Side, size: u32, price: u32) -> Result<Placed, NotPlaced> {
        let most = self.floor + BAND as u32 - 1;
        if !(self.floor..=most).contains(&price) {
            return Err(NotPlaced::Beyond(self.floor, most, price));
        }
        let number = self.room().ok_or(NotPlaced::Full)?;
        let value = self.value.load(Relaxed);
        let order = &self.orders[place_of(number)];
        // The order that was here is over; it must not seem to be half of the new one.
        store!(order.number, 0);
        store!(order.size, size);
        store!(order.filled, 0);
        store!(order.level, price - self.floor);
        store!(order.kind, if side == Side::Sell { SELLS } else { 0 });
        store!(order.number, number);
        store!(self.last, number);
        self.finish(number);
        let filled = order.filled.load(Relaxed);
        let value = self.value.load(Relaxed).wrapping_sub(value);
        Ok(Placed { number, filled, value, open: size - filled })
    }

    /// Takes back what is open of an order; the shares, which are 0 if it was over. `None`: there
    /// is no such order any more. The caller has the lock.
    pub fn cancel(&self, number: u64) -> Option<u32> {
        let order = self.find(number)?;
        let open = order.open();
        if open > 0 {
            store!(order.kind, order.kind.load(Relaxed) | CANCELLED);
            self.unlink(place_of(number), open);
        }
        Some(open)
    }

    /// The state of an order, as long as it is open and for some time after. The caller has the
    /// lock.
    pub fn state(&self, number: u64) -> Option<State> {
        let order = self.find(number)?;
        Some(State {
            side: order.side(),
            size: order.size.load(Relaxed),
            filled: order.filled.load(Relaxed),
            price: self.floor + order.level.load(Relaxed),
            is_cancelled: order.kind.load(Relaxed) & CANCELLED != 0,
        })
    }

    /// The sums of the book. The caller has the lock.
    pub fn summary(&self) -> Summary {
        let best = |side| self.best(side).map_or(0, |level| self.floor + level);
        Summary {
            best: [best(Side::Buy), best(Side::Sell)],
            price: self.price.load(Relaxed) as u32,
            open: [0, 1].map(|side: usize| self.sides[side].shares.load(Relaxed)),
            traded: self.traded.load(Relaxed),
            value: self.value.load(Relaxed),
        }
    }

    /// The best prices of a side, the best first, with their shares. The caller has the lock.
    pub fn depth(&self, side: Side) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let rank = self.sides[side as usize].first(from?)?;
            from = rank.checked_add(1).filter(|rank| *rank < BAND);
            let level = ranked(side, rank);
            let shares = self.levels[level as usize].shares.load(Relaxed);
            Some((self.floor + level, shares))
        })
    }

    /// Completes what the worker `dead` had begun, and releases what it held.
    pub fn heal(&self, dead: WorkerId) {
        if self.lock.is_held_by(dead) {
            if self.trade.maker.load(Acquire) != 0 {
                self.carry_out();
            }
            self.rebuild();
        }
        self.lock.force_release(dead);
    }

    /// The next number whose place is free.
    fn room(&self) -> Option<u64> {
        let open: u32 = self.sides.iter().map(|half| half.orders.load(Relaxed)).sum();
        let last = self.last.load(Relaxed);
        let is_free = |number: &u64| {
            let order = &self.orders[place_of(*number)];
            // A killed worker may have left an order that does not count.
            !(1..=last).contains(&order.number.load(Relaxed)) || order.open() == 0
        };
        // Some place is free, so the search ends.
        (open < ORDERS_MAX as u32).then(|| (last + 1..).find(is_free)).flatten()
    }

    fn find(&self, number: u64) -> Option<&Order> {
        let order = &self.orders[place_of(number)];
        let is_it = number <= self.last.load(Relaxed) && order.number.load(Relaxed) == number;
        is_it.then_some(order)
    }

    /// The best level of a side.
    fn best(&self, side: Side) -> Option<u32> {
        self.sides[side as usize].first(0).map(|rank| ranked(side, rank))
    }

    /// Trades the last order with those that were there, and links what is left.
    fn finish(&self, number: u64) {
        let taker = &self.orders[place_of(number)];
        let (side, level) = (taker.side(), taker.level.load(Relaxed));
        let other = if side == Side::Buy { Side::Sell } else { Side::Buy };
        while taker.open() > 0 {
            let meets = |best: &u32| rank(side, *best) >= rank(side, level);
            let Some(best) = self.best(other).filter(meets) else {
                return self.link(place_of(number));
            };
            let place = self.levels[best as usize].first.load(Relaxed) as usize - 1;
            self.meet(taker, place, best);
        }
    }

    /// One trade, at the price of the order that was there.
    fn meet(&self, taker: &Order, place: usize, level: u32) {
        let maker = &self.orders[place];
        let count = taker.open().min(maker.open());
        let price = self.floor + level;
        let value = u64::from(count) * u64::from(price);
        let it = &self.trade;
        it.maker_filled.store(maker.filled.load(Relaxed) + count, Relaxed);
        it.taker_filled.store(taker.filled.load(Relaxed) + count, Relaxed);
        it.price.store(price, Relaxed);
        it.traded.store(self.traded.load(Relaxed).wrapping_add(count.into()), Relaxed);
        it.value.store(self.value.load(Relaxed).wrapping_add(value), Relaxed);
        store!(it.maker, place as u32 + 1);
        self.carry_out();
        if maker.open() == 0 {
            self.unlink(place, count);
        } else {
            self.count(maker, -i64::from(count));
        }
    }

    /// Carries out the published trade, perhaps for the second time.
    fn carry_out(&self) {
        let it = &self.trade;
        let maker = &self.orders[it.maker.load(Relaxed) as usize - 1];
        let taker = &self.orders[place_of(self.last.load(Relaxed))];
        store!(maker.filled, it.maker_filled.load(Relaxed));
        store!(taker.filled, it.taker_filled.load(Relaxed));
        store!(self.price, it.price.load(Relaxed).into());
        store!(self.traded, it.traded.load(Relaxed));
        store!(self.value, it.value.load(Relaxed));
        store!(it.maker, 0);
    }

    /// Adds shares to the sums of an order's level and side.
    fn count(&self, order: &Order, by: i64) {
        put(&self.levels[order.level.load(Relaxed) as usize].shares, by);
        put(&self.sides[order.side() as usize].shares, by);
    }

    /// Puts an order at the end of its level.
    fn link(&self, place: usize) {
        let order = &self.orders[place];
        let (level, half) = (order.level.load(Relaxed), &self.sides[order.side() as usize]);
        let list = &self.levels[level as usize];
        let (me, last) = (place as u32 + 1, list.last.load(Relaxed));
        store!(order.before, last);
        store!(order.after, 0);
        match last {
            0 => {
                store!(list.first, me);
                half.mark(rank(order.side(), level), true);
            }
            last => store!(self.orders[last as usize - 1].after, me),
        }
        store!(list.last, me);
        store!(half.orders, half.orders.load(Relaxed) + 1);
        self.count(order, order.open().into());
    }

    /// Takes an order with `open` shares out of its level.
    fn unlink(&self, place: usize, open: u32) {
        let order = &self.orders[place];
        let (level, half) = (order.level.load(Relaxed), &self.sides[order.side() as usize]);
        let list = &self.levels[level as usize];
        let (before, after) = (order.before.load(Relaxed), order.after.load(Relaxed));
        match before {
            0 => store!(list.first, after),
            before => store!(self.orders[before as usize - 1].after, after),
        }
        match after {
            0 => store!(list.last, before),
            after => store!(self.orders[after as usize - 1].before, before),
        }
        if before == 0 && after == 0 {
            half.mark(rank(order.side(), level), false);
        }
        store!(half.orders, half.orders.load(Relaxed) - 1);
        self.count(order, -i64::from(open));
    }

    /// Makes levels, bitmaps and sums of the sides again, and finishes the last order.
    fn rebuild(&self) {
        for Half { orders, shares, groups, words } in &self.sides {
            orders.store(0, Relaxed);
            groups.iter().chain(words).chain([shares]).for_each(|word| word.store(0, Relaxed));
        }
        for Level { first, last, shares } in &self.levels {
            first.store(0, Relaxed);
            last.store(0, Relaxed);
            shares.store(0, Relaxed);
        }
        let end = self.last.load(Acquire);
        let numbers = self.orders.iter().map(|order| order.number.load(Relaxed));
        let is_open =
            |number: &u64| (1..end).contains(number) && self.orders[place_of(*number)].open() > 0;
        let mut open: Vec<u64> = numbers.filter(is_open).collect();
        open.sort_unstable();
        open.into_iter().for_each(|number| self.link(place_of(number)));
        if end > 0 {
            self.finish(end);
        }
    }
}

/// Where the order with this number lies.
fn place_of(number: u64) -> usize {
    (number % ORDERS_MAX as u64) as usize
}

/// The rank of a level in its side: 0 is the best possible one. It is its own inverse.
fn rank(side: Side, level: u32) -> usize {
    match side {
        Side::Buy => BAND - 1 - level as usize,
        Side::Sell => level as usize,
    }
}

fn ranked(side: Side, at: usize) -> u32 {
    rank(side, at as u32) as u32
}

impl Order {
    fn side(&self) -> Side {
        if self.kind.load(Relaxed) & SELLS == 0 { Side::Buy } else { Side::Sell }
    }

    fn open(&self) -> u32 {
        match self.kind.load(Relaxed) & CANCELLED {
            0 => self.size.load(Relaxed).saturating_sub(self.filled.load(Relaxed)),
            _ => 0,
        }
    }
}

impl Half {
    /// The best rank from `from` on that has orders.
    fn first(&self, from: usize) -> Option<usize> {
        let from_bit = |word: u64, bit: usize| word & (u64::MAX << bit);
        let here = from_bit(self.words[from / 64].load(Relaxed), from % 64);
        if here != 0 {
            return Some(from / 64 * 64 + here.trailing_zeros() as usize);
        }
        let next = from / 64 + 1;
        let group = (next / 64..self.groups.len()).find_map(|at| {
            let skipped = if at == next / 64 { next % 64 } else { 0 };
            let bits = from_bit(self.groups[at].load(Relaxed), skipped);
            (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)
        })?;
        Some(group * 64 + self.words[group].load(Relaxed).trailing_zeros() as usize)
    }

    fn mark(&self, rank: usize, is_used: bool) {
        let set = |word: &AtomicU64, bit: usize, is_set: bool| {
            let bits = word.load(Relaxed) & !(1 << bit) | u64::from(is_set) << bit;
            store!(word, bits);
            bits
        };
        let word = rank / 64;
        let rest = set(&self.words[word], rank % 64, is_used);
        set(&self.groups[word / 64], word % 64, rest != 0);
    }
}

#[cfg(test)]
mod tests;
