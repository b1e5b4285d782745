//! `show` and the saver see one instant, regardless of concurrent workers.

use crate::client::Client;
use ::stock::{Lock, Market, Options, Order};
use seam::WorkerId;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

const STOCKS: u32 = 40;
const EACH: u64 = 1000;

fn book() -> String {
    (1..=STOCKS).map(|id| format!("{id} {EACH} 1\n")).collect()
}

fn lefts(text: &str) -> Vec<u64> {
    let left =
        |line: &str| line.split(' ').nth(1).expect("three fields").parse().expect("a number");
    text.lines().filter(|line| !line.is_empty()).map(left).collect()
}

/// Runs `write` on two threads until `read` was called at least `reads` times and both have
/// written.
fn race(reads: u32, write: impl Fn(WorkerId, u32) + Sync, mut read: impl FnMut(WorkerId)) {
    let over = AtomicBool::new(false);
    let writes = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|threads| {
        for slot in [1, 2] {
            let (over, write, writes) = (&over, &write, &writes[slot - 1]);
            threads.spawn(move || {
                let mut turn = slot as u32;
                while !over.load(Relaxed) {
                    turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    write(WorkerId::new(slot, 1), turn);
                    writes.fetch_add(1, Relaxed);
                }
            });
        }
        let mut calls = 0;
        while calls < reads || writes.iter().any(|writes| writes.load(Relaxed) < 100) {
            read(WorkerId::new(0, 1));
            calls += 1;
        }
        over.store(true, Relaxed);
    });
}

/// A batch that moves one share between stocks keeps the sum, and so must every snapshot.
#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    let client = Client::new(&book(), Options::default());
    let market: &Market = &client.market;
    let transfer = |me, turn: u32| {
        let batch = market.enter(me);
        let (from, to) = (turn >> 8 & 31, turn >> 16 & 31);
        if market.buy(from, 1).is_ok() {
            market.sell(to, 1).expect("far from full");
        }
        drop(batch);
    };
    let mut versions = Vec::new();
    race(3000, transfer, |me| {
        let mut lefts = [0; STOCKS as usize];
        versions.push(market.copy_lefts(me, &mut lefts));
        assert_eq!(lefts.iter().sum::<u64>(), u64::from(STOCKS) * EACH);
    });
    assert!(versions.is_sorted(), "versions go forward");
    assert!(market.version() > versions[0] && market.changed_since(versions[0]));
}

/// Sequential orders of one worker are never seen out of order.
#[test]
fn orders_are_seen_in_order() {
    for lock in [Lock::Snapshot, Lock::Global] {
        let client = Client::new(&book(), Options { lock, ..Options::default() });
        let market: &Market = &client.market;
        // Each thread sells round-robin in its own half: no earlier row may lag a later one.
        let round = |me: WorkerId, _turn| {
            let rows = if me.slot() == 1 { 0..STOCKS / 2 } else { STOCKS / 2..STOCKS };
            for row in rows {
                let _batch = market.enter(me);
                market.locked(lock, me, row, || market.sell(row, 1)).expect("far from full");
            }
        };
        race(2000, round, |_| {
            let lefts = lefts(&client.say("show\n"));
            for half in lefts.chunks(STOCKS as usize / 2) {
                assert!(half.is_sorted_by(|one, next| one >= next), "{lock}: {half:?}");
                assert!(half[0] - half[half.len() - 1] <= 1, "{lock}: {half:?}");
            }
        });
    }
}

/// Under every lock no order is lost, invented or executed twice.
#[test]
fn stock_is_conserved_between_threads() {
    for lock in Lock::ALL {
        let client = Client::new(&book(), Options { lock, ..Options::default() });
        let bought = [const { AtomicU64::new(0) }; 2];
        let market: &Market = &client.market;
        let order = |me: WorkerId, turn: u32| {
            let row = turn >> 8 & 3;
            let _batch = market.enter(me);
            if market.locked(lock, me, row, || market.buy(row, 3)).is_ok() {
                bought[me.slot() - 1].fetch_add(3, Relaxed);
            }
        };
        race(100, order, |_| drop(client.say("show\n")));
        let bought: u64 = bought.iter().map(|count| count.load(Relaxed)).sum();
        let left: u64 = lefts(&client.file()).iter().sum();
        assert_eq!(left + bought, u64::from(STOCKS) * EACH, "{lock}");
    }
}

/// A large book is rendered once and shared while nothing changes, and again after an order.
#[test]
fn a_shared_show_is_never_stale() {
    let book: String = (1..=500).map(|id| format!("{id} 5 1\n")).collect();
    for order in Order::ALL {
        let client = Client::new(&book, Options { order, ..Options::default() });
        let show = client.say("show\n");
        assert_eq!(client.say("show\nshow\n"), show.repeat(2));
        let mixed = client.say("buy 300 2\nshow\nsell 300 1\nshow\n");
        let first = show.replace("\n300 5 1\n", "\n300 3 1\n");
        let second = show.replace("\n300 5 1\n", "\n300 4 1\n");
        assert_eq!(mixed, format!("[buy] success\n{first}[sell] success\n{second}"));
        assert_eq!(client.say("show\n"), second);
    }
}

/// A worker killed inside a batch or holding the lock blocks no other worker once it is healed.
#[test]
fn the_dead_are_healed() {
    for lock in [Lock::Snapshot, Lock::Global] {
        let client = Client::new(&book(), Options { lock, ..Options::default() });
        let market: &Market = &client.market;
        let dead = WorkerId::new(5, 1);
        let before = market.version();
        std::mem::forget(market.enter(dead));
        market.locked(lock, dead, 0, || market.buy(0, 1)).expect("enough left");
        let saved = lefts(&client.file());
        assert_eq!(saved[0], EACH - 1, "who heals can save before it has healed");
        market.heal(dead);
        assert!(market.changed_since(before), "what the dead did counts as a change");
        assert_eq!(lefts(&client.say("show\n"))[0], EACH - 1, "{lock}");
        assert_eq!(client.say("buy 1 1\n"), "[buy] success\n", "{lock}");
    }
}
