//! A list and a plain tree as published: a node from the heap for each key.
//!
//! The list is not sorted, and erase continues to the end after it has found its key.

use std::collections::LinkedList;

/// Keys in a linked list, in the order in which they came.
#[derive(Debug, Default)]
pub struct Chain(LinkedList<u64>);

impl Chain {
    /// Puts a key at the end.
    pub fn insert(&mut self, key: u64) {
        self.0.push_back(key);
    }

    /// Whether a key is there.
    pub fn find(&self, key: u64) -> bool {
        self.0.iter().any(|it| *it == key)
    }

    /// Takes a key out, looking at all keys all the same.
    pub fn erase(&mut self, key: u64) -> bool {
        let mut place = None;
        for (at, it) in self.0.iter().enumerate() {
            if *it == key {
                place = Some(at);
            }
        }
        let Some(place) = place else { return false };
        let mut rest = self.0.split_off(place);
        let found = rest.pop_front().is_some();
        self.0.append(&mut rest);
        found
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys as they came.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

type Link = Option<Box<Leaf>>;

#[derive(Debug)]
struct Leaf {
    key: u64,
    children: [Link; 2],
}

/// Keys in a binary search tree without balancing.
#[derive(Debug, Default)]
pub struct Boxed {
    root: Link,
    len: usize,
}

impl Boxed {
    /// Inserts a new key; an existing one stays unchanged.
    pub fn insert(&mut self, key: u64) {
        let link = Boxed::link(&mut self.root, key);
        if link.is_none() {
            *link = Some(Box::new(Leaf { key, children: [None, None] }));
            self.len += 1;
        }
    }

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

    /// Whether a key is there.
    pub fn find(&self, key: u64) -> bool {
        let mut at = &self.root;
        while let Some(leaf) = at {
            if leaf.key == key {
                return true;
            }
            at = &leaf.children[usize::from(leaf.key < key)];
        }
        false
    }

    /// Takes a key out.
    pub fn erase(&mut self, key: u64) -> bool {
        let link = Boxed::link(&mut self.root, key);
        let Some(mut leaf) = link.take() else { return false };
        self.len -= 1;
        *link = match [leaf.children[0].take(), leaf.children[1].take()] {
            [None, one] | [one, None] => one,
            [left, mut right] => Boxed::least(&mut right).map(|mut next| {
                next.children = [left, right];
                next
            }),
        };
        true
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys in order.
    pub fn keys(&self) -> Vec<u64> {
        let (mut keys, mut above) = (Vec::new(), Vec::new());
        let mut at = &self.root;
        loop {
            while let Some(leaf) = at {
                above.push(leaf);
                at = &leaf.children[0];
            }
            let Some(leaf) = above.pop() else { return keys };
            keys.push(leaf.key);
            at = &leaf.children[1];
        }
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
