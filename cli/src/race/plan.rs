//! From the command line to a plan: arms and flags; the laboratory makes the plan
//! ([`lab::draft`]).
//!
//! Three sources lead to a plan: a service with flags, a plan file, or the record of an earlier
//! race. The laboratory knows no engine and no foreign server, so `resolving` lends it two
//! functions that know them: one makes an arm of a specification, one the files of a service. Sizes
//! are applied last and alike for all three. A flag that the source leaves without effect is
//! refused.

use super::Args;
use anyhow::{Result, bail};
use engines::PRESETS;
use lab::draft::{self, Adjustments, PlanSource, RaceWishes, Resolver};
use lab::duet::DuetTable;
use lab::file::ArmSpec;
use lab::plan::{Arm, Plan, Provision};
use lab::service::Service;
use stats::words;
use std::path::Path;
use std::process::ExitCode;
use tools::race::book;
use wire::framing::Framing;

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
pub fn plan(args: &Args, exe: &Path) -> Result<Plan> {
    let what = args.what.as_str();
    let service = Service::by_name(what);
    let mut plan = match service {
        // It has a separate protocol, and no files.
        _ if args.own.service.is_some() => from_flags(args, Service::Echo, exe)?,
        Some(service) => from_flags(args, service, exe)?,
        None if has_ending(what, "toml") || has_ending(what, "jsonl") => {
            if let Some(flag) = without_effect(args) {
                bail!("{flag} has no effect on {what}, which has its own; leave it out");
            }
            match has_ending(what, "toml") {
                true => from_file(args, Path::new(what), exe)?,
                false => draft::recorded(Path::new(what))?,
            }
        }
        None => bail!(
            "expected {}, a plan (FILE.toml) or a record to repeat (FILE.jsonl), found `{what}`",
            Service::names().join(", ")
        ),
    };
    // The default baseline is our plainest event loop; a race without it takes its first arm.
    let usual = service.and_then(|_| plan.arms.iter().find(|arm| arm.name == "epoll"));
    let sizes = &args.sizes;
    let adjustments = Adjustments {
        warmup: sizes.warmup,
        window: sizes.window,
        margin: sizes.margin.map(|percent| percent / 100.0),
        seed: sizes.seed,
        no_twin: sizes.no_twin,
        baseline: args.vs.clone().or_else(|| usual.map(|arm| arm.name.clone())),
        blocks: args.blocks,
        budget: args.budget,
        boot: sizes.boot,
    };
    adjustments.apply(&mut plan)?;
    Ok(plan)
}

/// A flag that a plan file or a record leaves nothing to do for.
fn without_effect(args: &Args) -> Option<&'static str> {
    let is_record = has_ending(&args.what, "jsonl");
    let of_record = [
        ("--arms", args.arms.is_some()),
        ("--engines", !args.own.engines.is_empty()),
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

/// Calls `make` with what the laboratory does not know: our engines, known servers, and the book.
pub fn resolving<T>(exe: &Path, make: impl FnOnce(&Resolver<'_>) -> Result<T>) -> Result<T> {
    let arm = |service: Service, spec: &ArmSpec| resolved(service, exe, spec);
    make(&Resolver { arm: &arm, files: &files })
}

fn from_flags(args: &Args, service: Service, exe: &Path) -> Result<Plan> {
    let mut arms = arms(args)?;
    if arms.is_empty() {
        arms = usual_arms(service, exe);
    }
    framed(&mut arms, args, service)?;
    let names: Vec<&str> = arms.iter().map(|arm| arm.title()).collect();
    let question = args.own.service.as_ref().map(|command| {
        format!("Which serves `{command}` best: {}?", stats::words::listed(&names, "or"))
    });
    let wishes = RaceWishes {
        question,
        points: args.points.specs(service, args.full),
        is_curved: args.points.is_curved(),
        mix: args.points.mix(),
        is_full: args.full,
        metrics: args.conduct.fail_if.iter().map(|it| it.metric).collect(),
        data: args.sizes.data.clone(),
        arms,
    };
    resolving(exe, |resolver| draft::race(service, wishes, resolver))
}

fn from_file(args: &Args, path: &Path, exe: &Path) -> Result<Plan> {
    let mut source = PlanSource::read(path)?;
    let given = arms(args)?;
    if !given.is_empty() {
        source.file.arm = given;
    }
    source.add_engine_args();
    let service = source.service;
    framed(&mut source.file.arm, args, service)?;
    let (mix, data) = (args.points.mix(), args.sizes.data.as_deref());
    resolving(exe, |resolver| source.race(mix.as_deref(), data, resolver))
}

/// The duet table of a plan file; `data` is the service's own data in place of the file's.
pub fn duets(path: &Path, exe: &Path, data: Option<&Path>) -> Result<DuetTable> {
    let mut source = PlanSource::read(path)?;
    source.add_engine_args();
    resolving(exe, |resolver| source.duets(data, resolver))
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
        arm.family = preset.family().to_string();
    }
    Ok(arm)
}

/// All engines of ours that need no network interface, and the foreign servers that are installed.
fn usual_arms(service: Service, exe: &Path) -> Vec<ArmSpec> {
    let ours = PRESETS.iter().filter(|preset| !preset.needs_interface());
    let mut arms: Vec<ArmSpec> = ours.map(|preset| peers::by_name(preset.name)).collect();
    let foreign = service.foreign().iter().map(|name| peers::by_name(name));
    arms.extend(foreign.filter(|spec| {
        peers::resolve(service, exe, spec).is_ok_and(|arm| arm.missing().is_none())
    }));
    arms
}

/// Checks the name of an engine.
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
    arms.extend(args.own.arms(args.sizes.boot)?);
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
        let framing: Framing = framing.parse().map_err(anyhow::Error::msg)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lab::metric::Metric;

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
        let is_raced =
            |preset: &engines::Preset| names.contains(&preset.name) != preset.needs_interface();
        assert!(PRESETS.iter().all(is_raced), "{names:?}");
        let is_engine = |preset: &engines::Preset| peers::by_name(preset.name).engine.is_some();
        assert!(PRESETS.iter().all(is_engine), "a foreign server has the name of an engine");
        assert!(stock.turns.budget_ms.is_some() && stock.turns.silent > 0);
        assert_eq!((stock.metrics.as_slice(), stock.hopeless()), (&[Metric::Cpu][..], None));
        assert!(stock.expected_ms() < 90_000, "{}", stock.expected_ms());
        assert_eq!(planned(&["--blocks", "8"]).turns.budget_ms, None);
        assert_eq!(planned(&["--budget", "20s"]).turns.budget_ms, Some(20_000));
    }

    #[test]
    fn a_full_race_can_resolve_clear_differences() {
        let some = ["--full", "--arms", "iterative,epoll,prefork,uring"];
        let stock = planned(&some);
        assert_eq!((stock.turns.budget_ms, stock.blocks, &*stock.label), (None, 10, "claim"));
        assert_eq!(stock.hopeless(), None);
        assert!(stock.points.iter().any(|point| point.is_open()));
        let few = planned(&[&some[..], &["--blocks", "5"]].concat());
        assert!(few.hopeless().is_some_and(|it| it.contains("interval needs 6")));
    }

    #[test]
    fn a_condition_registers_its_metric() {
        let gated = planned(&["--fail-if", "uring p99 > 1.1x epoll"]);
        assert_eq!(gated.metrics, [Metric::Throughput, Metric::Cpu, Metric::P99]);
        let gated = planned(&["--fail-if", "cpu > 1.1x epoll"]);
        assert_eq!(gated.metrics, [Metric::Cpu]);
    }
}
