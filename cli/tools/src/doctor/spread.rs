//! One engine against itself: the distance of identical servers on this machine.

use crate::interrupt::watch;
use crate::race::{book, room};
use anyhow::{Context, Result};
use lab::file::PointSpec;
use lab::machine::Placement;
use lab::metric::Metric;
use lab::plan::Plan;
use lab::record::{Manifest, Recorder, Run};
use lab::runner::Runner;
use lab::service::Service;
use lab::trial::Trial;
use lab::verdict::paired;
use language::info;
use serde::Serialize;
use stats::{blocks_needed, spread};
use std::path::Path;

/// Differences of common interest.
const DIFFERENCES: [f64; 4] = [0.20, 0.10, 0.05, 0.02];
/// The most blocks worth forecasting.
const BLOCKS_MAX: u32 = 40;

/// How two identical arms differ in one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Name of the load point.
    pub point: String,
    /// The metric.
    pub metric: Metric,
    /// The number of blocks.
    pub blocks: u32,
    /// Standard deviation of the log-ratio of a block, from its median distance (robust).
    pub spread: f64,
    /// (difference, blocks that find it four times out of five).
    pub needed: Vec<(f64, u32)>,
}

/// Races the plainest engine against its twin.
pub fn measure(blocks: u32) -> Result<Vec<Spread>> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let plan = plan(&exe, blocks)?;
    let stop = watch()?;
    let room = room("roundhouse-doctor-")?;
    let placement = Placement::choose();
    let manifest = Manifest::describe(&plan, &exe, env!("CARGO_PKG_VERSION"), None, placement)?;
    let mut recorder = Recorder::begin(&room.path().join("doctor.jsonl"), &manifest)?;
    let mut runner = Runner::new(&plan, &exe, room.path(), placement, stop.clone());
    info!("\n{} trials of one engine against itself …", plan.trials());
    let known = Run { manifest, ..Run::default() };
    let outcome = lab::race::run(known, &mut runner, &mut recorder, &mut |_| {}, &stop)?;
    let mut found = Vec::new();
    for point in &plan.points {
        let here: Vec<&Trial> =
            outcome.run.trials.iter().filter(|trial| trial.point == point.name).collect();
        for metric in [Metric::Throughput, Metric::Cpu, Metric::P99] {
            let pairs = paired(&here, &plan.twin_name(), &plan.baseline, metric);
            let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
            let Some(spread) = spread(&logs) else { continue };
            let needed = DIFFERENCES.map(|it| (it, blocks_needed(spread, it))).to_vec();
            let (point, blocks) = (point.name.clone(), logs.len() as u32);
            found.push(Spread { point, metric, blocks, spread, needed });
        }
    }
    anyhow::ensure!(!found.is_empty() || outcome.interrupted, "no trial brought a result");
    Ok(found)
}

fn plan(exe: &Path, blocks: u32) -> Result<Plan> {
    let arm = Service::Stock.engine(exe, "epoll");
    let mut points = Vec::new();
    for depth in [1, 16] {
        points.extend(PointSpec::closed(8, depth, 64 * u64::from(depth)).points()?);
        if let Some(point) = points.last_mut() {
            point.name = format!("depth {depth}");
        }
    }
    Ok(Plan {
        question: "How far apart are two identical servers?".to_string(),
        baseline: arm.name.clone(),
        arms: vec![arm],
        points,
        blocks,
        warmup_ms: 100,
        window_ms: 400,
        files: vec![book(None)?],
        ..Plan::default()
    })
}

impl Spread {
    /// The finding as two lines.
    pub fn words(&self) -> String {
        let needed: Vec<String> = self
            .needed
            .iter()
            .map(|&(difference, blocks)| {
                let blocks = match blocks > lab::verdict::FORECAST_MAX {
                    true => format!("more than {}", lab::verdict::FORECAST_MAX),
                    false => format!("about {blocks}"),
                };
                format!("{:.0} % need {blocks} blocks", difference * 100.0)
            })
            .collect();
        format!(
            "{}, {}: a block strays by {:.1} %;\n    differences of {}",
            self.point,
            self.metric.name(),
            (self.spread.exp() - 1.0) * 100.0,
            needed.join(", ")
        )
    }

    /// A recommendation if even large differences need many blocks.
    pub fn advice(&self) -> Option<String> {
        let &(difference, blocks) = self.needed.get(1)?;
        (self.metric != Metric::P99 && blocks > BLOCKS_MAX).then(|| {
            format!(
                "{} at {}: a difference of {:.0} % needs {blocks} blocks here; quieten the \
                 machine, lengthen --window, or compare CPU by `roundhouse ab`",
                self.metric.name(),
                self.point,
                difference * 100.0
            )
        })
    }
}
