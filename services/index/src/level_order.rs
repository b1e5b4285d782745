//! The complete binary tree that fills level by level, left to right.
//!
//! Node i is element i of an array that the caller owns, and its children are nodes 2i+1 and 2i+2,
//! so the whole structure is one number: the number of nodes. The surprising thing: it is not a
//! search tree. It keeps the order of arrival (a walk by levels is the order of the file), finding
//! a key takes a scan of all nodes before it, and order by key is a permutation made once by
//! [`LevelOrder::sort_into`].

use crate::Tree;
use std::ops::Range;

/// A level-order tree; all-zero bytes are the empty one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct LevelOrder {
    len: u32,
}

impl LevelOrder {
    /// The number of nodes: they are numbered `0..len`.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a node in the first free place of the lowest level and returns its number, or `None`
    /// when the storage of `capacity` elements is full.
    pub fn push(&mut self, capacity: u32) -> Option<u32> {
        let node = self.len;
        if node >= capacity {
            return None;
        }
        self.len += 1;
        Some(node)
    }

    /// The first node, level by level, with the wanted key; n comparisons if it is missing.
    #[inline]
    pub fn find<K: PartialEq>(&self, key: impl Fn(u32) -> K, wanted: &K) -> Option<u32> {
        self.by_level().find(|node| key(*node) == *wanted)
    }

    /// The nodes level by level, each level from left to right: the order of arrival.
    pub fn by_level(&self) -> Range<u32> {
        0..self.len
    }

    /// Writes the nodes into `order` so that their keys ascend; equal keys stay in order of
    /// arrival.
    ///
    /// # Panics
    /// If `order` does not have exactly [`LevelOrder::len`] elements.
    pub fn sort_into<K: Ord>(&self, order: &mut [u32], key: impl Fn(u32) -> K) {
        assert_eq!(order.len(), self.len as usize, "one element for each node");
        for (place, node) in order.iter_mut().zip(self.by_level()) {
            *place = node;
        }
        order.sort_unstable_by_key(|node| (key(*node), *node));
    }

    fn existing(&self, node: u64) -> Option<u32> {
        (node < u64::from(self.len)).then_some(node as u32)
    }
}

impl Tree for LevelOrder {
    fn root(&self) -> Option<u32> {
        self.existing(0)
    }

    fn left(&self, node: u32) -> Option<u32> {
        self.existing(2 * u64::from(node) + 1)
    }

    fn right(&self, node: u32) -> Option<u32> {
        self.existing(2 * u64::from(node) + 2)
    }

    fn parent(&self, node: u32) -> Option<u32> {
        node.checked_sub(1).map(|before| before / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::LevelOrder;
    use crate::Tree;

    fn tree(len: u32) -> LevelOrder {
        let mut tree = LevelOrder::default();
        for node in 0..len {
            assert_eq!(tree.push(len), Some(node));
        }
        assert_eq!(tree.push(len), None);
        tree
    }

    /// The expected walk, by the recursive definition.
    fn model(len: u32, node: u32, pre: &mut Vec<u32>) {
        if node < len {
            pre.push(node);
            model(len, 2 * node + 1, pre);
            model(len, 2 * node + 2, pre);
        }
    }

    #[test]
    fn walks_are_those_of_the_recursive_definition() {
        for len in 0..200 {
            let mut pre = Vec::new();
            model(len, 0, &mut pre);
            let tree = tree(len);
            assert_eq!(tree.pre_order().collect::<Vec<_>>(), pre, "{len} nodes");
            assert_eq!(tree.by_level().collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn links_do_not_overflow_at_the_far_end() {
        let tree = LevelOrder { len: u32::MAX };
        assert_eq!(tree.left(u32::MAX - 1), None);
        assert_eq!(tree.parent(u32::MAX - 1), Some(0x7fff_fffe));
    }
}
