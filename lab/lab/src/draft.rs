//! From wishes, a plan file or an earlier record to a plan: of races, duets and workloads.
//!
//! The laboratory knows only commands. The meaning of an engine or a known server, and the files
//! that a service needs, the calling program says ([`Resolver`]).

use crate::duet::DuetTable;
use crate::file::{ArmSpec, PlanFile, PointSpec};
use crate::metric::Metric;
use crate::plan::{Arm, Arrivals, LoadPoint, Model, Plan, Provision, Rate, Turns};
use crate::service::Service;
use anyhow::{Context, Result, bail};
use language::info;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Blocks of a race of a fixed length.
const BLOCKS: u32 = 10;
/// The most blocks of a race that asks for the cost alone; its time or its answer ends it earlier.
const BLOCKS_MAX: u32 = 60;
/// Windows on each server at each load point of a block: the fewest of which one may be disturbed.
/// More blocks with fresh processes tell more than more windows: chance decides the memory layout
/// of a process.
const WINDOWS: u32 = 3;
/// The length of a window that measures speed and percentiles too, and the load before it,
/// milliseconds.
const LONG_MS: (u64, u64) = (200, 150);
/// The same of a window that measures the cost alone.
const SHORT_MS: (u64, u64) = (20, 20);
/// Silent connections to each server in the first blocks.
const SILENT: u32 = 100;
/// The time after which no block begins. The whole race takes at most 90 s.
const BUDGET_MS: u64 = 78_000;
/// The milliseconds of a server's start and end.
const AROUND_MS: u64 = 150;
/// The open load of a full race, as a share of the capacity of the slowest arm: response times.
pub const HALF: f64 = 0.5;
/// The number of trials of a capacity search.
const PROBES: u64 = 9;

/// Knowledge of the calling program that the laboratory lacks.
pub struct Resolver<'a> {
    /// The arm of a specification.
    pub arm: &'a dyn Fn(Service, &ArmSpec) -> Result<Arm>,
    /// The files that every trial of a service finds, with its data from a file if one is named.
    pub files: &'a FilesOf<'a>,
}

/// The files of a service, with its data from the file of a path.
pub type FilesOf<'a> = dyn Fn(Service, Option<&Path>) -> Result<Vec<Provision>> + 'a;

/// A race that no file describes.
#[derive(Clone, Debug, Default)]
pub struct RaceWishes {
    /// The arms.
    pub arms: Vec<ArmSpec>,
    /// The question; the service's if absent.
    pub question: Option<String>,
    /// The load points.
    pub points: Vec<PointSpec>,
    /// Whether they are more than depths: a curve, open arrivals, overload or a promise.
    pub is_curved: bool,
    /// The mix of requests, if it is not the usual one.
    pub mix: Option<String>,
    /// Whether speed and response times are asked for too.
    pub is_full: bool,
    /// Metrics that a condition of the caller is about.
    pub metrics: Vec<Metric>,
    /// The service's data.
    pub data: Option<PathBuf>,
}

/// Changes that are possible for any plan.
#[derive(Clone, Debug, Default)]
pub struct Adjustments {
    /// Load before the first window.
    pub warmup: Option<Duration>,
    /// Length of a window.
    pub window: Option<Duration>,
    /// The margin, as a share.
    pub margin: Option<f64>,
    /// The seed.
    pub seed: Option<u64>,
    /// Whether the baseline has no twin.
    pub no_twin: bool,
    /// The baseline.
    pub baseline: Option<String>,
    /// The number of blocks.
    pub blocks: Option<u32>,
    /// The time after which no block begins.
    pub budget: Option<Duration>,
    /// The time that each server may take to start.
    pub boot: Option<Duration>,
}

/// The plan of a race on a service.
///
/// # Errors
/// An arm or a file that cannot be resolved, described in one sentence.
pub fn race(service: Service, wishes: RaceWishes, resolver: &Resolver<'_>) -> Result<Plan> {
    let mut file = PlanFile { blocks: Some(BLOCKS), ..PlanFile::default() };
    file.arm = wishes.arms;
    file.point = wishes.points;
    let names: Vec<&str> = file.arm.iter().map(|arm| arm.title()).collect();
    file.question = Some(wishes.question.unwrap_or_else(|| service.question(&names)));
    let mut plan = file.plan(Path::new("."), Vec::new(), |spec| (resolver.arm)(service, spec))?;
    mixed(&mut plan.points, wishes.mix.as_deref(), service);
    plan.files = (resolver.files)(service, wishes.data.as_deref())?;
    // Short windows hold few requests: their percentiles and speed are the generator's.
    let by_cpu = wishes.metrics.iter().all(|metric| *metric == Metric::Cpu);
    let is_short = !wishes.is_full && !wishes.is_curved && by_cpu;
    (plan.window_ms, plan.warmup_ms) = if is_short { SHORT_MS } else { LONG_MS };
    plan.turns.windows = WINDOWS;
    if is_short {
        plan.metrics = vec![Metric::Cpu];
        plan.blocks = BLOCKS_MAX;
        plan.turns = Turns { silent: SILENT, budget_ms: Some(BUDGET_MS), ..plan.turns };
    } else if !by_cpu {
        // The subject of a condition is registered, so that its evidence is the report's.
        plan.metrics = wishes.metrics;
        plan.metrics.extend([Metric::Cpu, Metric::Throughput]);
        plan.metrics.sort_unstable();
        plan.metrics.dedup();
    }
    Ok(plan)
}

/// Gives load points without a mix the wished one, or the service's.
fn mixed(points: &mut [LoadPoint], mix: Option<&str>, service: Service) {
    let Some(usual) = service.mix() else { return };
    for point in points.iter_mut().filter(|point| point.mix.is_empty()) {
        point.mix = mix.unwrap_or(usual).to_string();
    }
}

/// Adds the service's own files; the plan's files of the same name win.
fn add_files(plan: &mut Plan, own: &[Provision]) {
    let has = |name: &str| plan.files.iter().any(|file| file.name == name);
    let missing: Vec<_> = own.iter().filter(|file| !has(&file.name)).cloned().collect();
    plan.files.extend(missing);
}

/// A plan file and the service that its arms offer.
pub struct PlanSource {
    /// The file.
    pub file: PlanFile,
    /// The service.
    pub service: Service,
    /// Paths in the file are relative to it.
    folder: PathBuf,
}

impl PlanSource {
    /// Reads the plan file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is not a plan.
    pub fn read(path: &Path) -> Result<PlanSource> {
        let folder = path.parent().unwrap_or(Path::new("."));
        PlanSource::of(PlanFile::read(path)?, folder, &path.display().to_string())
    }

    fn of(file: PlanFile, folder: &Path, title: &str) -> Result<PlanSource> {
        let name = file.service.clone().unwrap_or_else(|| "stock".to_string());
        let Some(service) = Service::by_name(&name) else {
            let names = Service::names().join("`, `");
            bail!("{title}: expected a service out of `{names}`, found `{name}`");
        };
        Ok(PlanSource { file, service, folder: folder.to_path_buf() })
    }

    /// Gives every arm that is named by its engine the arguments of all of them.
    pub fn add_engine_args(&mut self) {
        for arm in self.file.arm.iter_mut().filter(|arm| arm.engine.is_some()) {
            arm.args = [&self.file.args[..], &arm.args[..]].concat();
        }
    }

    /// The service's own files; `data` wins over the file's.
    fn files(&self, data: Option<&Path>, resolver: &Resolver<'_>) -> Result<Vec<Provision>> {
        let own = self.file.data.as_ref().map(|own| self.folder.join(own));
        (resolver.files)(self.service, data.or(own.as_deref()))
    }

    /// The race that the file describes, with this mix and data in place of the usual ones.
    ///
    /// # Errors
    /// The entry that cannot be resolved, in one sentence.
    pub fn race(
        &self,
        mix: Option<&str>,
        data: Option<&Path>,
        resolver: &Resolver<'_>,
    ) -> Result<Plan> {
        let service = self.service;
        let resolve = |spec: &ArmSpec| (resolver.arm)(service, spec);
        let mut plan = self.file.plan(&self.folder, service.points(), resolve)?;
        mixed(&mut plan.points, mix, service);
        add_files(&mut plan, &self.files(data, resolver)?);
        Ok(plan)
    }

    /// The duet table that the file describes.
    ///
    /// # Errors
    /// The entry that cannot be resolved, in one sentence.
    pub fn duets(&self, data: Option<&Path>, resolver: &Resolver<'_>) -> Result<DuetTable> {
        let service = self.service;
        let resolve = |spec: &ArmSpec| (resolver.arm)(service, spec);
        let mut table = self.file.table(&self.folder, resolve)?;
        let own = self.files(data, resolver)?;
        for plan in table.rows.iter_mut().map(|row| &mut row.plan) {
            mixed(&mut plan.points, None, service);
            add_files(plan, &own);
        }
        Ok(table)
    }
}

/// A workload for the tuner.
pub struct TunedLoad {
    /// The plan without arms; it has one load point.
    pub plan: Plan,
    /// The service.
    pub service: Service,
    /// Arguments of every engine.
    pub args: Vec<String>,
    /// The objective, if the file has one.
    pub slo: Option<String>,
}

/// The workload of a plan file. `folder` is that of the file.
///
/// # Errors
/// A file that is no workload, described in one sentence.
pub fn workload(file: PlanFile, folder: &Path, resolver: &Resolver<'_>) -> Result<TunedLoad> {
    let mut source = PlanSource::of(file, folder, "the workload")?;
    let (args, slo) = (std::mem::take(&mut source.file.args), source.file.slo.take());
    if !source.file.arm.is_empty() {
        bail!(
            "expected a workload without arms, found {}; --servers names them",
            source.file.arm.len()
        );
    }
    let service = source.service;
    let resolve = |spec: &ArmSpec| (resolver.arm)(service, spec);
    let mut plan = source.file.plan(folder, Vec::new(), resolve)?;
    let [point] = &mut plan.points[..] else {
        bail!("expected one [[point]], found {}", plan.points.len());
    };
    point.model = match point.model {
        Model::Open { .. } => point.model,
        Model::Closed => Model::Open { rate: Rate::Own(HALF), arrivals: Arrivals::default() },
        _ => bail!("expected a load point with a `rate`, found an overload or a promise"),
    };
    mixed(&mut plan.points, None, service);
    add_files(&mut plan, &source.files(None, resolver)?);
    Ok(TunedLoad { plan, service, args, slo })
}

/// The plan of the last run in a record: the same race again.
///
/// # Errors
/// The record cannot be read, or holds no run.
pub fn recorded(path: &Path) -> Result<Plan> {
    let run = crate::record::read(path)?.pop();
    let run = run.with_context(|| format!("{} holds no run to repeat", path.display()))?;
    for program in &run.manifest.programs {
        let now = run.manifest.plan.arms.iter().find(|arm| arm.name == program.arm);
        let now = now.map(crate::record::Program::of);
        if now.is_none_or(|now| now.hash != program.hash) {
            info!("doubt: the program of {} is not the one of that run", program.arm);
        }
    }
    Ok(run.manifest.plan)
}

impl Adjustments {
    /// Makes the changes.
    ///
    /// # Errors
    /// The budget is shorter than a block.
    pub fn apply(&self, plan: &mut Plan) -> Result<()> {
        let ms = |span: Duration| span.as_millis() as u64;
        plan.warmup_ms = self.warmup.map_or(plan.warmup_ms, ms);
        plan.window_ms = self.window.map_or(plan.window_ms, ms);
        plan.margin = self.margin.unwrap_or(plan.margin);
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.twin &= !self.no_twin;
        if let Some(name) = &self.baseline {
            plan.baseline.clone_from(name);
        }
        if let Some(boot) = self.boot {
            plan.arms.iter_mut().for_each(|arm| arm.boot_ms_max = ms(boot));
        }
        match (self.blocks, self.budget) {
            (Some(blocks), _) => (plan.blocks, plan.turns.budget_ms) = (blocks, None),
            (None, Some(budget)) => {
                let blocks = blocks_within(plan, budget)?;
                match &mut plan.turns.budget_ms {
                    Some(most) => *most = ms(budget),
                    None => plan.blocks = blocks,
                }
            }
            (None, None) => {}
        }
        plan.label = Plan::label_for(plan.blocks).to_string();
        Ok(())
    }
}

/// Blocks that fit into a time.
fn blocks_within(plan: &Plan, budget: Duration) -> Result<u32> {
    let block_ms = plan.block_ms().max(1);
    let blocks = (budget.as_millis() as u64 / block_ms).min(1_000) as u32;
    if blocks == 0 {
        bail!(
            "expected a budget of {:.1} s or more, the length of one block, found {:.1} s",
            block_ms as f64 / 1e3,
            budget.as_secs_f64()
        );
    }
    Ok(blocks)
}

impl Plan {
    /// The duration of the race, milliseconds.
    pub fn expected_ms(&self) -> u64 {
        let all_ms = u64::from(self.blocks) * self.block_ms();
        self.turns.budget_ms.map_or(all_ms, |most| all_ms.min(most + self.block_ms()))
    }

    /// The duration of one block, milliseconds. Each idle connection takes a third of one, because
    /// they are made at the server's pace, and closed.
    fn block_ms(&self) -> u64 {
        let windows = u64::from(self.turns.windows);
        let points = self.points.iter().map(|point| {
            let (warmup_ms, window_ms) = self.spans(point);
            let idle_ms = u64::from(point.idle) / 3;
            let span_ms = match point.model {
                Model::Closed => warmup_ms + windows * window_ms + AROUND_MS / 4,
                Model::Open { .. } => warmup_ms + window_ms + AROUND_MS,
                // Before, during, and some probes after it.
                Model::Overload { .. } => warmup_ms + 2 * window_ms + 9 * AROUND_MS,
                Model::Capacity { .. } => PROBES * (warmup_ms + window_ms + AROUND_MS),
            };
            idle_ms + span_ms
        });
        self.entrants().len() as u64 * points.sum::<u64>()
    }
}
