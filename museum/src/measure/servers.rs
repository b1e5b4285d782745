//! The web servers of the exhibits: ours, real Apache, the course's three in Python.
//!
//! Ours and Apache compute on request with the same interface. Ours computes until its thread has
//! used the time; Apache runs a loop, whose cost is calibrated first.

use crate::exhibit::Fault;
use crate::plan::Spec;
use crate::query::{float, items};
use crate::scope::Scope;
use crate::stage::{Clients, Stage, Up, Web};
use lab::plan::{Arm, Provision};
use std::path::Path;
use std::time::Duration;

/// The static page of every server.
const INDEX: &str = "<!doctype html>\n<title>Hello</title>\n<p>Hello, World!\n";
/// The course's servers.
const THREE: &str = include_str!("../../artefact/three_servers.py");
/// The two lengths of the loop from which its cost is calibrated.
const ROUNDS: [u64; 2] = [50_000, 550_000];
/// The number of calibration attempts, each longer than the last: on a busy machine a short run may
/// contain no request at all.
const ATTEMPTS: u32 = 3;
/// The time limit for the end of a server.
const END: Duration = Duration::from_secs(10);

/// A server as the plan describes it.
///
/// # Errors
/// If an expression of the plan or a directive is wrong.
pub fn server(servers: &Spec, scope: &Scope, exe: &Path) -> Result<Web, Fault> {
    let words = |name: &str| servers.need(name, |it| scope.words(it));
    let (name, flags) = (words("arm")?, words("flags")?);
    match servers.text("server") {
        Some("apache") => apache(&name, &flags, directives(servers, scope)?),
        Some("python") => Ok(python(&name, &flags)),
        _ => {
            let mut web = ours(&name, &flags, exe);
            if let [name, text] = &servers.list::<String>("file")[..] {
                let text = scope.eval(text)?.to_string();
                web.arm.files.push(Provision { name: name.clone(), text });
            }
            Ok(web)
        }
    }
}

/// A server of the course: its kind and its flaws are flags.
pub fn python(name: &str, flags: &str) -> Web {
    let words = format!("python3 {{dir}}/server.py {flags} --port {{port}}");
    let file = Provision { name: "server.py".to_string(), text: THREE.to_string() };
    let command = words.split_whitespace().map(String::from).collect();
    let arm = Arm { command, files: vec![file], ..Arm::default() };
    Web { name: name.to_string(), arm, program: None, took: None }
}

/// A server of ours with the routes of the demonstration.
fn ours(name: &str, flags: &str, exe: &Path) -> Web {
    let words = format!(
        "serve http {{dir}}/www --demo --port 0 --access-log {{dir}}/took.log --log-format json \
         {flags}"
    );
    let words = words.split_whitespace().map(String::from);
    let command = [exe.display().to_string()].into_iter().chain(words).collect();
    let index = Provision { name: "www/index.html".to_string(), text: INDEX.to_string() };
    Web {
        name: name.to_string(),
        arm: Arm { command, files: vec![index], ..Arm::default() },
        program: None,
        took: Some("took.log".to_string()),
    }
}

fn directives(servers: &Spec, scope: &Scope) -> Result<toml::Table, Fault> {
    let pairs = servers.maybe("directives", |it| scope.eval(it))?;
    let pairs = pairs.map(|it| items(&it)).unwrap_or_default();
    let pair = |it| {
        let pair = items(it);
        let number = pair.get(1).and_then(float).map(|it| it as i64);
        Some((pair.first()?.to_string(), number?.into()))
    };
    Ok(pairs.iter().filter_map(pair).collect())
}

/// Apache with the processing module `module` and these directives on top of its defaults.
fn apache(name: &str, module: &str, directives: toml::Table) -> Result<Web, Fault> {
    let arm = peers::apache::computing(module, &directives)
        .map_err(|why| Fault::Server(format!("{name}: {why}")))?;
    Ok(Web {
        name: name.to_string(),
        arm,
        program: Some(peers::apache::PROGRAM.to_string()),
        took: Some(peers::apache::TOOK.to_string()),
    })
}

/// The reason why servers of a kind are left out, if they are.
pub fn lacks(kind: &str) -> Option<String> {
    match kind {
        "apache" => peers::apache::is_here().err().map(|why| format!("Apache is left out: {why}.")),
        "python" if which::which("python3").is_err() => {
            Some("No python3 is on the path: the course's servers are left out.".to_string())
        }
        _ => None,
    }
}

/// The path on which a server of a kind computes for `work`; `None` if its loop was not calibrated.
pub fn path(kind: &str, work: Duration, round_ns: Option<f64>) -> Option<String> {
    if kind == "ours" {
        return Some(format!("/work?ms={}", work.as_millis()));
    }
    let rounds = work.as_nanos() as f64 / round_ns?;
    Some(format!("/work?rounds={rounds:.0}"))
}

/// Measures nanoseconds of CPU for one round of Apache's loop on this machine: the slope between a
/// short and a long one excludes the fixed cost of a request.
///
/// # Errors
/// If Apache is installed and does not start.
pub fn calibrate(stage: &mut Stage<'_>) -> Result<Option<f64>, Fault> {
    if lacks("apache").is_some() {
        return Ok(None);
    }
    stage.begin("calibrating Apache's loop")?;
    let mut span = Duration::from_millis(if stage.settings().quick { 200 } else { 700 });
    let mut up = stage.boot(&apache("calibration", "worker", toml::Table::new())?)?;
    let mut round_ns = None;
    for _ in 0..ATTEMPTS {
        round_ns = slope(stage, &mut up, span)?;
        if round_ns.is_some() {
            break;
        }
        span *= 3;
    }
    up.server.process.stop(END);
    if round_ns.is_none() {
        stage.doubt("Apache's loop could not be calibrated, so Apache is left out.");
    }
    Ok(round_ns)
}

fn slope(stage: &mut Stage<'_>, up: &mut Up, span: Duration) -> Result<Option<f64>, Fault> {
    let mut costs = Vec::new();
    for rounds in ROUNDS {
        let path = format!("/work?rounds={rounds}");
        costs.extend(stage.ask(up, &Clients::new(&path, 1, span))?.cpu_per_request_ns());
    }
    let [short, long] = costs[..] else { return Ok(None) };
    let round_ns = (long - short) / (ROUNDS[1] - ROUNDS[0]) as f64;
    Ok((round_ns > 0.0).then_some(round_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn directives_reach_apache_and_work_is_asked_in_the_words_of_each() {
        let scope = Scope::new(&Settings::default(), &std::sync::Arc::default());
        let servers: Spec = toml::from_str(
            "arm = 'apache'\nserver = 'apache'\nflags = 'worker'\n\
             directives = \"[['ServerLimit', 3], ['ThreadsPerChild', 50]]\"",
        )
        .expect("a server");
        let web = server(&servers, &scope, Path::new("r")).expect("they are directives");
        let conf = &web.arm.files.iter().find(|it| it.name == "httpd.conf").expect("one").text;
        for want in ["ServerLimit 3\n", "ThreadsPerChild 50\n"] {
            assert!(conf.contains(want), "expected `{want}` in\n{conf}");
        }
        let work = Duration::from_millis(5);
        assert_eq!(path("ours", work, None).as_deref(), Some("/work?ms=5"));
        assert_eq!(path("apache", work, Some(5.0)).as_deref(), Some("/work?rounds=1000000"));
        assert_eq!(path("apache", work, None), None);
    }
}
