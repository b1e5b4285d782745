//! Markdown: the verdicts of a run, for an issue or a pull request.

use crate::words;
use lab::doubts::{Doubt, Weight};
use lab::record::Run;
use lab::verdict::{ArmSummary, Metric, Summary};
use std::fmt::Write;

/// The run as Markdown.
pub fn markdown(run: &Run, summary: &Summary, doubts: &[Doubt]) -> String {
    let plan = &run.manifest.plan;
    let mut text = format!("# {}\n\n{}\n\n", cell(&plan.question), cell(&summary.sentence));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{} · {} blocks of {} ms windows · plan `{}` · {} · {}\n",
        plan.label,
        plan.blocks,
        plan.window_ms,
        run.manifest.plan_hash,
        run.manifest.date,
        cell(&run.manifest.host.machine.cpu)
    );
    for point in &summary.points {
        let lead = words::first(point.lead).name();
        let _ = writeln!(text, "## {}\n", cell(&point.point));
        let _ = writeln!(
            text,
            "| arm | requests/s | p50 | p99 | CPU/request | memory | {lead} against {base} | CPU \
             against {base} | check |\n|---|--:|--:|--:|--:|--:|---|---|---|",
            base = cell(&plan.baseline)
        );
        for arm in &point.arms {
            text.push_str(&row(arm, words::first(point.lead)));
        }
        text.push('\n');
    }
    for sweep in &summary.sweeps {
        for curve in sweep.curves.iter().filter(|curve| !curve.words.is_empty()) {
            let _ = writeln!(text, "- {}, {}: {}", sweep.series, cell(&curve.arm), curve.words);
        }
    }
    let told: Vec<&Doubt> = doubts.iter().filter(|it| it.weight != Weight::Limit).collect();
    if !told.is_empty() {
        text.push_str("\n## Doubts\n\n");
        for doubt in told {
            let grave = if doubt.weight == Weight::Grave { "**wrong:** " } else { "" };
            let _ = writeln!(text, "- {grave}{}", cell(&doubt.text));
        }
    }
    text
}

fn row(arm: &ArmSummary, lead: Metric) -> String {
    if let Some(why) = &arm.absent {
        let nothing = words::NONE;
        let name = cell(&arm.arm);
        return format!(
            "| {name} |{}| not measured: {} |\n",
            format!(" {nothing} |").repeat(6) + " ",
            cell(why)
        );
    }
    let judged = |metric: Metric| match arm.judged(metric) {
        None if arm.baseline => "baseline".to_string(),
        None => words::NONE.to_string(),
        Some(it) => {
            let text = format!("{} **{}**", words::ratio_with_interval(it), words::verdict(it));
            match it.registered || arm.twin {
                true => text,
                false => format!("{text}, {}", words::UNREGISTERED),
            }
        }
    };
    let lamps: Vec<&str> = arm.lamps.iter().map(|lamp| lamp.text.as_str()).collect();
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        cell(&arm.arm),
        words::or_none(arm.median(Metric::Throughput), words::grouped),
        words::or_none(arm.median(Metric::P50), words::time),
        words::or_none(arm.median(Metric::P99), words::time),
        words::or_none(arm.median(Metric::Cpu), words::time),
        words::or_none(arm.median(Metric::Memory), words::size),
        judged(lead),
        judged(Metric::Cpu),
        cell(&lamps.join("; "))
    )
}

/// Text that cannot end a cell or begin markup.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '|' | '*' | '`' | '\\' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
