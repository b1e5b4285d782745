//! Automatic configuration: a server that adapts to a changing number of users.
//!
//! The study ends with a wish: a server that finds the best structure of processes and threads by
//! itself, and adapts it while its users change. Here the number of users changes on running
//! servers. The study's own directives, on real Apache and on ours, meet a server whose settings
//! `roundhouse tune` has chosen and whose governor refuses what it could not answer in time.

use super::cases::{self, said};
use super::servers::{self, DEADLINE, GOVERNOR, Toil, apache_lacks};
use super::study::{SOURCE, THREADS};
use crate::contest::Rng;
use crate::draft::{Draft, Part};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use document::{Mark, Series};
use lab::plan::Provision;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stats::{median, words};
use std::time::Duration;

/// Users in each phase: night, day, evening, more than the workers of the study, night.
const USERS: [u32; 5] = [10, 100, 25, 250, 10];
/// The same where it has to be quick.
const USERS_QUICK: [u32; 2] = [5, 60];
/// Computing of each request.
const WORK: Duration = Duration::from_millis(5);
/// The length of a phase: Apache's rule checks once a second.
const PHASE: Duration = Duration::from_secs(12);
/// The time that the search for the tuned settings takes.
const SEARCH: Duration = Duration::from_secs(180);
/// The servers.
const REAL: &str = "Apache 2.4 worker, table 5";
const OURS: &str = "ours, table 5";
const DAMPED: &str = "ours, damped";
const GOVERNED: &str = "ours, damped and governed";
const TUNED: &str = "ours, tuned and governed";
const NAMES: [&str; 5] = [REAL, OURS, DAMPED, GOVERNED, TUNED];

/// The exhibit.
pub struct Adaptive;

struct Terms {
    users: &'static [u32],
    phase: Duration,
    blocks: u32,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let quick = settings.quick;
        Terms {
            users: if quick { &USERS_QUICK } else { &USERS },
            phase: match (settings.full, quick) {
                (true, _) => PHASE * 10,
                (_, true) => Duration::from_millis(500),
                _ => settings.scale.of(PHASE).max(Duration::from_secs(3)),
            },
            blocks: cases::blocks(settings),
            quick,
        }
    }
}

/// All phases of one server, in one block.
#[derive(Serialize, Deserialize)]
struct Day {
    server: String,
    runs: Vec<WebRun>,
}

impl Exhibit for Adaptive {
    fn name(&self) -> &'static str {
        "automatic-configuration"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = if terms.quick { 4 } else { NAMES.len() } as u32;
        let day = terms.phase * terms.users.len() as u32;
        let search = if terms.quick { Effort::default() } else { Effort::new(1, SEARCH) };
        search.and(cases::effort(servers, day, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let mut servers = vec![
            (servers::ours(stage, OURS, &THREADS.flags("apache")), toil.ours(WORK)),
            (servers::ours(stage, DAMPED, &THREADS.flags("damped")), toil.ours(WORK)),
        ];
        let governed = format!("{} {GOVERNOR}", THREADS.flags("damped"));
        servers.push((servers::ours(stage, GOVERNED, &governed), toil.ours(WORK)));
        if let Some(settings) = if terms.quick { None } else { tuned(stage)? } {
            let mut web =
                servers::ours(stage, TUNED, &format!("--config {{dir}}/tuned.toml {GOVERNOR}"));
            web.arm.files.push(Provision { name: "tuned.toml".to_string(), text: settings });
            servers.push((web, toil.ours(WORK)));
        }
        if let Some(path) = toil.apache(WORK).filter(|_| apache_lacks().is_none()) {
            servers.push((servers::hybrid(REAL, "worker", &THREADS)?, path));
        }
        let mut days = Vec::new();
        let mut rng = Rng::new(stage.settings().seed.into());
        'all: for block in 0..terms.blocks {
            for at in rng.order(servers.len()) {
                let (web, path) = &servers[at];
                match day(stage, web, path, &terms, block)? {
                    Some(day) => days.push(day),
                    None => break 'all,
                }
            }
        }
        Ok(draft(&days, &terms))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(&[], &Terms::of(settings))
    }
}

/// The settings that the tuner chooses for requests that compute; `None` if it has no answer.
fn tuned(stage: &mut Stage<'_>) -> Result<Option<String>, Fault> {
    #[derive(Deserialize)]
    struct Found {
        settings: String,
    }
    if let Some(Found { settings }) = stage.known(&json!({"row": "tuned"})) {
        return Ok(Some(settings));
    }
    stage.begin("the search for settings (roundhouse tune cpu --quick)");
    let found =
        stage.helper(&["tune", "cpu", "--quick", "--out", "{dir}"], SEARCH * 2, "tuned.toml")?;
    match &found {
        Some(settings) => stage.record(&json!({"row": "tuned", "settings": settings}))?,
        None if stage.stopped() => {}
        None => stage.doubt("The tuner had no answer on this machine, so its server is left out."),
    }
    stage.step("the search");
    Ok(found)
}

/// A server from its start through all phases.
fn day(
    stage: &mut Stage<'_>,
    web: &Web,
    path: &str,
    terms: &Terms,
    block: u32,
) -> Result<Option<Day>, Fault> {
    let key = json!({"row": "day", "server": web.name, "block": block});
    if let Some(day) = stage.known(&key) {
        return Ok(Some(day));
    }
    if stage.stopped() {
        return Ok(None);
    }
    stage.begin(&format!("{}, block {}", web.name, block + 1));
    let mut up = stage.boot(web)?;
    let mut runs = Vec::new();
    for users in terms.users {
        // A phase counts from its first second: adapting is the question.
        let clients = Clients::new(path, *users, terms.phase);
        let Some(run) = stage.ask(&mut up, &clients)? else { return Ok(None) };
        runs.push(run);
    }
    up.server.process.stop(Duration::from_secs(10));
    let day = Day { server: web.name.clone(), runs };
    stage.record(&json!({"row": "day", "server": day.server, "block": block, "runs": day.runs}))?;
    stage.step(&format!("{}, block {}", web.name, block + 1));
    Ok(Some(day))
}

/// The slowest tenth of a phase, milliseconds.
fn p90_ms(run: &WebRun) -> Option<f64> {
    run.load.whole.p90_ns.map(|ns| ns / 1e6)
}

/// A figure of a server in one phase, block by block.
fn of(days: &[Day], server: &str, at: usize, figure: cases::Figure) -> Vec<f64> {
    let mine = days.iter().filter(|day| day.server == server);
    mine.filter_map(|day| figure(day.runs.get(at)?)).collect()
}

/// The worst phase of each block of a server, in deadlines.
fn worst(days: &[Day], server: &str) -> Vec<f64> {
    let mine = days.iter().filter(|day| day.server == server);
    let worst = mine.filter_map(|day| day.runs.iter().filter_map(p90_ms).max_by(f64::total_cmp));
    worst.map(|ms| ms / (DEADLINE.as_secs_f64() * 1e3)).collect()
}

/// The mean number of living threads.
fn threads(run: &WebRun) -> Option<f64> {
    let looks = &run.churn.looks;
    let sum: u32 = looks.iter().map(|(_, _, threads)| threads).sum();
    (!looks.is_empty()).then(|| f64::from(sum) / looks.len() as f64)
}

fn draft(days: &[Day], terms: &Terms) -> Draft {
    let mut it = Draft::default();
    let adapts = if days.iter().any(|day| day.server == TUNED) { TUNED } else { GOVERNED };
    let studied = if days.iter().any(|day| day.server == REAL) { REAL } else { OURS };
    let [fixed, held] = [studied, adapts].map(|server| worst(days, server));
    it.set("source", SOURCE);
    it.set("work", words::span(WORK));
    it.set("deadline", words::span(DEADLINE));
    it.set("phase", words::span(terms.phase));
    it.set("blocks", terms.blocks);
    it.set("users", terms.users.iter().map(u32::to_string).collect::<Vec<_>>());
    it.set("studied", studied);
    it.set("adapts", adapts);
    it.set("fixed", median(&fixed).map(words::ratio));
    it.set("held", median(&held).map(words::ratio));
    it.published = super::study::table(&[THREADS]);
    it.flawed = side(days, terms, &[REAL, OURS]);
    it.corrected = side(days, terms, &[DAMPED, GOVERNED, TUNED]);
    it.together.named(terms.users.iter().map(u32::to_string));
    for server in NAMES {
        let points = (0..terms.users.len())
            .filter_map(|at| Some((at as f64 + 1.0, median(&of(days, server, at, threads))?)));
        it.together.series(Series::measured(server, points));
    }
    it.expect_median("settings-miss", &fixed);
    it.expect_median("adapts-holds", &held);
    let answered = |server: &str| -> Vec<f64> {
        let mine = days.iter().filter(|day| day.server == server);
        mine.map(|day| day.runs.iter().map(|run| run.load.requests as f64).sum()).collect()
    };
    let pairs: Vec<(f64, f64)> = answered(adapts).into_iter().zip(answered(studied)).collect();
    let ratio = stats::compare(&pairs, 1_000, 1);
    it.expect_ratio("answers-as-much", ratio.as_ref());
    it
}

fn side(days: &[Day], terms: &Terms, servers: &[&str]) -> Part {
    let mut part = Part::default();
    for (at, users) in terms.users.iter().enumerate() {
        for server in servers {
            let shown = |figure: cases::Figure| said(&of(days, server, at, figure));
            if of(days, server, at, cases::rps).is_empty() {
                continue;
            }
            part.row([
                words::count(*users),
                (*server).to_string(),
                shown(cases::rps),
                shown(cases::whole_ms),
                shown(p90_ms),
                shown(cases::refused),
                shown(threads),
            ]);
        }
    }
    part.named(terms.users.iter().map(u32::to_string));
    for server in servers {
        let points = (0..terms.users.len())
            .filter_map(|at| Some((at as f64 + 1.0, median(&of(days, server, at, p90_ms))?)));
        part.series(Series::measured(*server, points).drawn_as(Mark::Bar));
    }
    part
}
