//! Every index gives the same replies.

use crate::client::{Client, SAMPLE, market_with};
use memory::{Placement, Region};
use services::stock::{Index, Market, Options, Order};
use stats::Rng;

/// A book of `count` stocks whose ids follow `id`.
fn book(count: u32, id: impl Fn(u32) -> u32) -> String {
    (0..count).map(|row| format!("{} {} {}\n", id(row), 10 + row, row)).collect()
}

/// The same random conversation with every index, compared byte by byte.
fn check_alike(text: &str, ids: u32, order: Order, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut requests = String::new();
    for _ in 0..300 {
        let (id, count) = (rng.below(ids as usize + 2), 1 + rng.below(12));
        requests += &match rng.below(20) {
            0 => "show\n".to_owned(),
            1..10 => format!("sell {id} {count}\n"),
            _ => format!("buy {id} {count}\n"),
        };
    }
    let options = Options { order, ..Options::default() };
    let clients = Index::ALL.map(|index| (index, Client::with(index, text, options)));
    let answered =
        clients.each_ref().map(|(index, client)| (index, client.say(&requests), client.file()));
    let [(_, expected, file), others @ ..] = &answered;
    assert!(expected.contains("error: ") && expected.contains("[buy] success"), "seed {seed}");
    for (index, replies, saved) in others {
        assert!(replies == expected, "seed {seed}: {index} gives other replies");
        assert_eq!(saved, file, "seed {seed}: {index} saves another file");
    }
}

#[test]
fn every_index_answers_alike() {
    for order in [Order::File, Order::Sorted] {
        check_alike(SAMPLE, 5, order, 1);
        check_alike(&book(1, |_| 1), 1, order, 2);
        check_alike(&book(300, |row| row + 1), 300, order, 3);
        check_alike(&book(300, |row| 300 - row), 300, order, 4);
        check_alike(&book(300, |row| 1 + row * 77 % 307), 307, order, 5);
    }
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
