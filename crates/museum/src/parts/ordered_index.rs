//! A list, a binary search tree, a red-black tree: it depends on the order of arrival.
//!
//! The published test shuffles its keys, and then a plain tree is as good as a balanced one. But
//! session numbers arrive in ascending order, which makes a list of a plain tree. And the list was
//! timed with a loop that goes on to the end after it has erased what it was looking for. Here the
//! orders of arrival and the operations are taken one by one, with an array, a B-tree and a hash
//! table beside the trees, and the worst single insertion, which no mean shows.

use super::{range, ratios};
use crate::contest::{Contest, Rng, Told, ns_each};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::portfolio::{self, KEYS, SOUGHT, TREES, TREES_US};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use kinds::{ARMS, BALANCED, BOXED, BTREE, HASHED, LIST, Map, PLAIN, SORTED};
use std::hint::black_box;
use std::time::{Duration, Instant};

mod kinds;

/// Keys of the corrected run.
const COUNTS: [usize; 3] = [100, 2_000, 100_000];
/// Keys of the jobs and of the worst single insertion.
const JOB: usize = 2_000;

/// In what order keys arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Random,
    Ascending,
    Descending,
}

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

/// What is done with a map that is full.
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
    /// Find keys of which a few are wanted most of the time (Zipf).
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

impl Exhibit for OrderedIndex {
    fn name(&self) -> &'static str {
        "ordered-index"
    }

    fn title(&self) -> &'static str {
        "Trees and the order of arrival"
    }

    fn about(&self) -> &'static str {
        "shuffled keys make a plain tree look balanced; session numbers do not come shuffled"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let contests = 3 + ARRIVALS.len() + COUNTS.len() + JOBS.len();
        Effort::new(settings.rounds(12) * contests as u32, Duration::from_millis(130))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let mut seen = Seen::default();
        for (at, name) in ["insert", "find", "erase"].into_iter().enumerate() {
            let Some(told) = published(stage, at, name)? else { break };
            seen.published.push((name, told));
        }
        for (arrival, name) in ARRIVALS {
            let Some(told) = inserted(stage, arrival, name)? else { break };
            seen.inserted.push((name, told));
        }
        let counts = if stage.settings().quick { &COUNTS[..2] } else { &COUNTS[..] };
        for &count in counts {
            let Some(told) = sought(stage, count)? else { break };
            seen.sought.push((count, told));
        }
        for (job, name) in JOBS {
            let Some(told) = done(stage, job, name)? else { break };
            seen.done.push((name, told));
        }
        let count = if stage.settings().quick { JOB } else { COUNTS[2] };
        seen.single = kinds::all(count).into_iter().map(|map| single(map, count)).collect();
        seen.depth = ARRIVALS.map(|(arrival, name)| (name, kinds::depths(&arrival.keys(JOB))));
        Ok(told(stage, &seen))
    }
}

/// What was measured.
#[derive(Default)]
struct Seen {
    published: Vec<(&'static str, Told)>,
    inserted: Vec<(&'static str, Told)>,
    sought: Vec<(usize, Told)>,
    done: Vec<(&'static str, Told)>,
    /// By arm: the median and the worst single insertion, nanoseconds, and bytes for each entry.
    single: Vec<(&'static str, [f64; 2], Option<f64>)>,
    /// By order of arrival: the depth of a plain and of a balanced tree.
    depth: [(&'static str, [u32; 2]); 3],
}

/// The published jobs: all keys in, or of the full map some found, or some erased.
fn published(stage: &mut Stage<'_>, job: usize, name: &str) -> Result<Option<Told>, Fault> {
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
                if job == 0 {
                    all.push(ns_each(keys.len() as u64, || fill(&mut map)));
                    continue;
                }
                fill(&mut map);
                all.push(ns_each(wanted.len() as u64, || {
                    let act = |key: &u64| if job == 1 { map.find(*key) } else { map.erase(*key) };
                    assert_eq!(wanted.iter().map(act).filter(|it| *it).count(), wanted.len());
                }));
            }
            all.iter().sum::<f64>() / all.len() as f64
        });
    }
    stage.contest(contest)
}

fn inserted(stage: &mut Stage<'_>, arrival: Arrival, name: &str) -> Result<Option<Told>, Fault> {
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

fn sought(stage: &mut Stage<'_>, count: usize) -> Result<Option<Told>, Fault> {
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

/// Ranks that are wanted in proportion to 1 / rank (Zipf), by the inverse of their sum.
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

fn done(stage: &mut Stage<'_>, job: Job, name: &str) -> Result<Option<Told>, Fault> {
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

impl Seen {
    fn all(&self) -> Vec<&Told> {
        let named = self.published.iter().chain(&self.inserted).chain(&self.done).map(|it| &it.1);
        named.chain(self.sought.iter().map(|it| &it.1)).collect()
    }

    fn at(&self, arrival: &str, arm: &str, other: &str) -> Option<lab::stats::Comparison> {
        self.inserted.iter().find(|it| it.0 == arrival)?.1.against(arm, other)
    }
}

fn said(it: Option<&lab::stats::Comparison>) -> String {
    it.map_or("an unknown multiple of".to_string(), words::compared)
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let shuffled = seen.at("random", BOXED, BALANCED);
    let sorted = seen.at("ascending", BOXED, BALANCED);
    let headline = format!(
        "With {} shuffled keys a plain tree takes {} the time of a balanced one to build, with \
         ascending keys {}; and a B-tree takes {} the time of the balanced tree.",
        words::count(JOB as u64),
        said(shuffled.as_ref()),
        said(sorted.as_ref()),
        said(seen.at("random", BTREE, BALANCED).as_ref()),
    );
    let mut facts: Vec<(String, String)> = seen
        .depth
        .iter()
        .map(|(name, [plain, balanced])| {
            let told = format!("plain tree {plain}, red-black tree {balanced}");
            (format!("Depth, {} keys, {name}", words::count(JOB as u64)), told)
        })
        .collect();
    facts.extend(stage.contest_facts(&seen.all()));
    let counts = [f64::from(KEYS), f64::from(SOUGHT), f64::from(SOUGHT)];
    let each = TREES_US.map(|row| [0, 1, 2].map(|at| row[at] * 1e3 / counts[at]));
    Showing {
        headline,
        published: portfolio::table(
            "Insertion is quickest in a list, finding in a red-black tree, erasing in a binary \
             search tree; the two trees are close together.",
            portfolio::source(4, "binary search tree and red-black tree"),
            &["structure", "insert 2,000, ns each", "find 100", "erase 100"],
            TREES.into_iter().zip(each),
        ),
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(seen),
        lesson: "Test an index with keys in the order in which they will come.".to_string(),
        together: Some(together(seen)),
        findings: findings(seen, shuffled, sorted),
        facts,
        doubts: Vec::new(),
    }
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers =
        Grid::new(&["structure", "what", "ns each", "of the red-black tree's", "published"]);
    for (at, (what, told)) in seen.published.iter().enumerate() {
        for (row, name) in [LIST, BOXED, BALANCED].into_iter().enumerate() {
            numbers.row([
                name.to_string(),
                what.to_string(),
                words::or_none(told.median(name), words::number),
                told.judged(name, BALANCED),
                words::ratio(TREES_US[row][at] / TREES_US[2][at]),
            ]);
        }
    }
    let line: Vec<String> = seen
        .published
        .iter()
        .map(|(what, told)| format!("{what}: {}", told.judged(BOXED, BALANCED)))
        .collect();
    Side {
        setup: format!(
            "As published: {} keys in random order into a list, a plain tree with a node from the \
             heap each, and a red-black tree (ours, of an array); then {SOUGHT} of them found, or \
             erased. The list goes on to its end after it has erased what it was looking for.",
            words::count(KEYS)
        ),
        finding: format!("The plain tree against the red-black tree: {}.", line.join("; ")),
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["structure", "what", "ns each", "of the red-black tree's"]);
    let mut rows = |what: String, told: &Told| {
        for name in [BALANCED, BOXED].into_iter().chain(ARMS[1..].iter().copied()) {
            if let Some(median) = told.median(name) {
                numbers.row([
                    name.to_string(),
                    what.clone(),
                    words::number(median),
                    told.judged(name, BALANCED),
                ]);
            }
        }
    };
    for (name, told) in &seen.inserted {
        rows(format!("insert, {name}"), told);
    }
    for (count, told) in &seen.sought {
        rows(format!("find among {}", words::count(*count as u64)), told);
    }
    for (name, told) in &seen.done {
        rows(name.to_string(), told);
    }
    for (name, [median, worst], bytes) in &seen.single {
        numbers.row([
            name.to_string(),
            "single insertions".to_string(),
            format!("p50 {}, worst {}", words::number(*median), words::number(*worst)),
            words::or_none(*bytes, |it| format!("{} bytes an entry", words::number(it))),
        ]);
    }
    let quickest = |told: &Told| {
        let all = ARMS.iter().filter_map(|name| Some((*name, told.median(name)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(words::NONE, |it| it.0)
    };
    let won: Vec<String> =
        seen.done.iter().map(|(name, told)| format!("{name}: {}", quickest(told))).collect();
    Side {
        setup: format!(
            "{} keys in each order of arrival; finding among more and more keys; and the work of a \
             server: erase in random order, a window of session numbers that moves, a walk, short \
             ranges, and a few keys that are wanted most. Structures keep their storage, but for \
             the tree whose nodes come one by one from the heap.",
            words::count(JOB as u64)
        ),
        finding: format!("Quickest at each job: {}.", won.join("; ")),
        plot: Some(Plot {
            title: "Finding a key, against the red-black tree".to_string(),
            caption: "Exact 95 % intervals of the median over blocks.".to_string(),
            x: Axis::log("keys"),
            y: Axis::log("time / that of the red-black tree"),
            series: [PLAIN, SORTED, BTREE, HASHED]
                .map(|name| {
                    let all = seen.sought.iter().map(|it| (it.0 as f64, &it.1));
                    ratios(name, (name, BALANCED), all)
                })
                .to_vec(),
        }),
        numbers,
    }
}

fn together(seen: &Seen) -> Plot {
    let series = [BOXED, SORTED, BTREE, HASHED].map(|name| {
        let places = seen.inserted.iter().zip(1..).filter_map(|((_, told), at)| {
            Some(Place::of(f64::from(at), &told.against(name, BALANCED)?))
        });
        let (places, name) = (places.collect(), name.to_string());
        Series { name, drawn: Drawn::Bar, places, ..Series::default() }
    });
    let published = Series {
        name: "published, BST / RBT".to_string(),
        drawn: Drawn::Bar,
        published: true,
        places: vec![Place { x: 1.0, y: TREES_US[1][0] / TREES_US[2][0], range: None }],
    };
    Plot {
        title: format!("Building an index of {} keys", words::count(JOB as u64)),
        caption: "Against the red-black tree; exact 95 % intervals of the median over blocks. The \
                  published test had the first order only."
            .to_string(),
        x: Axis::named("order of arrival", ARRIVALS.map(|it| it.1)),
        y: Axis::log("time / that of the red-black tree"),
        series: [published].into_iter().chain(series).collect(),
    }
}

fn findings(
    seen: &Seen,
    shuffled: Option<lab::stats::Comparison>,
    sorted: Option<lab::stats::Comparison>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(it) = shuffled {
        let expected = "with shuffled keys the trees are within a factor of two";
        found.push(Finding::new("alike", (0.5..=2.0).contains(&it.ratio), it.ratio, expected));
    }
    if let Some(it) = sorted {
        let expected = "with ascending keys a plain tree takes at least ten times as long";
        found.push(Finding::new("a-list", it.ratio >= 10.0, it.ratio, expected));
    }
    let depth = f64::from(seen.depth[1].1[0]);
    let expected = "ascending keys make a plain tree as deep as it has keys";
    found.push(Finding::new("depth", depth >= JOB as f64 - 1.0, depth, expected));
    let (_, balanced) = range(seen.depth.iter().map(|it| f64::from(it.1[1])));
    let expected = "a red-black tree is never deeper than 2 log2(n + 1)";
    let bound = 2.0 * ((JOB + 1) as f64).log2();
    found.push(Finding::new("balanced", balanced <= bound, balanced, expected));
    if let Some((_, told)) = seen.published.get(1)
        && let Some(it) = told.against(LIST, BALANCED)
    {
        let expected = "finding in a list of 2,000 takes at least ten times as long as in a tree";
        found.push(Finding::new("list-finds", it.ratio >= 10.0, it.ratio, expected));
    }
    found
}

fn why(seen: &Seen) -> Vec<String> {
    let [plain, balanced] = seen.depth[0].1;
    vec![
        format!(
            "Shuffled keys build a plain tree that is nearly balanced: {plain} levels for 2,000 \
             keys, against {balanced} in a red-black tree. Turning nodes costs more than it saves \
             there, so the plain tree may even win."
        ),
        "Session numbers and order numbers ascend. Then each key becomes the right child of the \
         one before: a list, with every look-up walking all of it. That is what balance is for, \
         and the published test could not see it. Our plain tree remembers its last node, so \
         that ascending keys are put in at once; finding them is as deep as before."
            .to_string(),
        "The list's erasing was timed with a loop without an end: it goes on through all keys \
         after it has found the one. Half of that time is the loop's. Finding includes it in the \
         trees as well."
            .to_string(),
        "Neither tree is the usual answer. A B-tree reads a few lines where a binary tree reads \
         one for each level; a hash table finds quickest where nobody asks for order, and pays \
         now and then with an insertion that moves everything. A session needs none of them: its \
         number can be its place (exhibit id-schemes)."
            .to_string(),
    ]
}
