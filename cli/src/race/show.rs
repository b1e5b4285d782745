//! The output at the end of a race: tables, doubts, conditions, files.
//!
//! `race`, `ab`, `explain` and `report` end with `conclude`: it analyses the record, writes the
//! page, and prints the sentence, the tables and the doubts. Decisions come from the laboratory;
//! this file chooses what goes where. Results go to stdout, doubts and conditions to stderr, so
//! that a script can read the one without the other. `conditions` turns `--fail-if` into an exit
//! code: 99 if one is met, 98 if one has no result, because a gate that has measured nothing is not
//! passed. In GitHub Actions the same findings become annotations and the summary of the job.

use anyhow::{Context, Result, anyhow};
use lab::condition::Condition;
use lab::doubts::{Doubt, Weight, doubts};
use lab::plan::Plan;
use lab::record::Run;
use lab::verdict::{Summary, analyse};
use language::{eprintln, info, println, tr};
use pages::charts::Past;
use pages::{export, terminal};
use stats::Decision;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The conclusions.
pub struct Shown {
    /// Nothing is wrong and something was measured.
    pub right: bool,
    /// Replies or balances were wrong.
    pub broken: bool,
}

/// Adds the figures of a run to a history, a file of JSON lines, and returns all its lines. A run
/// without an interval adds none.
pub fn history(run: &Run, file: &Path) -> Result<Vec<Past>> {
    let name = file.display();
    let mut all: Vec<Past> = Vec::new();
    if file.exists() {
        let text = sys::input::read(file, sys::input::LARGE);
        let text = String::from_utf8(text.with_context(|| format!("cannot read {name}"))?)?;
        for (at, line) in text.lines().enumerate() {
            let expected = || format!("{name}:{}: expected a line that --history wrote", at + 1);
            all.push(serde_json::from_str(line).with_context(expected)?);
        }
    }
    if let Some(past) = Past::of(run, &analyse(run)) {
        let line = serde_json::to_string(&past)? + "\n";
        let mut options = std::fs::OpenOptions::new();
        let opened = options.create(true).append(true).open(file);
        opened
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write {name}"))?;
        all.push(past);
    }
    Ok(all)
}

/// Prints the conclusions, as a table or as JSON, and writes the page, with the last runs of a
/// history, if it is named.
pub fn conclude(run: &Run, page: Option<&Path>, history: &[Past], json: bool) -> Result<Shown> {
    let summary = analyse(run);
    let doubts = doubts(run, &summary);
    if let Some(page) = page {
        tools::write(page, pages::report(run, &summary, &doubts, history)?)?;
    }
    if json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        print(&run.manifest.plan, run, &summary);
    }
    tell(&doubts);
    let measured =
        summary.points.iter().flat_map(|point| &point.arms).any(|arm| arm.absent.is_none());
    let broken = !summary.broken.is_empty();
    Ok(Shown { right: !broken && measured, broken })
}

fn print(plan: &Plan, run: &Run, summary: &Summary) {
    let colour = tools::screen::has_colours();
    // Texts are translated before they are folded.
    let put = |text: &str| std::println!("{}", terminal::folded(&tr(text), 0));
    put(&summary.sentence);
    std::println!();
    println!("{}", terminal::answer(plan, summary, colour));
    println!("{} blocks · plan {} · seed {}", run.blocks(), run.manifest.plan_hash, plan.seed);
    if !summary.answer.reasons.is_empty() {
        println!("\n{}", terminal::reasons(&summary.answer));
    }
    // Two closed load points are answered by the table above.
    let has_curves = plan.points.iter().any(|it| it.is_open() || !it.series.is_empty());
    let more = terminal::further(run, summary, colour);
    if has_curves && !more.is_empty() {
        println!("\n{}", more.trim_end());
    }
}

/// Prints the meaning of a plan.
pub fn plan(plan: &Plan, expected_ms: u64) {
    // Texts are translated line by line, before they are folded; a command stays as it is.
    let put = |text: &str| std::println!("{}", terminal::folded(text, 4));
    let print = |text: String| put(&tr(&text));
    print(plan.question.clone());
    let (seed, blocks, trials) = (plan.seed, plan.blocks, plan.trials());
    let about = expected_ms / 1_000;
    print(format!(
        "{} · plan {} · seed {seed} · {blocks} blocks · {trials} trials · about {about} s",
        plan.label,
        plan.hash()
    ));
    println!("\narms (baseline {})", plan.baseline);
    for arm in &plan.arms {
        put(&format!("  {}: {}", arm.name, arm.command.join(" ")));
    }
    println!("\nload points");
    for point in &plan.points {
        let (warmup_ms, window_ms) = plan.spans(point);
        print(format!(
            "  {}: {} connections, {warmup_ms} ms of warm-up, {window_ms} ms measured",
            point.name, point.connections
        ));
    }
    println!("\npre-registered");
    for point in &plan.points {
        let metrics: Vec<&str> = plan.registered(point).iter().map(|it| it.name()).collect();
        print(format!("  {}: {}", point.name, metrics.join(", ")));
    }
    let family = plan.family();
    println!("{family} comparisons; their intervals hold together");
}

/// Says beforehand if no block of the plan can lead to a verdict.
pub fn warn(plan: &Plan) {
    if let Some(why) = plan.hopeless() {
        info!("doubt: {why}");
    }
}

/// Says every doubt but those that are true of every race.
fn tell(doubts: &[Doubt]) {
    for doubt in doubts.iter().filter(|doubt| doubt.weight != Weight::Limit) {
        match doubt.weight {
            Weight::Grave => eprintln!("WRONG: {}", doubt.text),
            _ if std::io::stderr().is_terminal() => {
                info!("{}", terminal::folded(&tr(&format!("doubt: {}", doubt.text)), 2));
            }
            _ => info!("doubt: {}", doubt.text),
        }
    }
}

/// The value of `--summary` that means the page of a job in GitHub Actions.
const GITHUB: &str = "github";

/// Evaluates every condition, prints the findings, and returns the exit code that they demand, if
/// any: a gate that has measured nothing is not passed. Also returns a word and a text for each.
///
/// # Errors
/// If a condition is about an arm or a point that the run does not have.
pub fn conditions(run: &Run, asked: &[Condition]) -> Result<Demanded> {
    let (mut met, mut missing) = (false, false);
    let mut findings = Vec::new();
    asked.iter().filter_map(|it| it.objective.hint()).for_each(|hint| info!("{hint}"));
    let is_github = std::env::var_os("GITHUB_ACTIONS").is_some();
    for condition in asked {
        for finding in condition.ask(run).map_err(|why| anyhow!(why))? {
            let word = match finding.decision {
                Some(Decision::Worse) => "FAILED",
                Some(Decision::Better) => "passed",
                Some(Decision::Equal | Decision::Open) => "not settled",
                None => "NO RESULT",
            };
            met |= finding.decision == Some(Decision::Worse);
            missing |= finding.decision.is_none();
            let text = format!("{} at {}: {}", condition.text, finding.point, finding.text);
            eprintln!("{word}: {text}");
            if let (true, Some(level)) = (is_github, annotation(finding.decision)) {
                std::eprintln!("::{level} title=roundhouse::{word}: {text}");
            }
            findings.push((word, text));
        }
    }
    let code = match (met, missing) {
        (true, _) => Some(ExitCode::from(tools::MISSED)),
        (false, true) => Some(ExitCode::from(tools::UNKNOWN)),
        (false, false) => None,
    };
    Ok(Demanded { code, findings })
}

/// The exit code and the findings that the conditions of a race demand.
pub struct Demanded {
    /// The exit code, if they demand one.
    pub code: Option<ExitCode>,
    /// A word and a text for each.
    pub findings: Vec<(&'static str, String)>,
}

/// The level of a workflow command of GitHub Actions, which shows the finding next to the change.
fn annotation(decision: Option<Decision>) -> Option<&'static str> {
    match decision {
        Some(Decision::Worse) => Some("error"),
        None => Some("warning"),
        Some(_) => None,
    }
}

/// Where `--summary` writes: a file, or the page of a job.
pub fn summary_file(to: &Path) -> Result<PathBuf> {
    match to == Path::new(GITHUB) {
        true => std::env::var_os("GITHUB_STEP_SUMMARY").map(PathBuf::from).context(
            "expected $GITHUB_STEP_SUMMARY, which GitHub Actions sets, for --summary github; \
             elsewhere name a file",
        ),
        false => Ok(to.to_path_buf()),
    }
}

/// Writes the summary for a pull request; to the page of a job it is added.
pub fn summary(run: &Run, to: &Path, page: &Path, demanded: &Demanded) -> Result<()> {
    let (found, file) = (analyse(run), summary_file(to)?);
    let doubts = doubts(run, &found);
    let page = page.display().to_string();
    let text = export::summary(run, &found, &doubts, &demanded.findings, &page);
    let mut options = std::fs::OpenOptions::new();
    options.create(true);
    match to == Path::new(GITHUB) {
        true => options.append(true),
        false => options.write(true).truncate(true),
    };
    let written = options.open(&file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))
}
