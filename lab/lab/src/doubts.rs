//! Reasons to distrust a result, printed next to it.
//!
//! A doubt is not an error: the number stays, with the reason to read it with care. If there is a
//! remedy, the doubt names it. The list is computed from the record alone, so a report that is
//! redrawn later has the same doubts.

use crate::record::Run;
use crate::trial::Trial;
use crate::verdict::{Metric, PointSummary, Summary};
use serde::{Deserialize, Serialize};
use stats::VALUES_MIN;
use stats::words::counted;

/// The weight of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The results are wrong or invalid.
    Grave,
    /// The run was disturbed.
    Warning,
    /// A limit of the set-up, true of every such run.
    Limit,
}

/// One reason for distrust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Its weight.
    pub weight: Weight,
    /// The observation, its consequence, and a remedy to try.
    pub text: String,
}

/// All doubts about a run, the gravest first.
pub fn doubts(run: &Run, summary: &Summary) -> Vec<Doubt> {
    let broken = summary.broken.iter().map(|text| (Weight::Grave, text.clone()));
    let limits = of_warming(run).into_iter().chain(of_the_setup(run));
    let warnings = of_this_run(run, summary).into_iter().map(|text| (Weight::Warning, text));
    let all = broken.chain(warnings).chain(limits.map(|text| (Weight::Limit, text)));
    all.map(|(weight, text)| Doubt { weight, text }).collect()
}

fn of_this_run(run: &Run, summary: &Summary) -> Vec<String> {
    let mut found = Vec::new();
    let plan = &run.manifest.plan;
    for point in &summary.points {
        let load = plan.points.iter().find(|it| it.name == point.point);
        // Only what the plan registers is claimed.
        let claimed = |metric| load.is_some_and(|load| plan.registers(load, metric));
        for floor in point.floors.iter().filter(|floor| claimed(floor.metric)) {
            let size = (floor.log.exp() - 1.0) * 100.0;
            let (at, name) = (&point.point, floor.metric.name());
            if floor.strayed && size >= 1.0 {
                found.push(format!(
                    "At {at} the baseline's twin differs from it in {name} beyond its interval, \
                     though both are the same program: differences below {size:.0} % mean \
                     nothing here. Try a quieter machine (`roundhouse doctor`) or a longer race \
                     (--budget)."
                ));
            } else if size > 10.0 && matches!(floor.metric, Metric::Throughput | Metric::Cpu) {
                found.push(format!(
                    "At {at} two identical arms may look {size:.0} % apart in {name} (the A/A \
                     floor): smaller differences cannot be seen. Try a longer race \
                     (--budget)."
                ));
            }
        }
        let has_speed = Metric::EVERY.iter().any(|it| claimed(*it) && it.needs_generator());
        found.extend(of_the_generator(point).into_iter().filter(|_| has_speed));
    }
    found.extend(of_polling(run));
    if summary.objected > 0 {
        found.push(
            "Other processes or the hypervisor took part of the machine's time. The servers of a \
             block suffer alike, so the ratios hold; their intervals are wider."
                .to_string(),
        );
    }
    // A server that died is named as a fault, with its last words.
    let is_unclean = |it: &&Trial| !it.exit_clean && it.exit.is_some() && it.death().is_none();
    let unclean = run.trials.iter().filter(is_unclean).count();
    if unclean > 0 {
        found.push(format!(
            "{} did not end cleanly within 5 s of TERM. Their standard error says why; `stop` in \
             the plan chooses another signal.",
            counted(unclean as u64, "server")
        ));
    }
    let arms = summary.points.iter().flat_map(|point| &point.arms);
    let blocks = arms.map(|arm| arm.trials).max().unwrap_or(0);
    if (blocks as usize) < VALUES_MIN {
        found.push(format!(
            "{blocks} of {} blocks were finished; below {VALUES_MIN} there is no 95 % interval. \
             Run the same command again to continue.",
            plan.blocks
        ));
    }
    found
}

/// The doubt that a server's threads wait by polling, which on one core takes the time of the
/// thread that they wait for. Such a server works between its windows, or keeps the core busy at a
/// small part of the baseline's rate.
fn of_polling(run: &Run) -> Option<String> {
    run.manifest.placement?;
    let plan = &run.manifest.plan;
    let middle = |arm: &str, value: &dyn Fn(&Trial) -> Option<f64>| {
        let mine = run.trials.iter().filter(|it| it.arm == arm);
        stats::median(&mine.filter_map(value).collect::<Vec<f64>>())
    };
    let used = |trial: &Trial| Some(trial.result()?.server.as_ref()?.cpu_ns as f64);
    // The time that a thread works, or waits for the core that others have.
    let busy = |trial: &Trial| {
        let load = trial.result()?;
        let delay_ns = load.server.as_ref()?.delay_ns_per_request.unwrap_or(0.0);
        Some((used(trial)? + delay_ns * load.requests as f64) / load.window_ns.max(1) as f64)
    };
    // Between the windows a server only answers the first load, whose length is known.
    let beside = |trial: &Trial| {
        let load = plan.points.iter().find(|it| it.name == trial.point)?;
        let (planned_ms, window_ms) = plan.spans(load);
        let warmup_ms = trial.seen.warmed_ms.unwrap_or(planned_ms);
        let windows_ms = (u64::from(plan.turns.windows) * window_ms) as f64;
        let life = trial.seen.cost.as_ref().filter(|life| life.source == "cgroup")?;
        let all = (life.user_ns + life.system_ns) as f64;
        Some(all / used(trial)? - 1.0 - warmup_ms as f64 / windows_ms)
    };
    let threads = |trial: &Trial| Some(trial.result()?.server.as_ref()?.threads? as f64);
    let cost = |arm: &str| middle(arm, &|trial| Metric::Cpu.in_trial(trial));
    let is_polling = |arm: &&str| {
        let is_dear =
            cost(arm).zip(cost(&plan.baseline)).is_some_and(|(one, base)| one > 5.0 * base);
        let is_full = middle(arm, &busy).is_some_and(|share| share > 0.9);
        let has_threads = middle(arm, &threads).is_some_and(|count| count > 1.0);
        let works_alone = plan.turns.windows > 2 && middle(arm, &beside).is_some_and(|it| it > 1.0);
        works_alone || (is_dear && is_full && has_threads)
    };
    let is_warm = |arm: &&str| warmed(run, arm).is_none();
    let mut names = plan.arms.iter().map(|arm| arm.name.as_str()).filter(is_warm);
    let first = names.find(is_polling)?;
    Some(format!(
        "`{first}` uses its core even where there is little to do, so its threads seem to wait by \
         polling. All servers share one core here, where polling takes the time of the thread that \
         has work: its figures hold for this core alone. Switch polling off (redis: --io-threads \
         1), or start both servers yourself and compare their addresses: then the race chooses no \
         cores."
    ))
}

/// How long an arm was warmed up (ms), if it took much longer than planned.
fn warmed(run: &Run, arm: &str) -> Option<f64> {
    let times = run.trials.iter().filter(|trial| trial.arm == arm);
    let times: Vec<f64> = times.filter_map(|trial| Some(trial.seen.warmed_ms? as f64)).collect();
    stats::median(&times).filter(|time| *time > 4.0 * run.manifest.plan.warmup_ms as f64)
}

/// The doubt that a server was not warm yet.
fn of_warming(run: &Run) -> Option<String> {
    let arms = run.manifest.plan.arms.iter();
    let mut slow = arms.filter_map(|arm| Some((&arm.name, warmed(run, &arm.name)?)));
    let (name, time_ms) = slow.next()?;
    Some(format!(
        "`{name}` grew cheaper for {:.1} s after each start, as a JIT does, and was warmed up for \
         that long. If yours compiles for longer, start both servers yourself, warm them up, and \
         compare their addresses.",
        time_ms / 1e3
    ))
}

/// The doubt that the generator, not the server, limited the speed.
fn of_the_generator(point: &PointSummary) -> Vec<String> {
    let limited = |late: bool| -> String {
        let arms = point.arms.iter().filter(|arm| arm.generator_limited() && !arm.twin);
        let names: Vec<&str> =
            arms.filter(|arm| arm.late == late).map(|arm| arm.arm.as_str()).collect();
        names.join(", ")
    };
    let at = &point.point;
    let (busy, late) = (limited(false), limited(true));
    let mut found = Vec::new();
    if !busy.is_empty() {
        found.push(format!(
            "At {at} the load generator was more than 80 % busy against {busy}: the speed seen is \
             the generator's, a lower bound of the server's. CPU per request is not affected. Try \
             fewer connections, or compare CPU."
        ));
    }
    if !late.is_empty() {
        found.push(format!(
            "At {at} the load generator reports that it, or the machine under it, was the limit \
             against {late}: speed and latency are its own. CPU per request is not affected. Try a \
             lower rate or fewer connections."
        ));
    }
    found
}

fn of_the_setup(run: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let plan = &run.manifest.plan;
    let machine = &run.manifest.host.machine;
    if plan.label == "smoke" {
        found.push(format!(
            "Smoke size: {} blocks of {} ms windows in one sitting. To claim a result, run 10 \
             blocks or more, twice, at different times.",
            plan.blocks, plan.window_ms
        ));
    }
    match run.manifest.placement {
        None => found.push(
            "Nothing was pinned: server and generator compete for the only core, so speeds are of \
             the pair, not of the server. Try a machine with two cores."
                .to_string(),
        ),
        Some(placement) if placement.siblings => found.push(
            "The two cores are threads of one physical core: server and generator slow each other. \
             Try two physical cores (`taskset`)."
                .to_string(),
        ),
        Some(_) => {}
    }
    found.push(format!(
        "One core for the server, one for the generator (of {}): this says nothing about scaling \
         over cores.",
        machine.cores
    ));
    found.push(
        "Loopback: no network card, no wire; the kernel's receive work runs on the sender's core."
            .to_string(),
    );
    if plan.points.iter().any(|point| !point.is_open()) {
        found.push(
            "Closed loop: clients wait for replies, so the times are service times and hide what \
             independent users would feel when the server stalls. An open load point (`rate`) \
             shows it."
                .to_string(),
        );
    }
    if run.manifest.host.virtual_machine {
        found.push(
            "A virtual machine: of the host's other guests only stolen time is visible, and two of \
             its processors may be threads of one core. Repeat the race at another time."
                .to_string(),
        );
    }
    found.push("One build of each program: code layout alone can move results by percents.".into());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{load, manifest, trial};
    use crate::verdict::analyse;

    fn texts(run: &Run) -> Vec<String> {
        let found = doubts(run, &analyse(run));
        found.into_iter().map(|doubt| format!("{:?}: {}", doubt.weight, doubt.text)).collect()
    }

    #[test]
    fn each_reason_is_named() {
        let mut manifest = manifest();
        manifest.plan.points.truncate(1);
        manifest.host.virtual_machine = true;
        let mut trials = Vec::new();
        for block in 0..6 {
            let mut base = trial("epoll", block, 100.0);
            load(&mut base).generator.as_mut().expect("the sample has one").busy = 0.95;
            base.objections.push("steal".to_string());
            base.exit_clean = false;
            trials.push(base);
            trials.push(trial("epoll (twin)", block, 120.0 + f64::from(block)));
        }
        let found = texts(&Run { manifest, trials, ..Run::default() }).join("\n");
        for want in [
            "Warning: At depth 1 the baseline's twin differs from it in requests/s",
            "below 22 % mean nothing",
            "Warning: At depth 1 the load generator was more than 80 % busy against epoll:",
            "took part of the machine's time",
            "6 servers did not end cleanly",
            "Limit: Smoke size: 6 blocks",
            "Nothing was pinned",
            "Loopback",
            "A virtual machine",
        ] {
            assert!(found.contains(want), "expected `{want}` in\n{found}");
        }
    }

    #[test]
    fn a_server_that_polls_is_named_with_a_remedy() {
        let mut manifest = manifest();
        manifest.plan.points.truncate(1);
        manifest.plan.turns.windows = 5;
        manifest.placement =
            Some(crate::machine::Placement { first: 0, second: 1, siblings: false });
        let polls = |arm: &str, share: f64, threads: u64, times: u64| {
            let all = |block| {
                let mut trial = trial(arm, block, 1e4);
                let load = load(&mut trial);
                load.window_ns = 1_000_000_000;
                let server = load.server.get_or_insert_default();
                (server.cpu_ns, server.threads) = ((share * 1e9) as u64, Some(threads));
                server.cpu_ns_per_request = Some((times * 10_000) as f64);
                trial.seen.cost = Some(crate::observations::TreeLife {
                    source: "cgroup".to_string(),
                    user_ns: (share * 1.3e9) as u64,
                    ..Default::default()
                });
                trial
            };
            (0..6).map(all).collect::<Vec<_>>()
        };
        let found = |uring: Vec<Trial>| {
            let trials = [polls("epoll", 0.5, 1, 1), uring].concat();
            let run = Run { manifest: manifest.clone(), trials, ..Run::default() };
            texts(&run).join("\n").contains("`uring` uses its core even where")
        };
        assert!(!found(polls("uring", 0.5, 4, 1)) && !found(polls("uring", 0.95, 4, 2)));
        assert!(!found(polls("uring", 0.95, 1, 40)), "slow alone is no polling");
        assert!(found(polls("uring", 0.95, 4, 40)));
        // On a busy machine it waits for the core.
        let mut waits = polls("uring", 0.2, 4, 40);
        for trial in &mut waits {
            let load = load(trial);
            let each = 0.8e9 / load.requests as f64;
            load.server.as_mut().expect("it has one").delay_ns_per_request = Some(each);
        }
        assert!(found(waits));
        let mut alone = polls("uring", 0.5, 1, 1);
        for trial in &mut alone {
            trial.seen.cost.as_mut().expect("it has one").user_ns = 2_000_000_000;
        }
        assert!(found(alone));
    }

    #[test]
    fn too_few_blocks_are_a_doubt_and_wrong_books_come_first() {
        let mut bad = trial("epoll", 0, 100.0);
        load(&mut bad).check.as_mut().expect("the sample has one").ok = false;
        let found = texts(&Run { manifest: manifest(), trials: vec![bad], ..Run::default() });
        assert!(found[0].starts_with("Grave: epoll, depth 1, block 1: the model check failed"));
        assert!(found.iter().any(|text| text.contains("1 of 6 blocks were finished")), "{found:?}");
    }
}
