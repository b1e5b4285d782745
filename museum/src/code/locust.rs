//! A swarm by the real tool against the course's servers: Locust without its page, and its summary.

use crate::exhibit::Fault;
use crate::measure::{known, python};
use crate::query::items;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::{Stage, Up};
use lab::server::Process;
use serde_json::Value;
use stats::words;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = include_str!("../../artefact/ramp.py");
/// Starting Python and its packages takes a while on a busy machine.
const SLACK: Duration = Duration::from_secs(60);

/// The program at the path in `ROUNDHOUSE_LOCUST`, or else the one on the search path.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("ROUNDHOUSE_LOCUST").map(PathBuf::from);
    named.filter(|path| path.is_file()).or_else(|| which::which("locust").ok())
}

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let Some(program) = program() else {
        stage.doubt("No Locust is on the path or in ROUNDHOUSE_LOCUST, so only our own swarm ran.");
        return Ok(());
    };
    let (users, rate) = (scope.number("users")? as u32, scope.number("rate")? as u32);
    let span = scope.time("span")?;
    for server in items(&scope.eval("swarmed")?) {
        let words: Vec<String> = items(&server).iter().map(ToString::to_string).collect();
        let [name, group, flags] = &words[..] else { continue };
        if which::which("python3").is_err() {
            break;
        }
        let what = format!("{name}, {group}, by Locust");
        stage.begin(&what)?;
        let up = stage.boot(&python(name, flags))?;
        let found = swarm(stage, &up, &program, (users, rate), span)?;
        let server = format!("{name}, {group}");
        stage.record(&serde_json::json!({"row": "locust", "server": server, "run": found}))?;
        let number = |it: &Value| it.as_f64();
        let rate = words::number(number(&found["rps"]).unwrap_or(0.0));
        stage.step(&format!("{what}: {rate} requests/s"));
        let first = &found["first"];
        let figures = [
            ("rps", number(&found["rps"])),
            ("whole_ms", number(&found["mean_ms"])),
            ("answered", number(&found["requests"])),
            ("before", number(&first["after_requests"])),
            ("users", number(&first["users"])),
        ];
        results.add(&format!("{server}, by Locust"), "locust", 0, known(figures));
        let words = first["words"].as_str().unwrap_or("nothing failed").to_string();
        results.cell(&format!("{server}, by Locust"), "locust").notes.push(words);
    }
    Ok(())
}

/// Runs a swarm of `users`, which grows by `rate` a second, against a server for `span`.
///
/// # Errors
/// If the tool prints no summary, or the visitor stopped the run.
fn swarm(
    stage: &Stage<'_>,
    up: &Up,
    program: &Path,
    (users, rate): (u32, u32),
    span: Duration,
) -> Result<Value, Fault> {
    let file = up.dir.join("ramp.py");
    fs::write(&file, FILE)
        .map_err(|why| Fault::File(format!("cannot write {}: {why}", file.display())))?;
    let mut command = stage.pinned(true);
    command.extend(["sh", "-c", "ulimit -n 8192; exec \"$@\"", "sh"].map(String::from));
    command.extend([program.display().to_string(), "-f".to_string(), file.display().to_string()]);
    let numbers = [users.to_string(), rate.to_string(), format!("{}s", span.as_secs().max(1))];
    for (flag, number) in ["-u", "-r", "-t"].into_iter().zip(numbers) {
        command.extend([flag.to_string(), number]);
    }
    let host = format!("http://{}", up.server.address);
    command.extend(["--headless", "--only-summary", "-L", "ERROR", "-H"].map(String::from));
    command.push(host);
    let mut swarm = Process::start(&command, &up.dir, "locust").map_err(Fault::Clients)?;
    stage.attend(&mut swarm, span + SLACK, |_| {})?;
    let text = swarm.output();
    let line = text.lines().rev().find(|line| line.starts_with("{\"requests\""));
    line.and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| {
        let complaint = swarm.complaint();
        Fault::Clients(format!("expected a line of JSON from Locust, found: {complaint}"))
    })
}
