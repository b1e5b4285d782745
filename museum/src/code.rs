//! Measurements that no plan can express: loops in this process, programs as published.
//!
//! Each function is named by the plans that use it, and fills the results. The words, tables and
//! expectations stay in the exhibits' files.

mod false_sharing;
mod id_schemes;
pub mod locust;
mod ordered_index;
mod path_ladder;
mod pools;
mod remote_free;
mod server_factors;
pub mod source;
pub mod ticks;

use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use lab::machine::Placement;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Barrier;

type Run = fn(&mut Stage<'_>, &Scope, &mut Results) -> Result<(), Fault>;

const ALL: &[(&str, Run)] = &[
    ("pool-heap", pools::heap),
    ("pool-layout", pools::layout),
    ("false-sharing", false_sharing::run),
    ("remote-free", remote_free::run),
    ("path-ladder", path_ladder::run),
    ("server-buffers", server_factors::buffers),
    ("id-schemes", id_schemes::run),
    ("ordered-index", ordered_index::run),
    ("locust", locust::run),
    ("tune", tune),
    ("ticks", ticks::run),
];

/// Runs the code of that name.
///
/// # Errors
/// That of the code; or there is none.
pub fn run(
    name: &str,
    stage: &mut Stage<'_>,
    scope: &Scope,
    results: &mut Results,
) -> Result<(), Fault> {
    let found = ALL.iter().find(|it| it.0 == name);
    let (_, code) = found.ok_or_else(|| Fault::Text(format!("expected code, found `{name}`")))?;
    code(stage, scope, results)
}

/// The settings that the tuner chooses for requests that compute, unless it has no answer.
fn tune(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    if scope.number("search")? == 0.0 {
        return Ok(());
    }
    stage.begin("the search for settings (roundhouse tune cpu --quick)")?;
    let words = ["tune", "cpu", "--quick", "--out", "{dir}"];
    let limit = scope.time("search")? * 2;
    match stage.helper(&words, limit, "tuned.toml")? {
        Some(settings) => {
            stage.record(&serde_json::json!({"row": "tuned", "settings": settings}))?;
            results.set("tuned", settings);
        }
        None => stage.doubt("The tuner had no answer on this machine, so its server is left out."),
    }
    stage.step("the search");
    Ok(())
}

/// Pins this thread to one core; if that is refused, the thread is not pinned.
fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Runs `work` on `threads` threads at once, each with its number, and returns their results.
fn crowd<T: Send>(
    threads: usize,
    cores: Option<Placement>,
    work: impl Fn(usize, &Barrier) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                pin(cores.map(|it| if number == 0 { it.first } else { it.second }));
                work(number, barrier)
            })
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        all.into_iter().map(|it| it.join().unwrap_or_else(|_| unreachable!("no panic"))).collect()
    })
}

/// Nanoseconds on the wall for each of `times` turns, the mean of the threads.
fn paired(threads: usize, cores: Option<Placement>, times: u64, run: impl Fn(u64) + Sync) -> f64 {
    let costs = crowd(threads, cores, |_, barrier| {
        barrier.wait();
        let start = std::time::Instant::now();
        run(times);
        crate::contest::each(start.elapsed(), times)
    });
    costs.iter().sum::<f64>() / costs.len() as f64
}

fn list(scope: &Scope, name: &str) -> Result<Vec<usize>, Fault> {
    let items = crate::query::items(&scope.eval(name)?);
    Ok(items.iter().filter_map(crate::query::float).map(|it| it as usize).collect())
}

fn whole(scope: &Scope, name: &str) -> Result<u64, Fault> {
    Ok(scope.number(name)? as u64)
}

fn blocks(scope: &Scope) -> Result<u32, Fault> {
    Ok(scope.number("blocks")? as u32)
}
