//! The first table of a race whose servers took turns: every arm, the cheapest first.

use crate::charts::look;
use crate::strip::{self, Axis};
use crate::words;
use lab::plan::Plan;
use lab::verdict::{Metric, PointSummary, RaceAnswer, Rank, Summary};
use serde::Serialize;
use stats::{Comparison, Interval};

/// The table.
#[derive(Serialize)]
pub(super) struct Answer {
    points: Vec<String>,
    rows: Vec<Row>,
    has_rooms: bool,
    /// For each load point the reasons of its dearer arms.
    reasons: Vec<(String, Vec<String>)>,
}

/// One arm.
#[derive(Serialize)]
struct Row {
    arm: String,
    note: String,
    colour: String,
    /// One for each load point.
    costs: Vec<Option<Cost>>,
    room: String,
}

/// One arm at one load point.
#[derive(Serialize)]
struct Cost {
    class: &'static str,
    cpu: String,
    over: String,
    strip: String,
}

/// The table of an answer.
pub(super) fn table(plan: &Plan, summary: &Summary, answer: &RaceAnswer) -> Answer {
    let ranks = || answer.costs.iter().flat_map(|cost| &cost.ranks);
    let axis = Axis::holding(ranks().map(|rank| rank.over_baseline.0));
    let rows = crate::terminal::arms_by_cost(summary, answer).into_iter().map(|arm| {
        let costs = answer.costs.iter().map(|cost| {
            let rank = cost.ranks.iter().find(|rank| rank.arm == arm)?;
            let point = summary.points.iter().find(|it| it.point == cost.point);
            Some(Cost::of(rank, plan, point, axis))
        });
        let room = answer.rooms.iter().find(|room| room.arm == arm);
        let note = plan.arms.iter().find(|it| it.name == arm).map(|it| it.note.clone());
        Row {
            arm: arm.to_string(),
            note: note.unwrap_or_default(),
            colour: look(plan, arm).colour.trim_start_matches('$').to_string(),
            costs: costs.collect(),
            room: room.map(words::room).unwrap_or_default(),
        }
    });
    Answer {
        points: answer.costs.iter().map(|cost| cost.point.clone()).collect(),
        rows: rows.collect(),
        has_rooms: !answer.rooms.is_empty(),
        reasons: answer
            .costs
            .iter()
            .map(|cost| {
                let here = answer.reasons.iter().filter(|reason| reason.point == cost.point);
                let texts = here.map(|reason| language::tr(&reason.text).replace('`', ""));
                (cost.point.clone(), texts.collect::<Vec<_>>())
            })
            .filter(|(_, texts)| !texts.is_empty())
            .collect(),
    }
}

impl Cost {
    fn of(rank: &Rank, plan: &Plan, point: Option<&PointSummary>, axis: Axis) -> Cost {
        let (ratio, low, high) = rank.over_baseline;
        let interval = Some(Interval { low, high, cover: stats::CONFIDENCE });
        let found = Comparison { log_ratios: Vec::new(), ratio, interval, bootstrap: None };
        let class = match (rank.is_cheapest(), rank.dearer) {
            (true, _) => "better",
            (false, true) => "worse",
            (false, false) => "open",
        };
        let floor = point.map_or(0.0, |point| point.floor(Metric::Cpu));
        Cost {
            class,
            cpu: words::time(rank.cpu_ns),
            over: match rank.arm == plan.baseline {
                true => "1".to_string(),
                false => words::over(rank.over_baseline),
            },
            strip: strip::draw(axis, class, floor, &found),
        }
    }
}
