//! The staircase: workers that keep their client serve in rounds.
//!
//! The same report saw that with fewer threads than clients the time jumps, and raised the number
//! of threads to the number of clients "for a general comparison". It gives the law as
//! floor(clients / threads) times ten seconds; it is ceil. The surprising thing is that nothing is
//! overloaded at any moment: the workers sleep together with their clients.

use crate::course::{ORDERS, PAUSE, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::{rounds, staircase};
use crate::showing::{Axis, Finding, Grid, Plot, Published, Series, Showing, Side};
use crate::stage::{Crowd, Settings, Stage};
use crate::words;
use std::time::Duration;

/// Workers of the pool.
const WORKERS: u32 = 10;
/// Sizes of the crowd: on both sides of each step.
const CLIENTS: [u32; 7] = [5, 10, 11, 15, 20, 21, 40];
/// How far a measured time may lie from the law, as a share of one session, beside the overhead of
/// forks and handshakes.
const TOLERANCE: f64 = 0.35;
/// Beginning, forks and end of a crowd.
const OVERHEAD: Duration = Duration::from_millis(400);

/// The exhibit.
pub struct Staircase;

/// One crowd: its size, and how long it took with workers and without.
struct Stair {
    clients: u32,
    pool_s: f64,
    epoll_s: Option<f64>,
}

impl Exhibit for Staircase {
    fn name(&self) -> &'static str {
        "staircase"
    }

    fn title(&self) -> &'static str {
        "The staircase"
    }

    fn about(&self) -> &'static str {
        "with fewer workers than clients, time goes up in steps while everybody sleeps"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let session = settings.scale.of(PAUSE) * ORDERS;
        let clients = settings.clients(&CLIENTS);
        let sessions: u32 = clients.iter().map(|it| rounds(*it, WORKERS) + 1).sum();
        let steps = 2 * clients.len() as u32;
        Effort { steps, time: session * sessions + OVERHEAD * steps }
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
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
        Ok(told(stage.wait(PAUSE), &found))
    }
}

fn elapsed(
    stage: &mut Stage<'_>,
    name: &str,
    engine: &str,
    clients: u32,
) -> Result<Option<f64>, Fault> {
    let crowd = Crowd {
        name: name.to_string(),
        server: format!("{engine} --framing fixed:8192"),
        clients,
        orders: ORDERS,
        pause: stage.wait(PAUSE),
        mix: "show=1,buy=1,sell=1",
        hold: None,
    };
    Ok(stage.crowd(&crowd)?.map(|(run, _)| run.elapsed_s))
}

fn told(pause: Duration, found: &[Stair]) -> Showing {
    let session = pause * ORDERS;
    let law = |clients| staircase(clients, WORKERS, session).as_secs_f64();
    let off = |it: &Stair| (it.pool_s - law(it.clients)) / session.as_secs_f64();
    let worst = found.iter().map(off).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let last = found.iter().rfind(|it| it.epoll_s.is_some());
    Showing {
        headline: match last {
            Some(it) => format!(
                "{} clients who sleep take {} with {WORKERS} workers and {} with one event loop: \
                 a worker that keeps its client sleeps with it.",
                it.clients,
                words::seconds(it.pool_s),
                words::or_none(it.epoll_s, words::seconds),
            ),
            None => "Stopped before a crowd had met both servers.".to_string(),
        },
        published: published(),
        flawed: flawed(pause, found),
        corrected: corrected(pause, found),
        why: why(pause),
        lesson: "If time grows in equal steps, somebody is queueing for a fixed number of seats."
            .to_string(),
        together: Some(together(found, session)),
        findings: findings(found, worst),
        facts: vec![
            ("Workers".into(), WORKERS.to_string()),
            ("Orders of each client".into(), ORDERS.to_string()),
            ("Sleep after each order".into(), words::span(pause)),
            ("One session".into(), words::span(session)),
        ],
        doubts: Vec::new(),
    }
}

fn published() -> Published {
    let mut numbers = Grid::new(&["clients", "floor(clients / 10) sessions", "ceil(clients / 10)"]);
    for clients in CLIENTS {
        let [low, high] = [clients / WORKERS, rounds(clients, WORKERS)];
        numbers.row([words::count(clients), low.to_string(), high.to_string()]);
    }
    Published {
        claim: "A worker thread serves the same client until it disconnects, so with more clients \
                than threads the elapsed time was about floor(CLIENTS / NTHREADS) x 10 seconds. To \
                compare in general, NTHREADS was set to the largest number of clients, 1000."
            .to_string(),
        source: SOURCE.to_string(),
        numbers,
    }
}

fn flawed(pause: Duration, found: &[Stair]) -> Side {
    let session = (pause * ORDERS).as_secs_f64();
    let mut numbers =
        Grid::new(&["clients", "elapsed", "in sessions", "ceil law", "floor law (published)"]);
    for it in found {
        numbers.row([
            words::count(it.clients),
            words::seconds(it.pool_s),
            format!("{:.2}", it.pool_s / session),
            rounds(it.clients, WORKERS).to_string(),
            (it.clients / WORKERS).to_string(),
        ]);
    }
    Side {
        setup: format!(
            "A pool of {WORKERS} blocking workers; each keeps its client until that one leaves. \
             Every client sends {ORDERS} orders and sleeps for {} after each: a session takes {}.",
            words::span(pause),
            words::span(pause * ORDERS),
        ),
        finding: "The last client of each round of ten leaves one session after the round before: \
                  time goes up by whole sessions, as ceil(clients / workers) says."
            .to_string(),
        plot: None,
        numbers,
    }
}

fn corrected(pause: Duration, found: &[Stair]) -> Side {
    let session = (pause * ORDERS).as_secs_f64();
    let mut numbers = Grid::new(&["clients", "elapsed", "in sessions"]);
    for it in found {
        numbers.row([
            words::count(it.clients),
            words::or_none(it.epoll_s, words::seconds),
            words::or_none(it.epoll_s, |s| format!("{:.2}", s / session)),
        ]);
    }
    Side {
        setup: "The same clients at one event loop (epoll), which keeps nobody: whoever sleeps \
                costs it nothing. The other cure is the report's, a worker for every client; the \
                exhibit on think time has it."
            .to_string(),
        finding: "One session, whatever the number of clients.".to_string(),
        plot: None,
        numbers,
    }
}

fn together(found: &[Stair], session: Duration) -> Plot {
    let session = session.as_secs_f64();
    let most = found.iter().map(|it| it.clients).max().unwrap_or(0);
    let law = |steps: fn(u32) -> u32| {
        (1..=most).map(|it| (f64::from(it), f64::from(steps(it)) * session)).collect()
    };
    let measured = |value: fn(&Stair) -> Option<f64>| {
        found.iter().filter_map(|it| Some((f64::from(it.clients), value(it)?))).collect()
    };
    let marks = |name: &str, places| Series {
        drawn: crate::showing::Drawn::Marks,
        ..Series::measured(name, places)
    };
    let series = vec![
        Series::published("ceil(clients / workers)", law(|it| rounds(it, WORKERS))),
        Series::published("floor, as published", law(|it| it / WORKERS)),
        marks("pool of 10 workers", measured(|it| Some(it.pool_s))),
        marks("epoll", measured(|it| it.epoll_s)),
    ];
    Plot {
        title: "Time until the last client has left".to_string(),
        caption: "Marks are measured; the dashed stairs are arithmetic.".to_string(),
        x: Axis::linear("clients"),
        y: Axis::linear("seconds"),
        series,
    }
}

fn findings(found: &[Stair], worst: Option<f64>) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(off) = worst {
        let expected = "elapsed times within 0.35 of a session of ceil(clients / workers) sessions";
        all.push(Finding::new("staircase", off.abs() <= TOLERANCE, off, expected));
    }
    let factor = found.iter().filter_map(|it| Some((it.clients, it.pool_s / it.epoll_s?)));
    if let Some((clients, factor)) = factor.max_by_key(|it| it.0) {
        let want = f64::from(rounds(clients, WORKERS));
        let expected =
            format!("about {want} times as long with {WORKERS} workers as with one loop");
        let holds = factor >= want * 0.6 && factor <= want * 1.4;
        all.push(Finding::new("rounds", holds, factor, expected));
    }
    all
}

fn why(pause: Duration) -> Vec<String> {
    vec![
        format!(
            "A worker that reads from one client until it leaves spends a session of {} with it, \
             nearly all of it asleep, because the client is. With {WORKERS} workers the 11th \
             client waits for a seat although no processor has anything to do.",
            words::span(pause * ORDERS)
        ),
        "So clients are served in rounds of as many as there are workers, and the last round is \
         full or not: its length is the same. That is ceil, not floor. The two agree only at whole \
         multiples, 10, 20, 40."
            .to_string(),
        "Setting the number of workers to the number of clients takes the stairs away and with \
         them the subject: a pool is a bound on how many are served at one time, and what that \
         bound does is exactly what one wants to know of it."
            .to_string(),
    ]
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
            let showing = told(PAUSE, &found);
            assert_eq!(showing.findings[0].holds, want, "{times:?}: {:?}", showing.findings);
        };
        check([10.1, 20.2, 40.4], true);
        // floor(11 / 10) is one session.
        check([10.1, 10.2, 40.4], false);
        check([10.1, 20.2, 30.4], false);
    }

    #[test]
    fn an_early_stop_claims_nothing() {
        let showing = told(PAUSE, &[]);
        assert!(showing.findings.is_empty() && showing.headline.starts_with("Stopped"));
    }
}
