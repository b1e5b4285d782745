//! Hand-overs by `SIGUSR2`: the next binary takes listeners and state, and nobody outside notices.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::process::{self, Pid};
use sys::signal::Signal;
use wire::dice::Dice;

use crate::arms::Arm;
use crate::harness::{Folder, PATIENCE, Server, eventually, is_alive, ms, soak};
use crate::market::{Account, Request, book, parse};

const STOCKS: u32 = 20;
/// Requests on a connection: short visits, so that many begin while the binaries change.
const VISIT: usize = 20;

/// Trades in short visits until told to stop; every visit is served to its end.
fn trade(server: &Server, seed: u64, stop: &AtomicBool) -> Account {
    let mut dice = Dice::new(seed);
    let mut account = Account::default();
    while !stop.load(Ordering::Relaxed) {
        let mut client = server.client();
        let mut pending = VecDeque::new();
        for _ in 0..VISIT {
            let request = Request::roll(&mut dice, STOCKS as usize);
            client.send(request.line());
            pending.push_back(request);
            while !pending.is_empty() {
                let more = client.try_receive().expect("no connection fails");
                assert!(more, "seed {seed}: expected a reply, found the end");
                client.settle(&mut account, &mut pending);
            }
        }
    }
    account
}

/// The processes that were handed over to so far, oldest first.
fn successors(server: &Server) -> Vec<Pid> {
    let said = server.said();
    let numbers = said.lines().filter_map(|line| line.strip_prefix("handing over to process "));
    numbers.filter_map(|number| Pid::of(number.parse().ok()?)).collect()
}

fn rows(file: &Path) -> Option<crate::market::Lefts> {
    parse(&std::fs::read_to_string(file).expect("the book is there"))
}

/// No request fails and no order is lost while binaries take over from each other under load.
pub fn no_request_fails(arm: &Arm) {
    let folder = Folder::new();
    let text = book(STOCKS, 1_000_000);
    let data = folder.file("stock.txt", &text);
    let server = arm.stock(&data).with(&["--upgradable"]).start();
    let stop = AtomicBool::new(false);
    let mut account = Account::default();
    let mut last = server.pid;
    std::thread::scope(|scope| {
        let traders: Vec<_> = (0..4)
            .map(|seed| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || trade(server, seed, stop))
            })
            .collect();
        for round in 1..=soak(2, 20) {
            std::thread::sleep(ms(100));
            process::kill(last, Signal::USR2).expect("it serves");
            eventually("a successor", PATIENCE, || successors(&server).len() == round);
            eventually("the server before leaves", PATIENCE, || !is_alive(last));
            last = successors(&server)[round - 1];
        }
        stop.store(true, Ordering::Relaxed);
        for trader in traders {
            account.add(&trader.join().expect("no request failed"));
        }
    });
    process::kill(last, Signal::TERM).expect("it serves");
    eventually("the last successor ends", PATIENCE, || !is_alive(last));
    account.check(&parse(&text).expect("whole"), &rows(&data).expect("the file is whole"));
}

/// Without a state that can be handed over the server says so and goes on.
pub fn refused_with_private_state(arm: &Arm) {
    let folder = Folder::new();
    let data = folder.file("stock.txt", book(STOCKS, 10));
    let server = arm.stock(&data).start();
    process::kill(server.pid, Signal::USR2).expect("it serves");
    server.says("cannot hand over: the state lies in private memory");
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
}
