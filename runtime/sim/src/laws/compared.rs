//! The laws that show only when runs are compared.

use core::borrow::Borrow;
use core::time::Duration;

use seam::Service;

use crate::check::{Case, check};
use crate::script::{Act, Client, Faults, Script};
use crate::transcript::{End, Transcript};
use crate::world::run;

/// Inputs up to this many bytes are cut at every byte, longer ones at random bytes only.
const CUT_MAX: usize = 600;

/// Holds `service` to the law of chunking: a client that sends `input` hears the same under every
/// split of it, and under `count` seeds of rough weather. `plain` strips the parts that may differ
/// (times, say); pass `<[u8]>::to_vec` if none may.
///
/// The runs also check the order of output and the flush before closing.
///
/// # Panics
/// If two outputs differ, with the smallest failing case found.
pub fn chunking<S, B>(
    service: &S,
    fresh: impl Fn() -> B,
    input: &[u8],
    faults: &Faults,
    count: u64,
    plain: impl Fn(&[u8]) -> Vec<u8>,
) where
    S: Service,
    B: Borrow<S::State>,
{
    let state = fresh();
    let calm = run(service, state.borrow(), &Script::saying(input), faults, 0);
    let heard = plain(&calm.only().bytes);
    assert_eq!(calm.only().end, End::Closed, "the service does not close at the end of input");
    let same = |_: &Case, run: &Transcript| {
        let other = &run.clients[0];
        equal(&heard, &plain(&other.bytes)).map_err(|why| run.explain(why))?;
        if other.end == End::Closed { Ok(()) } else { Err("the connection stays open".into()) }
    };
    // Shrinking the input would change the expected output, so only faults may shrink.
    let guarded = |case: &Case, other: &Transcript| {
        if case.script.clients[0].said() == input { same(case, other) } else { Ok(()) }
    };
    if input.len() <= CUT_MAX {
        for at in 1..input.len() {
            let script = cut(input, at);
            let state = fresh();
            let other = run(service, state.borrow(), &script, faults, 0);
            let case = Case { script, faults: faults.clone(), seed: 0 };
            if let Err(why) = other.lawful().and_then(|()| same(&case, &other)) {
                panic!("cut after byte {at} of {}: {why}\n{case}", input.len());
            }
        }
    }
    let rough = |seed| Case {
        script: Script::saying(input),
        faults: Faults::rough(seed).with_assets(faults.assets.clone()),
        seed,
    };
    check(service, &fresh, count, rough, guarded);
}

/// One client that pauses after `at` bytes of `input`.
fn cut(input: &[u8], at: usize) -> Script {
    let acts = vec![
        Act::Send(input[..at].to_vec()),
        Act::Wait(Duration::from_millis(1)),
        Act::Send(input[at..].to_vec()),
    ];
    Script { clients: vec![Client { start: Duration::ZERO, acts }] }
}

/// Fails if two outputs differ, and reports where.
pub(crate) fn equal(expected: &[u8], found: &[u8]) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    let at = expected.iter().zip(found).take_while(|(left, right)| left == right).count();
    let piece = |bytes: &[u8]| {
        let end = bytes.len().min(at + 40);
        let dots = if end < bytes.len() { ".." } else { "" };
        format!("\"{}\"{dots}", bytes[at..end].escape_ascii())
    };
    Err(format!(
        "after {at} equal bytes expected {} and found {} ({} and {} bytes in all)",
        piece(expected),
        piece(found),
        expected.len(),
        found.len()
    ))
}

/// Holds `service` to the law of determinism: each of `count` cases, run twice, leaves the same
/// transcript.
///
/// # Panics
/// If two transcripts differ, with the smallest failing case found.
pub fn determinism<S, B>(service: &S, fresh: impl Fn() -> B, count: u64, case: impl Fn(u64) -> Case)
where
    S: Service,
    B: Borrow<S::State>,
{
    check(service, &fresh, count, case, |case, first| {
        let state = fresh();
        let second = run(service, state.borrow(), &case.script, &case.faults, case.seed);
        if *first == second {
            return Ok(());
        }
        let heard = first.clients.iter().zip(&second.clients);
        let how = heard.filter_map(|(one, two)| equal(&one.bytes, &two.bytes).err()).next();
        Err(format!("the same seed twice: {}", how.unwrap_or("only notes or times differ".into())))
    });
}
