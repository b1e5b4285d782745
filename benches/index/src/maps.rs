//! The ordered maps and the hash map, behind one trait, so that a job is written once.

use std::collections::{BTreeMap, HashMap};

use index::{Bst, Node, RedBlack, SearchTree};
use intrusive_collections::{KeyAdapter, RBTree, RBTreeLink, intrusive_adapter};

/// The operations that a job performs on a map of 64-bit keys.
pub trait Map {
    /// Empties the map; storage is kept if the map keeps any.
    fn clear(&mut self);
    /// Inserts a new key.
    fn insert(&mut self, key: u64, value: u32);
    /// The value of a key.
    fn find(&self, key: u64) -> Option<u32>;
    /// Removes a key; returns whether it was there.
    fn remove(&mut self, key: u64) -> bool;
    /// The number of keys.
    fn len(&self) -> usize;
    /// The sum of all values, in the map's order.
    fn walk(&self) -> u64;
}

/// One of our trees with its storage.
pub struct Lent<T> {
    tree: T,
    nodes: Vec<Node<u64>>,
}

impl<T: SearchTree> Lent<T> {
    /// Storage for `count` keys, and room for as many again.
    pub fn new(count: usize) -> Lent<T> {
        let nodes = vec![Node::default(); Node::<u64>::slots_for(2 * count)];
        Lent { tree: T::default(), nodes }
    }
}

impl<T: SearchTree> Map for Lent<T> {
    fn clear(&mut self) {
        self.tree = T::default();
    }

    fn insert(&mut self, key: u64, value: u32) {
        self.tree.insert(&mut self.nodes, key, value).expect("a new key, and room");
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.tree.view(&self.nodes).get(key)
    }

    fn remove(&mut self, key: u64) -> bool {
        self.tree.remove(&mut self.nodes, key).is_some()
    }

    fn len(&self) -> usize {
        self.tree.view(&self.nodes).len() as usize
    }

    fn walk(&self) -> u64 {
        self.tree.view(&self.nodes).iter().map(|(_, value)| u64::from(value)).sum()
    }
}

/// The plain tree.
pub type Plain = Lent<Bst>;
/// The balanced tree.
pub type Balanced = Lent<RedBlack>;

/// An entry of the intrusive tree.
pub struct Entry {
    link: RBTreeLink,
    key: u64,
    value: u32,
}

intrusive_adapter!(
    /// The links of an entry.
    pub ByKey = Box<Entry>: Entry { link => RBTreeLink }
);

impl<'a> KeyAdapter<'a> for ByKey {
    type Key = u64;

    fn get_key(&self, entry: &'a Entry) -> u64 {
        entry.key
    }
}

/// The red-black tree of intrusive-collections, over boxes.
pub struct Intrusive {
    tree: RBTree<ByKey>,
    len: usize,
}

impl Intrusive {
    /// An empty map.
    pub fn new() -> Intrusive {
        Intrusive { tree: RBTree::new(ByKey::new()), len: 0 }
    }
}

impl Map for Intrusive {
    fn clear(&mut self) {
        self.tree.clear();
        self.len = 0;
    }

    fn insert(&mut self, key: u64, value: u32) {
        self.tree.insert(Box::new(Entry { link: RBTreeLink::new(), key, value }));
        self.len += 1;
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.tree.find(&key).get().map(|entry| entry.value)
    }

    fn remove(&mut self, key: u64) -> bool {
        let removed = self.tree.find_mut(&key).remove().is_some();
        self.len -= usize::from(removed);
        removed
    }

    fn len(&self) -> usize {
        self.len
    }

    fn walk(&self) -> u64 {
        self.tree.iter().map(|entry| u64::from(entry.value)).sum()
    }
}

impl Map for BTreeMap<u64, u32> {
    fn clear(&mut self) {
        BTreeMap::clear(self);
    }

    fn insert(&mut self, key: u64, value: u32) {
        BTreeMap::insert(self, key, value);
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.get(&key).copied()
    }

    fn remove(&mut self, key: u64) -> bool {
        BTreeMap::remove(self, &key).is_some()
    }

    fn len(&self) -> usize {
        BTreeMap::len(self)
    }

    fn walk(&self) -> u64 {
        self.values().map(|value| u64::from(*value)).sum()
    }
}

impl Map for HashMap<u64, u32> {
    fn clear(&mut self) {
        HashMap::clear(self);
    }

    fn insert(&mut self, key: u64, value: u32) {
        HashMap::insert(self, key, value);
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.get(&key).copied()
    }

    fn remove(&mut self, key: u64) -> bool {
        HashMap::remove(self, &key).is_some()
    }

    fn len(&self) -> usize {
        HashMap::len(self)
    }

    fn walk(&self) -> u64 {
        self.values().map(|value| u64::from(*value)).sum()
    }
}

/// A sorted array of pairs.
#[derive(Default)]
pub struct Sorted(Vec<(u64, u32)>);

impl Sorted {
    fn place(&self, key: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |pair| pair.0)
    }
}

impl Map for Sorted {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn insert(&mut self, key: u64, value: u32) {
        let place = self.place(key).unwrap_or_else(|place| place);
        self.0.insert(place, (key, value));
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.place(key).ok().map(|place| self.0[place].1)
    }

    fn remove(&mut self, key: u64) -> bool {
        self.place(key).map(|place| self.0.remove(place)).is_ok()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn walk(&self) -> u64 {
        self.0.iter().map(|pair| u64::from(pair.1)).sum()
    }
}
