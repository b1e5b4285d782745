//! The notes of the service, and how fast a market starts.

use crate::client::{Client, SAMPLE};
use ::stock::{CAPACITY, Options, book};

#[test]
fn notes_are_those_of_the_course() {
    let client = Client::new(SAMPLE, Options::default());
    let conversation = client.send([&b"show\nbuy 1 1\r\nbuy"[..], b" 2 2\n\nexit\n"]);
    let received = |bytes| format!("server received {bytes} bytes");
    let expected =
        ["Connected to (local, 0)".to_owned(), received(5), received(9), received(8), received(1)];
    assert_eq!(conversation.notes[..5], expected);
    assert_eq!(conversation.notes[5..], [received(5)]);
}

#[test]
fn the_default_book_is_served_and_written_back() {
    let client = Client::new(book::DEFAULT, Options::default());
    assert_eq!(client.say("show\n"), format!("{}\n", book::DEFAULT));
    assert_eq!(client.file(), book::DEFAULT);
}

#[test]
fn a_full_market_is_founded_and_one_more_is_refused() {
    let mut file: String = (0..CAPACITY).map(|row| format!("{} 1 1\n", row * 2 + 1)).collect();
    let client = Client::new(&file, Options::default());
    assert_eq!(client.market.len(), CAPACITY);
    assert_eq!(client.say("buy 2097151 1\nbuy 2097151 1\nbuy 2 1\n").lines().count(), 3);
    file += "2 1 1\n";
    assert!(book::parse(file.as_bytes(), CAPACITY).is_err());
}
