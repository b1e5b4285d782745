//! How the indexes differ: in their shape, never in what they find (`model.rs` compares replies).

use crate::client::{SAMPLE, market_with};
use ::stock::{Index, Market};
use memory::{Placement, Region};

#[test]
fn a_plain_tree_of_an_ascending_file_is_a_list_and_is_built_quickly() {
    let text: String = (1..=100_000).map(|id| format!("{id} 10 {id}\n")).collect();
    let depth = |kind| market_with(kind, &text).shape().map(|shape| shape.depth);
    assert_eq!(depth(Index::Bst), Some(100_000));
    assert!(depth(Index::RedBlack).is_some_and(|depth| depth <= 34), "2 log2 of 100,001");
    assert_eq!((depth(Index::Hash), depth(Index::Sorted)), (None, None));
}

#[test]
fn a_seed_without_an_index_has_the_default_and_a_wrong_one_is_refused() {
    let found = |seed: &[u8]| {
        let mut market = Region::<Market>::place(Placement::Private).expect("memory");
        market.init(seed).map(|()| market.index())
    };
    assert_eq!(found(SAMPLE.as_bytes()), Ok(Index::Hash));
    assert_eq!(found(&Market::seed(Index::Sorted, SAMPLE.as_bytes())), Ok(Index::Sorted));
    let refused = |seed: &[u8]| found(seed).expect_err("refused").0;
    assert!(refused(b"\x01index tree\n1 2 3\n").contains("hash, level-order, bst"));
    // Line numbers count from the file, not from the seed.
    assert!(refused(&Market::seed(Index::Bst, b"1 2 3\n1 2\n")).starts_with("2:4: "));
    assert!(refused(&Market::seed(Index::Bst, b"")).starts_with("1:1: "));
}
