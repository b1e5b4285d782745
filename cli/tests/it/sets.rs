//! Descriptors from 1024 on, which a bit set cannot hold. The runtime needs so few descriptors
//! that a thousand clients fit; a client beyond that is closed at once, and the others notice
//! nothing.

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, eventually, skip};
use crate::market::book;

/// `FD_SETSIZE` (select(2)).
const SETSIZE: usize = 1024;
/// A number of clients that certainly fits.
const FIT: usize = 1000;
/// The number of additional clients.
const LATE: usize = 100;

#[track_caller]
fn check_serves(client: &mut Client) {
    assert_eq!(client.ask("sell 1 1"), "[sell] success");
}

/// Whether the server serves a new client; if not, it closes the connection.
#[track_caller]
fn is_served(client: &mut Client) -> bool {
    match client.try_ask("sell 1 1") {
        Some(line) => {
            assert_eq!(line, "[sell] success");
            true
        }
        None => false,
    }
}

/// A thousand clients at once, and a hundred more.
pub fn a_thousand_fit_and_the_rest_are_sent_away(arm: &Arm) {
    // For our descriptors and the server's, which inherits our limit.
    if sys::limits::raise_open_files(8192).expect("our own limit") < 8192 {
        return skip("descriptors by the thousand");
    }
    let mut server = arm.book(book(3, 100)).start();
    let mut inside: Vec<Client> = (0..FIT).map(|_| server.client()).collect();
    inside.iter_mut().for_each(check_serves);
    let late: Vec<Client> = (0..LATE)
        .filter_map(|_| {
            let mut client = server.client();
            is_served(&mut client).then_some(client)
        })
        .collect();
    let mut refused = LATE - late.len();
    assert!(FIT + late.len() < SETSIZE, "{} clients of one set", FIT + late.len());
    server.says("a connection was closed");
    server.says("--max-connections");
    inside.iter_mut().for_each(check_serves);
    assert!(server.is_running());
    // A client that leaves makes room for another.
    inside.truncate(FIT - LATE);
    eventually("room for one more", PATIENCE, || {
        let served = is_served(&mut server.client());
        refused += usize::from(!served);
        served
    });
    server.settles_at(inside.len() + late.len());
    let mut next: Vec<Client> = (0..LATE).map(|_| server.client()).collect();
    next.iter_mut().for_each(check_serves);
    inside.iter_mut().for_each(check_serves);
    drop((inside, late, next));
    server.settles();
    let stderr = server.stop().err;
    assert_eq!(stderr.matches("a connection was closed").count(), 1, "said once: {stderr}");
    assert!(stderr.contains(&format!("{refused} refused, 0 workers replaced")), "{stderr}");
}
