//! Reads a search tree: find, and a walk in ascending order.
//!
//! A view borrows a tree and its nodes while neither changes; making one costs nothing. A search
//! asks one question a level, "does the key come after?", and uses the answer as the index of the
//! child, so the processor has no branch to predict. It tests for equality once, at the bottom.

use crate::Tree;
use crate::arena::{LEFT, NIL, Node, RIGHT, Stem};
use crate::links;
use std::ops::RangeFrom;

/// A search tree with its nodes, for reading.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, K> {
    stem: Stem,
    nodes: &'a [Node<K>],
}

impl<'a, K> View<'a, K> {
    pub(crate) fn new(stem: Stem, nodes: &'a [Node<K>]) -> View<'a, K> {
        View { stem, nodes }
    }

    /// The number of keys.
    pub fn len(&self) -> u32 {
        self.stem.len
    }

    /// Whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.stem.len == 0
    }

    /// The node with the least key.
    pub fn first(&self) -> Option<u32> {
        some(self.stem.ends[LEFT])
    }
}

impl<'a, K: Ord + Copy> View<'a, K> {
    /// The key of a node that is in the tree.
    #[inline]
    pub fn key(&self, node: u32) -> K {
        self.nodes[node as usize].key
    }

    /// The value of a node that is in the tree.
    #[inline]
    pub fn value(&self, node: u32) -> u32 {
        self.nodes[node as usize].value
    }

    /// The node with `key`.
    #[inline]
    pub fn find(&self, key: K) -> Option<u32> {
        let node = self.bound(|candidate| candidate < key);
        (node != NIL && self.key(node) == key).then_some(node)
    }

    /// The value that was inserted with `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<u32> {
        self.find(key).map(|node| self.value(node))
    }

    /// The first node, in order, whose key makes `is_before` false; all
    /// later keys must make it false too.
    #[inline]
    fn bound(&self, is_before: impl Fn(K) -> bool) -> u32 {
        let (mut at, mut found) = (self.stem.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            let right = is_before(node.key);
            found = if right { found } else { at };
            at = node.child[usize::from(right)];
        }
        found
    }

    /// Every key with its value, ascending.
    pub fn iter(&self) -> Ascending<'a, K> {
        Ascending { view: *self, next: self.stem.ends[LEFT] }
    }

    /// The keys that are not less than the bound with their values, ascending.
    pub fn range(&self, from: RangeFrom<K>) -> Ascending<'a, K> {
        Ascending { view: *self, next: self.bound(|candidate| candidate < from.start) }
    }
}

impl<K> Tree for View<'_, K> {
    fn root(&self) -> Option<u32> {
        some(self.stem.root)
    }

    fn left(&self, node: u32) -> Option<u32> {
        some(self.nodes[node as usize].child[LEFT])
    }

    fn right(&self, node: u32) -> Option<u32> {
        some(self.nodes[node as usize].child[RIGHT])
    }

    fn parent(&self, node: u32) -> Option<u32> {
        some(self.nodes[node as usize].parent())
    }
}

#[inline]
fn some(node: u32) -> Option<u32> {
    (node != NIL).then_some(node)
}

/// Iterator of [`View::range`]: keys and values. A whole walk of n steps costs O(n + height).
#[derive(Debug, Clone)]
pub struct Ascending<'a, K> {
    view: View<'a, K>,
    next: u32,
}

impl<K: Ord + Copy> Iterator for Ascending<'_, K> {
    type Item = (K, u32);

    fn next(&mut self) -> Option<(K, u32)> {
        let at = (self.next != NIL).then_some(self.next)?;
        self.next = links::neighbour(self.view.nodes, at, RIGHT);
        Some((self.view.key(at), self.view.value(at)))
    }
}
