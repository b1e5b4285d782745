//! Tests of a service in virtual time: the seam's laws under a network that a seed determines.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ::sim::{chunking, determinism};
use memory::Region;
use seam::{Service, Share};

pub use ::sim::laws;
pub use ::sim::{Act, Case, Client, End, Faults, Golden, Heard, Script, Transcript, run, seeds};

/// Clients of a run for the law of determinism, and the time between their starts.
const CLIENTS: u32 = 3;
const APART: Duration = Duration::from_millis(3);

/// Holds `service` to the nine laws of the seam ([`laws::Law`]), under `count` seeds each:
///
/// 1. it plays `script` as it is written, awaiting each reply, and compares the replies;
/// 2. it sends the same at once, cut after every byte and at random, to slow readers, with
///    spurious wake-ups: the replies stay the same;
/// 3. several clients say it at the same time on several workers, some of them reset, some are
///    closed as idle, and the server drains: the same seed gives the same bytes twice.
///
/// `script` has a line for each act: `> text` is sent with a newline, `< text` is expected; `>|`
/// and `<|` have no newline. `= wait 250ms` waits, `= end` ends the client's half, `= closed` says
/// that the server closes by itself. `\r`, `\n`, `\0` and `\xNN` mean the same as in Rust.
///
/// ```
/// use roundhouse::prelude::*;
///
/// let sum = lines(|line, reply| {
///     let numbers = str::from_utf8(line).unwrap_or("").split(' ');
///     reply.show(numbers.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>());
/// });
/// roundhouse::sim::check(&sum, "> 1 2 3\n< 6\n> 40 2\n< 42\n", 50);
/// ```
///
/// # Panics
/// At the first failure, with the smallest failing case found and a command that replays its seed:
/// `ROUNDHOUSE_SEED=17 cargo test NAME`.
pub fn check<S: Service>(service: &S, script: &str, count: u64) {
    let fresh = fresh::<S::State>;
    let golden = Golden::parse(script).unwrap_or_else(|bad| panic!("the script, {bad}"));
    check_twice(service, &golden);
    golden.play(service, fresh, &Faults::calm(), count);
    let input = golden.sent();
    chunking(service, fresh, &input, &Faults::calm(), count, <[u8]>::to_vec);
    let client = |at| Client { start: APART * at, ..Client::saying(&input) };
    let wild = |seed| Case {
        script: Script { clients: (0..CLIENTS).map(client).collect() },
        faults: Faults::wild(seed),
        seed,
    };
    determinism(service, fresh, count, wild);
}

/// Plays the script twice, each time with a fresh state, as two processes that share nothing else
/// would. If only the second time fails, the service keeps state somewhere else.
fn check_twice<S: Service>(service: &S, golden: &Golden) {
    let play = || {
        let play = AssertUnwindSafe(|| golden.play(service, fresh::<S::State>, &Faults::calm(), 0));
        catch_unwind(play)
    };
    match (play(), play()) {
        (Ok(()), Ok(())) => {}
        (Err(failure), _) => resume_unwind(failure),
        (Ok(()), Err(_)) => panic!(
            "expected the same replies to the same script with a fresh state, found others the \
             second time: the service keeps state in a `static` or in what its function has \
             captured; worker processes would each have one. Keep it in a state of `share!`"
        ),
    }
}

/// A state for one run.
fn fresh<T: Share>() -> Region<T> {
    Region::<T>::alone(b"")
}
