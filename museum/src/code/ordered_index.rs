//! A list, a binary search tree, a red-black tree: each order of arrival and each operation by
//! itself, with an array, a B-tree and a hash table next to the trees; and the worst single
//! insertion, because no mean shows it.
//!
//! Each contest has one operation and the same keys for every structure. Jobs that insert, find or
//! erase also check their result, so a structure that is fast because it does nothing would fail.

use super::{blocks, list, whole};
use crate::contest::{Contest, Rng, ns_each};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use kinds::{HASHED, Kind, Map, PLAIN};
use std::hint::black_box;
use std::time::Instant;

mod kinds;

const JOB: usize = 2_000;
/// Keys that are looked for and erased in the published jobs.
const SOUGHT: usize = 100;

/// The order in which keys arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Random,
    Ascending,
    Descending,
}

const JOBS_PUBLISHED: [&str; 3] = ["insert", "find", "erase"];

const ARRIVALS: [(Arrival, &str); 3] = [
    (Arrival::Random, "random"),
    (Arrival::Ascending, "ascending"),
    (Arrival::Descending, "descending"),
];

impl Arrival {
    fn keys(self, count: usize) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..count as u64).map(|at| at * 7 + 3).collect();
        match self {
            Arrival::Random => Rng::new(count as u64).shuffle(&mut keys),
            Arrival::Ascending => {}
            Arrival::Descending => keys.reverse(),
        }
        keys
    }
}

/// The operation on a full map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Erase every key, in random order.
    Erase,
    /// Insert the next number and erase the oldest.
    Window,
    /// Read everything in order.
    Walk,
    /// Read sixteen keys from a random one on.
    Range,
    /// Find keys with a skewed popularity (Zipf).
    Zipf,
}

const JOBS: [(Job, &str); 5] = [
    (Job::Erase, "erase"),
    (Job::Window, "window"),
    (Job::Walk, "walk"),
    (Job::Range, "range of 16"),
    (Job::Zipf, "find, Zipf"),
];

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (blocks, times) = (blocks(scope)?, whole(scope, "times_sought")?);
    for name in JOBS_PUBLISHED {
        let contest = published(name, blocks, whole(scope, "again")?);
        stage.contest(contest, results)?;
    }
    for (arrival, name) in ARRIVALS {
        stage.contest(inserted(arrival, name, blocks), results)?;
    }
    for count in list(scope, "counts")? {
        stage.contest(sought(count, blocks, times), results)?;
    }
    for (job, name) in JOBS {
        stage.contest(done(job, name, blocks, times), results)?;
    }
    let count = whole(scope, "singles")? as usize;
    let singles: Vec<_> = kinds::all(count).into_iter().map(|kind| single(kind, count)).collect();
    results.set("single", singles);
    results.set("depth", ARRIVALS.map(|(arrival, _)| kinds::depths(&arrival.keys(JOB))));
    Ok(())
}

/// A published job: all keys in, or of the full map some found, or some erased.
fn published(name: &'static str, blocks: u32, times: u64) -> Contest<'static> {
    let keys = Arrival::Random.keys(JOB);
    let mut wanted = keys.clone();
    Rng::new(5).shuffle(&mut wanted);
    wanted.truncate(SOUGHT);
    let mut contest = Contest::new(format!("published, {name}"), blocks);
    for (arm, mut map) in kinds::published(JOB) {
        let (keys, wanted) = (keys.clone(), wanted.clone());
        contest.arm(arm, move || {
            let mut all = Vec::new();
            for _ in 0..times {
                map.clear();
                let fill = |map: &mut Box<dyn Map>| keys.iter().for_each(|key| map.insert(*key));
                if name == JOBS_PUBLISHED[0] {
                    all.push(ns_each(keys.len() as u64, || fill(&mut map)));
                    continue;
                }
                fill(&mut map);
                all.push(ns_each(wanted.len() as u64, || {
                    let act = |key: &u64| {
                        if name == JOBS_PUBLISHED[1] { map.find(*key) } else { map.erase(*key) }
                    };
                    assert_eq!(wanted.iter().map(act).filter(|it| *it).count(), wanted.len());
                }));
            }
            all.iter().sum::<f64>() / all.len() as f64
        });
    }
    contest
}

fn inserted(arrival: Arrival, name: &str, blocks: u32) -> Contest<'static> {
    let mut contest = Contest::new(format!("insert, {name}"), blocks);
    for (arm, mut map) in kinds::arriving(JOB) {
        let keys = arrival.keys(JOB);
        contest.arm(arm, move || {
            map.clear();
            let cost = ns_each(JOB as u64, || keys.iter().for_each(|key| map.insert(*key)));
            assert!(keys.iter().all(|key| map.find(*key)), "{arm} holds every key");
            cost
        });
    }
    contest
}

fn sought(count: usize, blocks: u32, times: u64) -> Contest<'static> {
    let keys = Arrival::Random.keys(count);
    let mut contest = Contest::new(format!("find among {count}"), blocks);
    for (arm, mut map) in kinds::all(count) {
        keys.iter().for_each(|key| map.insert(*key));
        let wanted = keys.clone();
        contest.arm(arm, move || {
            ns_each(times, || {
                let all = wanted.iter().rev().cycle().take(times as usize);
                assert_eq!(all.filter(|key| map.find(**key)).count() as u64, times);
            })
        });
    }
    contest
}

/// Ranks with a frequency in proportion to 1 / rank (Zipf), by the inverse of their sum.
fn zipf(keys: &[u64], times: usize) -> Vec<u64> {
    let mut sums: Vec<f64> = Vec::with_capacity(keys.len());
    for rank in 1..=keys.len() {
        sums.push(sums.last().copied().unwrap_or(0.0) + 1.0 / rank as f64);
    }
    let whole = sums.last().copied().unwrap_or(1.0);
    let mut rng = Rng::new(11);
    let mut pick = || {
        let wanted = rng.roll() as f64 / u64::MAX as f64 * whole;
        keys[sums.partition_point(|sum| *sum < wanted).min(keys.len() - 1)]
    };
    (0..times).map(|_| pick()).collect()
}

fn done(job: Job, name: &str, blocks: u32, times: u64) -> Contest<'static> {
    let keys = Arrival::Random.keys(JOB);
    let mut order = keys.clone();
    Rng::new(13).shuffle(&mut order);
    let popular = zipf(&keys, times as usize);
    let mut contest = Contest::new(format!("{name} of {JOB}"), blocks);
    for (arm, mut map) in kinds::all(JOB) {
        if arm == HASHED && matches!(job, Job::Walk | Job::Range) {
            continue;
        }
        let (keys, order, popular) = (keys.clone(), order.clone(), popular.clone());
        contest.arm(arm, move || {
            map.clear();
            if job == Job::Window {
                (0..JOB as u64).for_each(|key| map.insert(key));
            } else {
                keys.iter().for_each(|key| map.insert(*key));
            }
            match job {
                Job::Erase => ns_each(JOB as u64, || {
                    assert_eq!(order.iter().filter(|key| map.erase(**key)).count(), JOB);
                }),
                Job::Window => ns_each(JOB as u64, || {
                    for key in 0..JOB as u64 {
                        map.insert(JOB as u64 + key);
                        assert!(map.erase(key), "the oldest is there");
                    }
                }),
                Job::Walk => ns_each(JOB as u64, || _ = black_box(map.sum(0, JOB))),
                Job::Range => ns_each(order.len() as u64, || {
                    order.iter().for_each(|key| _ = black_box(map.sum(*key, 16)));
                }),
                Job::Zipf => ns_each(times, || {
                    assert!(popular.iter().all(|key| map.find(*key)), "every key is there");
                }),
            }
        });
    }
    contest
}

/// Every insertion timed by itself; keys ascend, as session numbers do.
fn single((name, mut map): Kind, count: usize) -> (&'static str, [f64; 2], Option<f64>) {
    // In a plain tree ascending keys take a time that grows with the square.
    let arrival = if name == PLAIN { Arrival::Random } else { Arrival::Ascending };
    let keys = arrival.keys(count);
    let mut times: Vec<u64> = Vec::with_capacity(count);
    for key in &keys {
        let start = Instant::now();
        map.insert(*key);
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let median = times.get(count / 2).copied().unwrap_or(0) as f64;
    (name, [median, times.last().copied().unwrap_or(0) as f64], map.bytes())
}
