//! The two search trees: unbalanced and balanced.
//!
//! [`Bst`] inserts each key where the search for it ends. Its depth follows from the order of
//! arrival: about 2 ln n for random keys (Knuth, TAOCP vol. 3, 6.2.2), and n for ascending ones,
//! such as session numbers. [`RedBlack`] recolours and rotates after each change, so that no path
//! is more than twice as long as another (Guibas and Sedgewick, "A dichromatic framework for
//! balanced trees", FOCS 1978; the cases are those of Cormen et al., chapter 13).

use crate::arena::{LEFT, NIL, Node, RIGHT, Refused, Stem};
use crate::check::{self, Broken, Shape};
use crate::links::{Gap, side_of};
use crate::view::View;

/// A map from keys to 32-bit values whose nodes the caller lends.
///
/// `nodes` is the storage: the same slice in each call, [`Node::slots_for`] elements; the first is
/// never used. A key keeps its node's number until it is removed. All-zero bytes are an empty tree.
pub trait SearchTree: Copy + Default {
    /// Inserts `key` with `value` and returns its node.
    ///
    /// # Errors
    /// [`Refused`]; the tree is then unchanged.
    fn insert<K: Ord + Copy>(
        &mut self,
        nodes: &mut [Node<K>],
        key: K,
        value: u32,
    ) -> Result<u32, Refused>;

    /// Removes `node`, which must be in the tree; its number may be reused.
    fn remove_node<K: Ord + Copy>(&mut self, nodes: &mut [Node<K>], node: u32);

    /// A view for reading the tree.
    fn view<'a, K>(&self, nodes: &'a [Node<K>]) -> View<'a, K>;

    /// Checks every node and returns the first broken invariant or the tree's
    /// shape. Takes O(n) time and memory.
    ///
    /// # Errors
    /// [`Broken`].
    fn check<K: Ord + Copy>(&self, nodes: &[Node<K>]) -> Result<Shape, Broken>;

    /// Removes `key` and returns its value, or `None` if it is missing.
    fn remove<K: Ord + Copy>(&mut self, nodes: &mut [Node<K>], key: K) -> Option<u32> {
        let view = self.view(nodes);
        // If keys are numbers that expire, the oldest goes first.
        let oldest = view.first().filter(|first| view.key(*first) == key);
        let node = oldest.or_else(|| view.find(key))?;
        let value = nodes[node as usize].value;
        self.remove_node(nodes, node);
        Some(value)
    }
}

/// The unbalanced binary search tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bst {
    pub(crate) stem: Stem,
}

/// The balanced binary search tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct RedBlack {
    pub(crate) stem: Stem,
}

impl Bst {
    /// Builds the tree that inserting `key(0)` with value 0, `key(1)` with value 1 and so on would
    /// make, in O(n) for all keys: n insertions of descending keys would take O(n²).
    ///
    /// `sorted` holds the numbers 0 to n - 1 in ascending order of their distinct keys, n at most
    /// [`crate::NODES_MAX`]. Value i is in node i + 1.
    ///
    /// # Panics
    /// If `nodes` has fewer than [`Node::slots_for`] n elements.
    pub fn grown<K: Copy>(nodes: &mut [Node<K>], sorted: &[u32], key: impl Fn(u32) -> K) -> Bst {
        // In key order, each node's subtree holds the later arrivals: a Cartesian tree (Vuillemin,
        // "A unifying look at data structures", CACM 1980), built along its right edge.
        let mut stem = Stem::default();
        let mut last = NIL;
        for value in sorted.iter().copied() {
            let new = value + 1;
            let mut left = NIL;
            // The node numbers are the order of arrival.
            while last > new {
                (left, last) = (last, nodes[last as usize].parent());
            }
            nodes[new as usize] = Node { key: key(value), value, child: [left, NIL], up: 0 };
            nodes[new as usize].set_parent(last);
            if left != NIL {
                nodes[left as usize].set_parent(new);
            }
            match last {
                NIL => stem.root = new,
                _ => nodes[last as usize].child[RIGHT] = new,
            }
            last = new;
        }
        stem.ends = [sorted.first(), sorted.last()].map(|row| row.map_or(NIL, |row| row + 1));
        stem.len = sorted.len() as u32;
        stem.used = stem.len;
        Bst { stem }
    }
}

impl SearchTree for Bst {
    fn insert<K: Ord + Copy>(
        &mut self,
        nodes: &mut [Node<K>],
        key: K,
        value: u32,
    ) -> Result<u32, Refused> {
        self.stem.attach(nodes, key, value)
    }

    fn remove_node<K: Ord + Copy>(&mut self, nodes: &mut [Node<K>], node: u32) {
        self.stem.unlink(nodes, node);
        self.stem.give(nodes, node);
    }

    fn view<'a, K>(&self, nodes: &'a [Node<K>]) -> View<'a, K> {
        View::new(self.stem, nodes)
    }

    fn check<K: Ord + Copy>(&self, nodes: &[Node<K>]) -> Result<Shape, Broken> {
        check::search_tree(&self.stem, nodes, false)
    }
}

impl SearchTree for RedBlack {
    fn insert<K: Ord + Copy>(
        &mut self,
        nodes: &mut [Node<K>],
        key: K,
        value: u32,
    ) -> Result<u32, Refused> {
        let new = self.stem.attach(nodes, key, value)?;
        nodes[new as usize].redden();
        self.settle_insertion(nodes, new);
        Ok(new)
    }

    fn remove_node<K: Ord + Copy>(&mut self, nodes: &mut [Node<K>], node: u32) {
        let gap = self.stem.unlink(nodes, node);
        if !gap.was_red {
            self.settle_removal(nodes, gap);
        }
        self.stem.give(nodes, node);
    }

    fn view<'a, K>(&self, nodes: &'a [Node<K>]) -> View<'a, K> {
        View::new(self.stem, nodes)
    }

    fn check<K: Ord + Copy>(&self, nodes: &[Node<K>]) -> Result<Shape, Broken> {
        check::search_tree(&self.stem, nodes, true)
    }
}

impl RedBlack {
    /// Repairs the damage that a red node at `at` may have done: a red parent, or a red root.
    #[inline]
    fn settle_insertion<K>(&mut self, nodes: &mut [Node<K>], mut at: u32) {
        loop {
            let parent = nodes[at as usize].parent();
            if parent == NIL {
                return nodes[at as usize].blacken();
            }
            if !nodes[parent as usize].is_red() {
                return;
            }
            // A red parent is not the root, so it has a parent.
            let above = nodes[parent as usize].parent();
            let side = side_of(nodes, parent);
            let uncle = nodes[above as usize].child[1 - side];
            if nodes[uncle as usize].is_red() {
                nodes[parent as usize].blacken();
                nodes[uncle as usize].blacken();
                nodes[above as usize].redden();
                at = above;
                continue;
            }
            let mut top = parent;
            if nodes[parent as usize].child[1 - side] == at {
                self.stem.rotate(nodes, parent, side);
                top = at;
            }
            nodes[top as usize].blacken();
            nodes[above as usize].redden();
            return self.stem.rotate(nodes, above, 1 - side);
        }
    }

    /// Repairs the loss of a black node in `gap`: paths through it are one short.
    fn settle_removal<K>(&mut self, nodes: &mut [Node<K>], gap: Gap) {
        let Gap { mut parent, mut side, .. } = gap;
        while parent != NIL {
            let short = nodes[parent as usize].child[side];
            if nodes[short as usize].is_red() {
                return nodes[short as usize].blacken();
            }
            // The other side has one black node more than this one, so it is not empty.
            let mut sibling = nodes[parent as usize].child[1 - side];
            if nodes[sibling as usize].is_red() {
                nodes[sibling as usize].blacken();
                nodes[parent as usize].redden();
                self.stem.rotate(nodes, parent, side);
                sibling = nodes[parent as usize].child[1 - side];
            }
            let [near, far] = nephews(nodes, sibling, side);
            let is_red = |node: u32| nodes[node as usize].is_red();
            match (is_red(near), is_red(far)) {
                (false, false) => {
                    nodes[sibling as usize].redden();
                    (side, parent) = (side_of(nodes, parent), nodes[parent as usize].parent());
                    continue;
                }
                (true, false) => {
                    nodes[near as usize].blacken();
                    nodes[sibling as usize].redden();
                    self.stem.rotate(nodes, sibling, 1 - side);
                    sibling = near;
                }
                (_, true) => {}
            }
            let [_, far] = nephews(nodes, sibling, side);
            if nodes[parent as usize].is_red() {
                nodes[sibling as usize].redden();
            }
            nodes[parent as usize].blacken();
            nodes[far as usize].blacken();
            return self.stem.rotate(nodes, parent, side);
        }
        if self.stem.root != NIL {
            nodes[self.stem.root as usize].blacken();
        }
    }
}

/// The children of `sibling`: the one on `side`, then the other.
#[inline]
fn nephews<K>(nodes: &[Node<K>], sibling: u32, side: usize) -> [u32; 2] {
    let child = nodes[sibling as usize].child;
    if side == LEFT { child } else { [child[RIGHT], child[LEFT]] }
}
