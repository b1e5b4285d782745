//! The search: screen, refine, confirm, decide.
//!
//! A search asks `Heats` for blocks: each candidate that is left serves the same arrivals once per
//! block. Screening begins with the seeds of the space and drops a candidate as soon as the blocks
//! so far rule it out. Refinement adds the neighbours of the leaders until the leader stays. At 40
//! % and 60 % of the budget these two stages end in any case. Confirmation measures the default and
//! the finalists with new heats, because the heats that chose a finalist flatter it. A finalist
//! wins only beyond doubt: first by answering more requests in time, then by its cost; otherwise
//! the default stays. `None` passes a stop from the heats up to the caller.

mod ascent;

use crate::field::{Field, Heat, Runner};
use crate::space::{Candidate, Facts, Space, distinct};
use serde::{Deserialize, Serialize};
use stats::{Better, Comparison, Decision, Terms, compare, compare_all, median, median_interval};
use std::cmp::Ordering;

/// The part of the search that a heat belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// All seeds.
    Screen,
    /// Neighbours of the leaders.
    Refine,
    /// The finalists compared with the default.
    Confirm,
}

impl Stage {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Screen => "screen",
            Stage::Refine => "refine",
            Stage::Confirm => "confirm",
        }
    }
}

/// Something that runs heats: processes on this machine, or a test.
pub trait Heats {
    /// One heat of each candidate at `load` times the workload's rate, with the same arrivals, in
    /// the order of `asked`. `block` counts within the stage. `None`: the search was stopped.
    fn block(
        &mut self,
        stage: Stage,
        block: u32,
        load: f64,
        asked: &[Candidate],
    ) -> Option<Vec<Heat>>;

    /// The share of the budget that is used up.
    fn spent(&self) -> f64;

    /// Takes note of a step of the search.
    fn step(&mut self, _step: &SearchStep) {}
}

/// The limits of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTerms {
    /// The share of the due requests that must be answered in time, 0 to 1.
    pub objective: f64,
    /// A smaller saving than this is none (0.03 = 3 %).
    pub margin: f64,
    /// The most blocks of the first stage.
    pub screen_blocks: u32,
    /// Blocks of each round of refinement.
    pub refine_blocks: u32,
    /// Blocks of the last stage; an interval needs six.
    pub confirm_blocks: u32,
    /// Finalists compared with the default.
    pub finalists: usize,
    /// Loads of the last stage as multiples of the workload's rate; 1 is among them.
    pub loads: Vec<f64>,
    /// The highest rate that keeps the objective decides, not CPU time.
    pub capacity: bool,
}

impl SearchTerms {
    /// The usual limits for an objective.
    pub fn usual(objective: f64) -> SearchTerms {
        SearchTerms {
            objective,
            margin: 0.03,
            screen_blocks: 8,
            refine_blocks: 4,
            confirm_blocks: 8,
            finalists: 3,
            loads: vec![0.8, 1.0, 1.2],
            capacity: false,
        }
    }

    /// The same limits for a search of the highest rate, whose last heats are searches themselves.
    pub fn for_capacity(self) -> SearchTerms {
        SearchTerms { confirm_blocks: 6, loads: vec![1.0], capacity: true, ..self }
    }

    /// Limits for an answer within three minutes.
    pub fn quick(objective: f64) -> SearchTerms {
        SearchTerms {
            screen_blocks: 3,
            refine_blocks: 3,
            confirm_blocks: 6,
            loads: vec![1.0, 1.2],
            ..SearchTerms::usual(objective)
        }
    }
}

/// An event of the search, for its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// The stage.
    pub stage: Stage,
    /// The blocks of the stage that were run before it.
    pub block: u32,
    /// The candidate that it concerns.
    pub candidate: Candidate,
    /// The event with its reason.
    pub text: String,
}

/// A candidate of the last stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// The candidate.
    pub candidate: Candidate,
    /// Load and share of requests within the objective at it.
    pub shares: Vec<(f64, f64)>,
    /// CPU time for a request at the workload's rate, nanoseconds: the median.
    pub cpu_ns: Option<f64>,
    /// The highest rate that kept the objective, requests a second: the median.
    #[serde(default)]
    pub rate: Option<f64>,
    /// CPU time over that of the default, or its highest rate over the candidate's where that was
    /// searched for, with its interval: ratio, low, high.
    pub over_default: Option<(f64, f64, f64)>,
    /// The decision on it.
    pub decision: Decision,
    /// Memory, kilobytes: the median.
    pub memory_kb: Option<f64>,
    /// Threads: the median.
    pub threads: Option<f64>,
    /// The largest cost of a heat lies this far above the smallest, as a share of their mean; from
    /// 0.3 on the candidate is unstable (TUNA, EuroSys 2025).
    pub range: f64,
}

/// The range from which a candidate is unstable.
const UNSTABLE: f64 = 0.3;

/// Shares that differ by less are alike.
const ALIKE: f64 = 0.01;

impl Finalist {
    /// The share within the objective at a load.
    pub fn share(&self, load: f64) -> f64 {
        self.shares.iter().find(|it| it.0 == load).map_or(0.0, |it| it.1)
    }

    /// Its highest rate over that of the default where that was searched for, otherwise its CPU
    /// time: ratio, low, high.
    pub fn over(&self) -> Option<(f64, f64, f64)> {
        let inverse = |(ratio, low, high): (f64, f64, f64)| (1.0 / ratio, 1.0 / high, 1.0 / low);
        if self.rate.is_some() { self.over_default.map(inverse) } else { self.over_default }
    }

    /// Whether its costs vary too much to recommend it for them.
    pub fn is_unstable(&self) -> bool {
        self.range >= UNSTABLE
    }
}

/// The kind of the recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Nothing is better beyond doubt: keep the default.
    Keep,
    /// It keeps the objective like the default and costs less, or carries more requests where that
    /// decides, beyond doubt.
    Cheaper,
    /// It answers more requests within the objective than the default, beyond doubt.
    Timelier,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The recommended candidate.
    pub choice: Candidate,
    /// The server that is used where nothing is better.
    pub default: Candidate,
    /// The kind of the recommendation.
    pub verdict: Advice,
    /// Whether the choice keeps the objective at the workload's rate.
    pub is_kept: bool,
    /// The recommendation in one sentence.
    pub sentence: String,
    /// The last stage, the default first.
    pub finalists: Vec<Finalist>,
    /// The path of the search.
    pub steps: Vec<SearchStep>,
    /// Candidates that were tried.
    pub tried: usize,
    /// The noise of one heat's cost, as a log-ratio.
    pub noise: f64,
    /// The share of the heats of the last stage that other activity of the machine disturbed.
    pub disturbed: f64,
}

/// The share of the budget after which the first stage ends, and refinement.
const SCREEN_SHARE: f64 = 0.4;
const REFINE_SHARE: f64 = 0.6;
/// Blocks before the first candidates leave.
const LOOKS_FROM: u32 = 2;
/// The seed of the final test.
const SEED: u64 = 1;
/// Rounds of refinement.
const ROUNDS_MAX: u32 = 4;

struct Search<'a> {
    space: &'a Space,
    terms: &'a SearchTerms,
    heats: &'a mut dyn Heats,
    steps: Vec<SearchStep>,
    tried: Vec<Candidate>,
    noise: f64,
    /// The load at which the last stage begins, as a multiple of the workload's rate.
    begin: f64,
}

/// Searches `space` for the candidate that keeps the objective at the least cost. `None` if it was
/// stopped before the end.
pub fn search(
    space: &Space,
    facts: &Facts,
    terms: &SearchTerms,
    heats: &mut dyn Heats,
) -> Option<Found> {
    let mut search = Search {
        space,
        terms,
        heats,
        steps: Vec::new(),
        tried: Vec::new(),
        noise: 0.0,
        begin: 1.0,
    };
    let leaders = if terms.capacity { search.ascend(facts)? } else { search.descend(facts)? };
    search.confirm(leaders)
}

impl Search<'_> {
    fn note(&mut self, stage: Stage, block: u32, candidate: Candidate, text: String) {
        let step = SearchStep { stage, block, candidate, text };
        self.heats.step(&step);
        self.steps.push(step);
    }

    /// Runs blocks of a field until `blocks`, its end, or the share of the budget.
    fn run(
        &mut self,
        stage: Stage,
        first: u32,
        blocks: u32,
        until: f64,
        field: &mut Field,
    ) -> Option<()> {
        for block in 0..blocks {
            let few = field.candidates().len() <= self.terms.finalists;
            if block >= LOOKS_FROM && (few || self.heats.spent() > until) {
                break;
            }
            let asked = field.candidates();
            let heats = self.heats.block(stage, first + block, 1.0, &asked)?;
            field.add(heats);
            if block + 1 >= LOOKS_FROM {
                for (candidate, why) in field.thin(self.terms.objective, self.terms.margin) {
                    self.note(stage, first + block + 1, candidate, format!("leaves: {why}"));
                }
            }
        }
        self.noise = field.noise();
        Some(())
    }

    /// The candidates to begin with.
    fn seeds(&mut self, facts: &Facts) -> Vec<Candidate> {
        let seeds = self.space.seeds(facts);
        self.tried.clone_from(&seeds);
        seeds
    }

    /// Neighbours of the first two leaders that were not tried.
    fn neighbours(&mut self, leaders: &[Candidate]) -> Vec<Candidate> {
        let near = leaders.iter().take(2).flat_map(|it| self.space.neighbours(it));
        distinct(near.filter(|it| !self.tried.contains(it)))
    }

    /// The candidates that keep the objective at the least cost, the best first.
    fn descend(&mut self, facts: &Facts) -> Option<Vec<Candidate>> {
        let mut field = Field::new(self.seeds(facts));
        let blocks = self.terms.screen_blocks;
        self.run(Stage::Screen, 0, blocks, SCREEN_SHARE, &mut field)?;
        let leaders = self.leaders(&field);
        self.refine(leaders)
    }

    /// The best candidates of a field; of those whose costs are not distinguished, the ones with
    /// fewer settings, then with fewer threads.
    fn leaders(&self, field: &Field) -> Vec<Candidate> {
        let mut ranks = field.ranks(self.terms.objective);
        let alike = field.alike(self.terms.objective, self.terms.margin);
        ranks[..alike].sort_by_key(|it| (it.candidate.settings.len(), it.threads()));
        ranks.into_iter().take(self.terms.finalists).map(|it| it.candidate.clone()).collect()
    }

    /// Tries the neighbours of the leaders until none is better or the time is used up.
    fn refine(&mut self, mut leaders: Vec<Candidate>) -> Option<Vec<Candidate>> {
        for round in 0..ROUNDS_MAX {
            let fresh = self.neighbours(&leaders);
            if fresh.is_empty() || self.heats.spent() > REFINE_SHARE {
                break;
            }
            self.tried.extend(fresh.iter().cloned());
            let mut field = Field::new(leaders.iter().chain(&fresh).cloned());
            let blocks = self.terms.refine_blocks;
            let first = round * blocks;
            self.run(Stage::Refine, first, blocks, REFINE_SHARE, &mut field)?;
            let found = self.leaders(&field);
            let is_settled = found.first() == leaders.first();
            if let Some(best) = found.first().filter(|_| !is_settled) {
                let text = format!("leads in place of {}", leaders[0]);
                self.note(Stage::Refine, first + blocks, best.clone(), text);
            }
            leaders = found;
            if is_settled {
                break;
            }
        }
        Some(leaders)
    }

    /// Runs the finalists compared with the default at all loads, and decides.
    fn confirm(mut self, leaders: Vec<Candidate>) -> Option<Found> {
        let default = self.space.default.clone();
        let others = leaders.into_iter().filter(|it| *it != default);
        let all: Vec<Candidate> = std::iter::once(default.clone()).chain(others).collect();
        for candidate in &all[1..] {
            self.note(Stage::Confirm, 0, candidate.clone(), "is a finalist".to_string());
        }
        let mut fields: Vec<Field> =
            self.terms.loads.iter().map(|_| Field::new(all.clone())).collect();
        for block in 0..self.terms.confirm_blocks {
            for (field, load) in fields.iter_mut().zip(&self.terms.loads) {
                field.add(self.heats.block(Stage::Confirm, block, load * self.begin, &all)?);
            }
        }
        if self.terms.capacity {
            self.noise = at_rate(self.terms, &fields).noise();
        }
        let finalists = finalists(self.terms, &fields);
        let (at, verdict) = decide(self.terms, &fields, &finalists);
        let chosen = &finalists[at];
        let is_kept = chosen.share(1.0) >= self.terms.objective;
        let sentence = sentence(self.terms, verdict, chosen, &finalists[0]);
        let choice = chosen.candidate.clone();
        self.note(Stage::Confirm, self.terms.confirm_blocks, choice.clone(), sentence.clone());
        let heats = || fields.iter().flat_map(|field| &field.0).flat_map(|row| &row.heats);
        let spoilt = heats().filter(|heat| heat.is_disturbed).count();
        let disturbed = spoilt as f64 / heats().count().max(1) as f64;
        Some(Found {
            choice,
            default,
            verdict,
            is_kept,
            sentence,
            finalists,
            steps: self.steps,
            tried: self.tried.len(),
            noise: self.noise,
            disturbed,
        })
    }
}

/// The field at the workload's own rate.
fn at_rate<'a>(terms: &SearchTerms, fields: &'a [Field]) -> &'a Field {
    let at = terms.loads.iter().position(|load| *load == 1.0).unwrap_or(0);
    &fields[at]
}

fn costs(row: &Runner) -> Vec<Option<f64>> {
    row.heats.iter().map(Heat::cost).collect()
}

fn finalists(terms: &SearchTerms, fields: &[Field]) -> Vec<Finalist> {
    let rows = &at_rate(terms, fields).0;
    let base = costs(&rows[0]);
    let ratios = |row: &Runner| -> Vec<Option<f64>> {
        costs(row).iter().zip(&base).map(|(a, b)| Some(((*a)? / (*b)?).ln())).collect()
    };
    let tested: Vec<_> = rows[1..].iter().map(|row| (0, ratios(row))).collect();
    let mut over = compare_all(&tested, SEED);
    over.insert(0, compare(&[(1.0, 1.0)]));
    let against = Terms { better: Better::Less, floor: 0.0, margin: terms.margin };
    let middle = |row: &Runner, of: &dyn Fn(&Heat) -> Option<f64>| {
        median(&row.heats.iter().filter_map(of).collect::<Vec<f64>>())
    };
    let finalist = |(at, row): (usize, &Runner)| {
        let over = over[at].as_ref();
        let all: Vec<f64> = costs(row).into_iter().flatten().collect();
        let (low, high) =
            all.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        Finalist {
            candidate: row.candidate.clone(),
            shares: terms
                .loads
                .iter()
                .copied()
                .zip(fields.iter().map(|it| it.0[at].share()))
                .collect(),
            cpu_ns: middle(row, &|heat| heat.cpu_ns),
            rate: middle(row, &|heat| heat.rate),
            over_default: over.map(Comparison::triple),
            decision: over.map_or(Decision::Open, |it| stats::decide(it, against)),
            memory_kb: middle(row, &|heat| heat.memory_kb),
            threads: middle(row, &|heat| heat.threads.map(|it| it as f64)),
            range: if mean > 0.0 { (high - low) / mean } else { 0.0 },
        }
    };
    rows.iter().enumerate().map(finalist).collect()
}

/// Whether a finalist answers more requests in time than the default at some load, beyond doubt,
/// and fewer at none.
fn is_timelier(terms: &SearchTerms, fields: &[Field], at: usize) -> bool {
    let mut better = false;
    for field in fields {
        let [base, row] = [&field.0[0], &field.0[at]];
        // A default that keeps the objective at this load needs no improvement.
        let gains: Vec<f64> =
            row.heats.iter().zip(&base.heats).map(|(a, b)| a.share() - b.share()).collect();
        let Some(range) = median_interval(&gains) else { return false };
        if range.high < 0.0 && row.share() < terms.objective {
            return false;
        }
        better |= range.low > 0.0 && base.share() < terms.objective;
    }
    better
}

/// The recommended finalist: its place, and why.
fn decide(terms: &SearchTerms, fields: &[Field], finalists: &[Finalist]) -> (usize, Advice) {
    let challengers = 1..finalists.len();
    let kept = |at: &usize| finalists[*at].share(1.0) >= terms.objective;
    let mut timelier: Vec<usize> =
        challengers.clone().filter(|at| is_timelier(terms, fields, *at)).collect();
    let default_keeps = finalists[0].share(1.0) >= terms.objective;
    if !timelier.is_empty() {
        let keeps: Vec<usize> = timelier.iter().copied().filter(kept).collect();
        let pick = if keeps.is_empty() {
            // None keeps the objective: the one that misses it least.
            let share = |at: &usize| finalists[*at].share(1.0);
            let most = timelier.iter().map(share).fold(0.0, f64::max);
            timelier.retain(|at| share(at) >= most - ALIKE);
            leanest(terms, fields, finalists, timelier)
        } else {
            leanest(terms, fields, finalists, keeps)
        };
        if let Some(at) = pick {
            return (at, Advice::Timelier);
        }
    }
    let cheaper = challengers.filter(|at| {
        let it = &finalists[*at];
        let saves = it.over_default.is_some_and(|it| it.0 < 1.0 - terms.margin);
        kept(at) && saves && it.decision == Decision::Better && !it.is_unstable()
    });
    let cheaper: Vec<usize> = cheaper.collect();
    match leanest(terms, fields, finalists, cheaper) {
        Some(at) if default_keeps => (at, Advice::Cheaper),
        _ => (0, Advice::Keep),
    }
}

/// Of several finalists those that are not costlier beyond doubt than the cheapest, by more than
/// the margin, and of these the one with the fewest threads, the fewest settings and the least
/// memory: early on the plateau.
fn leanest(
    terms: &SearchTerms,
    fields: &[Field],
    finalists: &[Finalist],
    of: Vec<usize>,
) -> Option<usize> {
    let rows = &at_rate(terms, fields).0;
    let cost = |at: &usize| median(&costs(&rows[*at]).into_iter().flatten().collect::<Vec<_>>());
    let cost = |at: &usize| cost(at).unwrap_or(f64::MAX);
    let least = of.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let is_alike = |at: &usize| {
        let pairs = costs(&rows[*at]).into_iter().zip(costs(&rows[least]));
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|(a, b)| Some((a?, b?))).collect();
        let range = compare(&pairs).and_then(|it| it.interval);
        range.is_none_or(|range| range.low <= 1.0 + terms.margin)
    };
    let alike = of.into_iter().filter(is_alike);
    let size = |at: &usize| {
        let it = &finalists[*at];
        let settings = it.candidate.settings.len() as f64;
        [it.threads.unwrap_or(f64::MAX), settings, it.memory_kb.unwrap_or(f64::MAX)]
    };
    alike.min_by(|a, b| {
        let pairs = size(a).into_iter().zip(size(b));
        pairs.fold(Ordering::Equal, |order, (a, b)| order.then(a.total_cmp(&b)))
    })
}

fn sentence(terms: &SearchTerms, verdict: Advice, chosen: &Finalist, default: &Finalist) -> String {
    let name = &chosen.candidate;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let (mine, theirs) = (percent(chosen.share(1.0)), percent(default.share(1.0)));
    let wanted = percent(terms.objective);
    let keeps = chosen.share(1.0) >= terms.objective;
    let carries = chosen.rate.map(|rate| {
        format!("{name}: it carries {rate:.0} requests a second within the objective ({wanted})")
    });
    match verdict {
        Advice::Keep if keeps && let Some(carries) = carries => {
            format!("Keep {carries}, and nothing tried carries more beyond doubt.")
        }
        Advice::Keep if keeps => format!(
            "Keep {name}: it answers {mine} within the objective ({wanted}), and nothing tried \
             costs less beyond doubt."
        ),
        Advice::Keep => format!(
            "No server keeps the objective: {name} answers {mine} of the requests in time, not \
             {wanted}, and nothing tried answers more beyond doubt."
        ),
        Advice::Timelier if keeps => {
            let most = terms.loads.iter().copied().fold(1.0, f64::max);
            let (high, low) = (percent(chosen.share(most)), percent(default.share(most)));
            let more =
                if theirs == mine { format!(" at {most} of the load") } else { String::new() };
            let (mine, theirs) = if theirs == mine { (high, low) } else { (mine, theirs) };
            format!(
                "Use {name}: it answers {mine} within the objective{more}, {} {theirs}.",
                default.candidate
            )
        }
        Advice::Timelier => format!(
            "No server keeps the objective: {name} answers {mine} of the requests in time, {} \
             {theirs}, and {wanted} are wanted.",
            default.candidate
        ),
        Advice::Cheaper => {
            let (ratio, low, high) = chosen.over_default.unwrap_or((1.0, 1.0, 1.0));
            if let Some(carries) = carries {
                let more = |ratio: f64| 100.0 * (1.0 / ratio - 1.0);
                return format!(
                    "Use {carries}, {:.0} % more than {} [{:.0}, {:.0}].",
                    more(ratio),
                    default.candidate,
                    more(high),
                    more(low)
                );
            }
            let saved = |ratio: f64| 100.0 * (1.0 - ratio);
            format!(
                "Use {name}: {:.0} % less CPU per request than {} [{:.0}, {:.0}], and {mine} \
                 within the objective.",
                saved(ratio),
                default.candidate,
                saved(high),
                saved(low)
            )
        }
    }
}

#[cfg(test)]
mod tests;
