//! Tries a student's stock server: its replies, its books, its file, and its conduct with clients
//! that are slow, idle or gone; a score with the reason for each lost point.
//!
//! `trials` is their table. `market` and `linear` decide without I/O: the meaning of replies, the
//! book, and whether a history is linearisable. `stand` is the place of one trial, with a fresh
//! server; `confined` is that server as a process with limits. `score` is the result.

mod client;
mod confined;
mod linear;
mod market;
mod score;
mod stand;
mod trials;

use std::path::Path;
use std::time::{Duration, Instant};

use tools::client::detect;
use wire::framing::Framing;

pub use score::{Grade, GradedTrial, Weights, summary};

use confined::Confined;
use market::Rows;
use stand::{Stand, Subject, within};
use trials::Trial;

/// The time in which the end of a server is noticed after a client has noticed it.
const NOTICED: Duration = Duration::from_millis(200);

/// A way of grading.
#[derive(Clone, Debug, clap::Args)]
pub struct GradeOptions {
    /// The server's arguments; the port is put at `{port}`, or at the end
    #[arg(long, default_value = "{port}", value_name = "ARG", allow_hyphen_values = true)]
    pub port: String,
    /// How replies end: line, fixed:8192, eof, length [default: detected from the reply to `show`]
    #[arg(long)]
    pub framing: Option<Framing>,
    /// Build with `make` in the server's folder first
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_name = "TARGET")]
    pub make: Option<String>,
    /// The limit of a build
    #[arg(long, value_parser = wire::conf::span, default_value = "60s", value_name = "TIME")]
    pub make_limit: Duration,
    /// The limit of all trials of a server
    #[arg(long, value_parser = wire::conf::span, default_value = "300s", value_name = "TIME")]
    pub limit: Duration,
    /// The trials and their points.
    #[arg(skip)]
    pub weights: Weights,
    /// Why the server has no separate network; empty if it has one.
    #[arg(skip)]
    pub not_isolated: String,
}

/// Tries the server at `path`: a program, or a folder with a program `stockserver`. `told` sees
/// each trial when it is done. A server that cannot be tried has no points, and
/// [`Grade::obstacle`] says why.
pub fn grade(path: &Path, options: &GradeOptions, told: &mut dyn FnMut(&GradedTrial)) -> Grade {
    let begin = Instant::now();
    let mut grade = Grade {
        server: path.display().to_string(),
        of: options.weights.trials().map(|(_, points)| points).sum(),
        not_isolated: options.not_isolated.clone(),
        ..Grade::default()
    };
    let subject = subject(path, options).map_err(|why| grade.obstacle = why).ok();
    grade.framing = subject.as_ref().map_or(String::new(), |it| it.framing.to_string());
    for (trial, of) in options.weights.trials() {
        let (Some(subject), from) = (&subject, Instant::now()) else { break };
        let (verdict, reason) = match options.limit.saturating_sub(begin.elapsed()) {
            Duration::ZERO => ("not tried", "the time for all trials is over".to_owned()),
            left => match attempt(trial, subject, left) {
                Ok(()) => ("passed", String::new()),
                Err(reason) => ("failed", reason),
            },
        };
        let points = if verdict == "passed" { of } else { 0 };
        let (&Trial { name, about, .. }, repeat) = (trial, again(path, trial, options));
        let seconds = from.elapsed().as_millis() as f64 / 1e3;
        let row = GradedTrial { name, about, verdict, points, of, reason, seconds, repeat };
        told(&row);
        grade.points += points;
        grade.trials.push(row);
    }
    grade.seconds = begin.elapsed().as_millis() as f64 / 1e3;
    grade
}

/// Makes one trial on a fresh server.
fn attempt(trial: &Trial, subject: &Subject, left: Duration) -> Result<(), String> {
    let time = Duration::from_secs(trial.seconds).min(left);
    let mut stand = Stand::start(subject, Rows::of(trial.book.0, trial.book.1), time)?;
    let told = (trial.run)(&mut stand);
    if stand.is_ended {
        return told;
    }
    // A client may notice the end of a server before its parent does, and a server may end because
    // of the last client.
    let time = if told.is_ok() { NOTICED / 5 } else { NOTICED };
    within(time, || !stand.server.is_running());
    match (told, stand.server.obituary()) {
        (told, None) => told,
        (Ok(()), Some(end)) => Err(format!("the server {end}")),
        (Err(why), Some(end)) => Err(format!("the server {end} ({why})")),
    }
}

/// The program at `path` after its build, with the framing of its replies.
fn subject(path: &Path, options: &GradeOptions) -> Result<Subject, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let program = if path.is_dir() { path.join("stockserver") } else { path };
    if let Some(target) = &options.make {
        build(program.parent().unwrap_or(&program), target, options.make_limit)?;
    }
    let mut line = vec![program.to_string_lossy().into_owned()];
    let words = shlex::split(&options.port);
    line.extend(words.ok_or_else(|| format!("--port: expected closed quotes: {}", options.port))?);
    if !line[1..].iter().any(|word| word.contains("{port}")) {
        line.push("{port}".to_owned());
    }
    let framing = options.framing.unwrap_or(Framing::Line);
    let mut subject = Subject { line, framing };
    if options.framing.is_none() {
        let time = options.limit.min(Duration::from_secs(15));
        let mut stand = Stand::start(&subject, Rows::of(10, 100), time)?;
        let found = detect::framing(&mut stand.connect()?.stream.into());
        let told = |why| {
            within(NOTICED, || !stand.server.is_running());
            let end = stand.server.obituary().map(|end| format!("the server {end}: "));
            format!("{}{why:#}", end.unwrap_or_default())
        };
        subject.framing = found.map_err(told)?.0;
    }
    Ok(subject)
}

/// Runs `make` with the limits of a server, but of its own time.
fn build(folder: &Path, target: &str, time: Duration) -> Result<(), String> {
    let words = ["make", target].into_iter().filter(|word| !word.is_empty());
    let line: Vec<String> = words.map(String::from).collect();
    let said = tempfile::NamedTempFile::new().map_err(|error| format!("no file: {error}"))?;
    let mut make = Confined::start(&line, folder, said.path().to_owned(), time)?;
    // The watch ends it at its limit, and looks a few times a second.
    within(time + NOTICED * 5, || !make.is_running());
    match (make.obituary(), make.status) {
        (Some(end), Some(status)) if !status.success() => {
            Err(format!("`{}` {end}", line.join(" ")))
        }
        _ => Ok(()),
    }
}

/// The command that repeats one trial.
fn again(path: &Path, trial: &Trial, options: &GradeOptions) -> String {
    let port = if options.port == "{port}" { vec![] } else { vec!["--port", &options.port] };
    let server = path.to_string_lossy();
    let line = ["roundhouse", "grade", &server, "--only", trial.name];
    shlex::try_join(line.into_iter().chain(port)).unwrap_or_default()
}
