//! A list, a binary search tree, a red-black tree: the order of arrival decides.
//!
//! The published test shuffles its keys, and then a plain tree is as good as a balanced one. But
//! session numbers arrive in ascending order, which turns a plain tree into a list. And the
//! published list was timed with a loop that continues to the end after it has erased its key. Here
//! each order of arrival and each operation is measured separately, with an array, a B-tree and a
//! hash table beside the trees. The worst single insertion is measured too, because no mean shows
//! it.

use super::{Part, costs_of, range, ratios, some_of};
use crate::contest::{Contest, Costs, Rng, each_of, ns_each};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Fault};
use crate::portfolio::{self, KEYS, SOUGHT, TREES, TREES_US};
use crate::stage::{Settings, Stage};
use document::{Mark, Series};
use kinds::{ARMS, BALANCED, BOXED, BTREE, HASHED, LIST, Map, PLAIN, SORTED};
use stats::words;
use std::hint::black_box;
use std::time::{Duration, Instant};

mod kinds;

/// Keys of the corrected run.
const COUNTS: [usize; 3] = [100, 2_000, 100_000];
/// Keys of the jobs and of the worst single insertion.
const JOB: usize = 2_000;

/// The order in which keys arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Random,
    Ascending,
    Descending,
}

/// The published jobs.
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

/// The exhibit.
pub struct OrderedIndex;

impl Part for OrderedIndex {
    type Measured = Measured;
    const NAME: &'static str = "ordered-index";

    fn effort(settings: &Settings) -> Effort {
        let contests = 3 + ARRIVALS.len() + COUNTS.len() + JOBS.len();
        Effort::new(settings.rounds(12) * contests as u32, Duration::from_millis(130))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let published = each_of(JOBS_PUBLISHED, |name| published(stage, name))?;
        let inserted = each_of(ARRIVALS, |(arrival, name)| inserted(stage, arrival, name))?;
        let counts = some_of(&COUNTS, 2, stage.settings()).iter().copied();
        let sought = each_of(counts, |count| sought(stage, count))?;
        let done = each_of(JOBS, |(job, name)| done(stage, job, name))?;
        let count = if stage.settings().quick { JOB } else { COUNTS[2] };
        let single = kinds::all(count).into_iter().map(|map| single(map, count)).collect();
        let depth = ARRIVALS.map(|(arrival, name)| (name, kinds::depths(&arrival.keys(JOB))));
        Ok(Measured {
            published,
            inserted: named(inserted),
            sought,
            done: named(done),
            single,
            depth,
        })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        let Measured { published, inserted, done, sought, .. } = measured;
        let named = published.iter().chain(inserted).chain(done).map(|it| &it.1);
        named.chain(costs_of(sought)).collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    published: Vec<(&'static str, Costs)>,
    inserted: Vec<(&'static str, Costs)>,
    sought: Vec<(usize, Costs)>,
    done: Vec<(&'static str, Costs)>,
    /// By arm: the median and the worst single insertion, nanoseconds, and bytes for each entry.
    single: Vec<(&'static str, [f64; 2], Option<f64>)>,
    /// By order of arrival: the depth of a plain and of a balanced tree.
    depth: [(&'static str, [u32; 2]); 3],
}

/// Costs by the name alone.
fn named<T>(all: Vec<((T, &'static str), Costs)>) -> Vec<(&'static str, Costs)> {
    all.into_iter().map(|((_, name), costs)| (name, costs)).collect()
}

/// A published job: all keys in, or of the full map some found, or some erased.
fn published(stage: &mut Stage<'_>, name: &str) -> Result<Option<Costs>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(12), settings.amount(8, 8));
    let keys = &Arrival::Random.keys(KEYS as usize);
    let mut wanted = keys.clone();
    Rng::new(5).shuffle(&mut wanted);
    wanted.truncate(SOUGHT as usize);
    let wanted = &wanted;
    let mut contest = Contest::new(format!("published, {name}"), blocks);
    for mut map in kinds::published(KEYS as usize) {
        contest.arm(map.name(), move || {
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
    stage.contest(contest)
}

fn inserted(stage: &mut Stage<'_>, arrival: Arrival, name: &str) -> Result<Option<Costs>, Fault> {
    let keys = &arrival.keys(JOB);
    let mut contest = Contest::new(format!("insert, {name}"), stage.settings().rounds(12));
    for mut map in kinds::arriving(JOB) {
        contest.arm(map.name(), move || {
            map.clear();
            let cost = ns_each(JOB as u64, || keys.iter().for_each(|key| map.insert(*key)));
            assert_eq!(map.len(), JOB, "{} holds every key", map.name());
            cost
        });
    }
    stage.contest(contest)
}

fn filled(count: usize, keys: &[u64]) -> Vec<Box<dyn Map>> {
    let mut all = kinds::all(count);
    all.iter_mut().for_each(|map| keys.iter().for_each(|key| map.insert(*key)));
    all
}

fn sought(stage: &mut Stage<'_>, count: usize) -> Result<Option<Costs>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(12), settings.amount(20_000, 10));
    let keys = Arrival::Random.keys(count);
    let wanted = &Arrival::Random.keys(count);
    let mut contest = Contest::new(format!("find among {count}"), blocks);
    for map in filled(count, &keys) {
        contest.arm(map.name(), move || {
            ns_each(times, || {
                let all = wanted.iter().rev().cycle().take(times as usize);
                assert_eq!(all.filter(|key| map.find(**key)).count() as u64, times);
            })
        });
    }
    stage.contest(contest)
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

fn done(stage: &mut Stage<'_>, job: Job, name: &str) -> Result<Option<Costs>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(12), settings.amount(20_000, 10));
    let keys = &Arrival::Random.keys(JOB);
    let mut order = keys.clone();
    Rng::new(13).shuffle(&mut order);
    let (order, popular) = (&order, &zipf(keys, times as usize));
    let mut contest = Contest::new(format!("{name} of {JOB}"), blocks);
    for mut map in kinds::all(JOB) {
        if map.name() == HASHED && matches!(job, Job::Walk | Job::Range) {
            continue;
        }
        contest.arm(map.name(), move || {
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
    stage.contest(contest)
}

/// Every insertion timed by itself; keys ascend, as session numbers do.
fn single(mut map: Box<dyn Map>, count: usize) -> (&'static str, [f64; 2], Option<f64>) {
    // In a plain tree ascending keys take a time that grows with the square.
    let arrival = match map.name() {
        PLAIN => Arrival::Random,
        _ => Arrival::Ascending,
    };
    let keys = arrival.keys(count);
    let mut times: Vec<u64> = Vec::with_capacity(count);
    for key in &keys {
        let start = Instant::now();
        map.insert(*key);
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let median = times.get(count / 2).copied().unwrap_or(0) as f64;
    (map.name(), [median, times.last().copied().unwrap_or(0) as f64], map.bytes())
}

impl Measured {
    fn at(&self, arrival: &str, arm: &str, other: &str) -> Option<stats::Comparison> {
        self.inserted.iter().find(|it| it.0 == arrival)?.1.against(arm, other)
    }
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let shuffled = measured.at("random", BOXED, BALANCED);
    let sorted = measured.at("ascending", BOXED, BALANCED);
    it.set("source", portfolio::source(4, "binary search tree and red-black tree"));
    it.set("job", words::count(JOB as u64));
    it.set("keys", words::count(KEYS));
    it.set("sought", SOUGHT);
    it.compare("shuffled", shuffled.as_ref());
    it.compare("sorted", sorted.as_ref());
    it.compare("btree", measured.at("random", BTREE, BALANCED).as_ref());
    let trees = measured.published.iter();
    let trees = trees.map(|(what, costs)| format!("{what}: {}", costs.judged(BOXED, BALANCED)));
    it.set("trees", trees.collect::<Vec<_>>());
    let quickest = |costs: &Costs| {
        let all = ARMS.iter().filter_map(|name| Some((*name, costs.median(name)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(words::NONE, |it| it.0)
    };
    let won = measured.done.iter().map(|(name, costs)| format!("{name}: {}", quickest(costs)));
    it.set("quickest", won.collect::<Vec<_>>());
    let [plain, balanced] = measured.depth[0].1;
    it.set("depths", [plain, balanced]);
    let depth = |(name, [plain, balanced]): &(&str, [u32; 2])| {
        let depths = format!("plain tree {plain}, red-black tree {balanced}");
        (format!("Depth, {} keys, {name}", words::count(JOB as u64)), depths)
    };
    it.facts = measured.depth.iter().map(depth).collect();
    rows(&mut it, measured);
    plots(&mut it, measured);
    it.expect_ratio("alike", shuffled.as_ref());
    it.expect_ratio("a-list", sorted.as_ref());
    let depth = f64::from(measured.depth[1].1[0]);
    it.claim("depth", depth >= JOB as f64 - 1.0, depth);
    let (_, balanced) = range(measured.depth.iter().map(|it| f64::from(it.1[1])));
    it.claim("balanced", balanced <= 2.0 * ((JOB + 1) as f64).log2(), balanced);
    let finding = measured.published.get(1).and_then(|it| it.1.against(LIST, BALANCED));
    it.expect_ratio("list-finds", finding.as_ref());
    it
}

fn rows(it: &mut Draft, measured: &Measured) {
    let counts = [f64::from(KEYS), f64::from(SOUGHT), f64::from(SOUGHT)];
    let each = TREES_US.map(|row| [0, 1, 2].map(|at| row[at] * 1e3 / counts[at]));
    it.published.rows = portfolio::table(TREES.into_iter().zip(each));
    for (at, (what, costs)) in measured.published.iter().enumerate() {
        for (row, name) in [LIST, BOXED, BALANCED].into_iter().enumerate() {
            it.flawed.row([
                name.to_string(),
                what.to_string(),
                words::or_none(costs.median(name), words::number),
                costs.judged(name, BALANCED),
                words::ratio(TREES_US[row][at] / TREES_US[2][at]),
            ]);
        }
    }
    let mut rows = |what: String, costs: &Costs| {
        for name in [BALANCED, BOXED].into_iter().chain(ARMS[1..].iter().copied()) {
            if let Some(median) = costs.median(name) {
                it.corrected.row([
                    name.to_string(),
                    what.clone(),
                    words::number(median),
                    costs.judged(name, BALANCED),
                ]);
            }
        }
    };
    for (name, costs) in &measured.inserted {
        rows(format!("insert, {name}"), costs);
    }
    for (count, costs) in &measured.sought {
        rows(format!("find among {}", words::count(*count as u64)), costs);
    }
    for (name, costs) in &measured.done {
        rows(name.to_string(), costs);
    }
    for (name, [median, worst], bytes) in &measured.single {
        it.corrected.row([
            name.to_string(),
            "single insertions".to_string(),
            format!("p50 {}, worst {}", words::number(*median), words::number(*worst)),
            words::or_none(*bytes, |it| format!("{} bytes an entry", words::number(it))),
        ]);
    }
}

fn plots(it: &mut Draft, measured: &Measured) {
    for name in [PLAIN, SORTED, BTREE, HASHED] {
        let all = measured.sought.iter().map(|it| (it.0 as f64, &it.1));
        it.corrected.series(ratios(name, (name, BALANCED), all));
    }
    it.together.named(ARRIVALS.map(|it| it.1));
    let published =
        Series::published("published, BST / RBT", [(1.0, TREES_US[1][0] / TREES_US[2][0])]);
    it.together.series(published.drawn_as(Mark::Bar));
    for name in [BOXED, SORTED, BTREE, HASHED] {
        let points = measured.inserted.iter().zip(1..).filter_map(|((_, costs), at)| {
            Some(point(f64::from(at), &costs.against(name, BALANCED)?))
        });
        it.together.series(Series::measured(name, points).drawn_as(Mark::Bar));
    }
}
