//! `roundhouse museum verify`: every exhibit run or read, judged, and put on one page of results.
//!
//! Without `--from`, exhibits that the folder does not hold are run first, each only while the
//! machine is quiet (or with `--busy`). Then every record is read back, judged, and compared with
//! the conclusions that the exhibit expects. The exit code carries the worst of them: 99 for an
//! unexpected conclusion, 98 for an unresolved one. One call need not finish: with `--budget` the
//! next call continues.

use super::{Sizes, chosen, refused, visit};
use crate::race::INTERRUPTED;
use anyhow::{Context, Result, bail};
use document::Conclusion;
use language::{eprintln, info, tr};
use museum::{EXHIBITS, Exhibit, Kept, Settings, is_quiet};
use pages::Repeated;
use pages::terminal::ruled;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tools::interrupt::watch;
use wire::conf::span;

/// The time for which the machine is watched before an exhibit.
const LOOK: Duration = Duration::from_secs(2);
/// Looks before an exhibit is left for later because the machine is not quiet.
const LOOKS: u32 = 15;
/// The exit code if an exhibit is unresolved.
const UNRESOLVED: u8 = 98;
/// The exit code if an exhibit ends otherwise than expected.
const UNEXPECTED: u8 = 99;

/// The arguments of `museum verify`.
#[derive(clap::Args)]
pub struct Args {
    /// Exhibits; without one all
    #[arg(value_name = "EXHIBIT")]
    exhibits: Vec<String>,
    /// Judge kept runs and run nothing: raw files (.jsonl, .jsonl.gz), or folders of them
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["out", "budget"])]
    from: Vec<PathBuf>,
    /// The folder of raw data and pages; exhibits that it holds are not run again
    #[arg(long, default_value = "museum", value_name = "DIR")]
    out: PathBuf,
    /// End in this time, the shortest exhibits first; the next call runs the others
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    /// Run also while other programs use the machine; then nothing is a claim
    #[arg(long)]
    busy: bool,
    #[command(flatten)]
    sizes: Sizes,
    /// Print the conclusions as JSON
    #[arg(long)]
    json: bool,
}

/// Runs or reads the exhibits, and judges them. Exit code 98 if one is unresolved, 99 if one ends
/// otherwise than expected, 1 if one could not be run, 130 after Ctrl-C.
pub fn run(args: &Args) -> Result<ExitCode> {
    let all = ["all".to_string()];
    let exhibits = match chosen(if args.exhibits.is_empty() { &all } else { &args.exhibits }) {
        Ok(exhibits) => exhibits,
        Err(unknown) => {
            eprintln!("roundhouse museum verify: {unknown}");
            return Ok(ExitCode::from(2));
        }
    };
    let settings = args.sizes.settings()?;
    let named = exhibits.iter().filter(|_| !args.exhibits.is_empty());
    if let Some(refusal) = named.copied().find_map(|it| refused(it, &settings)) {
        eprintln!("roundhouse museum verify: {refusal}");
        return Ok(ExitCode::from(2));
    }
    let mut ended = Ended::Whole;
    let sources = match args.from.is_empty() {
        true => {
            ended = play(args, &exhibits, &settings)?;
            std::slice::from_ref(&args.out)
        }
        false => &args.from,
    };
    let mut kept = Vec::new();
    for source in sources {
        read(source, &mut kept)?;
    }
    kept.retain(|(_, it)| exhibits.iter().any(|exhibit| exhibit.name() == it.exhibit));
    let place = |name: &str| EXHIBITS.iter().position(|it| it.name() == name);
    kept.sort_by_key(|(_, it)| place(&it.exhibit));
    if kept.is_empty() && ended == Ended::Whole {
        bail!("expected the record of an exhibit below {}, found none", sources[0].display());
    }
    let results = judged(&kept, args.from.is_empty().then_some(&*args.out))?;
    match args.json {
        true => println!("{}", json(&results)?),
        false => println!("{}", table(&results)),
    }
    if args.from.is_empty() {
        write(&args.out.join("index.html"), pages::results(&results)?)?;
        write(&args.out.join("README.md"), pages::results_markdown(&results)?)?;
        info!("the results are {}", args.out.join("index.html").display());
    }
    Ok(ended.code(&results))
}

/// How the exhibits ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All of them were run.
    Whole,
    /// Some were left for the next call.
    Left,
    /// Ctrl-C.
    Stopped,
}

impl Ended {
    fn code(self, results: &[Repeated]) -> ExitCode {
        let conclusions =
            || results.iter().map(|it| (&it.document.exhibit, it.document.conclusion));
        let unexpected = |(name, found): (&String, Conclusion)| {
            let expected = museum::by_name(name).map(|it| it.text().expects).unwrap_or_default();
            found != Conclusion::Unresolved && !expected.contains(&found)
        };
        let is_open = conclusions().any(|it| it.1 == Conclusion::Unresolved);
        match self {
            Ended::Stopped => ExitCode::from(INTERRUPTED),
            _ if conclusions().any(unexpected) => ExitCode::from(UNEXPECTED),
            _ if is_open || self == Ended::Left => ExitCode::from(UNRESOLVED),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Runs all exhibits that the folder does not hold and the budget allows.
fn play(args: &Args, exhibits: &[&'static Exhibit], settings: &Settings) -> Result<Ended> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let (stop, begun) = (watch()?, Instant::now());
    let mut exhibits = exhibits.to_vec();
    if args.budget.is_some() {
        exhibits.sort_by_key(|it| it.effort(settings).time);
    }
    let mut ended = Ended::Whole;
    for exhibit in exhibits {
        let name = exhibit.name();
        let raw = args.out.join(format!("museum-{name}.jsonl"));
        let settings = suited(exhibit, settings);
        let known = |path: &Path| {
            let same = |it: Kept| it.command == settings.command(name);
            !settings.fresh && Kept::read(path).is_ok_and(same)
        };
        if known(&raw) || known(&raw.with_extension("jsonl.gz")) {
            info!("{name}: its record is in {}", args.out.display());
            continue;
        }
        let time = exhibit.effort(&settings).time;
        if args.budget.is_some_and(|budget| begun.elapsed() + time > budget) {
            info!("{name}: left for the next call; it takes {}", stats::words::span(time));
            ended = Ended::Left;
            continue;
        }
        let mut looks = (0..LOOKS).map(|_| is_quiet(LOOK));
        let quiet = if args.busy {
            Ok(())
        } else {
            looks.find(Result::is_ok).unwrap_or_else(|| is_quiet(LOOK))
        };
        if let Err(why) = quiet {
            info!("{name}: left for the next call; {why}");
            ended = Ended::Left;
            continue;
        }
        let kept = visit(exhibit, &settings, &raw, &stop)?;
        if kept.interrupted {
            return Ok(Ended::Stopped);
        }
        let document = kept.document()?;
        write(&raw.with_extension("html"), pages::exhibit(&document, &kept.command)?)?;
        write(&raw.with_extension("md"), pages::export::exhibit(&document, &kept.command))?;
        info!("{name}: {}; {}", document.conclusion, document.concluded);
    }
    Ok(ended)
}

/// The settings without those that change nothing in the exhibit: a tour gives each flag to the
/// exhibits that know it.
fn suited(exhibit: &Exhibit, settings: &Settings) -> Settings {
    let mut suited = settings.clone();
    for (flag, _) in museum::ignored(exhibit, settings) {
        match flag {
            "--quick" => suited.quick = false,
            "--full" => suited.full = false,
            "--scale" => suited.scale = museum::Scale::WHOLE,
            "--clients" => suited.clients = None,
            "--blocks" => suited.blocks = None,
            _ => {}
        }
    }
    suited
}

/// The records in a file, or below a folder.
fn read(source: &Path, kept: &mut Vec<(PathBuf, Kept)>) -> Result<()> {
    if source.is_dir() {
        let entries =
            fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_raw = name.ends_with(".jsonl") || name.ends_with(".jsonl.gz");
            if path.is_dir() {
                read(&path, kept)?;
            } else if is_raw && name.starts_with("museum-") {
                match Kept::read(&path) {
                    Ok(found) => kept.push((path, found)),
                    Err(why) => info!("{why}"),
                }
            }
        }
        return Ok(());
    }
    kept.push((source.to_path_buf(), Kept::read(source)?));
    Ok(())
}

/// The documents of kept runs; links start at `folder`.
fn judged(kept: &[(PathBuf, Kept)], folder: Option<&Path>) -> Result<Vec<Repeated>> {
    let one = |(path, kept): &(PathBuf, Kept)| {
        let link = |path: &Path| match folder.and_then(|folder| path.strip_prefix(folder).ok()) {
            Some(path) => path.display().to_string(),
            None => path.display().to_string(),
        };
        let page = PathBuf::from(path.display().to_string().trim_end_matches(".gz"));
        let page = page.with_extension("html");
        Ok(Repeated {
            document: kept.document()?,
            date: kept.date.clone(),
            command: kept.command.clone(),
            raw: link(path),
            page: if page.exists() { link(&page) } else { String::new() },
        })
    };
    kept.iter().map(one).collect()
}

fn table(results: &[Repeated]) -> String {
    let mut table = ruled();
    table.set_header(["exhibit", "conclusion", "because"].map(tr));
    for it in results {
        let it = &it.document;
        table.add_row([it.exhibit.as_str(), &tr(&it.conclusion.to_string()), &it.concluded]);
    }
    table.to_string()
}

fn json(results: &[Repeated]) -> Result<String> {
    let row = |it: &Repeated| {
        let document = &it.document;
        let expected = museum::by_name(&document.exhibit).map(|it| it.text().expects);
        serde_json::json!({
            "exhibit": document.exhibit, "published": document.published,
            "conclusion": document.conclusion, "concluded": document.concluded,
            "expected": expected, "findings": document.findings, "why": document.why,
            "command": it.command, "date": it.date, "raw": it.raw,
        })
    };
    let rows: Vec<serde_json::Value> = results.iter().map(row).collect();
    Ok(serde_json::to_string_pretty(&rows)?)
}

fn write(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
