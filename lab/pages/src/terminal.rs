//! Tables for the terminal: the verdicts of a race, an exhibit of the museum.

mod answer;
mod exhibit;
mod race;

pub use answer::{answer, reasons};
pub(crate) use answer::{arms_in_order, registered};
pub use exhibit::exhibit;
pub use race::further;

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use stats::words;

/// The columns of text that no terminal shows.
const WIDTH: u16 = 80;

/// The columns of text on stdout: those of the terminal, or `WIDTH`.
pub fn width() -> u16 {
    Table::new().width().unwrap_or(WIDTH)
}

/// `text` with its lines broken at blanks to [`width`]; what follows a break is indented.
pub fn folded(text: &str, indent: usize) -> String {
    words::folded(text, width().into(), indent)
}

/// An empty table whose cells are folded to [`width`].
pub fn table(style: TableStyle, colour: bool) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width());
    if colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// A table with a line under its head and none between its rows.
pub fn ruled() -> Table {
    table(rule(), false)
}

/// A line under the head of a table, and none between its rows.
fn rule() -> TableStyle {
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'))
}

/// A table whose rows have a line of prose each, below the row: a column of prose would be squeezed
/// to a few letters on a terminal of 80 columns.
pub fn annotated<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = ([String; N], String)>,
) -> String {
    let mut table = ruled();
    table.set_content_arrangement(ContentArrangement::Disabled).set_header(heads);
    let mut notes = Vec::new();
    for (cells, note) in rows {
        table.add_row(cells);
        notes.push(note);
    }
    let table = table.to_string();
    let mut lines = table.lines().map(str::trim_end);
    let mut text: String = lines.by_ref().take(2).map(|line| format!("{line}\n")).collect();
    for (line, note) in lines.zip(notes) {
        text += &format!("{line}\n{}\n", folded(&format!("     {note}"), 5));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use lab::verdict::analyse;

    #[test]
    fn a_race_fits_where_no_terminal_is() {
        let mut run = sample::whole();
        // Many arms, one of a long name.
        let long = "a-server-of-ones-own-with-a-name-that-is-longer-than-a-column";
        for (at, more) in ["redis", "nginx", "haproxy", "tokio", long].iter().enumerate() {
            let trials: Vec<_> =
                run.trials.iter().filter(|it| it.arm == "uring").cloned().collect();
            run.trials.extend(
                trials.into_iter().map(|it| lab::trial::Trial { arm: (*more).to_string(), ..it }),
            );
            let arm = run.manifest.plan.arms[at % 2].clone();
            run.manifest.plan.arms.push(lab::plan::Arm { name: (*more).to_string(), ..arm });
        }
        let summary = analyse(&run);
        let text = answer(&run.manifest.plan, &summary, false) + &further(&run, &summary, false);
        assert!(text.contains("haproxy") && text.contains("system calls") && text.len() > 10_000);
        for line in text.lines() {
            assert!(words::columns(line) <= usize::from(WIDTH), "{line}");
        }
    }
    #[test]
    fn two_servers_at_one_load_point_have_a_row_for_each_metric() {
        let mut run = sample::small();
        let plan = &mut run.manifest.plan;
        plan.points.truncate(1);
        plan.arms.retain(|arm| ["epoll", "prefork"].contains(&arm.name.as_str()));
        plan.metrics = vec![lab::metric::Metric::Cpu, lab::metric::Metric::P50];
        let text = answer(&run.manifest.plan, &analyse(&run), false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("depth 1") && lines[0].contains("× epoll"), "{text}");
        assert!(lines[2].starts_with("CPU per request") && lines[3].starts_with("median latency"));
        assert!(lines.iter().all(|line| words::columns(line) <= usize::from(WIDTH)), "{text}");
    }
}
