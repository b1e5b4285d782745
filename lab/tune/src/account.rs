//! The result of a search for people and for servers: a page, a table, a file of settings.
//!
//! `roundhouse tune` calls these functions once the search has ended; they compute nothing new.
//! `page` makes `tune.html`, `rows` the table on the terminal, and `settings` or `plan` the file
//! with the choice: settings for a server of this project, an arm of a plan for a foreign one. The
//! file begins with its origin (result, workload, machine, command) as comments.

use crate::search::{Advice, Finalist, Found};
use crate::space::Candidate;
use document::{Account, Axis, Mark, Plot, Point, Section, Series, Table};
use stats::words::{self, size};
use std::fmt::Write as _;

/// The facts that a reader needs next to the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// The workload in words.
    pub workload: String,
    /// The objective.
    pub objective: String,
    /// Requests a second.
    pub rate: f64,
    /// Requests in flight.
    pub in_flight: f64,
    /// Names and values: machine, date, program, command.
    pub facts: Vec<(String, String)>,
    /// Reasons for which one is costlier than the other, from counted system calls.
    pub reasons: Vec<String>,
    /// Candidates of the whole space.
    pub space: usize,
}

/// The finalists: headings, and for each its cells and its settings.
pub fn rows(found: &Found) -> ([String; 6], Vec<([String; 6], String)>) {
    let joined = |of: &mut dyn Iterator<Item = String>| of.collect::<Vec<String>>().join(" ");
    let loads = found.finalists.iter().take(1).flat_map(|it| &it.shares);
    let by_rate = found.finalists.iter().any(|it| it.rate.is_some());
    let heads = [
        "server".to_string(),
        format!("% in time at {}", joined(&mut loads.map(|it| it.0.to_string()))),
        if by_rate { "requests/s" } else { "CPU per request" }.to_string(),
        "over default".to_string(),
        "memory".to_string(),
        "threads".to_string(),
    ];
    let row = |it: &Finalist| {
        let over = it.over().filter(|_| it.candidate != found.default);
        let over = over.map(|(ratio, low, high)| format!("{ratio:.2} [{low:.2} {high:.2}]"));
        let mark = if it.candidate == found.choice { " *" } else { "" };
        let shares = &mut it.shares.iter().map(|it| format!("{:.1}", 100.0 * it.1));
        let cells = [
            format!("{}{mark}", it.candidate.server),
            joined(shares),
            match by_rate {
                true => words::or_none(it.rate, |it| format!("{it:.0}")),
                false => words::or_none(it.cpu_ns, words::time),
            },
            over.unwrap_or_else(|| "1".to_string()),
            words::or_none(it.memory_kb, size),
            words::or_none(it.threads, |it| format!("{it:.0}")),
        ];
        let settings = it.candidate.settings.iter().map(|(name, value)| format!("{name}={value}"));
        (cells, joined(&mut settings.into_iter()))
    };
    (heads, found.finalists.iter().map(row).collect())
}

/// The report page.
pub fn page(found: &Found, about: &About) -> Account {
    let mut steps = Table::new(&["server", "stage", "after block", "event"]);
    for it in &found.steps {
        let stage = it.stage.name().to_string();
        steps.row([it.candidate.to_string(), stage, it.block.to_string(), it.text.clone()]);
    }
    let mut facts = vec![
        ("Workload".to_string(), about.workload.clone()),
        ("Objective".to_string(), about.objective.clone()),
        ("Rate".to_string(), format!("{:.0} requests a second", about.rate)),
        ("Requests in flight".to_string(), format!("{:.1}, by Little's law", about.in_flight)),
        ("Tried".to_string(), format!("{} of {} candidates", found.tried, about.space)),
        ("Noise of one heat".to_string(), format!("{:.1} %", 100.0 * found.noise)),
    ];
    facts.extend(about.facts.iter().cloned());
    let unstable = found.finalists.iter().filter(|it| it.is_unstable());
    let mut doubts: Vec<String> = unstable
        .map(|it| {
            let range = 100.0 * it.range;
            format!("{}: its cost varied by {range:.0} % from heat to heat", it.candidate)
        })
        .collect();
    if found.disturbed > 0.0 {
        doubts.push(format!(
            "Other activity of the machine disturbed {:.0} % of the last stage's heats.",
            100.0 * found.disturbed
        ));
    }
    if found.verdict == Advice::Keep {
        doubts.push(format!(
            "A saving below {} cannot be seen with this noise and this number of blocks.",
            format_args!("{:.1} %", 100.0 * smallest(found))
        ));
    }
    Account {
        title: format!("Tuned: {}", about.workload),
        headline: found.sentence.clone(),
        sentences: about.reasons.clone(),
        sections: vec![
            Section {
                title: "The finalists compared with the default".to_string(),
                setup: "Fresh servers in every block, the same arrivals for all; * is the choice."
                    .to_string(),
                plot: Some(costs(&found.finalists)),
                numbers: table(found),
                ..Section::default()
            },
            Section {
                title: "In time at more and less load".to_string(),
                setup: "The share of all due requests that were answered within the objective."
                    .to_string(),
                plot: Some(shares(&found.finalists)),
                ..Section::default()
            },
            Section {
                title: "The path of the search".to_string(),
                setup: "Candidates leave when they fail, miss the objective that others keep, or \
                        cost more beyond doubt; neighbours of the leaders come in."
                    .to_string(),
                numbers: steps,
                ..Section::default()
            },
        ],
        facts,
        doubts,
    }
}

fn table(found: &Found) -> Table {
    let (heads, rows) = rows(found);
    let mut table = Table { head: heads.to_vec(), rows: Vec::new() };
    for (mut cells, settings) in rows {
        let name = [&cells[0][..], &settings].join(" ");
        cells[0] = name.trim().to_string();
        table.row(cells);
    }
    table
}

/// About the smallest saving that the last stage could have seen: half the widest interval.
fn smallest(found: &Found) -> f64 {
    let others = found.finalists.iter().filter(|it| it.candidate != found.default);
    let halves = others.filter_map(|it| it.over_default).map(|it| (it.2 - it.1) / 2.0);
    halves.fold(0.0, f64::max)
}

fn named(finalists: &[Finalist]) -> Axis {
    let names = finalists.iter().map(|it| it.candidate.to_string()).collect();
    Axis { names, ..Axis::default() }
}

fn costs(finalists: &[Finalist]) -> Plot {
    let point = |(at, it): (usize, &Finalist)| {
        let (ratio, low, high) = it.over()?;
        Some(Point { x: (at + 1) as f64, y: ratio, range: Some((low, high)) })
    };
    let points = finalists.iter().enumerate().filter_map(point);
    Plot {
        title: "Finalists over the default".to_string(),
        caption: "CPU per request, or the highest rate if that was searched; 95 % intervals."
            .to_string(),
        x: named(finalists),
        y: Axis { title: "ratio".to_string(), ..Axis::default() },
        series: vec![Series::measured("ratio", points).drawn_as(Mark::Point)],
    }
}

fn shares(finalists: &[Finalist]) -> Plot {
    let loads = finalists.iter().take(1).flat_map(|it| &it.shares);
    let loads = loads.map(|share| share.0.to_string()).collect();
    let line = |it: &Finalist| {
        let points = it.shares.iter().zip(1..);
        let points = points.map(|((_, share), at)| (f64::from(at), 100.0 * share));
        Series::measured(it.candidate.to_string(), points)
    };
    Plot {
        title: "Answered in time".to_string(),
        caption: "Load 1 is the rate of the workload.".to_string(),
        x: Axis { title: "load".to_string(), names: loads, ..Axis::default() },
        y: Axis { title: "% of the requests".to_string(), ..Axis::default() },
        series: finalists.iter().map(line).collect(),
    }
}

/// The settings of the choice as a file for `roundhouse serve --config`.
pub fn settings(found: &Found, about: &About) -> String {
    let mut text = head(found, about);
    let _ = writeln!(text, "engine = {:?}", found.choice.server);
    for (name, setting) in &found.choice.settings {
        let _ = writeln!(text, "{name} = {}", value(setting));
    }
    text
}

/// The choice among a foreign server's settings, as an arm of a plan.
pub fn plan(found: &Found, about: &About) -> String {
    let mut text = head(found, about);
    let Candidate { server, settings } = &found.choice;
    let _ = writeln!(text, "[[arm]]\npreset = {server:?}\nname = \"tuned\"");
    for (name, setting) in settings {
        let _ = writeln!(text, "directives.{name} = {}", value(setting));
    }
    text
}

fn value(text: &str) -> String {
    match text.parse::<u64>().is_ok() || ["true", "false"].contains(&text) {
        true => text.to_string(),
        false => format!("{text:?}"),
    }
}

/// The provenance, as comments.
fn head(found: &Found, about: &About) -> String {
    let mut lines = vec![
        found.sentence.clone(),
        format!("Workload: {}", about.workload),
        format!("Objective: {} at {:.0} requests a second", about.objective, about.rate),
    ];
    lines.extend(about.facts.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.iter().fold(String::new(), |text, line| text + "# " + &line.replace('\n', " ") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let choice = Candidate {
            server: "uring".to_string(),
            settings: [("edge", "true"), ("policy", "damped"), ("workers", "4")]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .to_vec(),
        };
        let finalist = |candidate: &Candidate, ratio: f64| Finalist {
            candidate: candidate.clone(),
            shares: vec![(1.0, 0.999), (1.2, 0.5)],
            cpu_ns: Some(20e3 * ratio),
            over_default: Some((ratio, ratio - 0.05, ratio + 0.05)),
            rate: None,
            decision: stats::Decision::Better,
            memory_kb: Some(3_000.0),
            threads: Some(4.0),
            range: 0.1,
        };
        let default = Candidate::usual("epoll");
        Found {
            finalists: vec![finalist(&default, 1.0), finalist(&choice, 0.8)],
            choice,
            default,
            verdict: Advice::Cheaper,
            is_kept: true,
            sentence: "Use uring.".to_string(),
            steps: Vec::new(),
            tried: 30,
            noise: 0.02,
            disturbed: 0.0,
        }
    }

    #[test]
    fn a_servers_file_has_its_provenance_and_plain_values() {
        let about = About {
            workload: "a page".to_string(),
            objective: "p99 < 5ms".to_string(),
            rate: 1000.0,
            facts: vec![("Machine".to_string(), "two\ncores".to_string())],
            ..About::default()
        };
        let want = "# Use uring.\n# Workload: a page\n\
            # Objective: p99 < 5ms at 1000 requests a second\n# Machine: two cores\n\
            engine = \"uring\"\nedge = true\npolicy = \"damped\"\nworkers = 4\n";
        assert_eq!(settings(&found(), &about), want);
        let plan = plan(&found(), &about);
        assert!(plan.contains("preset = \"uring\"") && plan.contains("directives.workers = 4\n"));
    }

    #[test]
    fn the_table_marks_the_choice_and_the_page_has_the_path() {
        let rows = table(&found()).rows;
        assert_eq!(rows[0][0..4], ["epoll", "99.9 50.0", "20.0 µs", "1"]);
        assert_eq!(rows[1][0], "uring * edge=true policy=damped workers=4");
        assert_eq!(rows[1][3], "0.80 [0.75 0.85]");
        let page = page(&found(), &About::default());
        assert_eq!((page.sections.len(), page.doubts.len()), (3, 0));
    }

    #[test]
    fn the_page_is_translated() {
        let found = Found { disturbed: 0.1, verdict: Advice::Keep, ..found() };
        let (page, korean) = (page(&found, &About::default()), language::korean());
        let plots = page.sections.iter().filter_map(|it| it.plot.as_ref());
        let plots = plots.flat_map(|it| [&it.title, &it.caption, &it.y.title]);
        let heads = page.sections.iter().flat_map(|it| it.numbers.head.iter());
        let texts = page.sections.iter().flat_map(|it| [&it.title, &it.setup]);
        let facts = page.facts.iter().skip(1).flat_map(|(name, value)| [name, value]);
        let all = texts.chain(heads).chain(plots).chain(facts).chain(&page.doubts);
        for text in all.filter(|it| it.contains(char::is_alphabetic)) {
            assert_ne!(korean.text(text), *text);
        }
    }
}
