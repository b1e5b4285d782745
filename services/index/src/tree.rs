//! A walk over any binary tree whose nodes are numbers.
//!
//! A tree with parent links needs no stack for a walk: the next node follows from the previous one.
//! So the iterator is two words, at any depth, and allocates nothing.

/// A binary tree with numbered nodes.
///
/// The links must be consistent: `parent(left(n)) == n` and `parent(right(n)) == n`.
pub trait Tree {
    /// The node without a parent; `None` in an empty tree.
    fn root(&self) -> Option<u32>;
    /// The child that comes before `node` in order.
    fn left(&self, node: u32) -> Option<u32>;
    /// The child that comes after `node` in order.
    fn right(&self, node: u32) -> Option<u32>;
    /// The node above `node`.
    fn parent(&self, node: u32) -> Option<u32>;

    /// Each node before its children, left before right.
    fn pre_order(&self) -> PreOrder<'_, Self> {
        PreOrder { tree: self, next: self.root() }
    }
}

/// Iterator of [`Tree::pre_order`]. A whole walk of n nodes costs O(n).
#[derive(Debug)]
pub struct PreOrder<'a, T: ?Sized> {
    tree: &'a T,
    next: Option<u32>,
}

impl<T: Tree + ?Sized> Iterator for PreOrder<'_, T> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let node = self.next?;
        let child = self.tree.left(node).or_else(|| self.tree.right(node));
        self.next = child.or_else(|| turn_right_above(self.tree, node));
        Some(node)
    }
}

/// The right child of the nearest ancestor that has one and was left by its left side.
fn turn_right_above<T: Tree + ?Sized>(tree: &T, mut node: u32) -> Option<u32> {
    loop {
        let above = tree.parent(node)?;
        match tree.right(above) {
            Some(right) if right != node => return Some(right),
            _ => node = above,
        }
    }
}
