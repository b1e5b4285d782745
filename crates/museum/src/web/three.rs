//! Three servers under a swarm that grows until something fails.
//!
//! A report of a networks course has three servers in Python, one connection after the other, a
//! process for each, a thread for each, and lets a swarm grow by 100 users a second until the first
//! failure, which it takes for the server's limit. The surprising things are in the listings: both
//! servers that are said to be concurrent wait for each worker right after starting it, none sends
//! a valid reply, and one cannot end a reply at all. And what failed first need not be a server:
//! here the client has as few descriptors as a laptop gives it.

use super::locust::{self, Swarmed};
use super::servers;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Plot, Published, Series, Showing, Side};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use crate::words;
use lab::plan::{Arm, Provision};
use std::time::Duration;

/// The servers.
const PROGRAM: &str = include_str!("../../artefact/three_servers.py");
/// Where the figures stand.
const SOURCE: &str = "Report on web servers with several clients of a course in computer networks, \
    week 6: Python servers in a container, Locust with 10,000 users at 100 a second, over Wi-Fi";
/// Users a second.
const RATE: u32 = 100;
/// Descriptors of the client, as a laptop's shell gives them.
const DESCRIPTORS: u32 = 256;
/// Users at the most where the client has enough.
const USERS: u32 = 350;
/// How long a reply may stand still, from servers as listed, and from others.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// What was published: requests a second, mean in ms, requests before the first failure.
const PUBLISHED: [(&str, f64, f64, u32); 3] = [
    ("one process", 765.7, 83.0, 18_367),
    ("process for each", 768.0, 90.0, 19_221),
    ("thread for each", 554.3, 151.0, 10_727),
];

/// The exhibit.
pub struct ThreeServers;

/// A server of the course.
struct Artefact {
    name: &'static str,
    kind: &'static str,
    flags: &'static str,
}

/// As listed, and the one that cannot end a reply with the line that hinders it taken out.
const LISTED: [Artefact; 4] = [
    Artefact { name: "one process", kind: "single", flags: "--backlog 128 --bare --print" },
    Artefact {
        name: "process for each, as listed",
        kind: "process",
        flags: "--backlog 5 --join --bare --keep --print",
    },
    Artefact {
        name: "process for each, closing",
        kind: "process",
        flags: "--backlog 5 --join --bare --print",
    },
    Artefact {
        name: "thread for each",
        kind: "thread",
        flags: "--backlog 5 --join --bare --print",
    },
];
/// The same without a flaw.
const SOUND: [Artefact; 3] = [
    Artefact { name: "one process", kind: "single", flags: "" },
    Artefact { name: "process for each", kind: "process", flags: "" },
    Artefact { name: "thread for each", kind: "thread", flags: "" },
];
/// Ours.
const OURS: [(&str, &str); 4] = [
    ("ours, one process", "iterative"),
    ("ours, process for each", "fork"),
    ("ours, thread for each", "thread"),
    ("ours, epoll", "epoll"),
];

/// One server and its swarm.
struct Ramped {
    name: String,
    run: WebRun,
}

struct Terms {
    short: Duration,
    long: Duration,
    users: u32,
    descriptors: u32,
    sound: usize,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        match settings.quick {
            true => Terms { short: ms(600), long: ms(500), users: 40, descriptors: 40, sound: 1 },
            false => Terms {
                short: ms(4_000),
                long: ms(4_000),
                users: USERS,
                descriptors: DESCRIPTORS,
                sound: SOUND.len(),
            },
        }
    }
}

impl Exhibit for ThreeServers {
    fn name(&self) -> &'static str {
        "three-servers"
    }

    fn title(&self) -> &'static str {
        "Three servers under a growing swarm"
    }

    fn about(&self) -> &'static str {
        "servers that join what they start, and a first failure that is the client's"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let swarms = if locust::program().is_some() { terms.sound as u32 } else { 0 };
        let start = Duration::from_secs(4);
        Effort::new(LISTED.len() as u32, terms.short)
            .and(Effort::new((terms.sound + OURS.len()) as u32, terms.long))
            .and(Effort::new(swarms, terms.long + start))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let terms = Terms::of(stage.settings());
        let python = python().is_some();
        let (mut listed, mut sound, mut swarmed) = (Vec::new(), Vec::new(), Vec::new());
        if !python {
            stage.doubt("No python3 is on the path: the course's servers are left out.");
        }
        for it in LISTED.iter().filter(|_| python) {
            // A tenth of the published swarm, and descriptors in the same proportion.
            let limit = Some(terms.descriptors);
            let Some(run) = ramp(stage, &it.web(), &terms, terms.short, limit)? else { break };
            listed.push(Ramped { name: it.name.to_string(), run });
        }
        for it in SOUND[..terms.sound].iter().filter(|_| python) {
            let Some(run) = ramp(stage, &it.web(), &terms, terms.long, None)? else { break };
            sound.push(Ramped { name: it.name.to_string(), run });
        }
        for (name, engine) in OURS {
            let web = servers::ours(stage, name, &format!("--engine {engine}"));
            let Some(run) = ramp(stage, &web, &terms, terms.long, None)? else { break };
            sound.push(Ramped { name: name.to_string(), run });
        }
        for it in SOUND[..terms.sound].iter().filter(|_| python) {
            swarmed.extend(swarm(stage, it, &terms)?.map(|found| (it.name, found)));
        }
        if locust::program().is_none() {
            stage.doubt(
                "No Locust is on the path or in ROUNDHOUSE_LOCUST: the swarm was our own alone.",
            );
        }
        Ok(told(&listed, &sound, &swarmed, &terms))
    }
}

fn python() -> Option<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|it| it.join("python3").is_file()).then_some(())
}

impl Artefact {
    fn web(&self) -> Web {
        let words =
            format!("python3 {{dir}}/server.py {} --port {{port}} {}", self.kind, self.flags);
        let file = Provision { name: "server.py".to_string(), text: PROGRAM.to_string() };
        Web {
            name: self.name.to_string(),
            arm: Arm {
                command: words.split_whitespace().map(String::from).collect(),
                files: vec![file],
                ..Arm::default()
            },
            program: None,
            took: None,
        }
    }
}

/// Users come until something fails, or all of them are there.
fn ramp(
    stage: &mut Stage<'_>,
    web: &Web,
    terms: &Terms,
    span: Duration,
    descriptors: Option<u32>,
) -> Result<Option<WebRun>, Fault> {
    stage.begin(&web.name);
    let users = descriptors.map_or(terms.users, |_| terms.users * 2);
    let clients = Clients {
        ramp: Some(f64::from(RATE)),
        timeout: PATIENCE[usize::from(descriptors.is_none())],
        descriptors,
        ..Clients::new("/", users, span)
    };
    let Some(run) = stage.meet(web, &clients)? else { return Ok(None) };
    let result = format!("{}: {}", web.name, cause(&run));
    stage.step(&result);
    Ok(Some(run))
}

fn swarm(stage: &mut Stage<'_>, it: &Artefact, terms: &Terms) -> Result<Option<Swarmed>, Fault> {
    if stage.stopped() || locust::program().is_none() {
        return Ok(None);
    }
    let what = format!("{}, by Locust", it.name);
    stage.begin(&what);
    let up = stage.boot(&it.web())?;
    let found = locust::swarm(stage, &up, (terms.users, RATE), terms.long, 8_192)?;
    if let Some(found) = &found {
        stage.record(&serde_json::json!({"row": "locust", "server": it.name, "run": found}))?;
        stage.step(&format!("{what}: {} requests/s", words::number(found.rps)));
    }
    Ok(found)
}

/// Whose limit the first failure was.
fn cause(run: &WebRun) -> String {
    let overflows = run.kernel.listen_overflows.unwrap_or(0);
    let queue = match overflows {
        0 => String::new(),
        count => format!("; the accept queue was full {} times", words::grouped(count as i64)),
    };
    let Some(first) = &run.load.first_failure else {
        return format!("nothing failed{queue}");
    };
    let whose = match first.kind.as_str() {
        "no_descriptors" => "client limit (no descriptor left)".to_string(),
        "no_ports" => "client limit (no local port left)".to_string(),
        "timeout" => format!("server ({}){queue}", first.words),
        "refused" => "server (nobody listens)".to_string(),
        "reset" | "closed_early" if overflows > 0 => {
            format!("backlog (the accept queue was full {overflows} times)")
        }
        "reset" | "closed_early" => "server (it ended the connection)".to_string(),
        _ => format!("server ({})", first.words),
    };
    whose + if first.kind == "no_descriptors" { &queue } else { "" }
}

fn before(run: &WebRun) -> String {
    match &run.load.first_failure {
        Some(first) => words::count(first.after_requests),
        None => format!("none in {}", words::count(run.load.requests)),
    }
}

fn told(
    listed: &[Ramped],
    sound: &[Ramped],
    swarmed: &[(&str, Swarmed)],
    terms: &Terms,
) -> Showing {
    Showing {
        headline: headline(listed, sound),
        published: published(),
        flawed: flawed(listed, terms),
        corrected: corrected(sound, swarmed, terms),
        why: why(),
        lesson: "Before a failure is the server's, ask who ran out of what.".to_string(),
        together: together(listed, sound),
        findings: findings(listed, sound),
        facts: vec![
            ("Users a second".into(), RATE.to_string()),
            (
                "Users at the most".into(),
                format!(
                    "{} where the client has descriptors enough; 10,000 in the report",
                    terms.users
                ),
            ),
            ("Descriptors of the client in the first part".into(), terms.descriptors.to_string()),
            (
                "A reply may stand still for".into(),
                format!("{}, then {}", words::span(PATIENCE[0]), words::span(PATIENCE[1])),
            ),
        ],
        doubts: vec![
            "Server and swarm are on one machine, with a core each; in the report they were on \
             two, with Wi-Fi, a virtual machine and a container between them."
                .to_string(),
        ],
    }
}

fn published() -> Published {
    let mut numbers = Grid::new(&[
        "server",
        "requests/s",
        "mean, ms",
        "requests before the first failure",
        "users then",
    ]);
    for (name, rps, mean, requests) in PUBLISHED {
        let users = f64::from(requests) / rps * f64::from(RATE);
        numbers.row([
            name.to_string(),
            words::number(rps),
            words::number(mean),
            words::count(requests),
            format!("about {}", words::grouped((users / 10.0).round() as i64 * 10)),
        ]);
    }
    Published {
        claim: "Requests a second: thread < single < process. Mean: single < process < thread. \
                Requests before the first failure, which comes when there is more than the server \
                can handle: thread < single < process. Several processes handle clients at the \
                same time."
            .to_string(),
        source: SOURCE.to_string(),
        numbers,
    }
}

fn headline(listed: &[Ramped], sound: &[Ramped]) -> String {
    let client = listed.iter().filter(|it| kind(&it.run) == "no_descriptors").count();
    let spread = |all: &[Ramped]| {
        let rates: Vec<f64> = all.iter().map(|it| it.run.load.throughput_rps).collect();
        let low = rates.iter().copied().filter(|it| *it > 0.0).min_by(f64::total_cmp)?;
        Some(rates.iter().copied().max_by(f64::total_cmp)? / low)
    };
    match (listed.is_empty(), spread(sound)) {
        (false, Some(apart)) => format!(
            "Of {} servers as listed {client} seem to fail first where in truth the client has run \
             out of descriptors; with valid replies, without the join and with enough descriptors, \
             {} of {} fail at all, and the quickest answers {} as much as the slowest.",
            listed.len(),
            sound.iter().filter(|it| it.run.load.first_failure.is_some()).count(),
            sound.len(),
            words::ratio(apart)
        ),
        _ => "Stopped, or without Python: the course's servers were not all there.".to_string(),
    }
}

fn kind(run: &WebRun) -> &str {
    run.load.first_failure.as_ref().map_or("", |first| first.kind.as_str())
}

const HEAD: [&str; 7] = [
    "server",
    "requests/s",
    "mean, ms",
    "requests before the first failure",
    "users then",
    "cause",
    "invalid replies",
];

fn row(it: &Ramped) -> [String; 7] {
    let load = &it.run.load;
    let first = load.first_failure.as_ref();
    [
        it.name.clone(),
        words::number(load.throughput_rps),
        words::number(load.whole.mean_ns / 1e6),
        before(&it.run),
        words::or_none(first.map(|it| f64::from(it.users)), words::number),
        cause(&it.run),
        words::count(load.malformed),
    ]
}

fn flawed(listed: &[Ramped], terms: &Terms) -> Side {
    let mut numbers = Grid::new(&HEAD);
    listed.iter().for_each(|it| numbers.row(row(it)));
    let never = listed.iter().find(|it| it.name.contains("as listed"));
    Side {
        setup: format!(
            "The servers as listed (--join, --bare, --keep, --print of museum/artefact), {RATE} \
             users more each second, each asking again as soon as he is answered, until the first \
             failure. The client has {} descriptors, so that it runs out with as many users; the \
             published failures came at 1,940 to 2,500, which is near a laptop's limit of 2,560.",
            terms.descriptors
        ),
        finding: match never {
            Some(it) if it.run.load.requests == 0 => {
                "The server with a process for each, as listed, ends no reply at all: its \
                 published 768 requests a second cannot be its own."
                    .to_string()
            }
            Some(it) => format!(
                "The server with a process for each, as listed, answered {} requests.",
                words::count(it.run.load.requests)
            ),
            None => "It was not measured.".to_string(),
        },
        plot: growth(listed, "Requests a second while the swarm grows, as listed"),
        numbers,
    }
}

fn corrected(sound: &[Ramped], swarmed: &[(&str, Swarmed)], terms: &Terms) -> Side {
    let mut numbers = Grid::new(&HEAD);
    sound.iter().for_each(|it| numbers.row(row(it)));
    for (name, it) in swarmed {
        let first = it.first.as_ref();
        numbers.row([
            format!("{name}, by Locust"),
            words::number(it.rps),
            words::number(it.mean_ms),
            first.map_or_else(
                || format!("none in {}", words::count(it.requests)),
                |first| words::count(first.after_requests),
            ),
            words::or_none(first.map(|first| first.users as f64), words::number),
            first.map_or("nothing failed".to_string(), |first| first.words.clone()),
            words::NONE.to_string(),
        ]);
    }
    let best =
        sound.iter().max_by(|a, b| a.run.load.throughput_rps.total_cmp(&b.run.load.throughput_rps));
    Side {
        setup: format!(
            "The same three with a whole reply (length, blank line), a worker that nobody waits \
             for, a backlog of 4096 and no printing; then ours. Up to {} users, with descriptors \
             enough; at last the three by the real Locust.",
            terms.users
        ),
        finding: best.map_or("It was not measured.".to_string(), |it| {
            format!(
                "Most were answered by {}: {} requests a second.",
                it.name,
                words::number(it.run.load.throughput_rps)
            )
        }),
        plot: growth(sound, "Requests a second while the swarm grows, corrected"),
        numbers,
    }
}

fn growth(all: &[Ramped], title: &str) -> Option<Plot> {
    let series: Vec<Series> = all
        .iter()
        .filter(|it| it.run.load.requests > 0)
        .map(|it| {
            let stretches = it.run.load.stretches.iter();
            let places = stretches
                .map(|it| (it.at_s + it.for_s / 2.0, it.requests as f64 / it.for_s.max(1e-9)));
            Series::measured(it.name.clone(), places.collect())
        })
        .collect();
    (!series.is_empty()).then(|| Plot {
        title: title.to_string(),
        caption: format!("{RATE} users come each second; a line ends with the first failure."),
        x: Axis::linear("seconds"),
        y: Axis::linear("requests/s"),
        series,
    })
}

/// The published requests before the first failure against ours, as bars.
fn together(listed: &[Ramped], sound: &[Ramped]) -> Option<Plot> {
    let all: Vec<(&Ramped, &str)> = listed
        .iter()
        .map(|it| (it, "as listed"))
        .chain(sound.iter().map(|it| (it, "corrected")))
        .collect();
    let names = all.iter().map(|(it, how)| match it.name.starts_with("ours") {
        true => it.name.clone(),
        false => format!("{}, {how}", it.name.trim_end_matches(", as listed")),
    });
    let names: Vec<String> = names.collect();
    let bars = |places| Series { drawn: Drawn::Bar, ..Series::measured("requests/s", places) };
    let places =
        all.iter().enumerate().map(|(at, (it, _))| (at as f64 + 1.0, it.run.load.throughput_rps));
    (!all.is_empty()).then(|| Plot {
        title: "Requests a second, all servers".to_string(),
        caption: "Over the whole ramp; who fails early has met fewer users.".to_string(),
        x: Axis::named("server", names),
        y: Axis::linear("requests/s"),
        series: vec![bars(places.collect())],
    })
}

fn findings(listed: &[Ramped], sound: &[Ramped]) -> Vec<Finding> {
    let mut found = Vec::new();
    if !listed.is_empty() {
        let client = listed.iter().filter(|it| kind(&it.run) == "no_descriptors").count() as f64;
        let expected = "as listed, the client's descriptors are the first failure somewhere";
        found.push(Finding::new("client-limit", client >= 1.0, client, expected));
        let invalid: u64 = listed.iter().map(|it| it.run.load.malformed).sum();
        let expected = "as listed, no reply is valid HTTP";
        let answered: u64 = listed.iter().map(|it| it.run.load.requests).sum();
        let holds = invalid == answered && answered > 0;
        found.push(Finding::new("invalid", holds, invalid as f64, expected));
    }
    if let Some(it) = listed.iter().find(|it| it.name.contains("as listed")) {
        let answered = it.run.load.requests as f64;
        let expected = "the process for each, as listed, never ends a reply";
        found.push(Finding::new("never-ends", answered == 0.0, answered, expected));
    }
    let failed = sound.iter().filter(|it| it.run.load.first_failure.is_some()).count() as f64;
    if !sound.is_empty() {
        let expected = "corrected, and with descriptors enough, nothing fails";
        found.push(Finding::new("sound", failed == 0.0, failed, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "start() followed by join() is one connection after the other, with the price of a process \
         or a thread on top. That is why the three were so close, and why the one without workers \
         was not behind."
            .to_string(),
        "A status line without a blank line behind it has no end but the end of the connection. \
         The server with a process for each keeps every socket in a list, so the kernel never \
         sends that end, and a client that waits for it waits for ever. That the report has \
         figures for it, within 0.3 % of the single process's, suggests that the swarm had met \
         the single process once more."
            .to_string(),
        "Each user of a swarm holds a descriptor. At 100 users more each second, requests before \
         the first failure are requests a second times the seconds until the descriptors are gone: \
         a second way of writing the throughput, and nothing about what a server can bear. The \
         published figures, 18,367, 19,221 and 10,727, are 24, 25 and 19 times their own requests \
         a second."
            .to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{First, Simulated};
    use std::path::Path;

    fn run(kind: &str, overflows: u64) -> WebRun {
        let first = First { kind: kind.to_string(), after_requests: 7, ..First::default() };
        let mut run = WebRun {
            load: Simulated { first_failure: Some(first), requests: 7, ..Simulated::default() },
            ..WebRun::default()
        };
        run.kernel.listen_overflows = Some(overflows);
        run
    }

    #[test]
    fn a_first_failure_has_an_owner() {
        let check = |kind: &str, overflows: u64, want: &str| {
            let found = cause(&run(kind, overflows));
            assert!(found.starts_with(want), "{kind}: expected {want}, found {found}");
        };
        check("no_descriptors", 0, "client limit");
        check("no_ports", 0, "client limit");
        check("reset", 12, "backlog (the accept queue was full 12 times)");
        check("reset", 0, "server");
        check("timeout", 3, "server (); the accept queue was full 3 times");
        assert_eq!(cause(&WebRun::default()), "nothing failed");
        assert_eq!(before(&run("reset", 0)), "7");
    }

    #[test]
    fn the_servers_are_told_apart_by_their_flaws() {
        assert!(LISTED.iter().all(|it| it.flags.contains("--bare --")));
        assert!(SOUND.iter().all(|it| it.flags.is_empty()));
        for flaw in ["--join", "--bare", "--keep", "--print"] {
            assert!(PROGRAM.contains(flaw), "{flaw} is explained");
        }
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("artefact/ramp.py").is_file());
    }
}
