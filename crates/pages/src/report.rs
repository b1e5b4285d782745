//! The report's page: the record and its conclusions, put into the shape that the template wants.
//!
//! Everything that is computed is computed here or in the laboratory; the template only places
//! words. It escapes them all; the four values marked safe there are made in this crate (style
//! sheet, script, packed plotly.js, SVG strips and chart figures).

use crate::charts::{self, Chart};
use crate::strip::{self, Axis};
use crate::{script, words};
use lab::doubts::{Doubt, Weight};
use lab::record::Run;
use lab::trial::{Ending, Trial};
use lab::verdict::{ArmSummary, Judged, Light, Metric, PointSummary, Summary, Verdict};
use minijinja::Environment;
use serde::Serialize;

/// Why there is no page.
#[derive(Debug)]
pub enum PageError {
    /// The template and its data do not fit: a mistake in this crate.
    Template(minijinja::Error),
    /// The chart script could not be packed.
    Script(std::io::Error),
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageError::Template(why) => write!(f, "the report's template failed: {why}"),
            PageError::Script(why) => write!(f, "the chart script cannot be packed: {why}"),
        }
    }
}

impl std::error::Error for PageError {}

/// What the template sees.
#[derive(Serialize)]
struct View<'a> {
    style: &'static str,
    code: &'static str,
    plotly: Option<String>,
    title: &'a str,
    label: &'a str,
    sentence: &'a str,
    size: String,
    baseline: &'a str,
    margin: String,
    points: Vec<&'a str>,
    matrix: Vec<MatrixRow>,
    axis: (String, String),
    examples: Vec<Example>,
    numbers: Vec<Numbers>,
    forests: Vec<Chart>,
    costs: Vec<Chart>,
    timeline: Option<Chart>,
    broken: &'a [String],
    doubts: Vec<(&'static str, &'a str)>,
    warnings: usize,
    manifest: Vec<(String, String)>,
    arms: Vec<(String, String, String)>,
    trials: Vec<TrialRow>,
    repeated: u32,
}

/// One arm across all load points.
#[derive(Serialize)]
struct MatrixRow {
    arm: String,
    note: String,
    twin: bool,
    cells: Vec<Cell>,
}

/// One arm at one load point.
#[derive(Serialize)]
struct Cell {
    point: String,
    absent: Option<String>,
    is_baseline: bool,
    lines: Vec<Line>,
    lamps: Vec<(&'static str, String)>,
}

/// One metric in a cell.
#[derive(Serialize)]
struct Line {
    metric: &'static str,
    class: &'static str,
    word: &'static str,
    ratio: String,
    interval: String,
    strip: String,
    aside: String,
}

/// An interval that explains a word.
#[derive(Serialize)]
struct Example {
    class: &'static str,
    word: &'static str,
    strip: String,
    text: &'static str,
}

/// Medians of all arms at one load point.
#[derive(Serialize)]
struct Numbers {
    point: String,
    what: String,
    rows: Vec<NumberRow>,
}

#[derive(Serialize)]
struct NumberRow {
    arm: String,
    absent: Option<String>,
    values: Vec<String>,
}

#[derive(Serialize)]
struct TrialRow {
    class: &'static str,
    values: Vec<String>,
    remark: String,
}

/// Makes the report of a run as one HTML page.
///
/// # Errors
/// Only if this crate is wrong; see [`PageError`].
pub fn report(run: &Run, summary: &Summary, doubts: &[Doubt]) -> Result<String, PageError> {
    let mut environment = Environment::new();
    environment
        .add_template("report.html", include_str!("report.html"))
        .map_err(PageError::Template)?;
    let view = view(run, summary, doubts, script::packed().map_err(PageError::Script)?);
    environment
        .get_template("report.html")
        .and_then(|template| template.render(minijinja::value::Serde(&view)))
        .map_err(PageError::Template)
}

fn view<'a>(
    run: &'a Run,
    summary: &'a Summary,
    doubts: &'a [Doubt],
    plotly: Option<String>,
) -> View<'a> {
    let plan = &run.manifest.plan;
    let judged = || summary.points.iter().flat_map(|it| &it.arms).flat_map(|it| &it.judged);
    let shown = |it: &&Judged| matches!(it.metric, Metric::Throughput | Metric::Cpu);
    let axis = Axis::holding(judged().filter(shown).flat_map(|it| {
        let ends = it.comparison.interval.map(|range| [range.low, range.high]);
        ends.into_iter().flatten().chain([it.comparison.ratio])
    }));
    let (low, high) = axis.ends();
    View {
        style: include_str!("report.css"),
        code: include_str!("report.js"),
        plotly,
        title: &plan.question,
        label: &plan.label,
        sentence: &summary.sentence,
        size: format!(
            "{} blocks, {} ms windows, {} trials",
            plan.blocks,
            plan.window_ms,
            run.trials.iter().filter(|trial| trial.counted).count()
        ),
        baseline: &plan.baseline,
        margin: format!("{:.0} %", plan.margin * 100.0),
        points: plan.points.iter().map(|point| point.name.as_str()).collect(),
        matrix: matrix(run, summary, axis),
        axis: (words::ratio(low), words::ratio(high)),
        examples: examples(),
        numbers: summary.points.iter().map(|point| numbers(run, point)).collect(),
        forests: charts::forests(run, summary),
        costs: charts::costs(run, summary),
        timeline: charts::timeline(run, summary),
        broken: &summary.broken,
        doubts: doubts.iter().map(|it| (weight(it.weight), it.text.as_str())).collect(),
        warnings: doubts.iter().filter(|it| it.weight != Weight::Limit).count(),
        manifest: manifest(run),
        arms: plan
            .arms
            .iter()
            .map(|arm| (arm.name.clone(), arm.note.clone(), arm.command.join(" ")))
            .collect(),
        trials: run.trials.iter().map(trial_row).collect(),
        repeated: summary.repeated,
    }
}

fn weight(weight: Weight) -> &'static str {
    match weight {
        Weight::Grave => "grave",
        Weight::Warning => "warning",
        Weight::Limit => "limit",
    }
}

fn matrix(run: &Run, summary: &Summary, axis: Axis) -> Vec<MatrixRow> {
    let entrants = run.manifest.plan.entrants();
    entrants
        .iter()
        .enumerate()
        .map(|(index, arm)| MatrixRow {
            arm: arm.name.clone(),
            note: arm.note.clone(),
            twin: summary.points.iter().any(|point| point.arms[index].twin),
            cells: summary.points.iter().map(|it| cell(it, &it.arms[index], axis)).collect(),
        })
        .collect()
}

fn cell(point: &PointSummary, arm: &ArmSummary, axis: Axis) -> Cell {
    let lines = [(Metric::Throughput, "speed"), (Metric::Cpu, "CPU")]
        .into_iter()
        .filter_map(|(metric, name)| Some(line(point, arm.judged(metric)?, name, axis)))
        // Nobody waits for the twin to be settled: it is there to show the noise.
        .map(|it| if arm.twin { Line { aside: String::new(), ..it } } else { it })
        .collect();
    let colour = |light: Light| match light {
        Light::Green => "green",
        Light::Amber => "amber",
        Light::Red => "red",
    };
    Cell {
        point: point.point.clone(),
        absent: arm.absent.clone(),
        is_baseline: arm.baseline,
        lines,
        lamps: arm.lamps.iter().map(|lamp| (colour(lamp.light), lamp.text.clone())).collect(),
    }
}

fn line(point: &PointSummary, judged: &Judged, name: &'static str, axis: Axis) -> Line {
    let class = class(judged.verdict);
    let ratio = words::ratio(judged.comparison.ratio);
    let aside = match (judged.forecast, judged.at_least) {
        (Some(blocks), _) => words::forecast(blocks),
        (None, true) => "at least so much: the generator was the limit".to_string(),
        (None, false) => String::new(),
    };
    Line {
        metric: name,
        class,
        word: judged.verdict.word(judged.metric),
        ratio,
        interval: judged.comparison.interval.as_ref().map(words::interval).unwrap_or_default(),
        strip: strip::draw(axis, class, point.floor(judged.metric), &judged.comparison),
        aside,
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "same",
        Verdict::Unresolved => "open",
        Verdict::GeneratorLimited => "limited",
    }
}

/// Four intervals that explain the four words.
fn examples() -> Vec<Example> {
    let axis = Axis::holding([1.3].into_iter());
    let floor = 1.06_f64.ln();
    [
        ("better", "faster", (1.10, 1.16, 1.22), "the whole interval lies beyond the grey band"),
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
        let interval = Some(lab::stats::Interval { low, high, cover: 0.969 });
        let found =
            lab::stats::Comparison { log_ratios: Vec::new(), ratio, interval, bootstrap: None };
        Example { class, word, strip: strip::draw(axis, class, floor, &found), text }
    })
    .collect()
}

fn numbers(run: &Run, point: &PointSummary) -> Numbers {
    let load = run.manifest.plan.points.iter().find(|it| it.name == point.point);
    let what = load.map_or_else(String::new, |load| {
        let life = match load.requests_per_connection {
            0 => "connections stay open".to_string(),
            n => format!("a new connection after every {n} requests"),
        };
        let depth = match load.depth {
            1 => "one request in flight on each".to_string(),
            depth => format!("{depth} requests in flight on each"),
        };
        let mix = if load.mix.is_empty() { String::new() } else { format!("; mix {}", load.mix) };
        format!("{} connections, {depth}, {life}{mix}", load.connections)
    });
    let rows = point
        .arms
        .iter()
        .map(|arm| NumberRow {
            arm: arm.arm.clone(),
            absent: arm.absent.clone(),
            values: vec![
                words::or_none(arm.throughput_rps, words::grouped),
                words::or_none(arm.p50_ns, words::time),
                words::or_none(arm.p99_ns, words::time),
                words::or_none(arm.cpu_ns, words::time),
                words::or_none(arm.switches, words::rate),
                words::or_none(arm.memory_kb, words::size),
                words::or_none(arm.busy, |busy| format!("{:.0} %", busy * 100.0)),
                arm.trials.to_string(),
            ],
        })
        .collect();
    Numbers { point: point.point.clone(), what, rows }
}

fn manifest(run: &Run) -> Vec<(String, String)> {
    let it = &run.manifest;
    let plan = &it.plan;
    let mut rows: Vec<(&str, String)> = vec![
        ("Date", it.date.clone()),
        ("Command", it.command.clone()),
        ("Version", it.version.clone()),
        ("Commit", it.commit.clone().unwrap_or_else(|| "unknown".to_string())),
        ("Program (FNV-1a)", it.program.clone()),
        ("Plan (FNV-1a)", it.plan_hash.clone()),
        ("Seed", plan.seed.to_string()),
        ("Processor", it.host.machine.cpu.clone()),
        ("Cores", it.host.machine.cores.to_string()),
        ("Memory", words::size(it.host.machine.memory_kb as f64)),
        ("Kernel", it.host.machine.kernel.clone()),
        ("Virtual machine", if it.host.virtual_machine { "yes" } else { "no sign" }.to_string()),
    ];
    rows.push((
        "Placement",
        match it.placement {
            Some(at) => format!(
                "server on core {}, generator on core {}; changed over in every second block",
                at.first, at.second
            ),
            None => "nothing pinned".to_string(),
        },
    ));
    let gates = &plan.gates;
    rows.push((
        "Gates",
        format!(
            "stolen time up to {:.0} %, other processes up to {:.0} %, clock steps up to {:.0} ms; \
         {} attempts",
            gates.steal_max * 100.0,
            gates.foreign_max * 100.0,
            gates.clock_step_ms_max,
            gates.attempts
        ),
    ));
    let settings = it.host.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).chain(settings).collect()
}

fn trial_row(trial: &Trial) -> TrialRow {
    let percent = |share: Option<f64>| words::or_none(share, |it| format!("{:.1}", it * 100.0));
    let mut values = vec![
        (trial.order + 1).to_string(),
        (trial.block + 1).to_string(),
        trial.point.clone(),
        trial.arm.clone(),
    ];
    let mut remarks = trial.objections.clone();
    match &trial.ending {
        Ending::Measured { load } => {
            values.extend([
                words::grouped(load.throughput_rps),
                words::or_none(Metric::Cpu.of(load), words::time),
                words::or_none(load.service.p50_ns, words::time),
                words::or_none(load.service.p99_ns, words::time),
            ]);
            if let Some(check) = load.check.as_ref().filter(|check| !check.ok) {
                remarks.push(format!("model check failed: {}", check.detail));
            }
        }
        Ending::Unavailable { reason } | Ending::Failed { reason } => {
            values.extend(std::iter::repeat_n(words::NONE.to_string(), 4));
            remarks.push(reason.clone());
        }
    }
    values.extend([percent(trial.conditions.foreign), percent(trial.conditions.steal)]);
    if !trial.counted {
        remarks.insert(0, "repeated".to_string());
    }
    if let Some(exit) = trial.exit.as_ref().filter(|_| !trial.exit_clean) {
        remarks.push(format!("server: {exit}"));
    }
    let class = if trial.counted { "" } else { "rejected" };
    TrialRow { class, values, remark: remarks.join("; ") }
}

#[cfg(test)]
mod tests;
