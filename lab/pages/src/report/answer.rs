//! The first tables of the page: for each registered metric every arm at every load point, its
//! median, its ratio to the baseline, and the decision on it.
//!
//! The page's template gets these values as they are; the decisions come from the summary. One
//! metric is one table, arms in the order of the result. A cell shows the median, the ratio with
//! its interval and a strip that draws the interval; all strips of a page share one axis, so that
//! they can be compared by eye. Comparisons that the plan did not register are only in the JSON
//! report, because among many of them some differ by chance.

use crate::charts::look;
use crate::strip::{self, Axis};
use crate::words;
use lab::metric::Metric;
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmSummary, ArmVerdict, PointSummary, Summary};
use serde_json::{Value, json};
use stats::{Comparison, Decision, Interval};

/// The tables of a race.
pub(super) fn answer(run: &Run, summary: &Summary) -> Value {
    let page = Page { run, summary, axis: axis(summary) };
    let plan = &run.manifest.plan;
    let (alone, rest): (Vec<&PointSummary>, Vec<&PointSummary>) =
        summary.points.iter().partition(|it| words::is_alone(plan, &it.point));
    let mut curves: Vec<(String, Vec<&PointSummary>)> = Vec::new();
    for point in rest {
        let load = plan.points.iter().find(|it| it.name == point.point);
        let series = load.map(|it| it.series.clone()).unwrap_or_default();
        match curves.iter_mut().find(|(name, _)| *name == series) {
            Some((_, known)) => known.push(point),
            None => curves.push((series, vec![point])),
        }
    }
    let mut curves: Vec<(String, Vec<Value>)> =
        curves.into_iter().map(|(name, points)| (name, page.tables(&points))).collect();
    // Where all points belong to curves, the first is no detail.
    let tables = match alone.is_empty() && !curves.is_empty() {
        true => curves.remove(0).1,
        false => page.tables(&alone),
    };
    let (low, high) = page.axis.ends();
    json!({
        // One for each registered metric, at the separate load points.
        "tables": tables,
        // The same for the load points of each curve, by its name.
        "curves": curves,
        // For each load point the reasons of its costlier arms.
        "reasons": reasons(summary),
        "axis": [words::ratio(low), words::ratio(high)],
        "examples": examples(),
    })
}

/// One axis for all strips of the page, so that they can be compared by eye.
fn axis(summary: &Summary) -> Axis {
    let arms = summary.points.iter().flat_map(|it| &it.arms);
    let judged = arms.flat_map(|arm| &arm.judged).filter(|it| it.registered);
    Axis::holding(judged.flat_map(|it| {
        let (ratio, low, high) = it.comparison.triple();
        [ratio, low, high]
    }))
}

struct Page<'a> {
    run: &'a Run,
    summary: &'a Summary,
    axis: Axis,
}

impl Page<'_> {
    fn plan(&self) -> &Plan {
        &self.run.manifest.plan
    }

    /// A table for each metric that is registered at one of the points.
    fn tables(&self, points: &[&PointSummary]) -> Vec<Value> {
        let metrics = crate::terminal::registered(self.plan(), points);
        metrics.into_iter().enumerate().map(|(at, it)| self.table(points, it, at == 0)).collect()
    }

    /// One metric: a row for each arm, a column for each load point. The first table says next to
    /// each arm what an idle connection costs and how far to trust it.
    fn table(&self, points: &[&PointSummary], metric: Metric, is_first: bool) -> Value {
        let (better, worse) = metric.words();
        let more = metric.better() == stats::Better::More;
        let points: Vec<&PointSummary> =
            points.iter().copied().filter(|it| has(self.plan(), it, metric)).collect();
        let mut arms = crate::terminal::arms_in_order(self.summary, metric);
        let all = self.summary.points.iter().flat_map(|it| &it.arms).map(|it| it.arm.as_str());
        for absent in all {
            if !arms.contains(&absent) {
                arms.push(absent);
            }
        }
        let rows = arms.into_iter().map(|arm| self.row(arm, &points, metric, is_first));
        json!({
            "metric": metric.name(),
            // The words for the two sides of 1: left, right.
            "sides": if more { [worse, better] } else { [better, worse] },
            "points": points.iter().map(|it| &it.point).collect::<Vec<_>>(),
            "is_first": is_first,
            "has_rooms": is_first && !self.summary.answer.rooms.is_empty(),
            "rows": rows.collect::<Vec<_>>(),
        })
    }

    fn row(&self, arm: &str, points: &[&PointSummary], metric: Metric, is_first: bool) -> Value {
        let mine = |point: &&PointSummary| point.arms.iter().find(|it| it.arm == arm).cloned();
        let all: Vec<ArmSummary> = self.summary.points.iter().filter_map(|it| mine(&it)).collect();
        let room = self.summary.answer.rooms.iter().find(|room| room.arm == arm);
        let mut lamps = Vec::new();
        for lamp in all.iter().flat_map(|it| &it.lamps).filter(|_| is_first) {
            let shown = (lamp.light, &lamp.text);
            if !lamps.contains(&shown) {
                lamps.push(shown);
            }
        }
        let is_absent = all.iter().all(|it| it.absent.is_some());
        let cell = |it: &&PointSummary| self.cell(it, &mine(it)?, metric);
        json!({
            "arm": arm,
            "colour": look(self.plan(), arm).colour.trim_start_matches('$'),
            "twin": all.iter().any(|it| it.twin),
            "absent": all.first().filter(|_| is_absent).and_then(|it| it.absent.as_ref()),
            // One for each load point.
            "cells": points.iter().map(cell).collect::<Vec<_>>(),
            "room": room.map(words::room).unwrap_or_default(),
            "lamps": lamps,
        })
    }

    fn cell(&self, point: &PointSummary, arm: &ArmSummary, metric: Metric) -> Option<Value> {
        let value = words::median(self.summary, &point.point, arm, metric)?;
        let Some(judged) = arm.judged(metric) else {
            return arm.baseline.then(|| json!({ "value": value, "over": "1", "strip": "" }));
        };
        let (class, term) = if arm.twin { ("open", "floor") } else { class(judged) };
        let aside = match (arm.twin, judged.forecast, judged.at_least) {
            (true, ..) | (_, None, false) => String::new(),
            (_, Some(blocks), _) => words::forecast(blocks, words::block_ms(self.run)),
            (_, None, true) => "a bound: the generator was the limit".to_string(),
        };
        Some(json!({
            "class": class,
            "word": if arm.twin { "noise" } else { judged.word() },
            "term": term,
            "value": value,
            "over": words::ratio_with_interval(judged),
            "strip": strip::draw(self.axis, class, point.floor(metric), &judged.comparison),
            "aside": aside,
        }))
    }
}

/// Whether the plan registers a metric at a load point.
fn has(plan: &Plan, point: &PointSummary, metric: Metric) -> bool {
    let load = plan.points.iter().find(|it| it.name == point.point);
    load.is_some_and(|load| plan.registers(load, metric))
}

/// The colour of a decision, and the term that explains its word.
fn class(judged: &ArmVerdict) -> (&'static str, &'static str) {
    match judged.decision {
        Decision::Better => ("better", "verdict"),
        Decision::Worse => ("worse", "verdict"),
        Decision::Equal => ("same", "equivalent"),
        Decision::Open if judged.limited => ("limited", "limited"),
        Decision::Open => ("open", "unresolved"),
    }
}

fn reasons(summary: &Summary) -> Vec<(String, Vec<String>)> {
    let answer = &summary.answer;
    let of = |point: &String| {
        let here = answer.reasons.iter().filter(|reason| reason.point == *point);
        here.map(|reason| language::tr(&reason.text).replace('`', "")).collect::<Vec<_>>()
    };
    let all = answer.costs.iter().map(|cost| (cost.point.clone(), of(&cost.point)));
    all.filter(|(_, texts)| !texts.is_empty()).collect()
}

/// Four intervals that explain the four words.
fn examples() -> Vec<Value> {
    let axis = Axis::holding([1.3].into_iter());
    let floor = 1.03_f64.ln();
    [
        ("better", "faster", (1.10, 1.16, 1.22), "the whole interval lies on one side of 1"),
        ("worse", "slower", (0.80, 0.86, 0.91), "the same, on the other side of 1"),
        (
            "same",
            "equivalent",
            (0.98, 1.0, 1.02),
            "the whole interval is close to 1, as agreed before",
        ),
        (
            "open",
            "unresolved",
            (0.97, 1.08, 1.19),
            "both is possible still; more blocks are needed",
        ),
    ]
    .into_iter()
    .map(|(class, word, (low, ratio, high), text)| {
        let interval = Some(Interval { low, high, cover: 0.969 });
        let found = Comparison { log_ratios: Vec::new(), ratio, interval };
        let strip = strip::draw(axis, class, floor, &found);
        json!({ "class": class, "word": word, "strip": strip, "text": text })
    })
    .collect()
}
