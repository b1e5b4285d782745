//! Several lives of a server on one disk. In each it recovers, commits batches, rotates and folds,
//! until it is killed, the power fails or the disk does.

use std::collections::BTreeMap;

use ledger::{Disk, LedgerFault, LedgerState, Log, LogOptions, OrderRecord};
use stats::Rng;

use crate::disk::{Lie, SimDisk, Trouble};

/// A flaw of the server, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Orders are acknowledged before their batch is committed.
    EarlyAck,
    /// An order that a client sends again is executed again.
    Twice,
    /// A log whose sync failed is written to again.
    Retry,
}

const OPTIONS: LogOptions = LogOptions { sync: true, segment_bytes: 48 * 8 };

/// The clients' view of all lives.
struct Story {
    disk: SimDisk,
    rng: Rng,
    flaw: Flaw,
    /// Every order, as it was given to the log.
    orders: Vec<OrderRecord>,
    /// Orders up to this one were acknowledged.
    acknowledged: u64,
    next_request: u64,
}

fn book() -> LedgerState {
    LedgerState::new((1..=4).map(|stock| (stock, 1000)).collect())
}

/// The state after the first `count` orders.
fn after(orders: &[OrderRecord]) -> Result<LedgerState, String> {
    let mut state = book();
    orders.iter().try_for_each(|order| state.apply(order))?;
    Ok(state)
}

impl Story {
    fn new(seed: u64, flaw: Flaw, lie: Lie) -> Story {
        let (disk, rng) = (SimDisk::new(seed, lie), Rng::new(seed ^ 0x5eed));
        ledger::found(&disk, &book()).expect("no trouble yet");
        Story { disk, rng, flaw, orders: Vec::new(), acknowledged: 0, next_request: 1 }
    }

    fn order(&mut self, lefts: &mut BTreeMap<u32, u64>, seq: u64) -> OrderRecord {
        let stock = 1 + self.rng.below(4) as u32;
        let left = lefts.get_mut(&stock).expect("one of four");
        let change = self.rng.below(9) as i32 - 4;
        *left = left.checked_add_signed(change.into()).expect("few orders");
        let again = self.flaw == Flaw::Twice && self.rng.once_in(20) && self.next_request > 1;
        let request = if self.rng.once_in(2) { 0 } else { self.next_request - u64::from(again) };
        self.next_request += u64::from(request == self.next_request);
        OrderRecord { seq, request, stock, change, left: *left }
    }

    /// A restart finds all acknowledged orders, and nothing that was never sent.
    fn recover(&mut self) -> Result<LedgerState, String> {
        let (state, end) = ledger::recover(&self.disk).map_err(|fault| fault.to_string())?;
        if state.last != end.last {
            return Err(format!("expected {} replayed, found {}", end.last, state.last));
        }
        let found = state.last as usize;
        if state.last < self.acknowledged || found > self.orders.len() {
            let (least, most) = (self.acknowledged, self.orders.len());
            return Err(format!("expected {least} to {most} orders, found {found}"));
        }
        self.orders.truncate(found);
        let expected = after(&self.orders)?;
        if (&expected.lefts, &expected.recent) != (&state.lefts, &state.recent) {
            return Err(format!("expected {expected:?}, found {state:?}"));
        }
        Ok(state)
    }

    /// One life, to its end by trouble or after some batches.
    fn live(&mut self) -> Result<(), String> {
        let mut lefts = self.recover()?.lefts;
        let Ok(mut log) = Log::open(self.disk.clone(), OPTIONS) else { return Ok(()) };
        if log.last() != self.orders.len() as u64 {
            return Err(format!("expected {} orders, found {}", self.orders.len(), log.last()));
        }
        self.acknowledged = log.last();
        for _ in 0..self.rng.below(20) {
            let first = self.orders.len();
            for seq in first as u64 + 1..=first as u64 + 1 + self.rng.below(6) as u64 {
                let order = self.order(&mut lefts, seq);
                self.orders.push(order);
            }
            if self.flaw == Flaw::EarlyAck {
                self.acknowledged = self.orders.len() as u64;
            }
            if log.commit(&self.orders[first..]).is_err() {
                let again = log.commit(&[]);
                if !matches!(again, Err(LedgerFault::Stopped(_))) {
                    return Err("expected a log that stops at its first fault".to_owned());
                }
                if self.flaw == Flaw::Retry {
                    self.acknowledged = self.orders.len() as u64;
                }
                return Ok(());
            }
            self.acknowledged = self.orders.len() as u64;
            let kept = match self.rng.below(6) {
                0 => ledger::prepare_spare(&self.disk, OPTIONS),
                1 => ledger::fold(&self.disk, 1).map(drop),
                _ => Ok(()),
            };
            if kept.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn play(seed: u64, flaw: Flaw, lie: Lie) -> Result<(), String> {
    let mut story = Story::new(seed, flaw, lie);
    for _ in 0..4 {
        let at = 1 + story.rng.below(60);
        let trouble = [Trouble::Cut(at), Trouble::Error(at), Trouble::Never];
        let trouble = *story.rng.pick(&trouble);
        story.disk.expect(trouble);
        story.live().map_err(|found| format!("seed {seed}, {trouble:?}: {found}"))?;
        story.disk.expect(Trouble::Never);
        // Otherwise only the process was killed: the next life reads what was never synced.
        if matches!(trouble, Trouble::Cut(_)) || story.rng.once_in(2) {
            story.disk.power_cut();
        }
    }
    story.recover().map(drop).map_err(|found| format!("seed {seed}, at the end: {found}"))
}

#[test]
fn no_acknowledged_order_is_lost_or_doubled() {
    for seed in 0..2000 {
        play(seed, Flaw::None, Lie::None).unwrap_or_else(|found| panic!("{found}"));
    }
}

/// The same workload, cut at each of its operations in turn.
#[test]
fn a_cut_at_every_operation() {
    let run = |seed, cut| {
        let mut story = Story::new(seed, Flaw::None, Lie::None);
        story.disk.expect(cut);
        story.live().unwrap_or_else(|found| panic!("seed {seed}, {cut:?}: {found}"));
        let operations = story.disk.operations();
        story.disk.expect(Trouble::Never);
        story.disk.power_cut();
        story.recover().unwrap_or_else(|found| panic!("seed {seed}, {cut:?}: {found}"));
        operations
    };
    for seed in 0..40 {
        let operations = run(seed, Trouble::Never);
        (1..=operations).for_each(|at| _ = run(seed, Trouble::Cut(at)));
    }
}

/// Commits orders with these numbers, one by one.
fn commit(disk: &SimDisk, segment_bytes: u64, numbers: std::ops::RangeInclusive<u64>) {
    let options = LogOptions { segment_bytes, ..OPTIONS };
    let mut log = Log::open(disk.clone(), options).expect("an honest disk");
    for seq in numbers {
        let order = OrderRecord { seq, request: seq, stock: 1, change: -1, left: 1000 - seq };
        log.commit(&[order]).expect("an honest disk");
    }
}

/// Some committed batches in one segment, and the segment's name.
fn committed(batches: u64) -> (SimDisk, String) {
    let disk = SimDisk::new(1, Lie::None);
    ledger::found(&disk, &book()).expect("an honest disk");
    commit(&disk, 4096, 1..=batches);
    let names = disk.names().expect("an honest disk");
    (disk, names.into_iter().find(|name| name.ends_with(".log")).expect("a segment"))
}

/// Damage to acknowledged orders is refused with a word, never cut like a torn end.
#[test]
fn damage_is_not_taken_for_a_torn_end() {
    for bit in 0..48 * 8 * 4 {
        let (disk, name) = committed(5);
        disk.flip(&name, bit);
        let found = ledger::recover(&disk).expect_err("damage").to_string();
        assert!(found.contains("restore the folder"), "bit {bit}: {found}");
        assert!(Log::open(disk, OPTIONS).is_err(), "bit {bit}");
    }
    let (disk, _) = committed(5);
    disk.flip("snapshot", 77);
    assert!(ledger::recover(&disk).expect_err("damage").to_string().contains("snapshot"));
    let (disk, name) = committed(5);
    disk.flip(&name, 48 * 8 * 6 + 3);
    let (state, end) = ledger::recover(&disk).expect("a torn end");
    assert_eq!((state.last, end.is_torn), (5, true));
}

#[test]
fn folding_keeps_the_state_and_drops_segments() {
    let (disk, _) = committed(3);
    commit(&disk, OPTIONS.segment_bytes, 4..=100);
    let segments = || disk.names().expect("honest").iter().filter(|it| it.ends_with("log")).count();
    let (before, had) = (ledger::recover(&disk).expect("whole").0, segments());
    let folded = ledger::fold(&disk, 0).expect("an honest disk").expect("something");
    assert!(folded > 80 && segments() == 1 && had > 10, "{folded}, {had}");
    assert_eq!(ledger::recover(&disk).expect("whole").0, before);
    assert_eq!(ledger::fold(&disk, 0).expect("an honest disk"), None);
    let (some, _) = ledger::replay(&disk, 99, |_, _| {}).expect("whole");
    assert_eq!(some.lefts[&1], 901);
}

fn check_flaw(flaw: Flaw, lie: Lie, objection: &str) {
    let found = (0..300).find_map(|seed| play(seed, flaw, lie).err());
    let found = found.unwrap_or_else(|| panic!("{flaw:?} and {lie:?} passed unnoticed"));
    assert!(found.contains(objection), "{flaw:?} and {lie:?}: {found}");
}

#[test]
fn each_flaw_is_caught() {
    check_flaw(Flaw::EarlyAck, Lie::None, "orders, found");
    check_flaw(Flaw::Twice, Lie::None, "once, found it in");
    check_flaw(Flaw::Retry, Lie::None, "orders, found");
    check_flaw(Flaw::None, Lie::DroppedSync, "");
    check_flaw(Flaw::None, Lie::DroppedNameSync, "");
}
