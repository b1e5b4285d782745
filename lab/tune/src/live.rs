//! Heats on this machine, by the laboratory: a fresh server on one core, open arrivals from a
//! generator on the other. Each heat is a line of the record before the next begins, so a stopped
//! search continues where it was.
//!
//! `Machine` implements `Heats` for the search. It turns a candidate into a plan with one arm, has
//! the laboratory's `Runner` execute one trial, and repeats once a heat that the machine disturbed.
//! The key of a record stands for everything that heats depend on: heats of the same key are read
//! back with the time that they took, heats of other keys stay in the file and do not count. The
//! seed depends on block and load only, so all candidates of a block get the same arrivals.

use crate::field::Heat;
use crate::search::{Heats, SearchStep, Stage};
use crate::space::Candidate;
use anyhow::{Context, Result};
use lab::block::Slot;
use lab::cause::reasons;
use lab::census::Census;
use lab::machine::Placement;
use lab::metric::Metric;
use lab::plan::{Arm, Arrivals, LoadPoint, Model, Plan, Rate};
use lab::prices::Prices;
use lab::record::Run;
use lab::runner::Runner;
use lab::trial::{Ending, Trial, Trials};
use lab::verdict::{CostAnswer, RaceAnswer, Rank};
use serde::{Deserialize, Serialize};
use stats::{Rng, median};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SCHEMA: &str = "roundhouse.tune/1";
/// Closed runs of the default that measure its capacity; their median counts.
const PILOTS: u32 = 3;
/// The share of the workload's rate at which the time of a lone request is measured.
const CALM: f64 = 0.1;
/// Attempts at a heat that a disturbance of the machine spoils.
const ATTEMPTS: u32 = 2;
/// A search for the highest rate ends when it is known as well as this.
const RESOLUTION: f64 = 0.03;

/// How candidates become servers, what they are asked, and where they run.
pub struct Recipe<'a> {
    /// The plan of every heat but for its arm: one load point with the generator's `--slo`.
    pub plan: Plan,
    /// The server of a candidate, or why there is none.
    pub arm: &'a dyn Fn(&Candidate) -> Result<Arm, String>,
    /// The server whose capacity shares of a rate refer to.
    pub default: Candidate,
    /// A server without a limit of requests at once, which tells the time of a lone request.
    pub calm: Candidate,
    /// The program that offers `load` and `pin`.
    pub exe: &'a Path,
    /// A heat at a low rate lasts up to twice the plan's window, so that it has this many requests.
    pub requests_min: u32,
    /// An empty directory for the files of heats.
    pub room: &'a Path,
    /// The cores of server and generator.
    pub placement: Option<Placement>,
    /// The objective of a search for the highest rate: the share of the requests, and the time
    /// within which they must be answered, nanoseconds.
    pub capacity: Option<(f64, u64)>,
    /// It ends the search when it becomes true.
    pub stop: Arc<AtomicBool>,
}

/// One line of the record, which holds one search after another.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// The first line of a search; a fresh one does not know the heats before it.
    Search { schema: String, key: String, fresh: bool },
    /// The rate, requests a second, and the requests in flight at it.
    Load { rate: f64, in_flight: f64 },
    /// One heat and the seconds that it took.
    Heat { stage: Stage, block: u32, load: f64, candidate: Candidate, heat: Heat, took_s: f64 },
}

type Place = (u8, u32, u64, Candidate);

fn place(stage: Stage, block: u32, load: f64, candidate: &Candidate) -> Place {
    (stage as u8, block, load.to_bits(), candidate.clone())
}

/// The record of a search: what is known, and where more is written.
pub struct Record {
    file: File,
    heats: BTreeMap<Place, Heat>,
    load: Option<(f64, f64)>,
    /// Seconds that the known heats took.
    took_s: f64,
}

impl Record {
    /// Opens the record at `path` for the search of this key, which stands for everything that the
    /// heats depend on. Its heats are known, unless it is to be `fresh`; those of other searches
    /// stay in the file.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, key: &str, fresh: bool) -> Result<Record> {
        let text = match std::fs::read_to_string(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let fault = || format!("cannot write {}", path.display());
        let file = OpenOptions::new().append(true).create(true).open(path).with_context(fault)?;
        let mut record = Record { file, heats: BTreeMap::new(), load: None, took_s: 0.0 };
        let mut is_mine = false;
        // The last line of a killed search may be a part.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            match line {
                Line::Search { key: other, fresh, .. } => {
                    is_mine = other == key;
                    if is_mine && fresh {
                        record.forget();
                    }
                }
                _ if !is_mine => {}
                Line::Load { rate, in_flight } => record.load = Some((rate, in_flight)),
                Line::Heat { stage, block, load, candidate, heat, took_s } => {
                    record.heats.insert(place(stage, block, load, &candidate), heat);
                    record.took_s += took_s;
                }
            }
        }
        if fresh {
            record.forget();
        }
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(record.file).with_context(fault)?;
        }
        if fresh || !is_mine {
            let (schema, key) = (SCHEMA.to_string(), key.to_string());
            record.write(&Line::Search { schema, key, fresh }).with_context(fault)?;
        }
        Ok(record)
    }

    fn forget(&mut self) {
        self.heats.clear();
        (self.load, self.took_s) = (None, 0.0);
    }

    /// Heats that are known.
    pub fn known(&self) -> usize {
        self.heats.len()
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(line)?)
    }
}

/// Processes on this machine.
pub struct Machine<'a> {
    recipe: Recipe<'a>,
    record: Record,
    budget: Duration,
    begun: Instant,
    rate: f64,
    order: u32,
    /// Called after each heat and step: a line of text, and the share of the budget used.
    show: &'a mut dyn FnMut(&str, f64),
    /// The record could not be written.
    pub fault: Option<String>,
}

impl<'a> Machine<'a> {
    /// Prepares heats that `record` does not hold.
    pub fn new(
        recipe: Recipe<'a>,
        record: Record,
        budget: Duration,
        show: &'a mut dyn FnMut(&str, f64),
    ) -> Machine<'a> {
        let begun = Instant::now();
        Machine { recipe, record, budget, begun, rate: 0.0, order: 0, show, fault: None }
    }

    /// Finds the workload's rate, requests a second, and the number of requests in flight at it.
    /// `None` if it was stopped.
    ///
    /// # Errors
    /// No server to ask, or no answer.
    pub fn calibrate(&mut self) -> Option<Result<(f64, f64), String>> {
        if let Some((rate, in_flight)) = self.record.load {
            self.rate = rate;
            return Some(Ok((rate, in_flight)));
        }
        let Model::Open { rate, .. } = self.recipe.plan.points[0].model else {
            return Some(Err("expected a load point with a rate".to_string()));
        };
        self.rate = match rate {
            Rate::Absolute(rate) => rate,
            Rate::Slowest(share) | Rate::Own(share) => match self.capacity()? {
                Ok(capacity) => share * capacity,
                Err(why) => return Some(Err(why)),
            },
        };
        let calm = self.recipe.calm.clone();
        let (heat, _) = self.heat((Stage::Screen, 0, CALM), &calm)?;
        let alone_ns = match (heat.mean_ns, heat.failure) {
            (Some(ns), _) => ns,
            (None, why) => {
                let why = why.unwrap_or_else(|| "no request was answered".to_string());
                return Some(Err(format!("{calm}: {why}")));
            }
        };
        let in_flight = self.rate * alone_ns / 1e9;
        self.written(&Line::Load { rate: self.rate, in_flight });
        Some(Ok((self.rate, in_flight)))
    }

    /// The capacity of the default in a closed loop, requests a second.
    fn capacity(&mut self) -> Option<Result<f64, String>> {
        let default = self.recipe.default.clone();
        let arm = match (self.recipe.arm)(&default) {
            Ok(arm) => arm,
            Err(why) => return Some(Err(why)),
        };
        let plan = self.plan(arm, None);
        let mut found = Vec::new();
        for round in 0..PILOTS {
            match self.runner(&plan).pilot(0, round)? {
                Ok(load) => found.push(load.throughput_rps),
                Err(why) => return Some(Err(format!("{default}: {why}"))),
            }
        }
        Some(median(&found).ok_or_else(|| "no pilot gave a capacity".to_string()))
    }

    fn plan(&self, arm: Arm, rate: Option<f64>) -> Plan {
        let base = &self.recipe.plan;
        let arrivals = match base.points[0].model {
            Model::Open { arrivals, .. } => arrivals,
            _ => Arrivals::default(),
        };
        let model = match rate {
            Some(rate) => Model::Open { rate: Rate::Absolute(rate), arrivals },
            None => base.points[0].model,
        };
        let point = LoadPoint { model, ..base.points[0].clone() };
        let baseline = arm.name.clone();
        Plan { arms: vec![arm], baseline, twin: false, points: vec![point], ..base.clone() }
    }

    fn runner(&self, plan: &Plan) -> Runner {
        let Recipe { exe, room, placement, stop, .. } = &self.recipe;
        Runner::new(plan, exe, room, *placement, Arc::clone(stop))
    }

    /// One heat, repeated once if the machine was disturbed, and the seconds that it took.
    fn heat(&mut self, at: (Stage, u32, f64), candidate: &Candidate) -> Option<(Heat, f64)> {
        let (stage, block, load) = at;
        let begun = Instant::now();
        let failed = |why: String| Heat { failure: Some(why), ..Heat::default() };
        let arm = match (self.recipe.arm)(candidate) {
            Ok(arm) => arm,
            Err(why) => return Some((failed(why), 0.0)),
        };
        let rate = self.rate * load;
        let mut plan = self.plan(arm, Some(rate));
        match self.recipe.capacity.filter(|_| stage == Stage::Confirm) {
            Some((quantile, limit_ns)) => {
                plan.points[0].model =
                    Model::Capacity { quantile, limit_ns, resolution: RESOLUTION };
            }
            None => plan.window_ms = window_ms(plan.window_ms, self.recipe.requests_min, rate),
        }
        let mut runner = self.runner(&plan);
        // A search begins at a quarter of what is known.
        runner.capacities(&BTreeMap::from([(plan.baseline.clone(), 4.0 * rate)]));
        let seed = Rng::new(plan.seed ^ (u64::from(block) << 20) ^ load.to_bits()).roll() >> 32;
        for attempt in 1.. {
            self.order += 1;
            let slot = Slot {
                order: self.order,
                block,
                point: 0,
                entrant: 0,
                seed,
                swapped: block % 2 == 1,
            };
            let trial = runner.run(&slot, self.begun)?;
            let is_disturbed = !trial.objections.is_empty();
            let heat = Heat { is_disturbed, ..heat_of(&trial) };
            // A server that does not answer costs ten seconds; the next block asks it again.
            if attempt == ATTEMPTS || !is_disturbed || heat.failure.is_some() {
                return Some((heat, begun.elapsed().as_secs_f64()));
            }
        }
        None
    }

    /// Why one of two candidates takes more CPU time for a request than the other, in sentences:
    /// their system calls are counted in separate runs, in a closed loop. Empty if they cannot
    /// be counted, or if it was stopped.
    pub fn reasons(&self, costs: [(&Candidate, f64); 2], clients: u32) -> Vec<String> {
        let mut ranked = costs;
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let Ok(prices) = Prices::measure(self.recipe.placement.map(|it| it.cores(false).0)) else {
            return Vec::new();
        };
        let mut run = Run { prices: Some(prices), ..Run::default() };
        let mut ranks = Vec::new();
        for (candidate, cpu_ns) in ranked {
            let Ok(arm) = (self.recipe.arm)(candidate) else { return Vec::new() };
            let mut plan = self.plan(arm, None);
            (plan.points[0].model, plan.points[0].connections) = (Model::Closed, clients.max(1));
            let Some(census) = self.runner(&plan).census(0, 0) else { return Vec::new() };
            // The cost of a request in a closed loop is not comparable with that of the search.
            run.census.push(Census { steady_cpu_ns: None, ..census });
            let costlier = !ranks.is_empty();
            let arm = candidate.to_string();
            ranks.push(Rank { arm, cpu_ns, costlier, ..Rank::default() });
        }
        let point = self.recipe.plan.points[0].name.clone();
        let costs = vec![CostAnswer { point, ranks, kernel_share: None }];
        let answer = RaceAnswer { costs, ..RaceAnswer::default() };
        reasons(&run, &answer).into_iter().map(|it| it.text).collect()
    }

    fn written(&mut self, line: &Line) {
        if let Err(why) = self.record.write(line) {
            self.fault.get_or_insert(format!("the record cannot be written: {why}"));
        }
    }
}

/// The length of a heat, milliseconds: for `requests` at the rate, from `usual` to twice that.
fn window_ms(usual: u64, requests: u32, rate: f64) -> u64 {
    let wanted = 1e3 * f64::from(requests) / rate;
    (wanted.ceil() as u64).clamp(usual, 2 * usual)
}

fn heat_of(trial: &Trial) -> Heat {
    let load = match &trial.ending {
        Ending::Measured { load } => load,
        Ending::Unavailable { reason } | Ending::Failed { reason } => {
            return Heat { failure: Some(reason.clone()), ..Heat::default() };
        }
    };
    let life = trial.seen.cost.as_ref().and_then(|life| life.cpu_ns_per_request);
    let offered = load.arrived.unwrap_or(load.requests + load.failed.unwrap_or(0));
    let share = load.slo.iter().map(|goal| goal.found).fold(1.0, f64::min);
    let search = trial.seen.search.as_ref();
    let rate = search.and_then(|search| search.capacity_rps);
    Heat {
        rate,
        offered,
        attained: (share * offered as f64).round() as u64,
        cpu_ns: life
            .or_else(|| Metric::Cpu.of(load))
            .filter(|_| search.is_none() || rate.is_some()),
        memory_kb: load.memory_kb().map(|kb| kb as f64),
        threads: load.server.as_ref().and_then(|server| server.threads),
        mean_ns: load.latency().mean_ns,
        ..Heat::default()
    }
}

impl Heats for Machine<'_> {
    fn block(
        &mut self,
        stage: Stage,
        block: u32,
        load: f64,
        asked: &[Candidate],
    ) -> Option<Vec<Heat>> {
        let mut found = vec![Heat::default(); asked.len()];
        let seed = self.recipe.plan.seed ^ u64::from(block) ^ load.to_bits();
        for at in Rng::new(seed).order(asked.len()) {
            let candidate = &asked[at];
            let here = place(stage, block, load, candidate);
            if let Some(known) = self.record.heats.get(&here) {
                found[at] = known.clone();
                continue;
            }
            if self.recipe.stop.load(Ordering::Relaxed) {
                return None;
            }
            let (heat, took_s) = self.heat((stage, block, load), candidate)?;
            let candidate = candidate.clone();
            let text = shown(stage, block, load, &candidate, &heat);
            let line = Line::Heat { stage, block, load, candidate, heat: heat.clone(), took_s };
            self.written(&line);
            let spent = self.spent();
            (self.show)(&text, spent);
            found[at] = heat;
        }
        Some(found)
    }

    fn spent(&self) -> f64 {
        let seconds = self.record.took_s + self.begun.elapsed().as_secs_f64();
        seconds / self.budget.as_secs_f64().max(1.0)
    }

    fn step(&mut self, step: &SearchStep) {
        let spent = self.spent();
        (self.show)(&format!("{}: {} {}", step.stage.name(), step.candidate, step.text), spent);
    }
}

fn shown(stage: Stage, block: u32, load: f64, candidate: &Candidate, heat: &Heat) -> String {
    let stage = stage.name();
    let head = format!("{stage}, block {}, {load} of the load: {candidate}", block + 1);
    match (&heat.failure, heat.cpu_ns) {
        (Some(why), _) => format!("{head}: {why}"),
        _ if let Some(rate) = heat.rate => format!("{head}: {rate:.0} requests a second"),
        (None, cpu) => {
            let cpu = cpu.map_or(String::new(), |ns| format!(", {:.1} us of CPU each", ns / 1e3));
            format!("{head}: {:.1} % in time{cpu}", 100.0 * heat.share())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heat_at_a_low_rate_is_longer_within_a_bound() {
        let found = [2_000.0, 700.0, 400.0].map(|rate| window_ms(500, 500, rate));
        assert_eq!(found, [500, 715, 1_000]);
        assert_eq!(window_ms(500, 0, 400.0), 500);
    }

    #[test]
    fn a_record_goes_on_where_it_was_cut_and_not_for_another_search() {
        let path = std::env::temp_dir().join(format!("tune-{}.jsonl", std::process::id()));
        let open = |key: &str, fresh| Record::open(&path, key, fresh).expect("a file");
        let mut record = open("a", true);
        let heat = Heat { offered: 7, attained: 7, ..Heat::default() };
        let candidate = Candidate::usual("epoll");
        record.write(&Line::Load { rate: 5.0, in_flight: 1.5 }).expect("written");
        let stage = Stage::Refine;
        let line = |heat: &Heat| Line::Heat {
            stage,
            block: 3,
            load: 1.2,
            candidate: candidate.clone(),
            heat: heat.clone(),
            took_s: 2.0,
        };
        record.write(&line(&heat)).expect("written");
        record.file.write_all(b"{\"kind\":\"heat\",\"sta").expect("a part");
        let again = open("a", false);
        assert_eq!((again.known(), again.load, again.took_s), (1, Some((5.0, 1.5)), 2.0));
        assert_eq!(again.heats.get(&place(stage, 3, 1.2, &candidate)), Some(&heat));
        let mut again = open("a", false);
        again.write(&line(&heat)).expect("written after the part");
        assert_eq!(open("a", false).took_s, 4.0);
        assert_eq!(open("b", false).known(), 0);
        assert_eq!(open("a", false).known(), 1, "another search has taken nothing away");
        assert_eq!(open("a", true).known(), 0);
        assert_eq!(open("a", false).known(), 0, "a fresh search stays fresh");
        std::fs::remove_file(&path).expect("it is there");
    }
}
