//! The workload: show only, buy and sell only, mixed.
//!
//! The report repeats its measurement with clients that only show and with clients that only trade,
//! and finds no difference between kinds of request. Behind the sleep of a second there cannot be
//! one. Without it the question has an answer, and it is not about speed but about cost: with one
//! request at a time nearly all of a request is the kernel's, so a second load point keeps sixteen
//! in flight, where the service itself becomes visible.

use crate::course::{self, Mix, ORDERS, PAUSE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::ceiling_rps;
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Series, Showing, Side};
use crate::stage::{Crowd, CrowdRun, Raced, Settings, Stage, race_duration};
use crate::words;
use lab::metric::Metric;
use lab::plan::{LoadPoint, Plan};
use lab::stats::Comparison;
use std::time::Duration;

/// The crowd that sleeps: the size at which the published kinds were closest.
const CLIENTS: [u32; 1] = [100];
/// Connections of those that do not.
const CONNECTIONS: u32 = 32;
/// Requests in flight on each.
const DEPTHS: [u32; 2] = [1, 16];
/// The two servers of the report.
const ENGINES: [&str; 2] = ["select", "pool"];
/// Beginning, forks and end of a crowd, beside its sleep.
const OVERHEAD: Duration = Duration::from_millis(500);

/// The exhibit.
pub struct Workload;

/// One crowd of one kind.
struct Kind {
    mix: Mix,
    engine: &'static str,
    run: CrowdRun,
}

impl Exhibit for Workload {
    fn name(&self) -> &'static str {
        "workload"
    }

    fn title(&self) -> &'static str {
        "Show, buy, sell"
    }

    fn about(&self) -> &'static str {
        "kinds of request look alike behind a sleep, and do not without it"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let asleep = settings.scale.of(PAUSE) * ORDERS + OVERHEAD;
        let crowds = (settings.clients(&CLIENTS).len() * Mix::ALL.len() * ENGINES.len()) as u32;
        Effort::new(crowds, asleep).and(race_duration(&plan(settings)))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let asleep = asleep(stage)?;
        let mut plan = plan(stage.settings());
        plan.arms = ENGINES.iter().map(|name| stage.arm(name, &flags(name))).collect();
        plan.files = vec![stage.book()];
        let awake = stage.race(&plan)?;
        Ok(told(stage, &asleep, awake.as_ref(), &plan))
    }
}

fn flags(engine: &str) -> String {
    match engine {
        "pool" => format!("--engine pool --workers {}", CONNECTIONS.max(CLIENTS[0])),
        name => format!("--engine {name}"),
    }
}

fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Kind>, Fault> {
    let mut found = Vec::new();
    for clients in stage.settings().clients(&CLIENTS) {
        for mix in Mix::ALL {
            for engine in ENGINES {
                let crowd = Crowd {
                    name: format!("{engine}, {}", mix.name()),
                    server: format!("{} --framing fixed:8192", flags(engine)),
                    clients,
                    orders: ORDERS,
                    pause: stage.wait(PAUSE),
                    mix: mix.flag(),
                    hold: None,
                };
                let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
                found.push(Kind { mix, engine, run });
            }
        }
    }
    Ok(found)
}

fn point_name(mix: Mix, depth: u32) -> String {
    format!("{}, depth {depth}", mix.name())
}

/// The same kinds without the sleep; real arms are put in where there is a stage.
fn plan(settings: &Settings) -> Plan {
    let mut points = Vec::new();
    for depth in DEPTHS {
        points.extend(Mix::ALL.map(|mix| LoadPoint {
            name: point_name(mix, depth),
            connections: CONNECTIONS,
            depth,
            mix: mix.flag().to_string(),
            ..LoadPoint::default()
        }));
    }
    let arm = |name: &str| lab::plan::Arm { name: name.to_string(), ..Default::default() };
    Plan {
        question: "What does each kind of request cost?".to_string(),
        label: Plan::label_for(settings.blocks(8)).to_string(),
        arms: ENGINES.map(arm).to_vec(),
        baseline: ENGINES[0].to_string(),
        twin: false,
        points,
        blocks: settings.blocks(8),
        seed: u64::from(settings.seed),
        warmup_ms: settings.window(Duration::from_millis(150)).as_millis() as u64,
        window_ms: settings.window(Duration::from_millis(500)).as_millis() as u64,
        metrics: vec![Metric::Throughput, Metric::Cpu],
        ..Plan::default()
    }
}

/// Showing against trading on one engine, at one depth: CPU per request.
fn show_over_trade(raced: &Raced, engine: &str, depth: u32) -> Option<Comparison> {
    let names = [Mix::Show, Mix::Trade].map(|mix| point_name(mix, depth));
    raced.across(engine, [&names[0], &names[1]], Metric::Cpu)
}

fn told(stage: &Stage<'_>, asleep: &[Kind], awake: Option<&Raced>, plan: &Plan) -> Showing {
    let pause = stage.wait(PAUSE);
    let apart = apart(asleep);
    let deep = DEPTHS[DEPTHS.len() - 1];
    let found = awake.and_then(|raced| show_over_trade(raced, ENGINES[0], deep));
    let behind = match apart {
        Some(apart) => format!(
            "behind a sleep of {} all kinds of request are within {} of each other",
            words::span(pause),
            words::percent(apart)
        ),
        None => "the run behind the sleep was stopped".to_string(),
    };
    let without = match &found {
        Some(it) => format!(
            "without it a show costs {} the CPU of an order (select, {deep} in flight)",
            words::compared(it)
        ),
        None => "the run without it was stopped".to_string(),
    };
    let mut findings = Vec::new();
    if let Some(apart) = apart {
        let expected = "behind the sleep, kinds of request at most 10 % apart in requests/s";
        findings.push(Finding::new("equal-asleep", apart <= 0.1, apart, expected));
    }
    if let Some(it) = &found {
        let holds = it.interval.is_some_and(|range| range.low > 1.0 || range.high < 1.0);
        let expected = "without it, showing and trading differ in CPU per request (interval \
                        without 1)";
        findings.push(Finding::new("differ-awake", holds, it.ratio, expected));
    }
    Showing {
        headline: format!("Kinds of request: {behind}; {without}."),
        published: course::throughputs(
            "Between clients that only show and clients that only buy and sell there is no \
             significant difference in throughput, because the time to process a request is very \
             small and the delay of usleep() is the bottleneck.",
            &[Mix::Show, Mix::Trade],
        ),
        flawed: flawed(asleep, pause),
        corrected: corrected(awake, plan),
        why: why(),
        lesson: "A workload that never keeps the server busy cannot tell workloads apart."
            .to_string(),
        together: None,
        findings,
        facts: vec![
            ("Sleep after each order".into(), words::span(pause)),
            ("Plan of the race".into(), plan.hash()),
        ],
        doubts: Vec::new(),
    }
}

/// How far apart the slowest and the quickest of all crowds of one size are.
fn apart(asleep: &[Kind]) -> Option<f64> {
    let sizes = asleep.iter().map(|it| it.run.clients);
    let spread = |clients: u32| {
        let same = asleep.iter().filter(|it| it.run.clients == clients);
        let rates: Vec<f64> = same.map(|it| it.run.orders_per_s).collect();
        let high = rates.iter().copied().max_by(f64::total_cmp)?;
        let low = rates.iter().copied().min_by(f64::total_cmp)?;
        Some(high / low - 1.0)
    };
    sizes.filter_map(spread).max_by(f64::total_cmp)
}

fn flawed(asleep: &[Kind], pause: Duration) -> Side {
    let mut numbers = Grid::new(&["requests", "server", "clients", "requests/s", "of the ceiling"]);
    for it in asleep {
        let share = it.run.orders_per_s / ceiling_rps(it.run.clients, pause);
        numbers.row([
            it.mix.name().to_string(),
            it.engine.to_string(),
            words::count(it.run.clients),
            words::number(it.run.orders_per_s),
            words::percent(share),
        ]);
    }
    Side {
        setup: format!(
            "The course's clients, {ORDERS} orders each with a sleep of {}, asking for one kind at \
             a time.",
            words::span(pause)
        ),
        finding: "Every kind is answered as often as it is asked.".to_string(),
        plot: None,
        numbers,
    }
}

fn corrected(awake: Option<&Raced>, plan: &Plan) -> Side {
    let mut numbers = Grid::new(&[
        "requests",
        "in flight",
        "server",
        "requests/s",
        "CPU per request",
        "against trading",
    ]);
    let Some(raced) = awake else {
        return Side { finding: "Stopped before it began.".into(), numbers, ..Side::default() };
    };
    for depth in DEPTHS {
        for mix in Mix::ALL {
            for engine in ENGINES {
                let point = point_name(mix, depth);
                let Some(arm) = raced.arm(&point, engine) else { continue };
                let trade = point_name(Mix::Trade, depth);
                let against = raced.across(engine, [&point, &trade], Metric::Cpu);
                numbers.row([
                    mix.name().to_string(),
                    depth.to_string(),
                    engine.to_string(),
                    words::or_none(arm.throughput_rps, words::number),
                    words::or_none(arm.cpu_ns, words::micros),
                    match (mix, against) {
                        (Mix::Trade, _) => "1".to_string(),
                        (_, Some(it)) => words::compared(&it),
                        (_, None) => words::NONE.to_string(),
                    },
                ]);
            }
        }
    }
    let found: Vec<String> = DEPTHS
        .iter()
        .flat_map(|depth| ENGINES.map(|engine| (engine, *depth)))
        .filter_map(|(engine, depth)| {
            let it = show_over_trade(raced, engine, depth)?;
            Some(format!("{} on {engine} with {depth} in flight", words::compared(&it)))
        })
        .collect();
    Side {
        setup: format!(
            "{CONNECTIONS} connections that never sleep, one or {} requests in flight on each, the \
             market's own framing of lines. {} blocks; kinds are compared block by block on the \
             same engine.",
            DEPTHS[1], plan.blocks
        ),
        finding: match found.is_empty() {
            true => "No pair was measured.".to_string(),
            false => format!("CPU of a show against an order: {}.", found.join("; ")),
        },
        plot: Some(costs(raced)),
        numbers,
    }
}

/// Show against trade by depth, for each engine.
fn costs(raced: &Raced) -> Plot {
    let series = ENGINES.map(|engine| {
        let places = DEPTHS.iter().filter_map(|&depth| {
            let it = show_over_trade(raced, engine, depth)?;
            Some(Place::of(f64::from(depth), &it))
        });
        let places = places.collect();
        Series { name: engine.to_string(), drawn: Drawn::Line, places, ..Series::default() }
    });
    Plot {
        title: "CPU of a show against an order".to_string(),
        caption: "1: both cost the same. Bars are exact 95 % intervals of the median over blocks."
            .to_string(),
        x: Axis::log("requests in flight on each connection"),
        y: Axis::linear("CPU per show / CPU per order"),
        series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
    }
}

fn why() -> Vec<String> {
    vec![
        "With a hundred sleeping clients the server is asked a hundred times a second and is idle \
         for more than 99 % of the time. What it does in the remaining part cannot show in \
         requests per second; it would show in the processor's time, which was not measured."
            .to_string(),
        "With one request at a time most of a request is the kernel's: a wake-up, a receive, a \
         send. Sixteen requests that arrive together share these, and what is left is the work \
         that the service does: parsing, finding a stock, and for a show printing ten lines."
            .to_string(),
        "The course pads every reply to 8192 bytes, so that there even the replies have the same \
         size. The corrected run lets each reply be as long as it is."
            .to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowds_are_compared_only_with_crowds_of_their_size() {
        let kind = |clients, orders_per_s| Kind {
            mix: Mix::Show,
            engine: "select",
            run: CrowdRun { clients, orders_per_s, ..CrowdRun::default() },
        };
        let found = apart(&[kind(10, 10.0), kind(10, 9.0), kind(100, 99.0)]).expect("two sizes");
        assert!((found - 10.0 / 9.0 + 1.0).abs() < 1e-9, "{found}");
        assert_eq!(apart(&[]), None);
    }
}
