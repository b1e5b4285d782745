//! A made-up race with data for every section of the report.
//!
//! It serves tests and previews of pages without a race. The numbers come from a formula and a
//! seeded generator; none was measured, and the question of the race says so.

use lab::census::{Calls, Census};
use lab::plan::{Arm, LoadPoint, Model, Plan, Rate};
use lab::record::{Manifest, Pilot, Run, SCHEMA};
use lab::trial::Trial;
use lab::verdict::Metric;
use serde_json::{Value, json};
use stats::Rng;

/// Name, speed and CPU against the baseline, contention, coherency.
const ARMS: [(&str, f64, f64, f64, f64); 4] = [
    ("iterative", 0.82, 1.08, 0.55, 0.004),
    ("epoll", 1.0, 1.0, 0.06, 0.000_3),
    ("prefork", 0.93, 1.21, 0.05, 0.001_2),
    ("uring", 1.12, 0.91, 0.045, 0.000_2),
];

/// A number between -1 and 1.
fn noise(rng: &mut Rng) -> f64 {
    2.0 * rng.unit() - 1.0
}

/// A small race of closed load points, typical of a first race.
pub fn small() -> Run {
    run(vec![closed("depth 1", 8, 1), closed("depth 16", 8, 16)], 6, "smoke")
}

/// A race with every kind of load point and every optional observation.
pub fn whole() -> Run {
    let mut points = vec![closed("depth 1", 8, 1), closed("depth 16", 8, 16)];
    for connections in [1, 2, 4, 8, 16, 32, 64] {
        let mut point = closed(&format!("{connections} connections"), connections, 1);
        point.series = "connections".to_string();
        point.x = Some(f64::from(connections));
        points.push(point);
    }
    for share in [0.1, 0.25, 0.5, 0.7, 0.8, 0.9] {
        let mut point = closed(&format!("{:.0} % load", share * 100.0), 64, 1);
        let rate = Rate::Slowest(share);
        point.model = Model::Open { rate, arrivals: lab::plan::Arrivals::Poisson };
        point.series = "rates".to_string();
        point.x = Some(share);
        points.push(point);
    }
    let special = [
        ("overload 2x", Model::Overload { factor: 2.0 }),
        ("promise", Model::Capacity { quantile: 0.99, limit_ns: 1_000_000, resolution: 0.05 }),
    ];
    for (name, model) in special {
        points.push(LoadPoint { model, ..closed(name, 64, 1) });
    }
    points.push(LoadPoint { idle: 1_000, ..closed("1000 idle", 8, 1) });
    let mut run = run(points, 12, "publish");
    run.census = ARMS.iter().map(|arm| census(arm.0, arm.2)).collect();
    run.pilots = ARMS
        .iter()
        .map(|arm| {
            let capacity_rps = Some(60_000.0 * arm.1);
            Pilot { arm: arm.0.to_string(), capacity_rps, ..Pilot::default() }
        })
        .collect();
    run
}

fn closed(name: &str, connections: u32, depth: u32) -> LoadPoint {
    LoadPoint {
        name: name.to_string(),
        connections,
        depth,
        requests_per_connection: 64,
        mix: "show=5,buy=50,sell=45".to_string(),
        ..LoadPoint::default()
    }
}

fn run(points: Vec<LoadPoint>, blocks: u32, label: &str) -> Run {
    let arm = |&(name, ..): &(&str, f64, f64, f64, f64)| Arm {
        name: name.to_string(),
        command: ["roundhouse", "serve", "<stock>", "--engine", name].map(String::from).to_vec(),
        target: "stock://{address}".to_string(),
        note: format!("a made-up engine called {name}"),
        ..Arm::default()
    };
    let plan = Plan {
        question: "Which serves the <stock> market best (made-up numbers)?".to_string(),
        label: label.to_string(),
        arms: ARMS.iter().map(arm).collect(),
        baseline: "epoll".to_string(),
        points,
        blocks,
        seed: 7,
        metrics: vec![Metric::Throughput],
        ..Plan::default()
    };
    let manifest = Manifest {
        schema: SCHEMA.to_string(),
        date: "2026-11-21T20:29:05Z".to_string(),
        version: "0.1.0".to_string(),
        program: "0123456789abcdef".to_string(),
        command: "roundhouse race".to_string(),
        plan_hash: plan.hash(),
        plan: plan.clone(),
        ..Manifest::default()
    };
    let rng = &mut Rng::new(plan.seed);
    let entrants = plan.entrants();
    let mut trials = Vec::new();
    for slot in lab::block::schedule(&plan) {
        let name = &entrants[slot.entrant].name;
        let point = &plan.points[slot.point];
        let place = [u64::from(slot.order), u64::from(slot.block), slot.seed];
        let disturbed = (slot.order % 37 == 11).then(|| 0.09 + 0.02 * noise(rng));
        trials.push(trial(rng, place, name, point, disturbed));
    }
    Run { manifest, trials, finished: true, ..Run::default() }
}

/// One trial; `disturbed` is the share that other processes took, if a gate failed.
fn trial(
    rng: &mut Rng,
    [order, block, seed]: [u64; 3],
    arm: &str,
    point: &LoadPoint,
    disturbed: Option<f64>,
) -> Trial {
    let objections: Vec<String> = disturbed
        .iter()
        .map(|share| format!("other processes took {:.1} % of the machine", share * 100.0))
        .collect();
    let foreign = disturbed.unwrap_or(0.012 + 0.01 * noise(rng));
    let value = json!({
        "order": order, "block": block, "point": point.name, "arm": arm, "seed": seed,
        "swapped": block % 2 == 1, "begun_ms": 900.0 * order as f64,
        "took_ms": 870.0, "boot_ms": 3.0,
        "conditions": {"steal": 0.002 + 0.001 * noise(rng), "foreign": foreign,
                       "clock_step_ms": 0.0, "hiccup_ms": 1.0 + noise(rng), "retransmits": 0},
        "objections": objections, "exit": "exit 0",
        "exit_clean": true, "ending": {"kind": "measured", "load": load(rng, arm, point)},
        "seen": seen(rng, arm, point),
    });
    serde_json::from_value(value).expect("the sample has the shape of a trial")
}

fn kind(arm: &str) -> (f64, f64, f64, f64) {
    let found = ARMS.iter().find(|it| arm.starts_with(it.0)).expect("every arm is in the table");
    (found.1, found.2, found.3, found.4)
}

/// The throughput of the arm with a number of clients, by the universal scalability law.
fn able(arm: &str, clients: f64) -> f64 {
    let (speed, _, sigma, kappa) = kind(arm);
    let divisor = 1.0 + sigma * (clients - 1.0) + kappa * clients * (clients - 1.0);
    9_000.0 * speed * clients / divisor
}

fn load(rng: &mut Rng, arm: &str, point: &LoadPoint) -> Value {
    let (_, cost, ..) = kind(arm);
    let wobble = 1.0 + 0.012 * noise(rng);
    let capacity = 60_000.0 * kind(arm).0;
    let depth = f64::from(point.depth);
    let (rps, offered, used) = match point.model {
        Model::Open { .. } => {
            let rate = 49_000.0 * point.x.unwrap_or(0.5);
            (rate * (1.0 + 0.001 * noise(rng)), Some(rate), rate / capacity)
        }
        Model::Overload { factor } => (capacity * 0.96 * wobble, Some(capacity * factor), 0.99),
        Model::Closed | Model::Capacity { .. } => {
            (able(arm, f64::from(point.connections)) * depth.powf(0.7) * wobble, None, 0.6)
        }
    };
    let waits = 1.0 / (1.0 - used.min(0.97));
    let p50 = match offered {
        Some(_) => 90_000.0 * waits * wobble,
        None => f64::from(point.connections) * depth * 1e9 / rps * 0.93,
    };
    let times = |stretch: f64| {
        json!({"count": 30_000, "mean_ns": p50 / 0.93, "p50_ns": p50,
               "p90_ns": p50 * 1.5, "p99_ns": p50 * 2.6 * stretch,
               "p999_ns": p50 * 6.5 * stretch, "max_ns": p50 * 15.0 * stretch})
    };
    let stretch = if arm.starts_with("prefork") { 1.7 } else { 1.0 } * (1.0 + 0.1 * noise(rng));
    let slices = match point.model {
        Model::Overload { .. } => (0..30).map(|at| slice(rng, at, p50 * stretch)).collect(),
        _ => Vec::new(),
    };
    json!({
        "schema": "roundhouse.load/1", "window_ns": 600_000_000, "requests": (rps * 0.6) as u64,
        "requests_total": (rps * 0.75) as u64, "throughput_rps": rps,
        "model": if offered.is_some() { "open" } else { "closed" }, "offered_rps": offered,
        "connections": point.connections, "depth": point.depth,
        "service": times(stretch), "response": times(stretch),
        "lateness": {"count": 30_000, "p50_ns": 2_000.0, "p99_ns": 9_000.0},
        "timeline": slices,
        "check": {"kind": "conservation", "ok": true, "detail": "100 stocks"},
        "generator": {"cpu_ns": 400_000_000, "busy": (rps / 260_000.0).min(0.95)},
        "server": {"cpu_ns": 500_000_000,
                   "cpu_ns_per_request": cost * 9_400.0 / depth.powf(0.6) * wobble,
                   "switches_per_request": if arm.starts_with("epoll") { 0.4 } else { 0.9 } / depth,
                   "pss_kb": if arm.starts_with("prefork") { 9_400 } else { 3_100 }},
    })
}

/// Latency in one thirtieth of an overload: it climbs, and falls afterwards.
fn slice(rng: &mut Rng, at: u32, p50: f64) -> Value {
    let hump = match at {
        6..18 => 25.0 + 3.0 * f64::from(at),
        18.. => (30.0 / f64::from(at - 17)).max(1.0),
        _ => 1.0,
    };
    let middle = p50 * hump.sqrt() * (1.0 + 0.05 * noise(rng));
    json!({"at_ms": 20.0 * f64::from(at), "for_ms": 20.0, "requests": 900, "p50_ns": middle})
}

fn seen(rng: &mut Rng, arm: &str, point: &LoadPoint) -> Value {
    let (speed, cost, ..) = kind(arm);
    let capacity = 52_000.0 * speed * (1.0 + 0.02 * noise(rng));
    let forked = if arm.starts_with("prefork") { 4 } else { 0 };
    let offered = match point.model {
        Model::Open { .. } => Some(49_000.0 * point.x.unwrap_or(0.5)),
        _ => None,
    };
    let mut seen = json!({"offered_rps": offered, "cost": {
        "source": "cgroup", "user_ns": 100_000_000_u64, "system_ns": (600_000_000.0 * cost) as u64,
        "cpu_ns_per_request": 9_400.0 * cost, "memory_peak_kb": 4_000 + 1_500 * forked,
        "faults_minor": 900, "faults_major": 0,
    }});
    let probe = |share: f64| {
        let kept = share <= 1.0;
        json!({"rate_rps": capacity * share, "achieved_rps": capacity * share.min(1.05),
               "latency_ns": 300_000.0 / (1.35 - share.min(1.2)), "kept": kept,
               "why": if kept { "" } else { "p99 above the promise" }})
    };
    match point.model {
        Model::Capacity { quantile, limit_ns, .. } => {
            let probes: Vec<Value> = [0.2, 0.4, 0.8, 1.2, 1.0, 1.1].map(probe).to_vec();
            seen["search"] = json!({"quantile": quantile, "limit_ns": limit_ns, "probes": probes,
                                    "capacity_rps": capacity});
        }
        Model::Overload { factor } => {
            seen["recovery"] = json!({"factor": factor, "capacity_rps": capacity,
                "goodput_rps": capacity * 0.96, "kept_share": 0.96, "base_p50_ns": 120_000.0,
                "recovered_ms": 140.0 / speed * (1.0 + 0.1 * noise(rng)), "watched_ms": 600.0});
        }
        Model::Closed | Model::Open { .. } => {}
    }
    if point.idle > 0 {
        let each = if arm.starts_with("prefork") { 410.0 } else { 340.0 };
        seen["idle"] = json!({"wanted": point.idle, "opened": point.idle, "kept": point.idle,
                              "bytes_each": each * (1.0 + 0.02 * noise(rng))});
    }
    seen
}

fn census(arm: &str, cost: f64) -> Census {
    let call = |name: &str, per_request: f64| Calls {
        name: name.to_string(),
        calls: (per_request * 30_000.0) as u64,
        errors: 12,
        per_request,
    };
    let calls = match arm {
        "uring" => vec![call("io_uring_enter", 0.42), call("getsockopt", 0.01)],
        _ => vec![
            call("read", 1.01 * cost),
            call("write", 1.0),
            call("epoll_wait", if arm == "epoll" { 0.7 } else { 0.02 }),
            call("accept4", 0.016),
        ],
    };
    let (arm, point) = (arm.to_string(), "depth 1".to_string());
    let tool = "strace".to_string();
    Census { arm, point, tool, requests: 30_000, calls, ..Census::default() }
}
