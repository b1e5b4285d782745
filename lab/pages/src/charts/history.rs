//! The last comparisons of two servers, run by run: a drift that no single run shows.

use super::{Chart, by_names, described, plot};
use document::{Axis, Point, Series};
use lab::metric::Metric;
use lab::record::Run;
use lab::verdict::Summary;
use serde::{Deserialize, Serialize};

/// The runs that are drawn.
const RUNS_MAX: usize = 30;

/// The figures of one run: a line of a history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// The start of the run, UTC (RFC 3339).
    pub date: String,
    /// The plan's fingerprint.
    pub plan: String,
    /// The version of the new server, such as a commit.
    pub note: String,
    /// The registered comparisons.
    pub figures: Vec<PastFigure>,
}

/// One comparison with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastFigure {
    /// The load point.
    pub point: String,
    /// The server.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// The ratio to the baseline, with the ends of its interval.
    pub ratio: (f64, f64, f64),
}

impl Past {
    /// The line of a run; `None` without a comparison that has an interval.
    pub fn of(run: &Run, summary: &Summary) -> Option<Past> {
        let arms = summary.points.iter().flat_map(|it| it.arms.iter().map(move |arm| (it, arm)));
        let arms = arms.filter(|(_, arm)| !arm.twin && !arm.baseline);
        let figures = arms.flat_map(|(point, arm)| {
            let known = arm.judged.iter();
            let known = known.filter(|it| it.registered && it.comparison.interval.is_some());
            known.map(|judged| PastFigure {
                point: point.point.clone(),
                arm: arm.arm.clone(),
                metric: judged.metric,
                ratio: judged.comparison.triple(),
            })
        });
        let figures: Vec<PastFigure> = figures.collect();
        let plan = &run.manifest.plan;
        let new = plan.arms.iter().find(|arm| arm.name != plan.baseline);
        (!figures.is_empty()).then(|| Past {
            date: run.manifest.date.clone(),
            plan: run.manifest.plan_hash.clone(),
            note: new.map(|arm| arm.note.clone()).unwrap_or_default(),
            figures,
        })
    }
}

/// The last runs, the present one among them; `None` below two.
pub fn history(all: &[Past]) -> Option<Chart> {
    let all = &all[all.len().saturating_sub(RUNS_MAX)..];
    let last = all.last().filter(|_| all.len() > 1)?;
    let is_many = last.figures.iter().any(|it| it.arm != last.figures[0].arm);
    let series = last.figures.iter().map(|figure| {
        let same = |it: &&PastFigure| {
            (&it.point, &it.arm, it.metric) == (&figure.point, &figure.arm, figure.metric)
        };
        let found = all.iter().zip(1..).filter_map(|(past, at)| {
            let (y, low, high) = past.figures.iter().find(same)?.ratio;
            Some(Point { x: f64::from(at), y, range: Some((low, high)) })
        });
        let server = if is_many { format!("{}, ", figure.arm) } else { String::new() };
        Series::measured(format!("{server}{}", figure.metric.name()), found)
    });
    let caption = "Ratios to the baseline, run by run; bars are 95 % intervals. Each was measured \
        on one machine in one race, so ratios may be compared across days, and times may not.";
    let name = |past: &Past| format!("{} {}", past.date, past.note).trim_end().to_string();
    let axes = [
        Axis { names: all.iter().map(name).collect(), ..Axis::default() },
        Axis { title: "ratio".to_string(), log: true, ..Axis::default() },
    ];
    let drawn = described(["The last runs", caption], axes, series.collect());
    Some(plot("history", &drawn, &mut by_names(&[])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_are_drawn_from_the_second_on() {
        let run = crate::sample::small();
        let past = Past::of(&run, &lab::verdict::analyse(&run)).expect("it has intervals");
        let line = serde_json::to_string(&past).expect("numbers");
        assert_eq!(serde_json::from_str::<Past>(&line).expect("ours"), past);
        assert!(history(std::slice::from_ref(&past)).is_none());
        let drawn = history(&vec![past.clone(); 40]).expect("a chart");
        assert_eq!(drawn.table.rows.len(), past.figures.len() * RUNS_MAX);
        assert!(drawn.figure.contains("error_y"), "{}", drawn.figure);
    }
}
