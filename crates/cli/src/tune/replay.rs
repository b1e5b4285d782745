//! `roundhouse tune --replay`: tuners beside each other on recorded grids.

use ::tune::{Grid, SearchTerms, false_winners, judge};
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

/// Prints a table for each grid.
pub fn run(files: &[PathBuf]) -> Result<ExitCode> {
    for file in files {
        let grid = Grid::read(file)?;
        let whole = grid.rows.len() * grid.blocks() * grid.loads.len();
        let budget = (SHARE * whole as f64) as usize;
        let terms = SearchTerms { loads: grid.loads.clone(), ..SearchTerms::quick(grid.objective) };
        println!("{grid}; replays of {budget} heats, a fifth of the grid");
        let mut table = terminal::ruled();
        let heads = ["tuner", "regret", "p90", "never worse", "agreement", "heats"];
        table.set_header(heads);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        for it in judge(&grid, &terms, SEEDS, budget) {
            let shares = [it.regret, it.regret_p90, it.never_worse, it.agreement].map(percent);
            let cells = [it.name.to_string()].into_iter().chain(shares);
            table.add_row(cells.chain([format!("{:.0}", it.heats)]));
        }
        println!("{table}");
        let wrong = false_winners(&grid, &terms, ALIKE, budget);
        println!("winners among equal candidates: {}\n", percent(wrong));
    }
    Ok(ExitCode::SUCCESS)
}
