//! Web servers under load: every server with every load once a block, in random order, so that
//! disturbances of the machine affect all of them equally.
//!
//! Each case has a fresh server. A plan with phases keeps a server up through all its loads
//! instead, because it asks how the server adapts.

use super::{blocks, each, known, servers};
use crate::exhibit::{Effort, Fault};
use crate::plan::Spec;
use crate::query::float;
use crate::results::{Figures, Results};
use crate::scope::Scope;
use crate::stage::{ClientRun, Clients, Settings, Stage, Web, WebRun};
use serde_json::json;
use stats::{Rng, words};
use std::path::Path;
use std::time::Duration;

/// Start and end of a server, next to its load.
const OVERHEAD: Duration = Duration::from_millis(600);
/// A refusal of the governor is a reply with a status of 503.
const REFUSED: &str = "wrong_reply";
/// The time limit for the end of a server.
const END: Duration = Duration::from_secs(10);

/// One server under one load.
struct Case {
    web: Web,
    point: String,
    clients: Clients,
}

/// Every server with its loads, in the order of the plan.
fn cases(
    plan: &Spec,
    scope: &Scope,
    exe: &Path,
    round_ns: Option<f64>,
) -> Result<Vec<Case>, Fault> {
    let mut all = Vec::new();
    for servers in plan.list::<Spec>("servers") {
        let kind = servers.text("server").unwrap_or_default();
        if servers::lacks(kind).is_some() {
            continue;
        }
        for mut scope in each(&servers, scope)? {
            if !scope.holds(servers.text("if"))? {
                continue;
            }
            let web = servers::server(&servers, &scope, exe)?;
            scope.set("arm", web.name.clone());
            scope.set("server", kind);
            for load in plan.list::<Spec>("loads") {
                for scope in each(&load, &scope)? {
                    if scope.holds(load.text("if"))?
                        && let Some(clients) = clients(&load, &scope, kind, round_ns)?
                    {
                        let point = load.need("point", |it| scope.words(it))?;
                        all.push(Case { web: web.clone(), point, clients });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The clients of a load; `None` if the server cannot compute for them.
fn clients(
    load: &Spec,
    scope: &Scope,
    kind: &str,
    round_ns: Option<f64>,
) -> Result<Option<Clients>, Fault> {
    let time = |name: &str| load.maybe(name, |it| scope.time(it));
    let count = |name: &str| load.maybe(name, |it| scope.number(it));
    let path = match (load.maybe("path", |it| scope.words(it))?, time("work")?) {
        (Some(path), _) => Some(path),
        (None, Some(work)) => servers::path(kind, work, round_ns),
        (None, None) => Some("/".to_string()),
    };
    let Some(path) = path else { return Ok(None) };
    let number = load.need("clients", |it| scope.number(it))? as u32;
    let mut clients = Clients::new(&path, number, load.need("span", |it| scope.time(it))?);
    clients.mix = load.maybe("mix", |it| scope.words(it))?;
    clients.guests = count("guests")?.map_or(0, |it| it as u32);
    clients.ramp = count("ramp")?;
    let descriptors = load.maybe("descriptors", |it| scope.eval(it))?;
    clients.descriptors = descriptors.and_then(|it| float(&it)).map(|it| it as u32);
    for (field, name) in [
        (&mut clients.stay, "stay"),
        (&mut clients.warmup, "warmup"),
        (&mut clients.timeout, "timeout"),
        (&mut clients.linger, "linger"),
    ] {
        *field = time(name)?.unwrap_or(*field);
    }
    Ok(Some(clients))
}

/// How long it takes; servers that are not here count too, except Python's.
pub fn effort(plan: &Spec, scope: &Scope, settings: &Settings) -> Result<Effort, Fault> {
    let blocks = blocks(plan, scope)?;
    let mut effort = Effort::default();
    for case in cases(plan, scope, &settings.exe, Some(1.0))? {
        let Clients { span, linger, .. } = case.clients;
        effort = effort.and(Effort::new(blocks, span + linger + OVERHEAD));
    }
    Ok(effort)
}

/// Runs all of them.
///
/// # Errors
/// If a server or its clients fail.
pub fn run(
    stage: &mut Stage<'_>,
    plan: &Spec,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    for servers in plan.list::<Spec>("servers") {
        let kind = servers.text("server").unwrap_or_default();
        servers::lacks(kind).into_iter().for_each(|why| stage.doubt(why));
    }
    let computes = plan.list::<Spec>("loads").iter().any(|it| it.text("work").is_some());
    if computes && !results.values.contains_key("round_ns") {
        let round_ns = servers::calibrate(stage)?;
        results.set("round_ns", round_ns);
    }
    let round_ns = results.values.get("round_ns").and_then(serde_json::Value::as_f64);
    let cases = cases(plan, scope, &stage.settings().exe.clone(), round_ns)?;
    let mut rng = Rng::new(stage.settings().seed.into());
    for block in 0..blocks(plan, scope)? {
        if plan.is("phases") {
            phases(stage, &cases, (block, &mut rng), results)?;
            continue;
        }
        for at in rng.order(cases.len()) {
            let Case { web, point, clients } = &cases[at];
            let what = format!("{}, {point}", web.name);
            stage.begin(&what)?;
            let run = stage.meet(web, clients)?;
            doubt(stage, &what, &cases[at], &run);
            let rate = words::number(run.load.load.throughput_rps);
            stage.step(&format!("{what}: {rate} requests/s"));
            add(results, &cases[at], block, &run);
        }
    }
    Ok(())
}

/// Every server from its start through all its loads, which are phases.
fn phases(
    stage: &mut Stage<'_>,
    cases: &[Case],
    (block, rng): (u32, &mut Rng),
    results: &mut Results,
) -> Result<(), Fault> {
    let mine: Vec<&[Case]> = cases.chunk_by(|a, b| a.web.name == b.web.name).collect();
    for at in rng.order(mine.len()) {
        let web = &mine[at][0].web;
        let what = format!("{}, block {}", web.name, block + 1);
        stage.begin(&what)?;
        let mut up = stage.boot(web)?;
        let mut runs = Vec::new();
        for case in mine[at] {
            runs.push(stage.ask(&mut up, &case.clients)?);
        }
        up.server.process.stop(END);
        stage.record(&json!({"row": "day", "server": web.name, "block": block, "runs": runs}))?;
        mine[at].iter().zip(&runs).for_each(|(case, run)| add(results, case, block, run));
        stage.step(&what);
    }
    Ok(())
}

/// Failed requests, unless the load goes on until one fails or the governor refused it.
fn doubt(stage: &mut Stage<'_>, what: &str, case: &Case, run: &WebRun) {
    let is_governed = case.web.arm.command.iter().any(|word| word == "--governor");
    let fails = |kind: &str| case.clients.ramp.is_none() && !(is_governed && kind == REFUSED);
    for trouble in run.load.load.errors.iter().filter(|it| fails(&it.kind)) {
        stage.doubt(format!(
            "{what}: {} requests failed, the first with: {}",
            trouble.count, trouble.example
        ));
    }
}

fn add(results: &mut Results, case: &Case, block: u32, run: &WebRun) {
    results.add(&case.web.name, &case.point, block, figures(run));
    let cell = results.cell(&case.web.name, &case.point);
    cell.notes.push(cause(run));
    if cell.lines.is_empty() {
        let looks = |value: fn(&(f64, u32, u32)) -> u32| {
            let looks = run.churn.looks.iter();
            looks.map(|it| (it.0, f64::from(value(it)))).collect::<Vec<_>>()
        };
        let left = looks(|it| it.1).into_iter().map(|(at, it)| (at - run.gone_s, it));
        cell.lines.insert("processes".to_string(), left.collect());
        cell.lines.insert("threads".to_string(), looks(|it| it.2));
        cell.lines.insert("growth".to_string(), growth(run));
    }
}

/// The maximum number of points of a line over time: more of them show the noise.
const POINTS: usize = 12;

/// Requests a second over time.
fn growth(run: &WebRun) -> Vec<(f64, f64)> {
    let slices = &run.load.load.timeline;
    let points = slices.chunks(slices.len().div_ceil(POINTS).max(1)).map(|all| {
        let long = all.iter().map(|it| it.for_ms).sum::<f64>() / 1e3;
        let requests: u64 = all.iter().map(|it| it.requests).sum();
        (all[0].at_ms / 1e3 + long / 2.0, requests as f64 / long.max(1e-9))
    });
    // A logarithmic axis has no place for 0.
    points.filter(|(_, rate)| *rate > 0.0).collect()
}

fn figures(run: &WebRun) -> Figures {
    let ClientRun { load, malformed, first_failure: first } = &run.load;
    let answered = |value: f64| Some(value).filter(|_| load.requests > 0);
    let all = load.requests_total;
    let each = |count: u64| (all > 0).then(|| count as f64 / all as f64);
    let p90 = load.response.p90_ns;
    let first = first.as_ref();
    let refused = load.errors.iter().filter(|it| it.kind == REFUSED).map(|it| it.count);
    let living: Vec<f64> = run.churn.looks.iter().map(|it| f64::from(it.2)).collect();
    let is = |kind: &str| Some(f64::from(first.is_some_and(|it| it.kind == kind)));
    known([
        ("rps", answered(load.throughput_rps)),
        // The published response time: without connecting.
        ("response_ms", load.service.mean_ns.and_then(|ns| answered(ns / 1e6))),
        ("whole_ms", load.response.mean_ns.and_then(|ns| answered(ns / 1e6))),
        ("p99_ms", load.response.p99_ns.or(p90).map(|ns| ns / 1e6)),
        ("p90_ms", p90.map(|ns| ns / 1e6)),
        ("cpu_ms", run.cpu_per_request_ns().map(|ns| ns / 1e6)),
        ("inside_ms", run.inside.map(|it| it.mean_ns / 1e6)),
        ("churn", Some(run.churn.threads_a_minute())),
        ("process_churn", Some(run.churn.processes_a_minute())),
        ("living", (!living.is_empty()).then(|| living.iter().sum::<f64>() / living.len() as f64)),
        ("refused", Some(refused.sum::<u64>() as f64)),
        ("answered", Some(load.requests as f64)),
        ("malformed", Some(*malformed as f64)),
        ("before", first.map(|it| it.after_requests as f64)),
        ("users", first.map(|it| f64::from(it.users))),
        ("failed", Some(f64::from(first.is_some()))),
        ("no_descriptors", is("no_descriptors")),
        // Context switches a request: of main threads, of the others, of the rest of the machine.
        ("processes", each(run.switches.processes)),
        ("threads", each(run.switches.threads)),
        ("rest", each(run.rest_switches)),
    ])
}

/// The limit behind the first failure, in words: the client's, the backlog's or the server's.
///
/// A client whose handshake met a full accept queue treats the connection as established, because
/// only the last of three segments was dropped; it sends its request and never gets an answer. The
/// kernel's count of full queues distinguishes this from a slow server.
fn cause(run: &WebRun) -> String {
    let overflows = run.conditions.listen_overflows.unwrap_or(0);
    let full = format!("the accept queue was full {} times", words::count(overflows));
    let queue = if overflows > 0 { format!("; {full}") } else { String::new() };
    let Some(first) = &run.load.first_failure else { return format!("nothing failed{queue}") };
    let is_unanswered = first.words.starts_with("no reply");
    match first.kind.as_str() {
        "no_descriptors" => format!("client limit (no descriptor left){queue}"),
        "no_ports" => "client limit (no local port left)".to_string(),
        "timeout" if overflows > 0 && is_unanswered => format!("backlog ({full})"),
        "reset" | "closed_early" if overflows > 0 => format!("backlog ({full})"),
        "timeout" => format!("server ({}){queue}", first.words),
        "refused" => "server (it does not listen)".to_string(),
        "reset" | "closed_early" => "server (it ended the connection)".to_string(),
        _ => format!("server ({})", first.words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_failure_has_an_owner() {
        let check = |kind: &str, words: &str, overflows: u64, want: &str| {
            let first = json!({
                "at_ms": 1.5, "after_requests": 7, "users": 2, "kind": kind, "words": words,
            });
            let first_failure = serde_json::from_value(first).expect("a first failure");
            let load = ClientRun { first_failure, ..ClientRun::default() };
            let mut run = WebRun { load, ..WebRun::default() };
            run.conditions.listen_overflows = Some(overflows);
            let found = cause(&run);
            assert!(found.starts_with(want), "expected {want}, found {found}");
        };
        check("no_descriptors", "", 0, "client limit");
        check("no_ports", "", 0, "client limit");
        check("reset", "", 12, "backlog (the accept queue was full 12 times)");
        check("reset", "", 0, "server");
        check("timeout", "no reply came in time", 3, "backlog (the accept queue was full 3 times)");
        check("timeout", "no reply came in time", 0, "server (no reply came in time)");
        check("timeout", "half", 3, "server (half); the accept queue was full 3 times");
        assert_eq!(cause(&WebRun::default()), "nothing failed");
    }
}
