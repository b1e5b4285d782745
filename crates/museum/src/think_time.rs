//! Think time: clients that sleep between their orders measure their own sleep.
//!
//! The course's clients sleep for a second after each order, so a thousand of them ask a thousand
//! times a second at most, and any server that can answer a few thousand looks like any other. The
//! flawed run is the course's program; the corrected one asks the same servers for the same mix as
//! fast as replies come. The surprising thing is in the published numbers themselves: where they
//! fall short of the ceiling, at 500 and 1000 clients, it is not the servers either; see the
//! exhibit on the accept queue.

use crate::course::{self, CLIENTS, Mix, ORDERS, PAUSE, WORKERS};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::ceiling_rps;
use crate::showing::{Axis, Finding, Grid, Place, Plot, Series, Showing, Side};
use crate::stage::{Crowd, CrowdRun, Raced, Settings, Stage, race_duration};
use crate::words;
use lab::metric::Metric;
use lab::plan::{LoadPoint, Plan};
use lab::verdict::Verdict;
use std::time::Duration;

/// The two servers of the report: its event-based one calls `select`, its thread-based one has a
/// pool of as many threads as there are clients.
const ENGINES: [&str; 2] = ["select", "pool"];
/// One more, which the report discusses without measuring it.
const THIRD: &str = "epoll";
/// Replies of the course's kit: a block of 8192 bytes.
const FRAMING: &str = "--framing fixed:8192";
/// Beginning, forks and end of a crowd, beside its sleep.
const CROWD_OVERHEAD: Duration = Duration::from_millis(1_500);

/// The exhibit.
pub struct ThinkTime;

/// One crowd of sleepers at one server.
struct Sleepers {
    clients: u32,
    /// Index into [`ENGINES`].
    side: usize,
    run: CrowdRun,
}

impl Exhibit for ThinkTime {
    fn name(&self) -> &'static str {
        "think-time"
    }

    fn title(&self) -> &'static str {
        "Think time"
    }

    fn about(&self) -> &'static str {
        "a sleep of one second in the client makes two servers equal"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let crowds = 2 * settings.clients(&CLIENTS).len() as u32;
        let asleep = settings.scale.of(PAUSE) * ORDERS;
        Effort::new(crowds, asleep + CROWD_OVERHEAD).and(race_duration(&awake_plan(settings)))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let asleep = asleep(stage)?;
        let settings = stage.settings().clone();
        let mut plan = awake_plan(&settings);
        plan.arms = ENGINES.iter().chain([&THIRD]).map(|name| arm(stage, name)).collect();
        plan.files = vec![stage.book()];
        let awake = stage.race(&plan)?;
        Ok(told(stage, &asleep, awake.as_ref(), &plan))
    }
}

fn flags(name: &str) -> String {
    match name {
        "pool" => format!("--engine pool --workers {WORKERS} {FRAMING}"),
        name => format!("--engine {name} {FRAMING}"),
    }
}

fn arm(stage: &Stage<'_>, name: &str) -> lab::plan::Arm {
    let mut arm = stage.arm(name, &flags(name));
    arm.load = FRAMING.split(' ').map(String::from).collect();
    arm.boot_ms_max = 30_000;
    arm
}

/// The course's clients as they are, at each server in turn.
fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Sleepers>, Fault> {
    let mut found = Vec::new();
    for clients in stage.settings().clients(&CLIENTS) {
        for (side, name) in ENGINES.iter().enumerate() {
            let crowd = Crowd {
                name: name.to_string(),
                server: flags(name),
                clients,
                orders: ORDERS,
                pause: stage.wait(PAUSE),
                mix: Mix::Mixed.flag(),
                hold: None,
            };
            let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
            found.push(Sleepers { clients, side, run });
        }
    }
    Ok(found)
}

fn point_name(clients: u32) -> String {
    words::counted(clients, "client")
}

/// The same question without the sleep; arms are added where there is a stage.
fn awake_plan(settings: &Settings) -> Plan {
    let point = |clients| LoadPoint {
        name: point_name(clients),
        connections: clients,
        mix: Mix::Mixed.flag().to_string(),
        series: "clients".to_string(),
        x: Some(f64::from(clients)),
        ..LoadPoint::default()
    };
    let names = ENGINES.iter().chain([&THIRD]);
    let arms = names.map(|name| lab::plan::Arm { name: name.to_string(), ..Default::default() });
    Plan {
        question: "Do the servers of the report differ when their clients do not sleep?".into(),
        label: Plan::label_for(settings.blocks(6)).to_string(),
        arms: arms.collect(),
        baseline: ENGINES[0].to_string(),
        points: settings.clients(&CLIENTS).into_iter().map(point).collect(),
        blocks: settings.blocks(6),
        seed: u64::from(settings.seed),
        warmup_ms: settings.window(Duration::from_millis(200)).as_millis() as u64,
        window_ms: settings.window(Duration::from_millis(600)).as_millis() as u64,
        metrics: vec![Metric::Throughput, Metric::Cpu],
        ..Plan::default()
    }
}

fn told(stage: &Stage<'_>, asleep: &[Sleepers], awake: Option<&Raced>, plan: &Plan) -> Showing {
    let pause = stage.wait(PAUSE);
    let widest = widest(asleep);
    let largest = awake.and_then(|raced| largest(raced, plan));
    let sleep = match widest {
        Some(gap) => format!(
            "with a sleep of {} between orders the two servers were never further apart than {}",
            words::span(pause),
            words::percent(gap),
        ),
        None => "the run with the sleep was stopped".to_string(),
    };
    let without = match &largest {
        Some(it) => format!("without it, {}", it.words),
        None => "the run without it was stopped".to_string(),
    };
    Showing {
        headline: format!("A client that sleeps measures its own sleep: {sleep}; {without}."),
        published: course::throughputs(
            "The throughput of the two servers is nearly the same and grows linearly; it is held \
             down by the sleep of one second in the client, and measuring without that delay would \
             give a more accurate result. The thread-based server tends to be slightly faster, \
             which should become clearer with more complex work and larger servers.",
            &[Mix::Mixed],
        ),
        flawed: flawed(asleep, pause),
        corrected: corrected(awake, plan),
        why: why(pause),
        lesson: "Before asking which server is faster, ask what the client was waiting for."
            .to_string(),
        together: Some(together(asleep, awake, plan, pause)),
        findings: findings(asleep, awake, plan, pause, widest, largest.as_ref()),
        facts: vec![
            ("Orders of each client".into(), ORDERS.to_string()),
            ("Sleep after each order".into(), words::span(pause)),
            ("Plan of the race".into(), plan.hash()),
        ],
        doubts: Vec::new(),
    }
}

/// The largest relative difference between the two servers over all sizes of the crowd.
fn widest(asleep: &[Sleepers]) -> Option<f64> {
    pairs(asleep).map(|(_, [a, b])| (b / a - 1.0).abs()).max_by(f64::total_cmp)
}

/// Requests per second of both servers, where both were measured.
fn pairs(asleep: &[Sleepers]) -> impl Iterator<Item = (u32, [f64; 2])> {
    asleep.chunks_exact(2).map(|pair| (pair[0].clients, [0, 1].map(|at| pair[at].run.orders_per_s)))
}

/// The largest difference in CPU per request that was found without the sleep.
struct Largest {
    ratio: f64,
    is_sure: bool,
    words: String,
}

fn largest(raced: &Raced, plan: &Plan) -> Option<Largest> {
    let candidates = plan
        .points
        .iter()
        .filter_map(|point| Some((point, raced.judged(&point.name, ENGINES[1], Metric::Cpu)?)));
    let far = |ratio: f64| ratio.ln().abs();
    let (point, judged) = candidates
        .max_by(|a, b| far(a.1.comparison.ratio).total_cmp(&far(b.1.comparison.ratio)))?;
    let speed = raced.judged(&point.name, ENGINES[1], Metric::Throughput);
    let speed = speed.map_or(String::new(), |it| {
        format!(" and answers {} as many requests per second", words::ratio(it.comparison.ratio))
    });
    Some(Largest {
        ratio: judged.comparison.ratio,
        is_sure: matches!(judged.verdict, Verdict::Better | Verdict::Worse),
        words: format!(
            "at {} the pool of threads needs {} the CPU of select per request{speed}",
            point.name,
            words::compared(&judged.comparison),
        ),
    })
}

fn flawed(asleep: &[Sleepers], pause: Duration) -> Side {
    let mut numbers = Grid::new(&[
        "clients",
        "ceiling, requests/s",
        "select",
        "pool",
        "pool / select",
        "published, of the ceiling",
    ]);
    for (clients, [select, pool]) in pairs(asleep) {
        let published = course::published_rps(Mix::Mixed, 0, clients);
        numbers.row([
            words::count(clients),
            words::number(ceiling_rps(clients, pause)),
            words::number(select),
            words::number(pool),
            format!("{:.3}", pool / select),
            words::or_none(published, |it| words::percent(it / ceiling_rps(clients, PAUSE))),
        ]);
    }
    let reached =
        pairs(asleep).map(|(clients, [select, _])| (clients, select / ceiling_rps(clients, pause)));
    let reached: Vec<String> = reached
        .map(|(clients, share)| format!("{} at {}", words::percent(share), words::count(clients)))
        .collect();
    Side {
        setup: format!(
            "The course's program multiclient: every client is a process that sends {ORDERS} \
             orders and sleeps for {} after each. Servers: select, and a pool of {} threads, with \
             the course's replies of 8192 bytes.",
            words::span(pause),
            words::count(WORKERS),
        ),
        finding: match reached.is_empty() {
            true => "Stopped before the first crowd had ended.".to_string(),
            false => format!(
                "Both servers answer what they are asked, which is what the sleep allows. Reached \
                 of that ceiling with select: {} clients.",
                reached.join(", ")
            ),
        },
        plot: None,
        numbers,
    }
}

fn corrected(awake: Option<&Raced>, plan: &Plan) -> Side {
    let mut numbers = Grid::new(&[
        "clients",
        "select, requests/s",
        "pool",
        "epoll",
        "CPU per request, pool / select",
        "epoll / select",
    ]);
    let Some(raced) = awake else {
        return Side { finding: "Stopped before it began.".into(), numbers, ..Side::default() };
    };
    let mut series: Vec<Series> = Vec::new();
    for name in [ENGINES[1], THIRD] {
        let mut line = Series { name: format!("{name} / select"), ..Series::default() };
        for point in &plan.points {
            if let Some(it) = raced.judged(&point.name, name, Metric::Cpu) {
                line.places.push(Place::of(f64::from(point.connections), &it.comparison));
            }
        }
        series.push(line);
    }
    for point in &plan.points {
        let speed = |name: &str| {
            let arm = raced.arm(&point.name, name);
            words::or_none(arm.and_then(|arm| arm.throughput_rps), words::number)
        };
        let judged = |name: &str| match raced.judged(&point.name, name, Metric::Cpu) {
            Some(it) => {
                let word = it.verdict.word(it.metric);
                format!("{} {word}", words::compared(&it.comparison))
            }
            None => words::NONE.to_string(),
        };
        numbers.row([
            words::count(point.connections),
            speed(ENGINES[0]),
            speed(ENGINES[1]),
            speed(THIRD),
            judged(ENGINES[1]),
            judged(THIRD),
        ]);
    }
    let largest = largest(raced, plan).map(|it| it.words);
    Side {
        setup: format!(
            "The same servers, mix and replies, but nobody sleeps: each client asks again as soon \
             as it has its reply. {} blocks of fresh servers in random order, window {} ms, server \
             and clients on cores of their own. epoll is added for comparison.",
            plan.blocks, plan.window_ms
        ),
        finding: largest.map_or("No pair was measured.".into(), |it| format!("Now {it}.")),
        plot: Some(Plot {
            title: "CPU per request against select".to_string(),
            caption: "1 is as cheap as select; bars are exact 95 % intervals of the median over \
                      blocks."
                .to_string(),
            x: Axis::log("clients"),
            y: Axis::log("CPU per request / that of select"),
            series,
        }),
        numbers,
    }
}

fn together(asleep: &[Sleepers], awake: Option<&Raced>, plan: &Plan, pause: Duration) -> Plot {
    let mut series = course::series(Mix::Mixed).to_vec();
    for (side, name) in ENGINES.iter().enumerate() {
        let places = asleep.iter().filter(|it| it.side == side);
        let places = places.map(|it| (f64::from(it.clients), it.run.orders_per_s)).collect();
        series.push(Series::measured(format!("{name}, sleep of {}", words::span(pause)), places));
    }
    for name in ENGINES.iter().chain([&THIRD]).filter(|_| awake.is_some()) {
        let places = plan.points.iter().filter_map(|point| {
            let speed = awake?.arm(&point.name, name)?.throughput_rps?;
            Some((f64::from(point.connections), speed))
        });
        series.push(Series::measured(format!("{name}, no sleep"), places.collect()));
    }
    Plot {
        title: "Requests per second against the number of clients".to_string(),
        caption: "Both axes are logarithmic. With the sleep all lines lie on one straight line, \
                  the ceiling of clients over sleep; without it they are somewhere else and apart."
            .to_string(),
        x: Axis::log("clients"),
        y: Axis::log("requests/s"),
        series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(
    asleep: &[Sleepers],
    awake: Option<&Raced>,
    plan: &Plan,
    pause: Duration,
    widest: Option<f64>,
    largest: Option<&Largest>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(gap) = widest {
        let expected = "with the sleep, servers at most 10 % apart at every size";
        found.push(Finding::new("equal-asleep", gap <= 0.1, gap, expected));
    }
    let shares =
        pairs(asleep).flat_map(|(clients, both)| both.map(|rps| rps / ceiling_rps(clients, pause)));
    if let Some(highest) = shares.max_by(f64::total_cmp) {
        let expected = "with the sleep, never more than clients / sleep";
        found.push(Finding::new("below-ceiling", highest <= 1.0, highest, expected));
    }
    let speed = |point: &LoadPoint| awake?.arm(&point.name, ENGINES[0])?.throughput_rps;
    let first = plan.points.first().and_then(speed);
    if let (Some(awake), Some((_, [asleep, _]))) = (first, pairs(asleep).next()) {
        let factor = awake / asleep;
        let expected = "without the sleep, select answers its smallest crowd at least 5 times as \
                        often";
        found.push(Finding::new("freed", factor >= 5.0, factor, expected));
    }
    if let Some(it) = largest {
        let expected = "without the sleep, pool and select differ in CPU per request, interval \
                        beyond the A/A floor";
        found.push(Finding::new("differ-awake", it.is_sure, it.ratio, expected));
    }
    found
}

fn why(pause: Duration) -> Vec<String> {
    let pause = words::span(pause);
    vec![
        format!(
            "A client that waits R for its reply and then sleeps for Z asks once every Z + R. Of N \
             such clients a server sees N / (Z + R) requests per second. Z is {pause} and R is \
             some hundredths of a millisecond, so the server's part is lost in the fifth digit: \
             a server that is twice as slow looks 0.01 % slower."
        ),
        "The published table shows it: at 1, 10 and 100 clients the throughput is 99.9, 99.8 and \
         98.9 % of N per second. At 500 and 1,000 it is 84 and 76 %, and that is not the servers \
         either: connections were turned away and tried again after whole seconds (exhibit \
         accept-queue)."
            .to_string(),
        "Without the sleep the same servers are asked as fast as they answer, and architecture \
         begins to matter: select finds many ready clients with one call, a pool wakes a thread \
         for every request, and each wake-up is a context switch that somebody pays for."
            .to_string(),
        "A sleep between requests is not wrong in itself. Real clients think. But then the \
         question is how long a reply takes, or how many thinking clients one server can carry, \
         and not how many requests per second it answered."
            .to_string(),
    ]
}
