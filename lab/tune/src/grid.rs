//! A recorded grid: the heats of all candidates of a workload, and searches that replay them.
//!
//! A search on a machine takes minutes; thousands of them on a grid take seconds, and no timing is
//! involved. Each block of a replay is a recorded block, drawn at random and the same for all
//! candidates, so what they had in common stays in common.

use crate::field::{Field, Heat, Runner};
use crate::search::{Heats, Stage};
use crate::space::{Candidate, Facts, Space};
use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use stats::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// The schema of a grid file.
const SCHEMA: &str = "roundhouse.grid/1";

/// One recorded candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedHeats {
    /// The candidate.
    pub candidate: Candidate,
    /// Its heats, one a block.
    pub heats: Vec<Heat>,
}

/// The heats of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// `roundhouse.grid/1`.
    pub schema: String,
    /// The workload.
    pub workload: String,
    /// Machine, date, commit and command.
    pub facts: Vec<(String, String)>,
    /// Numbers that bound the space: cores, connections, silent connections.
    pub size: (usize, usize, usize),
    /// Requests in flight.
    pub in_flight: f64,
    /// The workload's rate, requests a second.
    pub rate: f64,
    /// The share of requests that must be answered in time.
    pub objective: f64,
    /// The time of one heat, seconds.
    pub heat_s: f64,
    /// The candidates, the default first.
    pub rows: Vec<RecordedHeats>,
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, blocks, objective) = (self.rows.len(), self.blocks(), 100.0 * self.objective);
        write!(f, "{}, {rows} candidates, {blocks} blocks; ", self.workload)?;
        write!(f, "{:.0} requests a second, {objective} % in time, ", self.rate)?;
        write!(f, "{:.2} s a heat", self.heat_s)
    }
}

impl Grid {
    /// A grid without heats, of every candidate of the grid of `space`.
    pub fn new(
        workload: &str,
        space: &Space,
        facts: &Facts,
        (objective, rate): (f64, f64),
    ) -> Grid {
        let row = |candidate| RecordedHeats { candidate, heats: Vec::new() };
        Grid {
            schema: SCHEMA.to_string(),
            workload: workload.to_string(),
            facts: Vec::new(),
            size: (facts.cores, facts.connections, facts.silent),
            in_flight: facts.in_flight,
            rate,
            objective,
            heat_s: 0.0,
            rows: space.grid(facts).into_iter().map(row).collect(),
        }
    }

    /// Whether the heats of `other` belong into this grid.
    pub fn is_like(&self, other: &Grid) -> bool {
        let key = |it: &Grid| {
            let rows = it.rows.iter().map(|row| row.candidate.clone());
            let rates = [it.rate, it.objective].map(f64::to_bits);
            (it.workload.clone(), it.size, rates, rows.collect::<Vec<_>>())
        };
        key(self) == key(other)
    }

    /// Records one block more: every candidate once. `None` if it was stopped.
    pub fn add_block(&mut self, heats: &mut dyn Heats) -> Option<()> {
        let (block, begun) = (self.blocks(), Instant::now());
        let all: Vec<Candidate> = self.rows.iter().map(|row| row.candidate.clone()).collect();
        let found = heats.block(Stage::Screen, block as u32, 1.0, &all)?;
        self.rows.iter_mut().zip(found).for_each(|(row, heat)| row.heats.push(heat));
        let took_s = begun.elapsed().as_secs_f64() / all.len().max(1) as f64;
        self.heat_s += (took_s - self.heat_s) / (block + 1) as f64;
        Some(())
    }

    /// Reads a grid file.
    ///
    /// # Errors
    /// The file cannot be read or is no grid.
    pub fn read(path: &Path) -> Result<Grid> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let grid: Grid = serde_json::from_reader(GzDecoder::new(file))
            .with_context(|| format!("{} is no recorded grid", path.display()))?;
        ensure!(
            grid.schema == SCHEMA,
            "{}: expected schema `{SCHEMA}`, found `{}`",
            path.display(),
            grid.schema
        );
        let blocks = grid.blocks();
        ensure!(
            blocks > 0 && grid.rows.iter().all(|row| row.heats.len() == blocks),
            "{}: expected as many heats of every candidate",
            path.display()
        );
        Ok(grid)
    }

    /// Writes a grid file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut packed = GzEncoder::new(file, Compression::best());
        serde_json::to_writer(&mut packed, self)?;
        packed.finish().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }

    /// Recorded blocks.
    pub fn blocks(&self) -> usize {
        self.rows.first().map_or(0, |row| row.heats.len())
    }

    /// The numbers that bound the space.
    pub fn bounds(&self) -> Facts {
        let (cores, connections, silent) = self.size;
        Facts { cores, connections, silent, in_flight: self.in_flight, churns: false }
    }

    /// The true value of each candidate that ran: its cost at the workload's rate relative to the
    /// blocks, times 1 + 10 m if it misses the objective by the share m. Costs within `margin` of
    /// the least, and those that the whole grid cannot tell from it, are one value, their mean:
    /// the least of many equal costs is the one with the luckiest heats.
    pub fn values(&self, margin: f64) -> BTreeMap<Candidate, f64> {
        let field = Field::recorded(&self.rows);
        let effects = field.effects();
        let cost = |it: &Runner| {
            let (_, effect) = effects.iter().find(|(candidate, _)| *candidate == it.candidate)?;
            Some(effect.exp())
        };
        let ranks = field.ranks(self.objective);
        let alike = field.alike(self.objective, margin);
        let sum: f64 = ranks[..alike].iter().filter_map(|it| cost(it)).sum();
        let least = sum / alike.max(1) as f64;
        let value = |(at, it): (usize, &&Runner)| {
            let cost = if at < alike { least } else { cost(it)?.max(least) };
            let missed = (self.objective - it.share()).max(0.0);
            Some((it.candidate.clone(), cost * (1.0 + 10.0 * missed)))
        };
        ranks.iter().enumerate().filter_map(value).collect()
    }

    /// The number of candidates that share the least value, and the smallest difference of costs,
    /// as a ratio less 1, that the grid tells.
    pub fn resolution(&self, margin: f64) -> (usize, f64) {
        let field = Field::recorded(&self.rows);
        (field.alike(self.objective, margin), field.told(margin).exp_m1())
    }

    /// Replays the grid with a seed and a budget in heats.
    pub fn replay(&self, seed: u64, budget: usize) -> Replay<'_> {
        Replay { grid: self, rng: Rng::new(seed), budget, heats: 0, is_alike: false }
    }

    /// The same where every candidate is the default under another name: each heat is one of the
    /// default's, drawn at random. Whatever is found there is false.
    pub fn replay_alike(&self, seed: u64, budget: usize) -> Replay<'_> {
        Replay { is_alike: true, ..self.replay(seed, budget) }
    }
}

/// Heats drawn from a grid.
pub struct Replay<'a> {
    grid: &'a Grid,
    rng: Rng,
    budget: usize,
    /// Heats so far.
    pub heats: usize,
    is_alike: bool,
}

impl Heats for Replay<'_> {
    fn block(&mut self, _: Stage, _: u32, _: f64, asked: &[Candidate]) -> Option<Vec<Heat>> {
        let block = self.rng.below(self.grid.blocks());
        self.heats += asked.len();
        let heat = |candidate: &Candidate| {
            if self.is_alike {
                return self.grid.rows[0].heats[self.rng.below(self.grid.blocks())].clone();
            }
            let row = self.grid.rows.iter().find(|row| row.candidate == *candidate);
            let missing = || Heat { failure: Some("not recorded".to_string()), ..Heat::default() };
            row.map_or_else(missing, |row| row.heats[block].clone())
        };
        Some(asked.iter().map(heat).collect())
    }

    fn spent(&self) -> f64 {
        self.heats as f64 / self.budget.max(1) as f64
    }

    fn has(&self, candidate: &Candidate) -> bool {
        self.grid.rows.iter().any(|row| row.candidate == *candidate)
    }
}
