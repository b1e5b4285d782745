//! What a session's number should be: a key to a map, a place in an array, or both.
//!
//! The portfolio's server first kept sessions in a hash map behind one lock, and then in an array:
//! the id has the place in one half and a counter in the other, and it was published as the reason
//! why look-ups became quick. Here schemes are held against each other alone: what a look-up costs,
//! what two threads cost each other, what opening and closing costs; and what the figure does not
//! show, how many late ids are taken for somebody else's.

use super::false_sharing::paired;
use super::ratios;
use crate::contest::{Contest, Rng, Told, ns_each};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::portfolio;
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use lab::machine::Placement;
use lab::stats::Comparison;
use memory::{Order, ShardTable, SharedTable};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Sessions that live.
const LIVE: [usize; 3] = [100, 10_000, 100_000];
/// Look-ups in the prepared order, gone through again and again.
const ORDER: usize = 1 << 14;
/// What is done with a session that was found: so many rounds, about half a microsecond.
const WORK: u32 = 1_000;
/// Sessions closed and opened again to see what late ids find.
const LATE: usize = 10_000;
const SHARDS: usize = 16;

const ONE_LOCK: &str = "map, one lock";
const READERS: &str = "map, readers' lock";
const SHARDED: &str = "16 maps, 16 locks";
const INDEX: &str = "array, place alone";
const COUNTED: &str = "array, place and counter";
const SHARD: &str = "our table of one worker";
const SHARED: &str = "our table of all workers";
const HELD: &str = "map, lock held during use";
const ALONE: [&str; 7] = [ONE_LOCK, READERS, SHARDED, INDEX, COUNTED, SHARD, SHARED];
const TOGETHER: [&str; 6] = [HELD, ONE_LOCK, READERS, SHARDED, COUNTED, SHARED];

/// The exhibit.
pub struct IdSchemes;

impl Exhibit for IdSchemes {
    fn name(&self) -> &'static str {
        "id-schemes"
    }

    fn title(&self) -> &'static str {
        "What a session's number should be"
    }

    fn about(&self) -> &'static str {
        "a place with a counter finds a session at once, and tells the late from the living"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let contests = LIVE.len() as u32 + 2;
        Effort::new(settings.rounds(15) * contests, Duration::from_millis(160))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let mut seen = Seen { late: late(), ..Seen::default() };
        let live = if stage.settings().quick { &LIVE[..2] } else { &LIVE[..] };
        for &live in live {
            let Some(told) = found(stage, live)? else { break };
            seen.found.push((live, told));
        }
        seen.together = together(stage)?;
        seen.churn = churn(stage)?;
        Ok(told(stage, &seen))
    }
}

/// What was measured.
#[derive(Default)]
struct Seen {
    found: Vec<(usize, Told)>,
    together: Option<Told>,
    churn: Option<Told>,
    /// Late ids that were taken for living ones, by scheme.
    late: Vec<(&'static str, usize)>,
}

/// A session, as far as anybody looks at it.
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

    /// With a reference of one's own, so that the lock is not held while it is used.
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

fn found(stage: &mut Stage<'_>, live: usize) -> Result<Option<Told>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(15), settings.amount(200_000, 20));
    let maps = &Maps::new(live);
    let keys = &ordered(&(0..live as u64).collect::<Vec<u64>>());
    let (slots, ids) = Slots::new(live);
    let (slots, ids) = (&slots, &ordered(&ids));
    let mut shard = ShardTable::new(1, live, Order::Lifo);
    let shard_ids: Vec<_> = (0..live as u64).filter_map(|it| shard.open(it).ok()).collect();
    let shared = SharedTable::new(1, live);
    let shared_ids: Vec<_> = (0..live as u64).filter_map(|it| shared.open(it).ok()).collect();
    let (shard_ids, shared_ids) = (&ordered(&shard_ids), &ordered(&shared_ids));
    let value = |it: Session| it.load(Relaxed);
    let mut contest = Contest::new(format!("one of {live} sessions"), blocks);
    contest.arm(ONE_LOCK, move || look_up(keys, times, |id| maps.one(*id).map(value)));
    contest.arm(READERS, move || look_up(keys, times, |id| maps.readers(*id).map(value)));
    contest.arm(SHARDED, move || look_up(keys, times, |id| maps.sharded(*id).map(value)));
    let of = |it: &AtomicU64| it.load(Relaxed);
    contest.arm(INDEX, move || look_up(ids, times, |id| slots.place(*id).map(of)));
    contest.arm(COUNTED, move || look_up(ids, times, |id| slots.find(*id).map(of)));
    contest.arm(SHARD, || look_up(shard_ids, times, |id| shard.get(*id).copied()));
    contest.arm(SHARED, || look_up(shared_ids, times, |id| shared.acquire(*id).map(|it| *it)));
    stage.contest(contest)
}

/// What a session is found for: about half a microsecond of work that touches it.
fn used(session: &AtomicU64) {
    let mut value = session.load(Relaxed);
    for _ in 0..WORK {
        value = black_box(value.wrapping_mul(3));
    }
    session.store(value, Relaxed);
}

/// One thread, then two at once, each with the sessions of its own half.
fn together(stage: &mut Stage<'_>) -> Result<Option<Told>, Fault> {
    let cores = Placement::choose();
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(15), settings.amount(10_000, 10));
    let live = LIVE[1];
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
                    // Threads use different sessions: what they share is the way to them.
                    let half = worker_slots.fetch_add(1, Relaxed) % 2 * (live / 2);
                    for turn in 0..times as usize {
                        find(half + turn * 7 % (live / 2));
                    }
                })
            });
        }
    }
    stage.contest(contest)
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

fn churn(stage: &mut Stage<'_>) -> Result<Option<Told>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(15), settings.amount(50_000, 10));
    let live = LIVE[1];
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
    let mut shard = ShardTable::new(1, live, Order::Lifo);
    let mut ids: Vec<_> = (0..live as u64).filter_map(|it| shard.open(it).ok()).collect();
    contest.arm(SHARD, move || {
        churned(&mut ids, times, |id, value| {
            black_box(shard.close(id));
            shard.open(value).unwrap_or(id)
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
    stage.contest(contest)
}

/// Every session is closed and its place given to another; then the old ids are looked for.
fn late() -> Vec<(&'static str, usize)> {
    let (slots, ids) = Slots::new(LATE);
    for id in &ids {
        let at = *id as u32 as usize;
        slots.ids[at].store((LATE as u64 + id) << 32 | at as u64, Relaxed);
    }
    let mut shard = ShardTable::new(1, LATE, Order::Lifo);
    let shard_ids: Vec<_> = (0..LATE).filter_map(|it| shard.open(it).ok()).collect();
    shard_ids.iter().for_each(|id| _ = shard.close(*id));
    (0..LATE).for_each(|it| _ = shard.open(it));
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
        (SHARD, shard_ids.iter().filter(|id| shard.get(**id).is_some()).count()),
        (SHARED, shared_ids.iter().filter(|id| shared.acquire(**id).is_some()).count()),
    ]
}

impl Seen {
    fn all(&self) -> Vec<&Told> {
        self.found.iter().map(|it| &it.1).chain(&self.together).chain(&self.churn).collect()
    }

    fn at(&self, live: usize, arm: &str, other: &str) -> Option<Comparison> {
        self.found.iter().find(|it| it.0 == live)?.1.against(arm, other)
    }

    /// Two threads against one.
    fn scaling(&self, name: &str) -> Option<Comparison> {
        self.together.as_ref()?.against(&format!("{name}, two"), &format!("{name}, one"))
    }

    fn late(&self, name: &str) -> Option<usize> {
        self.late.iter().find(|it| it.0 == name).map(|it| it.1)
    }
}

fn said(it: Option<&Comparison>) -> String {
    it.map_or("an unknown multiple of".to_string(), words::compared)
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let counted = seen.at(LIVE[1], COUNTED, ONE_LOCK);
    let (held, released) = (seen.scaling(HELD), seen.scaling(ONE_LOCK));
    let headline = format!(
        "A place with a counter is looked up in {} the time of a map behind a lock. Two threads \
         need {} the time of one if the lock is held while a session is used, {} if it is let go \
         before, {} with places. Of {} late ids a place without a counter accepts {}.",
        said(counted.as_ref()),
        said(held.as_ref()),
        said(released.as_ref()),
        said(seen.scaling(COUNTED).as_ref()),
        words::count(LATE as u64),
        words::or_none(seen.late(INDEX).map(|it| it as f64), words::number),
    );
    let mut facts = vec![(
        "Use of a session".to_string(),
        format!("{WORK} multiplications, about half a microsecond"),
    )];
    facts.extend(stage.contest_facts(&seen.all()));
    let mut numbers = Grid::new(&["", "before", "after"]);
    for (name, before, after) in [
        ("sessions are in", "a hash map from a counter", "an array, prepared"),
        ("found", "under one lock, held during the send", "by place, without a lock"),
        ("an id is", "a counter", "32 bits of place, 32 bits of counter"),
        ("receptions/s of the echo server", "32,567", "55,867"),
    ] {
        numbers.row([name, before, after].map(String::from));
    }
    Showing {
        headline,
        published: Published {
            claim: "With the place of a session in its id it is found at once and without a lock; \
                    the server became 1.7 times as fast (together with four other changes)."
                .to_string(),
            source: portfolio::source(3, "a network library on completion ports"),
            numbers,
        },
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(),
        lesson: "An id should say where its session is and which life of that place is meant; and \
                 nobody should hold a lock while he talks to the kernel."
            .to_string(),
        together: Some(scaled(seen)),
        findings: findings(seen, counted, held),
        facts,
        doubts: Vec::new(),
    }
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["scheme", "one thread, ns", "two threads, ns", "two / one"]);
    let median = |name: &str, suffix: &str| {
        let told = seen.together.as_ref();
        words::or_none(told.and_then(|it| it.median(&format!("{name}{suffix}"))), words::number)
    };
    for name in TOGETHER {
        let ratio = seen.scaling(name).as_ref().map(words::compared);
        numbers.row([
            name.to_string(),
            median(name, ", one"),
            median(name, ", two"),
            ratio.unwrap_or_else(|| words::NONE.to_string()),
        ]);
    }
    Side {
        setup: "As published before: one map, one lock, which is held while the session is used. \
                Two threads on cores of their own, each with its own sessions; each use is about \
                half a microsecond, a tenth of a send. And the same with the lock let go before \
                the use, and with other schemes."
            .to_string(),
        finding: format!(
            "With the lock held two threads need {} the time of one for each session; with the \
             lock let go {}, with a place and a counter {}.",
            said(seen.scaling(HELD).as_ref()),
            said(seen.scaling(ONE_LOCK).as_ref()),
            said(seen.scaling(COUNTED).as_ref()),
        ),
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["scheme", "what", "ns", "of a map's behind one lock"]);
    for (live, told) in &seen.found {
        for name in ALONE {
            numbers.row([
                name.to_string(),
                format!("found among {}", words::count(*live as u64)),
                words::or_none(told.median(name), words::number),
                told.judged(name, ONE_LOCK),
            ]);
        }
    }
    if let Some(told) = &seen.churn {
        for name in [ONE_LOCK, COUNTED, SHARD, SHARED] {
            numbers.row([
                name.to_string(),
                "closed and opened".to_string(),
                words::or_none(told.median(name), words::number),
                told.judged(name, ONE_LOCK),
            ]);
        }
    }
    for (name, accepted) in &seen.late {
        numbers.row([
            name.to_string(),
            format!("late ids accepted of {}", words::count(LATE as u64)),
            words::NONE.to_string(),
            words::count(*accepted as u64),
        ]);
    }
    let safe: Vec<&str> = seen.late.iter().filter(|it| it.1 == 0).map(|it| it.0).collect();
    Side {
        setup:
            "The look-up alone, on one thread, with more and more sessions; sessions closed and \
                opened; and ids of sessions that are gone, after every place was given to another."
                .to_string(),
        finding: format!("No late id is accepted by: {}.", safe.join("; ")),
        plot: Some(Plot {
            title: "A look-up against a map behind one lock".to_string(),
            caption: "CPU time; exact 95 % intervals of the median over blocks.".to_string(),
            x: Axis::log("sessions that live"),
            y: Axis::log("time / that of a map behind one lock"),
            series: ALONE[1..]
                .iter()
                .map(|name| {
                    let all = seen.found.iter().map(|it| (it.0 as f64, &it.1));
                    ratios(name, (name, ONE_LOCK), all)
                })
                .collect(),
        }),
        numbers,
    }
}

fn scaled(seen: &Seen) -> Plot {
    let places = TOGETHER
        .iter()
        .zip(1..)
        .filter_map(|(name, at)| Some(Place::of(f64::from(at), &seen.scaling(name)?)));
    let bars = Series {
        name: "two threads / one".to_string(),
        drawn: Drawn::Bar,
        places: places.collect(),
        ..Series::default()
    };
    Plot {
        title: "What a second thread costs the first".to_string(),
        caption: "Time on the wall for a session found and used; 1 means that the threads do not \
                  feel each other. Exact 95 % intervals of the median over blocks."
            .to_string(),
        x: Axis::named("scheme", TOGETHER),
        y: Axis::linear("time with two threads / with one"),
        series: vec![bars],
    }
}

fn findings(seen: &Seen, counted: Option<Comparison>, held: Option<Comparison>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(it) = held {
        let expected = "a lock held during use makes two threads at least 1.5 times as slow";
        found.push(Finding::new("held-lock", it.ratio >= 1.5, it.ratio, expected));
    }
    if let Some(it) = counted {
        let expected = "a place with a counter needs less than half the time of a map with a lock";
        found.push(Finding::new("place-wins", it.ratio < 0.5, it.ratio, expected));
    }
    if let Some(it) = seen.scaling(COUNTED) {
        let expected = "with places two threads hardly feel each other: at most 1.25 times";
        found.push(Finding::new("places-scale", it.ratio <= 1.25, it.ratio, expected));
    }
    let accepted = seen.late(INDEX).unwrap_or(0);
    let expected = "a place without a counter accepts every late id";
    found.push(Finding::new("late-accepted", accepted == LATE, accepted as f64, expected));
    let others: usize = seen.late.iter().filter(|it| it.0 != INDEX).map(|it| it.1).sum();
    let expected = "all other schemes accept none";
    found.push(Finding::new("late-refused", others == 0, others as f64, expected));
    found
}

fn why() -> Vec<String> {
    vec![
        "A map has to hash the id and to look for it; a lock around it costs two exchanges, and \
         whoever holds it makes the others wait. A place needs one look at an array. All of that \
         is tens of nanoseconds, on a path that talks to the kernel for microseconds."
            .to_string(),
        "What made the published server slow was that the lock was held while the session was \
         used, and the use was a send. Then no two threads can send at the same time, whatever \
         the sessions are kept in. A map whose lock is let go after the look-up does not have \
         that."
            .to_string(),
        "A place alone is quickest and wrong: the operations of a closed session come late, and \
         meet whoever has its place now. The counter makes them miss, until it wraps; ours \
         retires a place instead of letting its counter wrap. A table that several workers use \
         counts references too, so that a session does not go away while it is used: that costs \
         two exchanges and is what the published server lacks."
            .to_string(),
    ]
}
