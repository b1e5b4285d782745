//! `roundhouse museum`: published measurements, repeated with their flaw and without it.
//!
//! The crate `museum` runs exhibits; this file turns flags into `Settings` and results into files.
//! A visit appends every measurement to `museum-EXHIBIT.jsonl` as it happens, and the page, the
//! table and the Markdown are made from that record, so a kept visit can be shown again. A flag
//! that changes nothing in an exhibit is refused, except on a tour of all of them.

pub mod progress;
mod verify;

use crate::far::Machines;
use anyhow::{Context, Result};
use document::Document;
use language::{info, tr};
use museum::{EXHIBITS, Exhibit, Kept, Scale, Settings};
use pages::terminal::ruled;
use progress::Progress;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tools::interrupt::watch;
use tools::race::room;
use tools::{INTERRUPTED, usage, write};

/// The arguments of `museum`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Exhibits, or `all`; without one they are listed
    #[arg(value_name = "EXHIBIT")]
    exhibits: Vec<String>,
    #[command(flatten)]
    sizes: Sizes,
    /// The page; the raw data goes next to it with `.jsonl`; with several exhibits a directory
    /// [default: museum-EXHIBIT.html]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write it as Markdown too, without charts; with several exhibits a directory
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Print one JSON document for each exhibit instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machines: Machines,
}

/// Further commands about exhibits.
#[derive(clap::Subcommand)]
enum Command {
    /// Judge each exhibit: reproduced, artefact explained, refuted, or unresolved
    Verify(verify::Args),
}

/// The size of an exhibit.
#[derive(clap::Args)]
struct Sizes {
    /// Multiply the clients' pauses by this factor, 0.001 to 1; every figure names the scale
    #[arg(long, default_value = "1", value_name = "FACTOR", value_parser = scale)]
    scale: Scale,
    /// Sizes of the crowd in place of the published ones
    #[arg(long, value_delimiter = ',', value_name = "N,…",
          value_parser = clap::value_parser!(u32).range(1..=2000))]
    clients: Option<Vec<u32>>,
    /// Blocks, runs and fresh pairs in place of each exhibit's own; an interval needs 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Seed of orders and requests
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u32,
    /// The smallest sizes of the exhibits that measure parts of a server: a look, not a claim
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The published sizes and lengths, which take hours
    #[arg(long)]
    full: bool,
}

/// Lists the exhibits or runs some. Exit code 1 if one could not be shown, 130 after Ctrl-C.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(Command::Verify(args)) = &args.command {
        return verify::run(args);
    }
    let settings = args.sizes.settings()?;
    if args.exhibits.is_empty() {
        list(&settings, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&args.exhibits).map_err(usage)?;
    let settings = Settings { far: args.machines.far()?, ..settings };
    // A tour gives each flag to the exhibits that know it.
    let is_tour = args.exhibits.iter().any(|name| name == "all");
    if let Some(refusal) = chosen.iter().filter(|_| !is_tour).find_map(|it| refused(it, &settings))
    {
        return Err(usage(refusal));
    }
    let stop = watch()?;
    let folder = chosen.len() > 1;
    for exhibit in chosen {
        let page = beside(args.report.as_deref(), exhibit.name(), "html", folder)?;
        let md = args.md.as_deref();
        let md = md.map(|it| beside(Some(it), exhibit.name(), "md", folder)).transpose()?;
        let raw = page.with_extension("jsonl");
        let far = settings.far.clone().filter(|_| exhibit.has_visitors());
        let settings = Settings { far, ..settings.clone() };
        // A tour goes on with the exhibits that it has not shown.
        let is_shown =
            |kept: Kept| !kept.interrupted && kept.command == settings.command(exhibit.name());
        if is_tour && settings.far.is_none() && Kept::read(&raw).is_ok_and(is_shown) {
            info!("{}: its record is {}", exhibit.name(), raw.display());
            continue;
        }
        let kept = visit(exhibit, &settings, &raw, &stop)?;
        let record = kept.document()?;
        let command = kept.command.clone() + &args.machines.words();
        show(&kept.shown()?, &command, &page, args.json.then_some(&record))?;
        if let Some(path) = md {
            write(&path, pages::export::exhibit(&record, &command)?)?;
        }
        info!(
            "{:.0} s; the page is {}, the raw data {}",
            record.took_s,
            page.display(),
            raw.display()
        );
        if record.interrupted {
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs an exhibit, with its progress on stderr.
fn visit(
    exhibit: &Exhibit,
    settings: &Settings,
    raw: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Kept> {
    let room = room("roundhouse-museum")?;
    let mut progress = Progress::new(&exhibit.text().title, exhibit.effort(settings));
    museum::visit(exhibit, settings, room.path(), raw, stop.clone(), &mut progress)
        .with_context(|| format!("exhibit {}", exhibit.name()))
}

/// Why an exhibit cannot be run with these settings, if one of them changes nothing in it.
fn refused(exhibit: &Exhibit, settings: &Settings) -> Option<String> {
    let (flag, why) = museum::ignored(exhibit, settings).into_iter().next()?;
    let name = exhibit.name();
    Some(format!("{flag} changes nothing in {name}: {why}; leave it out"))
}

impl Sizes {
    fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            exe: std::env::current_exe().context("cannot find this program's own file")?,
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("ROUNDHOUSE_COMMIT").map(String::from),
            scale: self.scale,
            clients: self.clients.clone(),
            blocks: self.blocks,
            seed: self.seed,
            quick: self.quick,
            full: self.full,
            far: None,
        })
    }
}

/// Prints an exhibit, or its record as JSON, and writes its page.
fn show(document: &Document, command: &str, path: &Path, json: Option<&Document>) -> Result<()> {
    if document.interrupted {
        info!("stopped; these are the results so far");
    }
    write(path, pages::exhibit(document, command)?)?;
    match json {
        Some(record) => println!("{}", serde_json::to_string(record)?),
        None => print!("{}", pages::terminal::exhibit(document)),
    }
    for doubt in &document.doubts {
        info!("doubt: {doubt}");
    }
    Ok(())
}

fn scale(text: &str) -> Result<Scale, String> {
    let least = Scale::LEAST;
    let found: Option<f64> = text.parse().ok();
    found
        .and_then(Scale::new)
        .ok_or_else(|| format!("expected a factor between {least} and 1, such as 0.1"))
}

/// The exhibits of these names, each once.
fn chosen(names: &[String]) -> Result<Vec<&'static Exhibit>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(EXHIBITS.iter().collect());
    }
    let mut chosen: Vec<&'static Exhibit> = Vec::new();
    for name in names {
        let exhibit = museum::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = EXHIBITS.iter().map(|it| it.name()).collect();
            let nearest = stats::words::nearest(name, known.iter().copied());
            let hint = nearest.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            format!("expected one of {} or all, found `{name}`{hint}", known.join(", "))
        })?;
        if chosen.iter().all(|it| it.name() != exhibit.name()) {
            chosen.push(exhibit);
        }
    }
    Ok(chosen)
}

/// The path of an exhibit's file.
fn beside(chosen: Option<&Path>, name: &str, kind: &str, folder: bool) -> Result<PathBuf> {
    let own = format!("museum-{name}.{kind}");
    let page = match chosen {
        Some(path) if folder || path.is_dir() => path.join(own),
        Some(path) => path.to_path_buf(),
        None => PathBuf::from(own),
    };
    if let Some(parent) = page.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
    }
    Ok(page)
}

fn list(settings: &Settings, json: bool) {
    if json {
        let rows: Vec<serde_json::Value> = EXHIBITS
            .iter()
            .map(|it| {
                let (effort, text) = (it.effort(settings), it.text());
                serde_json::json!({
                    "name": it.name(), "title": text.title, "about": text.about,
                    "steps": effort.steps, "seconds": effort.time.as_secs_f64(),
                    "scale": settings.scale.factor(),
                })
            })
            .collect();
        println!("{:#}", serde_json::Value::from(rows));
    } else {
        print!("{}", listed(settings));
    }
}

fn listed(settings: &Settings) -> String {
    let mut table = ruled();
    table.set_header(["exhibit", "shows that", "takes about"].map(tr));
    let mut total = Duration::ZERO;
    for exhibit in EXHIBITS {
        let time = exhibit.effort(settings).time;
        total += time;
        let about = exhibit.text().about;
        table.add_row([exhibit.name(), &tr(&about), &tr(&stats::words::span(time))]);
    }
    table.add_row(["all", "", &tr(&stats::words::span(total))]);
    let scale = settings.scale.words();
    let scale = if scale.is_empty() { scale } else { format!(" ({scale})") };
    let hint = format!("roundhouse museum EXHIBIT runs one{scale}; --scale 0.1 shortens waits");
    format!("{table}\n\n{}\n", tr(&hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = ["museum"].iter().chain(words);
        Cli::try_parse_from(words).map(|it| it.args).map_err(|why| why.to_string())
    }

    #[test]
    fn the_command_that_repeats_a_visit_holds_what_was_chosen() {
        fn check(words: &[&str], want: &str) {
            let args = parse(words).expect("good words");
            let settings = args.sizes.settings().expect("this program has a file");
            assert_eq!(settings.command("staircase"), want);
        }
        check(&["staircase"], "roundhouse museum staircase");
        check(
            &["all", "--scale", "0.05", "--clients", "1,20", "--blocks", "2", "--seed", "7"],
            "roundhouse museum staircase --scale 0.05 --clients 1,20 --blocks 2 --seed 7",
        );
    }

    #[test]
    fn wrong_words_are_refused_with_what_was_expected() {
        fn check(words: &[&str], want: &str) {
            let found = parse(words).err().unwrap_or_default();
            assert!(found.contains(want), "expected `{want}` in `{found}`");
        }
        check(&["all", "--scale", "2"], "between 0.001 and 1");
        check(&["all", "--scale", "NaN"], "between 0.001 and 1");
        check(&["all", "--clients", "0"], "--clients");
        let Err(found) = chosen(&["think-time".to_string(), "mona-lisa".to_string()]) else {
            panic!("there is no such exhibit")
        };
        assert!(found.contains("think-time") && found.contains("`mona-lisa`"), "{found}");
    }

    #[test]
    fn each_exhibit_is_shown_once() {
        let names = ["staircase", "staircase", "think-time"].map(String::from);
        let found = chosen(&names).map(|all| all.iter().map(|it| it.name()).collect::<Vec<_>>());
        assert_eq!(found, Ok(vec!["staircase", "think-time"]));
        assert_eq!(chosen(&["all".to_string()]).map(|all| all.len()), Ok(EXHIBITS.len()));
    }
}
