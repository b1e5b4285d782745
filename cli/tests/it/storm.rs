//! Resets in every state of a connection: nothing leaks, no worker dies, the server continues.

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, eventually, rounds};
use crate::market::book;

/// Connections that vanish before they are accepted, after a request, in the middle of a line, in
/// the middle of replies.
pub fn reset_storm(arm: &Arm) {
    let server = arm.book(book(5000, 1_000_000)).start();
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    // If each client has a child, no child is permanent.
    let children = if server.posts > 0 { server.children() } else { Vec::new() };
    for round in rounds(60) {
        server.client().reset();
        let say = |words: &str| {
            let mut client = server.client();
            client.send(words);
            client
        };
        say("buy 2 1\n").reset();
        say("sell 2 1\nbuy 3").reset();
        say("exit\n").reset();
        let mut reader = say("show\nshow\nshow\nshow\nbuy 2 1\n");
        if round % 2 == 0 {
            reader.exact(1 + 997 * round % 9000);
        }
        reader.reset();
    }
    // Many at once, so that most are gone before a worker accepts them.
    let crowd: Vec<Client> = (0..200).map(|_| server.client()).collect();
    crowd.into_iter().for_each(Client::reset);
    let mut last = server.client();
    assert_eq!(last.ask("buy 5 1"), "[buy] success");
    drop(last);
    server.settles();
    let same = || server.is_elastic() || server.children() == children;
    eventually("the same workers as before", PATIENCE, same);
    server.stop().says("0 workers replaced");
}

/// Clients that stay after the server's last reply, or disappear in the middle of it: the server
/// frees them in bounded time.
pub fn who_never_closes_is_cut(arm: &Arm) {
    let server = arm.book(book(3, 100)).start();
    let mut stubborn: Vec<Client> = (0..arm.crowd(8)).map(|_| server.client()).collect();
    for client in &mut stubborn {
        client.send("exit\n");
        assert_eq!(client.rest(), b"");
    }
    server.settles();
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    drop(stubborn);
}

/// Thousands of short connections, in sequence and some at a time.
pub fn churn(arm: &Arm) {
    let server = arm.book(book(3, 1_000_000)).start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for _ in rounds(75) {
                    let mut client = server.client();
                    client.send("buy 1 1\nsell 1 1\nexit\n");
                    assert_eq!(client.rest(), b"[buy] success\n[sell] success\n");
                }
            });
        }
    });
    server.settles();
    assert_eq!(server.show(), book(3, 1_000_000));
}
