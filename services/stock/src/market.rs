//! The market that all workers share: a frozen structure with atomic leaves.
//!
//! Ids, prices and indexes never change after start, so they are read without locks. Only the
//! amount left changes, by one atomic read-modify-write per order: a worker killed at any instant
//! has either executed an order or not begun it.
//!
//! A worker enters the [`memory::Gate`] for each batch of orders, whatever the lock. Closing the
//! gate gives `show` and the saver an instant at which nothing changes, and the gate's version
//! checks whether anything has changed. The type is surprisingly large: it reserves address space
//! for the full capacity and every [`Index`], but only the pages of existing rows and of the chosen
//! index are ever touched.

use crate::book::{self, Entry, LEFT_MAX};
use crate::queue::OrderQueue;
use crate::{Index, Lock, Order};
use index::by_id::{ById, Slot};
use index::level_order::LevelOrder;
use index::{Bst, Node, RedBlack, SearchTree, Shape, Tree};
use memory::{Gate, RwLock, Writing};
use seam::{BadSeed, Dead, Share, WorkerId};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wire::decimal;

/// The most stocks in one market.
pub const CAPACITY: usize = 1 << 20;

/// How often the saver checks whether all writers have left before it gives up: about 20 ms.
const LOOKS: u32 = 300;

const SLOTS: usize = ById::slots_for(CAPACITY);
const NODES: usize = Node::<u32>::slots_for(CAPACITY);

/// The prefix of a seed that names an index. No `stock.txt` in any encoding begins with it.
const SEED_MARK: &[u8] = b"\x01index ";

/// The shared state of the stock service. All-zero bytes are a market without stocks.
///
/// It holds all five indexes and every lock, whichever are chosen: a type in shared memory has one
/// layout, and a successor with other flags takes the memory over as it is.
#[repr(C)]
pub struct Market {
    tree: LevelOrder,
    index: Index,
    by_id: ById,
    bst: Bst,
    red_black: RedBlack,
    gate: Gate,
    global: memory::Lock,
    /// The digests of the last two files.
    files: [AtomicU64; 2],
    rows: [Row; CAPACITY],
    slots: [Slot; SLOTS],
    /// The rows by ascending id.
    sorted: [u32; CAPACITY],
    /// The nodes of the search tree, if the index is one; a node's value is its row.
    nodes: [Node<u32>; NODES],
    row_locks: [RwLock; CAPACITY],
    orders: OrderQueue,
}

/// One stock; row i is node i of the tree.
#[repr(C)]
struct Row {
    /// How many are left, at most [`LEFT_MAX`].
    left: AtomicU64,
    id: u32,
    price: u32,
}

/// Why an order was refused. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer are left than the order wants.
    NotEnough,
    /// More would be left than [`LEFT_MAX`].
    TooMany,
}

// SAFETY: every field is valid when zero (numbers, and types that are `Share` themselves), none
// holds a pointer or has a destructor, and what changes through `&self` is atomic: `left`, the
// gate, the locks, the queue of orders.
unsafe impl Share for Market {
    /// Takes the bytes of a `stock.txt`, or a seed from [`Market::seed`].
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

    fn heal(&self, dead: Dead) {
        self.heal(dead.worker());
    }
}

impl Market {
    /// Releases what the worker `dead` held.
    pub fn heal(&self, dead: WorkerId) {
        // The per-stock locks are not healed: they are refused if workers are processes.
        OrderQueue::heal(self, dead);
        self.gate.heal(dead);
        self.global.force_release(dead);
    }

    /// The orders on their way to a log.
    pub fn orders(&self) -> &OrderQueue {
        &self.orders
    }

    /// Replaces the amount left of stock `row`: before any worker exists, or by the holder of the
    /// queue of orders, or by the committer of a market that several nodes serve.
    pub fn set_left(&self, row: u32, left: u64) {
        self.rows[row as usize].left.store(left, Relaxed);
    }

    /// The amount left of stock `row` after an order of `change` shares, for the holder of the
    /// queue of orders.
    pub(super) fn left_after(&self, row: u32, change: i32) -> Result<u64, Refusal> {
        let left = self.rows[row as usize].left.load(Relaxed);
        let after = left.checked_add_signed(change.into()).ok_or(Refusal::NotEnough)?;
        if after <= LEFT_MAX { Ok(after) } else { Err(Refusal::TooMany) }
    }

    /// The seed of a market with this index; `text` is a `stock.txt`.
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
            // The rows are the complete tree, and the sorted array is built above.
            Index::LevelOrder | Index::Sorted => {}
        }
    }

    /// How many stocks there are.
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Whether there is no stock, as before `init`.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// The index of this market.
    pub fn index(&self) -> Index {
        self.index
    }

    /// The shape of the index, if it is a search tree.
    ///
    /// # Panics
    /// If it is corrupt, which no reader can cause.
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
                let rows = &self.sorted[..self.len()];
                let at = rows.binary_search_by_key(&id, |row| self.rows[*row as usize].id);
                at.ok().map(|at| rows[at])
            }
        }
    }

    /// Stock `row` now; concurrent orders may change it immediately.
    #[inline]
    pub fn entry(&self, row: u32) -> Entry {
        let Row { left, id, price } = &self.rows[row as usize];
        Entry { id: *id, left: left.load(Relaxed), price: *price }
    }

    /// Enters the market for orders of worker `me`; snapshots wait until the result is dropped, so
    /// hold it for one batch only.
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

    /// Runs `order` under the lock that `lock` requires for an order on `row`.
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

    /// A number that grows whenever something may have changed.
    pub fn version(&self) -> u64 {
        self.gate.version()
    }

    /// Whether something may have changed since [`Market::version`] was `version`.
    pub fn changed_since(&self, version: u64) -> bool {
        self.version() != version
    }

    /// Copies the amount left of every row, all at one instant, to `lefts`, and returns the version
    /// of that instant. `lefts` has one element per row. `me` must not have entered, or it would
    /// wait for itself.
    pub fn copy_lefts(&self, me: WorkerId, lefts: &mut [u64]) -> u64 {
        let closed = self.gate.close(me);
        // Read before the rows, so that an adjustment meanwhile counts as a change.
        let version = self.version();
        self.copy_now(lefts);
        drop(closed);
        version
    }

    fn copy_now(&self, lefts: &mut [u64]) {
        for (left, row) in lefts.iter_mut().zip(&self.rows[..self.len()]) {
            *left = row.left.load(Relaxed);
        }
    }

    /// Appends the book as `show` lists it, from the result of [`Market::copy_lefts`].
    pub fn render(&self, order: Order, lefts: &[u64], out: &mut Vec<u8>) {
        self.each_row(order, |row| {
            let Row { id, price, .. } = self.rows[row as usize];
            book::push_line(out, Entry { id, left: lefts[row as usize], price });
        });
    }

    /// Appends the book as `show` lists it while `me` holds the global lock: a snapshot, if all
    /// orders take that lock too.
    pub fn render_locked(&self, order: Order, me: WorkerId, out: &mut Vec<u8>) {
        let _alone = self.global.lock(me);
        self.each_row(order, |row| book::push_line(out, self.entry(row)));
    }

    /// Appends the book as `show` lists it, locking one row at a time: each row is as of its own
    /// instant.
    pub fn render_by_row(&self, order: Order, out: &mut Vec<u8>) {
        self.each_row(order, |row| {
            let _shared = self.row_locks[row as usize].read();
            book::push_line(out, self.entry(row));
        });
    }

    /// Copies the amount left of every row to `lefts` for a file, and returns the version for
    /// [`Market::changed_since`]. `me` must not have entered.
    ///
    /// The amounts are of one instant, unless a worker stays in the market for tens of
    /// milliseconds: it was stopped or killed, and the caller may be the one that must heal it.
    /// Then they contain every order answered before the call and some of the later ones.
    pub fn copy_for_file(&self, me: WorkerId, lefts: &mut Vec<u64>) -> u64 {
        lefts.clear();
        lefts.resize(self.len(), 0);
        let closed = self.gate.try_close(me, LOOKS);
        // Read before the rows, so that concurrent changes count as changes.
        let version = self.version();
        self.copy_now(lefts);
        drop(closed);
        version
    }

    /// Notes the digest of a file that is about to be written, next to the one before. A successor
    /// that serves this market thereby tells a save of its predecessor from a change by hand.
    pub fn note_file(&self, digest: u64) {
        let before = self.files[1].swap(digest, Relaxed);
        self.files[0].store(before, Relaxed);
    }

    /// Whether [`Market::note_file`] noted this digest last, or the time before.
    pub fn is_noted(&self, digest: u64) -> bool {
        self.files.iter().any(|noted| noted.load(Relaxed) == digest)
    }

    /// The length of `show` in bytes: as the amounts are now, and with each at its longest.
    pub fn show_len(&self) -> (usize, usize) {
        let rest = |row: &Row| {
            let [id, price] = [row.id, row.price].map(|number| decimal::width(number.into()));
            id + b" ".len() + b" ".len() + price + b"\n".len()
        };
        let rows = &self.rows[..self.len()];
        let rest: usize = rows.iter().map(rest).sum();
        let now: usize = rows.iter().map(|row| decimal::width(row.left.load(Relaxed))).sum();
        (rest + now, rest + rows.len() * decimal::width(LEFT_MAX))
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

/// The index that a seed names, and the text after the name.
fn chosen(named: &[u8]) -> Result<(Index, &[u8]), BadSeed> {
    let end = named.iter().position(|byte| *byte == b'\n').unwrap_or(named.len());
    let (name, text) = named.split_at(end);
    let index = String::from_utf8_lossy(name).parse();
    let index = index.map_err(|bad: String| BadSeed(format!("1:1: {bad}")))?;
    Ok((index, text.strip_prefix(b"\n").unwrap_or_default()))
}
