//! Link operations that balanced and unbalanced search trees share.
//!
//! Nodes move by changing links, never by copying keys: a node keeps its number while its key is in
//! the tree, so callers may store the numbers.

use crate::arena::{LEFT, NIL, Node, RIGHT, Refused, Stem};

/// A place from which a node was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The node above the place; none above the root's.
    pub(crate) parent: u32,
    /// The side of its parent that the place is on.
    pub(crate) side: usize,
    /// Whether the removed node was red.
    pub(crate) was_red: bool,
}

impl Stem {
    /// Inserts a new node below the leaf where a search for `key` ends.
    #[inline]
    pub(crate) fn attach<K: Ord + Copy>(
        &mut self,
        nodes: &mut [Node<K>],
        key: K,
        value: u32,
    ) -> Result<u32, Refused> {
        let (mut parent, mut side, mut at) = (NIL, LEFT, self.root);
        let last = self.ends[RIGHT];
        if last != NIL && nodes[last as usize].key < key {
            (parent, side, at) = (last, RIGHT, NIL);
        }
        // The last node at which the search went left: the only one that can have the key.
        let mut candidate = NIL;
        while at != NIL {
            let node = &nodes[at as usize];
            let after = node.key < key;
            candidate = if after { candidate } else { at };
            (parent, side) = (at, usize::from(after));
            at = node.child[side];
        }
        if candidate != NIL && nodes[candidate as usize].key == key {
            return Err(Refused::Duplicate { node: candidate });
        }
        let new = self.take(nodes, key, value).ok_or(Refused::Full)?;
        nodes[new as usize].set_parent(parent);
        match parent {
            NIL => (self.root, self.ends) = (new, [new; 2]),
            _ => {
                nodes[parent as usize].child[side] = new;
                if self.ends[side] == parent {
                    self.ends[side] = new;
                }
            }
        }
        Ok(new)
    }

    /// Removes node `at` from the tree; its number is not free yet. A node with two children is
    /// replaced by the next one in order, which gets its colour.
    pub(crate) fn unlink<K>(&mut self, nodes: &mut [Node<K>], at: u32) -> Gap {
        let Node { child: [left, right], up, .. } = nodes[at as usize];
        for side in [LEFT, RIGHT] {
            if self.ends[side] == at {
                self.ends[side] = neighbour(nodes, at, 1 - side);
            }
        }
        if left == NIL || right == NIL {
            let parent = up >> 1;
            let gap = Gap { parent, side: side_of(nodes, at), was_red: up & 1 == 1 };
            self.replace(nodes, at, left | right);
            return gap;
        }
        let next = outermost(nodes, right, LEFT);
        let was_red = nodes[next as usize].is_red();
        let gap = if next == right {
            Gap { parent: next, side: RIGHT, was_red }
        } else {
            let parent = nodes[next as usize].parent();
            self.replace(nodes, next, nodes[next as usize].child[RIGHT]);
            nodes[next as usize].child[RIGHT] = right;
            nodes[right as usize].set_parent(next);
            Gap { parent, side: LEFT, was_red }
        };
        self.replace(nodes, at, next);
        nodes[next as usize].child[LEFT] = left;
        nodes[left as usize].set_parent(next);
        nodes[next as usize].up = up;
        gap
    }

    /// Replaces `old` by `new`, which may be [`NIL`], below its parent.
    #[inline]
    pub(crate) fn replace<K>(&mut self, nodes: &mut [Node<K>], old: u32, new: u32) {
        let parent = nodes[old as usize].parent();
        match parent {
            NIL => self.root = new,
            _ => {
                let side = side_of(nodes, old);
                nodes[parent as usize].child[side] = new;
            }
        }
        if new != NIL {
            nodes[new as usize].set_parent(parent);
        }
    }

    /// Rotates node `at` down towards `side`; its child on the other side takes its place.
    #[inline]
    pub(crate) fn rotate<K>(&mut self, nodes: &mut [Node<K>], at: u32, side: usize) {
        let riser = nodes[at as usize].child[1 - side];
        let inner = nodes[riser as usize].child[side];
        nodes[at as usize].child[1 - side] = inner;
        if inner != NIL {
            nodes[inner as usize].set_parent(at);
        }
        self.replace(nodes, at, riser);
        nodes[riser as usize].child[side] = at;
        nodes[at as usize].set_parent(riser);
    }
}

/// The side of `at` below its parent; meaningless for the root.
#[inline]
pub(crate) fn side_of<K>(nodes: &[Node<K>], at: u32) -> usize {
    let parent = nodes[at as usize].parent();
    usize::from(nodes[parent as usize].child[RIGHT] == at)
}

/// The next node in order towards `side`.
#[inline]
pub(crate) fn neighbour<K>(nodes: &[Node<K>], mut at: u32, side: usize) -> u32 {
    let below = nodes[at as usize].child[side];
    if below != NIL {
        return outermost(nodes, below, 1 - side);
    }
    let mut above = nodes[at as usize].parent();
    while above != NIL && nodes[above as usize].child[side] == at {
        (at, above) = (above, nodes[above as usize].parent());
    }
    above
}

/// The node to which the links on `side` lead from `at`.
#[inline]
pub(crate) fn outermost<K>(nodes: &[Node<K>], mut at: u32, side: usize) -> u32 {
    loop {
        match nodes[at as usize].child[side] {
            NIL => return at,
            next => at = next,
        }
    }
}
