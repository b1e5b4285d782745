//! The search trees against libstdc++'s map, intrusive-collections, the standard library's B-tree,
//! a sorted array and a hash map, in paired rounds.
//!
//! The jobs are those of session numbers and stocks: insert in random and in ascending order, find,
//! remove in random order, a moving window (first in, first out), and a walk in order. Costs are
//! the processor time of the working thread. Every arm starts each job from an empty map that keeps
//! its storage: our array was lent once, the heap of the others is warm. Two arms win some rows
//! because they keep no order or keep it only at a high cost; they show where a tree is not needed.
//! tree is not needed.

mod foreign;
mod maps;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use foreign::Foreign;
use maps::{Balanced, Intrusive, Map, Plain, Sorted};
use paired::{Arm, Rng, Rounds, ns_each};

/// The arm that is compared with the others.
const OURS: &str = "red-black";
/// The sizes of maps: one that fits the first-level cache, and the one of the goals.
const COUNTS: [usize; 2] = [1_000, 100_000];
/// The largest map on which quadratic arms are tried.
const QUADRATIC_MAX: usize = 2_000;
/// The goals: each job's cost relative to its peer's, as a ratio, for the larger size.
const GOALS: &[(Job, &str, f64)] = &[
    (Job::Random, "std::map", 1.0),
    (Job::Random, "intrusive", 1.0),
    (Job::Find, "std::map", 1.0),
    (Job::Find, "intrusive", 1.0),
];

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Insert keys in random order.
    Random,
    /// Insert keys in ascending order.
    Ascending,
    /// Find every key, in another random order.
    Find,
    /// Remove every key, in another random order.
    Remove,
    /// Insert the next number and remove the oldest.
    Fifo,
    /// Read every value in order.
    Walk,
}

const JOBS: [Job; 6] = [Job::Random, Job::Ascending, Job::Find, Job::Remove, Job::Fifo, Job::Walk];

impl Job {
    fn name(self) -> &'static str {
        match self {
            Job::Random => "random",
            Job::Ascending => "ascending",
            Job::Find => "find",
            Job::Remove => "remove",
            Job::Fifo => "fifo",
            Job::Walk => "walk",
        }
    }
}

/// The keys of all jobs with one size; the C++ arm makes the same.
struct Keys {
    random: Vec<u64>,
    shuffled: Vec<u64>,
}

impl Keys {
    fn new(count: usize) -> Keys {
        let mut rng = Rng::new(1);
        let random: Vec<u64> = (0..count).map(|_| rng.roll()).collect();
        let mut shuffled = random.clone();
        let mut rng = Rng::new(2);
        for last in (1..count).rev() {
            shuffled.swap(last, rng.below(last + 1));
        }
        Keys { random, shuffled }
    }
}

/// Runs `job` once; returns nanoseconds for each operation, and the check sum.
fn run<M: Map>(map: &mut M, job: Job, keys: &Keys) -> (f64, u64) {
    let count = keys.random.len() as u64;
    map.clear();
    let mut check = 0;
    let fill = |map: &mut M| {
        keys.random.iter().zip(0..).for_each(|(key, value)| map.insert(*key, value));
    };
    let ns = match job {
        Job::Random => ns_each(count, || fill(map)),
        Job::Ascending => ns_each(count, || (0..count).for_each(|key| map.insert(key, 0))),
        Job::Find => {
            fill(map);
            ns_each(count, || {
                for key in &keys.shuffled {
                    check += u64::from(map.find(*key).unwrap_or(0));
                }
            })
        }
        Job::Remove => {
            fill(map);
            ns_each(count, || {
                keys.shuffled.iter().for_each(|key| check += u64::from(map.remove(*key)));
            })
        }
        Job::Fifo => {
            (0..count).for_each(|key| map.insert(key, 0));
            ns_each(count, || {
                for key in 0..count {
                    map.insert(count + key, 0);
                    check += u64::from(map.remove(key));
                }
            })
        }
        Job::Walk => {
            fill(map);
            ns_each(count, || check = map.walk())
        }
    };
    if matches!(job, Job::Random | Job::Ascending) {
        check = map.len() as u64;
    }
    (ns, check)
}

/// Whether the arm would take a time that grows with the square of the size.
fn is_quadratic(name: &str, job: Job) -> bool {
    match name {
        "sorted Vec" => matches!(job, Job::Random | Job::Remove | Job::Fifo),
        _ => false,
    }
}

fn race(job: Job, keys: &Keys, rounds: usize, foreign: Option<&RefCell<Foreign>>) {
    let count = keys.random.len();
    let expected = run(&mut BTreeMap::<u64, u32>::new(), job, keys).1;
    let mut arms: Vec<Arm<'_>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    macro_rules! arm {
        ($name:literal, $map:expr) => {
            if count <= QUADRATIC_MAX || !is_quadratic($name, job) {
                let mut map = $map;
                names.push($name);
                arms.push(Arm::new($name, move || {
                    let (ns, check) = run(&mut map, job, keys);
                    assert_eq!(check, expected, "{} of {}", job.name(), $name);
                    ns
                }));
            }
        };
    }
    arm!("red-black", Balanced::new(count));
    arm!("bst", Plain::new(count));
    arm!("intrusive", Intrusive::new());
    arm!("BTreeMap", BTreeMap::<u64, u32>::new());
    arm!("sorted Vec", Sorted::default());
    arm!("HashMap", HashMap::<u64, u32>::new());
    if let Some(foreign) = foreign {
        names.push("std::map");
        arms.push(Arm::new("std::map", move || {
            let answer = foreign.borrow_mut().ask(job.name(), count);
            let (ns, check) = answer.unwrap_or_else(|error| panic!("std::map: {error}"));
            assert_eq!(check, expected, "{} of std::map", job.name());
            ns
        }));
    }
    let told = Rounds::run(&mut arms, rounds, 1);
    println!("\n{} x {count}", job.name());
    for name in names {
        let ratio = told.ratio(OURS, name);
        let goal = GOALS
            .iter()
            .find(|goal| count == COUNTS[1] && goal.0 == job && goal.1 == name)
            .map(|goal| format!("  goal {:.1}: {}", goal.2, ratio.against(goal.2)))
            .unwrap_or_default();
        let against = if name == OURS { String::new() } else { format!("ours is {ratio}") };
        println!("  {name:<11} {:>8.1} ns  {against}{goal}", told.median(name));
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    let foreign = match Foreign::start() {
        Ok(foreign) => Some(RefCell::new(foreign)),
        Err(why) => {
            println!("without std::map: {why}");
            None
        }
    };
    println!("{rounds} rounds; nanoseconds of processor time an operation, medians");
    println!("ratios are ours over theirs, medians of paired rounds with a 95 % interval");
    for count in COUNTS {
        let keys = Keys::new(count);
        for job in JOBS {
            race(job, &keys, rounds, foreign.as_ref());
        }
    }
}
