//! The pool of the published experiments: one lock, taken for every allocation and release.
//!
//! Each node has its data between two guards, then the link to the next free node and a mark that
//! it is in use. That order is the original's, so an overrun of eight bytes hits the link and not
//! the guard. Nodes are in one array or in separate allocations, and free ones are reused
//! last in first out or first in first out: four pools. All words are atomics with relaxed order,
//! which cost the same as plain words and let threads share the nodes as the original's did.

use super::build::Build;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The guard word before and after each node's data.
const GUARD: u64 = 0x1234_5678_9abc_def0;
const NONE: u32 = u32::MAX;

/// A node with `W` words of data; its fields lie as they do in the original.
#[derive(Debug)]
#[repr(C)]
pub struct Node<const W: usize> {
    before: AtomicU64,
    data: [AtomicU64; W],
    next: AtomicU32,
    in_use: AtomicBool,
    after: AtomicU64,
}

impl<const W: usize> Node<W> {
    fn new(next: u32) -> Node<W> {
        Node {
            before: AtomicU64::new(GUARD),
            data: [const { AtomicU64::new(0) }; W],
            next: AtomicU32::new(next),
            in_use: AtomicBool::new(false),
            after: AtomicU64::new(GUARD),
        }
    }
}

/// The storage of nodes.
pub trait Backing<const W: usize>: Sync {
    /// Makes `count` nodes, each linked to the next.
    fn new(count: u32) -> Self;
    fn node(&self, index: u32) -> &Node<W>;
}

fn next_of(index: u32, count: u32) -> u32 {
    if index + 1 < count { index + 1 } else { NONE }
}

#[derive(Debug)]
pub struct Array<const W: usize>(Box<[Node<W>]>);

impl<const W: usize> Backing<W> for Array<W> {
    fn new(count: u32) -> Self {
        Array((0..count).map(|at| Node::new(next_of(at, count))).collect())
    }

    #[inline]
    fn node(&self, index: u32) -> &Node<W> {
        &self.0[index as usize]
    }
}

#[derive(Debug)]
pub struct List<const W: usize>(Box<[Box<Node<W>>]>);

impl<const W: usize> Backing<W> for List<W> {
    fn new(count: u32) -> Self {
        List((0..count).map(|at| Box::new(Node::new(next_of(at, count)))).collect())
    }

    #[inline]
    fn node(&self, index: u32) -> &Node<W> {
        &self.0[index as usize]
    }
}

/// The ends of the list of free nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    first: u32,
    last: u32,
    used: u32,
}

/// The lock of the free list.
pub trait Gate {
    fn new(ends: Ends) -> Self;
    /// Runs `change` under the lock.
    fn pass<T>(&self, change: impl FnOnce(&mut Ends) -> T) -> T;
}

#[derive(Debug)]
pub struct Locked(Mutex<Ends>);

impl Gate for Locked {
    fn new(ends: Ends) -> Self {
        Locked(Mutex::new(ends))
    }

    #[inline]
    fn pass<T>(&self, change: impl FnOnce(&mut Ends) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// No lock: for one thread.
#[derive(Debug)]
pub struct Open(RefCell<Ends>);

impl Gate for Open {
    fn new(ends: Ends) -> Self {
        Open(RefCell::new(ends))
    }

    #[inline]
    fn pass<T>(&self, change: impl FnOnce(&mut Ends) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }
}

/// The order in which free nodes are reused.
pub trait Turn {
    /// First in, first out.
    const QUEUE: bool;
}

/// Last in, first out.
#[derive(Clone, Copy, Debug)]
pub struct Stack;

impl Turn for Stack {
    const QUEUE: bool = false;
}

/// First in, first out.
#[derive(Clone, Copy, Debug)]
pub struct Queue;

impl Turn for Queue {
    const QUEUE: bool = true;
}

/// A pool of nodes with `W` words of data.
#[derive(Debug)]
pub struct Pool<const W: usize, S, G, O, B> {
    nodes: S,
    gate: G,
    how: PhantomData<fn() -> (O, B)>,
}

impl<const W: usize, S: Backing<W>, G: Gate, O: Turn, B: Build> Pool<W, S, G, O, B> {
    /// A pool of `count` nodes, at least one.
    pub fn new(count: u32) -> Self {
        let count = count.max(1);
        let ends = Ends { first: 0, last: count - 1, used: 0 };
        Pool { nodes: S::new(count), gate: G::new(ends), how: PhantomData }
    }

    /// Takes a free node, if any.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        self.gate.pass(|ends| {
            let index = B::call(|| ends.first);
            if index == NONE {
                return None;
            }
            let node = B::call(|| self.nodes.node(index));
            ends.first = B::call(|| node.next.load(Relaxed));
            B::call(|| node.before.store(GUARD, Relaxed));
            B::call(|| node.after.store(GUARD, Relaxed));
            B::call(|| node.in_use.store(true, Relaxed));
            ends.used += 1;
            Some(index)
        })
    }

    /// Returns a node; the result says whether it was in use and its guards were intact.
    #[inline]
    pub fn give(&self, index: u32) -> bool {
        let node = B::call(|| self.nodes.node(index));
        let is_sound = B::call(|| node.before.load(Relaxed)) == GUARD
            && B::call(|| node.after.load(Relaxed)) == GUARD
            && B::call(|| swapped(&node.in_use, false));
        if !is_sound {
            return false;
        }
        self.gate.pass(|ends| {
            if O::QUEUE {
                node.next.store(NONE, Relaxed);
                match ends.first {
                    NONE => ends.first = index,
                    _ => B::call(|| self.nodes.node(ends.last).next.store(index, Relaxed)),
                }
                ends.last = index;
            } else {
                B::call(|| node.next.store(ends.first, Relaxed));
                ends.first = index;
            }
            ends.used -= 1;
        });
        true
    }

    #[inline]
    pub fn data(&self, index: u32) -> &[AtomicU64; W] {
        &self.nodes.node(index).data
    }

    pub fn used(&self) -> u32 {
        self.gate.pass(|ends| ends.used)
    }
}

/// The behaviour of a plain word: read, then write.
#[inline]
fn swapped(word: &AtomicBool, value: bool) -> bool {
    let before = word.load(Relaxed);
    word.store(value, Relaxed);
    before
}

#[cfg(test)]
mod tests {
    use super::super::build::{Optimised, Plain};
    use super::*;

    fn check<S: Backing<4>, G: Gate, O: Turn, B: Build>(again: [u32; 2]) {
        let pool = Pool::<4, S, G, O, B>::new(3);
        assert_eq!([0, 1, 2].map(Some), [pool.take(), pool.take(), pool.take()]);
        assert_eq!((pool.take(), pool.used()), (None, 3));
        pool.data(1)[3].store(7, Relaxed);
        assert!(pool.give(1) && pool.give(0));
        assert!(!pool.give(0), "it is free");
        assert_eq!(again.map(Some), [pool.take(), pool.take()]);
        assert_eq!((pool.take(), pool.used()), (None, 3));
    }

    #[test]
    fn a_stack_gives_the_last_and_a_queue_the_first() {
        check::<Array<4>, Locked, Stack, Plain>([0, 1]);
        check::<List<4>, Locked, Queue, Plain>([1, 0]);
        check::<Array<4>, Open, Queue, Optimised>([1, 0]);
        check::<List<4>, Open, Stack, Optimised>([0, 1]);
    }

    #[test]
    fn an_overrun_of_eight_bytes_meets_the_link_and_not_the_guard() {
        // In the original's order of fields the word after the data is the link.
        let node = Node::<4>::new(1);
        let end = std::ptr::from_ref(&node.data).addr() + size_of_val(&node.data);
        let after = std::ptr::from_ref(&node.after).addr();
        assert!(after >= end + size_of::<AtomicU32>(), "eight bytes reach the link alone");
        assert_eq!(std::ptr::from_ref(&node.next).addr(), end);
    }
}
