//! Facts about tables of duets, without a process.
//!
//! Trials are made from given ratios, so the interval and the verdict of every figure are known. A
//! stand-in for the laboratory plays the blocks, to show their order and a stop.

use super::*;
use crate::block::Slot;
use crate::observations::Idle;
use crate::plan::{Arm, LoadPoint, Turns};
use crate::race::tests::{load, trial};
use std::iter;

fn row(names: &[&str], asked: &[(Metric, Option<Goal>)]) -> Row {
    let arm = |name: &&str| Arm {
        name: name.to_string(),
        command: vec!["sh".to_string()],
        ..Arm::default()
    };
    let plan = Plan {
        arms: names.iter().map(arm).collect(),
        baseline: names[0].to_string(),
        twin: names.len() == 1,
        points: vec![LoadPoint { name: "depth 1".to_string(), ..LoadPoint::default() }],
        blocks: 8,
        turns: Turns { windows: 2, ..Turns::default() },
        ..Plan::default()
    };
    Row { plan, asked: asked.to_vec() }
}

fn table(rows: Vec<Row>) -> DuetTable {
    DuetTable { question: "Which?".to_string(), note: String::new(), rows, margin: 0.03 }
}

/// Trials whose pairs have these ratios of CPU; the right server is late by twice as much.
fn trials(row: &Row, ratios: &[f64]) -> Vec<Trial> {
    let one = |block: u32, ratio: f64, at: usize, arm: &Arm| {
        let (cpu_ns, p99_ns) = if at == 0 { (1_000.0 * ratio, 50) } else { (1_000.0, 100) };
        let mut trial = trial(&arm.name, block, 1e9 / cpu_ns);
        trial.seen.p99_ns = Some(p99_ns);
        let bytes_each = Some(400.0 + f64::from(block));
        trial.seen.idle = (arm.idle > 0).then(|| Idle { bytes_each, ..Idle::default() });
        load(&mut trial).doubts = vec![format!("{} threads of process {block} ended", block + 2)];
        trial
    };
    let blocks = ratios.iter().zip(0..);
    let all = blocks.flat_map(|(&ratio, block)| {
        let arms = row.plan.entrants().into_iter().enumerate();
        arms.map(|(at, arm)| one(block, ratio, at, &arm)).collect::<Vec<_>>()
    });
    all.collect()
}

fn findings(rows: &[(Row, &[f64])]) -> Findings {
    let table = table(rows.iter().map(|(row, _)| row.clone()).collect());
    let mut found = Findings::new(&table).expect("this machine has /proc");
    for (row, ratios) in rows {
        found.take(row, &trials(row, ratios));
    }
    found.conclude();
    found
}

const CPU: &[(Metric, Option<Goal>)] = &[(Metric::Cpu, None)];
const EQUAL: [f64; 8] = [0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.0];
const DEAR: [f64; 8] = [1.2, 1.21, 1.19, 1.2, 1.22, 1.2, 1.18, 1.2];

#[test]
fn a_row_compares_its_first_server_with_each_other_and_itself() {
    let mut three = row(&["bare", "epoll", "uring"], CPU);
    three.plan.twin = true;
    assert_eq!(three.name(), "bare / epoll, uring, bare");
    let found = findings(&[(three.clone(), &DEAR)]);
    let names: Vec<String> = found.figures.iter().map(DuetFigure::name).collect();
    assert_eq!(names, ["bare / epoll", "bare / uring", "bare / bare"]);
    for it in &found.figures {
        assert!(it.value.is_some_and(|value| (value - 1.2).abs() < 1e-9), "{it:?}");
        assert!(it.left_value.is_some_and(|value| (value - 1_200.0).abs() < 1e-6), "{it:?}");
        assert!(it.interval.is_some_and(|it| it.low > 1.17 && it.high < 1.23), "{it:?}");
    }
    let mut stopped = trials(&three, &DEAR[..1]);
    stopped.truncate(1);
    let absent = three.figures(&stopped).swap_remove(0).absent;
    assert_eq!(absent.as_deref(), Some("the generator reported no CPU per request"));
}

#[test]
fn a_row_is_played_block_by_block_until_it_is_stopped() {
    struct Made(Row, Vec<u32>);
    impl Trials for Made {
        fn block(&mut self, slots: &[Slot], _begun: Instant) -> Option<Vec<Trial>> {
            let play = |slot: &Slot| {
                self.1.push(slot.block);
                trial(&self.0.plan.entrants()[slot.entrant].name, slot.block, 1e6)
            };
            Some(slots.iter().map(play).collect())
        }
    }
    let (row, stop) = (row(&["bare", "epoll"], CPU), AtomicBool::new(false));
    let mut made = Made(row.clone(), Vec::new());
    let (all, is_stopped) = row.play(&mut made, &stop, |trials| assert_eq!(trials.len(), 2));
    assert_eq!((all.len(), is_stopped), (16, false));
    assert!(made.1.is_sorted(), "{:?}", made.1);
    let (some, is_stopped) = row.play(&mut made, &stop, |trials| {
        stop.store(trials[0].block >= 1, Ordering::Relaxed);
    });
    assert_eq!((some.len(), is_stopped), (4, true));
}

#[test]
fn wrong_replies_and_failed_starts_are_named() {
    let row = row(&["bare", "epoll"], CPU);
    let mut all = trials(&row, &EQUAL);
    load(&mut all[1]).check.as_mut().expect("it is checked").ok = false;
    all[2].ending = Ending::Failed { reason: "no message".to_string() };
    let mut found = Findings::new(&table(vec![row.clone()])).expect("this machine has /proc");
    found.take(&row, &all);
    found.conclude();
    assert_eq!(found.figures[0].pairs.len(), 7);
    assert_eq!(found.broken.len(), 1);
    assert!(found.broken[0].contains("epoll, depth 1, block 1: the model check"));
    let doubt = "bare / epoll: 1 of 16 starts failed, the first: bare: no message";
    assert!(found.doubts.iter().any(|it| it == doubt), "{:?}", found.doubts);
    assert!(!found.is_right());
}

#[test]
fn a_figure_is_judged_by_its_goal_or_compared() {
    fn check(goal: Option<Goal>, ratios: &[f64], want: &str) {
        let found = findings(&[(row(&["bare", "ours"], &[(Metric::Cpu, goal)]), ratios)]);
        assert_eq!(found.figures[0].verdict, want, "{:?}", found.figures[0]);
        assert!(found.is_right());
        assert_eq!(found.misses(), want == "missed");
    }
    check(Some(Goal::AtLeast(0.95)), &EQUAL, "reached");
    check(Some(Goal::AtLeast(1.1)), &EQUAL, "missed");
    check(Some(Goal::AtLeast(1.0)), &EQUAL, "unresolved");
    check(Some(Goal::AtLeast(0.5)), &EQUAL[..5], "unresolved");
    check(None, &EQUAL, "equivalent");
    check(None, &DEAR, "costlier");
    check(None, &DEAR.map(|it| 1.0 / it), "cheaper");
    check(None, &DEAR[..5], "unresolved");
}

#[test]
fn a_server_beside_itself_is_the_noise_floor_of_its_load() {
    let noisy: [f64; 8] = [1.2, 1.3, 1.4, 1.25, 1.35, 1.2, 1.3, 1.3];
    let twin = (row(&["ours"], CPU), &noisy[..]);
    let found = findings(&[twin, (row(&["bare", "ours"], CPU), &DEAR)]);
    assert_eq!(
        (found.figures[0].name().as_str(), found.figures[0].verdict.as_str()),
        ("ours / ours", "")
    );
    assert_eq!(found.figures[1].verdict, "unresolved", "20 % is less than the twin strays");
}

#[test]
fn many_differences_must_survive_the_correction() {
    let weak = [1.02, 1.05, 1.01, 1.04, 1.03, 0.99, 1.06, 1.01, 1.03, 1.02];
    let mut rng = stats::Rng::new(5);
    let others: Vec<Vec<f64>> =
        (0..60).map(|_| (0..10).map(|_| 1.0 + 0.1 * (rng.unit() - 0.5)).collect()).collect();
    let rows = |count: usize| -> Vec<(Row, &[f64])> {
        let others = others[..count].iter().map(|it| (row(&["bare", "ours"], CPU), &it[..]));
        iter::once((row(&["a", "b"], CPU), &weak[..])).chain(others).collect()
    };
    assert_eq!(findings(&rows(0)).figures[0].verdict, "costlier");
    let many = findings(&rows(60));
    assert_eq!(many.figures[0].verdict, "unresolved", "{:?}", many.figures[0]);
}

#[test]
fn other_metrics_have_their_own_values() {
    let asked = [(Metric::P99, Some(Goal::AtMost(0.6))), (Metric::ConnectionMemory, None)];
    let mut idle = row(&["epoll", "epoll+9"], &asked);
    idle.plan.arms[1].idle = 9;
    let found = findings(&[(idle, &EQUAL)]);
    let [late, memory] = &found.figures[..] else { panic!("{:?}", found.figures) };
    assert_eq!((late.name().as_str(), late.value), ("epoll / epoll+9", Some(0.5)));
    assert_eq!((late.left_value, late.verdict.as_str()), (Some(50.0), "reached"));
    assert_eq!((memory.value, memory.right_value), (Some(403.5), Some(403.5)));
    assert!(memory.interval.is_some() && memory.verdict.is_empty());
    assert_eq!(found.doubts.len(), 1, "one doubt for eight pairs: {:?}", found.doubts);
}

#[test]
fn what_is_absent_says_why() {
    let mut gone = row(&["nginx", "ours"], CPU);
    gone.plan.arms[0].command = vec!["/no/such/nginx".to_string()];
    let why = gone.skip().expect("it is not there");
    assert!(why.contains("`/no/such/nginx`"), "{why}");
    let mut found = Findings::new(&table(vec![gone.clone()])).expect("this machine has /proc");
    found.skip(&gone, &why);
    found.conclude();
    assert!(!found.is_right(), "nothing was measured");
    let fair = row(&["bare", "ours"], CPU);
    found.take(&fair, &trials(&fair, &EQUAL));
    assert!(found.is_right(), "a missing program is not a fault");
    let mut broken = trials(&fair, &EQUAL[..1]);
    broken[1].ending = Ending::Unavailable { reason: "no message".to_string() };
    found.take(&fair, &broken);
    let last = found.figures.last().expect("three figures");
    assert_eq!((last.absent.as_deref(), last.skipped), (Some("ours: no message"), false));
    assert!(!found.is_right());
}

#[test]
fn rows_can_be_chosen_by_their_servers() {
    let mut all = table(vec![row(&["bare", "epoll"], CPU), row(&["bare", "uring"], CPU)]);
    let why = all.only(&["epol".to_string()]).expect_err("a stranger");
    assert_eq!(why, "expected arms out of bare, epoll, uring, found `epol`");
    all.only(&["uring".to_string()]).expect("it is there");
    assert_eq!(all.rows.len(), 1);
}

#[test]
fn doubts_of_fresh_pairs_are_one() {
    let doubt = |count: u32, pid: u32| {
        anonymous(&format!("{count} threads of process {pid} ended: known to 20 ms only"))
    };
    assert_eq!(doubt(3, 17), doubt(64, 99));
    assert!(doubt(1, 2).contains("20 ms"));
}
