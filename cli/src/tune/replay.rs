//! `roundhouse tune --replay`: tuners beside each other on recorded grids.

use super::QUICK;
use ::tune::{Grid, RIVALS, Scores, SearchTerms, false_winners, heats_to_near, judge};
use anyhow::Result;
use language::println;
use pages::terminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Replays of each tuner.
const SEEDS: u64 = 200;
/// Replays on grids of equal candidates.
const ALIKE: u64 = 1_000;
/// The budget of a replay as a share of the recorded grid.
const SHARE: f64 = 0.2;

/// Prints two tables for each grid: the tuners, and our targets.
pub fn run(files: &[PathBuf]) -> Result<ExitCode> {
    for file in files {
        let grid = Grid::read(file)?;
        let whole = grid.rows.len() * grid.blocks();
        let budget = (SHARE * whole as f64) as usize;
        let terms = SearchTerms { loads: vec![1.0], ..SearchTerms::quick(grid.objective) };
        println!("{grid}; replays of {budget} heats, a fifth of the grid");
        let ((alike, told), all) = (grid.resolution(terms.margin), grid.rows.len());
        let told = percent(told);
        println!("costs are told apart from {told} on; {alike} of {all} candidates are the best");
        let of = |name| judge(name, &grid, &terms, SEEDS, budget);
        let scores: Vec<Scores> = RIVALS.into_iter().filter_map(of).collect();
        let mut table = terminal::ruled();
        let heads = ["tuner", "regret", "p90", "never worse", "agreement", "heats"];
        table.set_header(heads);
        for it in &scores {
            let shares = [it.regret, it.regret_p90, it.never_worse, it.agreement].map(percent);
            let cells = [it.name.to_string()].into_iter().chain(shares);
            table.add_row(cells.chain([format!("{:.0}", it.heats)]));
        }
        println!("{table}");
        let Some(ours) = scores.first() else { continue };
        let mut table = terminal::ruled();
        table.set_header(["target", "found", "wanted", "kept"]);
        table.add_rows(targets(&grid, &terms, ours, budget));
        println!("{table}\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Our targets on a grid: the name, what was found and wanted, whether it is kept.
fn targets(grid: &Grid, terms: &SearchTerms, ours: &Scores, budget: usize) -> Vec<[String; 4]> {
    let quick = (QUICK.as_secs_f64() / grid.heat_s.max(0.01)) as usize;
    let near = judge(RIVALS[0], grid, terms, SEEDS, quick).map_or(0.0, |it| it.near);
    let wrong = false_winners(grid, terms, ALIKE, budget);
    let [mine, random] = [RIVALS[0], "random"].map(|it| heats_to_near(it, grid, terms, SEEDS));
    let shown = |heats: Option<f64>| heats.map_or("never".to_string(), |it| format!("{it:.0}"));
    let is_sooner = mine.is_some_and(|mine| random.is_none_or(|random| random >= 2.0 * mine));
    let Scores { regret, regret_p90, never_worse, agreement, .. } = *ours;
    let row = |name: &str, found: String, wanted: &str, kept: bool| {
        [name, &found, wanted, if kept { "yes" } else { "no" }].map(String::from)
    };
    let least = |name, share, bound: f64| {
        row(name, percent(share), &format!("at least {:.0} %", 100.0 * bound), share >= bound)
    };
    let regrets = format!("{}, {}", percent(regret), percent(regret_p90));
    let is_small = regret <= 0.05 && regret_p90 <= 0.1;
    let heats = format!("{}, {}", shown(mine), shown(random));
    vec![
        row("T1 regret: median, p90", regrets, "at most 5 %, 10 %", is_small),
        least("T2 --quick within 10 % of the best", near, 0.8),
        least("T3 never worse than the default", never_worse, 0.95),
        row("T4 winners among equals", percent(wrong), "at most 5 %", wrong <= 0.05),
        least("T5 two searches within 5 %", agreement, 0.9),
        row("T6 heats to 5 %: ours, random", heats, "at most half", is_sooner),
    ]
}
