//! Facts about the search trees, and mutants that test their checker.
//!
//! `fuzz.rs` compares the trees with the standard library's map; here are small trees whose answers
//! are written out. A mutant breaks one link, colour or free node of a sound tree, or leaves out
//! one step of an operation, and the checker must object, where it can by the name of the fault.

use crate::Tree;
use crate::arena::{LEFT, NIL, NODES_MAX, Node, RIGHT, Refused, Stem};
use crate::check::{self, Broken, Shape};
use crate::search::{Bst, RedBlack, SearchTree};
use stats::Rng;
use std::fmt::Debug;

fn storage(len: usize) -> Vec<Node<u64>> {
    vec![Node::default(); Node::<u64>::slots_for(len)]
}

fn filled<T: SearchTree>(keys: impl IntoIterator<Item = u64>, len: usize) -> (T, Vec<Node<u64>>) {
    let (mut tree, mut nodes) = (T::default(), storage(len));
    for (row, key) in keys.into_iter().enumerate() {
        tree.insert(&mut nodes, key, row as u32).expect("keys are distinct and there is room");
    }
    (tree, nodes)
}

#[test]
fn sizes_are_those_of_the_documentation() {
    assert_eq!(size_of::<Node<u64>>(), 24);
    assert_eq!(size_of::<Node<u32>>(), 20);
    assert_eq!(size_of::<RedBlack>(), 24);
    assert_eq!(NODES_MAX, u32::MAX >> 1);
}

#[test]
fn zero_bytes_are_an_empty_tree() {
    fn check<T: SearchTree + Debug>() {
        let (mut tree, mut nodes) = (T::default(), storage(0));
        let view = tree.view(&nodes);
        assert_eq!((view.find(0), view.first(), view.root()), (None, None, None));
        assert_eq!(view.range(0..).next(), None);
        assert!(view.is_empty());
        assert_eq!(tree.check(&nodes), Ok(Shape::default()));
        assert_eq!(tree.remove(&mut nodes, 0), None);
        assert_eq!(tree.insert(&mut nodes, 0, 0), Err(Refused::Full));
        assert_eq!(tree.check(&nodes), Ok(Shape::default()));
    }
    check::<Bst>();
    check::<RedBlack>();
}

#[test]
fn ascending_keys_make_a_list_of_one_and_a_tree_of_the_other() {
    let (list, nodes) = filled::<Bst>(0..1000, 1000);
    assert_eq!(list.check(&nodes).map(|shape| shape.depth), Ok(1000));
    assert!(list.view(&nodes).pre_order().eq(1..1001), "a degenerate tree is walked whole");
    let (tree, nodes) = filled::<RedBlack>(0..1000, 1000);
    let shape = tree.check(&nodes).expect("sound");
    assert!(shape.depth <= 2 * shape.black_height && shape.depth < 20, "{shape:?}");
    assert_eq!(
        tree.view(&nodes).iter().map(|(key, _)| key).collect::<Vec<_>>(),
        Vec::from_iter(0..1000)
    );
}

#[test]
fn a_node_keeps_its_number_until_its_key_is_removed() {
    let (mut tree, mut nodes) = filled::<RedBlack>([50, 20, 80, 10, 30, 70, 90, 60, 75], 9);
    let number = |tree: &RedBlack, nodes: &[Node<u64>], key| tree.view(nodes).find(key);
    let before: Vec<_> = [10, 30, 60, 70, 75, 90].map(|key| number(&tree, &nodes, key)).into();
    // Two children each, one of them the root.
    for key in [50, 80, 20] {
        assert!(tree.remove(&mut nodes, key).is_some());
        tree.check(&nodes).expect("sound");
    }
    let after: Vec<_> = [10, 30, 60, 70, 75, 90].map(|key| number(&tree, &nodes, key)).into();
    assert_eq!(before, after);
    assert_eq!(tree.check(&nodes).map(|shape| shape.free), Ok(3));
    // The node freed last is reused first, and a full tree refuses without a change.
    for key in 0..3 {
        assert!(tree.insert(&mut nodes, key, 0).is_ok());
    }
    assert_eq!(tree.insert(&mut nodes, 4, 0), Err(Refused::Full));
    assert_eq!(tree.check(&nodes).map(|shape| (shape.len, shape.free)), Ok((9, 0)));
}

/// Applies a mutant to a sound tree of the keys 0 to 199 and tests whether the checker objects.
fn check_mutant(mutant: impl FnOnce(&mut RedBlack, &mut [Node<u64>]), objects: fn(Broken) -> bool) {
    let shuffled = (0..200).map(|n| n * 77 % 200);
    let (mut tree, mut nodes) = filled::<RedBlack>(shuffled, 250);
    for key in [3, 50, 120] {
        assert!(tree.remove(&mut nodes, key).is_some());
    }
    tree.check(&nodes).expect("sound before the mutant");
    mutant(&mut tree, &mut nodes);
    let broken = tree.check(&nodes).expect_err("a mutant was not noticed");
    assert!(objects(broken), "noticed as something else: {broken}");
    assert!(broken.to_string().starts_with("expected "), "{broken}");
}

fn child_of_root(tree: &RedBlack, nodes: &[Node<u64>], side: usize) -> u32 {
    nodes[tree.stem.root as usize].child[side]
}

#[test]
fn links_that_are_wrong_are_noticed() {
    check_mutant(
        |tree, nodes| nodes[tree.stem.root as usize].child[LEFT] = 240,
        |broken| matches!(broken, Broken::Astray { to: 240, .. }),
    );
    check_mutant(
        |tree, nodes| {
            let low = tree.view(nodes).first().expect("not empty");
            nodes[low as usize].child[LEFT] = tree.stem.root;
        },
        |broken| matches!(broken, Broken::Shared { .. }),
    );
    check_mutant(
        |tree, nodes| {
            let right = child_of_root(tree, nodes, RIGHT);
            nodes[right as usize].set_parent(right);
        },
        |broken| matches!(broken, Broken::Parent { .. }),
    );
    check_mutant(
        |tree, nodes| nodes[tree.stem.root as usize].child.swap(LEFT, RIGHT),
        |broken| matches!(broken, Broken::Order { .. }),
    );
    // Equal keys violate the order too.
    check_mutant(
        |tree, nodes| {
            let root = nodes[tree.stem.root as usize].key;
            let low = tree.view(nodes).first().expect("not empty");
            nodes[low as usize].key = root;
        },
        |broken| matches!(broken, Broken::Order { .. }),
    );
    check_mutant(|_, nodes| nodes[0].redden(), |broken| broken == Broken::NilWritten);
}

#[test]
fn colours_that_are_wrong_are_noticed() {
    check_mutant(
        |tree, nodes| nodes[tree.stem.root as usize].redden(),
        |broken| broken == Broken::RedRoot,
    );
    check_mutant(
        |tree, nodes| {
            let low = tree.view(nodes).first().expect("not empty");
            let above = nodes[low as usize].parent();
            nodes[low as usize].redden();
            nodes[above as usize].redden();
        },
        |broken| matches!(broken, Broken::RedRed { .. } | Broken::BlackHeight { .. }),
    );
    check_mutant(
        |_, nodes| {
            let red = nodes.iter_mut().find(|node| node.is_red()).expect("some node is red");
            red.blacken();
        },
        |broken| matches!(broken, Broken::BlackHeight { .. }),
    );
}

#[test]
fn storage_that_is_lost_is_noticed() {
    check_mutant(
        |tree, _| tree.stem.ends[RIGHT] = tree.stem.root,
        |broken| matches!(broken, Broken::Ends { .. }),
    );
    check_mutant(|tree, _| tree.stem.len += 1, |broken| matches!(broken, Broken::Len { .. }));
    check_mutant(
        |tree, _| tree.stem.free = tree.stem.root,
        |broken| matches!(broken, Broken::Free { .. }),
    );
    check_mutant(
        |tree, nodes| {
            let first = tree.stem.free;
            nodes[first as usize].child[LEFT] = first;
        },
        |broken| matches!(broken, Broken::Free { .. }),
    );
    check_mutant(|tree, _| tree.stem.free = NIL, |broken| broken == Broken::Lost { nodes: 3 });
}

/// Fills and empties a red-black tree with one step missing until the checker objects.
fn check_step(step: fn(&mut RedBlack, &mut [Node<u64>], u64)) {
    let (mut tree, mut nodes) = filled::<RedBlack>((0..100).map(|n| n * 37 % 100), 120);
    for key in 0..20 {
        step(&mut tree, &mut nodes, key);
        if tree.check(&nodes).is_err() {
            return;
        }
    }
    panic!("a step was left out twenty times, and nothing was noticed");
}

#[test]
fn steps_left_out_are_noticed() {
    // Insertion without its repair.
    check_step(|tree, nodes, key| {
        let new = tree.stem.attach(nodes, 1000 + key, 0).expect("there is room");
        nodes[new as usize].redden();
    });
    // Insertion that colours new nodes black.
    check_step(|tree, nodes, key| {
        tree.stem.attach(nodes, 1000 + key, 0).expect("there is room");
    });
    // Removal without its repair.
    check_step(|tree, nodes, key| {
        let node = tree.view(nodes).find(5 * key).expect("all keys are there");
        tree.stem.unlink(nodes, node);
        tree.stem.give(nodes, node);
    });
    // Removal that frees nothing.
    check_step(|tree, nodes, key| {
        let node = tree.view(nodes).find(5 * key).expect("all keys are there");
        let gap = tree.stem.unlink(nodes, node);
        let Stem { len, free, .. } = tree.stem;
        tree.stem.give(nodes, node);
        tree.stem = Stem { len: len - 1, free, ..tree.stem };
        assert!(gap.was_red || gap.parent != NIL);
    });
    // A rotation that leaves the colours as they were.
    check_step(|tree, nodes, _| tree.stem.rotate(nodes, tree.stem.root, LEFT));
}

#[test]
fn a_tree_without_colours_is_checked_for_everything_else() {
    let (tree, mut nodes) = filled::<Bst>([5, 3, 8], 3);
    nodes[1].redden();
    assert!(tree.check(&nodes).is_ok(), "colours say nothing there");
    assert_eq!(check::search_tree(&tree.stem, &nodes, true), Err(Broken::RedRoot));
    nodes[2].key = 9;
    assert_eq!(tree.check(&nodes), Err(Broken::Order { node: 2 }));
}

#[test]
fn a_grown_tree_is_that_of_insertions() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<u64> = (0..rng.below(120)).map(|_| rng.roll()).collect();
        if rng.below(2) == 0 {
            keys.sort_unstable();
        }
        let (inserted, by_insertion) = filled::<Bst>(keys.iter().copied(), keys.len());
        let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
        sorted.sort_unstable_by_key(|row| keys[*row as usize]);
        let mut nodes = storage(keys.len());
        let grown = Bst::grown(&mut nodes, &sorted, |row| keys[row as usize]);
        assert_eq!((grown, &nodes), (inserted, &by_insertion), "seed {seed}");
        assert!(grown.check(&nodes).is_ok(), "seed {seed}");
    }
}

#[test]
fn no_path_is_twice_as_long_as_another() {
    // Strides give orders from ascending over sawtooth to nearly random.
    for stride in (1_u64..600).step_by(7) {
        let (mut tree, mut nodes) = (RedBlack::default(), storage(600));
        for key in (0..600).map(|n| n * stride % 601) {
            tree.insert(&mut nodes, key, 0).expect("601 is prime, so keys are distinct");
            let Shape { len, depth, black_height, .. } = tree.check(&nodes).expect("sound");
            assert!(depth <= 2 * black_height, "stride {stride}");
            assert!(2f64.powi(depth as i32 / 2) <= f64::from(len + 1), "stride {stride}");
        }
    }
}
