//! From the command line, a plan file or an earlier record to a plan.

use super::Args;
use anyhow::{Context, Result, bail};
use engines::PRESETS;
use lab::duet::DuetTable;
use lab::file::{ArmSpec, Many, PlanFile, PointSpec, either};
use lab::metric::Metric;
use lab::plan::{Arm, Arrivals, Model, Plan, Provision, Rate, Turns};
use lab::service::{CONNECTIONS, ROUND_TRIPS, Service};
use language::info;
use stats::words;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tools::race::book;
use wire::framing::Framing;

/// The default number of blocks of a race with one trial after another. Three arms beside the
/// baseline at three load points in two metrics are 18 comparisons; times the smallest p of ten
/// blocks, 2 / 1024, that is 0.035. With nine blocks it would be 0.07, and no claim could stand.
const BLOCKS: u32 = 10;
/// The most blocks of a race whose servers take turns; its time or its answer ends it earlier.
const BLOCKS_IN_TURNS: u32 = 60;
/// Windows on each server at each load point of a block: the fewest of which one may be disturbed.
/// More blocks with fresh processes tell more than more windows: chance decides the memory layout
/// of a process.
const TURNS: u32 = 3;
/// Silent connections to each server in the first blocks.
const SILENT: u32 = 100;
/// The time after which no block begins. The whole race takes at most 90 s.
const BUDGET_MS: u64 = 78_000;
/// The milliseconds of a trial outside its load: two processes start and stop.
const AROUND_MS: u64 = 150;
/// The open load of a full race, as a share of the capacity of the slowest arm: response times.
const HALF: f64 = 0.5;
/// The number of trials of a capacity search.
const PROBES: u64 = 9;

/// The arguments of `plan`.
#[derive(clap::Args)]
pub struct SchemaArgs {
    /// Print the JSON Schema of plan files, with which editors complete and check them
    #[arg(long, required = true)]
    schema: bool,
}

/// Prints the schema, the only thing that `plan` does.
pub fn print_schema(_: &SchemaArgs) -> Result<ExitCode> {
    print!("{}", lab::file::json_schema());
    Ok(ExitCode::SUCCESS)
}

/// The plan of the arguments.
///
/// # Errors
/// An unreadable or unresolvable plan, described in one sentence.
pub fn plan(args: &Args, exe: &Path) -> Result<Plan> {
    let what = args.what.as_str();
    let mut plan = match Service::by_name(what) {
        // It has a protocol of its own, and no files.
        _ if args.own.service.is_some() => from_flags(args, Service::Echo, exe)?,
        Some(service) => from_flags(args, service, exe)?,
        None if has_ending(what, "toml") || has_ending(what, "jsonl") => {
            if let Some(flag) = without_effect(args) {
                bail!("{flag} has no effect on {what}, which has its own; leave it out");
            }
            match has_ending(what, "toml") {
                true => from_file(args, Path::new(what), exe)?,
                false => from_record(Path::new(what))?,
            }
        }
        None => bail!(
            "expected {}, a plan (FILE.toml) or a record to repeat (FILE.jsonl), found `{what}`",
            Service::names().join(", ")
        ),
    };
    adjust(args, &mut plan)?;
    Ok(plan)
}

/// A flag that a plan file or a record leaves nothing to do for.
fn without_effect(args: &Args) -> Option<&'static str> {
    let is_record = has_ending(&args.what, "jsonl");
    let of_record = [
        ("--arms", args.arms.is_some()),
        ("--arm", !args.arm.is_empty()),
        ("--framing", !args.framing.is_empty()),
        ("--data", args.sizes.data.is_some()),
        ("--mix", args.points.mix.is_some()),
    ];
    let given = of_record.into_iter().find(|(_, is_given)| is_record && *is_given);
    let full = args.full.then_some("--full");
    args.points.first().or(full).or(given.map(|(flag, _)| flag))
}

fn has_ending(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

fn from_flags(args: &Args, service: Service, exe: &Path) -> Result<Plan> {
    let mut file = PlanFile { blocks: Some(BLOCKS), ..PlanFile::default() };
    file.arm = arms(args)?;
    if file.arm.is_empty() {
        file.arm = usual_arms(service, exe)?;
    }
    framed(&mut file.arm, args, service)?;
    file.point = points(args, service);
    let names: Vec<&str> = file.arm.iter().map(|arm| arm.title()).collect();
    file.question = Some(match &args.own.service {
        Some(command) => format!("Which serves `{command}` best: {}?", either(&names)),
        None => service.question(&names),
    });
    let mut plan = file.plan(Path::new("."), Vec::new(), |spec| resolved(service, exe, spec))?;
    for point in &mut plan.points {
        mixed(point, args, service);
    }
    plan.files = files(service, args.sizes.data.as_deref())?;
    // Windows of a turn are too short for percentiles, and their speed is often the generator's.
    let by_cpu = args.conduct.fail_if.iter().all(|it| it.metric() == Metric::Cpu);
    if !args.full && !args.points.is_given() && by_cpu {
        take_turns(&mut plan, args);
    }
    Ok(plan)
}

/// Lets all servers of a block take turns: what a request costs and what a silent connection does.
fn take_turns(plan: &mut Plan, args: &Args) {
    let budget_ms = args.blocks.is_none().then_some(BUDGET_MS);
    plan.turns = Some(Turns { windows: TURNS, silent: SILENT, budget_ms });
    plan.metrics = vec![Metric::Cpu];
    (plan.blocks, plan.warmup_ms, plan.window_ms) = (BLOCKS_IN_TURNS, 20, 20);
    // Neighbouring windows suffer alike, so a disturbed block counts: it is only noisier.
    plan.gates.attempts = 1;
}

/// All engines of ours, and a foreign server if it is installed.
fn usual_arms(service: Service, exe: &Path) -> Result<Vec<ArmSpec>> {
    let mut arms: Vec<ArmSpec> = PRESETS.iter().map(|preset| peers::by_name(preset.name)).collect();
    let foreign = peers::by_name(service.foreign());
    if peers::resolve(service, exe, &foreign)?.missing().is_none() {
        arms.push(foreign);
    }
    Ok(arms)
}

/// The arm of a specification; that of an engine says where the engine comes from.
fn resolved(service: Service, exe: &Path, spec: &ArmSpec) -> Result<Arm> {
    if let Some(name) = &spec.engine {
        known(name)?;
    }
    let mut arm = peers::resolve(service, exe, spec)?;
    let preset = PRESETS.iter().find(|preset| Some(preset.name) == spec.engine.as_deref());
    if let Some(preset) = preset {
        // The source in brackets is for the reader of the presets.
        arm.note = preset.from.split(" (").next().unwrap_or_default().to_string();
    }
    Ok(arm)
}

/// Checks the name of an engine.
///
/// # Errors
/// There is no such engine: the message names the nearest engine or foreign server, or all.
pub(super) fn known(name: &str) -> Result<()> {
    let engines = || PRESETS.iter().map(|preset| preset.name);
    if name == "auto" || engines().any(|known| known == name) {
        return Ok(());
    }
    let nearest = words::nearest(name, engines().chain(peers::NAMES.iter().copied()));
    let advice = nearest.map_or_else(
        || {
            let engines: Vec<&str> = engines().collect();
            format!("there are {}, {}", engines.join(", "), peers::NAMES.join(", "))
        },
        |nearest| format!("did you mean {nearest}?"),
    );
    bail!("expected an engine or a known server, found `{name}`; {advice}")
}

/// The files that every trial finds in its directory.
fn files(service: Service, data: Option<&Path>) -> Result<Vec<Provision>> {
    Ok(match service {
        Service::Stock => vec![book(data)?],
        Service::Web => vec![Service::page(data)?],
        Service::Echo => Vec::new(),
    })
}

/// The arms that flags name.
fn arms(args: &Args) -> Result<Vec<ArmSpec>> {
    let named = args.arms.iter().flatten().filter(|name| !name.is_empty());
    let mut arms: Vec<_> = named.map(|name| peers::by_name(name)).collect();
    arms.extend(args.own.arms()?);
    for named in &args.arm {
        arms.push(peers::by_flag(named)?);
    }
    Ok(arms)
}

/// Gives the generator, and our own engines, the framing that flags name.
fn framed(arms: &mut [ArmSpec], args: &Args, service: Service) -> Result<()> {
    if !args.framing.is_empty() && service != Service::Stock {
        bail!("--framing is about the replies of the market; leave it out of this race");
    }
    for value in &args.framing {
        let (name, framing) = value
            .split_once('=')
            .map_or((None, &value[..]), |(name, framing)| (Some(name), framing));
        let framing: Framing = framing.parse()?;
        let words = ["--framing".to_string(), framing.to_string()];
        let mut found = false;
        for arm in arms.iter_mut().filter(|arm| name.is_none_or(|name| arm.title() == name)) {
            if arm.preset.is_some() && name.is_none() {
                continue;
            }
            found = true;
            arm.load.extend(words.clone());
            if arm.engine.is_some() {
                arm.args.extend(words.clone());
            }
        }
        if let (Some(name), false) = (name, found) {
            let all: Vec<&str> = arms.iter().map(ArmSpec::title).collect();
            bail!("expected --framing of one of {}, found `{name}`", all.join(", "));
        }
    }
    Ok(())
}

fn mixed(point: &mut lab::plan::LoadPoint, args: &Args, service: Service) {
    if point.mix.is_empty()
        && let Some(default) = service.mix()
    {
        point.mix = match &args.points.mix {
            Some(mix) => format!("show={},buy={},sell={}", mix.show, mix.buy, mix.sell),
            None => default.to_string(),
        };
    }
}

/// The load points that flags ask for; the service's own if none does.
fn points(args: &Args, service: Service) -> Vec<PointSpec> {
    let connections = args.points.connections.unwrap_or(CONNECTIONS);
    let base = |depth: u32| PointSpec {
        ..PointSpec::closed(connections, depth, ROUND_TRIPS * u64::from(depth))
    };
    let mut found: Vec<PointSpec> = Vec::new();
    let depth = |depth: &u32| PointSpec { name: Some(format!("depth {depth}")), ..base(*depth) };
    found.extend(args.points.depths.iter().flatten().map(depth));
    if let Some(sizes) = &args.points.sweep {
        found.push(PointSpec { connections: Some(Many::Some(sizes.clone())), ..base(1) });
    }
    if let Some(lives) = &args.points.churn {
        let lives = Some(Many::Some(lives.clone()));
        found.push(PointSpec {
            requests_per_connection: lives,
            series: Some("requests per connection".to_string()),
            ..base(1)
        });
    }
    if let Some(idle) = &args.points.idle {
        let idle = Some(Many::Some(idle.clone()));
        found.push(PointSpec { idle, series: Some("idle connections".to_string()), ..base(1) });
    }
    let open = PointSpec {
        connections: Some(Many::One(args.points.connections.unwrap_or(64))),
        ..PointSpec::default()
    };
    if let Some(rates) = &args.points.open {
        found.push(PointSpec { rate: Some(Many::Some(rates.clone())), ..open.clone() });
    }
    if let Some(factors) = &args.points.overload {
        found.push(PointSpec { overload: Some(Many::Some(factors.clone())), ..open.clone() });
    }
    if let Some(promise) = &args.points.promise {
        found.push(PointSpec { promise: Some(promise.clone()), ..open.clone() });
    }
    if found.is_empty() {
        found = service.points();
        for point in &mut found {
            point.connections = Some(Many::One(connections));
            point.mix = None;
        }
        if args.full {
            let half = Some(Many::Some(vec![HALF]));
            found.push(PointSpec {
                name: Some("half load".to_string()),
                rate: half,
                ..open.clone()
            });
        }
    }
    found
}

fn from_file(args: &Args, path: &Path, exe: &Path) -> Result<Plan> {
    let mut source = Source::read(path)?;
    let given = arms(args)?;
    if !given.is_empty() {
        source.file.arm = given;
    }
    source.add_engine_args();
    let (folder, service) = (source.folder.clone(), source.service);
    framed(&mut source.file.arm, args, service)?;
    let resolve = |spec: &ArmSpec| resolved(service, exe, spec);
    let mut plan = source.file.plan(&folder, service.points(), resolve)?;
    for point in &mut plan.points {
        mixed(point, args, service);
    }
    add_files(&mut plan, &source.files(args.sizes.data.as_deref())?);
    Ok(plan)
}

/// Adds the service's own files; the plan's files of the same name win.
fn add_files(plan: &mut Plan, own: &[Provision]) {
    let has = |name: &str| plan.files.iter().any(|file| file.name == name);
    let missing: Vec<_> = own.iter().filter(|file| !has(&file.name)).cloned().collect();
    plan.files.extend(missing);
}

/// A plan file and the service that its arms offer.
struct Source {
    file: PlanFile,
    service: Service,
    /// Paths in the file are relative to it.
    folder: PathBuf,
}

impl Source {
    fn read(path: &Path) -> Result<Source> {
        let folder = path.parent().unwrap_or(Path::new("."));
        Source::of(PlanFile::read(path)?, folder, &path.display().to_string())
    }

    fn of(file: PlanFile, folder: &Path, title: &str) -> Result<Source> {
        let name = file.service.clone().unwrap_or_else(|| "stock".to_string());
        let Some(service) = Service::by_name(&name) else {
            let names = Service::names().join("`, `");
            bail!("{title}: expected a service out of `{names}`, found `{name}`");
        };
        Ok(Source { file, service, folder: folder.to_path_buf() })
    }

    /// Gives every arm that is named by its engine the arguments of all of them.
    fn add_engine_args(&mut self) {
        for arm in self.file.arm.iter_mut().filter(|arm| arm.engine.is_some()) {
            arm.args = [&self.file.args[..], &arm.args[..]].concat();
        }
    }

    /// The service's own files; `data` wins over the file's.
    fn files(&self, data: Option<&Path>) -> Result<Vec<Provision>> {
        let own = self.file.data.as_ref().map(|own| self.folder.join(own));
        files(self.service, data.or(own.as_deref()))
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
pub fn workload(file: PlanFile, folder: &Path, data: Option<&Path>) -> Result<TunedLoad> {
    let mut source = Source::of(file, folder, "the workload")?;
    let (service, args, slo) =
        (source.service, std::mem::take(&mut source.file.args), source.file.slo.take());
    if !source.file.arm.is_empty() {
        bail!(
            "expected a workload without arms, found {}; --servers names them",
            source.file.arm.len()
        );
    }
    let mut plan =
        source.file.plan(folder, Vec::new(), |spec| resolved(service, Path::new(""), spec))?;
    let [point] = &mut plan.points[..] else {
        bail!("expected one [[point]], found {}", plan.points.len());
    };
    point.model = match point.model {
        Model::Open { .. } => point.model,
        Model::Closed => Model::Open { rate: Rate::Own(HALF), arrivals: Arrivals::default() },
        _ => bail!("expected a load point with a `rate`, found an overload or a promise"),
    };
    if point.mix.is_empty() {
        point.mix = service.mix().unwrap_or_default().to_string();
    }
    add_files(&mut plan, &source.files(data)?);
    Ok(TunedLoad { plan, service, args, slo })
}

/// The duet table of a plan file; `data` is the service's own data in place of the file's.
///
/// # Errors
/// An unreadable or unresolvable plan, described in one sentence.
pub fn duets(path: &Path, exe: &Path, data: Option<&Path>) -> Result<DuetTable> {
    let mut source = Source::read(path)?;
    source.add_engine_args();
    let service = source.service;
    let mut table = source.file.table(&source.folder, |spec| resolved(service, exe, spec))?;
    let own = source.files(data)?;
    for plan in table.rows.iter_mut().map(|row| &mut row.plan) {
        for point in plan.points.iter_mut().filter(|point| point.mix.is_empty()) {
            point.mix = service.mix().unwrap_or_default().to_string();
        }
        add_files(plan, &own);
    }
    Ok(table)
}

/// The plan of the last run in a record: the same race again.
fn from_record(path: &Path) -> Result<Plan> {
    let run = lab::record::read(path)?.pop();
    let run = run.with_context(|| format!("{} holds no run to repeat", path.display()))?;
    for program in &run.manifest.programs {
        let now = run.manifest.plan.arms.iter().find(|arm| arm.name == program.arm);
        let now = now.map(lab::record::Program::of);
        if now.is_none_or(|now| now.hash != program.hash) {
            info!("doubt: the program of {} is not the one of that run", program.arm);
        }
    }
    Ok(run.manifest.plan)
}

/// Applies the flags that are valid for any plan.
fn adjust(args: &Args, plan: &mut Plan) -> Result<()> {
    if let Some(warmup) = args.sizes.warmup {
        plan.warmup_ms = warmup.as_millis() as u64;
    }
    if let Some(window) = args.sizes.window {
        plan.window_ms = window.as_millis() as u64;
    }
    if let Some(percent) = args.sizes.margin {
        plan.margin = percent / 100.0;
    }
    if let Some(seed) = args.sizes.seed {
        plan.seed = seed;
    }
    if args.sizes.no_twin {
        plan.twin = false;
    }
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    match &args.vs {
        Some(name) => plan.baseline.clone_from(name),
        // The default baseline is our plainest event loop; a race without it takes its first arm.
        None if Service::by_name(&args.what).is_some() && names.contains(&"epoll") => {
            plan.baseline = "epoll".to_string();
        }
        None => {}
    }
    if let Some(blocks) = args.blocks {
        plan.blocks = blocks;
    } else if let Some(budget) = args.budget {
        let blocks = blocks_within(plan, budget)?;
        match &mut plan.turns {
            Some(turns) => turns.budget_ms = Some(budget.as_millis() as u64),
            None => plan.blocks = blocks,
        }
    }
    plan.label = Plan::label_for(plan.blocks).to_string();
    Ok(())
}

/// Blocks that fit into a time.
fn blocks_within(plan: &Plan, budget: Duration) -> Result<u32> {
    let block_ms = block_ms(plan).max(1);
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

/// The duration of a plan without repetitions, milliseconds.
pub fn expected_ms(plan: &Plan) -> u64 {
    let all_ms = u64::from(plan.blocks) * block_ms(plan);
    let budget_ms = plan.turns.and_then(|turns| turns.budget_ms);
    budget_ms.map_or(all_ms, |most| all_ms.min(most + block_ms(plan)))
}

/// The duration of one block.
fn block_ms(plan: &Plan) -> u64 {
    let arms = plan.entrants().len() as u64;
    let points = plan.points.iter().map(|point| {
        let (warmup_ms, window_ms) = plan.spans(point);
        let trial_ms = warmup_ms + window_ms + AROUND_MS;
        match (plan.turns, point.model) {
            (Some(turns), _) => warmup_ms + u64::from(turns.windows) * window_ms + AROUND_MS / 4,
            (None, Model::Closed | Model::Open { .. }) => trial_ms,
            // Before, during, and some probes after it.
            (None, Model::Overload { .. }) => trial_ms + window_ms + 8 * AROUND_MS,
            (None, Model::Capacity { .. }) => PROBES * trial_ms,
        }
    });
    arms * points.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn planned(words: &[&str]) -> Plan {
        let words = [&["race"], words].concat();
        let line = Line::try_parse_from(words).expect("a race's arguments");
        plan(&line.args, Path::new("/bin/roundhouse")).expect("a plan")
    }

    #[test]
    fn an_arm_of_ours_says_where_its_engine_comes_from() {
        let arm = resolved(Service::Stock, Path::new("/bin/r"), &peers::by_name("epoll"));
        let note = arm.expect("an engine").note;
        assert!(note.starts_with("one event loop") && !note.contains('('), "{note}");
    }

    #[test]
    fn the_default_race_asks_every_engine_what_a_request_costs() {
        let stock = planned(&[]);
        let names: Vec<&str> = stock.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert!(PRESETS.iter().all(|preset| names.contains(&preset.name)), "{names:?}");
        assert!(stock.turns.is_some_and(|turns| turns.budget_ms.is_some() && turns.silent > 0));
        assert_eq!((stock.metrics.as_slice(), stock.hopeless()), (&[Metric::Cpu][..], None));
        assert!(expected_ms(&stock) < 90_000, "{}", expected_ms(&stock));
        let counted = planned(&["--blocks", "8"]).turns.expect("servers take turns");
        assert_eq!(counted.budget_ms, None);
        let hurried = planned(&["--budget", "20s"]).turns.expect("servers take turns");
        assert_eq!(hurried.budget_ms, Some(20_000));
    }

    #[test]
    fn a_full_race_can_resolve_clear_differences() {
        let some = ["--full", "--arms", "iterative,epoll,prefork,uring"];
        let stock = planned(&some);
        assert_eq!((stock.turns, stock.blocks, stock.label.as_str()), (None, 10, "claim"));
        assert_eq!(stock.hopeless(), None);
        assert!(stock.points.iter().any(|point| point.is_open()));
        let few = planned(&[&some[..], &["--blocks", "5"]].concat());
        assert!(few.hopeless().is_some_and(|it| it.contains("interval needs 6")));
    }
}
