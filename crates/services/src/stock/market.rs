//! The market that all workers share: a frozen structure with atomic leaves.
//!
//! Which stocks there are, their prices and the trees over them never change after the founding, so
//! they are read without any lock. Only how many are left changes, by one atomic read-modify-write
//! an order: a worker that is killed at any instant has either done an order or not begun it.
//!
//! Who orders announces itself at the [`memory::Gate`] for as long as a batch lasts, whatever the
//! lock: closing the gate gives `show` and the saver a moment at which nothing changes, and the
//! gate's version tells whether anything has changed at all. The surprising thing is the size of
//! the type: it lies at full capacity in address space, with room for every [`Index`], and only the
//! pages of the rows that exist and of the book that was chosen are ever touched.

use crate::stock::book::{self, Entry, LEFT_MAX};
use crate::stock::{BadChoice, Index, Lock, Order};
use index::by_id::{ById, Slot};
use index::level_order::LevelOrder;
use index::{Bst, Node, RedBlack, SearchTree, Shape, Tree, sorted};
use memory::{Gate, RwLock, Writing};
use seam::{BadSeed, Share, WorkerId};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wire::decimal;

/// The most stocks in one market.
pub const CAPACITY: usize = 1 << 20;

/// How often the saver looks whether all writers have left before it stops waiting: about 20 ms.
const LOOKS: u32 = 300;

const SLOTS: usize = ById::slots_for(CAPACITY);
const NODES: usize = Node::<u32>::slots_for(CAPACITY);

/// What begins a seed that names a book. No book's file begins so, in any encoding: it begins with
/// a blank, a digit, a comment or a mark.
const SEED_MARK: &[u8] = b"\x01index ";

/// The shared state of the stock service. All-zero bytes are a market without stocks.
#[repr(C)]
pub struct Market {
    tree: LevelOrder,
    index: Index,
    by_id: ById,
    bst: Bst,
    red_black: RedBlack,
    gate: Gate,
    global: memory::Lock,
    rows: [Row; CAPACITY],
    slots: [Slot; SLOTS],
    /// The rows by ascending id.
    sorted: [u32; CAPACITY],
    /// Those of the search tree, if the book is one; a node's value is its row.
    nodes: [Node<u32>; NODES],
    row_locks: [RwLock; CAPACITY],
}

/// One stock; row i is node i of the tree.
#[repr(C)]
struct Row {
    /// How many are left, at most [`LEFT_MAX`].
    left: AtomicU64,
    id: u32,
    price: u32,
}

/// Why an order was not carried out. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer are left than were to be bought.
    NotEnough,
    /// More would be left than [`LEFT_MAX`].
    TooMany,
}

// SAFETY: every field is valid when zero (numbers, and types that say so of themselves), none holds
// a pointer or has a destructor, and what changes through `&self` is atomic: `left`, the gate, the
// locks.
unsafe impl Share for Market {
    /// Takes the bytes of a `stock.txt`, or what [`Market::seed`] has made of them.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let (index, seed) = match seed.strip_prefix(SEED_MARK) {
            Some(named) => chosen(named)?,
            None => (Index::default(), seed),
        };
        self.index = index;
        let entries = book::parse(seed, CAPACITY).map_err(|bad| BadSeed(bad.to_string()))?;
        self.fill(&entries);
        Ok(())
    }

    fn heal(&self, dead: WorkerId) {
        // The per-stock locks are not here: they are refused where workers are processes.
        self.gate.heal(dead);
        self.global.force_release(dead);
    }
}

impl Market {
    /// The seed of a market that finds its stocks by `book`; `text` is a `stock.txt`.
    pub fn seed(index: Index, text: &[u8]) -> Vec<u8> {
        [SEED_MARK, index.name().as_bytes(), b"\n", text].concat()
    }

    fn fill(&mut self, entries: &[Entry]) {
        const PARSED: &str = "the parser counted the rows, and refused duplicates and zero";
        for entry in entries {
            let node = self.tree.push(CAPACITY as u32).expect(PARSED);
            let Row { left, id, price } = &mut self.rows[node as usize];
            (*left.get_mut(), *id, *price) = (entry.left, entry.id, entry.price);
        }
        let Market { tree, rows, sorted, nodes, .. } = self;
        let (sorted, id) = (&mut sorted[..entries.len()], |row: u32| rows[row as usize].id);
        tree.sort_into(sorted, id);
        match self.index {
            Index::Hash => {
                self.by_id = ById::sized_for(entries.len());
                for row in tree.by_level() {
                    self.by_id.insert(&mut self.slots, id(row), row).expect(PARSED);
                }
            }
            Index::Bst => self.bst = Bst::grown(nodes, sorted, id),
            Index::RedBlack => {
                for row in tree.by_level() {
                    self.red_black.insert(nodes, id(row), row).expect(PARSED);
                }
            }
            // The rows are the one, and their numbers are sorted anyway.
            Index::LevelOrder | Index::Sorted => {}
        }
    }

    /// How many stocks there are.
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Whether there is no stock, as before the founding.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// What finds a stock here.
    pub fn index(&self) -> Index {
        self.index
    }

    /// How the tree is built that finds a stock, if it is a search tree.
    ///
    /// # Panics
    /// If it is broken, which a worker that only reads it cannot do.
    pub fn shape(&self) -> Option<Shape> {
        let shape = match self.index {
            Index::Bst => self.bst.check(&self.nodes),
            Index::RedBlack => self.red_black.check(&self.nodes),
            Index::Hash | Index::LevelOrder | Index::Sorted => return None,
        };
        Some(shape.unwrap_or_else(|broken| panic!("{broken}")))
    }

    /// The row of stock `id`.
    #[inline]
    pub fn find(&self, id: u32) -> Option<u32> {
        match self.index {
            Index::Hash => self.by_id.find(&self.slots, id),
            Index::LevelOrder => self.tree.find(|row| self.rows[row as usize].id, &id),
            Index::Bst => self.bst.view(&self.nodes).get(id),
            Index::RedBlack => self.red_black.view(&self.nodes).get(id),
            Index::Sorted => {
                sorted::find(&self.sorted[..self.len()], |row| self.rows[row as usize].id, &id)
            }
        }
    }

    /// Stock `row` as it is now; concurrent orders may change it at once.
    #[inline]
    pub fn entry(&self, row: u32) -> Entry {
        let Row { left, id, price } = &self.rows[row as usize];
        Entry { id: *id, left: left.load(Relaxed), price: *price }
    }

    /// Announces that worker `me` is going to order; whoever wants a snapshot waits until the
    /// result is dropped. To be held for a batch and no longer.
    #[inline]
    pub fn enter(&self, me: WorkerId) -> Writing<'_> {
        self.gate.enter(me)
    }

    /// Takes `count` of stock `row`. The caller has entered.
    ///
    /// # Errors
    /// [`Refusal::NotEnough`].
    #[inline]
    pub fn buy(&self, row: u32, count: u32) -> Result<(), Refusal> {
        let less = |left: u64| left.checked_sub(count.into());
        self.rows[row as usize]
            .left
            .fetch_update(Relaxed, Relaxed, less)
            .map_or(Err(Refusal::NotEnough), |_| Ok(()))
    }

    /// Puts `count` of stock `row` back. The caller has entered.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    #[inline]
    pub fn sell(&self, row: u32, count: u32) -> Result<(), Refusal> {
        // Neither summand reaches 2^63, so the sum does not overflow.
        let more = |left: u64| Some(left + u64::from(count)).filter(|left| *left <= LEFT_MAX);
        self.rows[row as usize]
            .left
            .fetch_update(Relaxed, Relaxed, more)
            .map_or(Err(Refusal::TooMany), |_| Ok(()))
    }

    /// Runs `order` under the lock that `lock` wants around an order on `row`.
    #[inline]
    pub fn locked<T>(&self, lock: Lock, me: WorkerId, row: u32, order: impl FnOnce() -> T) -> T {
        match lock {
            Lock::Snapshot => order(),
            Lock::PerStock => {
                let _alone = self.row_locks[row as usize].write();
                order()
            }
            Lock::Global => {
                let _alone = self.global.lock(me);
                order()
            }
        }
    }

    /// A number that changes whenever an order may have changed something, and never returns to an
    /// earlier value.
    pub fn version(&self) -> u64 {
        self.gate.version()
    }

    /// Whether an order may have changed something since [`Market::version`] was `version`.
    pub fn changed_since(&self, version: u64) -> bool {
        self.version() != version
    }

    /// Copies what is left of each row, all at one instant, to `lefts`, and returns the version of
    /// that instant. `lefts` has one element for each row. `me` must not have entered: it would
    /// wait for itself.
    pub fn copy_lefts(&self, me: WorkerId, lefts: &mut [u64]) -> u64 {
        let closed = self.gate.close(me);
        self.copy_now(lefts);
        let version = self.gate.version();
        drop(closed);
        version
    }

    fn copy_now(&self, lefts: &mut [u64]) {
        for (left, row) in lefts.iter_mut().zip(&self.rows[..self.len()]) {
            *left = row.left.load(Relaxed);
        }
    }

    /// Appends the book as `show` lists it, from what [`Market::copy_lefts`] copied.
    pub fn render(&self, order: Order, lefts: &[u64], out: &mut Vec<u8>) {
        self.each_row(order, |row| {
            let Row { id, price, .. } = self.rows[row as usize];
            book::push_line(out, Entry { id, left: lefts[row as usize], price });
        });
    }

    /// Appends the book as `show` lists it, with the one lock held by `me`, so that all rows are of
    /// one instant if all orders take it too.
    pub fn render_locked(&self, order: Order, me: WorkerId, out: &mut Vec<u8>) {
        let _alone = self.global.lock(me);
        self.each_row(order, |row| book::push_line(out, self.entry(row)));
    }

    /// Appends the book as `show` lists it, with one row's lock held at a time: each row is as it
    /// was when its turn came.
    pub fn render_by_row(&self, order: Order, out: &mut Vec<u8>) {
        self.each_row(order, |row| {
            let _shared = self.row_locks[row as usize].read();
            book::push_line(out, self.entry(row));
        });
    }

    /// Appends the book as a file, in the order of the file, and returns its version for
    /// [`Market::changed_since`]. `me` must not have entered.
    ///
    /// The file is of one instant, unless some worker stays in for tens of milliseconds: then it
    /// was stopped or killed, and the caller may be the one who has to heal it. The file then holds
    /// every order that was answered before the call, and of later ones any.
    pub fn render_file(&self, me: WorkerId, out: &mut Vec<u8>) -> u64 {
        let mut lefts = vec![0; self.len()];
        let closed = self.gate.try_close(me, LOOKS);
        // Read before the rows, so that what changes meanwhile counts as a change.
        let version = self.gate.version();
        self.copy_now(&mut lefts);
        drop(closed);
        self.render(Order::File, &lefts, out);
        version
    }

    /// How many bytes `show` can take at most, whatever is sold: ids and prices as they are, LEFT
    /// as long as it can become.
    pub fn show_max(&self) -> usize {
        let left = decimal::width(LEFT_MAX);
        let line = |row: &Row| {
            let [id, price] = [row.id, row.price].map(|number| decimal::width(number.into()));
            id + b" ".len() + left + b" ".len() + price + b"\n".len()
        };
        self.rows[..self.len()].iter().map(line).sum()
    }

    fn each_row(&self, order: Order, mut visit: impl FnMut(u32)) {
        match order {
            Order::File => self.tree.by_level().for_each(visit),
            Order::Sorted => self.sorted[..self.len()].iter().for_each(|row| visit(*row)),
            Order::PreOrder => {
                let view = match self.index {
                    Index::Bst => self.bst.view(&self.nodes),
                    Index::RedBlack => self.red_black.view(&self.nodes),
                    Index::Hash | Index::LevelOrder | Index::Sorted => {
                        return self.tree.pre_order().for_each(visit);
                    }
                };
                view.pre_order().for_each(|node| visit(view.value(node)));
            }
        }
    }
}

/// The book that a seed names, and the file behind its name.
fn chosen(named: &[u8]) -> Result<(Index, &[u8]), BadSeed> {
    let end = named.iter().position(|byte| *byte == b'\n').unwrap_or(named.len());
    let (name, text) = named.split_at(end);
    let index = String::from_utf8_lossy(name).parse();
    let index = index.map_err(|bad: BadChoice| BadSeed(format!("1:1: {bad}")))?;
    Ok((index, text.strip_prefix(b"\n").unwrap_or_default()))
}
