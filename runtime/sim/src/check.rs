//! Runs many seeds under one judge; a failure is shrunk before it is shown.
//!
//! Property tests call `check` with a function from seed to case: a script of clients and the
//! faults around them. A run violates a law, panics, or displeases the judge; each counts as a
//! failure. The shrinker then removes a client, an act, half of the lines sent, or one kind of
//! fault, keeps any smaller case that still fails, and starts over, up to a limit. Runs are
//! deterministic, so the seed in the message repeats the failure.

use core::borrow::Borrow;
use core::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::Service;

use crate::script::{Act, Client, Faults, Script};
use crate::transcript::Transcript;
use crate::world::run;

/// The number of smaller cases to try before the smallest found is shown.
const TRIES: u32 = 2_000;

/// All inputs of a run except the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The actions of the clients.
    pub script: Script,
    /// The faults of network and engine.
    pub faults: Faults,
    /// The seed of all random choices.
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { script, faults, seed } = self;
        write!(f, "{script:#?}\nrun with seed {seed} under\n")?;
        // The assets belong to the service and may be large.
        let faults = Faults { assets: Vec::new(), ..faults.clone() };
        write!(f, "{faults:#?}")
    }
}

/// The seeds of a property test: `count` from 0 on; 50 times as many with `ROUNDHOUSE_SOAK=1`; only
/// one if `ROUNDHOUSE_SEED` names it.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let one = std::env::var("ROUNDHOUSE_SEED").ok().and_then(|seed| seed.parse().ok());
    let soak = std::env::var("ROUNDHOUSE_SOAK").is_ok_and(|soak| soak == "1");
    match one {
        Some(seed) => seed..seed + 1,
        None => 0..if soak { count * 50 } else { count },
    }
}

/// For each of [`seeds`]`(count)`, runs the case from `case` on a state from `fresh`, and asks
/// `judge`. A violation of a law is a failure that needs no judge.
///
/// # Panics
/// At the first failure, with the smallest failing case found and the
/// command that replays the seed.
pub fn check<S, B>(
    service: &S,
    fresh: impl Fn() -> B,
    count: u64,
    case: impl Fn(u64) -> Case,
    judge: impl Fn(&Case, &Transcript) -> Result<(), String>,
) where
    S: Service,
    B: Borrow<S::State>,
{
    for seed in seeds(count) {
        if let Some((small, why)) = find(service, &fresh, case(seed), &judge) {
            panic!("{}", story(seed, &small, &why));
        }
    }
}

/// Runs one case; if it fails, returns the smallest failing case found, and the reason.
pub fn find<S, B>(
    service: &S,
    fresh: impl Fn() -> B,
    case: Case,
    judge: impl Fn(&Case, &Transcript) -> Result<(), String>,
) -> Option<(Case, String)>
where
    S: Service,
    B: Borrow<S::State>,
{
    let fails = |case: &Case| {
        let verdict = catch_unwind(AssertUnwindSafe(|| {
            let state = fresh();
            let heard = run(service, state.borrow(), &case.script, &case.faults, case.seed);
            heard.lawful().and_then(|()| judge(case, &heard))
        }));
        match verdict {
            Ok(verdict) => verdict.err(),
            Err(panic) => Some(format!("panicked: {}", panic_text(panic.as_ref()))),
        }
    };
    let why = fails(&case)?;
    Some(shrink(case, why, fails))
}

pub(crate) fn panic_text(panic: &(dyn core::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<String>() {
        return text.clone();
    }
    panic.downcast_ref::<&str>().map_or("without a word".into(), |text| text.to_string())
}

pub(crate) fn story(seed: u64, small: &impl fmt::Display, why: &str) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or("PACKAGE".into());
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("TEST");
    let mut story = String::new();
    let _ = writeln!(story, "seed {seed} fails: {why}");
    let _ = writeln!(story, "replay: ROUNDHOUSE_SEED={seed} cargo test -p {package} {test}");
    let _ = write!(story, "the smallest case found that fails:\n{small}");
    story
}

/// Removes unneeded parts, greedily, while the case still fails.
fn shrink(case: Case, why: String, fails: impl Fn(&Case) -> Option<String>) -> (Case, String) {
    let (mut small, mut why) = (case, why);
    let mut tries = 0;
    'again: loop {
        for smaller in smaller_cases(&small) {
            if tries == TRIES {
                return (small, why);
            }
            tries += 1;
            if let Some(reason) = fails(&smaller) {
                (small, why) = (smaller, reason);
                continue 'again;
            }
        }
        return (small, why);
    }
}

/// The cases with one part reduced, the most reduced first.
fn smaller_cases(case: &Case) -> Vec<Case> {
    let with_script = |clients| Case { script: Script { clients }, ..case.clone() };
    let clients = &case.script.clients;
    let mut smaller = Vec::new();
    for at in (0..clients.len()).filter(|_| clients.len() > 1) {
        let mut fewer = clients.clone();
        fewer.remove(at);
        smaller.push(with_script(fewer));
    }
    smaller.extend(calmer(&case.faults).into_iter().map(|faults| Case { faults, ..case.clone() }));
    for (at, client) in clients.iter().enumerate() {
        for less in smaller_clients(client) {
            let mut changed = clients.clone();
            changed[at] = less;
            smaller.push(with_script(changed));
        }
    }
    smaller
}

fn smaller_clients(client: &Client) -> Vec<Client> {
    let mut smaller = Vec::new();
    for at in 0..client.acts.len() {
        let mut less = client.clone();
        less.acts.remove(at);
        smaller.push(less);
        if let Act::Send(bytes) = &client.acts[at] {
            for shorter in shorter_sends(bytes) {
                let mut less = client.clone();
                less.acts[at] = Act::Send(shorter);
                smaller.push(less);
            }
        }
    }
    smaller
}

/// `bytes` without a run of lines: first half of them at a time, finally one at a time.
fn shorter_sends(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let mut shorter = Vec::new();
    let mut run = lines.len() / 2;
    while run > 0 {
        for start in (0..lines.len()).step_by(run) {
            let end = (start + run).min(lines.len());
            shorter.push([&lines[..start], &lines[end..]].concat().concat());
        }
        run /= 2;
    }
    if lines.len() == 1 && bytes.len() > 1 {
        shorter.push(bytes[..bytes.len() / 2].to_vec());
        shorter.push(bytes[bytes.len() / 2..].to_vec());
        shorter.push(bytes[..bytes.len() - 1].to_vec());
    }
    shorter
}

/// `faults` with one of them set to its calm value.
fn calmer(faults: &Faults) -> Vec<Faults> {
    let calm = Faults::calm();
    let settings: [fn(&mut Faults, &Faults); 16] = [
        |faults, calm| faults.segment = calm.segment,
        |faults, calm| faults.delay = calm.delay,
        |faults, calm| faults.receive = calm.receive,
        |faults, calm| faults.turn = calm.turn,
        |faults, calm| faults.window = calm.window,
        |faults, calm| faults.sip = calm.sip,
        |faults, calm| faults.later = calm.later,
        |faults, calm| faults.overloads = calm.overloads,
        |faults, calm| faults.short = calm.short,
        |faults, calm| faults.late_feeds = calm.late_feeds,
        |faults, calm| faults.spurious = calm.spurious,
        |faults, calm| faults.resets = calm.resets,
        |faults, calm| faults.hangups = calm.hangups,
        |faults, calm| faults.drain = calm.drain,
        |faults, calm| faults.workers = calm.workers,
        |faults, calm| faults.roam = calm.roam,
    ];
    let set = |setting: &fn(&mut Faults, &Faults)| {
        let mut calmer = faults.clone();
        setting(&mut calmer, &calm);
        calmer
    };
    settings.iter().map(set).filter(|calmer| calmer != faults).collect()
}

#[cfg(test)]
mod tests {
    use crate::laws::probe::{Probe, World};

    use super::*;

    #[test]
    fn a_failure_shrinks_to_the_line_that_matters() {
        let lines: String = (0..78).map(|at| format!("echo {at}\n")).collect();
        let clients = vec![Client::saying(b"job x\n"), Client::saying(lines.as_bytes())];
        let faults = Faults { resets: 0, hangups: 0, drain: None, ..Faults::wild(3) };
        let case = Case { script: Script { clients }, faults, seed: 3 };
        let judge = |_: &Case, heard: &Transcript| {
            let wrong = heard.clients.iter().any(|heard| heard.bytes.ends_with(b"= 77\nend 0\n"));
            if wrong { Err("a reply of 77 comes last".into()) } else { Ok(()) }
        };
        let (small, why) = find(&Probe::narrow(), World::default, case, judge).expect("it fails");
        assert_eq!(why, "a reply of 77 comes last");
        assert_eq!(small.script, Script::saying(b"echo 77\n"));
        assert_eq!(small.faults, Faults::calm());
    }
}
