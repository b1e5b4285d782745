//! The tuner beside others, on a recorded grid: how far the chosen candidate is from the best.

use crate::grid::Grid;
use crate::search::{Advice, Heats, SearchTerms, Stage, search};
use crate::space::{Candidate, Facts, Space};
use stats::{Rng, median};

/// The tuners that are compared; the first is ours.
pub const RIVALS: [&str; 6] =
    ["roundhouse", "default", "formula", "random", "hill climbing", "successive halving"];

/// The result of a tuner over many replays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// The tuner.
    pub name: &'static str,
    /// Regret: the value of the choice over that of the best candidate, less 1 ([`Grid::values`]).
    /// The median.
    pub regret: f64,
    /// Its 90th percentile.
    pub regret_p90: f64,
    /// The share of replays in which the choice was at most 2 % worse than the default.
    pub never_worse: f64,
    /// The share of pairs of replays whose choices are within 5 % of each other.
    pub agreement: f64,
    /// The share of replays whose regret is at most 10 %.
    pub near: f64,
    /// Heats of a replay: the median.
    pub heats: f64,
}

/// Replays a tuner with `seeds` seeds and a budget of `heats` heats each; `None` for a grid in
/// which no candidate ran.
pub fn judge(
    name: &'static str,
    grid: &Grid,
    terms: &SearchTerms,
    seeds: u64,
    heats: usize,
) -> Option<Scores> {
    let values = grid.values(terms.margin);
    let best = values.values().copied().min_by(f64::total_cmp)?;
    let default = values.get(&grid.rows[0].candidate).copied().unwrap_or(best);
    let runs: Vec<(f64, f64)> = (0..seeds)
        .map(|seed| {
            let (choice, used) = choose(name, grid, terms, seed, heats);
            (values.get(&choice).copied().unwrap_or(f64::MAX), used as f64)
        })
        .collect();
    let mut regrets: Vec<f64> = runs.iter().map(|run| run.0 / best - 1.0).collect();
    regrets.sort_by(f64::total_cmp);
    let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
    let sound = runs.iter().filter(|run| run.0 <= 1.02 * default).count();
    let near = regrets.iter().filter(|regret| **regret <= 0.1).count();
    let pairs: Vec<&[(f64, f64)]> = runs.chunks_exact(2).collect();
    let agree = pairs.iter().filter(|it| (it[0].0 / it[1].0).ln().abs() <= 0.05).count();
    Some(Scores {
        name,
        regret: median(&regrets)?,
        regret_p90: regrets.get(regrets.len() * 9 / 10).copied()?,
        never_worse: share(sound, runs.len()),
        agreement: share(agree, pairs.len()),
        near: share(near, runs.len()),
        heats: median(&runs.iter().map(|run| run.1).collect::<Vec<_>>())?,
    })
}

/// The fewest heats with which the median regret of a tuner is at most 5 %, of budgets that double
/// from a 64th of the grid; `None` if the whole grid is not enough.
pub fn heats_to_near(
    name: &'static str,
    grid: &Grid,
    terms: &SearchTerms,
    seeds: u64,
) -> Option<f64> {
    let whole = grid.rows.len() * grid.blocks();
    (0..=6).rev().find_map(|halvings| {
        let scores = judge(name, grid, terms, seeds, (whole >> halvings).max(1))?;
        (scores.regret <= 0.05).then_some(scores.heats)
    })
}

/// The choice of a tuner, and the heats that it took.
fn choose(
    name: &str,
    grid: &Grid,
    terms: &SearchTerms,
    seed: u64,
    budget: usize,
) -> (Candidate, usize) {
    let facts = grid.bounds();
    let all: Vec<Candidate> = grid.rows.iter().map(|row| row.candidate.clone()).collect();
    let mut replay = grid.replay(seed, budget);
    let mut rng = Rng::new(seed);
    let shuffled = |rng: &mut Rng| -> Vec<Candidate> {
        rng.order(all.len()).into_iter().map(|at| all[at].clone()).collect()
    };
    let choice = match name {
        "roundhouse" => {
            let found = search(&Space::engines(&facts), &facts, terms, &mut replay);
            found.map_or_else(|| all[0].clone(), |found| found.choice)
        }
        "formula" => formula(&facts, &all),
        "random" => best_of(&shuffled(&mut rng), terms, &mut replay, budget),
        "hill climbing" => climb(grid, terms, &mut rng, &mut replay, budget),
        "successive halving" => halve(&shuffled(&mut rng), terms, &mut replay, budget),
        _ => all[0].clone(),
    };
    (choice, replay.heats)
}

/// Workers by the rule of gunicorn's manual, 2 n + 1, for the architecture of its time.
fn formula(facts: &Facts, all: &[Candidate]) -> Candidate {
    let wanted = (2 * facts.cores + 1) as f64;
    let workers = |it: &Candidate| -> Option<f64> {
        it.settings.iter().find(|it| it.0 == "workers").and_then(|it| it.1.parse().ok())
    };
    let prefork = all.iter().filter(|it| it.server == "prefork" && workers(it).is_some());
    let distance = |it: &&Candidate| workers(it).map_or(f64::MAX, |it| (it - wanted).abs());
    let nearest = prefork.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(&all[0]).clone()
}

/// The value of one heat; a miss counts as in [`Grid::values`].
fn value(terms: &SearchTerms, replay: &mut impl Heats, block: u32, candidate: &Candidate) -> f64 {
    let heats = replay.block(Stage::Screen, block, 1.0, std::slice::from_ref(candidate));
    let Some(heat) = heats.and_then(|mut heats| heats.pop()) else { return f64::MAX };
    let missed = (terms.objective - heat.share()).max(0.0);
    heat.cpu_ns.map_or(f64::MAX, |ns| ns * (1.0 + 10.0 * missed))
}

/// One unpaired heat of each candidate until the budget is used up; the best value wins.
fn best_of(
    some: &[Candidate],
    terms: &SearchTerms,
    replay: &mut impl Heats,
    budget: usize,
) -> Candidate {
    let tried = some.iter().take(budget);
    let values: Vec<(f64, &Candidate)> =
        tried.map(|candidate| (value(terms, replay, 0, candidate), candidate)).collect();
    let best = values.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(|| some[0].clone(), |best| best.1.clone())
}

/// Steps to a better neighbour, with three unpaired heats each, and restarts at random (after Liu,
/// Sha, Diao, Hellerstein, *Online response time optimization of Apache web server*, 2003).
fn climb(
    grid: &Grid,
    terms: &SearchTerms,
    rng: &mut Rng,
    replay: &mut impl Heats,
    budget: usize,
) -> Candidate {
    let facts = grid.bounds();
    let space = Space::engines(&facts);
    let three = |replay: &mut dyn FnMut(u32) -> f64| (0..3).map(replay).sum::<f64>() / 3.0;
    let mut used = 0;
    let mut best: Option<(f64, Candidate)> = None;
    let mut here = grid.rows[0].candidate.clone();
    while used + 3 <= budget {
        let mut now = three(&mut |block| value(terms, replay, block, &here));
        used += 3;
        loop {
            let mut near = space.neighbours(&here);
            near.retain(|candidate| replay.has(candidate));
            rng.shuffle(&mut near);
            let mut moved = false;
            for candidate in near {
                if used + 3 > budget {
                    break;
                }
                used += 3;
                let there = three(&mut |block| value(terms, replay, block, &candidate));
                if there < now {
                    (here, now, moved) = (candidate, there, true);
                    break;
                }
            }
            if !moved {
                break;
            }
        }
        if best.as_ref().is_none_or(|best| now < best.0) {
            best = Some((now, here.clone()));
        }
        here = grid.rows[rng.below(grid.rows.len())].candidate.clone();
    }
    best.map_or_else(|| grid.rows[0].candidate.clone(), |best| best.1)
}

/// Keeps the better third after each round, with unpaired heats (Jamieson, Talwalkar,
/// *Non-stochastic best arm identification*, 2016). It begins with as many of `some` as have a heat
/// each in the first round's part of the budget.
fn halve(
    some: &[Candidate],
    terms: &SearchTerms,
    replay: &mut impl Heats,
    budget: usize,
) -> Candidate {
    let rounds = |count: usize| (count as f64).log(3.0).ceil().max(1.0) as usize;
    let fits = |count: &usize| count * rounds(*count) <= budget;
    let count = (1..=some.len()).rev().find(fits).unwrap_or(1);
    let (mut alive, rounds) = (some[..count].to_vec(), rounds(count));
    for _ in 0..rounds {
        let each = (budget / rounds / alive.len()).max(1) as u32;
        let mut values: Vec<(f64, Candidate)> = alive
            .iter()
            .map(|candidate| {
                let sum: f64 = (0..each).map(|at| value(terms, replay, at, candidate)).sum();
                (sum, candidate.clone())
            })
            .collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values.truncate(alive.len().div_ceil(3));
        alive = values.into_iter().map(|it| it.1).collect();
    }
    alive.swap_remove(0)
}

/// The share of replays on grids of equal candidates in which a winner is declared.
pub fn false_winners(grid: &Grid, terms: &SearchTerms, seeds: u64, heats: usize) -> f64 {
    let (facts, space) = (grid.bounds(), Space::engines(&grid.bounds()));
    let wins = (0..seeds).filter(|seed| {
        let found = search(&space, &facts, terms, &mut grid.replay_alike(*seed, heats));
        found.is_some_and(|found| found.verdict != Advice::Keep)
    });
    wins.count() as f64 / seeds.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Heat;
    use crate::grid::RecordedHeats;

    /// A grid of ten blocks in which `uring` costs a fifth less than the others, `prefork` misses
    /// the objective, and a heat varies by 4 %.
    fn grid() -> Grid {
        let facts = Facts { cores: 1, connections: 8, in_flight: 1.0, ..Facts::default() };
        let space = Space::engines(&facts);
        let mut grid = Grid::new("a page", &space, &facts, (0.99, 500.0));
        let mut rng = Rng::new(11);
        let disturbances: Vec<f64> = (0..10).map(|_| 1.0 + 0.3 * rng.unit()).collect();
        let mut row = |candidate: Candidate| {
            let server = candidate.server.as_str();
            let cost = if server == "uring" { 80.0 } else { 100.0 };
            let attained = if server == "prefork" { 500 } else { 1_000 };
            let mut heat = |disturbance: &f64| Heat {
                offered: 1_000,
                attained,
                cpu_ns: Some(cost * disturbance * (1.0 + 0.04 * (rng.unit() - 0.5))),
                threads: Some(1),
                ..Heat::default()
            };
            RecordedHeats { candidate, heats: disturbances.iter().map(&mut heat).collect() }
        };
        grid.rows = space.grid(&facts).into_iter().map(&mut row).collect();
        grid
    }

    #[test]
    fn the_tuner_finds_the_cheapest_of_a_grid_and_no_winner_among_equals() {
        let (grid, terms) = (grid(), SearchTerms { loads: vec![1.0], ..SearchTerms::quick(0.99) });
        let of = |name| judge(name, &grid, &terms, 40, 300).expect("a tuner");
        let (ours, default, formula) = (of(RIVALS[0]), of("default"), of("formula"));
        assert!(ours.regret_p90 < 0.05 && ours.never_worse == 1.0, "{ours:#?}");
        assert!(ours.agreement > 0.9 && ours.near > 0.9 && ours.heats <= 400.0, "{ours:#?}");
        assert!((0.2..0.4).contains(&default.regret), "{default:#?}");
        assert!(formula.regret > 1.0 && formula.never_worse == 0.0, "{formula:#?}");
        let heats = |name| heats_to_near(name, &grid, &terms, 20);
        assert!(heats(RIVALS[0]).is_some_and(|it| it < 400.0));
        assert_eq!(heats("default"), None, "a fifth too dear");
        let wrong = false_winners(&grid, &terms, 1_000, 300);
        assert!(wrong <= 0.05, "{wrong}");
    }

    /// The kept grids of `runs/`: no timing is involved, so what they say is exact.
    #[test]
    fn kept_grids_are_searched_as_well_as_docs_say() {
        let runs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs/2026-11-26-2cpu-amd-epyc/tune");
        let files = std::fs::read_dir(runs).expect("the repository's runs");
        let paths = files.map(|file| file.expect("a file").path());
        let grids: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|it| it == "gz")).collect();
        assert_eq!(grids.len(), 6, "{grids:?}");
        for path in grids {
            let grid = Grid::read(&path).expect("a grid");
            let terms = SearchTerms { loads: vec![1.0], ..SearchTerms::quick(grid.objective) };
            let heats = grid.rows.len() * grid.blocks() / 5;
            let ours = judge(RIVALS[0], &grid, &terms, 40, heats).expect("a tuner");
            assert!(ours.regret <= 0.05 && ours.regret_p90 <= 0.1, "{grid}: {ours:?}");
            assert!(ours.never_worse >= 0.95 && ours.agreement >= 0.9, "{grid}: {ours:?}");
            let wrong = false_winners(&grid, &terms, 100, heats);
            assert!(wrong <= 0.05, "{grid}: {wrong}");
        }
    }

    #[test]
    fn a_grid_is_read_as_it_was_written_and_a_part_of_one_is_refused() {
        let path = std::env::temp_dir().join(format!("grid-{}.gz", std::process::id()));
        let mut grid = grid();
        let mut empty = grid.clone();
        empty.rows.iter_mut().for_each(|row| row.heats.clear());
        assert!(empty.is_like(&grid) && !Grid { rate: 7.0, ..empty.clone() }.is_like(&grid));
        for blocks in 1..=2 {
            empty.add_block(&mut grid.replay(1, 1)).expect("not stopped");
            assert_eq!(empty.blocks(), blocks);
        }
        grid.write(&path).expect("written");
        assert_eq!(Grid::read(&path).expect("a grid"), grid);
        grid.rows[1].heats.pop();
        grid.write(&path).expect("written");
        let why = Grid::read(&path).expect_err("a part").to_string();
        assert!(why.contains("as many heats"), "{why}");
        std::fs::remove_file(&path).expect("it is there");
    }
}
