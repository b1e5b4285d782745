use super::*;
use crate::plan::tests::plan as small;
use crate::plan::{Arm, Turns};
use crate::race::tests::trial;
use stats::Rng;

/// A plan of `arms` arms a, b, c, … that take turns at one load point; `a` is the baseline.
fn plan(arms: u8) -> Plan {
    let arm = |nth: u8| Arm { name: char::from(b'a' + nth).to_string(), ..Arm::default() };
    let mut plan = small();
    plan.arms = (0..arms).map(arm).collect();
    plan.baseline = "a".to_string();
    plan.points.truncate(1);
    plan.turns = Turns { budget_ms: Some(1), ..Turns::default() };
    plan.metrics = vec![Metric::Cpu];
    plan
}

/// Trials of `blocks` blocks: the cost of arm n is `costs[n]`, with a spread of 2 % a trial and a
/// disturbance of 10 % that all trials of a block share.
fn trials(plan: &Plan, blocks: u32, costs: &[f64], rng: &mut Rng) -> Vec<Trial> {
    let mut noise = |share: f64| 1.0 + share * (rng.unit() + rng.unit() + rng.unit() - 1.5);
    let mut found = Vec::new();
    for block in 0..blocks {
        let shared = noise(0.1);
        for (arm, cost) in plan.entrants().iter().zip(costs) {
            found.push(trial(&arm.name, block, 1e9 / (cost * shared * noise(0.04))));
        }
    }
    found
}

/// The cheapest arms of a race.
fn cheapest(plan: &Plan, blocks: u32, costs: &[f64], rng: &mut Rng) -> Vec<String> {
    let mut all = trials(plan, blocks, costs, rng);
    let gone = leaving(plan, &all, blocks);
    all.retain(|it| it.block < CLEAR_BLOCKS || !gone.contains(&it.arm));
    let found = cost(&RaceEvidence::of(plan, &all), &all, "depth 1");
    found.cheapest().map(|rank| rank.arm.clone()).collect()
}

#[test]
fn equal_arms_have_no_winner() {
    // 1,000 races of eight equal arms and the twin.
    let plan = plan(8);
    let mut rng = Rng::new(7);
    let wrong = (0..1_000).filter(|_| cheapest(&plan, 14, &[1e4; 9], &mut rng).len() < 8).count();
    assert!(wrong <= 50, "{wrong} of 1000 races of equal arms excluded one");
}

#[test]
fn five_percent_are_found() {
    let plan = plan(8);
    let mut rng = Rng::new(8);
    let mut costs = [1.05e4; 9];
    costs[2] = 1e4;
    let found = (0..50).filter(|_| cheapest(&plan, 10, &costs, &mut rng) == ["c"]).count();
    assert!(found >= 45, "{found} of 50 races found the arm that is 5 % cheaper");
}

#[test]
fn clearly_costlier_arms_leave_after_the_first_blocks() {
    let plan = plan(4);
    let mut rng = Rng::new(9);
    let mut all = trials(&plan, CLEAR_BLOCKS, &[1e4, 1e4, 2e4, 1.5e4, 1e4], &mut rng);
    assert_eq!(leaving(&plan, &all, CLEAR_BLOCKS - 1), Vec::<String>::new());
    assert_eq!(leaving(&plan, &all, CLEAR_BLOCKS), ["c", "d"]);
    // A race that has more blocks has the same field.
    let more = trials(&plan, CLEAR_BLOCKS + 4, &[9e4; 5], &mut rng);
    all.extend(more.into_iter().filter(|it| it.block >= CLEAR_BLOCKS));
    assert_eq!(leaving(&plan, &all, CLEAR_BLOCKS + 4), ["c", "d"]);
    // One disturbed block of the twin changes nothing; a twin that strays as far keeps them in.
    let twin = |it: &&mut Trial| it.arm.contains("twin");
    for trial in all.iter_mut().filter(twin).take(1) {
        *trial = crate::race::tests::trial(&trial.arm.clone(), 0, 1e9 / 4e4);
    }
    assert_eq!(leaving(&plan, &all, CLEAR_BLOCKS), ["c", "d"]);
    for trial in all.iter_mut().filter(twin).filter(|it| it.block < 4) {
        *trial = crate::race::tests::trial(&trial.arm.clone(), trial.block, 1e9 / 4e4);
    }
    assert_eq!(leaving(&plan, &all, CLEAR_BLOCKS), Vec::<String>::new());
    for trial in all.iter_mut().filter(|it| it.arm == "b" && it.block < 2) {
        trial.ending = Ending::Failed { reason: "it stalls".to_string() };
    }
    assert_eq!(leaving(&plan, &all, 1), Vec::<String>::new());
    assert_eq!(leaving(&plan, &all, 2), ["b"]);
}

#[test]
fn equal_arms_settle_a_race() {
    let plan = plan(2);
    let mut all = trials(&plan, 8, &[1e4, 1e4, 1e4], &mut Rng::new(11));
    for trial in &mut all {
        *trial = crate::race::tests::trial(&trial.arm.clone(), trial.block, 1e5);
    }
    assert!(is_settled(&plan, &all));
    let all = trials(&plan, 8, &[1e4, 1.1e4, 1e4], &mut Rng::new(11));
    assert!(!is_settled(&plan, &all) && !is_settled(&plan, &[]));
}

#[test]
fn the_answer_has_ranks_and_rooms() {
    let plan = plan(3);
    let mut all = trials(&plan, 16, &[1e4, 0.8e4, 3e4, 1e4], &mut Rng::new(10));
    for trial in all.iter_mut().filter(|it| it.block < 6 && !it.arm.contains("twin")) {
        let answered = if trial.arm == "c" { 4 } else { 100 };
        trial.seen.idle = Some(crate::observations::Idle {
            wanted: 100,
            opened: 100,
            answered: Some(answered),
            bytes_each: (answered == 100).then_some(900.0 + f64::from(trial.block)),
            ..Default::default()
        });
    }
    let run = crate::record::Run {
        manifest: crate::record::Manifest { plan, ..Default::default() },
        trials: all,
        ..Default::default()
    };
    let summary = super::super::analyse(&run);
    let found = summary.answer;
    let ranks = &found.costs[0].ranks;
    let names: Vec<(&str, bool)> = ranks.iter().map(|it| (&it.arm[..], it.costlier)).collect();
    assert_eq!(names, [("b", false), ("a", true), ("c", true)]);
    let (ratio, low, high) = ranks[2].over_baseline;
    assert!((2.9..3.1).contains(&ratio) && low < ratio && ratio < high, "{ranks:?}");
    assert_eq!(found.rooms[0].bytes_each, Some(902.5));
    assert_eq!((found.rooms[2].answered, found.rooms[2].bytes_each), (4.0, None));
    assert!(
        summary.sentence.starts_with("`b` uses the least CPU time per request: "),
        "{}",
        summary.sentence
    );
    let mut tie = found.clone();
    tie.costs[0].ranks[1].costlier = false;
    let sentence = super::super::sentence::sentence(&run.manifest.plan, &summary.points, &tie, &[]);
    let want = ". Of the cheapest `a` uses the least memory: 902 B per idle connection";
    assert!(
        sentence.starts_with("`b` and `a` use the least CPU time per request, ")
            && sentence.contains(want),
        "{sentence}"
    );
}
