//! Tests the seam with the probe under all weathers.

use core::time::Duration;

use crate::laws::probe::{Menu, Probe, World, asset, expected, plain, requests};
use seam::{Closed, Limits};

use crate::check::{Case, find};
use crate::laws::equal;
use crate::rng::{Choices as _, Rng};
use crate::script::{Act, Client, Faults, Script};
use crate::transcript::{End, Heard, Transcript};

/// Makes runs from `seed` on until their requests reach `events`, and checks each against
/// all laws that one run can show.
///
/// # Panics
/// When a law is broken; the message carries the seed and the smallest case found.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let mut left = events;
    while left > 0 {
        let mut probe = if rng.chance(80) { Probe::narrow() } else { Probe::default() };
        probe.one_by_one = rng.coin();
        probe.tick = rng.coin().then(|| Duration::from_millis(1 + rng.below(1_000) as u64));
        probe.patience = rng.chance(20).then(|| Duration::from_micros(rng.below(5_000) as u64));
        if rng.chance(20) {
            probe.limits = Limits { sessions_max: 1 + rng.below(3), ..probe.limits };
        }
        let requests = 1 + rng.below(30) as u32;
        let case = random_case(rng.below(1 << 30) as u64, requests.min(left) as usize);
        left = left.saturating_sub(requests);
        if let Some((small, why)) = find(&probe, World::default, case, judge) {
            panic!("sim::fuzz seed {seed}: {why}\n{probe:?}\n{small}");
        }
    }
}

/// A case of a few clients, each with up to `count` requests, in wild weather.
pub(crate) fn random_case(seed: u64, count: usize) -> Case {
    let mut rng = Rng::new(seed);
    let lines_max = [2, 10, 40, 300][rng.below(4)];
    let menu = Menu { files: true, endings: rng.coin(), lines_max, ..Menu::default() };
    let client = |rng: &mut Rng| {
        let said = requests(rng.below(1 << 30) as u64, rng.size(count), menu);
        let at = rng.below(said.len() + 1);
        let mut acts = vec![Act::Send(said[..at].to_vec())];
        if rng.coin() {
            acts.push(Act::Wait(rng.span(Duration::from_millis(40))));
        }
        acts.push(Act::Send(said[at..].to_vec()));
        if rng.chance(10) {
            acts.push(Act::Reset);
        }
        Client { start: rng.span(Duration::from_millis(5)), acts }
    };
    let clients = (0..rng.size(5)).map(|_| client(&mut rng)).collect();
    let faults = Faults::wild(seed).with_assets(vec![asset()]);
    Case { script: Script { clients }, faults, seed }
}

/// Each client hears the bytes of the probe's model: all of them, or
/// those that arrived before its end.
pub(crate) fn judge(case: &Case, transcript: &Transcript) -> Result<(), String> {
    for (at, (client, heard)) in case.script.clients.iter().zip(&transcript.clients).enumerate() {
        judge_client(client, heard).map_err(|why| format!("client {at}: {why}"))?;
    }
    Ok(())
}

fn judge_client(client: &Client, heard: &Heard) -> Result<(), String> {
    let full = expected(&client.said());
    let mut found = plain(&heard.bytes);
    let news = |line: &[u8]| heard.bytes.split(|&byte| byte == b'\n').any(|found| found == line);
    let (late, drained) = (news(b"#late"), news(b"#drain"));
    if drained && found.ends_with(b"left\n") {
        // After a drain, a lingering session may leave before its client has sent everything.
        found.truncate(found.len() - 5);
    }
    match (heard.end, heard.closed) {
        (End::Refused, None) => equal(b"", &found),
        (End::Closed, Some(Closed::Service)) if !late && !drained => equal(&full, &found),
        (End::Closed, Some(Closed::Service | Closed::Idle | Closed::Forced)) | (End::Reset, _) => {
            equal(&full[..found.len().min(full.len())], &found)
        }
        (end, closed) => Err(format!("ended as {end:?}, {closed:?} after {} bytes", found.len())),
    }
}
