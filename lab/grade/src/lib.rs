//! Tries a student's stock server: its replies, its books, its file, and its conduct with clients
//! that are slow, idle or gone; a score with the reason for each lost point.
//!
//! `trials` is their table. `market` and `linear` decide without I/O: the meaning of replies, the
//! book, and whether a history is linearisable. `stand` is the place of one trial, with a fresh
//! server; `confined` is that server as a process with limits. `score` is the result.

mod client;
mod confined;
mod given;
mod linear;
mod market;
mod score;
mod stand;
mod trials;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use checkup::again;
use tools::course::detect;
use wire::framing::Framing;

pub use client::Ending;
pub use given::{GivenTrial, read as read_trials};
pub use score::{Grade, GradedTrial, Weights, summary};

use client::Access;
use confined::Confined;
use market::{Ask, Rows, Told};
use stand::{Stand, Subject};
use trials::{Act, Trial};

/// The length of the course's blocks in bytes.
const COURSE: usize = 8192;
/// The time in which the end of a server is noticed after a client has noticed it.
const NOTICED: Duration = Duration::from_millis(200);

/// A way of grading.
#[derive(Clone, Debug, clap::Args)]
pub struct GradeOptions {
    /// The server's arguments; the port is put at `{port}`, or at the end
    #[arg(long, default_value = "{port}", value_name = "ARG", allow_hyphen_values = true)]
    pub port: String,
    /// How replies end: line, fixed:8192, eof, length, or count, which is by their meaning
    /// [default: detected from the reply to `show`]
    #[arg(long)]
    pub framing: Option<Ending>,
    /// Run each trial this often; the worst run counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    #[arg(value_name = "N")]
    pub runs: u32,
    /// Build everything with `make` in the server's folder first
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_name = "TARGET")]
    pub make: Option<String>,
    /// The limit of a build
    #[arg(long, value_parser = wire::conf::span, default_value = "60s", value_name = "TIME")]
    pub make_limit: Duration,
    /// The limit of all trials of a server
    #[arg(long, value_parser = wire::conf::span, default_value = "300s", value_name = "TIME")]
    pub limit: Duration,
    /// Make the trials of this file instead: talks with a server of another protocol
    #[arg(long, value_name = "FILE", conflicts_with_all = ["weights", "framing"])]
    pub trials: Option<PathBuf>,
    /// The trials of that file.
    #[arg(skip)]
    pub given: Vec<GivenTrial>,
    /// The trials and their points.
    #[arg(skip)]
    pub weights: Weights,
    /// Why the server has no separate network; empty if it has one.
    #[arg(skip)]
    pub not_isolated: String,
}

impl GradeOptions {
    /// The trials of a grade in their order: those of the file, or ours.
    fn trials(&self) -> Vec<Trial<'_>> {
        match self.trials {
            Some(_) => self.given.iter().map(GivenTrial::trial).collect(),
            None => self.weights.trials().collect(),
        }
    }

    /// The names of the trials, in their order.
    pub fn names(&self) -> Vec<String> {
        self.trials().iter().map(|trial| trial.name.to_owned()).collect()
    }

    /// The sum of all points.
    pub fn sum(&self) -> u32 {
        self.trials().iter().map(|trial| trial.points).sum()
    }
}

/// Tries the server at `path`: a program, or a folder with a program `stockserver`. `told` sees
/// each trial when it is done. A server that cannot be tried has no points, and
/// [`Grade::obstacle`] says why.
pub fn grade(path: &Path, options: &GradeOptions, told: &mut dyn FnMut(&GradedTrial)) -> Grade {
    let begin = Instant::now();
    let mut grade = Grade {
        server: path.display().to_string(),
        of: options.sum(),
        not_isolated: options.not_isolated.clone(),
        ..Grade::default()
    };
    let subject = subject(path, options).map_err(|why| grade.obstacle = why).ok();
    grade.framing = match &subject {
        Some(_) if options.trials.is_some() => "none".to_owned(),
        Some(subject) => subject.ending.to_string(),
        None => String::new(),
    };
    for trial in options.trials() {
        let (Some(subject), from) = (&subject, Instant::now()) else { break };
        let (verdict, reason, kept) =
            attempts(&trial, subject, options.runs, begin + options.limit);
        let points = (f64::from(trial.points) * kept) as u32;
        let row = GradedTrial {
            name: trial.name.to_owned(),
            about: trial.about.to_owned(),
            verdict: verdict.to_owned(),
            points,
            of: trial.points,
            reason,
            seconds: from.elapsed().as_millis() as f64 / 1e3,
            repeat: again("grade", &grade.server, trial.name, &further(options)),
        };
        told(&row);
        grade.points += points;
        grade.trials.push(row);
    }
    grade.seconds = begin.elapsed().as_millis() as f64 / 1e3;
    grade
}

/// Makes one trial as often as wanted; the worst run counts. Returns the verdict, the reason and
/// the part of the points that is kept, 0 to 1.
fn attempts(
    trial: &Trial<'_>,
    subject: &Subject,
    runs: u32,
    end: Instant,
) -> (&'static str, String, f64) {
    let (mut tried, mut failures) = (0, Vec::new());
    for _ in 0..runs {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        tried += 1;
        failures.extend(attempt(trial, subject, left).err());
    }
    let failed = failures.len();
    match failures.into_iter().rev().min_by(|a, b| a.1.total_cmp(&b.1)) {
        None if tried == 0 => ("not tried", "the time for all trials is over".to_owned(), 0.0),
        None => ("passed", String::new(), 1.0),
        Some((reason, kept)) if tried == 1 => ("failed", reason, kept),
        Some((reason, kept)) => ("failed", format!("{failed} of {tried} runs: {reason}"), kept),
    }
}

/// Makes one trial on a fresh server. The error has the part of the points that is kept; a server
/// that ends keeps none.
fn attempt(trial: &Trial<'_>, subject: &Subject, left: Duration) -> Result<(), (String, f64)> {
    let time = Duration::from_secs(trial.seconds).min(left);
    let started = Stand::start(subject, Rows::of(trial.book.0, trial.book.1), time);
    let mut stand = started.map_err(|why| (why, 0.0))?;
    let told = match trial.act {
        Act::Run(run) => run(&mut stand),
        Act::Talk(given) => given.run(&mut stand),
    };
    let kept = stand.kept;
    if stand.is_ended {
        return told.map_err(|why| (why, kept));
    }
    // A client may notice the end of a server before its parent does, and a server may end because
    // of the last client.
    let time = if told.is_ok() { NOTICED / 5 } else { NOTICED };
    stand.server.process.ended_within(time);
    match (told, stand.server.obituary()) {
        (told, None) => told.map_err(|why| (why, kept)),
        (Ok(()), Some(end)) => Err((format!("the server {end}"), 0.0)),
        (Err(why), Some(end)) => Err((format!("the server {end} ({why})"), 0.0)),
    }
}

/// The program at `path` after its build, with the framing of its replies.
fn subject(path: &Path, options: &GradeOptions) -> Result<Subject, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let program = if path.is_dir() { path.join("stockserver") } else { path };
    if let Some(target) = &options.make {
        build(&program, target, options.make_limit)?;
    }
    let mut line = vec![program.to_string_lossy().into_owned()];
    let words = shlex::split(&options.port);
    line.extend(words.ok_or_else(|| format!("--port: expected closed quotes: {}", options.port))?);
    if !line[1..].iter().any(|word| word.contains("{port}")) {
        line.push("{port}".to_owned());
    }
    let mut subject = Subject { line, ending: options.framing.unwrap_or(Ending::Count) };
    if options.framing.is_none() && options.trials.is_none() {
        let time = options.limit.min(Duration::from_secs(15));
        let mut stand = Stand::start(&subject, Rows::of(10, 100), time)?;
        let detected = detect::framing(&mut stand.connect()?.link.stream.socket);
        let mut told = |why: String| {
            stand.server.process.ended_within(NOTICED);
            let end = stand.server.obituary().map(|end| format!("the server {end}: "));
            format!("{}{why}", end.unwrap_or_default())
        };
        subject.ending = match detected {
            // Text and one NUL look like a block, whose size the next reply would have too.
            Ok((framing @ Framing::Fixed(size), _)) if size != COURSE => {
                let access = stand.access;
                let is_block = Access { ending: Ending::Framed(framing), ..access };
                match is_block.connect()?.ask(Ask::Buy(1, 1)) {
                    Ok(_) => Ending::Framed(framing),
                    Err(_) => Ending::Count,
                }
            }
            Ok((framing, _)) => Ending::Framed(framing),
            // Rows without an end, or all in one line, still show all stocks.
            Err(why) => match stand.access.connect().and_then(|mut it| it.ask(Ask::Show)) {
                Ok(Told::Rows(rows)) if rows.0.len() >= stand.access.stocks => Ending::Count,
                _ => return Err(told(format!("{why:#}"))),
            },
        };
    }
    Ok(subject)
}

/// Runs `make` with the limits of a server and a time limit for builds. It makes everything: a
/// program that was there before earns nothing.
fn build(program: &Path, target: &str, time: Duration) -> Result<(), String> {
    let folder = program.parent().unwrap_or(program);
    let words = ["make", "-B", target].into_iter().filter(|word| !word.is_empty());
    let line: Vec<String> = words.map(String::from).collect();
    let age = || std::fs::metadata(program).and_then(|about| about.modified()).ok();
    let before = age();
    let outputs = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
    let mut make = Confined::start(&line, folder, outputs.path(), time)?;
    // The watch ends it at its limit, and looks a few times a second.
    make.process.ended_within(time + NOTICED * 5);
    match (make.obituary(), make.process.status()) {
        (Some(end), Some(status)) if !status.success() => {
            Err(format!("`{}` {end}", line.join(" ")))
        }
        _ if before.is_some() && age() == before => {
            let name = program.display();
            Err(format!("`{}` does not build {name}, which was there before", line.join(" ")))
        }
        _ => Ok(()),
    }
}

/// The further words of the command that makes one trial again.
fn further(options: &GradeOptions) -> Vec<String> {
    let trials = options.trials.as_ref().map(|path| path.to_string_lossy().into_owned());
    let words = [
        ("--port", Some(options.port.clone()).filter(|it| it != "{port}")),
        ("--trials", trials),
        ("--runs", (options.runs > 1).then(|| options.runs.to_string())),
    ];
    let given = words.into_iter().filter_map(|(name, word)| Some([name.to_owned(), word?]));
    given.flatten().collect()
}
