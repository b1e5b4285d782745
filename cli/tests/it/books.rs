//! A tree that is a list is reported.

use crate::arms::EPOLL;
use crate::market::book;

#[test]
fn a_tree_that_is_a_list_is_told() {
    for (index, is_told) in [("bst", true), ("red-black", false)] {
        let said = EPOLL.book(book(1000, 10)).with(&["--index", index]).start().stop().err;
        assert_eq!(said.contains("1000 deep where 10 would do"), is_told, "{index}: {said}");
    }
}
