//! Reads a search tree: find, neighbours, ranges, in both directions.
//!
//! A view borrows a tree and its nodes while neither changes; making one costs nothing. A search
//! asks one question a level, "does the key come after?", and uses the answer as the index of the
//! child, so the processor has no branch to predict. It tests for equality once, at the bottom.

use crate::Tree;
use crate::arena::{LEFT, NIL, Node, RIGHT, Stem};
use crate::links;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// A search tree with its nodes, for reading.
#[derive(Debug)]
pub struct View<'a, K> {
    stem: Stem,
    nodes: &'a [Node<K>],
}

impl<K> Clone for View<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for View<'_, K> {}

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

    /// The node with the greatest key.
    pub fn last(&self) -> Option<u32> {
        some(self.stem.ends[RIGHT])
    }

    /// The node with the next greater key.
    pub fn after(&self, node: u32) -> Option<u32> {
        some(self.neighbour(node, RIGHT))
    }

    /// The node with the next smaller key.
    pub fn before(&self, node: u32) -> Option<u32> {
        some(self.neighbour(node, LEFT))
    }

    fn neighbour(&self, node: u32, side: usize) -> u32 {
        links::neighbour(self.nodes, node, side)
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

    /// The node with the least key that is not less than `key`.
    pub fn at_least(&self, key: K) -> Option<u32> {
        some(self.bound(|candidate| candidate < key))
    }

    /// The node with the least key that is greater than `key`.
    pub fn above(&self, key: K) -> Option<u32> {
        some(self.bound(|candidate| candidate <= key))
    }

    /// The node with the greatest key that is not greater than `key`.
    pub fn at_most(&self, key: K) -> Option<u32> {
        self.last_where(|candidate| candidate <= key)
    }

    /// The node with the greatest key that is less than `key`.
    pub fn below(&self, key: K) -> Option<u32> {
        self.last_where(|candidate| candidate < key)
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

    /// The last node, in order, whose key makes `is_in` true; all
    /// earlier keys must make it true too.
    fn last_where(&self, is_in: impl Fn(K) -> bool) -> Option<u32> {
        let (mut at, mut found) = (self.stem.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            let right = is_in(node.key);
            found = if right { at } else { found };
            at = node.child[usize::from(right)];
        }
        some(found)
    }

    /// Every key with its value, ascending.
    pub fn iter(&self) -> Range<'a, K> {
        self.range(..)
    }

    /// The keys within `bounds` with their values, ascending; `rev` reverses them. Bounds that can
    /// contain no key, such as `9..3`, give an empty range.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Range<'a, K> {
        let front = match bounds.start_bound() {
            Bound::Included(key) => self.at_least(*key),
            Bound::Excluded(key) => self.above(*key),
            Bound::Unbounded => self.first(),
        };
        let back = match bounds.end_bound() {
            Bound::Included(key) => self.at_most(*key),
            Bound::Excluded(key) => self.below(*key),
            Bound::Unbounded => self.last(),
        };
        let ends = front.zip(back).filter(|(front, back)| self.key(*front) <= self.key(*back));
        Range { view: *self, ends }
    }
}

impl<'a, K: Ord + Copy> IntoIterator for View<'a, K> {
    type Item = (K, u32);
    type IntoIter = Range<'a, K>;

    fn into_iter(self) -> Range<'a, K> {
        self.iter()
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
pub struct Range<'a, K> {
    view: View<'a, K>,
    /// The first and the last node still to be returned.
    ends: Option<(u32, u32)>,
}

impl<K: Ord + Copy> Iterator for Range<'_, K> {
    type Item = (K, u32);

    fn next(&mut self) -> Option<(K, u32)> {
        let (front, back) = self.ends?;
        self.ends = (front != back).then(|| (self.view.neighbour(front, RIGHT), back));
        Some((self.view.key(front), self.view.value(front)))
    }
}

impl<K: Ord + Copy> DoubleEndedIterator for Range<'_, K> {
    fn next_back(&mut self) -> Option<(K, u32)> {
        let (front, back) = self.ends?;
        self.ends = (front != back).then(|| (front, self.view.neighbour(back, LEFT)));
        Some((self.view.key(back), self.view.value(back)))
    }
}

impl<K: Ord + Copy> FusedIterator for Range<'_, K> {}
