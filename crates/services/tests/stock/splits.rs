//! However the input is cut, the output is the same.

use crate::client::{Client, SAMPLE};
use services::stock::{Lock, Options, Order};
use wire::framing::Framing;

const SCRIPT: &[u8] =
    b"show\nbuy 5 3\r\nsell 2 2\n\n  buy\t1  8 \nbuy 1 6\nbuy 77 1\nshow 2\n\xff\x00\n\
    help\nbuy 1000000000 1\nsell 3 2147483647\nshow\r\nbuy 4 08\nexit\nshow\n";

fn check(options: Options) {
    let hear = |pieces: &mut dyn Iterator<Item = &'static [u8]>| {
        let client = Client::new(SAMPLE, options);
        let received = client.send(pieces);
        (received.text(), received.closed, client.file())
    };
    let whole = hear(&mut [SCRIPT].into_iter());
    assert!(whole.0.contains("[buy] success") && whole.1, "{}", whole.0);
    for at in 1..SCRIPT.len() {
        let (first, second) = SCRIPT.split_at(at);
        assert_eq!(hear(&mut [first, second].into_iter()), whole, "{options:?}, cut at {at}");
    }
    assert_eq!(hear(&mut SCRIPT.chunks(1)), whole, "{options:?}, byte by byte");
}

#[test]
fn at_every_byte_and_at_all_of_them() {
    for framing in [Framing::Line, Framing::Eof, Framing::Length, Framing::Fixed(8192)] {
        for lock in Lock::ALL {
            check(Options { framing, lock, ..Options::default() });
        }
    }
}

#[test]
fn orders_of_show() {
    let said = |order| Client::new(SAMPLE, Options { order, ..Options::default() }).say("show\n");
    let ids = |text: String| -> String {
        text.lines().filter_map(|line| line.split(' ').next()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(said(Order::File)), "1 5 3 4 2 ");
    assert_eq!(ids(said(Order::Sorted)), "1 2 3 4 5 ");
    assert_eq!(ids(said(Order::PreOrder)), "1 5 4 2 3 ");
}

#[test]
fn a_full_output_stops_the_batch_and_room_takes_it_up() {
    let limits = seam::Limits { output_high: 20, output_low: 0, ..Options::default().limits };
    let narrow = Client::new(SAMPLE, Options { limits, ..Options::default() });
    let wide = Client::new(SAMPLE, Options::default());
    let requests = "buy 1 1\nshow\nsell 2 1\n".repeat(50);
    assert_eq!(narrow.say(&requests), wide.say(&requests));
}
