//! Checks every invariant of a search tree in each node.
//!
//! The checker trusts only nodes that it has visited: links may lead out of the array or form a
//! cycle, so it follows each at most once. It keeps its own stack, because an unbalanced tree may
//! be as deep as it is large.

use crate::arena::{LEFT, NIL, Node, RIGHT, Stem};
use crate::links::outermost;

/// The shape of a sound tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// The number of keys.
    pub len: u32,
    /// The number of nodes on the longest path down.
    pub depth: u32,
    /// The number of black nodes on every path to a missing child; in a tree without colours the
    /// smallest number of nodes on such a path.
    pub black_height: u32,
    /// The number of free elements that have been nodes.
    pub free: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Broken {
    /// A link leads to an element that was never a node.
    #[display("expected a node below node {from}, found the unused element {to}")]
    Astray { from: u32, to: u32 },
    /// Two links lead to one node, or one leads back up.
    #[display("expected one way to each node, found a second one to node {node}")]
    Shared { node: u32 },
    /// A node names a wrong parent.
    #[display("expected node {node} to name {expected} above it, found {found}")]
    Parent { node: u32, expected: u32, found: u32 },
    /// A key lies outside the bounds of its place.
    #[display("expected keys in order, found the key of node {node} out of place")]
    Order { node: u32 },
    #[display("expected a black root, found a red one")]
    RedRoot,
    #[display("expected a black node below a red one, found node {node} red")]
    RedRed { node: u32 },
    /// Two paths down have different numbers of black nodes.
    #[display("expected {expected} black nodes on every way down, found {found} to node {node}")]
    BlackHeight { node: u32, expected: u32, found: u32 },
    /// The tree names a wrong first or last node.
    #[display(
        "expected the tree to begin and to end at {expected:?}, found that it names {found:?}"
    )]
    Ends { expected: [u32; 2], found: [u32; 2] },
    /// The tree's count of its keys is wrong.
    #[display("expected the tree to count {expected} keys, found that it says {found}")]
    Len { expected: u32, found: u32 },
    /// The list of free nodes leads out of the array, in a cycle, or to a node in the tree.
    #[display("expected a list of free nodes, found that it leads to {node}")]
    Free { node: u32 },
    /// Elements are neither in the tree nor free.
    #[display("expected each element in the tree or free, found {nodes} that are neither")]
    Lost { nodes: u32 },
    /// The element that stands for no node was written.
    #[display("expected element 0 to be zero, found it written")]
    NilWritten,
}

/// Checks the invariants of a search tree, and with `coloured` those of a balanced one.
pub(crate) fn search_tree<K: Ord + Copy>(
    stem: &Stem,
    nodes: &[Node<K>],
    coloured: bool,
) -> Result<Shape, Broken> {
    let mut survey = Survey::of(stem, nodes);
    survey.tree(stem, nodes, coloured)?;
    survey.rest(stem, nodes)
}

struct Survey {
    seen: Vec<bool>,
    shape: Shape,
    /// Black nodes on the first path down that ended.
    blacks: Option<u32>,
}

/// A link to follow, and the bounds of its subtree.
struct Visit<K> {
    node: u32,
    above: u32,
    low: Option<K>,
    high: Option<K>,
    /// The numbers of nodes and of black nodes above.
    depth: u32,
    blacks: u32,
}

impl Survey {
    fn of<K>(stem: &Stem, nodes: &[Node<K>]) -> Survey {
        let len = (stem.used as usize).saturating_add(1).min(nodes.len());
        Survey { seen: vec![false; len], shape: Shape::default(), blacks: None }
    }

    fn tree<K: Ord + Copy>(
        &mut self,
        stem: &Stem,
        nodes: &[Node<K>],
        coloured: bool,
    ) -> Result<(), Broken> {
        if nodes.first().is_some_and(|nil| nil.up != 0 || nil.child != [NIL; 2]) {
            return Err(Broken::NilWritten);
        }
        let root =
            Visit { node: stem.root, above: NIL, low: None, high: None, depth: 0, blacks: 0 };
        let mut to_see = vec![root];
        while let Some(visit) = to_see.pop() {
            let Visit { node: at, above, low, high, depth, blacks } = visit;
            if at == NIL {
                self.way_down(above, blacks, coloured)?;
                continue;
            }
            self.mark(at).map_err(|seen| match seen {
                true => Broken::Shared { node: at },
                false => Broken::Astray { from: above, to: at },
            })?;
            let node = &nodes[at as usize];
            if node.parent() != above {
                return Err(Broken::Parent { node: at, expected: above, found: node.parent() });
            }
            let key = node.key;
            if low.is_some_and(|low| low >= key) || high.is_some_and(|high| high <= key) {
                return Err(Broken::Order { node: at });
            }
            if coloured && node.is_red() {
                match above {
                    NIL => return Err(Broken::RedRoot),
                    _ if nodes[above as usize].is_red() => return Err(Broken::RedRed { node: at }),
                    _ => {}
                }
            }
            let depth = depth + 1;
            self.shape.len += 1;
            self.shape.depth = self.shape.depth.max(depth);
            let blacks = blacks + u32::from(!(coloured && node.is_red()));
            let [left, right] = [node.child[LEFT], node.child[RIGHT]];
            to_see.push(Visit { node: left, above: at, low, high: Some(key), depth, blacks });
            to_see.push(Visit { node: right, above: at, low: Some(key), high, depth, blacks });
        }
        self.shape.black_height = self.blacks.unwrap_or(0);
        Ok(())
    }

    /// Checks a path down that ends below `node`.
    fn way_down(&mut self, node: u32, blacks: u32, coloured: bool) -> Result<(), Broken> {
        match self.blacks {
            Some(expected) if coloured && expected != blacks => {
                Err(Broken::BlackHeight { node, expected, found: blacks })
            }
            Some(least) => {
                self.blacks = Some(least.min(blacks));
                Ok(())
            }
            None => {
                self.blacks = Some(blacks);
                Ok(())
            }
        }
    }

    /// Marks `node` as seen; the error says whether it was seen before.
    fn mark(&mut self, node: u32) -> Result<(), bool> {
        match self.seen.get_mut(node as usize) {
            None => Err(false),
            Some(true) => Err(true),
            Some(seen) => {
                *seen = true;
                Ok(())
            }
        }
    }

    /// Checks the count and the free nodes, and that no element is lost.
    fn rest<K>(mut self, stem: &Stem, nodes: &[Node<K>]) -> Result<Shape, Broken> {
        if self.shape.len != stem.len {
            return Err(Broken::Len { expected: self.shape.len, found: stem.len });
        }
        let end = |side| if stem.root == NIL { NIL } else { outermost(nodes, stem.root, side) };
        let expected = [end(LEFT), end(RIGHT)];
        if stem.ends != expected {
            return Err(Broken::Ends { expected, found: stem.ends });
        }
        let mut free = stem.free;
        while free != NIL {
            self.mark(free).map_err(|_| Broken::Free { node: free })?;
            self.shape.free += 1;
            free = nodes[free as usize].child[LEFT];
        }
        match stem.used - self.shape.len - self.shape.free {
            0 => Ok(self.shape),
            nodes => Err(Broken::Lost { nodes }),
        }
    }
}
