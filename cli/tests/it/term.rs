//! Stops: by `SIGTERM` and `SIGINT` under load, against clients that hold on, stopped twice, out of
//! time. Every reply that was begun arrives whole, and the file holds exactly what was
//! acknowledged.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stats::Rng;
use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Plan, Server, eventually, ms, soak};
use crate::market::{Account, Request, book, parse};

const STOCKS: u32 = 200;

/// Trades until the server ends the conversation; every reply is whole.
fn trade(mut client: Client, seed: u64) -> Account {
    let mut rng = Rng::new(seed);
    let mut account = Account::default();
    let mut pending = VecDeque::new();
    loop {
        if pending.len() < 16 {
            let batch: Vec<Request> =
                (0..=rng.below(16)).map(|_| Request::roll(&mut rng, STOCKS as usize)).collect();
            let lines: String = batch.iter().map(|request| request.line()).collect();
            pending.extend(batch);
            // The server may have closed; acknowledged orders are read below.
            let _ = client.try_send(lines);
        }
        match client.try_receive() {
            Ok(true) => client.settle(&mut account, &mut pending),
            Ok(false) => break,
            // A client in the backlog is reset; the server acknowledged nothing to it.
            Err(error) if account.is_empty() && client.take().is_empty() => {
                println!("never accepted: {error}");
                return account;
            }
            Err(error) => panic!("seed {seed}: expected the end after whole replies: {error}"),
        }
    }
    let half = client.take();
    assert!(half.is_empty(), "seed {seed}: half a reply: {}", half.escape_ascii());
    account
}

#[track_caller]
fn check_stop_under_load(arm: &Arm, signal: Signal, seed: u64) {
    println!("seed {seed}");
    let text = book(STOCKS, 10_000);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let server = arm.stock(&data).start();
    let mut account = Account::default();
    let pid = server.pid;
    std::thread::scope(|scope| {
        let traders: Vec<_> = (0..arm.crowd(6) as u64)
            .map(|trader| {
                // The client connects before the stop, even if its thread starts late.
                let client = server.client();
                scope.spawn(move || trade(client, seed * 100 + trader))
            })
            .collect();
        std::thread::sleep(ms(50 + Rng::new(seed).below(200) as u64));
        sys::process::kill(pid, signal).expect("the server runs");
        for trader in traders {
            account.add(&trader.join().expect("a trader whose replies were whole"));
        }
    });
    server.ended(PATIENCE).success();
    assert!(!account.is_empty(), "nothing was traded");
    let saved = std::fs::read_to_string(&data).expect("the file");
    account.check(&parse(&text).expect("our own book"), &parse(&saved).expect("a whole file"));
}

pub fn stopped_under_load(arm: &Arm) {
    for seed in 1..=soak(2, 50) {
        check_stop_under_load(arm, Signal::TERM, seed);
    }
}

pub fn interrupted_under_load(arm: &Arm) {
    check_stop_under_load(arm, Signal::INT, 9);
}

/// A server with a client in the middle of a long operation.
#[track_caller]
fn held(plan: Plan<'_>) -> (Server, Client) {
    let server = plan.start();
    let mut client = server.client();
    client.send("echo held\nwait 60000\n");
    assert_eq!(client.line(), "= held");
    (server, client)
}

/// The server is forced: it ends soon with exit code 1 and reports why.
#[track_caller]
fn check_forced(server: Server, why: &str) {
    let begin = Instant::now();
    server.ended(PATIENCE).exits(1).says(why);
    let taken = begin.elapsed();
    assert!(taken < Duration::from_secs(5), "it took {taken:?}");
}

/// The first signal waits for the client, also if it comes twice at once, as timeout(1) sends it; a
/// later one does not wait.
pub fn the_second_signal_forces(arm: &Arm) {
    let (mut server, mut client) = held(arm.probe().with(&["--drain", "30s"]));
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    assert!(client.is_silent_for(ms(700)), "the first signal waits");
    assert!(server.is_running());
    server.signal(Signal::TERM);
    check_forced(server, "stopped twice");
}

/// The time to drain is bounded.
pub fn the_drain_has_an_end(arm: &Arm) {
    let (server, client) = held(arm.probe().with(&["--drain", "400ms"]));
    server.signal(Signal::TERM);
    check_forced(server, "the time to drain is over");
    drop(client);
}

/// A client that never reads its replies delays the drain, and is cut off by the forced stop.
pub fn a_deaf_client_is_cut_when_forced(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(20_000, 1_000_000));
    let server = arm.stock(&data).with(&["--drain", "30s", "--write-stall", "30s"]).start();
    let mut deaf = server.client();
    deaf.narrow(4096);
    deaf.send("buy 1 1\n".to_owned() + &"show\n".repeat(500));
    std::thread::sleep(ms(300));
    server.signal(Signal::TERM);
    std::thread::sleep(ms(700));
    server.signal(Signal::TERM);
    check_forced(server, "stopped twice");
    let saved = std::fs::read_to_string(&data).expect("the file");
    assert!(saved.starts_with("1 999999 10\n"), "a forced stop saves too");
}

/// A draining server accepts no new client, and the accepted one finishes.
pub fn a_draining_server_is_closed(arm: &Arm) {
    let server = arm.probe().with(&["--drain", "30s"]).start();
    let mut inside = server.client();
    inside.send("echo held\nwait 1200\necho done\n");
    assert_eq!(inside.line(), "= held");
    server.signal(Signal::TERM);
    // A worker that sleeps in accept(2) checks the phase every 250 ms.
    eventually("no new client is served", PATIENCE, || match Client::try_new(server.address) {
        Ok(mut late) => {
            let _ = late.try_send("echo late\n");
            late.is_silent_for(ms(100)) || late.take().is_empty()
        }
        Err(_) => true,
    });
    assert_eq!(inside.line(), "waited");
    assert_eq!(inside.rest(), b"= done\n#drain\n");
    drop(inside);
    assert_eq!(server.ended(PATIENCE).code, Some(0));
}

/// `SIGHUP` requests a reload. This server has nothing to reload; it reports that and continues.
pub fn a_hangup_is_no_end(arm: &Arm) {
    let mut server = arm.probe().start();
    server.signal(Signal::HUP);
    server.says("reload");
    assert!(server.is_running());
    assert_eq!(server.ask("echo here"), "= here");
    server.stop();
}
