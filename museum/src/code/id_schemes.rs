//! Schemes of session ids: a key to a map, a place in an array, or both.
//!
//! Arms differ in one thing, the way from an id to a session; keys, order and work are the same for
//! all. Three contests measure the time of a look-up, of two threads at once on separate sessions,
//! and of closing and opening. The last part is not a time but a count: each session is closed and
//! its place reused, and then the old ids are looked up. A scheme that finds anything confuses two
//! clients.

use super::{blocks, list, paired, whole};
use crate::contest::{Contest, Rng, ns_each};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use lab::machine::Placement;
use memory::SharedTable;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Living sessions of the threads' run.
const LIVE: usize = 10_000;
/// Look-ups in the prepared order, repeated in a cycle.
const ORDER: usize = 1 << 14;
/// Multiplications with a session that was found, about half a microsecond.
const WORK: u32 = 1_000;
/// Sessions closed and reopened to test late ids.
const LATE: usize = 10_000;
const SHARDS: usize = 16;

const ONE_LOCK: &str = "map, one lock";
const READERS: &str = "map, readers' lock";
const SHARDED: &str = "16 maps, 16 locks";
const INDEX: &str = "array, place alone";
const COUNTED: &str = "array, place and counter";
const SHARED: &str = "our table of all workers";
const HELD: &str = "map, lock held during use";

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let blocks = blocks(scope)?;
    for live in list(scope, "live")? {
        found(stage, results, live, (blocks, whole(scope, "times_found")?))?;
    }
    together(stage, results, (blocks, whole(scope, "together_times")?))?;
    churn(stage, results, (blocks, whole(scope, "churn_times")?))?;
    results.set("late", late());
    Ok(())
}

type Session = Arc<AtomicU64>;

/// Maps from a counter to sessions, locked in one way or another.
struct Maps {
    one: Mutex<HashMap<u64, Session>>,
    readers: RwLock<HashMap<u64, Session>>,
    sharded: Vec<Mutex<HashMap<u64, Session>>>,
}

impl Maps {
    fn new(live: usize) -> Maps {
        let all = || (0..live as u64).map(|id| (id, Arc::new(AtomicU64::new(id))));
        let shard = |at: u64| all().filter(move |(id, _)| id % SHARDS as u64 == at);
        Maps {
            one: Mutex::new(all().collect()),
            readers: RwLock::new(all().collect()),
            sharded: (0..SHARDS as u64).map(|at| Mutex::new(shard(at).collect())).collect(),
        }
    }

    /// Returns a reference, so that the lock is not held while the session is used.
    fn one(&self, id: u64) -> Option<Session> {
        self.one.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn readers(&self, id: u64) -> Option<Session> {
        self.readers.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn sharded(&self, id: u64) -> Option<Session> {
        let map = self.sharded[(id % SHARDS as u64) as usize].lock();
        map.unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// As published: the lock is kept until the use is over.
    fn held(&self, id: u64, using: impl Fn(&AtomicU64)) {
        if let Some(session) = self.one.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            using(session);
        }
    }
}

/// The portfolio's array: the place in the lower half of an id, the counter in the upper one.
struct Slots {
    ids: Vec<AtomicU64>,
    values: Vec<AtomicU64>,
}

impl Slots {
    fn new(live: usize) -> (Slots, Vec<u64>) {
        let ids: Vec<u64> = (0..live as u64).map(|at| (at + 1) << 32 | at).collect();
        let slots = Slots {
            ids: ids.iter().map(|id| AtomicU64::new(*id)).collect(),
            values: (0..live as u64).map(AtomicU64::new).collect(),
        };
        (slots, ids)
    }

    #[inline]
    fn find(&self, id: u64) -> Option<&AtomicU64> {
        let at = id as u32 as usize;
        (self.ids.get(at)?.load(Relaxed) == id).then(|| &self.values[at])
    }

    /// Without a look at the counter.
    #[inline]
    fn place(&self, id: u64) -> Option<&AtomicU64> {
        self.values.get(id as u32 as usize)
    }
}

/// Nanoseconds for each look-up of a random one of `keys`.
fn look_up<K>(keys: &[K], operations: u64, find: impl Fn(&K) -> Option<u64>) -> f64 {
    ns_each(operations, || {
        let mut sum = 0_u64;
        for at in 0..operations as usize {
            sum = sum.wrapping_add(find(&keys[at % ORDER]).unwrap_or(0));
        }
        black_box(sum);
    })
}

/// The keys in a random order of [`ORDER`] look-ups.
fn ordered<K: Copy>(keys: &[K]) -> Vec<K> {
    let mut rng = Rng::new(keys.len() as u64);
    (0..ORDER).map(|_| keys[rng.below(keys.len())]).collect()
}

fn found(
    stage: &mut Stage<'_>,
    results: &mut Results,
    live: usize,
    (blocks, times): (u32, u64),
) -> Result<(), Fault> {
    let maps = &Maps::new(live);
    let keys = &ordered(&(0..live as u64).collect::<Vec<u64>>());
    let (slots, ids) = Slots::new(live);
    let (slots, ids) = (&slots, &ordered(&ids));
    let shared = SharedTable::new(1, live);
    let shared_ids: Vec<_> = (0..live as u64).filter_map(|it| shared.open(it).ok()).collect();
    let shared_ids = &ordered(&shared_ids);
    let value = |it: Session| it.load(Relaxed);
    let mut contest = Contest::new(format!("{live} sessions"), blocks);
    contest.arm(ONE_LOCK, move || look_up(keys, times, |id| maps.one(*id).map(value)));
    contest.arm(READERS, move || look_up(keys, times, |id| maps.readers(*id).map(value)));
    contest.arm(SHARDED, move || look_up(keys, times, |id| maps.sharded(*id).map(value)));
    let of = |it: &AtomicU64| it.load(Relaxed);
    contest.arm(INDEX, move || look_up(ids, times, |id| slots.place(*id).map(of)));
    contest.arm(COUNTED, move || look_up(ids, times, |id| slots.find(*id).map(of)));
    contest.arm(SHARED, || look_up(shared_ids, times, |id| shared.acquire(*id).map(|it| *it)));
    stage.contest(contest, results)
}

/// The use of a session: about half a microsecond of work that touches it.
fn used(session: &AtomicU64) {
    let mut value = session.load(Relaxed);
    for _ in 0..WORK {
        value = black_box(value.wrapping_mul(3));
    }
    session.store(value, Relaxed);
}

/// One thread, then two at once, each with the sessions of its own half.
fn together(
    stage: &mut Stage<'_>,
    results: &mut Results,
    (blocks, times): (u32, u64),
) -> Result<(), Fault> {
    let (cores, live) = (Placement::choose(), LIVE);
    let (maps, (slots, ids)) = (&Maps::new(live), Slots::new(live));
    let shared = SharedTable::new(1, live);
    let opened = (0..live as u64).filter_map(|it| shared.open(AtomicU64::new(it)).ok());
    let shared_ids: Vec<_> = opened.collect();
    let (slots, ids, shared, shared_ids) = (&slots, &ids, &shared, &shared_ids);
    type Find<'f> = Box<dyn Fn(usize) + Sync + 'f>;
    let finds = || -> [(&str, Find<'_>); 6] {
        [
            (HELD, Box::new(move |at| maps.held(at as u64, used))),
            (ONE_LOCK, Box::new(move |at| _ = maps.one(at as u64).map(|it| used(&it)))),
            (READERS, Box::new(move |at| _ = maps.readers(at as u64).map(|it| used(&it)))),
            (SHARDED, Box::new(move |at| _ = maps.sharded(at as u64).map(|it| used(&it)))),
            (COUNTED, Box::new(move |at| _ = slots.find(ids[at]).map(used))),
            (SHARED, Box::new(move |at| _ = shared.acquire(shared_ids[at]).map(|it| used(&it)))),
        ]
    };
    let mut contest = Contest::new("found and used by two threads", blocks);
    for (threads, suffix) in [(1, "one"), (2, "two")] {
        for (name, find) in finds() {
            let worker_slots = AtomicUsize::new(0);
            contest.arm(format!("{name}, {suffix}"), move || {
                paired(threads, cores, times, |times| {
                    // Threads use different sessions; they share only the path to them.
                    let half = worker_slots.fetch_add(1, Relaxed) % 2 * (live / 2);
                    for turn in 0..times as usize {
                        find(half + turn * 7 % (live / 2));
                    }
                })
            });
        }
    }
    stage.contest(contest, results)
}

/// Nanoseconds for a session closed and another opened.
fn churned<K: Copy>(ids: &mut [K], times: u64, mut again: impl FnMut(K, u64) -> K) -> f64 {
    let order = Rng::new(3).order(ids.len());
    ns_each(times, || {
        for at in 0..times as usize {
            let place = order[at % order.len()];
            ids[place] = black_box(again(ids[place], at as u64));
        }
    })
}

fn churn(
    stage: &mut Stage<'_>,
    results: &mut Results,
    (blocks, times): (u32, u64),
) -> Result<(), Fault> {
    let live = LIVE;
    let mut contest = Contest::new("closed and opened again", blocks);
    let maps = Maps::new(live);
    let mut ids: Vec<u64> = (0..live as u64).collect();
    let mut next = live as u64;
    contest.arm(ONE_LOCK, move || {
        churned(&mut ids, times, |id, value| {
            let mut map = maps.one.lock().unwrap_or_else(PoisonError::into_inner);
            map.remove(&id);
            next += 1;
            map.insert(next, Arc::new(AtomicU64::new(value)));
            next
        })
    });
    let (slots, mut ids) = Slots::new(live);
    let mut count = live as u64;
    contest.arm(COUNTED, move || {
        churned(&mut ids, times, |id, value| {
            let at = id as u32 as usize;
            count += 1;
            slots.ids[at].store(count << 32 | at as u64, Relaxed);
            slots.values[at].store(value, Relaxed);
            count << 32 | at as u64
        })
    });
    let shared = SharedTable::new(1, live);
    let mut ids: Vec<_> = (0..live as u64).filter_map(|it| shared.open(it).ok()).collect();
    contest.arm(SHARED, move || {
        churned(&mut ids, times, |id, value| {
            black_box(shared.close(id));
            shared.open(value).unwrap_or(id)
        })
    });
    stage.contest(contest, results)
}

/// Every session is closed and its place given to another; then the old ids are looked for.
fn late() -> Vec<(&'static str, usize)> {
    let (slots, ids) = Slots::new(LATE);
    for id in &ids {
        let at = *id as u32 as usize;
        slots.ids[at].store((LATE as u64 + id) << 32 | at as u64, Relaxed);
    }
    let shared = SharedTable::new(1, LATE);
    let shared_ids: Vec<_> = (0..LATE).filter_map(|it| shared.open(it).ok()).collect();
    shared_ids.iter().for_each(|id| _ = shared.close(*id));
    (0..LATE).for_each(|it| _ = shared.open(it));
    let maps = Maps::new(LATE);
    let mut map = maps.one.lock().unwrap_or_else(PoisonError::into_inner);
    let new = LATE as u64..2 * LATE as u64;
    *map = new.map(|id| (id, Arc::new(AtomicU64::new(id)))).collect();
    drop(map);
    vec![
        (ONE_LOCK, (0..LATE as u64).filter(|id| maps.one(*id).is_some()).count()),
        (INDEX, ids.iter().filter(|id| slots.place(**id).is_some()).count()),
        (COUNTED, ids.iter().filter(|id| slots.find(**id).is_some()).count()),
        (SHARED, shared_ids.iter().filter(|id| shared.acquire(**id).is_some()).count()),
    ]
}
