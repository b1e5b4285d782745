//! Walks every order in which the threads of a small port can call the protocol to its end; then
//! plants faults in it one by one and expects each to be found.
//!
//! From each state of a [`World`] the test tries every move of a thread or of the kernel; it does
//! not walk known states again. A job or a step that never ends is a move that is not made.

mod world;

use std::collections::HashSet;

use self::world::{Kind, Mutant, World};
use super::*;

/// Walks through all states up to the first breach.
fn walk(start: &World, tokens: usize, long: bool) -> Result<(), &'static str> {
    // Steps and jobs end; jobs never end; neither ends.
    for (runs_end, jobs_end) in [(true, true), (true, false), (false, false)] {
        let (mut seen, mut open) = (HashSet::new(), vec![start.clone()]);
        while let Some(world) = open.pop() {
            world.check(tokens)?;
            let moves = world.moves(runs_end, jobs_end);
            if moves.is_empty() {
                world.check_still(tokens, long, runs_end)?;
            }
            for next in moves {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        assert!(seen.len() > 3, "nothing was walked");
    }
    Ok(())
}

const SCRIPTS: [&[Kind]; 4] = [
    &[Kind::Plain, Kind::Plain, Kind::Plain],
    &[Kind::Job, Kind::Plain, Kind::Job],
    &[Kind::Again, Kind::Job, Kind::Plain],
    &[Kind::Job, Kind::Job, Kind::Job],
];

fn each(mutant: Mutant) -> Result<(), &'static str> {
    for threads in 1..=3 {
        for tokens in 1..=threads {
            for script in SCRIPTS {
                for long in [false, true] {
                    let start = World::new(threads, tokens, script, long, mutant);
                    walk(&start, tokens, long)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn no_order_of_calls_breaks_the_protocol() {
    assert_eq!(each(Mutant::None), Ok(()));
}

#[test]
fn each_planted_fault_is_found() {
    use Mutant::*;
    let all = [
        NobodyWoken,
        TokenKept,
        TokenLost,
        LeadKept,
        AllWork,
        WokenKept,
        SleepersForgotten,
        TokenForged,
    ];
    for mutant in all {
        let found = each(mutant);
        println!("{mutant:?}: {found:?}");
        assert!(found.is_err(), "{mutant:?} was not found");
    }
}

#[test]
fn batches_are_equal_once_items_are_long_and_few_threads_wake_for_short_ones() {
    let take = |long: bool, items: usize, sleeping: usize| {
        let mut scheduler: Scheduler<usize, ()> = Scheduler::new(4);
        scheduler.item_ns = if long { LONG_NS } else { 0 };
        scheduler.sleeping = (1..=sleeping).collect();
        scheduler.submit(&mut (0..items).collect(), &mut Vec::new());
        let mut batch = Vec::new();
        assert_eq!(scheduler.next(0, &mut batch), Action::Run);
        (batch.len(), scheduler.wake_next())
    };
    assert_eq!(take(true, 8, 3), (2, Some(3)));
    assert_eq!(take(false, 8, 3), (8, None));
    assert_eq!(take(false, 9, 3), (8, Some(3)));
    assert_eq!(take(true, 1, 3), (1, Some(3)), "one thread must lead");
    assert_eq!(take(false, 100, 0), (BATCH_MAX, None));
    let mut scheduler: Scheduler<(), ()> = Scheduler::new(1);
    (0..40).for_each(|_| scheduler.record(10, 10 * 2 * LONG_NS));
    assert!(scheduler.is_long());
    (0..40).for_each(|_| scheduler.record(10, 20_000));
    assert!(!scheduler.is_long());
}
