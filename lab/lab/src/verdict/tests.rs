//! Facts about verdicts: on given intervals, and on thousands of synthetic races.
//!
//! Synthetic races have a known truth: identical arms may get a winner in at most 5 % of the races,
//! and a planted slowdown must lie inside nine of ten intervals.

use super::*;
use crate::plan::Arm;
use crate::race::tests::{load, manifest, trial};
use crate::trial::Ending;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use stats::{Interval, Rng, Terms};

const FREE: Sides = Sides { arm: false, baseline: false };

fn terms(metric: Metric) -> Terms {
    Terms { better: metric.better(), floor: 0.0, margin: 0.03 }
}

fn comparison(low: f64, ratio: f64, high: f64) -> Comparison {
    let interval = Some(Interval { low, high, cover: 0.969 });
    Comparison { log_ratios: vec![0.0; 6], ratio, interval }
}

#[test]
fn intervals_become_words() {
    fn check(metric: Metric, (low, high): (f64, f64), floor: f64, want: &str) {
        let terms = Terms { better: metric.better(), floor, margin: 0.03 };
        let found = judge(metric, comparison(low, (low * high).sqrt(), high), terms, FREE);
        assert_eq!(found.word(), want, "{metric:?} [{low}, {high}] over {floor}");
    }
    check(Metric::Throughput, (1.10, 1.20), 0.02, "faster");
    check(Metric::Throughput, (0.80, 0.90), 0.02, "slower");
    check(Metric::Cpu, (1.10, 1.20), 0.02, "costlier");
    check(Metric::Cpu, (0.80, 0.90), 0.02, "cheaper");
    check(Metric::P50, (0.80, 0.90), 0.02, "faster");
    check(Metric::Throughput, (0.98, 1.02), 0.02, "equivalent");
    check(Metric::Throughput, (0.95, 1.02), 0.02, "unresolved");
    // The twin itself differs by 17 %: a difference of 15 % is none.
    check(Metric::Throughput, (1.10, 1.20), 0.16, "unresolved");
}

#[test]
fn a_busy_generator_leaves_only_bounds() {
    fn check(range: (f64, f64), arm: bool, baseline: bool, want: (&str, bool)) {
        let comparison = comparison(range.0, range.0, range.1);
        let sides = Sides { arm, baseline };
        let found = judge(Metric::Throughput, comparison, terms(Metric::Throughput), sides);
        assert_eq!((found.word(), found.at_least), want, "{range:?} {arm} {baseline}");
    }
    let (fast, slow, same) = ((1.1, 1.2), (0.8, 0.9), (0.99, 1.01));
    check(fast, true, false, ("faster", true));
    check(slow, false, true, ("slower", true));
    check(fast, false, true, ("generator-limited", false));
    check(slow, true, false, ("generator-limited", false));
    check(fast, true, true, ("generator-limited", false));
    check(same, true, false, ("generator-limited", false));
    check(fast, false, false, ("faster", false));
    let cpu = comparison(0.8, 0.85, 0.9);
    let found = judge(Metric::Cpu, cpu, terms(Metric::Cpu), Sides { arm: true, baseline: true });
    assert_eq!(found.decision, Decision::Better);
}

/// A race of `blocks` at one load point: baseline and twin alike, `uring` quicker by `effect`.
fn race(seed: u64, blocks: u32, effect: f64, spread: f64) -> Summary {
    analyse(&raced(seed, blocks, effect, spread))
}

fn raced(seed: u64, blocks: u32, effect: f64, spread: f64) -> Run {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut manifest = manifest();
    manifest.plan.points.truncate(1);
    manifest.plan.arms.truncate(2);
    manifest.plan.blocks = blocks;
    manifest.plan.seed = seed;
    let mut trials = Vec::new();
    for block in 0..blocks {
        // The machine drifts from block to block; all arms of one block share it.
        let drift = 1.0 + 0.3 * rng.random::<f64>();
        for arm in ["epoll", "uring", "epoll (twin)"] {
            let noise = (0..12).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
            let gain = if arm == "uring" { effect } else { 1.0 };
            trials.push(trial(arm, block, 50_000.0 * drift * gain * (spread * noise).exp()));
        }
    }
    Run { manifest, trials, ..Run::default() }
}

/// A race of identical arms except `uring`, at two load points, in the schedule's own order, on a
/// machine that slows down steadily, stalls now and then, and spreads log-normally.
fn drifting_race(seed: u64, blocks: u32, effect: f64) -> Summary {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut manifest = manifest();
    manifest.plan.blocks = blocks;
    manifest.plan.seed = seed;
    manifest.plan.label = crate::plan::Plan::label_for(blocks).to_string();
    manifest.plan.metrics = vec![Metric::Throughput, Metric::Cpu];
    let entrants = manifest.plan.entrants();
    let mut trials = Vec::new();
    for slot in crate::block::schedule(&manifest.plan) {
        let arm = &entrants[slot.entrant].name;
        let noise = (0..12).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
        let stumble = if rng.random::<f64>() < 0.05 { 0.6 } else { 1.0 };
        let gain = if arm == "uring" { effect } else { 1.0 };
        let drift = (-0.004 * f64::from(slot.order)).exp();
        let speed = 50_000.0 * gain * drift * stumble * (0.04 * noise).exp();
        let point = manifest.plan.points[slot.point].name.clone();
        let (order, swapped) = (slot.order, slot.swapped);
        trials.push(Trial { point, order, swapped, ..trial(arm, slot.block, speed) });
    }
    analyse(&Run { manifest, trials, ..Run::default() })
}

#[test]
fn races_of_identical_arms_seldom_have_any_winner_at_all() {
    for blocks in [6, 10, 12] {
        let winners = (0..1_000)
            .filter(|&seed| {
                let summary = drifting_race(seed, blocks, 1.0);
                let arms = summary.points.iter().flat_map(|point| &point.arms);
                let registered = arms.filter(|arm| !arm.twin).flat_map(|arm| &arm.judged);
                registered
                    .filter(|judged| judged.registered)
                    .any(|judged| judged.decision.is_difference())
            })
            .count();
        assert!(winners <= 50, "{winners} of 1000 races of {blocks} blocks had a winner");
    }
}

#[test]
fn a_planted_slowdown_is_held_on_a_drifting_machine_too() {
    let (mut held, mut wrong) = (0, 0);
    for seed in 0..200 {
        let summary = drifting_race(seed, 12, 0.9);
        let judged = summary.points[0].arms[1].judged(Metric::Throughput).expect("compared");
        let interval = judged.comparison.interval.expect("twelve blocks");
        held += usize::from(interval.low <= 0.9 && 0.9 <= interval.high);
        wrong += usize::from(judged.decision == Decision::Better);
    }
    assert!(held >= 180, "only {held} of 200 intervals hold the truth");
    assert_eq!(wrong, 0, "a slower arm was called faster");
}

#[test]
fn intervals_hold_for_all_comparisons_together() {
    let clear = race(3, 6, 1.3, 0.01);
    let judged = clear.points[0].arms[1].judged(Metric::Throughput).expect("compared");
    assert_eq!((clear.family, judged.decision), (2, Decision::Better));
    // A comparison without pre-registration is exploratory and outside the family.
    let other = clear.points[0].arms[1].judged(Metric::P50).expect("compared");
    assert!(!other.registered);
    // A small difference that is clear alone, next to twenty arms that are as far away by chance.
    let mut run = Run { manifest: manifest(), ..Run::default() };
    let plan = &mut run.manifest.plan;
    plan.points.truncate(1);
    let others = (0..20).map(|nth| Arm { name: format!("noisy {nth}"), ..Arm::default() });
    plan.arms = plan.arms.drain(..2).chain(others).collect();
    let (entrants, mut rng) = (plan.entrants(), Rng::new(4));
    for block in 0..8 {
        for arm in &entrants {
            let (gain, noise) = match arm.name.as_str() {
                "epoll" | "epoll (twin)" => (1.0, 0.001),
                "uring" => (1.1, 0.001),
                _ => (1.0, 1.5),
            };
            let speed = 1e5 * gain * (1.0 + noise * (rng.unit() - 0.5));
            run.trials.push(trial(&arm.name, block, speed));
        }
    }
    let weak = analyse(&run);
    let judged = weak.points[0].arms[1].judged(Metric::Throughput).expect("compared");
    let alone = Comparison::of(judged.comparison.log_ratios.clone()).expect("eight blocks");
    assert!(alone.interval.is_some_and(|it| it.low > 1.0), "{alone:?}");
    assert!(judged.comparison.interval.is_some_and(|it| it.low < 1.0), "{judged:?}");
    assert_eq!(judged.decision, Decision::Open);
}

/// Whatever a record holds, no output says what another denies.
#[test]
fn gates_and_words_agree_on_random_records() {
    let mut differences = 0;
    for seed in 0..300 {
        let (effect, blocks) = (1.0 + (seed % 7) as f64 / 50.0, 6 + (seed % 11) as u32);
        let run = raced(seed, blocks, effect, 0.02 + (seed % 3) as f64 / 50.0);
        let summary = analyse(&run);
        for judged in summary.points[0].arms.iter().filter(|it| !it.twin).flat_map(|it| &it.judged)
        {
            let key = judged.metric.key();
            let (above, below) =
                (format!("uring {key} > 1x epoll"), format!("uring {key} < 1x epoll"));
            let fails = |text: &str| {
                let condition: crate::condition::Condition = text.parse().expect("a condition");
                condition.ask(&run).expect("its arms")[0].decision == Some(Decision::Worse)
            };
            let interval = judged.comparison.interval.expect("six blocks or more");
            let holds_1 = interval.low <= 1.0 && 1.0 <= interval.high;
            let is_gated = fails(&above) || fails(&below);
            differences += usize::from(judged.decision.is_difference());
            assert!(!(holds_1 && judged.decision.is_difference()), "{judged:?}");
            // Beyond 1, but equal within the margin, is the one difference that a gate may see.
            let is_told = judged.decision.is_difference() || judged.decision == Decision::Equal;
            assert!(!is_gated || is_told, "{judged:?}");
            assert!(is_gated || !judged.decision.is_difference(), "{judged:?}");
        }
    }
    assert!(differences > 100, "{differences} differences");
}

#[test]
fn the_summary_speaks_plainly() {
    let summary = race(1, 6, 1.5, 0.01);
    // Both differences are as large as each other, so either may come first.
    let check = |sentence: &str, want: &[&str]| {
        assert!(sentence.starts_with("`uring` ") && sentence.ends_with('.'), "{sentence}");
        want.iter().for_each(|it| assert!(sentence.contains(it), "`{it}` in {sentence}"));
    };
    check(
        &summary.sentence,
        &[" more requests per second", " less CPU time per request", " than `epoll`; "],
    );
    let cpu = summary.points[0].arms[1].judged(Metric::Cpu).expect("uring was compared");
    assert_eq!(cpu.decision, Decision::Better);
    let half = race(1, 8, 0.45, 0.01).sentence;
    check(&half, &["2.2", " times [", " the CPU time per request", " fewer requests per second"]);
    // Further differences need no verb: "; 33 % [33, 34] less CPU time per request".
    let second = summary.sentence.split("; ").nth(1).unwrap_or_default();
    assert!(second.starts_with("33 % [3") || second.starts_with("50 % ["), "{second}");
    let same = race(1, 12, 1.0, 0.001).sentence;
    assert_eq!(same, "CPU per request and requests/s are equal within 3 %.");
    let few = race(1, 3, 1.5, 0.01);
    let judged = few.points[0].arms[1].judged(Metric::Throughput).expect("compared");
    assert_eq!((judged.decision, judged.forecast), (Decision::Open, Some(6)));
    assert!(few.sentence.starts_with("No answer yet"), "{}", few.sentence);
    assert_eq!(few.points[0].floors, []);
}

#[test]
fn wrong_books_are_loud_and_absent_arms_have_a_reason() {
    let mut manifest = manifest();
    manifest.plan.points.truncate(1);
    let mut bad = trial("epoll", 0, 100.0);
    let check = load(&mut bad).check.as_mut().expect("the sample has one");
    (check.ok, check.detail) = (false, "stock 3: expected 10, found 9".to_string());
    let mut absent = trial("uring", 0, 100.0);
    absent.ending = Ending::Unavailable { reason: "io_uring is disabled".to_string() };
    let trials = vec![trial("epoll", 0, 100.0), absent.clone()];
    let alone = analyse(&Run { manifest: manifest.clone(), trials, ..Run::default() });
    assert_eq!(alone.sentence, "`uring` could not be measured: io_uring is disabled.");
    let summary = analyse(&Run { manifest, trials: vec![bad, absent], ..Run::default() });
    assert_eq!(summary.broken.len(), 1);
    assert!(summary.broken[0].contains("epoll, depth 1, block 1: the model check failed: stock 3"));
    let arms = &summary.points[0].arms;
    assert_eq!(arms[0].light(), Light::Red);
    assert_eq!(arms[1].absent.as_deref(), Some("io_uring is disabled"));
    assert!(summary.sentence.starts_with("Wrong answers were seen"), "{}", summary.sentence);
}

#[test]
fn a_server_that_dies_is_named_once_with_its_last_words() {
    let mut manifest = manifest();
    manifest.plan.points.truncate(1);
    let dead = |block| {
        let mut dead = trial("uring", block, 100.0);
        let load = load(&mut dead);
        (load.requests, load.requests_total) = (2_000, 3_000);
        load.errors = vec![crate::load::Fault {
            kind: "refused".to_string(),
            count: 40,
            example: String::new(),
        }];
        dead.exit = Some("died during the block (exit 3): panic: out of cheese".to_string());
        dead
    };
    let summary = analyse(&Run { manifest, trials: vec![dead(0), dead(1)], ..Run::default() });
    let want = "uring, depth 1, block 1: it died after 3000 replies (exit 3): panic: out of \
                cheese; wrong in 1 more block";
    assert_eq!(summary.broken, [want]);
}
