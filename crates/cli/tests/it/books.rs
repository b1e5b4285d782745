//! The choice of the index is invisible to clients.

use crate::arms::{EPOLL, PREFORK};
use crate::harness::Folder;
use crate::market::book;

/// Replies and the saved file of one conversation.
fn served(arm: &crate::arms::Arm, flags: &[&str], text: &str) -> (String, String, String) {
    let (_folder, data) = Folder::with("stock.txt", text);
    let server = arm.stock(&data).with(flags).start();
    let mut client = server.client();
    client.send("show\nbuy 5 3\nbuy 77 1\nsell 2 7\nbuy 3 999999\nbuy 0 1\nshow\nexit\n");
    let replies = String::from_utf8_lossy(&client.rest()).into_owned();
    let ended = server.stop();
    (replies, std::fs::read_to_string(&data).expect("the file was saved"), ended.err)
}

#[test]
fn every_book_serves_alike() {
    let text = "10 4 100\n2 9 20\n5 30 50\n77 1 770\n3 8 30\n1 7 10\n";
    for arm in [&EPOLL, &PREFORK] {
        let (replies, saved, _) = served(arm, &[], text);
        assert!(replies.contains("\n5 27 50\n") && saved.contains("\n77 0 770\n"), "{replies}");
        for name in ["hash", "level-order", "bst", "red-black", "sorted"] {
            let (same, file, _) = served(arm, &["--index", name], text);
            assert_eq!((same, file), (replies.clone(), saved.clone()), "{name}");
        }
    }
}

#[test]
fn a_tree_that_is_a_list_is_told() {
    let text = book(1000, 10);
    let (_, _, said) = served(&EPOLL, &["--index", "bst"], &text);
    assert!(said.contains("1000 deep where 10 would do"), "{said}");
    let (_, _, said) = served(&EPOLL, &["--index", "red-black"], &text);
    assert!(!said.contains("deep"), "{said}");
}
