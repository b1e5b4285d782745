//! Hand-overs by `SIGUSR2`: the next binary takes listeners and state, no request fails, no order
//! is lost. If a hand-over is impossible, the server reports why and continues.

use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use stats::Rng;
use sys::signal::Signal;

use crate::arms::{Arm, EPOLL};
use crate::harness::{BINARY, Client, Folder, Raise, Server, ms, soak};
use crate::market::{Account, Request, book, parse};

const STOCKS: u32 = 50;

/// Short conversations in sequence; none of them may fail.
fn trade(address: SocketAddr, seed: u64, over: &AtomicBool) -> Account {
    let mut rng = Rng::new(seed);
    let mut account = Account::default();
    while !over.load(Ordering::Relaxed) {
        let mut client = Client::new(address);
        for _ in 0..4 {
            let request = Request::roll(&mut rng, STOCKS as usize);
            client.send(request.line());
            let mut pending = VecDeque::from([request]);
            while !pending.is_empty() {
                let more = client.try_receive().expect("no conversation fails");
                assert!(more, "seed {seed}: the end instead of the answer to {request:?}");
                client.settle(&mut account, &mut pending);
            }
        }
    }
    account
}

/// Repeated hand-overs under load; the last server has the orders that all of them acknowledged.
pub fn no_request_fails(arm: &Arm) {
    let text = book(STOCKS, 10_000);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let mut server = arm.stock(&data).with(&["--upgradable"]).start();
    let (address, first) = (server.address, server.pid);
    let (over, times) = (AtomicBool::new(false), soak(2, 20));
    let mut account = Account::default();
    std::thread::scope(|scope| {
        let raise = Raise(&over);
        let traders: Vec<_> = (0..3)
            .map(|seed| {
                let over = &over;
                scope.spawn(move || trade(address, seed, over))
            })
            .collect();
        for _ in 0..times {
            std::thread::sleep(ms(100));
            server.signal(Signal::USR2);
            assert_eq!(server.succeeded(), Some(0), "{}", server.err());
        }
        std::thread::sleep(ms(100));
        drop(raise);
        for trader in traders {
            account.add(&trader.join().expect("a trader whose conversations went well"));
        }
    });
    assert_ne!(server.pid, first);
    assert!(!account.is_empty(), "nothing was traded");
    let initial = parse(&text).expect("our own book");
    account.check(&initial, &parse(&server.show()).expect("a whole book"));
    let said = server.stop().err;
    assert_eq!(said.matches("handing over to process").count(), times, "{said}");
    assert_eq!(said.matches("stopped after").count(), times + 1, "{said}");
    let saved = fs::read_to_string(&data).expect("the file");
    account.check(&initial, &parse(&saved).expect("a whole file"));
}

/// The old server serves its connections to their end.
pub fn who_is_inside_stays(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let mut server = arm.stock(&data).with(&["--upgradable"]).start();
    let mut inside = server.client();
    assert_eq!(inside.ask("buy 1 1"), "[buy] success");
    server.signal(Signal::USR2);
    server.says("handing over");
    for _ in 0..5 {
        std::thread::sleep(ms(100));
        assert_eq!(inside.ask("buy 1 1"), "[buy] success");
    }
    drop(inside);
    assert_eq!(server.succeeded(), Some(0));
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    server.stop();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 93 10\n");
}

/// The server continues, and has reported why.
#[track_caller]
fn check_stays(server: &mut Server, reason: &str) {
    server.signal(Signal::USR2);
    server.says(reason);
    assert!(server.is_running());
    assert_eq!(server.ask("sell 1 1"), "[sell] success");
}

/// A hand-over is refused without a state that can be handed over.
pub fn refused_with_private_state(arm: &Arm) {
    let mut server = arm.book("1 100 10\n").start();
    check_stays(&mut server, "cannot hand over: the state lies in private memory");
}

#[test]
fn a_successor_that_does_not_become_ready_changes_nothing() {
    let (folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let binary = folder.path().join("roundhouse");
    fs::copy(BINARY, &binary).expect("a copy of the binary");
    let mut server = EPOLL.stock(&data).with(&["--upgradable"]).binary(&binary).start();
    fs::remove_file(&binary).expect("our copy");
    check_stays(&mut server, "cannot be started again");
    let script = folder.file("roundhouse", "#!/bin/sh\nexit 3\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("our own file");
    check_stays(&mut server, "did not become ready");
    server.stop();
    assert_eq!(fs::read_to_string(&data).expect("the file"), "1 102 10\n");
}
