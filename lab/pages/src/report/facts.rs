//! The facts next to the verdicts: validity at a glance, numbers, manifest.
//!
//! These parts answer whether a reader may believe the page. `lamps` sums up the race in five
//! lights: answers, settled comparisons, noise, disturbed trials, size. `numbers` has all medians,
//! and `manifest` what is needed to repeat the run. Columns without data are left out.

use super::outcomes::outcomes;
use crate::words;
use lab::plan::{Arm, LoadPoint, Model, Rate};
use lab::record::Run;
use lab::verdict::{ArmSummary, Metric, PointSummary, Summary};
use serde_json::{Value, json};
use stats::Decision;

/// One reason for trust or distrust: the light, the term that explains it, its name and value.
fn fact(light: &str, term: &str, name: &str, value: &str) -> Value {
    json!({ "light": light, "term": term, "name": name, "value": value })
}

fn light(is_amber: bool) -> &'static str {
    if is_amber { "amber" } else { "green" }
}

/// The validity of the whole race at a glance.
pub(super) fn lamps(run: &Run, summary: &Summary) -> Vec<Value> {
    let mut facts = vec![checked(run)];
    let arms = summary.points.iter().flat_map(|it| &it.arms).filter(|it| !it.twin);
    let judged = arms.flat_map(|arm| &arm.judged).filter(|it| it.registered);
    let all = judged.clone().count();
    let open = judged.filter(|it| it.decision == Decision::Open).count();
    let settled = format!("{} of {all} comparisons", all - open);
    facts.push(fact(light(open * 2 > all), "unresolved", "settled", &settled));
    facts.extend(noise(summary));
    let disturbed = match summary.objected {
        0 => "no trial".to_string(),
        count => words::counted(count, "trial"),
    };
    facts.push(fact(light(summary.objected > 0), "gate", "disturbed", &disturbed));
    // A race may end before its plan's last block.
    let label = lab::plan::Plan::label_for(run.blocks());
    let size = format!("{label}, {}", words::counted(run.blocks(), "block"));
    facts.push(fact(light(label == "smoke"), "smoke", "size", &size));
    facts
}

fn checked(run: &Run) -> Value {
    let results: Vec<_> = run.trials.iter().filter_map(|trial| trial.result()).collect();
    let looked: Vec<_> = results.iter().filter_map(|load| load.checked()).collect();
    let right = looked.iter().filter(|check| check.ok).count();
    let light = match (looked.len(), right) {
        (0, _) => "amber",
        (all, right) if right == all => "green",
        _ => "red",
    };
    let value = match looked.len() {
        0 => "not looked at".to_string(),
        all if right == all && all == results.len() => format!("right in all {all} trials"),
        all => format!("right in {right} of {all} trials"),
    };
    fact(light, "check", "answers", &value)
}

/// The largest A/A floor among the metrics that lead.
fn noise(summary: &Summary) -> Option<Value> {
    let floors = summary
        .points
        .iter()
        .flat_map(|point| point.floors.iter().filter(|it| it.metric == point.lead));
    let widest = floors.clone().map(|floor| floor.log).max_by(f64::total_cmp)?;
    let strayed = floors.clone().any(|floor| floor.strayed);
    let share = widest.exp() - 1.0;
    let value = match share {
        share if share < 1.0 => format!("up to ±{}", words::percent(share)),
        share => format!("up to {}", words::ratio(share + 1.0)),
    };
    Some(fact(light(strayed || share > 0.1), "floor", "noise", &value))
}

/// A column of the numbers: heading, term, value.
type Column = (&'static str, Option<&'static str>, fn(&ArmSummary) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("offered/s", Some("open"), |it| it.offered_rps.map(words::grouped)),
    ("requests/s", None, |it| it.median(Metric::Throughput).map(words::grouped)),
    ("capacity/s", Some("capacity"), |it| it.median(Metric::Capacity).map(words::grouped)),
    ("kept", Some("overload"), |it| it.kept_share.map(words::percent)),
    ("recovery", Some("overload"), |it| {
        it.median(Metric::Recovery).map(|ms| words::time(ms * 1e6))
    }),
    ("mean", Some("percentile"), |it| {
        // Races of earlier versions have no mean; by Little's law.
        let mean = it
            .median(Metric::Mean)
            .or_else(|| Some(it.in_flight? / it.median(Metric::Throughput)? * 1e9));
        mean.map(words::time)
    }),
    ("p50", Some("percentile"), |it| it.median(Metric::P50).map(words::time)),
    ("p99", Some("percentile"), p99),
    ("p99.9", Some("percentile"), |it| it.median(Metric::P999).map(words::time)),
    ("max", Some("percentile"), |it| it.median(Metric::Max).map(words::time)),
    ("in flight", Some("little"), |it| it.in_flight.map(|it| format!("{it:.1}"))),
    ("CPU/request", Some("cpu"), |it| it.median(Metric::Cpu).map(words::time)),
    ("switches/request", Some("switches"), |it| it.median(Metric::Switches).map(words::rate)),
    ("memory", Some("memory"), |it| it.median(Metric::Memory).map(words::size)),
    ("per idle client", Some("memory"), |it| {
        it.median(Metric::ConnectionMemory).map(|bytes| words::size(bytes / 1e3))
    }),
    ("peak memory", Some("memory"), |it| it.cost.as_ref()?.memory_peak_kb.map(words::size)),
    ("page faults", None, |it| it.cost.as_ref()?.faults_minor.map(words::grouped)),
    ("accept queue full", None, |it| met(it.cost.as_ref()?.listen_overflows)),
    ("SYNs again", None, |it| met(it.cost.as_ref()?.syn_retransmits)),
    ("generator busy", Some("busy"), |it| it.busy.map(words::percent)),
];

/// A count of what seldom happens, if it did.
fn met(count: Option<f64>) -> Option<String> {
    count.filter(|it| *it > 0.0).map(words::grouped)
}

/// The 99th percentile, or why there is none.
fn p99(arm: &ArmSummary) -> Option<String> {
    arm.median(Metric::P50)?;
    Some(arm.median(Metric::P99).map_or_else(|| "too few requests".to_string(), words::time))
}

/// The numbers of the separate load points, and those of points on curves. If all belong to curves,
/// all go into the first part.
pub(super) fn all_numbers(run: &Run, summary: &Summary) -> (Vec<Value>, Vec<Value>) {
    let plan = &run.manifest.plan;
    let (own, more): (Vec<&PointSummary>, Vec<&PointSummary>) =
        summary.points.iter().partition(|point| words::is_alone(plan, &point.point));
    let tables = |points: Vec<&PointSummary>| -> Vec<Value> {
        points.into_iter().map(|point| numbers(run, point)).collect()
    };
    if own.is_empty() { (tables(more), Vec::new()) } else { (tables(own), tables(more)) }
}

/// Medians at one load point; a column that no arm has is left out.
fn numbers(run: &Run, point: &PointSummary) -> Value {
    let load = run.manifest.plan.points.iter().find(|it| it.name == point.point);
    let has = |column: &&Column| point.arms.iter().any(|arm| (column.2)(arm).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let row = |arm: &ArmSummary| {
        let cell = |it: &&Column| (it.2)(arm).unwrap_or_else(|| words::NONE.to_string());
        let values = columns.iter().map(cell).chain([arm.trials.to_string()]);
        json!({ "arm": arm.arm, "absent": arm.absent, "values": values.collect::<Vec<_>>() })
    };
    let head = columns.iter().map(|it| (it.0, it.1)).chain([("trials", Some("block"))]);
    json!({
        "point": point.point,
        "what": load.map(what).unwrap_or_default(),
        // Headings, each with the term that explains it, if any.
        "head": head.collect::<Vec<_>>(),
        "rows": point.arms.iter().map(row).collect::<Vec<_>>(),
        "outcomes": outcomes(run, point),
    })
}

/// A load point in words.
fn what(load: &LoadPoint) -> String {
    let life = match load.requests_per_connection {
        0 => "connections stay open".to_string(),
        n => format!("a new connection after every {}", words::counted(n, "request")),
    };
    let clients = words::counted(u64::from(load.connections), "connection");
    let mut parts = match load.model {
        Model::Closed => {
            let depth = words::counted(u64::from(load.depth), "request");
            vec![clients, format!("{depth} in flight on each"), life]
        }
        Model::Open { rate, .. } => vec![format!("open load, {}", rate_words(rate)), clients, life],
        Model::Overload { factor } => {
            vec![format!("{factor} times what the arm can do, then half of it"), clients, life]
        }
        Model::Capacity { quantile, limit_ns, .. } => vec![
            format!(
                "the highest rate with {} % within {}",
                quantile * 100.0,
                words::time(limit_ns as f64)
            ),
            clients,
            life,
        ],
    };
    if load.idle > 0 {
        parts.push(format!("{} more that are idle", words::grouped(f64::from(load.idle))));
    }
    if !load.mix.is_empty() {
        parts.push(format!("mix {}", load.mix));
    }
    parts.join(", ")
}

fn rate_words(rate: Rate) -> String {
    match rate {
        Rate::Absolute(rps) => format!("{} requests/s", words::grouped(rps)),
        Rate::Slowest(share) => {
            format!("{} of what the slowest arm can do", words::percent(share))
        }
        Rate::Own(share) => format!("{} of what each arm can do", words::percent(share)),
    }
}

/// The reasons why system calls of arms could not be counted.
pub(super) fn uncounted(run: &Run) -> Vec<String> {
    let missing = run.census.iter().filter_map(|it| Some((it, it.missing.as_ref()?)));
    missing.map(|(it, why)| format!("{}, {}: {why}", it.arm, it.point)).collect()
}

/// The arms with their commands and programs.
pub(super) fn arms(run: &Run) -> Vec<Value> {
    let programs = &run.manifest.programs;
    let row = |arm: &Arm| {
        let program = programs.iter().find(|program| program.arm == arm.name);
        let program = program.map(|it| match it.version.as_str() {
            "" => it.hash.clone(),
            version => format!("{version}, {}", it.hash),
        });
        let command = arm.command.join(" ");
        json!({
            "name": arm.name, "note": arm.note, "command": command,
            "program": program.unwrap_or_default(),
        })
    };
    run.manifest.plan.arms.iter().map(row).collect()
}

/// The data needed to judge or repeat the run.
pub(super) fn manifest(run: &Run) -> Vec<(String, String)> {
    let it = &run.manifest;
    let plan = &it.plan;
    let machine = &it.host.machine;
    let mut rows: Vec<(&str, String)> = vec![
        ("Date", it.date.clone()),
        ("Command", it.command.clone()),
        ("Version", it.version.clone()),
        ("Commit", it.commit.clone().unwrap_or_else(|| "unknown".to_string())),
        ("Program (FNV-1a)", it.program.clone()),
        ("Plan (FNV-1a)", it.plan_hash.clone()),
        ("Seed", plan.seed.to_string()),
        ("Margin", words::percent(plan.margin)),
        ("Processor", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("Memory", words::size(machine.memory_kb as f64)),
        ("Kernel", machine.kernel.clone()),
        ("Virtual machine", if it.host.virtual_machine { "yes" } else { "no sign" }.to_string()),
        ("Placement", placement(run)),
        ("Gates", gates(run)),
    ];
    rows.extend(it.network.iter().map(|network| ("Network", network.words())));
    for sitting in &run.resumed {
        rows.push(("Resumed", sitting.date.clone()));
    }
    for pilot in &run.pilots {
        let speed = words::or_none(pilot.capacity_rps, words::grouped);
        let limit = if pilot.generator_limited { ", generator-limited" } else { "" };
        rows.push(("Pilot", format!("{}: {speed} requests/s{limit}", pilot.arm)));
    }
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn placement(run: &Run) -> String {
    match run.manifest.placement {
        Some(at) => format!(
            "server on core {}, generator on core {}; changed over in every second block",
            at.first, at.second
        ),
        None => "nothing pinned".to_string(),
    }
}

fn gates(run: &Run) -> String {
    let gates = &run.manifest.plan.gates;
    format!(
        "stolen time up to {}, other processes up to {}, clock steps up to {:.0} ms, wake-ups up \
         to {:.0} ms late, {} segments sent again, sums that agree (Little's law, flow balance)",
        words::percent(gates.steal_max),
        words::percent(gates.foreign_max),
        gates.clock_step_ms_max,
        gates.hiccup_ms_max,
        gates.retransmits_max
    )
}
