//! How the indexes differ: in their shape, never in what they find (`model.rs` compares replies).

use crate::client::{SAMPLE, market_with};
use ::stock::{Index, Market};
use memory::{Placement, Region};

/// A book of `count` stocks whose ids follow `id`.
fn book(count: u32, id: impl Fn(u32) -> u32) -> String {
    (0..count).map(|row| format!("{} {} {}\n", id(row), 10 + row, row)).collect()
}

#[test]
fn every_stock_is_found_and_no_other() {
    let text = book(1000, |row| 1 + row * 1237 % 2003);
    for kind in Index::ALL {
        let market = market_with(kind, &text);
        assert_eq!(market.index(), kind);
        for row in 0..1000 {
            assert_eq!(market.find(1 + row * 1237 % 2003), Some(row), "{kind}");
        }
        let found = (0..=2100).filter(|id| market.find(*id).is_some()).count();
        assert_eq!(found, 1000, "{kind}");
        assert_eq!(market.find(u32::MAX), None, "{kind}");
    }
}

#[test]
fn a_plain_tree_of_an_ascending_file_is_a_list_and_is_built_quickly() {
    let text = book(100_000, |row| row + 1);
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
