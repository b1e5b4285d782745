//! `roundhouse engines`: the named architectures, all other combinations of the axes, and why some
//! are impossible.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::ContentArrangement;
use engines::{Accept, Container, PRESETS, Preset, Wait, WorkerCount, conflict};
use pages::terminal::{annotated, folded, ruled};
use serde_json::json;
use sys::uring::{Setup, Uring};

/// The flags of `roundhouse engines`.
#[derive(clap::Args)]
pub struct Args {
    /// Show all combinations of container, accept and wait, and why some are impossible
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print the named architectures as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.json {
        println!("{:#}", json!(PRESETS.iter().map(described).collect::<Vec<_>>()));
    } else if args.all {
        print!("{}", space());
    } else {
        print!("{}", named());
    }
    Ok(ExitCode::SUCCESS)
}

/// Why this machine cannot run the preset, if it cannot.
fn missing(preset: &Preset) -> Option<String> {
    if preset.needs_interface() {
        return sys::xdp::lack().map(|error| error.to_string());
    }
    if !matches!(preset.wait, Wait::Uring | Wait::Port) {
        return None;
    }
    // Closing a ring interrupts the thread that made it, so the probe has its own thread.
    let made = std::thread::Builder::new().spawn(|| Uring::new(&Setup::default()).map(drop));
    match made {
        Ok(made) => made.join().ok()?.err().map(|error| error.to_string()),
        Err(error) => Some(format!("no thread can try it: {error}")),
    }
}

fn described(preset: &Preset) -> serde_json::Value {
    json!({
        "name": preset.name,
        "container": preset.container.to_string(),
        "accept": preset.accept.to_string(),
        "wait": preset.wait.to_string(),
        "workers": workers(preset),
        "needs": preset.needs,
        "missing": missing(preset),
        "code": preset.code,
        "from": preset.from,
    })
}

fn workers(preset: &Preset) -> String {
    match preset.count {
        WorkerCount::Fixed(count) => count.to_string(),
        WorkerCount::Cores => "one a core".into(),
        WorkerCount::TwiceCores => "two a core".into(),
        WorkerCount::Connections => "per client".into(),
    }
}

fn named() -> String {
    let mut notes = String::new();
    let rows = PRESETS.iter().map(|preset| {
        let point = [preset.container.to_string(), preset.accept.to_string()];
        let [container, accept] = point;
        let workers = language::tr(&workers(preset)).into_owned();
        let cells = [preset.name.into(), container, accept, preset.wait.to_string(), workers];
        (cells, language::tr(&format!("needs {}", preset.needs)).into_owned())
    });
    let rows = annotated(["engine", "container", "accept", "wait", "workers"], rows);
    for preset in PRESETS {
        if let Some(reason) = missing(preset) {
            // Writing into a String cannot fail.
            let note = format!("Not on this machine: {} ({reason})", preset.name);
            let _ = writeln!(notes, "{}", language::tr(&note));
        }
    }
    let hints = [
        "A service runs unchanged on each: roundhouse serve stock --engine NAME",
        "An axis can be turned alone: --engine prefork --accept lock",
        "Every point, and why some cannot be: roundhouse engines --all",
        "The pictures: docs/engines.md",
    ];
    format!("{rows}\n{notes}{}\n", hints.map(language::tr).join("\n"))
}

/// All combinations: a table for each container, with numbered reasons below.
fn space() -> String {
    let mut text = String::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for &container in Container::ALL {
        let mut rows = ruled();
        rows.set_content_arrangement(ContentArrangement::Disabled);
        let heads = Accept::ALL.iter().map(Accept::to_string);
        rows.set_header(std::iter::once("wait".to_owned()).chain(heads));
        for &wait in Wait::ALL {
            let mut cells = vec![wait.to_string()];
            for &accept in Accept::ALL {
                cells.push(match conflict(container, accept, wait) {
                    None => name(container, accept, wait).unwrap_or("yes").to_owned(),
                    Some(reason) => {
                        let next = reasons.len() + 1;
                        format!("-[{}]", *reasons.entry(reason).or_insert(next))
                    }
                });
            }
            rows.add_row(cells);
        }
        let _ = writeln!(text, "{container}\n{rows}\n");
    }
    let mut list: Vec<(usize, &str)> = reasons.into_iter().map(|(why, at)| (at, why)).collect();
    list.sort_unstable();
    for (at, why) in list {
        let _ = writeln!(text, "{}", folded(&format!("[{at}] {}", language::tr(why)), 5));
    }
    let hint = "A point with a name is `--engine NAME`; any other: --container --accept --wait";
    text + &folded(&language::tr(hint), 0) + "\n"
}

fn name(container: Container, accept: Accept, wait: Wait) -> Option<&'static str> {
    let point = (container, accept, wait);
    PRESETS.iter().find(|preset| preset.point() == point).map(|preset| preset.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_row_and_every_point_a_cell() {
        let named = named();
        for preset in PRESETS {
            assert!(named.contains(preset.name), "{named}");
            let code = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/engines/src/");
            assert!(std::path::Path::new(code).join(preset.code).is_file(), "{}", preset.code);
        }
        let space = space();
        for line in named.lines().chain(space.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let refused = space.matches("-[").count();
        let all = Container::ALL.len() * Accept::ALL.len() * Wait::ALL.len();
        let open = space.matches(" yes ").count();
        assert_eq!(refused + open + PRESETS.len(), all, "{space}");
    }
}
