//! Further tables on the terminal: curves and system calls.

use crate::words;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, Table};
use lab::census::Census;
use lab::record::Run;
use lab::verdict::{Place, Summary, Sweep};
use language::tr;
use std::fmt::Write;

/// The further tables of a run: curves and system calls. Empty if the run has neither.
pub fn further(run: &Run, summary: &Summary, colour: bool) -> String {
    let mut text = String::new();
    for sweep in &summary.sweeps {
        let _ = writeln!(text, "{}\n{}\n", sweep.series, curves(sweep, colour));
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
    table.set_header(heads.iter().map(|head| Cell::new(tr(head)))).add_rows(rows);
    table
}
