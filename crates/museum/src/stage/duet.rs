//! A duet of the laboratory: CPU per request of two servers that are up at the same time.

use super::Stage;
use crate::exhibit::{Effort, Fault};
use lab::duet::{Fresh, Outcome, Plan};
use std::time::Duration;

/// The time that a fresh pair needs beside its windows.
const OVERHEAD: Duration = Duration::from_millis(600);

/// The approximate duration of a plan.
pub fn duration(plan: &Plan) -> Effort {
    let load = Duration::from_millis(plan.warmup_ms + u64::from(plan.windows) * plan.window_ms);
    Effort::new(plan.fresh_pairs * plan.pairings().len() as u32, load * 2 + OVERHEAD)
}

impl Stage<'_> {
    /// Plays all pairs. `None` if the visitor stopped the run before there was a result.
    ///
    /// # Errors
    /// If the plan cannot be played.
    pub fn duet(&mut self, plan: &Plan) -> Result<Option<Outcome>, Fault> {
        if self.stopped() {
            return Ok(None);
        }
        plan.check().map_err(|bad| Fault::Lab(bad.to_string()))?;
        let Stage { settings, room, stop, placement, listener, .. } = self;
        let room = room.join("duet");
        let mut players = lab::duet::Stage::new(plan, &settings.exe, &room, *placement, stop);
        let outcome = lab::duet::run(plan, &mut players, stop, |a, b, number, result| {
            listener.step(&progress(a, b, number, result));
        });
        drop(players);
        let _ = std::fs::remove_dir_all(&room);
        self.record(&serde_json::json!({"row": "duet", "duet": outcome}))?;
        for pairing in &outcome.pairings {
            for wrong in pairing.broken.iter().chain(&pairing.failures) {
                self.doubt(wrong.clone());
            }
        }
        let has_any = outcome.pairings.iter().any(|pairing| pairing.ratio.is_some());
        Ok(has_any.then_some(outcome))
    }
}

fn progress(a: &str, b: &str, number: u32, result: &Result<Fresh, String>) -> String {
    match result {
        Ok(fresh) => format!("pair {}, {a} / {b}: {:.3}", number + 1, fresh.ratio),
        Err(reason) => format!("pair {}, {a} / {b}: {reason}", number + 1),
    }
}
