//! The band of spare threads against the size of a process.
//!
//! Spare workers are counted one by one and come and go by the process. The published setting has a
//! band of 50 (25 to 75) and processes of 50 threads: as wide as the quantum. Three things are told
//! apart here: how much comes and goes (churn), what makes it do so (a load that wobbles, not the
//! number of clients), and what it costs. The surprising thing is the order of their sizes.

use super::cases::{self, Case, Met, churn, cpu_ms, p99_ms, process_churn, rps};
use super::servers::{self, Directives, Toil};
use super::study::{self, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Plot, Published, Showing, Side};
use crate::stage::{Clients, Settings, Stage, WebRun};
use crate::words;
use std::time::Duration;

/// Computing of each request.
const WORK: Duration = Duration::from_millis(5);
/// Clients that stay, and guests: 19 to 31 busy, 25 in the mean.
const STAYING: u32 = 19;
const GUESTS: u32 = 12;
/// Guests stay for so long and are away for as long: Apache looks once a second.
const STAY: Duration = Duration::from_millis(1_250);
/// Widths of the band, in processes.
const WIDTHS: [u32; 4] = [1, 2, 3, 4];
/// The two kinds of load.
const WOBBLING: &str = "wobbling";
const STEADY: &str = "steady";
/// How long the last servers are watched after everybody has left: Apache's rule ends a process a
/// second, ours waits for ten seconds, and at the most for thirty.
const DROP: [(&str, Duration); 2] =
    [("apache", Duration::from_secs(8)), ("damped", Duration::from_secs(35))];
/// The same where it has to be quick.
const DROP_QUICK: [(&str, Duration); 1] = [("damped", Duration::from_millis(500))];
/// How many times less `damped` should do.
const TENTH: f64 = 0.1;

/// The exhibit.
pub struct Band;

struct Terms {
    stay: Duration,
    wobble: Duration,
    steady: Duration,
    widths: &'static [u32],
    drop: &'static [(&'static str, Duration)],
    blocks: u32,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        match settings.quick {
            true => Terms {
                stay: ms(250),
                wobble: ms(1_500),
                steady: ms(500),
                widths: &WIDTHS[..1],
                drop: &DROP_QUICK,
                blocks: settings.blocks(1),
                quick: settings.quick,
            },
            false => Terms {
                stay: STAY,
                wobble: STAY * 6,
                steady: ms(3_000),
                widths: &WIDTHS,
                drop: &DROP,
                blocks: settings.blocks(1),
                quick: settings.quick,
            },
        }
    }
}

/// What becomes of the workers after the last client.
struct Drop {
    server: String,
    looks: Vec<(f64, u32)>,
    spare_max: u32,
}

impl Exhibit for Band {
    fn name(&self) -> &'static str {
        "spare-band"
    }

    fn title(&self) -> &'static str {
        "Band against quantum"
    }

    fn about(&self) -> &'static str {
        "a band of spare threads as narrow as a process makes a wobbling load fork all the time"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let moving = 2 * terms.widths.len() as u32 + 2;
        let still = if terms.quick { 1 } else { 4 };
        let drops = terms.drop.iter().map(|(_, linger)| *linger + terms.steady);
        cases::effort(moving, terms.wobble, terms.blocks)
            .and(cases::effort(still, terms.steady, terms.blocks))
            .and(Effort { steps: terms.drop.len() as u32, time: drops.sum() })
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let cases = all_cases(stage, &terms, toil)?;
        let met = cases::play(stage, cases, terms.blocks)?;
        let drops = drops(stage, &terms, toil)?;
        Ok(told(&met, &drops, toil))
    }
}

/// The published directives with a band so many processes wide.
fn directives(width: u32) -> Directives {
    let it = study::THREADS;
    Directives { spare_max: it.spare_min + width * it.threads, ..it }
}

impl Terms {
    /// Guests come and go; the first time does not count, for the server finds its size in it.
    fn wobbling(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING, self.wobble);
        Clients { guests: GUESTS, stay: self.stay, warmup: self.stay * 2, ..clients }
    }

    fn steady(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING + GUESTS / 2, self.steady);
        Clients { warmup: self.steady / 2, ..clients }
    }
}

fn all_cases(stage: &Stage<'_>, terms: &Terms, toil: Toil) -> Result<Vec<Case>, Fault> {
    let mut cases = Vec::new();
    let path = toil.ours(WORK);
    let case = |web, clients, width: u32, load: &str| Case {
        web,
        clients,
        x: f64::from(width),
        group: group(load, width),
    };
    for &width in terms.widths {
        for policy in ["apache", "damped"] {
            let web = servers::ours(stage, policy, &directives(width).flags(policy));
            cases.push(case(web, terms.wobbling(&path), width, WOBBLING));
        }
    }
    for policy in ["apache", "damped", "static"] {
        let web = servers::ours(stage, policy, &directives(1).flags(policy));
        if policy == "static" {
            cases.push(case(web.clone(), terms.wobbling(&path), 1, WOBBLING));
        }
        if policy == "apache" || !terms.quick {
            cases.push(case(web, terms.steady(&path), 1, STEADY));
        }
    }
    if let Some(path) = toil.apache(WORK) {
        let web = servers::worker(REAL, &directives(1))?;
        cases.push(case(web.clone(), terms.wobbling(&path), 1, WOBBLING));
        if !terms.quick {
            cases.push(case(web, terms.steady(&path), 1, STEADY));
        }
    }
    Ok(cases)
}

/// What the real one is called.
const REAL: &str = "Apache 2.4 worker";

fn group(load: &str, width: u32) -> String {
    let plural = if width == 1 { "process" } else { "processes" };
    format!("{load}, band of {width} {plural}")
}

/// Lets everybody leave and looks at who stays.
fn drops(stage: &mut Stage<'_>, terms: &Terms, toil: Toil) -> Result<Vec<Drop>, Fault> {
    let mut found = Vec::new();
    for &(policy, linger) in terms.drop {
        let it = directives(1);
        let web = servers::ours(stage, policy, &it.flags(policy));
        let what = format!("{policy}, after the last client");
        stage.begin(&what);
        // A hundred busy at first, so that there is something to give back.
        let clients = Clients { linger, ..Clients::new(&toil.ours(WORK), 100, terms.steady) };
        let Some(run) = stage.meet(&web, &clients)? else { break };
        let WebRun { churn, gone_s, .. } = run;
        let idle = |processes: u32| processes.saturating_sub(1) * it.threads;
        let looks: Vec<(f64, u32)> =
            churn.looks.iter().map(|(at, processes, _)| (at - gone_s, idle(*processes))).collect();
        let left = looks.last().map_or(0, |it| it.1);
        stage.step(&format!("{what}: {left} idle workers"));
        found.push(Drop { server: policy.to_string(), looks, spare_max: it.spare_max });
    }
    Ok(found)
}

fn told(met: &Met, drops: &[Drop], toil: Toil) -> Showing {
    let narrow = group(WOBBLING, 1);
    let pair = met.find("apache", &narrow).zip(met.find("damped", &narrow));
    let [a, d] = [0, 1].map(|at| {
        let case = pair.map(|it| [it.0, it.1][at])?;
        met.median(case, churn)
    });
    let headline = match (a, d) {
        (Some(a), Some(d)) => format!(
            "With a band as wide as one process a load of {STAYING} to {} clients starts and ends \
             {} threads a minute under Apache's rule and {} under ours; {}.",
            STAYING + GUESTS,
            words::number(a.round()),
            words::number(d.round()),
            costs(met),
        ),
        _ => "Stopped before both rules had met the wobbling load.".to_string(),
    };
    Showing {
        headline,
        published: Published {
            claim: "What it costs to maintain spare threads keeps the advantages of threads from \
                    showing; the range of spare threads deserves further study. (How many threads \
                    were started and ended was not counted.)"
                .to_string(),
            source: SOURCE.to_string(),
            numbers: study::grid(&[study::THREADS, study::PROCESSES]),
        },
        flawed: flawed(met),
        corrected: corrected(met, drops),
        why: why(),
        lesson: "Count what comes and goes before asking what it costs; and make a band wider \
                 than the step in which it is kept."
            .to_string(),
        together: Some(together(met)),
        findings: findings(met, drops),
        facts: vec![
            ("Computing of each request".into(), words::span(WORK)),
            ("Clients".into(), format!("{STAYING} that stay, {GUESTS} that come and go")),
            ("Guests stay".into(), words::span(STAY)),
            toil.fact(),
        ],
        doubts: vec![
            "Threads that live for less than 100 ms are not seen.".to_string(),
            "Server and clients have a core each; with more cores a fork disturbs fewer."
                .to_string(),
        ],
    }
}

/// What the churn costs, in words: CPU a request of Apache's rule against a fixed pool.
fn costs(met: &Met) -> String {
    let narrow = group(WOBBLING, 1);
    let pair = met.find("apache", &narrow).zip(met.find("static", &narrow));
    let cpu = pair.and_then(|(a, s)| met.against(a, s, cpu_ms));
    cpu.map_or("what it costs was not measured".to_string(), |it| {
        format!("a request then costs {} the CPU of one at a fixed pool", words::compared(&it))
    })
}

const HEAD: [&str; 7] = [
    "load",
    "rule",
    "threads started + ended / min",
    "processes / min",
    "requests/s",
    "CPU / request, ms",
    "p99, ms",
];

fn row(met: &Met, at: usize) -> [String; 7] {
    let case = &met.cases[at];
    [
        case.group.clone(),
        case.web.name.clone(),
        met.told(at, churn),
        met.told(at, process_churn),
        met.told(at, rps),
        met.told(at, cpu_ms),
        met.told(at, p99_ms),
    ]
}

fn flawed(met: &Met) -> Side {
    let mut numbers = Grid::new(&HEAD);
    let (wobbling, steady) = (group(WOBBLING, 1), group(STEADY, 1));
    for load in [&steady, &wobbling] {
        for server in [REAL, "apache", "static"] {
            if let Some(at) = met.find(server, load) {
                numbers.row(row(met, at));
            }
        }
    }
    let of = |load: &str| met.find("apache", load).and_then(|at| met.median(at, churn));
    Side {
        setup: format!(
            "The published directives, threads mostly (25 to 75 spare, processes of 50), under a \
             load of {} clients that stay and under one that wobbles between {STAYING} and {}; \
             each request computes for {}. Real Apache, our engine with Apache's rule, and a pool \
             that nobody maintains.",
            STAYING + GUESTS / 2,
            STAYING + GUESTS,
            words::span(WORK)
        ),
        finding: match (of(&steady), of(&wobbling)) {
            (Some(steady), Some(wobbling)) => format!(
                "The trigger is the wobble: {} threads a minute come and go under it, {} under \
                 the steady load.",
                words::number(wobbling.round()),
                words::number(steady.round())
            ),
            _ => "Stopped before both loads had been there.".to_string(),
        },
        plot: Some(residents(met, &["apache", "static", REAL])),
        numbers,
    }
}

/// Threads over time in the first run of each server under the wobbling load.
fn residents(met: &Met, servers: &[&str]) -> Plot {
    let mut series = Vec::new();
    for server in servers {
        let run = met.find(server, &group(WOBBLING, 1)).and_then(|at| met.of(at).next());
        let Some(run) = run else { continue };
        let looks = run.churn.looks.iter();
        let places = looks.map(|(at, _, threads)| (*at, f64::from(*threads))).collect();
        series.push(crate::showing::Series::measured(*server, places));
    }
    Plot {
        title: "Threads that live".to_string(),
        caption: "Every thread of the server's process tree, listeners and supervisor included, \
                  while guests come and go."
            .to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("threads"),
        series,
    }
}

fn corrected(met: &Met, drops: &[Drop]) -> Side {
    let mut numbers = Grid::new(&HEAD);
    for width in WIDTHS {
        for server in ["apache", "damped", "static"] {
            if let Some(at) = met.find(server, &group(WOBBLING, width)) {
                numbers.row(row(met, at));
            }
        }
    }
    let series = drops.iter().map(|it| {
        let places = it.looks.iter().map(|(at, idle)| (*at, f64::from(*idle))).collect();
        crate::showing::Series::measured(it.server.clone(), places)
    });
    Side {
        setup: "The same load while the band grows from one process to four, under Apache's rule \
                and under ours (damped: what is missing is started at once, what is too much must \
                be so for ten seconds, and the band is never narrower than two processes and twice \
                the spread of the load). The chart: workers that stay when a hundred clients leave."
            .to_string(),
        finding: drops.iter().map(drop_words).collect::<Vec<_>>().join(" "),
        plot: (!drops.is_empty()).then(|| Plot {
            title: "Workers after the last client has left".to_string(),
            caption: "At 0 everybody leaves; until then all workers are busy.".to_string(),
            x: Axis::linear("seconds after the last client"),
            y: Axis::linear("workers"),
            series: series.collect(),
        }),
        numbers,
    }
}

fn drop_words(it: &Drop) -> String {
    let (last, at) = (it.looks.last().map_or(0, |it| it.1), it.looks.last().map_or(0.0, |it| it.0));
    format!("{}: {last} idle workers {at:.0} s after the last client left.", it.server)
}

fn together(met: &Met) -> Plot {
    let wobbling = |case: &Case| case.group.starts_with(WOBBLING);
    let line = |server| {
        let drawn = if server == REAL { Drawn::Marks } else { Drawn::Line };
        crate::showing::Series { drawn, ..met.line(server, churn, wobbling) }
    };
    let series = ["apache", "damped", "static", REAL].map(line);
    Plot {
        title: "Threads started and ended a minute".to_string(),
        caption: format!(
            "A load that wobbles between {STAYING} and {} busy workers; a process has 50 threads.",
            STAYING + GUESTS
        ),
        x: Axis::linear("width of the band, in processes"),
        y: Axis::linear("threads started and ended, a minute"),
        series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(met: &Met, drops: &[Drop]) -> Vec<Finding> {
    let mut found = Vec::new();
    let narrow = group(WOBBLING, 1);
    let of = |server: &str, load: &str| met.find(server, load);
    let value = |server: &str, load: &str| of(server, load).and_then(|at| met.median(at, churn));
    if let Some((a, s)) = value("apache", &narrow).zip(value("apache", &group(STEADY, 1))) {
        let expected = "under Apache's rule more threads come and go when the load wobbles";
        found.push(Finding::new("wobble-triggers", a > s, a - s, expected));
    }
    if let Some((a, d)) = value("apache", &narrow).zip(value("damped", &narrow)) {
        let ratio = d / a.max(1e-9);
        let expected = "damped starts and ends at most a tenth of the threads of Apache's rule";
        found.push(Finding::new("damped-churn", a > 0.0 && ratio <= TENTH, ratio, expected));
    }
    let pair = of("damped", &narrow).zip(of("static", &narrow));
    if let Some(it) = pair.and_then(|(d, s)| met.against(d, s, rps)) {
        let expected = "throughput of damped within 5 % of a fixed pool's";
        let holds = (it.ratio - 1.0).abs() <= 0.05;
        found.push(Finding::new("damped-throughput", holds, it.ratio, expected));
    }
    if let Some(it) = drops.iter().find(|it| it.server == "damped") {
        let left = it.looks.last().map_or(0, |it| it.1);
        let expected = "after the last client damped keeps at most the most spare (75)";
        let holds = left <= it.spare_max;
        found.push(Finding::new("damped-gives-back", holds, f64::from(left), expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "Apache looks once a second. With fewer than 25 idle threads it starts a process of 50, \
         with more than 75 it ends one. Between the two edges lie 50 threads, and a process is 50: \
         whoever crosses one edge is carried to the other by the answer to it. At 31 busy of 50 \
         there are 19 idle, so a process comes; at 19 busy of 100 there are 81 idle, so it goes."
            .to_string(),
        "A steady load of any size finds a number of processes and stays with it. So neither the \
         number of clients nor the number of threads makes the churn, but a load that crosses an \
         edge of the band again and again. The published experiment had clients that all stayed."
            .to_string(),
        "What it costs is a third question. A thread is started in some 20 µs today; fifty of them \
         every three seconds are less than a thousandth of a core, unless starting one is made \
         dear by large stacks, by opening connections to a database, by warming a cache. The \
         table says what was found here."
            .to_string(),
    ]
}
