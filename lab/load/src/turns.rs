//! Servers take turns under one generator: CPU time per request to a few percent.
//!
//! The throughput of separate runs on a small shared machine differs by tens of percent for the
//! same program. Here all servers are up, windows of some 40 ms alternate between them, and each
//! server's CPU time is read from `/proc` while it is drained and asleep, when the kernel's counter
//! is exact. A disturbance of the machine affects the windows of a round alike and is taken out;
//! one that hits a single window does not count, because the median of three windows or more is
//! taken. The order within each round is random. A server that fails leaves the rounds; the others
//! go on.
//!
//! Chance gives each process its memory layout. To support a claim, start fresh processes and treat
//! each start's log-ratio as one observation.

use crate::drive::{Driver, Settings};
use crate::parse::Usage;
use crate::report::{TURNS_SCHEMA, TurnReport, TurnsReport};
use crate::run::{self, Failure, Plan, Sums, now, phase};
use crate::stop::{Most, Stop};
use crate::watch::Watch;
use meter::{Cost, CounterSample};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// The time that a server gets to fall asleep after its last reply, so that its counter is exact.
const SETTLE: Duration = Duration::from_millis(1);

/// A server warms up as long as a part of its warm-up costs less CPU time per request than this
/// share of the part before it: a JIT compiles what runs. Parts double while they are too short.
pub const STILL_WARMING: f64 = 0.8;
/// No further part begins after this time. The laboratory allows for it.
const WARM_MAX: Duration = Duration::from_secs(3);
/// Fewer requests say nothing about their cost.
const REQUESTS_MIN: u64 = 20;
/// Fewer requests are not enough for a JIT to find what is worth its time.
const REQUESTS_JIT: u64 = 2000;

/// The fewest windows of which the median leaves out a disturbed one.
const WINDOWS_MIN: usize = 3;

/// Runs that take turns.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnsPlan {
    /// The runs: closed loops of one thread, each with the process tree that it watches. Their
    /// windows are those of this plan.
    pub runs: Vec<Plan>,
    /// Rounds: each has a window on every server.
    pub windows: u32,
    /// Length of one window.
    pub window: Duration,
    /// The seed of the order within rounds.
    pub seed: u64,
    /// The processor to run on, if any.
    pub cpu: Option<usize>,
}

/// One server with its connections and its sums.
struct Player<'a> {
    plan: &'a Plan,
    drive: Driver,
    watch: Watch,
    /// Of all windows.
    sums: Sums,
    /// How long it was loaded before its first window; the drains do not count.
    warmed: Duration,
    cost: Cost,
    /// CPU time by the control group; absent without one.
    group_ns: Option<u64>,
    /// CPU time per request in each window (ns), where it is known exactly.
    each_ns: Vec<Option<f64>>,
    before: Option<CounterSample>,
    started_unix_ms: u64,
}

/// Runs every window and audits all servers.
///
/// # Errors
/// See [`Failure`]: runs that cannot take turns, or a processor that does not exist. The failure of
/// one server is part of the report.
pub fn run(plan: &TurnsPlan) -> Result<TurnsReport, Failure> {
    plan.check()?;
    run::pin(plan.cpu)?;
    let mut players: Vec<Result<Player<'_>, Failure>> = plan.runs.iter().map(Player::new).collect();
    let mut order: Vec<usize> = (0..players.len()).collect();
    let mut random = Pcg64Mcg::seed_from_u64(plan.seed);
    for round in 0..=plan.windows {
        order.shuffle(&mut random);
        for &at in &order {
            let Ok(player) = &mut players[at] else { continue };
            let played = match round {
                0 => player.warm_up(),
                _ => player.window(plan.window),
            };
            if let Err(failure) = played {
                players[at] = Err(failure);
            }
        }
    }
    let windows = |player: &Result<Player<'_>, Failure>| {
        player.as_ref().map(|it| it.each_ns.clone()).unwrap_or_default()
    };
    let typical = typical(&players.iter().map(windows).collect::<Vec<_>>());
    let turn = |(player, ns): (Result<Player<'_>, Failure>, Option<f64>)| match player
        .and_then(|it| it.end(ns))
    {
        Ok(turn) => turn,
        Err(failure) => TurnReport { failure: Some(failure.to_string()), ..TurnReport::default() },
    };
    Ok(TurnsReport {
        schema: TURNS_SCHEMA.to_owned(),
        windows: plan.windows,
        window_ns: plan.window.as_nanos() as u64,
        turns: players.into_iter().zip(typical).map(turn).collect(),
    })
}

impl TurnsPlan {
    /// Two runs of one server are refused, because its books could not balance.
    fn check(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::Usage(Usage(text)));
        for (at, run) in self.runs.iter().enumerate() {
            if run.model.is_scheduled() || run.threads != 1 {
                return refuse(format!(
                    "{}: expected a closed loop of one thread, found another model; leave out \
                     --open, --sessions and -t",
                    run.target
                ));
            }
            if run.watch.is_none() {
                return refuse(format!("{}: expected --watch with the server's PID", run.target));
            }
            let place = (&run.target.unix, run.target.address);
            if self.runs[..at].iter().any(|it| (&it.target.unix, it.target.address) == place) {
                return refuse(format!(
                    "expected a server for each turn, found {} twice; start a twin",
                    run.target.address
                ));
            }
        }
        Ok(())
    }
}

impl<'a> Player<'a> {
    /// Probes the server; opens no other connection yet.
    fn new(plan: &'a Plan) -> Result<Self, Failure> {
        let settings: Settings = plan.settings;
        let watched = plan.watch.as_ref().ok_or_else(|| {
            Failure::Usage(Usage(format!("{}: expected --watch, found none", plan.target)))
        })?;
        let target = plan.target.clone().settled();
        let script = run::script(&target, &plan.workload, &settings)?;
        let drive = run::drive(&target, settings, plan.model.depth(), script)?;
        Ok(Self {
            plan,
            drive,
            watch: Watch::open(watched).map_err(Failure::Watch)?,
            sums: Sums::default(),
            warmed: Duration::ZERO,
            cost: Cost::default(),
            group_ns: watched.group.as_deref().and(Some(0)),
            each_ns: Vec::new(),
            before: None,
            started_unix_ms: 0,
        })
    }

    /// Loads the server for `span`, then waits for every reply and until the server sleeps.
    fn load(&mut self, span: Duration) -> Result<Duration, Failure> {
        let settings = self.drive.settings();
        let start = now();
        self.drive.part(false);
        phase(&mut self.drive, &Stop::at(start + span, Most::Any))?;
        // Where connections come and go anyway, closing idle ones lets the others be served.
        self.drive.part(settings.requests_per_connection.is_some());
        phase(&mut self.drive, &Stop::at(now() + settings.drain, Most::Drain))?;
        let elapsed = now().since(start);
        match self.drive.outstanding() {
            0 => {
                std::thread::sleep(SETTLE);
                Ok(elapsed)
            }
            outstanding => {
                Err(Failure::Undrained { target: self.plan.target.to_string(), outstanding })
            }
        }
    }

    fn warm_up(&mut self) -> Result<(), Failure> {
        let begin = now();
        let mut span = self.plan.warmup / 2;
        let mut last = self.warm_part(span)?.0;
        let wanted = self.plan.watch.as_ref().filter(|it| it.place.is_none() && compiles(it.pid));
        let wanted = wanted.map_or(0, |_| REQUESTS_JIT);
        loop {
            let (next, requests) = self.warm_part(span)?;
            let falls = last.zip(next).is_some_and(|(last, next)| next < last * STILL_WARMING);
            if !(falls || requests < wanted) || now().since(begin) > WARM_MAX {
                break;
            }
            last = next;
            if requests < REQUESTS_JIT {
                span *= 2;
            }
        }
        self.before = Some(self.watch.sample().map_err(Failure::Watch)?);
        self.started_unix_ms = run::unix_ms();
        Ok(())
    }

    /// Loads the server for `span`: CPU time per request (ns), where it is known exactly, and the
    /// number of requests.
    fn warm_part(&mut self, span: Duration) -> Result<(Option<f64>, u64), Failure> {
        let before = self.watch.sample().map_err(Failure::Watch)?;
        self.load(span)?;
        let after = self.watch.sample().map_err(Failure::Watch)?;
        let tally = self.drive.take_tally();
        let cost = after.tree.since(&before.tree);
        let is_known = !cost.is_coarse && tally.done >= REQUESTS_MIN;
        self.sums.warm.merge(&tally);
        self.warmed += span;
        Ok((is_known.then(|| cost.cpu_ns as f64 / tally.done as f64), tally.done))
    }

    fn window(&mut self, span: Duration) -> Result<(), Failure> {
        let before = self.watch.sample().map_err(Failure::Watch)?;
        let own_ns = sys::clock::thread_cpu_ns();
        let elapsed = self.load(span)?;
        self.sums.cpu_ns += sys::clock::thread_cpu_ns().saturating_sub(own_ns);
        let after = self.watch.sample().map_err(Failure::Watch)?;
        let groups = after.group_ns.zip(before.group_ns);
        let spent = groups.map(|(now, then)| now.saturating_sub(then));
        self.group_ns = self.group_ns.zip(spent).map(|(sum, spent)| sum + spent);
        let cost = after.tree.since(&before.tree);
        let tally = self.drive.take_tally();
        let exact = spent.or((!cost.is_coarse).then_some(cost.cpu_ns));
        self.each_ns.push(exact.filter(|_| tally.done > 0).map(|ns| ns as f64 / tally.done as f64));
        self.cost.add(cost);
        self.sums.window_ns += elapsed.as_nanos() as u64;
        self.sums.window.merge(&tally);
        Ok(())
    }

    /// Closes, audits and sums up.
    ///
    /// A control group has the exact CPU time. Without one the time of ended processes is known
    /// only in clock ticks of 10 ms, a quarter of a window. If there are any, one difference over
    /// all windows replaces their sum: between its windows a server sleeps.
    fn end(mut self, typical_ns: Option<f64>) -> Result<TurnReport, Failure> {
        let before = self.before.take().ok_or_else(|| {
            Failure::Usage(Usage("expected --windows of 1 or more, found 0".to_owned()))
        })?;
        let mut reading = self.watch.since(&before).map_err(Failure::Watch)?;
        if !(reading.cost.is_coarse || self.cost.is_coarse) {
            reading.cost = self.cost.clone();
        }
        reading.cost.is_partial |= self.cost.is_partial;
        if let Some(cpu_ns) = self.group_ns {
            reading.cost.cpu_ns = cpu_ns;
            reading.cost.doubts.clear();
        }
        reading.cost.doubts = alike_once(&reading.cost.doubts);
        self.drive.close();
        let Self { plan, drive, mut sums, warmed, started_unix_ms, .. } = self;
        sums.counts = drive.counts.clone();
        sums.delays = drive.counts.delays.clone();
        sums.busy = sums.cpu_ns as f64 / sums.window_ns.max(1) as f64;
        let (mut report, service) = sums.report(plan, drive.script(), &[], started_unix_ms);
        let mut server = reading.report(report.requests, &mut report.doubts);
        server.cpu_ns_per_request = typical_ns.or(server.cpu_ns_per_request);
        report.server = Some(server);
        let (p99_ns, warmed_ns) = (service.quantile(0.99), warmed.as_nanos() as u64);
        Ok(TurnReport { report: Some(Box::new(report)), p99_ns, warmed_ns, failure: None })
    }
}

/// Whether a process of the tree makes code as it runs: it has executable memory that is no file's
/// (proc_pid_maps(5)).
fn compiles(pid: u32) -> bool {
    let makes = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.lines().any(is_made_code)
    };
    meter::TreeCost::read(pid).is_ok_and(|tree| tree.pids().any(makes))
}

/// Whether a line of a process's mappings is executable memory of no file. Some runtimes have it in
/// a nameless file twice, writable and executable.
fn is_made_code(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_code = words.nth(1).is_some_and(|rights| rights.contains('x'));
    let path = words.nth(3).unwrap_or_default();
    is_code && (path.is_empty() || path.starts_with("/memfd:") || path.starts_with("[anon"))
}

/// The typical cost of each server from its windows, one in each round: a median polish (Tukey,
/// *Exploratory Data Analysis*, 1977). A disturbance of a whole round, such as a neighbour on the
/// core's other thread, is taken out of its windows; then the median leaves out a window that was
/// disturbed alone. `None` with fewer than three known windows.
fn typical(windows: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    let rounds = windows.iter().map(Vec::len).max().unwrap_or(0);
    let middle = |logs: Vec<f64>| stats::median(&logs);
    let log = |own: &[Option<f64>], round: usize| Some(own.get(round)?.as_ref()?.ln());
    let usual =
        |own: &Vec<Option<f64>>| middle((0..rounds).filter_map(|it| log(own, it)).collect());
    let usual: Vec<Option<f64>> = windows.iter().map(usual).collect();
    let shift = |round: usize| {
        let all = windows.iter().zip(&usual);
        middle(all.filter_map(|(own, usual)| Some(log(own, round)? - (*usual)?)).collect())
    };
    let shifts: Vec<f64> = (0..rounds).map(|it| shift(it).unwrap_or(0.0)).collect();
    let cost = |own: &Vec<Option<f64>>| {
        let known = (0..rounds).filter_map(|it| Some(log(own, it)? - shifts[it]));
        let known: Vec<f64> = known.collect();
        (known.len() >= WINDOWS_MIN).then(|| middle(known).map(f64::exp)).flatten()
    };
    windows.iter().map(cost).collect()
}

/// The doubts without repetitions: of those that differ only in numbers, the first with the count
/// of the others.
fn alike_once(doubts: &[String]) -> Vec<String> {
    let key = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let mut kept: Vec<(String, usize)> = Vec::new();
    for doubt in doubts {
        match kept.iter_mut().find(|(first, _)| key(first) == key(doubt)) {
            Some((_, more)) => *more += 1,
            None => kept.push((doubt.clone(), 0)),
        }
    }
    let words = |(first, more): (String, usize)| match more {
        0 => first,
        _ => format!("{first} ({more} more like this)"),
    };
    kept.into_iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_round_changes_no_cost() {
        let check = |windows: [&[f64]; 3], want: [Option<f64>; 3]| {
            let windows = windows.map(|own| own.iter().map(|ns| Some(*ns)).collect());
            let found = typical(&windows).into_iter().map(|ns| ns.map(|it| it.round()));
            assert_eq!(found.collect::<Vec<_>>(), want);
        };
        let costs = [Some(100.0), Some(105.0), Some(300.0)];
        check([&[100.0; 5], &[105.0; 5], &[300.0; 5]], costs);
        // A slower machine in most rounds, and in one of them only for one server.
        let [a, b, c] = [100.0, 105.0, 300.0].map(|ns| [ns, ns * 1.4, ns * 1.4, ns, ns]);
        check([&a, &b, &c], costs);
        check([&[100.0, 100.0, 140.0, 100.0, 100.0], &[105.0; 5], &[300.0; 5]], costs);
        check([&[100.0; 2], &[], &[300.0; 5]], [None, None, Some(300.0)]);
    }

    #[test]
    fn a_jit_is_known_by_its_code() {
        for (line, is_made) in [
            ("7f00-7f10 rwxp 00000000 00:00 0", true),
            ("7f00-7f10 r-xp 00000000 00:00 0 [anon:v8]", true),
            ("7f00-7f10 r-xs 00000000 00:01 9 /memfd:doublemapper (deleted)", true),
            ("7f00-7f10 r-xp 00001000 08:01 42 /usr/bin/nginx", false),
            ("7ffd-7ffe r-xp 00000000 00:00 0 [vdso]", false),
            ("7f00-7f10 rw-p 00000000 00:00 0", false),
        ] {
            assert_eq!(is_made_code(line), is_made, "{line}");
        }
    }

    #[test]
    fn doubts_that_differ_in_numbers_are_said_once() {
        let doubts = ["process 12 ended", "no clock", "process 7 ended", "process 900 ended"];
        let found = alike_once(&doubts.map(String::from));
        assert_eq!(found, ["process 12 ended (2 more like this)", "no clock"]);
        assert!(alike_once(&[]).is_empty());
    }
}
