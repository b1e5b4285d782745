//! The table of a race whose servers took turns: a row for each arm, the cheapest first.

use crate::words;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color};
use lab::verdict::{ArmSummary, RaceAnswer, Rank, Summary};

/// CPU per request at each load point, with its ratio to the baseline, and the memory of a silent
/// connection. The cheapest arms of a load point carry `=`. Two load points fit 80 columns.
pub fn answer(summary: &Summary, answer: &RaceAnswer, baseline: &str, colour: bool) -> String {
    let mut table = super::table(UTF8_HORIZONTAL_ONLY, colour);
    let mut heads = vec!["arm".to_string()];
    for cost in &answer.costs {
        heads.extend([cost.point.clone(), format!("× {baseline}")]);
    }
    let has_rooms = !answer.rooms.is_empty();
    if has_rooms {
        heads.push("silent".to_string());
    }
    table.set_header(heads.iter().map(|head| language::tr(head)));
    for arm in arms_by_cost(summary, answer) {
        let mut cells = vec![Cell::new(arm)];
        for cost in &answer.costs {
            let rank = cost.ranks.iter().find(|rank| rank.arm == arm);
            cells.extend(cost_cells(rank, baseline, colour));
        }
        if has_rooms {
            let room = answer.rooms.iter().find(|room| room.arm == arm);
            let room = room.map_or_else(|| words::NONE.to_string(), words::room);
            cells.push(Cell::new(language::tr(&room)));
        }
        table.add_row(cells);
    }
    let columns = table.column_count();
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for at in 1..columns {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("CPU per request\n{table}\n");
    let arms = summary.points.first().map(|point| point.arms.as_slice()).unwrap_or_default();
    for ArmSummary { arm, absent, .. } in arms {
        if let Some(reason) = absent {
            text.push_str(&format!("{arm}: not measured: {reason}\n"));
        }
    }
    text.push_str("= not told apart from the cheapest");
    if has_rooms {
        text.push_str("\nsilent: memory for each silent connection, or how many were answered");
    }
    super::folded(&language::tr(&text), 2) + "\n"
}

/// Why the dearer arms are dearer.
pub fn reasons(answer: &RaceAnswer) -> String {
    let mut text = String::new();
    let mut point = "";
    for reason in &answer.reasons {
        if point != reason.point {
            point = &reason.point;
            text += &format!("Why, at {point}\n");
        }
        text += &format!("  {}\n", reason.text);
    }
    super::folded(&language::tr(&text), 4)
}

/// The arms with a cost, by their cost at the first load point that has it.
pub fn arms_by_cost<'a>(summary: &'a Summary, answer: &'a RaceAnswer) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let ranked = answer.costs.iter().flat_map(|cost| &cost.ranks).map(|rank| rank.arm.as_str());
    let arms = summary.points.iter().flat_map(|point| &point.arms);
    let known = arms.filter(|arm| !arm.twin && arm.absent.is_none()).map(|arm| arm.arm.as_str());
    for name in ranked.chain(known) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn cost_cells(rank: Option<&Rank>, baseline: &str, colour: bool) -> [Cell; 2] {
    let Some(rank) = rank else { return [words::NONE; 2].map(Cell::new) };
    let mark = if rank.is_cheapest() { "= " } else { "" };
    let over = if rank.arm == baseline { "1".to_string() } else { words::over(rank.over_baseline) };
    let cost = Cell::new(format!("{mark}{}", words::time(rank.cpu_ns)));
    let cost = if colour && rank.is_cheapest() { cost.fg(Color::Green) } else { cost };
    [cost, Cell::new(over)]
}
