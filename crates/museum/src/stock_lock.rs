//! The lock at each stock: what it costs to lock, and what it costs not to.
//!
//! The course asks for a readers-writers lock at every stock, and expects the threads to gain from
//! it. Whether a lock pays depends on who has to wait for it; with ten stocks and requests that
//! take some microseconds between sleeps of a second nobody ever does. Here the same
//! pool of threads runs with three disciplines, behind the sleep and in duets without it.

use crate::course::{Mix, ORDERS, PAUSE, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Crowd, CrowdRun, Settings, Stage, duet_duration};
use crate::words;
use lab::duet::{Outcome, Part, Plan};
use lab::stats::Comparison;
use std::time::Duration;

/// The disciplines: `serve stock --lock`; the first is what the others are compared with.
const LOCKS: [&str; 3] = ["snapshot", "per-stock", "global"];
/// The crowd that sleeps.
const CLIENTS: [u32; 1] = [100];
/// Connections of those that do not.
const CONNECTIONS: u32 = 32;
/// Requests in flight on each: where the service is visible beside the kernel.
const DEPTH: u32 = 16;
/// How long a duet stays with one server.
const WINDOW: Duration = Duration::from_millis(40);
/// Beginning, forks and end of a crowd, beside its sleep.
const OVERHEAD: Duration = Duration::from_millis(500);

/// The exhibit.
pub struct StockLock;

/// One crowd at one discipline.
struct Locked {
    lock: &'static str,
    run: CrowdRun,
}

/// The duets of one mix.
struct Duets {
    mix: Mix,
    outcome: Outcome,
}

impl Exhibit for StockLock {
    fn name(&self) -> &'static str {
        "stock-lock"
    }

    fn title(&self) -> &'static str {
        "A lock at each stock"
    }

    fn about(&self) -> &'static str {
        "what a lock at each stock costs when nobody sleeps, against one lock and none"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let crowds = (settings.clients(&CLIENTS).len() * LOCKS.len()) as u32;
        let asleep = Effort::new(crowds, settings.scale.of(PAUSE) * ORDERS + OVERHEAD);
        let duets = Mix::ALL.map(|mix| duet_duration(&plan(settings, mix)));
        duets.into_iter().fold(asleep, Effort::and)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let asleep = asleep(stage)?;
        let mut awake = Vec::new();
        for mix in Mix::ALL {
            let mut plan = plan(stage.settings(), mix);
            plan.files = vec![stage.book()];
            for part in &mut plan.parts {
                part.command = stage.arm(&part.name, &flags(&part.name)).command;
            }
            match stage.duet(&plan)? {
                Some(outcome) => awake.push(Duets { mix, outcome }),
                None => break,
            }
        }
        Ok(told(stage.wait(PAUSE), &asleep, &awake))
    }
}

fn flags(lock: &str) -> String {
    let workers = CONNECTIONS.max(CLIENTS[0]);
    format!("--engine pool --workers {workers} --lock {lock}")
}

fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Locked>, Fault> {
    let mut found = Vec::new();
    for clients in stage.settings().clients(&CLIENTS) {
        for lock in LOCKS {
            let crowd = Crowd {
                name: lock.to_string(),
                server: format!("{} --framing fixed:8192", flags(lock)),
                clients,
                orders: ORDERS,
                pause: stage.wait(PAUSE),
                mix: Mix::Mixed.flag(),
                hold: None,
            };
            let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
            found.push(Locked { lock, run });
        }
    }
    Ok(found)
}

/// Duets of one mix; commands and files are put in where there is a stage.
fn plan(settings: &Settings, mix: Mix) -> Plan {
    let part = |lock: &str| Part {
        name: lock.to_string(),
        command: vec![lock.to_string()],
        scheme: "stock".to_string(),
        request: None,
        expect: None,
        idle: 0,
    };
    Plan {
        parts: LOCKS.map(part).to_vec(),
        twin: true,
        connections: CONNECTIONS,
        depth: DEPTH,
        requests_per_connection: 0,
        mix: mix.flag().to_string(),
        fresh_pairs: settings.blocks(8),
        windows: settings.window(WINDOW * 20).div_duration_f64(WINDOW).ceil() as u32,
        window_ms: WINDOW.as_millis() as u64,
        warmup_ms: settings.window(Duration::from_millis(200)).as_millis() as u64,
        seed: u64::from(settings.seed),
        files: Vec::new(),
        greeting: String::new(),
    }
}

/// One discipline against the first in one mix, as `other / first`.
struct Against<'a> {
    lock: &'a str,
    found: Comparison,
    cpu_ns: Option<f64>,
}

impl Duets {
    fn against(&self) -> Vec<Against<'_>> {
        let pairings = self.outcome.pairings.iter();
        pairings
            .filter_map(|it| {
                // A duet divides the first by the second; read the other way round it says what
                // the lock costs.
                let pairs: Vec<(f64, f64)> = it.fresh.iter().map(|it| (1.0, it.ratio)).collect();
                let found = lab::stats::compare(&pairs, 0, 0)?;
                Some(Against { lock: &it.b, found, cpu_ns: it.b_cpu_ns })
            })
            .collect()
    }
}

fn told(pause: Duration, asleep: &[Locked], awake: &[Duets]) -> Showing {
    let all: Vec<(Mix, Against<'_>)> =
        awake.iter().flat_map(|it| it.against().into_iter().map(|found| (it.mix, found))).collect();
    let of = |mix: Mix, lock: &str| all.iter().find(|(m, it)| *m == mix && it.lock == lock);
    let per_stock = |mix| of(mix, "per-stock").map(|(_, it)| words::compared(&it.found));
    let headline = match (per_stock(Mix::Show), per_stock(Mix::Trade)) {
        (Some(show), Some(trade)) => format!(
            "A lock at each stock makes a show {show} as costly as a snapshot does and an order \
             {trade}; behind a sleep of {} nobody could have seen it.",
            words::span(pause)
        ),
        _ => "Stopped before the locks had been compared.".to_string(),
    };
    Showing {
        headline,
        published: Published {
            claim: "Each node is protected by a semaphore of its own when it is bought or sold, \
                    for several clients changing the same node. The thread-based server, which \
                    needs it, tends to be slightly faster, and more so, it is expected, with more \
                    complex work."
                .to_string(),
            source: SOURCE.to_string(),
            numbers: Grid::default(),
        },
        flawed: flawed(asleep, pause),
        corrected: corrected(&all),
        why: why(),
        lesson:
            "A lock's price is paid at every request, its worth only where somebody would have \
                 collided."
                .to_string(),
        together: None,
        findings: findings(asleep, &all),
        facts: vec![
            ("Sleep after each order".into(), words::span(pause)),
            ("Connections of a duet".into(), CONNECTIONS.to_string()),
            ("Requests in flight on each".into(), DEPTH.to_string()),
        ],
        doubts: vec![
            "In a duet the server's threads share one core, so they seldom collide: what is \
             measured is the price of locking, not of waiting."
                .to_string(),
        ],
    }
}

fn flawed(asleep: &[Locked], pause: Duration) -> Side {
    let mut numbers = Grid::new(&["lock", "clients", "requests/s", "elapsed"]);
    for it in asleep {
        numbers.row([
            it.lock.to_string(),
            words::count(it.run.clients),
            words::number(it.run.orders_per_s),
            words::seconds(it.run.elapsed_s),
        ]);
    }
    Side {
        setup: format!(
            "The course's clients, {ORDERS} orders each with a sleep of {}, at a pool of threads \
             with no lock but a gate for show (snapshot), a lock at each stock, or one lock for \
             all.",
            words::span(pause)
        ),
        finding: "Three disciplines, one throughput.".to_string(),
        plot: None,
        numbers,
    }
}

fn corrected(all: &[(Mix, Against<'_>)]) -> Side {
    let mut numbers =
        Grid::new(&["requests", "lock", "CPU per request", "against snapshot, 95 % interval"]);
    let mut series: Vec<Series> = Vec::new();
    for (mix, it) in all {
        numbers.row([
            mix.name().to_string(),
            it.lock.to_string(),
            words::or_none(it.cpu_ns, words::micros),
            words::compared(&it.found),
        ]);
        let at = Mix::ALL.iter().position(|other| other == mix).unwrap_or(0) as f64 + 1.0;
        let place = Place::of(at, &it.found);
        match series.iter_mut().find(|line| line.name == it.lock) {
            Some(line) => line.places.push(place),
            None => series.push(Series {
                name: it.lock.to_string(),
                drawn: Drawn::Marks,
                published: false,
                places: vec![place],
            }),
        }
    }
    let finding: Vec<String> = all
        .iter()
        .filter(|(_, it)| it.lock == LOCKS[1])
        .map(|(mix, it)| format!("{} {}", mix.name(), words::compared(&it.found)))
        .collect();
    Side {
        setup: format!(
            "Duets: two servers are up at once and the same client alternates between them every \
             40 ms; {CONNECTIONS} connections, {DEPTH} requests in flight on each, nobody sleeps. \
             Fresh pairs of processes give the interval, and the snapshot plays against its own \
             twin."
        ),
        finding: match finding.is_empty() {
            true => "No pair was played.".to_string(),
            false => format!("A lock at each stock against a snapshot: {}.", finding.join("; ")),
        },
        plot: (!series.is_empty()).then(|| Plot {
            title: "CPU per request against a snapshot".to_string(),
            caption:
                "1: mixed, 2: show only, 3: buy and sell only. The twin shows how far two equal \
                      servers stray."
                    .to_string(),
            x: Axis::linear("kind of request"),
            y: Axis::linear("CPU per request / that of snapshot"),
            series,
        }),
        numbers,
    }
}

fn findings(asleep: &[Locked], all: &[(Mix, Against<'_>)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let rates: Vec<f64> = asleep.iter().map(|it| it.run.orders_per_s).collect();
    let high = rates.iter().copied().max_by(f64::total_cmp);
    let low = rates.iter().copied().min_by(f64::total_cmp);
    if let Some((high, low)) = high.zip(low).filter(|_| asleep.len() == LOCKS.len()) {
        let apart = high / low - 1.0;
        let expected = "behind the sleep, disciplines at most 10 % apart in requests/s";
        found.push(Finding::new("equal-asleep", apart <= 0.1, apart, expected));
    }
    let show = all.iter().find(|(mix, it)| *mix == Mix::Show && it.lock == LOCKS[1]);
    if let Some((_, it)) = show {
        let expected = "without it, a lock at each stock makes a show dearer (interval above 1)";
        let holds = it.found.interval.is_some_and(|range| range.low > 1.0);
        found.push(Finding::new("lock-costs", holds, it.found.ratio, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "A show that must not see half of an order has two ways. It can lock: with a lock at each \
         stock it takes ten of them, one after another, and gives them back. Or it can take a \
         snapshot: it closes a gate, waits until the orders that are under way have ended, copies \
         ten numbers, and opens the gate; orders themselves lock nothing, each is one atomic \
         update."
            .to_string(),
        "Each discipline has a price at every request, whether anybody else is there or not. It is \
         a fraction of a microsecond. A sleep of a second is a million times as long; that is why \
         every discipline looked like the best."
            .to_string(),
        "Whether several threads would have collided is another question, and it needs more cores \
         than one for the server. With ten stocks and a thousand requests a second the chance that \
         two orders meet at the same stock within a microsecond is about one in ten thousand."
            .to_string(),
    ]
}
