//! The charts of a race, each a plain plot whose series are named after the servers.
//!
//! A server has the same colour in every chart, because a series takes it from the arm whose name
//! it begins with.

use super::{Chart, by_names, described, look, plot};
use crate::words;
use document::{Axis, Mark, Point, Series, Table};
use lab::load::Times;
use lab::plan::Model;
use lab::record::Run;
use lab::trial::Trial;
use lab::verdict::{ArmSummary, Metric, Place, Summary, Sweep};
use serde::Serialize;
use stats::median;

/// Quantiles of a record.
const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];
/// The number of system calls with a separate bar; one bar holds the rest.
const CALLS_MAX: usize = 7;

/// One series of load points.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Throughput, latency.
    pub charts: Vec<Chart>,
}

fn log(title: &str) -> Axis {
    Axis { title: title.to_string(), log: true, names: Vec::new() }
}

fn linear(title: &str) -> Axis {
    Axis { title: title.to_string(), ..Axis::default() }
}

fn named<S: Into<String>>(title: &str, names: impl IntoIterator<Item = S>) -> Axis {
    let names = names.into_iter().map(Into::into).collect();
    Axis { title: title.to_string(), log: false, names }
}

/// An axis of times in microseconds.
fn times(what: &str) -> Axis {
    log(&format!("{what}, µs"))
}

fn micros(ns: Option<f64>) -> Option<f64> {
    ns.map(|ns| ns / 1e3)
}

/// Draws a plot of series that belong to servers, with its title and caption and the axes x and y;
/// none if it has no point.
fn drawn(
    run: &Run,
    id: &str,
    words: [&str; 2],
    axes: [Axis; 2],
    mut series: Vec<Series>,
) -> Option<Chart> {
    series.retain(|it| !it.points.is_empty());
    let shown = described(words, axes, series);
    let plan = &run.manifest.plan;
    // Of two arms one of which has the other's name at its beginning, the longer one.
    let of = |series: &Series| {
        let all = plan.entrants();
        let fits = all.iter().filter(|arm| series.name.starts_with(&arm.name));
        let arm = fits.max_by_key(|arm| arm.name.len()).map_or("", |arm| arm.name.as_str());
        look(plan, arm)
    };
    (!shown.series.is_empty()).then(|| plot(id, &shown, &mut |it| of(it)))
}

fn trials<'a>(run: &'a Run, point: &'a str, arm: &'a str) -> impl Iterator<Item = &'a Trial> {
    run.trials.iter().filter(move |trial| trial.arm == arm && trial.point == point)
}

/// Percentiles: one chart for each load point outside curves; for every point if all are on curves.
pub fn tails(run: &Run, summary: &Summary) -> Vec<Chart> {
    let points = &run.manifest.plan.points;
    let alone = points.iter().any(|point| point.series.is_empty());
    let wanted = points.iter().filter(|point| !alone || point.series.is_empty());
    wanted
        .enumerate()
        .filter(|(_, point)| summary.points.iter().any(|it| it.point == point.name))
        .filter_map(|(at, point)| tail(run, &point.name, point.is_open(), at))
        .collect()
}

fn tail(run: &Run, point: &str, open: bool, at: usize) -> Option<Chart> {
    let quantile =
        |times: &Times, at: usize| [times.p50_ns, times.p90_ns, times.p99_ns, times.p999_ns][at];
    let line = |arm: &str| {
        let all: Vec<&Times> =
            trials(run, point, arm).filter_map(|trial| Some(trial.result()?.latency())).collect();
        let point = |at: usize| {
            // A percentile that some trials do not support would be that of the lucky ones.
            let values: Option<Vec<f64>> = all.iter().map(|it| micros(quantile(it, at))).collect();
            let values = values?;
            let ends = values.iter().copied().min_by(f64::total_cmp);
            let range = ends.zip(values.iter().copied().max_by(f64::total_cmp));
            Some(Point { x: at as f64 + 1.0, y: median(&values)?, range })
        };
        Series::measured(arm, (0..QUANTILES.len()).filter_map(point))
    };
    let series: Vec<Series> = run.manifest.plan.arms.iter().map(|arm| line(&arm.name)).collect();
    // A single quantile is no curve; the table of numbers has it.
    if series.iter().all(|it| it.points.len() < 2) {
        return None;
    }
    let what = if open { "response time" } else { "service time" };
    let caption = "Medians over the blocks; bars reach from the quickest trial to the slowest. \
        Lower is better. A line ends where fewer than a hundred requests are slower.";
    let axes = [named("share of requests that are quicker", QUANTILES), times(what)];
    drawn(run, &format!("tail-{at}"), [&format!("{point}: {what}"), caption], axes, series)
}

/// All curves of a run that have at least two places.
pub fn sweeps(run: &Run, summary: &Summary) -> Vec<Curve> {
    let all = summary.sweeps.iter().enumerate();
    all.filter(|(_, sweep)| sweep.curves.iter().any(|curve| curve.places.len() > 1))
        .map(|(at, sweep)| {
            let speed = if sweep.open { answered(run, sweep, at) } else { speed(run, sweep, at) };
            let charts = [speed, latency(run, sweep, at)].into_iter().flatten().collect();
            Curve { name: sweep.series.clone(), charts }
        })
        .collect()
}

/// A series for each arm of a sweep.
fn curves(sweep: &Sweep, suffix: &str, point: impl Fn(&Place) -> Option<Point>) -> Vec<Series> {
    let curves = sweep.curves.iter();
    let series = |curve: &lab::verdict::Curve| {
        let points = curve.places.iter().filter_map(&point);
        Series::measured(format!("{}{suffix}", curve.arm), points)
    };
    curves.map(series).collect()
}

fn speed(run: &Run, sweep: &Sweep, at: usize) -> Option<Chart> {
    let point = |it: &Place| {
        Some(Point { x: it.x, y: it.throughput_rps?, range: it.low_rps.zip(it.high_rps) })
    };
    let series = curves(sweep, "", point);
    let axes = [log("connections"), linear("requests/s")];
    let caption = "Marks: medians over the blocks with their intervals.";
    drawn(run, &format!("sweep-{at}"), ["Throughput against concurrency", caption], axes, series)
}

fn latency(run: &Run, sweep: &Sweep, at: usize) -> Option<Chart> {
    let point = |it: &Place, ns: Option<f64>| {
        let x = if sweep.open { it.offered_rps.unwrap_or(it.x) } else { it.x };
        Some(Point::from((x, micros(ns)?)))
    };
    let middle = curves(sweep, ", p50", |it| point(it, it.p50_ns)).into_iter();
    let middle = middle.map(|it| it.drawn_as(Mark::Point));
    let (x, title, what) = match sweep.open {
        true => (linear("offered requests/s"), "Latency against rate", "response time"),
        false => (log("connections"), "Latency against concurrency", "service time"),
    };
    let caption = "Lines: p99. Marks alone: p50. Medians over the blocks. Where a curve bends \
        upwards, the server has begun to let requests wait.";
    let series = curves(sweep, "", |it| point(it, it.p99_ns)).into_iter().chain(middle).collect();
    let axes = [x, times(what)];
    drawn(run, &format!("latency-{at}"), [title, caption], axes, series)
}

/// The answered share of the offered requests.
fn answered(run: &Run, sweep: &Sweep, at: usize) -> Option<Chart> {
    let point = |it: &Place| {
        let offered = it.offered_rps.filter(|&rps| rps > 0.0)?;
        Some(Point::from((offered, it.throughput_rps? / offered * 100.0)))
    };
    let caption = "Below 100 % the server does not keep up, and latencies at that rate only say \
        how long the run was.";
    let series = curves(sweep, "", point);
    let axes = [linear("offered requests/s"), linear("answered, % of offered")];
    drawn(run, &format!("answered-{at}"), ["Answered against offered", caption], axes, series)
}

/// One chart for each load point that searched for a capacity.
pub fn capacities(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| capacity(run, &point.name, at)).collect()
}

fn capacity(run: &Run, point: &str, at: usize) -> Option<Chart> {
    let plan = &run.manifest.plan;
    let searches = |arm| trials(run, point, arm).filter_map(|trial| trial.seen.search.as_ref());
    let mut series = Vec::new();
    for arm in &plan.arms {
        for (kept, suffix) in [(true, ""), (false, ", broken")] {
            let probes = searches(&arm.name).flat_map(|search| &search.probes);
            let probes = probes.filter(|probe| probe.kept == kept);
            let places = probes.filter_map(|it| Some((it.rate_rps, micros(it.latency_ns)?)));
            let name = format!("{}{suffix}", arm.name);
            series.push(Series::measured(name, places).drawn_as(Mark::Point));
        }
    }
    let search = plan.arms.iter().find_map(|arm| searches(&arm.name).next())?;
    let limit = search.limit_ns as f64;
    let rates = series.iter().flat_map(|it| &it.points).map(|it| it.x);
    let ends = [rates.clone().min_by(f64::total_cmp)?, rates.max_by(f64::total_cmp)?];
    series.push(Series::published("the promise", ends.map(|x| (x, limit / 1e3))));
    let promised =
        format!("{} % within {}", super::short(search.quantile * 100.0), words::time(limit));
    let caption = "Each mark is one probe with a fresh server; those called broken did not keep \
        the promise. Response times are those of the promised share.";
    let axes = [log("offered requests/s"), times("response time")];
    drawn(run, &format!("capacity-{at}"), [&format!("{point}: {promised}"), caption], axes, series)
}

/// Latency through an overload, one chart for each such load point with a time line.
pub fn overloads(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points
        .filter(|(_, point)| matches!(point.model, Model::Overload { .. }))
        .filter_map(|(at, point)| overload(run, &point.name, at))
        .collect()
}

fn overload(run: &Run, point: &str, at: usize) -> Option<Chart> {
    // The median over trials of each slice's median latency.
    let line = |arm: &str| {
        let loads: Vec<_> = trials(run, point, arm).filter_map(Trial::result).collect();
        let longest = loads.iter().max_by_key(|load| load.timeline.len());
        let slices = longest.into_iter().flat_map(|load| load.timeline.iter().enumerate());
        let points = slices.filter_map(|(at, slice)| {
            let here = loads.iter().filter_map(|load| load.timeline.get(at)?.p50_ns);
            Some((slice.at_ms, micros(median(&here.collect::<Vec<_>>()))?))
        });
        Series::measured(arm, points)
    };
    let caption = "Median response time, slice by slice, medians over the blocks: how high it \
        climbs while too much is asked, and how soon it is back.";
    let series = run.manifest.plan.arms.iter().map(|arm| line(&arm.name)).collect();
    let axes = [linear("ms"), times("median response time")];
    drawn(run, &format!("overload-{at}"), [point, caption], axes, series)
}

/// CPU per request: one chart for each load point outside curves.
pub fn costs(run: &Run, summary: &Summary) -> Vec<Chart> {
    let plan = &run.manifest.plan;
    let any = summary.points.iter().any(|point| words::is_alone(plan, &point.point));
    let points = summary.points.iter().enumerate();
    let wanted = points.filter(|(_, it)| !any || words::is_alone(plan, &it.point));
    wanted.filter_map(|(at, it)| cost(&it.point, &it.arms, at)).collect()
}

fn cost(point: &str, arms: &[ArmSummary], at: usize) -> Option<Chart> {
    let known = arms.iter().filter_map(|arm| Some((arm, micros(arm.median(Metric::Cpu))?)));
    let known: Vec<(&ArmSummary, f64)> = known.collect();
    let share = |arm: &ArmSummary| arm.cost.as_ref().and_then(|it| it.system_share);
    let part = |name: &str, part: &dyn Fn(f64) -> f64| {
        let heights = known
            .iter()
            .zip(1..)
            .map(|((arm, us), at)| (f64::from(at), us * share(arm).map_or(1.0, part)));
        Series::measured(name, heights).drawn_as(Mark::Part)
    };
    let series = match known.iter().all(|(arm, _)| share(arm).is_some()) {
        true => vec![
            part("in the kernel", &|share| share),
            part("in the program", &|share| 1.0 - share),
        ],
        false => vec![part("median", &|_| 1.0)],
    };
    let caption = "Medians of all the server's processes and threads, split by samples at the \
        kernel's tick. Shorter is better.";
    let axes = [
        named("", known.iter().map(|(arm, _)| arm.arm.clone())),
        linear("µs of server CPU per request"),
    ];
    let shown = described([point, caption], axes, series);
    let mut look = by_names(&["in the kernel", "in the program"]);
    (!known.is_empty()).then(|| plot(&format!("cost-{at}"), &shown, &mut look))
}

/// System calls per request, one chart for each load point with a census.
pub fn census(run: &Run) -> Vec<Chart> {
    let points = run.manifest.plan.points.iter().enumerate();
    points.filter_map(|(at, point)| calls(run, &point.name, at)).collect()
}

fn calls(run: &Run, point: &str, at: usize) -> Option<Chart> {
    let here = run.census.iter().filter(|it| it.point == point && !it.calls.is_empty());
    let here: Vec<_> = here.collect();
    let mut totals: Vec<(&str, f64)> = Vec::new();
    for call in here.iter().flat_map(|census| &census.calls) {
        match totals.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, sum)) => *sum += call.per_request,
            None => totals.push((&call.name, call.per_request)),
        }
    }
    totals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names: Vec<&str> = totals.iter().take(CALLS_MAX).map(|it| it.0).collect();
    let series = names.iter().copied().chain(["others"]).map(|name| {
        let heights = here.iter().zip(1..).map(|(census, at)| {
            let mine = census.calls.iter().filter(|call| match name {
                "others" => !names.contains(&call.name.as_str()),
                name => call.name == name,
            });
            (f64::from(at), mine.map(|call| call.per_request).sum())
        });
        Series::measured(name, heights).drawn_as(Mark::Part)
    });
    let series = series.filter(|it| it.points.iter().any(|it| it.y > 0.0)).collect();
    let tool = here.iter().map(|census| census.tool.as_str()).find(|tool| !tool.is_empty());
    let by = tool.map(|tool| format!(" by {tool}")).unwrap_or_default();
    let caption = format!("Counted in a separate run{by}; no speed was taken from it.");
    let axes = [
        named("", here.iter().map(|census| census.arm.clone())),
        linear("system calls per request"),
    ];
    let shown = described([point, &caption], axes, series);
    (!here.is_empty()).then(|| plot(&format!("calls-{at}"), &shown, &mut by_names(&names)))
}

/// All trials in the order of running with the machine's noise, if there was any trial.
pub fn timeline(run: &Run, summary: &Summary) -> Option<Chart> {
    let seconds = |trial: &Trial| (trial.begun_ms + trial.took_ms / 2.0) / 1e3;
    let mut series = Vec::new();
    for arm in run.manifest.plan.entrants() {
        for (is_quiet, suffix) in [(true, ""), (false, ", disturbed")] {
            let mine = run.trials.iter().filter(|it| it.arm == arm.name);
            let mine = mine.filter(|it| it.objections.is_empty() == is_quiet);
            let marks = mine.filter_map(|it| Some((seconds(it), off(summary, it)?)));
            let name = format!("{}{suffix}", arm.name);
            series.push(Series::measured(name, marks).drawn_as(Mark::Point));
        }
    }
    let share = |name: &str, pick: fn(&Trial) -> Option<f64>| {
        let points = run.trials.iter().filter_map(|it| Some((seconds(it), pick(it)? * 100.0)));
        Series::published(name, points)
    };
    series.push(share("other processes", |trial| trial.conditions.foreign));
    series.push(share("stolen by the host", |trial| trial.conditions.steal));
    let caption = "Each mark is one trial against the median of its arm and load point: a race \
        that drifts shows here. Where a trial is called disturbed, a gate of the machine failed. \
        Lines: the share of the machine that went elsewhere, %.";
    let axes = [linear("seconds since the race began"), linear("% off its median")];
    let words = ["Trials in the order of running", caption];
    let chart = drawn(run, "timeline", words, axes, series)?;
    Some(Chart { table: gates(run), ..chart })
}

/// The value of a trial in its point's leading metric, against the median of its kind, in percent.
fn off(summary: &Summary, trial: &Trial) -> Option<f64> {
    let point = summary.points.iter().find(|point| point.point == trial.point)?;
    let arm = point.arms.iter().find(|arm| arm.arm == trial.arm)?;
    let leads = match point.lead {
        Metric::Capacity => [Metric::Capacity].as_slice(),
        Metric::P99 => &[Metric::P99, Metric::P50],
        _ => &[Metric::Throughput],
    };
    let lead = *leads.iter().find(|it| arm.median(**it).is_some())?;
    let middle = arm.median(lead).filter(|it| *it > 0.0)?;
    Some((lead.in_trial(trial)? / middle - 1.0) * 100.0)
}

/// The findings of the gates, gate by gate.
fn gates(run: &Run) -> Table {
    let mut table = Table::new(&["Noise", "median", "worst", "trials that saw it"]);
    let mut line = |name: &str, pick: &dyn Fn(&Trial) -> Option<f64>, say: fn(f64) -> String| {
        let values: Vec<f64> = run.trials.iter().filter_map(pick).collect();
        let worst = values.iter().copied().max_by(f64::total_cmp);
        if values.is_empty() {
            return;
        }
        table.row(vec![
            name.to_string(),
            words::or_none(median(&values), say),
            words::or_none(worst, say),
            format!("{} of {}", values.iter().filter(|&&it| it > 0.0).count(), run.trials.len()),
        ]);
    };
    let percent: fn(f64) -> String = |it| format!("{:.1} %", it * 100.0);
    let millis: fn(f64) -> String = |it| format!("{it:.1} ms");
    line("other processes", &|it| it.conditions.foreign, percent);
    line("stolen by the host", &|it| it.conditions.steal, percent);
    line("latest wake-up", &|it| it.conditions.hiccup_ms, millis);
    line("clock step", &|it| Some(it.conditions.clock_step_ms.abs()), millis);
    line("waiting for a processor", &|it| it.conditions.cpu_pressure, percent);
    line("waiting for memory", &|it| it.conditions.memory_pressure, percent);
    line("waiting for a disk", &|it| it.conditions.io_pressure, percent);
    let count: fn(f64) -> String = words::grouped;
    line("segments sent again", &|it| Some(it.conditions.retransmits? as f64), count);
    line("SYNs sent again", &|it| Some(it.conditions.syn_retransmits? as f64), count);
    line("accept queue full", &|it| Some(it.conditions.listen_overflows? as f64), count);
    table
}
