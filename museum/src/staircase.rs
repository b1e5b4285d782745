//! The staircase: workers that keep their client serve in rounds.
//!
//! The course's report observed that the time jumps with fewer threads than clients, and raised the
//! number of threads to the number of clients "for a general comparison". It gives the law as
//! floor(clients / threads) times ten seconds; it is ceil. No server is overloaded at any moment:
//! the workers sleep together with their clients.

use crate::course::{Mix, ORDERS, PAUSE, SOURCE};
use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::{rounds, staircase};
use crate::stage::{Crowd, Settings, Stage};
use document::{Mark, Series};
use stats::words;
use std::time::Duration;

/// Workers of the pool.
const WORKERS: u32 = 10;
/// Sizes of the crowd: on both sides of each step.
const CLIENTS: [u32; 7] = [5, 10, 11, 15, 20, 21, 40];
/// Start, forks and end of a crowd.
const OVERHEAD: Duration = Duration::from_millis(400);

/// The exhibit.
pub struct Staircase;

/// One crowd: its size, and how long it took at the pool and at the event loop.
struct Stair {
    clients: u32,
    pool_s: f64,
    epoll_s: Option<f64>,
}

impl Exhibit for Staircase {
    fn name(&self) -> &'static str {
        "staircase"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let session = settings.scale.of(PAUSE) * ORDERS;
        let clients = settings.clients(&CLIENTS);
        let sessions: u32 = clients.iter().map(|it| rounds(*it, WORKERS) + 1).sum();
        let steps = 2 * clients.len() as u32;
        Effort { steps, time: session * sessions + OVERHEAD * steps }
    }

    fn has_visitors(&self) -> bool {
        true
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let mut found = Vec::new();
        for clients in stage.settings().clients(&CLIENTS) {
            let pool = format!("--engine pool --workers {WORKERS}");
            let Some(pool_s) = elapsed(stage, "pool", &pool, clients)? else { break };
            let epoll_s = elapsed(stage, "epoll", "--engine epoll", clients)?;
            let is_over = epoll_s.is_none();
            found.push(Stair { clients, pool_s, epoll_s });
            if is_over {
                break;
            }
        }
        Ok(draft(stage.wait(PAUSE), &found))
    }

    #[cfg(test)]
    fn nothing(&self, _settings: &Settings) -> Draft {
        draft(PAUSE, &[])
    }
}

fn elapsed(
    stage: &mut Stage<'_>,
    name: &str,
    engine: &str,
    clients: u32,
) -> Result<Option<f64>, Fault> {
    let server = format!("{engine} --framing fixed:8192");
    let crowd = Crowd::course(name, server, clients, stage.wait(PAUSE), Mix::Mixed);
    Ok(stage.crowd(&crowd)?.map(|(run, _)| run.elapsed_s))
}

fn draft(pause: Duration, found: &[Stair]) -> Draft {
    let mut it = Draft::default();
    let session = pause * ORDERS;
    it.set("source", SOURCE);
    it.set("workers", WORKERS);
    it.set("orders", ORDERS);
    it.set("pause", words::span(pause));
    it.set("session", words::span(session));
    let last = found.iter().rfind(|it| it.epoll_s.is_some());
    it.set("clients", last.map(|it| it.clients));
    it.set("pool", last.map(|it| words::seconds(it.pool_s)));
    it.set("epoll", last.and_then(|it| it.epoll_s).map(words::seconds));
    let slowdown = last.and_then(|it| Some(it.pool_s / it.epoll_s?));
    let rounds_of_last = last.map(|it| f64::from(rounds(it.clients, WORKERS)));
    it.set("rounds", last.map_or(0, |it| rounds(it.clients, WORKERS)));
    rows(&mut it, found, session.as_secs_f64());
    plot(&mut it, found, session.as_secs_f64());
    let law = |clients| staircase(clients, WORKERS, session).as_secs_f64();
    let off = |it: &Stair| (it.pool_s - law(it.clients)) / session.as_secs_f64();
    it.expect("staircase", found.iter().map(off).max_by(|a, b| a.abs().total_cmp(&b.abs())));
    if let Some((factor, want)) = slowdown.zip(rounds_of_last) {
        it.claim("rounds", (want * 0.6..=want * 1.4).contains(&factor), factor);
    }
    it
}

fn rows(it: &mut Draft, found: &[Stair], session: f64) {
    for clients in CLIENTS {
        let [low, high] = [clients / WORKERS, rounds(clients, WORKERS)];
        it.published.row([words::count(clients), low.to_string(), high.to_string()]);
    }
    for stair in found {
        it.flawed.row([
            words::count(stair.clients),
            words::seconds(stair.pool_s),
            format!("{:.2}", stair.pool_s / session),
            rounds(stair.clients, WORKERS).to_string(),
            (stair.clients / WORKERS).to_string(),
        ]);
        it.corrected.row([
            words::count(stair.clients),
            words::or_none(stair.epoll_s, words::seconds),
            words::or_none(stair.epoll_s, |s| format!("{:.2}", s / session)),
        ]);
    }
}

fn plot(it: &mut Draft, found: &[Stair], session: f64) {
    let most = found.iter().map(|it| it.clients).max().unwrap_or(0);
    let law = |steps: fn(u32) -> u32| {
        (1..=most).map(move |it| (it.into(), f64::from(steps(it)) * session))
    };
    let measured = |name: &str, value: fn(&Stair) -> Option<f64>| {
        let points = found.iter().filter_map(|it| Some((f64::from(it.clients), value(it)?)));
        Series::measured(name, points).drawn_as(Mark::Point)
    };
    let ceil = law(|it| rounds(it, WORKERS));
    it.together.series(Series::published("ceil(clients / workers)", ceil));
    it.together.series(Series::published("floor, as published", law(|it| it / WORKERS)));
    it.together.series(measured("pool of 10 workers", |it| Some(it.pool_s)));
    it.together.series(measured("epoll", |it| it.epoll_s));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stair(clients: u32, pool_s: f64) -> Stair {
        Stair { clients, pool_s, epoll_s: Some(10.05) }
    }

    #[test]
    fn times_on_the_stairs_are_found_and_others_are_not() {
        let check = |times: [f64; 3], want: bool| {
            let found: Vec<Stair> =
                [10, 11, 40].into_iter().zip(times).map(|(n, s)| stair(n, s)).collect();
            let document = draft(PAUSE, &found).document(&Staircase.text()).expect("it fits");
            assert_eq!(
                document.findings[0].came_out,
                want.into(),
                "{times:?}: {:?}",
                document.findings
            );
            let prose = document.flawed.finding.contains("time rises by whole sessions");
            assert_eq!(prose, want, "the words agree with the numbers");
        };
        check([10.1, 20.2, 40.4], true);
        // floor(11 / 10) is one session.
        check([10.1, 10.2, 40.4], false);
        check([10.1, 20.2, 30.4], false);
    }

    #[test]
    fn an_early_stop_claims_nothing() {
        let document = draft(PAUSE, &[]).document(&Staircase.text()).expect("it fits");
        assert!(document.findings.is_empty() && document.headline.starts_with("Stopped"));
    }
}
