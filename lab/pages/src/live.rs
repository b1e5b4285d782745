//! The page of a running race: a fixed page, and the document that it draws.
//!
//! The page only draws; all words and numbers come with the [`Document`], which is published whole
//! each time. So a browser that opens the page late, or reconnects, shows the same as one that was
//! connected from the beginning, including how the intervals narrowed.

use crate::shell::{Charts, PageError, render};
use crate::words;
use lab::live::{Estimate, Snapshot};
use lab::verdict::Metric;
use language::tr;
use serde::Serialize;
use stats::Decision;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The number of trials from which the noise is computed.
const NOISE_MAX: usize = 400;

/// One comparison after a number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Blocks.
    pub blocks: u32,
    /// Median ratio.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// One comparison as the page draws it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    point: String,
    arm: String,
    twin: bool,
    metric: Cow<'static, str>,
    class: &'static str,
    word: String,
    ratio: String,
    interval: String,
    /// The arm's median against the baseline's, with units.
    medians: String,
    steps: Vec<Step>,
}

/// The machine during one trial, shares in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    others: Option<f64>,
    stolen: Option<f64>,
    refused: bool,
}

/// The data that the page draws.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    question: String,
    label: String,
    plan: String,
    baseline: String,
    sentence: String,
    phase: &'static str,
    running: String,
    done: u32,
    total: u32,
    block: u32,
    blocks: u32,
    repeated: u32,
    elapsed_ms: u64,
    left_ms: Option<u64>,
    margin: f64,
    rows: Vec<Row>,
    noise: Vec<Noise>,
    news: Vec<String>,
    /// The path of the report, once it was written.
    report: Option<String>,
}

/// The schema of the document.
pub const SCHEMA: &str = "roundhouse.live/1";

/// Remembers how the intervals closed in.
#[derive(Debug, Default)]
pub struct Watch {
    steps: BTreeMap<(String, String, Metric), Vec<Step>>,
}

impl Watch {
    /// A watch without any snapshot.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// The document for the current state of the race. `report` names the finished report.
    pub fn document(&mut self, shot: &Snapshot, report: Option<&str>) -> Document {
        let rows = shot.estimates.iter().map(|it| self.row(it)).collect();
        let noise = &shot.noise[shot.noise.len().saturating_sub(NOISE_MAX)..];
        let phase = match (shot.ended, shot.done >= shot.total, shot.done) {
            (true, true, _) => "over",
            (true, false, _) => "stopped",
            (false, _, 0) => "starting",
            (false, _, _) => "running",
        };
        Document {
            schema: SCHEMA,
            question: tr(&shot.question).into_owned(),
            label: shot.label.clone(),
            plan: shot.plan_hash.clone(),
            baseline: shot.baseline.clone(),
            sentence: tr(&shot.sentence).into_owned(),
            phase,
            running: shot.running.clone(),
            done: shot.done,
            total: shot.total,
            block: shot.block,
            blocks: shot.blocks,
            repeated: shot.repeated,
            elapsed_ms: shot.elapsed_ms,
            left_ms: shot.left_ms,
            margin: shot.margin,
            rows,
            noise: noise
                .iter()
                .map(|it| Noise {
                    others: it.conditions.foreign.map(|share| round(share * 100.0)),
                    stolen: it.conditions.steal.map(|share| round(share * 100.0)),
                    refused: it.refused,
                })
                .collect(),
            news: shot.news.iter().map(|text| tr(text).into_owned()).collect(),
            report: report.map(String::from),
        }
    }

    fn row(&mut self, it: &Estimate) -> Row {
        let key = (it.point.clone(), it.arm.clone(), it.metric);
        let steps = self.steps.entry(key).or_default();
        let (low, high) = it
            .interval
            .map_or((None, None), |range| (Some(round(range.low)), Some(round(range.high))));
        let step = Step { blocks: it.blocks, ratio: round(it.ratio), low, high };
        let metric = it.metric;
        // A repeated block changes the last step, a new one appends to them.
        steps.retain(|known| known.blocks < it.blocks);
        steps.push(step);
        Row {
            point: it.point.clone(),
            arm: it.arm.clone(),
            twin: it.twin,
            metric: tr(it.metric.name()),
            class: class(it.decision, it.twin),
            word: tr(if it.twin { "noise" } else { &it.word }).into_owned(),
            ratio: words::ratio(it.ratio),
            interval: it.interval.as_ref().map(words::interval).unwrap_or_default(),
            medians: it.medians.map(|it| medians(metric, it)).unwrap_or_default(),
            steps: steps.clone(),
        }
    }
}

fn medians(metric: Metric, (own, base): (f64, f64)) -> String {
    tr(&format!("{} against {}", words::value(metric, own), words::value(metric, base)))
        .into_owned()
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn class(decision: Decision, twin: bool) -> &'static str {
    match decision {
        _ if twin => "open",
        Decision::Better => "better",
        Decision::Worse => "worse",
        Decision::Equal => "same",
        Decision::Open => "open",
    }
}

/// The page itself, to be served beside the document.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn page() -> Result<String, PageError> {
    #[derive(Serialize)]
    struct View {
        live: Cow<'static, str>,
        schema: &'static str,
    }
    let view = View { live: language::script(include_str!("assets/live.js")), schema: SCHEMA };
    render("live.html", Charts::None, &view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Interval;

    fn shot(blocks: u32, ratio: f64) -> Snapshot {
        let interval =
            (blocks >= 6).then_some(Interval { low: ratio - 0.1, high: ratio + 0.1, cover: 0.97 });
        let estimate = |metric| Estimate {
            point: "depth 1".to_string(),
            arm: "uring".to_string(),
            twin: false,
            metric,
            ratio,
            medians: Some((1_200.0, 1_000.0)),
            interval,
            blocks,
            decision: Decision::Open,
            word: "unresolved".to_string(),
        };
        Snapshot {
            total: 10,
            done: blocks,
            estimates: vec![estimate(Metric::Throughput), estimate(Metric::Cpu)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_way_in_which_intervals_close_in_is_remembered() {
        let mut watch = Watch::new();
        for (blocks, ratio) in [(5, 1.2), (6, 1.15), (6, 1.1), (7, 1.12)] {
            watch.document(&shot(blocks, ratio), None);
        }
        let document = watch.document(&shot(7, 1.12), Some("out/report.html"));
        let names: Vec<&str> = document.rows.iter().map(|row| &*row.metric).collect();
        assert_eq!(names, ["requests/s", "CPU per request"]);
        assert_eq!(document.rows[0].medians, "1,200 requests/s against 1,000 requests/s");
        assert_eq!(document.rows[1].medians, "1.20 µs against 1.00 µs");
        let steps: Vec<(u32, f64, bool)> = document.rows[0]
            .steps
            .iter()
            .map(|it| (it.blocks, it.ratio, it.low.is_some()))
            .collect();
        assert_eq!(steps, [(5, 1.2, false), (6, 1.1, true), (7, 1.12, true)]);
        let json = serde_json::to_string(&document).expect("strings and numbers");
        assert!(
            json.contains("\"schema\":\"roundhouse.live/1\"") && !json.contains('\n'),
            "{json}"
        );
    }

    #[test]
    fn phases_have_names() {
        let phase = |done, ended| {
            let shot = Snapshot { total: 10, done, ended, ..Snapshot::default() };
            Watch::new().document(&shot, None).phase
        };
        assert_eq!(phase(0, false), "starting");
        assert_eq!(phase(3, false), "running");
        assert_eq!(phase(3, true), "stopped");
        assert_eq!(phase(10, true), "over");
    }

    #[test]
    fn the_page_asks_nobody_but_its_own_server() {
        let html = page().expect("the template fits");
        assert!(html.contains("fetch(\"state.json\""), "it asks");
        for never in ["http:", "https:", "<link rel=\"stylesheet", "@import"] {
            let found = html.replace("http://www.w3.org/2000/svg", "").contains(never);
            assert!(!found, "found `{never}`");
        }
    }
}
