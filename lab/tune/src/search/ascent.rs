//! The way to the finalists where the highest rate decides: the load rises, and candidates that no
//! longer keep the objective leave, until none is left.

use super::{REFINE_SHARE, ROUNDS_MAX, SCREEN_SHARE, Search, Stage};
use crate::field::{Field, Runner};
use crate::space::{Candidate, Facts};

/// The step from one load to the next.
const STEP: f64 = 1.25;
/// Steps: 1.25 to the 24th is 212 times the workload's rate.
const STEPS_MAX: u32 = 24;

impl Search<'_> {
    /// The candidates that keep the objective under the highest load, the best first.
    pub(super) fn ascend(&mut self, facts: &Facts) -> Option<Vec<Candidate>> {
        let seeds = self.seeds(facts);
        let mut leaders = self.raise(Stage::Screen, 0, seeds, SCREEN_SHARE)?;
        for round in 1..=ROUNDS_MAX {
            let fresh = self.neighbours(&leaders);
            if fresh.is_empty() || self.heats.spent() > REFINE_SHARE {
                break;
            }
            self.tried.extend(fresh.iter().cloned());
            let field = leaders.iter().chain(&fresh).cloned().collect();
            let found = self.raise(Stage::Refine, round * 2 * STEPS_MAX, field, REFINE_SHARE)?;
            let is_settled = found.first() == leaders.first();
            leaders = found;
            if is_settled {
                break;
            }
        }
        Some(leaders)
    }

    /// Raises the load from where the last stage would begin. Candidates that miss the objective
    /// twice at one load leave; those that stay longest are returned, the last first.
    fn raise(
        &mut self,
        stage: Stage,
        first: u32,
        mut staying: Vec<Candidate>,
        until: f64,
    ) -> Option<Vec<Candidate>> {
        let objective = self.terms.objective;
        let (mut load, mut gone) = (self.begin, Vec::new());
        for block in (first..).step_by(2).take(STEPS_MAX as usize) {
            let mut field = Field::new(staying);
            field.add(self.heats.block(stage, block, load, &field.candidates())?);
            let misses = |row: &Runner| row.heats.iter().all(|heat| heat.share() < objective);
            let (missed, kept) = field.0.into_iter().partition(misses);
            let mut doubted = Field(missed);
            doubted.add(self.heats.block(stage, block + 1, load, &doubted.candidates())?);
            staying = Field(kept).ranks(objective).iter().map(|it| it.candidate.clone()).collect();
            for row in doubted.ranks(objective).into_iter().rev() {
                let candidate = row.candidate.clone();
                if !misses(row) {
                    staying.push(candidate);
                    continue;
                }
                let share = 100.0 * row.share();
                let why =
                    format!("leaves: {share:.1} % within the objective at {load:.2} of the load");
                self.note(stage, block + 2, candidate.clone(), why);
                gone.push(candidate);
            }
            if staying.is_empty() || self.heats.spent() > until {
                break;
            }
            self.begin = load;
            load *= STEP;
        }
        gone.extend(staying.into_iter().rev());
        Some(gone.into_iter().rev().take(self.terms.finalists).collect())
    }
}
