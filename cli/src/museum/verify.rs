//! `roundhouse museum verify`: the records of exhibits judged, and put on one page of results.
//!
//! `museum all` runs exhibits and keeps their records. Here every record is read back, judged, and
//! compared with the conclusions that the exhibit expects. The exit code carries the worst of them:
//! 99 for an unexpected conclusion, 98 for an unresolved one.

use anyhow::{Context, Result, bail};
use document::Conclusion;
use language::{info, tr};
use museum::{EXHIBITS, Kept};
use pages::Repeated;
use pages::terminal::ruled;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tools::{MISSED, UNKNOWN, write};

/// The arguments of `museum verify`.
#[derive(clap::Args)]
pub struct Args {
    /// Raw files (.jsonl, .jsonl.gz), or folders of them
    #[arg(value_name = "PATH", required = true)]
    from: Vec<PathBuf>,
    /// Also write the results as a page and as Markdown into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the conclusions as JSON
    #[arg(long)]
    json: bool,
}

/// Judges the records. Exit code 98 if an exhibit is unresolved, 99 if one ends otherwise than
/// expected.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut kept = Vec::new();
    for source in &args.from {
        read(source, &mut kept)?;
    }
    let place = |name: &str| EXHIBITS.iter().position(|it| it.name() == name);
    kept.sort_by_key(|(_, it)| place(&it.exhibit));
    if kept.is_empty() {
        bail!("expected the record of an exhibit below {}, found none", args.from[0].display());
    }
    let results = judged(&kept, args.out.as_deref())?;
    match args.json {
        true => println!("{}", json(&results)?),
        false => println!("{}", table(&results)),
    }
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        write(&out.join("index.html"), pages::results(&results)?)?;
        write(&out.join("README.md"), pages::results_markdown(&results)?)?;
        info!("the results are {}", out.join("index.html").display());
    }
    Ok(code(&results))
}

fn code(results: &[Repeated]) -> ExitCode {
    let is_unexpected = |it: &Repeated| {
        let expected = museum::by_name(&it.document.exhibit).map(|it| it.text().expects);
        let concluded = it.document.conclusion;
        concluded != Conclusion::Unresolved && !expected.unwrap_or_default().contains(&concluded)
    };
    match results.iter().any(is_unexpected) {
        true => ExitCode::from(MISSED),
        _ if results.iter().any(|it| it.document.conclusion == Conclusion::Unresolved) => {
            ExitCode::from(UNKNOWN)
        }
        _ => ExitCode::SUCCESS,
    }
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
