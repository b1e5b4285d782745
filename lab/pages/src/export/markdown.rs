//! Markdown: the verdicts of a run, for an issue or a pull request.

use crate::words;
use lab::doubts::{Doubt, Weight};
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{ArmSummary, Metric, PointSummary, Summary};
use std::fmt::Write;

/// The run as Markdown.
pub fn markdown(run: &Run, summary: &Summary, doubts: &[Doubt]) -> String {
    let plan = &run.manifest.plan;
    let mut text = format!("# {}\n\n{}\n\n", cell(&plan.question), cell(&summary.sentence));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{} · {} of {} ms windows · plan `{}` · {} · {}\n",
        cell(&plan.label),
        words::counted(plan.blocks, "block"),
        plan.window_ms,
        cell(&run.manifest.plan_hash),
        cell(&run.manifest.date),
        cell(&run.manifest.host.machine.cpu)
    );
    text += &tables(plan, summary);
    text + &reservations(doubts)
}

/// A short summary for a pull request: the answer, the conditions, the figures, the doubts.
/// `findings` are a word and a text for each condition.
pub fn summary(
    run: &Run,
    summary: &Summary,
    doubts: &[Doubt],
    findings: &[(&str, String)],
    page: &str,
) -> String {
    let plan = &run.manifest.plan;
    let mut text = format!("**{}**\n\n", summary.sentence.replace('<', "&lt;"));
    for (word, condition) in findings {
        let _ = writeln!(text, "- **{word}**: {}", cell(condition));
    }
    if !findings.is_empty() {
        text.push('\n');
    }
    text += &match (&plan.arms[..], &summary.points[..]) {
        ([_, _], [point]) => of_two(plan, summary, point),
        _ => tables(plan, summary),
    };
    text += &reservations(doubts);
    let notes = plan.arms.iter().filter(|arm| !arm.note.is_empty());
    for arm in notes {
        let _ = writeln!(text, "\n`{}`: {}", arm.name, cell(&arm.note));
    }
    let (blocks, hash) = (words::counted(run.blocks(), "block"), &run.manifest.plan_hash);
    let machine = cell(&run.manifest.host.machine.cpu);
    let date = &run.manifest.date;
    let _ = writeln!(
        text,
        "\n{blocks} · plan `{hash}` · {date} · {machine} · all intervals: `{page}`\n"
    );
    text
}

/// Two servers at one load point: a row for each registered metric.
fn of_two(plan: &Plan, summary: &Summary, point: &PointSummary) -> String {
    let base = &plan.baseline;
    let arm = |is_base: bool| {
        point.arms.iter().find(|arm| !arm.twin && arm.baseline == is_base && arm.absent.is_none())
    };
    let (Some(old), Some(new)) = (arm(true), arm(false)) else { return tables(plan, summary) };
    let (first, second) = (cell(base), cell(&new.arm));
    let mut text =
        format!("| | {first} | {second} | {second} / {first} | |\n|---|--:|--:|--:|---|\n");
    for metric in crate::terminal::registered(plan, &[point]) {
        let Some(judged) = new.judged(metric) else { continue };
        let value = |arm: &ArmSummary| {
            let shown = words::or_none(arm.median(metric), |value| words::value(metric, value));
            shown.trim_end_matches(" requests/s").to_string()
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            metric.name(),
            value(old),
            value(new),
            words::ratio_with_interval(judged),
            words::verdict(judged)
        );
    }
    text + "\n"
}

/// A table for each load point, with a row for each arm.
fn tables(plan: &Plan, summary: &Summary) -> String {
    let mut text = String::new();
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
    text
}

/// The doubts but those that are true of every race.
fn reservations(doubts: &[Doubt]) -> String {
    let named: Vec<&Doubt> = doubts.iter().filter(|it| it.weight != Weight::Limit).collect();
    let mut text = String::from(if named.is_empty() { "" } else { "\n## Doubts\n\n" });
    for doubt in named {
        let grave = if doubt.weight == Weight::Grave { "**wrong:** " } else { "" };
        let _ = writeln!(text, "- {grave}{}", cell(&doubt.text));
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
