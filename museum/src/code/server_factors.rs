//! The portfolio's serialising message buffer: a packet streamed into 20,000 bytes field by field,
//! next to the same bytes copied. Its echo server is an arm of a race ([`crate::artefact::echo`]).

use super::{blocks, whole};
use crate::artefact::echo::packet;
use crate::contest::{Contest, ns_each};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::ring::Ring;
use crate::scope::Scope;
use crate::stage::Stage;
use std::hint::black_box;
use wire::message::{Fields, PutField};

pub fn buffers(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let times = whole(scope, "times_streamed")?;
    let mut contest = Contest::new("a packet into a buffer", blocks(scope)?);
    contest.arm("bytes copied", move || {
        let mut ring = Ring::new(20_000);
        ns_each(times, || {
            for at in 0..times {
                let mut packet = packet(at);
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
