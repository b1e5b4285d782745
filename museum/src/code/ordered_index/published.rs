//! A list and a plain tree as published: a node from the heap for each key.
//!
//! The list is not sorted, and erase continues to the end after it has found its key.

use super::kinds::{BOXED, LIST, Map};
use std::collections::LinkedList;

/// Keys in a linked list, in the order in which they came.
#[derive(Default)]
pub(super) struct Chain(LinkedList<u64>);

impl Map for Chain {
    fn name(&self) -> &'static str {
        LIST
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn insert(&mut self, key: u64) {
        self.0.push_back(key);
    }

    fn find(&self, key: u64) -> bool {
        self.0.iter().any(|it| *it == key)
    }

    /// Looks at all keys all the same.
    fn erase(&mut self, key: u64) -> bool {
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

    fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order in which they came.
    fn sum(&self, from: u64, count: usize) -> u64 {
        self.0.iter().filter(|key| **key >= from).take(count).sum()
    }

    fn bytes(&self) -> Option<f64> {
        Some(24.0)
    }
}

type Link = Option<Box<Leaf>>;

struct Leaf {
    key: u64,
    children: [Link; 2],
}

/// Keys in a binary search tree without balancing.
#[derive(Default)]
pub(super) struct Boxed {
    root: Link,
    len: usize,
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
    fn name(&self) -> &'static str {
        BOXED
    }

    fn clear(&mut self) {
        *self = Boxed::default();
    }

    fn insert(&mut self, key: u64) {
        let link = Boxed::link(&mut self.root, key);
        if link.is_none() {
            *link = Some(Box::new(Leaf { key, children: [None, None] }));
            self.len += 1;
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

    fn len(&self) -> usize {
        self.len
    }

    fn sum(&self, from: u64, count: usize) -> u64 {
        let (mut sum, mut left, mut above) = (0, count, Vec::new());
        let mut at = &self.root;
        while left > 0 {
            while let Some(leaf) = at {
                above.push(leaf);
                at = &leaf.children[0];
            }
            let Some(leaf) = above.pop() else { break };
            if leaf.key >= from {
                (sum, left) = (sum + leaf.key, left - 1);
            }
            at = &leaf.children[1];
        }
        sum
    }

    fn bytes(&self) -> Option<f64> {
        Some(24.0)
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
