//! Numbered nodes in an array that the caller lends, and the list of free nodes.
//!
//! Links are 32-bit numbers, so a node with a 64-bit key takes 24 bytes (a node of libstdc++'s map
//! takes 40, and the heap's overhead 8 to 16), and the array can lie in memory that several
//! processes map at different addresses. The surprising thing: element 0 is never a node. It means
//! "no node", is black, and is never written. So code that asks a missing child for its colour
//! needs no special case, and zero bytes are an empty tree.

/// The number that names no node.
pub(crate) const NIL: u32 = 0;
/// The child whose keys come before.
pub(crate) const LEFT: usize = 0;
/// The child whose keys come after.
pub(crate) const RIGHT: usize = 1;

/// The maximum number of nodes in one array: the colour takes one of the 32 bits of the up link.
pub const NODES_MAX: u32 = (1 << 31) - 1;

/// One element of the lent storage; all-zero bytes are a free one, if they are a valid `K`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Node<K> {
    pub(crate) key: K,
    pub(crate) value: u32,
    /// In a free node the first link names the next free one.
    pub(crate) child: [u32; 2],
    /// The parent's number, shifted left by one; the lowest bit is set in a red node.
    pub(crate) up: u32,
}

impl<K> Node<K> {
    /// The number of elements to lend to a tree of `nodes` nodes: one more,
    /// because element 0 is no node.
    pub const fn slots_for(nodes: usize) -> usize {
        nodes + 1
    }

    /// The value inserted with the key.
    #[inline]
    pub fn value(&self) -> u32 {
        self.value
    }

    #[inline]
    pub(crate) fn parent(&self) -> u32 {
        self.up >> 1
    }

    #[inline]
    pub(crate) fn set_parent(&mut self, parent: u32) {
        self.up = parent << 1 | self.up & 1;
    }

    #[inline]
    pub(crate) fn is_red(&self) -> bool {
        self.up & 1 == 1
    }

    #[inline]
    pub(crate) fn redden(&mut self) {
        self.up |= 1;
    }

    #[inline]
    pub(crate) fn blacken(&mut self) {
        self.up &= !1;
    }
}

/// The reason that a key was not inserted; the tree is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
pub enum Refused {
    /// This node has the key already.
    #[display("expected a new key, found it in node {node}; set that node's value")]
    Duplicate {
        /// The node that has the key.
        node: u32,
    },
    /// Every lent element is a node.
    #[display("expected a free node, found none; lend more storage")]
    Full,
}

/// A tree without its nodes: its root, and the free elements of the array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Stem {
    pub(crate) root: u32,
    pub(crate) len: u32,
    /// Elements 1 to this one have been nodes at some time.
    pub(crate) used: u32,
    /// The free node that was returned last.
    pub(crate) free: u32,
    /// The nodes with the least and the greatest key. Numbers that are issued in order and expire
    /// in order are found here without a search.
    pub(crate) ends: [u32; 2],
}

impl Stem {
    /// A node without links, from the returned ones or else from those never used.
    #[inline]
    pub(crate) fn take<K>(&mut self, nodes: &mut [Node<K>], key: K, value: u32) -> Option<u32> {
        let at = if self.free == NIL {
            let fresh = self.used + 1;
            if fresh as usize >= nodes.len() || fresh > NODES_MAX {
                return None;
            }
            self.used = fresh;
            fresh
        } else {
            let again = self.free;
            self.free = nodes[again as usize].child[LEFT];
            again
        };
        nodes[at as usize] = Node { key, value, child: [NIL; 2], up: 0 };
        self.len += 1;
        Some(at)
    }

    /// Frees node `at`, to which no link leads any more.
    #[inline]
    pub(crate) fn give<K>(&mut self, nodes: &mut [Node<K>], at: u32) {
        let node = &mut nodes[at as usize];
        node.child = [self.free, NIL];
        node.up = 0;
        self.free = at;
        self.len -= 1;
    }
}
