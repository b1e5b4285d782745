//! Every book answers alike, whatever finds a stock in it.

use crate::desk::{Desk, SAMPLE, founded_as};
use memory::{Placement, Region};
use services::stock::{Book, Market, Options, Order};
use stats::Rng;

/// A book of `count` stocks whose ids come in the order that `id` says.
fn book(count: u32, id: impl Fn(u32) -> u32) -> String {
    (0..count).map(|row| format!("{} {} {}\n", id(row), 10 + row, row)).collect()
}

/// The same random conversation on every book, byte by byte.
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
    let desks = Book::ALL.map(|book| (book, Desk::with(book, text, options)));
    let said = desks.each_ref().map(|(book, desk)| (book, desk.say(&requests), desk.file()));
    let [(_, expected, file), others @ ..] = &said;
    assert!(expected.contains("error: ") && expected.contains("[buy] success"), "seed {seed}");
    for (book, said, saved) in others {
        assert!(said == expected, "seed {seed}: {book} replies otherwise than {}", said.len());
        assert_eq!(saved, file, "seed {seed}: {book} saves otherwise");
    }
}

#[test]
fn every_book_answers_alike() {
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
    for kind in Book::ALL {
        let market = founded_as(kind, &text);
        assert_eq!(market.book(), kind);
        for row in 0..1000 {
            assert_eq!(market.find(1 + row * 1237 % 2003), Some(row), "{kind}");
        }
        let found = (0..=2100).filter(|id| market.find(*id).is_some()).count();
        assert_eq!(found, 1000, "{kind}");
        assert_eq!(market.find(u32::MAX), None, "{kind}");
    }
}

#[test]
fn a_plain_tree_of_an_ascending_file_is_a_list_and_is_founded_at_once() {
    let text = book(100_000, |row| row + 1);
    let depth = |kind| founded_as(kind, &text).shape().map(|shape| shape.depth);
    assert_eq!(depth(Book::Bst), Some(100_000));
    assert!(depth(Book::RedBlack).is_some_and(|depth| depth <= 34), "2 log2 of 100,001");
    assert_eq!((depth(Book::Hash), depth(Book::Sorted)), (None, None));
}

#[test]
fn a_seed_without_a_book_has_the_usual_one_and_a_wrong_one_is_refused() {
    let found = |seed: &[u8]| {
        let mut market = Region::<Market>::place(Placement::Private).expect("memory");
        market.init(seed).map(|()| market.book())
    };
    assert_eq!(found(SAMPLE.as_bytes()), Ok(Book::Hash));
    assert_eq!(found(&Market::seed(Book::Sorted, SAMPLE.as_bytes())), Ok(Book::Sorted));
    let refused = |seed: &[u8]| found(seed).expect_err("refused").0;
    assert!(refused(b"\x01book tree\n1 2 3\n").contains("hash, level-order, bst"));
    // The line of the file, not of the seed.
    assert!(refused(&Market::seed(Book::Bst, b"1 2 3\n1 2\n")).starts_with("2:4: "));
    assert!(refused(&Market::seed(Book::Bst, b"")).starts_with("1:1: "));
}
