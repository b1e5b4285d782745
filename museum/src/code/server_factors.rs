//! The portfolio's echo server with five switches ([`crate::artefact::echo`]): half of all
//! combinations run, chosen so that each switch is on in one half of them and off in the other. The
//! client verifies every byte, which the original's did not.

use super::{blocks, whole};
use crate::artefact::echo::Switches;
use crate::artefact::program::Subprocess;
use crate::contest::{Contest, NS, ns_each};
use crate::exhibit::Fault;
use crate::results::{Figures, Results, half};
use crate::scope::Scope;
use crate::stage::Stage;
use client::Crowd;
use meter::TreeCost;
use std::hint::black_box;
use wire::message::{Fields, PutField};

mod client;

const NONE_ON: u32 = 0;
const ALL_ON: u32 = 0b11111;

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    if race(stage, scope, results)? {
        buffers(stage, (blocks(scope)?, whole(scope, "times_streamed")?), results)?;
    }
    Ok(())
}

/// The arms: nothing optimised, everything, and the balanced half. A quick look has the two ends
/// and each switch by itself.
fn arms(is_quick: bool) -> Vec<u32> {
    let mut arms = vec![NONE_ON];
    match is_quick {
        true => arms.extend((0..5).map(|at| 1 << at).chain([ALL_ON])),
        false => arms.extend(half(5)),
    }
    arms
}

fn name(switches: u32) -> String {
    match switches {
        NONE_ON => "none".to_string(),
        ALL_ON => "all five".to_string(),
        _ => Switches(switches).to_string(),
    }
}

fn race(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<bool, Fault> {
    let (exe, is_quick) = (stage.settings().exe.clone(), stage.settings().quick);
    let window = scope.time("loaded")?;
    let (clients, packets) = (whole(scope, "crowd")? as u32, whole(scope, "packets")? as usize);
    let mut contest = Contest::new("five switches", blocks(scope)?);
    let all = arms(is_quick);
    for switches in all.iter().copied() {
        if stage.stopped() {
            return Ok(false);
        }
        let words = Switches(switches).to_string();
        let mut server = Subprocess::start(&exe, &["echo", &words], &[])?;
        let port = server.numbers("")?.first().copied().unwrap_or(0.0) as u16;
        let mut crowd = Crowd::connect(port, clients, packets)?;
        contest.trying(name(switches), move || {
            let gone = |why| Fault::Server(format!("it ended: {why}"));
            let before = TreeCost::read(server.pid()).map_err(gone)?;
            let found = crowd.load(window)?;
            let after = TreeCost::read(server.pid()).map_err(gone)?;
            let cpu = after.since(&before).cpu_ns as f64;
            let each = |sum: f64| sum / found.packets.max(1) as f64;
            let figures = [
                (NS, each(found.took.as_nanos() as f64)),
                ("cpu_ns", each(cpu)),
                ("batch", found.packets as f64 / found.receptions.max(1) as f64),
                ("p50_ns", found.p50),
                ("most_ns", found.most),
                ("busy", found.busy),
                ("packets", found.packets as f64),
                ("wrong", found.wrong as f64),
            ];
            Ok(figures.into_iter().map(|(name, it)| (name.to_string(), it)).collect::<Figures>())
        });
    }
    let balanced = half(5);
    let runs = all.iter().filter(|it| !is_quick && balanced.contains(it));
    results.set("runs", runs.map(|it| (name(*it), *it)).collect::<Vec<_>>());
    results.set("arms", all.iter().map(|it| name(*it)).collect::<Vec<_>>());
    stage.contest(contest, results)
}

/// The serialising message buffer: a packet streamed into 20,000 bytes field by field.
fn buffers(
    stage: &mut Stage<'_>,
    (blocks, times): (u32, u64),
    results: &mut Results,
) -> Result<bool, Fault> {
    let mut contest = Contest::new("a packet into a buffer", blocks);
    contest.arm("bytes copied", move || {
        let mut ring = crate::ring::Ring::new(20_000);
        ns_each(times, || {
            for at in 0..times {
                let mut packet = crate::artefact::echo::packet(at);
                ring.write(&packet);
                ring.read(&mut packet);
                black_box((&ring, packet));
            }
        })
    });
    for (name, kept) in [("streamed, new buffer", false), ("streamed, buffer kept", true)] {
        contest.arm(name, move || {
            let mut message = blank();
            ns_each(times, || {
                for at in 0..times {
                    if !kept {
                        message = blank();
                    }
                    message.clear();
                    message.put(8_u16).put(at);
                    let mut fields = Fields(black_box(&message));
                    black_box((fields.take::<u16>(), fields.take::<u64>()));
                }
            })
        });
    }
    stage.contest(contest, results)
}

/// A message buffer of the published size, from the heap.
#[inline(never)]
fn blank() -> Vec<u8> {
    vec![0; 20_000]
}
