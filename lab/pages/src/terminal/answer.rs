//! The tables of a race: for each registered metric a row for each arm, a pair of columns for each
//! load point.
//!
//! `answer` is the table that a user reads after a race; the page's tables ask the same functions
//! for metrics, order of arms and words, so the two cannot disagree. A load point takes a median
//! and a ratio with its interval; as many points as fit are side by side, the others go into
//! further tables. Two servers at one point get a table of their metrics instead. A table that is
//! too wide first gives up blanks between columns, and only then folds its cells.

use crate::words;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement};
use lab::metric::Metric;
use lab::plan::Plan;
use lab::verdict::{ArmSummary, PointSummary, RaceAnswer, Summary};
use language::tr;
use stats::Decision;

/// The width of a pair of columns: a median, a ratio with its interval, and their padding.
const PAIR: u16 = 32;
/// The width of the names.
const NAMES: u16 = 14;

/// The median of every arm in each registered metric, and its ratio to the baseline. The cheapest
/// arms of a load point carry `=`. Two load points fit 80 columns.
pub fn answer(plan: &Plan, summary: &Summary, colour: bool) -> String {
    let alone = summary.points.iter().filter(|it| words::is_alone(plan, &it.point));
    let mut points: Vec<&PointSummary> = alone.collect();
    if points.is_empty() {
        points = summary.points.iter().collect();
    }
    let mut text = String::new();
    if let (2, [point]) = (plan.arms.len(), &points[..]) {
        return of_two(plan, summary, point, colour);
    }
    for (at, metric) in registered(plan, &points).into_iter().enumerate() {
        let blank = if at == 0 { "" } else { "\n" };
        text += &format!("{blank}{}\n", tr(&stats::words::capital(metric.name())));
        let here: Vec<&PointSummary> = points
            .iter()
            .copied()
            .filter(|it| it.arms.iter().any(|arm| arm.median(metric).is_some()))
            .collect();
        let most = usize::from((super::width().saturating_sub(NAMES) / PAIR).max(1));
        for chunk in here.chunks(most) {
            text += &table(plan, summary, chunk, metric, at == 0, colour);
        }
    }
    text += &unmeasured(summary);
    text += "\n= cheapest, or no difference found";
    if !summary.answer.rooms.is_empty() {
        text += "\nidle: memory per idle connection, or how many were answered";
    }
    super::folded(&tr(&text), 2) + "\n"
}

/// The servers that brought nothing.
fn unmeasured(summary: &Summary) -> String {
    let arms = summary.points.first().into_iter().flat_map(|it| &it.arms);
    let reason = |arm: &ArmSummary| {
        arm.absent.as_ref().map(|why| format!("{}: not measured: {why}\n", arm.arm))
    };
    arms.filter_map(reason).collect()
}

/// Two servers at one load point: a row for each metric.
fn of_two(plan: &Plan, summary: &Summary, point: &PointSummary, colour: bool) -> String {
    let mut table = super::table(super::rule(), colour);
    let over = format!("× {}", plan.baseline);
    let mut heads = vec![tr(&point.point).into_owned()];
    for arm in point.arms.iter().filter(|arm| !arm.twin) {
        heads.push(arm.arm.clone());
        heads.extend((!arm.baseline).then(|| over.clone()));
    }
    heads.extend(point.arms.iter().filter(|arm| arm.twin).map(|arm| arm.arm.clone()));
    table.set_header(&heads);
    for metric in registered(plan, &[point]) {
        if !point.arms.iter().any(|arm| arm.median(metric).is_some()) {
            continue;
        }
        let mut cells = vec![Cell::new(tr(metric.name()))];
        for arm in &point.arms {
            let [value, over] = pair(summary, point, &arm.arm, metric, colour);
            // The ratio next to it says which of two servers is cheaper.
            let value = Cell::new(value.content().trim_start_matches("= "));
            let value = value.set_alignment(CellAlignment::Right);
            cells.extend((!arm.twin).then_some(value));
            cells.extend((!arm.baseline).then_some(over));
        }
        table.add_row(cells);
    }
    if !summary.answer.rooms.is_empty() {
        let mut cells = vec![tr("idle connection").into_owned()];
        for arm in point.arms.iter().filter(|arm| !arm.twin) {
            let room = summary.answer.rooms.iter().find(|room| room.arm == arm.arm);
            cells.push(
                room.map_or_else(|| words::NONE.to_string(), |it| tr(&words::room(it)).into()),
            );
            cells.extend((!arm.baseline).then(String::new));
        }
        table.add_row(cells);
    }
    fitted(&mut table) + &unmeasured(summary)
}

fn table(
    plan: &Plan,
    summary: &Summary,
    points: &[&PointSummary],
    metric: Metric,
    is_first: bool,
    colour: bool,
) -> String {
    let mut table = super::table(super::rule(), colour);
    let mut heads = vec!["arm".to_string()];
    for point in points {
        heads.extend([point.point.clone(), format!("× {}", plan.baseline)]);
    }
    let has_rooms = is_first && !summary.answer.rooms.is_empty();
    if has_rooms {
        heads.push("idle".to_string());
    }
    table.set_header(heads.iter().map(|head| tr(head)));
    for arm in arms_in_order(summary, metric) {
        let mut cells = vec![Cell::new(arm)];
        for point in points {
            cells.extend(pair(summary, point, arm, metric, colour));
        }
        if has_rooms {
            let room = summary.answer.rooms.iter().find(|room| room.arm == arm);
            let room = room.map_or_else(|| words::NONE.to_string(), words::room);
            cells.push(Cell::new(tr(&room)));
        }
        table.add_row(cells);
    }
    fitted(&mut table)
}

/// The table as text, its figures to the right.
fn fitted(table: &mut comfy_table::Table) -> String {
    for at in 1..table.column_count() {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // The dynamic arrangement folds cells of a table that is nearly as wide as the terminal, so it
    // is the last resort: a table first gives up the second blank between its columns.
    let arrangement = table.content_arrangement();
    table.set_content_arrangement(ContentArrangement::Disabled);
    for padding in [1, 0] {
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, padding));
        });
        let whole = table.to_string();
        let width = whole.lines().map(stats::words::columns).max().unwrap_or(0);
        if width <= super::width().into() {
            return format!("{whole}\n");
        }
    }
    table.set_content_arrangement(arrangement);
    format!("{table}\n")
}

fn pair(
    summary: &Summary,
    point: &PointSummary,
    arm: &str,
    metric: Metric,
    colour: bool,
) -> [Cell; 2] {
    let none = || [words::NONE; 2].map(Cell::new);
    let Some(arm) = point.arms.iter().find(|it| it.arm == arm) else { return none() };
    let Some(value) = words::median(summary, &point.point, arm, metric) else { return none() };
    let judged = arm.judged(metric);
    let over = match judged {
        None if arm.baseline => "1".to_string(),
        None => words::NONE.to_string(),
        Some(it) => words::over(it.comparison.triple()),
    };
    let shade = match judged.filter(|_| colour && !arm.twin).map(|it| it.decision) {
        Some(Decision::Better) => Color::Green,
        Some(Decision::Worse) => Color::Red,
        Some(Decision::Equal) => Color::Blue,
        Some(Decision::Open) | None => Color::Reset,
    };
    let over = Cell::new(over);
    [Cell::new(value), if colour { over.fg(shade) } else { over }]
}

/// The metrics that are registered at one of the points, CPU per request first.
pub(crate) fn registered(plan: &Plan, points: &[&PointSummary]) -> Vec<Metric> {
    let at = |metric: &Metric| {
        plan.points.iter().any(|load| {
            points.iter().any(|it| it.point == load.name) && plan.registers(load, *metric)
        })
    };
    let mut found: Vec<Metric> = Metric::EVERY.into_iter().filter(at).collect();
    found.sort_by_key(|metric| *metric != Metric::Cpu);
    found
}

/// Why the costlier arms are costlier.
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
    super::folded(&tr(&text), 4)
}

/// The arms of a table: by their cost at the first load point that has it, in other metrics in the
/// plan's order; the twin comes last.
pub(crate) fn arms_in_order(summary: &Summary, metric: Metric) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let ranked = summary.answer.costs.iter().flat_map(|cost| &cost.ranks);
    let ranked = ranked.filter(|_| metric == Metric::Cpu).map(|rank| rank.arm.as_str());
    let arms = summary.points.iter().flat_map(|point| &point.arms);
    let known = arms.filter(|arm| arm.absent.is_none()).map(|arm| arm.arm.as_str());
    for name in ranked.chain(known) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
