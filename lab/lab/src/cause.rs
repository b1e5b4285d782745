//! Why one server takes more CPU time for a request than another, from what was counted.
//!
//! A cause is something that a server does more often for a request (system calls, context
//! switches, page faults, hand-overs between its threads, allocations, switches of stacks, misses
//! of the cache), times its price on this machine ([`Prices`]), or the time in its own code, or the
//! time that requests take less on connections that stay. Only what amounts to a tenth of the
//! difference or more is named; a rest without a cause is said to have none. A price is that of the
//! usual case, so a share is an estimate.

use crate::census::Census;
use crate::metric::Metric;
use crate::prices::Prices;
use crate::record::Run;
use crate::trial::Trial;
use crate::verdict::{RaceAnswer, Rank};
use serde::{Deserialize, Serialize};
use stats::median;
use stats::words::{percent, short, size};
use std::collections::BTreeSet;

/// A cause is named from this share of the difference on.
const SHARE_MIN: f64 = 0.1;
/// Connections are a cause from this share of a server's time on; two short runs differ by less.
const CONNECTIONS_MIN: f64 = 0.15;
/// Waits and memory are distinguished from this factor on.
const BESIDE: f64 = 2.0;
/// A rest of at least this share is said to have no cause.
const REST_MIN: f64 = 0.3;
/// User time is sampled; below this many nanoseconds of both servers (20 ticks) it tells nothing.
const SAMPLED_MIN_NS: u64 = 200_000_000;
/// The call by which threads wait for each other and wake each other.
const FUTEX: &str = "futex";
/// Calls that a ring executes for its owner, who does not make them.
const BY_RING: [&str; 10] = [
    "sendto", "sendmsg", "write", "writev", "recvfrom", "recvmsg", "read", "readv", "accept4",
    "close",
];

/// Why an arm takes more CPU time for a request than the cheapest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// Name of the load point.
    pub point: String,
    /// Name of the arm.
    pub arm: String,
    /// The cheapest arm, which it is compared with.
    pub than: String,
    /// CPU time for a request beyond that of the cheapest, nanoseconds.
    pub more_ns: f64,
    /// The causes that were found, the largest first.
    pub causes: Vec<Cause>,
    /// Differences next to CPU time: the wait for a core, the memory of an idle connection.
    #[serde(default)]
    pub beside: Vec<String>,
    /// All of it in a sentence.
    pub text: String,
}

/// One cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The thing that was counted: `connections`, `system calls`, `hand-overs`, `context switches`,
    /// `page faults`, `allocations`, `stack switches`, `cache misses` or `own code`.
    pub name: String,
    /// The finding in words.
    pub text: String,
    /// Its estimated time for a request, nanoseconds.
    pub ns: f64,
}

/// The counts of one arm for a request at one load point.
#[derive(Clone, Debug, Default)]
struct Counts<'a> {
    census: Option<&'a Census>,
    switches: Option<f64>,
    /// Time in its own code, nanoseconds.
    user_ns: Option<f64>,
    /// Time to open and end connections, nanoseconds; 0 where it cannot be told from noise.
    connections_ns: f64,
}

impl<'a> Counts<'a> {
    fn of(run: &'a Run, rank: &Rank, point: &str) -> Counts<'a> {
        let counted =
            |it: &&Census| it.arm == rank.arm && it.point == point && !it.calls.is_empty();
        let mine = |it: &&Trial| it.arm == rank.arm && it.point == point;
        let trials: Vec<&Trial> = run.trials.iter().filter(mine).collect();
        let switches: Vec<f64> =
            trials.iter().filter_map(|it| Metric::Switches.in_trial(it)).collect();
        let lives = trials.iter().filter_map(|it| it.seen.cost.as_ref());
        let lives = lives.filter(|life| life.doubts.is_empty());
        let (user, system) =
            lives.fold((0, 0), |sum, life| (sum.0 + life.user_ns, sum.1 + life.system_ns));
        let share = user as f64 / (user + system).max(1) as f64;
        let census = run.census.iter().find(counted);
        // Races of earlier versions compared with the race itself.
        let since_race = |it: &Census| it.steady_cpu_ns.map(|ns| rank.cpu_ns - ns);
        let connections_ns = census.and_then(|it| it.connections_ns.or_else(|| since_race(it)));
        let connections_ns = connections_ns.unwrap_or(0.0);
        let is_clear = connections_ns >= CONNECTIONS_MIN * rank.cpu_ns;
        Counts {
            census,
            connections_ns: if is_clear { connections_ns } else { 0.0 },
            switches: census.and_then(|it| it.switches_per_request).or_else(|| median(&switches)),
            user_ns: (user + system >= SAMPLED_MIN_NS).then_some(rank.cpu_ns * share),
        }
    }

    fn calls(&self, name: &str) -> f64 {
        let found = self.census.and_then(|it| it.calls.iter().find(|call| call.name == name));
        found.map_or(0.0, |call| call.per_request)
    }

    fn has_ring(&self) -> bool {
        self.calls("io_uring_enter") > 0.01
    }

    /// More time for opening and ending connections, a new worker for each among it.
    fn connections(&self, other: &Counts<'_>) -> Option<Cause> {
        let (mine, theirs) = (self.connections_ns, other.connections_ns);
        let than = match theirs > 0.0 {
            true => format!("not {}", time(theirs)),
            false => "the other next to nothing".to_string(),
        };
        let text = format!("{} per request to open and end its connections, {than}", time(mine));
        (mine > 0.0).then(|| Cause { name: "connections".to_string(), text, ns: mine - theirs })
    }

    /// More calls by which threads wake each other, and the switches between them; `None` if the
    /// calls are fewer than the switches, because a hand-over takes two.
    fn hand_overs(&self, other: &Counts<'_>, prices: &Prices) -> Option<Cause> {
        let (calls, before) = (self.calls(FUTEX), other.calls(FUTEX));
        let (switches, less) = (self.switches?, other.switches?);
        let more = (switches - less).max(0.0);
        let text = format!(
            "its threads wake each other by {} `futex` calls ({} each) and {} context switches ({} \
             each) per request, not {} and {}",
            short(calls),
            time(prices.call(FUTEX)),
            short(switches),
            time(prices.switch_ns),
            short(before),
            short(less)
        );
        let ns = (calls - before) * prices.call(FUTEX) + more * prices.switch_ns;
        let is_one = calls > before && calls - before >= more;
        is_one.then(|| Cause { name: "hand-overs".to_string(), text, ns })
    }

    /// More system calls than `other` makes, without those named `except`.
    fn system_calls(&self, other: &Counts<'_>, prices: &Prices, except: &str) -> Option<Cause> {
        let (mine, theirs) = (self.census?, other.census?);
        let ring = self.has_ring() || other.has_ring();
        let names: BTreeSet<&str> =
            mine.calls.iter().chain(&theirs.calls).map(|call| call.name.as_str()).collect();
        let counts = |name: &&str| *name != except && !(ring && BY_RING.contains(name));
        let names = names.into_iter().filter(counts);
        let mut rows: Vec<(&str, f64, f64)> = names
            .map(|name| {
                let more = self.calls(name) - other.calls(name);
                (name, more, more * prices.call(name))
            })
            .collect();
        rows.sort_by(|a, b| b.2.total_cmp(&a.2));
        let ns: f64 = rows.iter().map(|row| row.2).sum();
        let most = rows.first().map_or(0.0, |row| row.2);
        let named = rows.iter().take(3).filter(|row| row.2 > most / 5.0);
        let named: Vec<String> =
            named.map(|(name, more, _)| format!("{} `{name}` more", short(*more))).collect();
        let (all, before) = (mine.per_request()?, theirs.per_request()?);
        let text = format!(
            "{} {}system calls per request, not {} ({})",
            short(all - self.calls(except)),
            if except.is_empty() { "" } else { "other " },
            short(before - other.calls(except)),
            named.join(", ")
        );
        Some(Cause { name: "system calls".to_string(), text, ns })
    }

    /// More of what both servers' counts have, at one price each.
    fn counted(&self, other: &Counts<'_>, prices: &Prices, it: &Counted) -> Option<Cause> {
        let (mine, theirs) = (it.in_counts(self)?, it.in_counts(other)?);
        let Counted(name, _, price) = it;
        let text = format!("{} {name} per request, not {}", short(mine), short(theirs));
        let ns = (mine - theirs) * price(prices);
        Some(Cause { name: (*name).to_string(), text, ns })
    }

    /// The wait for a core, where it differs by as much as [`BESIDE`].
    fn delay(&self, other: &Counts<'_>) -> Option<String> {
        let (mine, theirs) =
            (self.census?.delay_ns_per_request?, other.census?.delay_ns_per_request?);
        let text = || {
            format!("its threads wait {} per request for a core, not {}", time(mine), time(theirs))
        };
        differs(mine, theirs, 1e3).then(text)
    }

    /// More time in its own code, without what of it has a price.
    fn own_code(&self, other: &Counts<'_>, prices: &Prices) -> Option<Cause> {
        let inner = |counts: &Counts<'_>| -> f64 {
            let both = INNER
                .iter()
                .filter(|it| it.in_counts(self).is_some() && it.in_counts(other).is_some());
            both.filter_map(|it| Some(it.in_counts(counts)? * it.2(prices))).sum()
        };
        let rest = |counts: &Counts<'_>| Some((counts.user_ns? - inner(counts)).max(0.0));
        let (mine, theirs) = (rest(self)?, rest(other)?);
        let text = format!("{} in its own code, not {}", time(mine), time(theirs));
        Some(Cause { name: "own code".to_string(), text, ns: mine - theirs })
    }
}

/// A thing that servers do more or less often for a request: its name, its count for a request,
/// `None` where nothing counts it, and the nanoseconds of one.
struct Counted(&'static str, fn(&Counts<'_>, &Census) -> Option<f64>, fn(&Prices) -> f64);

const SWITCHES: Counted = Counted("context switches", |it, _| it.switches, |it| it.switch_ns);
const FAULTS: Counted = Counted("page faults", |_, it| it.faults_per_request, |it| it.fault_ns);
/// Those that happen in a server's own code.
const INNER: &[Counted] = &[
    Counted("allocations", |_, it| it.allocations_per_request, |it| it.allocation_ns),
    Counted("stack switches", |_, it| it.stack_switches_per_request, |it| it.stack_switch_ns),
    Counted("cache misses", |_, it| it.cache_misses_per_request, |it| it.cache_miss_ns),
];

impl Counted {
    fn in_counts(&self, counts: &Counts<'_>) -> Option<f64> {
        self.1(counts, counts.census?)
    }
}

/// The reasons for all arms that are costlier beyond doubt than the cheapest of their load point.
/// An arm without counts has none.
pub fn reasons(run: &Run, answer: &RaceAnswer) -> Vec<Reason> {
    let Some(prices) = &run.prices else { return Vec::new() };
    let mut found = Vec::new();
    for cost in &answer.costs {
        let Some(cheapest) = cost.ranks.first() else { continue };
        let base = Counts::of(run, cheapest, &cost.point);
        for rank in cost.ranks.iter().filter(|rank| rank.costlier) {
            let counts = Counts::of(run, rank, &cost.point);
            if counts.census.is_some() && base.census.is_some() {
                let hand_overs = counts.hand_overs(&base, prices);
                let except = if hand_overs.is_some() { FUTEX } else { "" };
                let counted = |it: &Counted| counts.counted(&base, prices, it);
                let causes = [
                    counts.connections(&base),
                    counts.system_calls(&base, prices, except),
                    hand_overs.or_else(|| counted(&SWITCHES)),
                    counted(&FAULTS),
                    counts.own_code(&base, prices),
                ];
                let causes = causes.into_iter().chain(INNER.iter().map(counted)).flatten();
                let mut reason = reason(rank, cheapest, &cost.point, causes);
                let room = room(answer, &rank.arm, &cheapest.arm);
                let queues = counts.census.iter().flat_map(|it| it.queues.clone());
                reason.beside = counts.delay(&base).into_iter().chain(room).chain(queues).collect();
                if !reason.beside.is_empty() {
                    reason.text += &format!(" In addition, {}.", reason.beside.join("; "));
                }
                found.push(reason);
            }
        }
    }
    found
}

/// The memory of an idle connection, where it differs.
fn room(answer: &RaceAnswer, arm: &str, other: &str) -> Option<String> {
    let each = |name: &str| answer.rooms.iter().find(|room| room.arm == name)?.bytes_each;
    let (mine, theirs) = (each(arm)?, each(other)?);
    let text =
        || format!("an idle connection takes {}, not {}", size(mine / 1e3), size(theirs / 1e3));
    differs(mine, theirs, 1024.0).then(text)
}

/// Whether two sizes differ by a factor that matters, and by more than `least`.
fn differs(mine: f64, theirs: f64, least: f64) -> bool {
    let (low, high) = (mine.min(theirs), mine.max(theirs));
    high > BESIDE * low && high - low > least
}

/// The arms whose system calls are needed: at each load point the cheapest, and those that are
/// costlier beyond doubt.
pub fn questioned(answer: &RaceAnswer, point: &str) -> Vec<String> {
    let here = answer.costs.iter().filter(|cost| cost.point == point);
    let ranks = here.filter(|cost| cost.ranks.iter().any(|rank| rank.costlier)).flat_map(|cost| {
        cost.ranks.iter().enumerate().filter(|(at, rank)| *at == 0 || rank.costlier)
    });
    ranks.map(|(_, rank)| rank.arm.clone()).collect()
}

fn reason(rank: &Rank, cheapest: &Rank, point: &str, all: impl Iterator<Item = Cause>) -> Reason {
    let more_ns = rank.cpu_ns - cheapest.cpu_ns;
    let mut causes: Vec<Cause> = all.filter(|it| it.ns >= SHARE_MIN * more_ns).collect();
    causes.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    // Prices are those of the usual case: causes that cost more than the whole share it.
    let whole = more_ns.max(causes.iter().map(|it| it.ns).sum());
    let told = |it: &Cause| format!("{}: about {}", it.text, percent(it.ns / whole));
    let mut words: Vec<String> = causes.iter().map(told).collect();
    let rest = 1.0 - causes.iter().map(|it| it.ns).sum::<f64>() / more_ns;
    match causes.is_empty() {
        true => words.push("no cause was found".to_string()),
        false if rest >= REST_MIN => {
            words.push(format!("no cause was found for the other {}", percent(rest)));
        }
        false => {}
    }
    let than = &cheapest.arm;
    Reason {
        text: format!(
            "`{}` takes {} more than `{than}`: {}.",
            rank.arm,
            time(more_ns),
            words.join("; ")
        ),
        point: point.to_string(),
        arm: rank.arm.clone(),
        than: than.clone(),
        more_ns,
        causes,
        beside: Vec::new(),
    }
}

/// A time for a sentence: `2.1 µs`.
fn time(ns: f64) -> String {
    if ns.abs() < 1e3 { format!("{} ns", short(ns)) } else { format!("{} µs", short(ns / 1e3)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::Calls;
    use crate::verdict::CostAnswer;

    /// A race of `thread` with `epoll` at one point, in which `thread` makes these calls and
    /// switches, and takes this much for its connections.
    fn race(calls: &[(&str, f64)], switches: f64, connections_ns: f64) -> (Run, RaceAnswer) {
        let census = |arm: &str, calls: &[(&str, f64)], switches: f64, connections_ns: f64| {
            let row = |&(name, per_request): &(&str, f64)| Calls {
                name: name.to_string(),
                per_request,
                ..Calls::default()
            };
            Census {
                arm: arm.to_string(),
                calls: calls.iter().map(row).collect(),
                switches_per_request: Some(switches),
                steady_cpu_ns: Some(1e3),
                connections_ns: Some(connections_ns),
                ..Census::default()
            }
        };
        let least = [("recvfrom", 1.0), ("sendto", 1.0)];
        let all = [&least[..], calls].concat();
        let prices = Prices { entry_ns: 100.0, switch_ns: 2_000.0, ..Prices::default() };
        let run = Run {
            census: vec![
                census("epoll", &least, 0.1, 0.0),
                census("thread", &all, switches, connections_ns),
            ],
            prices: Some(prices),
            ..Run::default()
        };
        let rank = |arm: &str, cpu_ns, costlier| Rank {
            arm: arm.to_string(),
            cpu_ns,
            costlier,
            ..Rank::default()
        };
        let ranks = vec![rank("epoll", 8_000.0, false), rank("thread", 12_000.0, true)];
        let costs = vec![CostAnswer { ranks, ..CostAnswer::default() }];
        (run, RaceAnswer { costs, ..RaceAnswer::default() })
    }

    #[test]
    fn each_planted_cause_is_named() {
        let check = |calls: &[(&str, f64)], switches: f64, connections_ns: f64, want: &str| {
            let (run, answer) = race(calls, switches, connections_ns);
            let found = reasons(&run, &answer).remove(0).text;
            assert_eq!(found, format!("`thread` takes 4.00 µs more than `epoll`: {want}."));
        };
        check(&[], 0.1, 0.0, "no cause was found");
        check(
            &[("getpid", 30.0)],
            0.1,
            0.0,
            "32.0 system calls per request, not 2.00 (30.0 `getpid` more): about 75 %",
        );
        // Switches without calls for them: the threads wait for clients or for the core.
        let switches = "2.10 context switches per request, not 0.100: about 100 %";
        check(&[("futex", 0.2)], 2.1, 0.0, switches);
        check(
            &[("futex", 6.0), ("getpid", 10.0)],
            1.1,
            0.0,
            "its threads wake each other by 6.00 `futex` calls (100 ns each) and 1.10 context \
             switches (2.00 µs each) per request, not 0.000 and 0.100: about 65 %; 12.0 other \
             system calls per request, not 2.00 (10.0 `getpid` more): about 25 %",
        );
        check(
            &[],
            0.1,
            4_000.0,
            "4.00 µs per request to open and end its connections, the other next to nothing: about \
             100 %",
        );
        // Two short windows differ by less.
        check(&[], 0.1, 1_000.0, "no cause was found");
    }

    #[test]
    fn causes_within_the_code_are_named_and_queues_are_told() {
        let (mut run, answer) = race(&[], 0.1, 0.0);
        let prices = run.prices.as_mut().expect("there are prices");
        (prices.allocation_ns, prices.stack_switch_ns, prices.cache_miss_ns) = (20.0, 10.0, 80.0);
        let census = |at: usize, counts: [f64; 3], queues: &[&str], run: &mut Run| {
            let it = &mut run.census[at];
            it.allocations_per_request = Some(counts[0]);
            it.stack_switches_per_request = Some(counts[1]);
            it.cache_misses_per_request = Some(counts[2]);
            it.queues = queues.iter().map(|it| (*it).to_string()).collect();
        };
        census(0, [0.0, 0.0, 1.0], &[], &mut run);
        census(1, [100.0, 80.0, 11.0], &["queue step: at most 3 events"], &mut run);
        assert_eq!(
            reasons(&run, &answer).remove(0).text,
            "`thread` takes 4.00 µs more than `epoll`: 100 allocations per request, not 0.000: \
             about 50 %; 80.0 stack switches per request, not 0.000: about 20 %; 11.0 cache misses \
             per request, not 1.00: about 20 %. In addition, queue step: at most 3 events."
        );
        // Its own code is what is left of it.
        let user = |user_ns: f64| Counts { user_ns: Some(user_ns), ..Counts::default() };
        let prices = run.prices.clone().expect("there are prices");
        let (mut mine, mut theirs) = (user(5_000.0), user(1_000.0));
        (mine.census, theirs.census) = (Some(&run.census[1]), Some(&run.census[0]));
        let rest = mine.own_code(&theirs, &prices).expect("both are known");
        assert_eq!(rest.text, "1.32 µs in its own code, not 920 ns");
    }
}
