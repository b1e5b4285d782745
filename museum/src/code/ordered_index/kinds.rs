//! The structures, with one trait for all.
//!
//! Calls go through a table of functions, which costs every arm the same nanosecond or two.

use index::{Bst, Node, RedBlack, SearchTree};
use std::collections::{BTreeMap, HashMap, LinkedList};

pub(super) const LIST: &str = "list";
pub(super) const BOXED: &str = "plain tree, node by node";
pub(super) const BALANCED: &str = "red-black tree";
pub(super) const PLAIN: &str = "plain tree";
pub(super) const SORTED: &str = "sorted array";
pub(super) const BTREE: &str = "B-tree";
pub(super) const HASHED: &str = "hash table";

/// The operations of a structure of keys.
pub(super) trait Map {
    /// Makes it empty; storage is kept where it keeps any.
    fn clear(&mut self);
    fn insert(&mut self, key: u64);
    fn find(&self, key: u64) -> bool;
    /// Removes a key; returns whether it was there.
    fn erase(&mut self, key: u64) -> bool;
    /// The sum of up to `count` keys in order, from `from` on.
    fn sum(&self, _from: u64, _count: usize) -> u64 {
        unreachable!("a structure without an order is not walked")
    }
    /// Bytes for each key, where known.
    fn bytes(&self) -> Option<f64> {
        None
    }
}

pub(super) type Kind = (&'static str, Box<dyn Map>);

/// The structures of the published run, the red-black tree first.
pub(super) fn published(count: usize) -> Vec<Kind> {
    vec![
        (BALANCED, Box::new(Lent::<RedBlack>::new(count))),
        (LIST, Box::new(LinkedList::<u64>::new())),
        (BOXED, Box::new(Boxed::default())),
    ]
}

/// Those of the corrected run.
pub(super) fn all(count: usize) -> Vec<Kind> {
    vec![
        (BALANCED, Box::new(Lent::<RedBlack>::new(count))),
        (PLAIN, Box::new(Lent::<Bst>::new(count))),
        (SORTED, Box::new(Vec::<u64>::with_capacity(count))),
        (BTREE, Box::new(BTreeMap::<u64, u32>::new())),
        (HASHED, Box::new(HashMap::<u64, u32>::new())),
    ]
}

/// Those that are built in each order of arrival: the published plain tree is among them.
pub(super) fn arriving(count: usize) -> Vec<Kind> {
    let mut all = all(count);
    all.push((BOXED, Box::new(Boxed::default())));
    all
}

/// The depths of a plain and a red-black tree of these keys.
pub(super) fn depths(keys: &[u64]) -> [u32; 2] {
    [Lent::<Bst>::depth(keys), Lent::<RedBlack>::depth(keys)]
}

/// One of our trees with its storage.
struct Lent<T> {
    tree: T,
    nodes: Vec<Node<u64>>,
}

impl<T: SearchTree> Lent<T> {
    /// Room for `count` keys, and for one more that is inserted before another is erased.
    fn new(count: usize) -> Lent<T> {
        let nodes = vec![Node::default(); Node::<u64>::slots_for(count + 1)];
        Lent { tree: T::default(), nodes }
    }

    fn depth(keys: &[u64]) -> u32 {
        use index::Tree;
        let mut lent = Lent::<T>::new(keys.len());
        keys.iter().for_each(|key| lent.insert(*key));
        let view = lent.tree.view(&lent.nodes);
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

    fn sum(&self, from: u64, count: usize) -> u64 {
        self.tree.view(&self.nodes).range(from..).take(count).map(|it| it.0).sum()
    }

    fn bytes(&self) -> Option<f64> {
        Some(size_of::<Node<u64>>() as f64)
    }
}

impl Map for Vec<u64> {
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

    fn sum(&self, from: u64, count: usize) -> u64 {
        let at = self.partition_point(|it| *it < from);
        self[at..].iter().take(count).sum()
    }

    fn bytes(&self) -> Option<f64> {
        Some(self.capacity() as f64 * 8.0 / Vec::len(self).max(1) as f64)
    }
}

/// Keys in the order in which they came, a node from the heap for each.
impl Map for LinkedList<u64> {
    fn clear(&mut self) {
        LinkedList::clear(self);
    }

    fn insert(&mut self, key: u64) {
        self.push_back(key);
    }

    fn find(&self, key: u64) -> bool {
        self.contains(&key)
    }

    /// Looks at all keys, as published, also after it has found its own.
    fn erase(&mut self, key: u64) -> bool {
        let mut place = None;
        for (at, it) in self.iter().enumerate() {
            if *it == key {
                place = Some(at);
            }
        }
        let Some(place) = place else { return false };
        let mut rest = self.split_off(place);
        let found = rest.pop_front().is_some();
        self.append(&mut rest);
        found
    }
}

type Link = Option<Box<Leaf>>;

struct Leaf {
    key: u64,
    children: [Link; 2],
}

/// Keys in a binary search tree without balancing, as published: a node from the heap for each.
#[derive(Default)]
struct Boxed {
    root: Link,
}

impl Boxed {
    /// The link to a key, or the place where it belongs.
    fn link(mut at: &mut Link, key: u64) -> &mut Link {
        while at.as_ref().is_some_and(|leaf| leaf.key != key) {
            let Some(leaf) = at else { unreachable!("it was looked at") };
            at = &mut leaf.children[usize::from(leaf.key < key)];
        }
        at
    }

    /// Takes the least key of a tree out.
    fn least(mut at: &mut Link) -> Link {
        while at.as_ref().is_some_and(|leaf| leaf.children[0].is_some()) {
            let Some(leaf) = at else { unreachable!("it was looked at") };
            at = &mut leaf.children[0];
        }
        let mut least = at.take()?;
        *at = least.children[1].take();
        Some(least)
    }
}

impl Map for Boxed {
    fn clear(&mut self) {
        *self = Boxed::default();
    }

    fn insert(&mut self, key: u64) {
        let link = Boxed::link(&mut self.root, key);
        if link.is_none() {
            *link = Some(Box::new(Leaf { key, children: [None, None] }));
        }
    }

    fn find(&self, key: u64) -> bool {
        let mut at = &self.root;
        while let Some(leaf) = at {
            if leaf.key == key {
                return true;
            }
            at = &leaf.children[usize::from(leaf.key < key)];
        }
        false
    }

    fn erase(&mut self, key: u64) -> bool {
        let link = Boxed::link(&mut self.root, key);
        let Some(mut leaf) = link.take() else { return false };
        *link = match [leaf.children[0].take(), leaf.children[1].take()] {
            [None, one] | [one, None] => one,
            [left, mut right] => Boxed::least(&mut right).map(|mut next| {
                next.children = [left, right];
                next
            }),
        };
        true
    }
}

impl Drop for Boxed {
    /// Without recursion: a tree of ascending keys is as deep as it has keys.
    fn drop(&mut self) {
        let mut left: Vec<Box<Leaf>> = self.root.take().into_iter().collect();
        while let Some(mut leaf) = left.pop() {
            left.extend(leaf.children.iter_mut().filter_map(Option::take));
        }
    }
}

/// The common part of the standard library's maps.
macro_rules! keyed {
    ($type:ident) => {
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
    };
}

impl Map for BTreeMap<u64, u32> {
    keyed!(BTreeMap);

    fn sum(&self, from: u64, count: usize) -> u64 {
        self.range(from..).take(count).map(|it| it.0).sum()
    }
}

impl Map for HashMap<u64, u32> {
    keyed!(HashMap);

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
                    maps.iter_mut().for_each(|(name, it)| assert!(it.erase(key), "{name}"));
                } else {
                    model.insert(key);
                    maps.iter_mut().for_each(|(_, it)| it.insert(key));
                }
                let from = rng.below(200) as u64;
                let sum: u64 = model.range(from..).take(5).sum();
                for (name, map) in &maps {
                    let same = (0..200).all(|key| map.find(key) == model.contains(&key));
                    assert!(same, "seed {seed}, {name}");
                    if ![LIST, BOXED, HASHED].contains(name) {
                        assert_eq!(map.sum(from, 5), sum, "seed {seed}, {name}");
                    }
                }
            }
        }
    }
}
