//! The structures, with one trait for all.
//!
//! `ordered_index.rs` asks for a list of structures and gives each the same keys. The published
//! list has a linked list and a plain tree node by node next to the red-black tree; the corrected
//! one has both trees in an array, and what a program would use in their place. Calls go through a
//! table of functions, which costs every arm the same nanosecond or two. A structure without an
//! order (the hash table) sorts its keys for `sum`, so contests that walk leave it out.

use super::published::{Boxed, Chain};
use index::{Bst, Node, RedBlack, SearchTree};
use std::collections::{BTreeMap, HashMap};

pub(super) const LIST: &str = "list";
pub(super) const BOXED: &str = "plain tree, node by node";
pub(super) const BALANCED: &str = "red-black tree";
pub(super) const PLAIN: &str = "plain tree";
pub(super) const SORTED: &str = "sorted array";
pub(super) const BTREE: &str = "B-tree";
pub(super) const HASHED: &str = "hash table";
/// The operations of a structure of keys.
pub(super) trait Map {
    fn name(&self) -> &'static str;
    /// Makes it empty; storage is kept where it keeps any.
    fn clear(&mut self);
    /// Puts a new key in.
    fn insert(&mut self, key: u64);
    fn find(&self, key: u64) -> bool;
    /// Removes a key; returns whether it was there.
    fn erase(&mut self, key: u64) -> bool;
    fn len(&self) -> usize;
    /// The sum of up to `count` keys in order, from `from` on.
    fn sum(&self, from: u64, count: usize) -> u64;
    /// Bytes for each key, where known.
    fn bytes(&self) -> Option<f64>;
}

/// The structures of the published run, the red-black tree first.
pub(super) fn published(count: usize) -> Vec<Box<dyn Map>> {
    let tree = Lent::<RedBlack>::new(BALANCED, count);
    vec![Box::new(tree), Box::new(Chain::default()), Box::new(Boxed::default())]
}

/// Those of the corrected run, in the order of [`ARMS`].
pub(super) fn all(count: usize) -> Vec<Box<dyn Map>> {
    vec![
        Box::new(Lent::<RedBlack>::new(BALANCED, count)),
        Box::new(Lent::<Bst>::new(PLAIN, count)),
        Box::new(Vec::<u64>::with_capacity(count)),
        Box::new(BTreeMap::<u64, u32>::new()),
        Box::new(HashMap::<u64, u32>::new()),
    ]
}

/// Those that are built in each order of arrival: the published plain tree is among them.
pub(super) fn arriving(count: usize) -> Vec<Box<dyn Map>> {
    let mut all = all(count);
    all.push(Box::new(Boxed::default()));
    all
}

/// The depths of a plain and a red-black tree of these keys.
pub(super) fn depths(keys: &[u64]) -> [u32; 2] {
    let mut plain = Lent::<Bst>::new(PLAIN, keys.len());
    let mut balanced = Lent::<RedBlack>::new(BALANCED, keys.len());
    for key in keys {
        plain.insert(*key);
        balanced.insert(*key);
    }
    [plain.depth(), balanced.depth()]
}

/// One of our trees with its storage.
struct Lent<T> {
    name: &'static str,
    tree: T,
    nodes: Vec<Node<u64>>,
}

impl<T: SearchTree> Lent<T> {
    /// Room for `count` keys, and for one more that is inserted before another is erased.
    fn new(name: &'static str, count: usize) -> Lent<T> {
        let nodes = vec![Node::default(); Node::<u64>::slots_for(count + 1)];
        Lent { name, tree: T::default(), nodes }
    }

    fn depth(&self) -> u32 {
        use index::Tree;
        let view = self.tree.view(&self.nodes);
        let (mut deepest, mut level) = (0, view.root().into_iter().collect::<Vec<u32>>());
        while !level.is_empty() {
            deepest += 1;
            let below = level.iter().flat_map(|node| [view.left(*node), view.right(*node)]);
            level = below.flatten().collect();
        }
        deepest
    }
}

impl<T: SearchTree> Map for Lent<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn clear(&mut self) {
        self.tree = T::default();
    }

    fn insert(&mut self, key: u64) {
        let _ = self.tree.insert(&mut self.nodes, key, 0);
    }

    fn find(&self, key: u64) -> bool {
        self.tree.view(&self.nodes).find(key).is_some()
    }

    fn erase(&mut self, key: u64) -> bool {
        self.tree.remove(&mut self.nodes, key).is_some()
    }

    fn len(&self) -> usize {
        self.tree.view(&self.nodes).len() as usize
    }

    fn sum(&self, from: u64, count: usize) -> u64 {
        self.tree.view(&self.nodes).range(from..).take(count).map(|it| it.0).sum()
    }

    fn bytes(&self) -> Option<f64> {
        Some(size_of::<Node<u64>>() as f64)
    }
}

impl Map for Vec<u64> {
    fn name(&self) -> &'static str {
        SORTED
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn insert(&mut self, key: u64) {
        let at = self.partition_point(|it| *it < key);
        Vec::insert(self, at, key);
    }

    fn find(&self, key: u64) -> bool {
        self.binary_search(&key).is_ok()
    }

    fn erase(&mut self, key: u64) -> bool {
        self.binary_search(&key).map(|at| self.remove(at)).is_ok()
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn sum(&self, from: u64, count: usize) -> u64 {
        let at = self.partition_point(|it| *it < from);
        self[at..].iter().take(count).sum()
    }

    fn bytes(&self) -> Option<f64> {
        Some(self.capacity() as f64 * 8.0 / Vec::len(self).max(1) as f64)
    }
}

/// The common part of the standard library's maps.
macro_rules! keyed {
    ($type:ident, $name:ident) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn clear(&mut self) {
            $type::clear(self);
        }

        fn insert(&mut self, key: u64) {
            $type::insert(self, key, 0);
        }

        fn find(&self, key: u64) -> bool {
            self.contains_key(&key)
        }

        fn erase(&mut self, key: u64) -> bool {
            self.remove(&key).is_some()
        }

        fn len(&self) -> usize {
            $type::len(self)
        }
    };
}

impl Map for BTreeMap<u64, u32> {
    keyed!(BTreeMap, BTREE);

    fn sum(&self, from: u64, count: usize) -> u64 {
        self.range(from..).take(count).map(|it| it.0).sum()
    }

    fn bytes(&self) -> Option<f64> {
        None
    }
}

impl Map for HashMap<u64, u32> {
    keyed!(HashMap, HASHED);

    /// The map has no order, so all keys are sorted.
    fn sum(&self, from: u64, count: usize) -> u64 {
        let mut keys: Vec<u64> = self.keys().copied().filter(|key| *key >= from).collect();
        keys.sort_unstable();
        keys.iter().take(count).sum()
    }

    /// An entry and its control byte; the table grows by doubling.
    fn bytes(&self) -> Option<f64> {
        let entries = self.capacity() as f64 * 8.0 / 7.0;
        Some(entries * (size_of::<(u64, u32)>() + 1) as f64 / HashMap::len(self).max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn every_structure_holds_what_a_set_holds() {
        for seed in 0..8 {
            let mut maps = all(300);
            maps.extend(published(300));
            let mut rng = Rng::new(seed);
            let mut model = BTreeSet::new();
            for _ in 0..600 {
                let key = rng.below(200) as u64;
                if model.contains(&key) {
                    model.remove(&key);
                    maps.iter_mut().for_each(|it| assert!(it.erase(key), "{}", it.name()));
                } else {
                    model.insert(key);
                    maps.iter_mut().for_each(|it| it.insert(key));
                }
                let (asked, from) = (rng.below(200) as u64, rng.below(200) as u64);
                let sum: u64 = model.range(from..).take(5).sum();
                for map in &maps {
                    assert_eq!(map.len(), model.len(), "seed {seed}, {}", map.name());
                    assert_eq!(map.find(asked), model.contains(&asked), "{}", map.name());
                    // Maps without an order return all keys.
                    if map.name() != LIST {
                        assert_eq!(map.sum(from, 5), sum, "seed {seed}, {}", map.name());
                    }
                }
            }
        }
    }
}
