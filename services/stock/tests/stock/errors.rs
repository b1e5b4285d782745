//! Limits of lines, numbers and framings. Invalid lines are in `golden/errors.txt` and `model.rs`.

use crate::client::{Client, SAMPLE};
use ::stock::{LINE_MAX, Lock, Options, Stock};
use wire::framing::Framing;

fn client(framing: Framing) -> Client {
    Client::new(SAMPLE, Options { framing, ..Options::default() })
}

#[test]
fn the_longest_line_is_answered_and_a_longer_one_ends_the_conversation() {
    let padded = |len: usize| format!("buy 1 1{}\n", " ".repeat(len - "buy 1 1\n".len()));
    for piece in [1, 100, 8191, 8192, 20_000] {
        let client = client(Framing::Line);
        let received = client.send(padded(LINE_MAX).as_bytes().chunks(piece));
        assert_eq!((received.text().as_str(), received.closed), ("[buy] success\n", false));

        let sent = format!("buy 1 1\n{}buy 1 1\n", padded(LINE_MAX + 1));
        let received = client.send(sent.as_bytes().chunks(piece));
        let expected = "[buy] success\nerror: expected a line of at most 8191 bytes, found a \
                        longer one; closing\n";
        assert_eq!((received.text().as_str(), received.closed), (expected, true));
        assert_eq!(client.file(), SAMPLE.replacen("1 7", "1 5", 1));
    }
}

#[test]
fn a_client_that_pads_its_requests_is_answered_each_time() {
    for piece in [1, 7, 8192, 9000] {
        let client = client(Framing::Line);
        let mut sent = b"buy 1 1\n".to_vec();
        sent.resize(8192, 0);
        let received = client.send(sent.repeat(3).chunks(piece));
        assert!(!received.closed, "pieces of {piece}");
        assert_eq!(received.text(), "[buy] success\n".repeat(3), "pieces of {piece}");
    }
}

#[test]
fn a_page_in_a_browser_cannot_trade() {
    let post = "POST / HTTP/1.1\r\nHost: 127.0.0.1:7001\r\nContent-Length: 8\r\n\r\nbuy 1 1\n";
    let cases = [post, "GET /?buy HTTP/1.0\r\n\r\nbuy 1 1\n", "hOST: a\r\nbuy 1 1\n"];
    for framing in [Framing::Line, Framing::Eof, Framing::Length] {
        for sent in cases {
            let client = client(framing);
            let received = client.send(sent.as_bytes().chunks(7));
            assert!(received.closed && client.file() == SAMPLE, "{sent}");
            let why = "expected a command, found a request of HTTP, as browsers send; closing";
            assert!(received.text().contains(why), "{}", received.text());
            assert_eq!(received.text().matches("error").count(), 1, "{}", received.text());
        }
    }
    // A client that mistypes goes on.
    let received = client(Framing::Line).send([&b"http HTTP\nhostile: 1\nbuy 1 1\n"[..]]);
    assert!(!received.closed && received.text().ends_with("[buy] success\n"));
}

#[test]
fn a_line_without_its_end_is_not_carried_out() {
    let client = client(Framing::Line);
    assert_eq!(client.say("buy 1 1\nbuy 1 1"), "[buy] success\n");
    assert_eq!(client.file(), SAMPLE.replacen("1 7", "1 6", 1));
}

#[test]
fn what_is_left_never_overflows() {
    let book = "1 9223372036854775806 1\n";
    let client = Client::new(book, Options::default());
    let text = client.say("sell 1 2\nsell 1 1\nsell 1 1\nbuy 1 2147483647\n");
    let full = "error: expected at most 9223372036854775807 to be left, found more\n";
    assert_eq!(text, format!("{full}[sell] success\n{full}[buy] success\n"));
    assert_eq!(client.file(), "1 9223372034707292160 1\n");
}

/// Rows of 12 bytes.
fn rows(stocks: u32) -> String {
    (100..100 + stocks).map(|id| format!("{id} 1 10000\n")).collect()
}

#[test]
fn a_framing_into_which_show_does_not_fit_is_refused() {
    let refused = |book: &str, framing| {
        let options = Options { framing, ..Options::default() };
        let client = Client::new(book, options);
        Stock::new(options).fits(&client.market).err()
    };
    let wide = Framing::Fixed(8192);
    assert_eq!(refused(&rows(682), wide), None);
    assert_eq!(refused(SAMPLE, Framing::Fixed(512)), None);
    assert_eq!(refused(&rows(800), Framing::Line), None);
    let why = refused(&rows(683), wide).expect("refused");
    assert!(why.contains("8191 text bytes of framing fixed:8192"), "{why}");
    assert!(why.contains("683 stocks takes 8196 bytes") && why.contains("--framing line"), "{why}");
    let why = refused(SAMPLE, Framing::Fixed(10)).expect("errors would not fit");
    assert!(why.contains("errors and `help`") && !why.contains("show"), "{why}");
}

#[test]
fn a_show_that_has_outgrown_its_framing_is_an_error_and_never_a_part() {
    for lock in Lock::ALL {
        let options = Options { framing: Framing::Fixed(8192), lock, ..Options::default() };
        let client = Client::new(&rows(682), options);
        let note = Stock::new(options).outgrown(&client.market).expect("19 digits do not fit");
        assert!(note.contains("fixed:8192"), "{note}");
        let text = client.say("sell 100 100000000\nshow\nbuy 100 100000000\nshow\n");
        let replies: Vec<&str> = text.split('\0').filter(|reply| !reply.is_empty()).collect();
        assert_eq!(replies.len(), 4, "{lock}");
        assert!(replies[1].starts_with("error: a reply of 8192 bytes does not fit"), "{text}");
        assert_eq!((replies[2], replies[3]), ("[buy] success\n", rows(682).as_str()));
    }
}
