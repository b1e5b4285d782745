//! The verdict table on the terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width};
use lab::verdict::{ArmSummary, Light, Metric, PointSummary, Summary, Verdict};
use pages::words;
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
                let _ = writeln!(text, "{}: not measured: {reason}", arm.arm);
            }
        }
        text.push('\n');
    }
    text
}

fn table(point: &PointSummary, baseline: &str, colour: bool) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let whole: u16 = WIDTHS.iter().sum();
    let roomy = table.width().is_none_or(|width| width >= whole);
    if roomy {
        table.set_width(whole);
    }
    if !colour {
        table.force_no_tty();
    }
    let speed = format!("speed vs {baseline}");
    let cost = format!("CPU vs {baseline}");
    let heads = ["arm", "requests/s", "p50", "p99", "CPU/req", "switches", "memory", &speed, &cost];
    table.set_header(heads.iter().copied().chain(["check"]).map(Cell::new));
    for arm in &point.arms {
        table.add_row(row(arm, colour));
    }
    for at in 1..=6 {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (at, width) in WIDTHS.into_iter().enumerate().filter(|_| roomy) {
        if let Some(column) = table.column_mut(at) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    table
}

fn row(arm: &ArmSummary, colour: bool) -> Vec<Cell> {
    if arm.absent.is_some() {
        let mut cells = vec![Cell::new(&arm.arm)];
        cells.extend((0..8).map(|_| Cell::new(words::NONE)));
        cells.push(Cell::new("not measured"));
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
    cells.extend([Metric::Throughput, Metric::Cpu].map(|metric| verdict(arm, metric, colour)));
    let worst = arm.light();
    let lamps: Vec<&str> = arm
        .lamps
        .iter()
        .filter(|lamp| lamp.light == worst)
        .map(|lamp| lamp.text.as_str())
        .collect();
    let (sign, shade) = match worst {
        Light::Green => ("ok:", Color::Green),
        Light::Amber => ("!", Color::Yellow),
        Light::Red => ("WRONG:", Color::Red),
    };
    cells.push(shaded(Cell::new(format!("{sign} {}", lamps.join("; "))), shade, colour));
    cells
}

fn verdict(arm: &ArmSummary, metric: Metric, colour: bool) -> Cell {
    let Some(judged) = arm.judged(metric) else {
        return Cell::new(if arm.baseline { "baseline" } else { words::NONE });
    };
    let text = format!("{}\n{}", words::ratio_with_interval(judged), words::verdict(judged));
    let shade = match judged.verdict {
        Verdict::Better => Color::Green,
        Verdict::Worse => Color::Red,
        Verdict::Equivalent => Color::Blue,
        Verdict::Unresolved | Verdict::GeneratorLimited => Color::Reset,
    };
    shaded(Cell::new(text), shade, colour)
}

fn shaded(cell: Cell, shade: Color, colour: bool) -> Cell {
    if colour { cell.fg(shade) } else { cell }
}
