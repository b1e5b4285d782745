//! Tables on the terminal: verdicts first, then curves, costs and system calls.

use crate::words;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, Table, Width};
use lab::census::Census;
use lab::record::Run;
use lab::verdict::{ArmSummary, Light, Metric, Place, PointSummary, Summary, Sweep, Verdict};
use language::tr;
use std::fmt::Write;

/// Column widths, padding included, with which no cell wraps: `≥ 0.99× [0.87, 1.61]`.
const WIDTHS: [u16; 10] = [14, 12, 9, 9, 9, 10, 9, 26, 26, 20];

/// One table for each load point, under its name; reasons why an arm has no row beneath it.
pub fn tables(summary: &Summary, baseline: &str, colour: bool) -> String {
    let mut text = String::new();
    for point in &summary.points {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}\n{}", point.point, table(point, baseline, colour));
        for arm in &point.arms {
            if let Some(reason) = &arm.absent {
                let line = format!("{}: not measured: {reason}", arm.arm);
                let _ = writeln!(text, "{}", super::folded(&tr(&line), 2));
            }
        }
        text.push('\n');
    }
    text
}

/// All columns beside each other, or on a narrow terminal the figures above the verdicts.
fn table(point: &PointSummary, baseline: &str, colour: bool) -> String {
    let lead = match words::first(point.lead) {
        Metric::Throughput => "speed",
        Metric::P99 => "p99",
        other => other.key(),
    };
    let speed = format!("{lead} vs {baseline}");
    let cost = format!("CPU vs {baseline}");
    let heads = ["arm", "requests/s", "p50", "p99", "CPU/req", "switches", "memory", &speed, &cost];
    let heads: Vec<Cell> = heads.iter().copied().chain(["check"]).map(cell).collect();
    let rows: Vec<Vec<Cell>> = point.arms.iter().map(|arm| row(arm, point.lead, colour)).collect();
    let is_wide = super::width() >= WIDTHS.iter().sum();
    let parts: &[&[usize]] = match is_wide {
        true => &[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
        false => &[&[0, 1, 2, 3, 4, 5, 6], &[0, 7, 8, 9]],
    };
    let part = |columns: &&[usize]| {
        let some = |cells: &Vec<Cell>| columns.iter().map(|at| cells[*at].clone()).collect();
        let mut table = super::table(UTF8_HORIZONTAL_ONLY, colour);
        let (heads, rows): (Vec<Cell>, Vec<Vec<Cell>>) =
            (some(&heads), rows.iter().map(some).collect());
        table.set_header(heads).add_rows(rows);
        for (at, column) in columns.iter().zip(table.column_iter_mut()) {
            if (1..=6).contains(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if is_wide {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(WIDTHS[*at])));
            }
        }
        table.to_string()
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

fn row(arm: &ArmSummary, lead: Metric, colour: bool) -> Vec<Cell> {
    if arm.absent.is_some() {
        let mut cells = vec![Cell::new(&arm.arm)];
        cells.extend((0..8).map(|_| Cell::new(words::NONE)));
        cells.push(cell("not measured"));
        return cells;
    }
    let mut cells = vec![
        Cell::new(&arm.arm),
        Cell::new(words::or_none(arm.throughput_rps, words::grouped)),
        Cell::new(words::or_none(arm.p50_ns, words::time)),
        Cell::new(words::or_none(arm.p99_ns, words::time)),
        Cell::new(words::or_none(arm.cpu_ns, words::time)),
        Cell::new(words::or_none(arm.switches, words::rate)),
        Cell::new(words::or_none(arm.memory_kb, words::size)),
    ];
    cells.extend([words::first(lead), Metric::Cpu].map(|metric| verdict(arm, metric, colour)));
    let worst = arm.light();
    let worst_lamps = arm.lamps.iter().filter(|lamp| lamp.light == worst);
    let lamps: Vec<_> = worst_lamps.map(|lamp| tr(&lamp.text)).collect();
    let (sign, shade) = match worst {
        Light::Green => ("ok:", Color::Green),
        Light::Amber => ("!", Color::Yellow),
        Light::Red => ("WRONG:", Color::Red),
    };
    cells.push(shaded(Cell::new(format!("{} {}", tr(sign), lamps.join("; "))), shade, colour));
    cells
}

fn verdict(arm: &ArmSummary, metric: Metric, colour: bool) -> Cell {
    let Some(judged) = arm.judged(metric) else {
        return cell(if arm.baseline { "baseline" } else { words::NONE });
    };
    let mut text = format!("{}\n{}", words::ratio_with_interval(judged), words::verdict(judged));
    if !judged.registered && !arm.twin {
        text = format!("{text}\n{}", words::UNREGISTERED);
    }
    let shade = match judged.verdict {
        Verdict::Better => Color::Green,
        Verdict::Worse => Color::Red,
        Verdict::Equivalent => Color::Blue,
        Verdict::Unresolved | Verdict::GeneratorLimited => Color::Reset,
    };
    shaded(cell(&text), shade, colour)
}

/// A cell in the chosen language.
fn cell(text: &str) -> Cell {
    Cell::new(tr(text))
}

fn shaded(cell: Cell, shade: Color, colour: bool) -> Cell {
    if colour { cell.fg(shade) } else { cell }
}

/// The further tables of a run: curves with the scalability law, costs of whole process trees,
/// system calls. Empty if the run has none of them.
pub fn further(run: &Run, summary: &Summary, colour: bool) -> String {
    let mut text = String::new();
    for sweep in &summary.sweeps {
        let _ = writeln!(text, "{}\n{}", sweep.series, curves(sweep, colour));
        for curve in sweep.curves.iter().filter(|curve| !curve.words.is_empty()) {
            let line = format!("{}: {}", curve.arm, tr(&curve.words));
            let _ = writeln!(text, "{}", super::folded(&line, 2));
        }
        text.push('\n');
    }
    let costs: Vec<Vec<String>> = summary.points.iter().flat_map(cost_rows).collect();
    if !costs.is_empty() {
        let heads = ["load point", "arm", "CPU/req, whole tree", "in the kernel", "peak memory"];
        let more = ["forks", "threads", "killed", "page faults", "queue full"];
        let heads: Vec<&str> = heads.into_iter().chain(more).collect();
        let _ =
            writeln!(text, "{}\n{}\n", tr("cost beside the speed"), plain(&heads, costs, colour));
    }
    if !run.census.is_empty() {
        let rows = run.census.iter().map(census_row).collect();
        let heads = ["load point", "arm", "calls/req", "which"];
        let _ = writeln!(
            text,
            "{}\n{}\n",
            tr("system calls, counted apart"),
            plain(&heads, rows, colour)
        );
    }
    text
}

/// The columns of a cell of [`curves`]: `p99 12.3 ms`, and its padding.
const CURVE: u16 = 13;

/// One row for each point of a series, one column for each arm; as many tables as the width needs.
fn curves(sweep: &Sweep, colour: bool) -> String {
    let mut names: Vec<(f64, &str)> = Vec::new();
    for place in sweep.curves.iter().flat_map(|curve| &curve.places) {
        if !names.iter().any(|known| known.1 == place.point) {
            names.push((place.x, &place.point));
        }
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = usize::from((super::width() / CURVE).saturating_sub(1).max(1));
    let tables = sweep.curves.chunks(most).map(|curves| {
        let heads: Vec<&str> =
            std::iter::once("at").chain(curves.iter().map(|curve| curve.arm.as_str())).collect();
        let rows = names.iter().map(|(_, name)| {
            let cells = curves.iter().map(|curve| {
                let place = curve.places.iter().find(|place| place.point == *name);
                place.map_or_else(|| words::NONE.to_string(), |place| at(sweep.open, place))
            });
            std::iter::once(name.to_string()).chain(cells).collect()
        });
        plain(&heads, rows.collect(), colour).to_string()
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// A closed sweep shows its speed, an open curve the latency at its rate.
fn at(open: bool, place: &Place) -> String {
    let speed = words::or_none(place.throughput_rps, words::grouped);
    match open {
        false => format!("{speed}/s\n{}", words::or_none(place.p50_ns, words::time)),
        true => format!(
            "{speed}/s\np50 {}\np99 {}",
            words::or_none(place.p50_ns, words::time),
            words::or_none(place.p99_ns, words::time)
        ),
    }
}

fn cost_rows(point: &PointSummary) -> Vec<Vec<String>> {
    let arms = point.arms.iter().filter(|arm| !arm.twin);
    arms.filter_map(|arm| {
        let cost = arm.cost.as_ref()?;
        let count = |value: Option<f64>| words::or_none(value, words::grouped);
        Some(vec![
            point.point.clone(),
            arm.arm.clone(),
            words::or_none(cost.cpu_ns, words::time),
            words::or_none(cost.system_share, |share| format!("{:.0} %", share * 100.0)),
            words::or_none(cost.memory_peak_kb, words::size),
            count(cost.forks),
            count(cost.threads_created),
            count(cost.kills),
            count(cost.faults_minor),
            count(cost.listen_overflows),
        ])
    })
    .collect()
}

fn census_row(census: &Census) -> Vec<String> {
    let which = match &census.missing {
        Some(why) => why.clone(),
        None => {
            let some = census.calls.iter().filter(|it| it.per_request >= 0.001).take(6);
            let words: Vec<String> =
                some.map(|it| format!("{} {}", it.name, words::rate(it.per_request))).collect();
            words.join(", ")
        }
    };
    let all = words::or_none(census.per_request(), words::rate);
    vec![census.point.clone(), census.arm.clone(), all, which]
}

fn plain(heads: &[&str], rows: Vec<Vec<String>>, colour: bool) -> Table {
    let mut table = super::table(UTF8_HORIZONTAL_ONLY, colour);
    table.set_header(heads.iter().copied().map(cell)).add_rows(rows);
    table
}
