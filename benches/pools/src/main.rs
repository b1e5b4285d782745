//! Pool, ring and table of sessions against their peers, in paired rounds, each with its goal.
//!
//! `pools-bench [ROUNDS]` prints one line a goal. `pools-bench once ARM OPERATIONS` runs only one
//! arm, to count instructions (`valgrind --tool=callgrind`): the difference of two lengths, divided
//! by the difference of operations, excludes start and end.

use std::num::NonZeroU32;

use paired::{Arm, Rounds};
use pools::{Boxes, Guard, Home};
use pools_bench::objects::{Heap, cross, pairs, pool, shared, together};
use pools_bench::sessions::{self, Tables};
use pools_bench::{Child, LIVE, OPERATIONS};

/// The default number of rounds: enough for an interval of a few percent on a shared machine.
const ROUNDS: usize = 40;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => all(ROUNDS),
        ["once", arm, operations] => {
            once(arm, operations.parse().expect("a number of operations"));
        }
        [rounds] => all(rounds.parse().expect("a number of rounds")),
        _ => eprintln!("usage: pools-bench [ROUNDS] | once ARM OPERATIONS"),
    }
}

/// A comparison: ours, theirs, the bound of ours over theirs, and whether the bound is a goal or
/// the ratio is only shown.
type Goal = (&'static str, &'static str, f64, bool);

fn all(rounds: usize) {
    println!(
        "{rounds} paired rounds of {OPERATIONS} operations; ns of processor time; ours/theirs"
    );
    for live in LIVE {
        pool_pairs(live, rounds);
    }
    crossing(rounds);
    scaling(rounds);
    tables(rounds);
    rings(rounds);
}

fn show(title: &str, rounds: &Rounds, goals: &[Goal]) {
    println!("\n{title}");
    for (ours, theirs, goal, is_goal) in goals {
        let ratio = rounds.ratio(ours, theirs);
        let (ours_ns, theirs_ns) = (rounds.median(ours), rounds.median(theirs));
        let said = if *is_goal {
            format!("goal {goal:.2}: {}", ratio.against(*goal))
        } else {
            "no goal".to_owned()
        };
        println!("  {ours:<18}{ours_ns:>8.2}  {theirs:<18}{theirs_ns:>8.2}  {ratio}  {said}");
    }
}

fn pool_pairs(live: usize, rounds: usize) {
    let mut names = ["heap-mimalloc", "heap-glibc", "heap-snmalloc"].map(Child::start);
    let [mimalloc, glibc, snmalloc] = &mut names;
    let request = format!("pairs {live}");
    let (mut own, mut guarded) = (pool(Guard::Off), pool(Guard::Full));
    let mut sampled = pool(Guard::Sampled(NonZeroU32::new(64).expect("not zero")));
    let shared = shared(Home::Depot);
    let mut worker = shared.worker().expect("a slot");
    let boxes = Boxes::new(8192);
    let mut slab = slab::Slab::new();
    let mut arms = [
        Arm::new("boxes", || pairs(&mut &boxes, live, OPERATIONS)),
        Arm::new("pool", || pairs(&mut own, live, OPERATIONS)),
        Arm::new("pool, guarded", || pairs(&mut guarded, live, OPERATIONS)),
        Arm::new("pool, 1 in 64", || pairs(&mut sampled, live, OPERATIONS)),
        Arm::new("shared pool", || pairs(&mut worker, live, OPERATIONS)),
        Arm::new("slab", || pairs(&mut slab, live, OPERATIONS)),
        Arm::new("mimalloc", || mimalloc.ask(&request)),
        Arm::new("glibc", || glibc.ask(&request)),
        Arm::new("snmalloc", || snmalloc.ask(&request)),
    ];
    let measured = Rounds::run(&mut arms, rounds, 1);
    // The goals are for live sets of 64 and 4096.
    let goal = live > 1;
    let goals = [
        ("boxes", "mimalloc", 0.5, goal),
        ("boxes", "glibc", 0.35, goal),
        ("boxes", "snmalloc", 1.0, false),
        ("pool", "mimalloc", 0.5, goal),
        ("pool", "glibc", 0.35, goal),
        ("pool", "snmalloc", 1.0, false),
        ("pool", "slab", 1.1, false),
        ("shared pool", "mimalloc", 1.0, false),
        ("pool, 1 in 64", "pool", 1.5, false),
        ("pool, guarded", "pool", 2.0, false),
    ];
    show(&format!("a free and an allocation of 64 bytes, {live} live"), &measured, &goals);
}

fn crossing(rounds: usize) {
    let mut names = ["heap-mimalloc", "heap-glibc", "heap-snmalloc"].map(Child::start);
    let [mimalloc, glibc, snmalloc] = &mut names;
    let (depot, lender) = (shared(Home::Depot), shared(Home::Lender));
    let workers = |pool: &'static str| {
        let pool = if pool == "depot" { &depot } else { &lender };
        (pool.worker().expect("a slot"), pool.worker().expect("a slot"))
    };
    let mut arms = [
        Arm::new("shared, depot", || {
            let (producer, consumer) = workers("depot");
            cross(producer, consumer, OPERATIONS)
        }),
        Arm::new("shared, lender", || {
            let (producer, consumer) = workers("lender");
            cross(producer, consumer, OPERATIONS)
        }),
        Arm::new("mimalloc", || mimalloc.ask("cross")),
        Arm::new("glibc", || glibc.ask("cross")),
        Arm::new("snmalloc", || snmalloc.ask("cross")),
    ];
    let measured = Rounds::run(&mut arms, rounds, 2);
    let goals = [
        ("shared, depot", "snmalloc", 1.2, true),
        ("shared, depot", "mimalloc", 0.7, false),
        ("shared, depot", "glibc", 0.35, false),
        ("shared, lender", "snmalloc", 1.2, false),
    ];
    show("one thread allocates, another frees; both threads' time", &measured, &goals);
}

fn scaling(rounds: usize) {
    let pool = shared(Home::Depot);
    let mut arms = [
        Arm::new("two threads", || together(&pool, 2, OPERATIONS)),
        Arm::new("one thread", || together(&pool, 1, OPERATIONS)),
    ];
    let measured = Rounds::run(&mut arms, rounds, 3);
    // Twice the work at 1/0.9 of the cost is 1.8 times the throughput, on two free processors.
    let goals = [("two threads", "one thread", 2.0 / 1.8, true)];
    show(
        "a pair in a shared pool, each thread's own time (1.11 is a speed-up of 1.8)",
        &measured,
        &goals,
    );
}

fn tables(rounds: usize) {
    let tables = Tables::default();
    let mut arms = [
        Arm::new("shared table", || tables.shared(OPERATIONS)),
        Arm::new("slotmap", || tables.slotmap(OPERATIONS)),
        Arm::new("HashMap", || tables.hash(OPERATIONS)),
    ];
    let measured = Rounds::run(&mut arms, rounds, 4);
    let goals = [
        ("shared table", "slotmap", 4.0, false),
        ("shared table", "HashMap", 1.0, false),
    ];
    show("a random look-up among 10,000 sessions", &measured, &goals);
    let mut arms = [
        Arm::new("shared table", || sessions::churn_shared(OPERATIONS)),
        Arm::new("slotmap", || sessions::churn_slotmap(OPERATIONS)),
        Arm::new("slab", || sessions::churn_slab(OPERATIONS)),
    ];
    let measured = Rounds::run(&mut arms, rounds, 5);
    let goals = [("shared table", "slotmap", 4.0, false), ("shared table", "slab", 4.0, false)];
    show("a session closed and another opened, 10,000 live", &measured, &goals);
}

fn rings(rounds: usize) {
    let mut arms = [
        Arm::new("ring", || sessions::ring(OPERATIONS / 4)),
        Arm::new("rtrb", || sessions::ring_rtrb(OPERATIONS / 4)),
    ];
    let measured = Rounds::run(&mut arms, rounds, 6);
    show("512 bytes into a ring and out", &measured, &[("ring", "rtrb", 1.1, false)]);
}

fn once(arm: &str, operations: u64) {
    let cost = match arm {
        "pool" => pairs(&mut pool(Guard::Off), 64, operations),
        "boxes" => pairs(&mut &Boxes::new(8192), 64, operations),
        "guarded" => pairs(&mut pool(Guard::Full), 64, operations),
        "shared" => {
            let pool = shared(Home::Depot);
            let mut worker = pool.worker().expect("a slot");
            pairs(&mut worker, 64, operations)
        }
        "slab" => pairs(&mut slab::Slab::new(), 64, operations),
        "glibc" => pairs(&mut Heap, 64, operations),
        "session" => Tables::default().shared(operations),
        "slotmap" => Tables::default().slotmap(operations),
        "ring" => sessions::ring(operations),
        "rtrb" => sessions::ring_rtrb(operations),
        _ => panic!(
            "expected boxes, pool, guarded, shared, slab, glibc, session, slotmap, ring or rtrb"
        ),
    };
    println!("{arm}: {cost:.2} ns");
}
