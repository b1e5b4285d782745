//! Facts about tables of duets, without a process.

use super::super::{Part, SCHEMA, Side, Silence};
use super::*;
use crate::machine::Conditions;
use crate::plan::{Arm, LoadPoint};

fn row(names: &[&str], asked: &[(Metric, Option<Goal>)]) -> Row {
    let part = |name: &&str| Part {
        arm: Arm { name: name.to_string(), command: vec!["sh".to_string()], ..Arm::default() },
        idle: 0,
    };
    let plan = Plan {
        parts: names.iter().map(part).collect(),
        twin: names.len() == 1,
        point: LoadPoint { name: "depth 1".to_string(), ..LoadPoint::default() },
        fresh_pairs: 8,
        windows: 2,
        window_ms: 1,
        warmup_ms: 1,
        seed: 1,
        files: Vec::new(),
    };
    Row { plan, asked: asked.to_vec() }
}

fn table(rows: Vec<Row>) -> DuetTable {
    DuetTable { question: "Which?".to_string(), note: String::new(), rows, margin: 0.03 }
}

/// An outcome whose pairs have these ratios of CPU; the right server is late by twice as much.
fn outcome(row: &Row, ratios: &[f64]) -> Outcome {
    let side = |cpu_ns_per_request: f64, p99_ns: u64| Side {
        requests: 10,
        cpu_ns_per_request,
        switches_per_request: None,
        p99_ns: Some(p99_ns),
        throughput_rps: None,
        errors: Vec::new(),
        check: None,
    };
    let fresh = ratios.iter().zip(0..).map(|(&ratio, number)| Fresh {
        number,
        swapped: false,
        ratio,
        a: side(1_000.0 * ratio, 50),
        b: side(1_000.0, 100),
        a_idle: None,
        b_idle: (row.plan.parts.iter().any(|it| it.idle > 0)).then_some(Silence {
            connections: 9,
            bytes_each: 400.0 + f64::from(number),
            kernel_kb: None,
        }),
        conditions: Conditions::default(),
        doubts: vec![format!("{} threads of process {number} ended", number + 2)],
    });
    let mut pairing = Pairing::new(&row.plan, row.plan.pairings()[0]);
    for fresh in fresh {
        pairing.take(Ok(fresh));
    }
    let schema = SCHEMA.to_string();
    Outcome { schema, plan: row.plan.clone(), pairings: vec![pairing], interrupted: false }
}

fn findings(rows: &[(Row, &[f64])]) -> Findings {
    let table = table(rows.iter().map(|(row, _)| row.clone()).collect());
    let mut found = Findings::new(&table).expect("this machine has /proc");
    for (row, ratios) in rows {
        found.take(row, &outcome(row, ratios));
    }
    found.conclude();
    found
}

const CPU: &[(Metric, Option<Goal>)] = &[(Metric::Cpu, None)];
const EQUAL: [f64; 8] = [0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.0];
const DEAR: [f64; 8] = [1.2, 1.21, 1.19, 1.2, 1.22, 1.2, 1.18, 1.2];

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
    let noisy: [f64; 8] = [0.7, 1.3, 1.4, 0.75, 1.35, 0.8, 1.0, 1.3];
    let twin = (row(&["ours"], CPU), &noisy[..]);
    let found = findings(&[twin, (row(&["bare", "ours"], CPU), &DEAR)]);
    assert_eq!(
        (found.figures[0].name().as_str(), found.figures[0].verdict.as_str()),
        ("ours / ours", "")
    );
    assert_eq!(found.figures[1].verdict, "unresolved", "20 % is within the noise");
}

#[test]
fn many_differences_must_survive_the_correction() {
    let mut ratios = [[1.2, 1.21, 1.19], [1.2, 1.22, 1.18], [1.25, 1.2, 1.2]].concat();
    ratios.push(1.2);
    let rows = |count: usize| -> Vec<(Row, &[f64])> {
        let mut weak = vec![(row(&["bare", "ours"], CPU), &ratios[..]); count];
        weak[0].0 = row(&["a", "b"], CPU);
        weak
    };
    // 2 / 2^10, times the number of figures.
    assert_eq!(findings(&rows(20)).figures[0].verdict, "costlier");
    let many = findings(&rows(60));
    assert!(many.figures.iter().all(|it| it.verdict == "unresolved"), "{:?}", many.figures[0]);
}

#[test]
fn other_metrics_have_their_own_values() {
    let asked = [(Metric::P99, Some(Goal::AtMost(0.6))), (Metric::ConnectionMemory, None)];
    let mut idle = row(&["epoll", "epoll+9"], &asked);
    idle.plan.parts[1].idle = 9;
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
    gone.plan.parts[0].arm.command = vec!["/no/such/nginx".to_string()];
    let why = gone.skip().expect("it is not there");
    assert!(why.contains("`/no/such/nginx`"), "{why}");
    let mut found = Findings::new(&table(vec![gone.clone()])).expect("this machine has /proc");
    found.skip(&gone, &why);
    found.conclude();
    assert!(!found.is_right(), "nothing was measured");
    let fair = row(&["bare", "ours"], CPU);
    found.take(&fair, &outcome(&fair, &EQUAL));
    assert!(found.is_right(), "a missing program is no fault");
    let mut broken = outcome(&fair, &[]);
    broken.pairings[0].failures.push("ours: no message".to_string());
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
