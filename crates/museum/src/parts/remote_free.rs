//! Taken here, given back there: where a pool has its real case.
//!
//! A server's message is received by one thread and freed by another. General allocators are 226
//! times apart at that in a published race, because memory has to find its way home: by a lock, by
//! an exchange for every object, or by whole batches. The portfolio's pool takes one lock for each
//! object, wherever it comes from. Three workloads are run: a producer and a consumer; threads that
//! inherit each other's objects and end (bleeding, after Larson and Krishnan); and how long single
//! allocations take at worst meanwhile.

use super::{Heap, Object, Source, plan};
use crate::artefact::build::Optimised;
use crate::artefact::pool::{Array, Locked, Pool as Published, Stack};
use crate::contest::{Contest, Rng, Told, each, process_time};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{
    Axis, Drawn, Finding, Grid, Place, Plot, Published as Figure, Series, Showing, Side,
};
use crate::stage::{Settings, Stage};
use crate::words;
use lab::stats::Comparison;
use memory::{Home, Shared};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Objects that are handed over at a time.
const BATCHES: [usize; 3] = [1, 64, 4_096];
/// Batches on their way.
const QUEUE: usize = 2;
/// Objects that a thread of the bleeding run inherits.
const INHERITED: usize = 4_096;
/// Threads that follow each other there.
const GENERATIONS: u64 = 8;
const HEAP: &str = "heap";
const LOCKED: &str = "pool with a lock";
const DEPOT: &str = "our shared pool";
const LENDER: &str = "the same, sent home";
const ARMS: [&str; 4] = [HEAP, LOCKED, DEPOT, LENDER];
/// Seconds of `xmalloc-testN` in the published race, the first being the quickest.
const RACE: [(&str, f64); 6] = [
    ("snmalloc", 0.102),
    ("mimalloc", 0.189),
    ("rpmalloc", 0.306),
    ("glibc", 0.739),
    ("jemalloc", 2.573),
    ("gperftools", 23.006),
];

type Messages = Published<8, Array<8>, Locked, Stack, Optimised>;

/// The exhibit.
pub struct RemoteFree;

impl Exhibit for RemoteFree {
    fn name(&self) -> &'static str {
        "remote-free"
    }

    fn title(&self) -> &'static str {
        "Taken here, given back there"
    }

    fn about(&self) -> &'static str {
        "memory that one thread takes and another frees has to find its way home"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let contests = BATCHES.len() + 1;
        Effort::new(settings.rounds(15) * contests as u32, Duration::from_millis(160))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let handed = handed(stage)?;
        let (bled, growth) = bled(stage)?;
        let waits = waits(stage);
        Ok(told(stage, &Seen { handed, bled, growth, waits }))
    }
}

/// What was measured.
struct Seen {
    handed: Vec<(usize, Told)>,
    bled: Option<Told>,
    /// Kilobytes of memory that the process gained meanwhile, by arm.
    growth: Vec<(&'static str, f64)>,
    /// The median and the 99.9th percentile of single allocations, nanoseconds, by arm.
    waits: Vec<(&'static str, [f64; 2])>,
}

/// Two threads and the same kind of source for each: one takes, one gives back, a batch at a time.
/// Nanoseconds of both threads' time for each object.
fn handed_over<P, C, T>(mut producer: P, mut consumer: C, batch: usize, objects: u64) -> f64
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let batches = objects / batch as u64;
    // Channels exchange several batches of one, so that they do not decide the time.
    let parcel = (256 / batch).max(1);
    let start = process_time();
    std::thread::scope(|scope| {
        let (full, filled): (SyncSender<Vec<T>>, Receiver<Vec<T>>) = sync_channel(QUEUE);
        let (empty, emptied) = sync_channel::<Vec<T>>(QUEUE + 1);
        for _ in 0..=QUEUE {
            let _ = empty.send(Vec::with_capacity(batch * parcel));
        }
        scope.spawn(move || {
            for _ in 0..batches / parcel as u64 {
                let Ok(mut held) = emptied.recv() else { return };
                held.extend((0..batch * parcel).map(|_| producer.take()));
                if full.send(held).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for mut held in filled {
                held.drain(..).for_each(|it| consumer.give(it));
                // At the end nobody wants it back.
                let _ = empty.send(held);
            }
        });
    });
    let count = batches / parcel as u64 * (batch * parcel) as u64;
    each(process_time().saturating_sub(start), count)
}

/// A heap for either side, and pools with room for all that is on its way.
struct Pools {
    locked: Messages,
    depot: Shared<Object<7>>,
    lender: Shared<Object<7>>,
}

impl Pools {
    fn new(objects: usize) -> Pools {
        Pools {
            locked: Messages::new(objects as u32),
            depot: Shared::new(plan(objects), 2, Home::Depot),
            lender: Shared::new(plan(objects), 2, Home::Lender),
        }
    }

    fn hand_over(&self, arm: &str, batch: usize, objects: u64) -> f64 {
        let shared = |pool: &Shared<Object<7>>| match (pool.worker(), pool.worker()) {
            (Some(here), Some(there)) => handed_over(here, there, batch, objects),
            _ => f64::NAN,
        };
        match arm {
            HEAP => handed_over(Heap::<7>, Heap::<7>, batch, objects),
            LOCKED => handed_over(&self.locked, &self.locked, batch, objects),
            DEPOT => shared(&self.depot),
            _ => shared(&self.lender),
        }
    }

    fn bleed(&self, arm: &str, turns: u64) -> f64 {
        let shared = |pool: &Shared<Object<7>>| {
            generations(|| pool.worker().unwrap_or_else(|| unreachable!("a slot is free")), turns)
        };
        match arm {
            HEAP => generations(|| Heap::<7>, turns),
            LOCKED => generations(|| &self.locked, turns),
            DEPOT => shared(&self.depot),
            _ => shared(&self.lender),
        }
    }
}

fn handed(stage: &mut Stage<'_>) -> Result<Vec<(usize, Told)>, Fault> {
    let settings = stage.settings();
    let (blocks, objects) = (settings.rounds(15), settings.amount(262_144, 16));
    let pools = &Pools::new(1 << 15);
    let mut all = Vec::new();
    for batch in BATCHES {
        let mut contest = Contest::new(format!("handed over by {batch}"), blocks);
        for arm in ARMS {
            contest.arm(arm, move || pools.hand_over(arm, batch, objects));
        }
        let Some(told) = stage.contest(contest)? else { break };
        all.push((batch, told));
    }
    Ok(all)
}

/// Threads follow each other. Each inherits its predecessor's objects, gives them back in random
/// order as it takes new ones, leaves those to its heir and ends. Nanoseconds for each pair.
fn generations<S>(source: impl Fn() -> S + Sync, turns: u64) -> f64
where
    S: Source,
    S::Held: Send,
{
    let start = process_time();
    let mut held: Vec<S::Held> = Vec::new();
    for generation in 0..GENERATIONS {
        let source = &source;
        let inherited = std::mem::take(&mut held);
        held = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let mut source = source();
                let mut held = inherited;
                while held.len() < INHERITED {
                    held.push(source.take());
                }
                let mut rng = Rng::new(generation);
                for _ in 0..turns {
                    let new = source.take();
                    let at = rng.below(INHERITED);
                    source.give(std::mem::replace(&mut held[at], new));
                }
                held
            });
            thread.join().unwrap_or_else(|_| unreachable!("it does not panic"))
        });
    }
    let mut last = source();
    held.into_iter().for_each(|it| last.give(it));
    each(process_time().saturating_sub(start), turns * GENERATIONS)
}

type Bled = (Option<Told>, Vec<(&'static str, f64)>);

fn bled(stage: &mut Stage<'_>) -> Result<Bled, Fault> {
    let settings = stage.settings();
    let (blocks, turns) = (settings.rounds(15), settings.amount(20_000, 16));
    let pools = &Pools::new(1 << 15);
    let mut growth = Vec::new();
    for arm in ARMS {
        let before = resident_kb();
        pools.bleed(arm, turns);
        growth.push((arm, resident_kb() - before));
    }
    let mut contest = Contest::new("objects that outlive their thread", blocks);
    for arm in ARMS {
        contest.arm(arm, move || pools.bleed(arm, turns));
    }
    Ok((stage.contest(contest)?, growth))
}

/// Memory of this process, kilobytes (proc_pid_status(5), `VmRSS`).
fn resident_kb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// A source whose every allocation is timed.
struct Timed<S> {
    source: S,
    times: Vec<u64>,
    told: std::sync::mpsc::Sender<Vec<u64>>,
}

impl<S: Source> Source for Timed<S> {
    type Held = S::Held;

    fn take(&mut self) -> S::Held {
        let start = Instant::now();
        let held = black_box(self.source.take());
        self.times.push(start.elapsed().as_nanos() as u64);
        held
    }

    fn give(&mut self, held: S::Held) {
        self.source.give(held);
    }
}

impl<S> Drop for Timed<S> {
    fn drop(&mut self) {
        let _ = self.told.send(std::mem::take(&mut self.times));
    }
}

fn timed<P, C, T>(producer: P, consumer: C, objects: u64) -> [f64; 2]
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let (told, heard) = std::sync::mpsc::channel();
    let times = Vec::with_capacity(objects as usize);
    handed_over(Timed { source: producer, times, told }, consumer, 64, objects);
    let mut times = heard.recv().unwrap_or_default();
    times.sort_unstable();
    let at = |share: f64| times.get((share * times.len() as f64) as usize).copied().unwrap_or(0);
    [at(0.5), at(0.999)].map(|it| it as f64)
}

fn waits(stage: &Stage<'_>) -> Vec<(&'static str, [f64; 2])> {
    if stage.stopped() {
        return Vec::new();
    }
    let objects = stage.settings().amount(400_000, 16);
    let pools = Pools::new(1 << 15);
    let shared = |pool: &Shared<Object<7>>| match (pool.worker(), pool.worker()) {
        (Some(here), Some(there)) => timed(here, there, objects),
        _ => [f64::NAN; 2],
    };
    vec![
        (HEAP, timed(Heap::<7>, Heap::<7>, objects)),
        (LOCKED, timed(&pools.locked, &pools.locked, objects)),
        (DEPOT, shared(&pools.depot)),
        (LENDER, shared(&pools.lender)),
    ]
}

impl Seen {
    fn all(&self) -> Vec<&Told> {
        self.handed.iter().map(|it| &it.1).chain(&self.bled).collect()
    }

    fn at(&self, batch: usize, arm: &str, other: &str) -> Option<Comparison> {
        self.handed.iter().find(|it| it.0 == batch)?.1.against(arm, other)
    }
}

fn said(it: Option<&Comparison>) -> String {
    it.map_or("an unknown multiple of".to_string(), words::compared)
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let locked = seen.at(64, LOCKED, HEAP);
    let depot = seen.at(64, DEPOT, HEAP);
    let headline = format!(
        "For objects that one thread takes and another gives back, 64 at a time, a pool with one \
         lock needs {} the CPU time of this machine's heap, a pool that exchanges magazines {}.",
        said(locked.as_ref()),
        said(depot.as_ref())
    );
    let mut numbers = Grid::new(&["allocator", "seconds", "of the quickest"]);
    for (name, seconds) in RACE {
        let ratio = words::ratio(seconds / RACE[0].1);
        numbers.row([name.to_string(), format!("{seconds:.3}"), ratio]);
    }
    let mut facts = vec![
        ("Objects".to_string(), "64 bytes, first word written".to_string()),
        ("On their way".to_string(), format!("at most {} batches", QUEUE + 1)),
    ];
    facts.extend(stage.contest_facts(&seen.all()));
    Showing {
        headline,
        published: Figure {
            claim: "At handing memory over from thread to thread, allocators are 226 times apart; \
                    at most other workloads they are close together."
                .to_string(),
            source: "Results of mimalloc-bench, workload xmalloc-testN, in the repository of \
                     rpmalloc (benchmark/results), i7-13800H; less is better. The workload goes \
                     back to Lever and Boreham, malloc() Performance in a Multithreaded Linux \
                     Environment, 2000"
                .to_string(),
            numbers,
        },
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(),
        lesson: "Ask who frees: a pool that is quick for its owner can be slow for everybody else."
            .to_string(),
        together: Some(together(seen)),
        findings: findings(seen, depot),
        facts,
        doubts: Vec::new(),
    }
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["arm", "handed over by", "ns an object", "of the heap's time"]);
    for (batch, told) in &seen.handed {
        for arm in [HEAP, LOCKED] {
            numbers.row([
                arm.to_string(),
                words::count(*batch as u64),
                words::or_none(told.median(arm), words::number),
                told.judged(arm, HEAP),
            ]);
        }
    }
    let said: Vec<String> = seen
        .handed
        .iter()
        .map(|(batch, told)| format!("{} by {batch}", told.judged(LOCKED, HEAP)))
        .collect();
    Side {
        setup: "The portfolio's pool as the answer: both threads take its one lock for every \
                object, one to take, one to give back. Against it the heap of the C library. CPU \
                time of both threads."
            .to_string(),
        finding: match said.is_empty() {
            true => "Stopped before it began.".to_string(),
            false => format!("Against the heap the pool with a lock is {}.", said.join(", ")),
        },
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["arm", "workload", "found", "of the heap's time"]);
    for (batch, told) in &seen.handed {
        for arm in [DEPOT, LENDER] {
            let found = words::or_none(told.median(arm), words::number);
            numbers.row([
                arm.to_string(),
                format!("handed over by {}", words::count(*batch as u64)),
                format!("{found} ns an object"),
                told.judged(arm, HEAP),
            ]);
        }
    }
    if let Some(told) = &seen.bled {
        for arm in ARMS {
            let found = words::or_none(told.median(arm), words::number);
            let growth = seen.growth.iter().find(|it| it.0 == arm).map(|it| it.1);
            numbers.row([
                arm.to_string(),
                "outlive their thread".to_string(),
                format!("{found} ns, {} kB more", words::or_none(growth, words::number)),
                told.judged(arm, HEAP),
            ]);
        }
    }
    for (arm, [median, high]) in &seen.waits {
        numbers.row([
            arm.to_string(),
            "single allocations".to_string(),
            format!("p50 {} ns, p99.9 {} ns", words::number(*median), words::number(*high)),
            words::NONE.to_string(),
        ]);
    }
    let line = |arm: &str| {
        let all = seen.handed.iter().map(|it| (it.0 as f64, &it.1));
        super::ratios(arm, (arm, HEAP), all)
    };
    Side {
        setup: "Two ways home. With a depot a slot stays with who got it back and returns in \
                magazines of 64, one exchange each. With a lender it is sent to who lent it, in \
                batches. Then eight threads that follow each other, each giving back what its \
                predecessor took; and single allocations, timed one by one."
            .to_string(),
        finding: match seen.bled.as_ref() {
            Some(told) => format!(
                "Objects that outlive their thread cost a pool with magazines {}, a pool with a \
                 lock {}, against the heap.",
                told.judged(DEPOT, HEAP),
                told.judged(LOCKED, HEAP)
            ),
            None => "Stopped before it began.".to_string(),
        },
        plot: Some(Plot {
            title: "Ways home against the heap, by batch".to_string(),
            caption: "CPU time of both threads; exact 95 % intervals of the median over blocks."
                .to_string(),
            x: Axis::log("objects handed over at a time"),
            y: Axis::log("CPU time / that of the heap"),
            series: vec![line(LOCKED), line(DEPOT), line(LENDER)],
        }),
        numbers,
    }
}

fn together(seen: &Seen) -> Plot {
    let glibc = RACE[3].1;
    let names: Vec<String> = RACE
        .iter()
        .map(|it| it.0.to_string())
        .chain(ARMS[1..].iter().map(|it| it.to_string()))
        .collect();
    let places = RACE.iter().zip(1..).map(|((_, s), at)| (f64::from(at), s / glibc)).collect();
    let published =
        Series { drawn: Drawn::Marks, ..Series::published("published, against glibc", places) };
    let here = ARMS[1..].iter().enumerate().filter_map(|(at, arm)| {
        Some(Place::of((RACE.len() + at + 1) as f64, &seen.at(4_096, arm, HEAP)?))
    });
    let here = Series {
        name: "here, against this heap".to_string(),
        drawn: Drawn::Marks,
        places: here.collect(),
        ..Series::default()
    };
    Plot {
        title: "Handing over by thousands, against the C library's heap".to_string(),
        caption: "The published race and this one ran on different machines: each is against the \
                  C library of its own."
            .to_string(),
        x: Axis::named("arm", names),
        y: Axis::log("time / that of the C library's heap"),
        series: vec![published, here],
    }
}

fn findings(seen: &Seen, depot: Option<Comparison>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(it) = depot {
        let expected = "a pool with magazines needs less CPU than the heap";
        let high = it.interval.as_ref().map_or(it.ratio, |it| it.high);
        found.push(Finding::new("magazines-win", high < 1.0, it.ratio, expected));
    }
    if let Some(both) = seen.at(64, LOCKED, DEPOT) {
        let expected = "a pool with a lock for each object needs at least twice the CPU of one \
                        with magazines";
        found.push(Finding::new("lock-loses", both.ratio >= 2.0, both.ratio, expected));
    }
    if let Some(it) = seen.bled.as_ref().and_then(|told| told.against(DEPOT, HEAP)) {
        let expected = "objects that outlive their thread cost a pool with magazines at most as \
                        much as the heap";
        found.push(Finding::new("bleeding", it.ratio <= 1.1, it.ratio, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "A heap with a cache for each thread fills the cache of who frees and empties that of who \
         allocates. What overflows has to go back through a lock or by exchanges of single \
         objects; how that is done is what separates allocators by two orders of magnitude."
            .to_string(),
        "A pool with one lock has no such asymmetry: it is equally slow for both. And the two \
         threads wait for each other, which the median does not show but the 99.9th percentile of \
         single allocations does."
            .to_string(),
        "Magazines pay one exchange for 64 objects. Sending each slot home to who lent it costs \
         more, because somebody has to look where it came from; it pays where memory is nearer to \
         one processor than to another, which is not the case here."
            .to_string(),
    ]
}
