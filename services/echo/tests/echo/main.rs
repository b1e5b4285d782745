//! The echo service under the nine laws. The network cuts, joins, delays and breaks connections;
//! each packet still comes back as it was sent, once and in order, after one login packet.

use ::echo::packet::{LOGIN, PACKET, packet};
use ::echo::{CloseReason, Echo, Options, Register};
use memory::Region;
use seam::{Buffers, Closed, Conn, Cx, Effects, Instant, Peer, SessionId, WorkerId};
use sim::{Act, Case, Client, End, Faults, Heard, Script, Transcript};
use stats::Rng;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A register in its own memory, in the form that the simulator borrows.
#[derive(Clone)]
struct Founded(Rc<Region<Register>>);

impl Borrow<Register> for Founded {
    fn borrow(&self) -> &Register {
        &self.0
    }
}

fn founded() -> Founded {
    let register = Region::<Register>::alone(&[]);
    Founded(Rc::new(register))
}

fn operated() -> Echo {
    Echo::new(Options { operated: true, ..Options::default() })
}

/// An echo whose output is full after a few packets.
fn narrow() -> Echo {
    let limits = seam::Limits { output_high: 25, output_low: 3, ..Options::default().limits };
    Echo::new(Options { limits, operated: false })
}

fn wire(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(packet).collect()
}

/// The expected output for `said` if the service closed: packets come back up to the first wrong
/// length.
fn owed(said: &[u8]) -> Vec<u8> {
    let mut owed = packet(LOGIN).to_vec();
    for found in said.chunks(PACKET) {
        if found.len() < PACKET || !found.starts_with(&[8, 0]) {
            break;
        }
        owed.extend_from_slice(found);
    }
    owed
}

/// Packets, sometimes with a wrong length or cut short.
fn said(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut said = wire((0..rng.below(most) as u64).map(|_| rng.roll()));
    if rng.once_in(4) && !said.is_empty() {
        let at = rng.below(said.len() / PACKET) * PACKET;
        let length: [u8; 2] = *rng.pick(&[[0, 0], [9, 0], [8, 1], [255, 255]]);
        said[at..at + 2].copy_from_slice(&length);
    }
    if rng.once_in(4) {
        said.truncate(rng.below(said.len() + 1));
    }
    said
}

fn case(seed: u64, faults: Faults) -> Case {
    let mut rng = Rng::new(seed);
    let clients = (0..1 + rng.below(5)).map(|_| {
        let said = said(&mut rng, 60);
        let (first, second) = said.split_at(rng.below(said.len() + 1));
        let pause = Act::Wait(Duration::from_micros(rng.below(700_000) as u64));
        let acts = vec![Act::Send(first.to_vec()), pause, Act::Send(second.to_vec())];
        Client { start: Duration::from_micros(rng.below(2_000) as u64), acts }
    });
    Case { script: Script { clients: clients.collect() }, faults, seed }
}

/// An intact connection gets everything, a broken one a prefix.
fn judge(case: &Case, transcript: &Transcript) -> Result<(), String> {
    for (at, (client, heard)) in case.script.clients.iter().zip(&transcript.clients).enumerate() {
        let (owed, Heard { bytes, end, closed }) = (owed(&client.said()), heard);
        let drained = case.faults.drain.is_some();
        let whole = (*end, *closed) == (End::Closed, Some(Closed::Service)) && !drained;
        let right = if whole { *bytes == owed } else { owed.starts_with(bytes) };
        if !right || *end == End::Open {
            return Err(format!("client {at}: expected {} bytes, heard {heard:?}", owed.len()));
        }
    }
    Ok(())
}

#[test]
fn every_packet_comes_back_once_and_in_order() {
    for echo in [Echo::default(), operated(), narrow()] {
        sim::check(&echo, founded, 150, |seed| case(seed, Faults::rough(seed)), judge);
        sim::check(&echo, founded, 150, |seed| case(seed, Faults::wild(seed)), judge);
    }
}

#[test]
fn any_split_gives_the_same_echo() {
    let whole = wire([0, 1, 0x1000, u64::MAX, LOGIN, 7]);
    let wrong = [&whole[..], b"\x09\0\0\0\0\0\0\0\0\0\0", &whole[..]].concat();
    for echo in [Echo::default(), operated(), narrow()] {
        for input in [&whole[..], &whole[..57], &wrong[..], b"", b"\x08", b"\x07"] {
            sim::chunking(&echo, founded, input, &Faults::calm(), 20, <[u8]>::to_vec);
        }
        sim::determinism(&echo, founded, 20, |seed| case(seed, Faults::wild(seed)));
    }
}

#[test]
fn why_a_connection_ended_is_counted() {
    let check = |said: &[u8], bad: u64, cut: u64| {
        let register = founded();
        let script = Script::saying(said);
        sim::run(&Echo::default(), register.borrow(), &script, &Faults::calm(), 1);
        let found =
            [CloseReason::BadLength, CloseReason::CutShort].map(|why| register.0.closed(why));
        assert_eq!(found, [bad, cut], "{said:?}");
    };
    let two = wire([1, 2]);
    check(&two, 0, 0);
    check(&two[..13], 0, 1);
    check(&[&two[..], b"\x08\x08"].concat(), 1, 0);
    check(b"\x0a\0\x08\0", 1, 0);
    check(b"\x08", 0, 1);
}

/// An idle session ends at its next pulse, and the session after it stays.
#[test]
fn the_first_session_goes_when_the_operator_wants_it() {
    let (register, echo) = (founded(), operated());
    let state: &Register = register.borrow();
    let (effects, worker) = (Effects::new(false, false), WorkerId::new(0, 1));
    let cx = |at: usize, now: u64| {
        let id = SessionId::new(0, at as u32, 1);
        Cx::new(Instant::from_ns(now), id, worker, state, &effects)
    };
    let mut buffers = Buffers::new(1);
    let open = |at| Conn::open(&echo, &cx(at, 0), Peer::Local, &mut buffers);
    let mut conns: Vec<Conn<_, _>> = [0, 1].map(open).into();
    assert_eq!(state.dismiss_first(), Some(SessionId::new(0, 0, 1)));
    let pulse = conns[0].wants().wake.expect("an operated session has a pulse");
    for (at, conn) in conns.iter_mut().enumerate() {
        conn.deadline(&echo, &cx(at, pulse.ns()));
        let sent = conn.out().waiting();
        conn.sent(&echo, &cx(at, pulse.ns()), sent);
    }
    assert!(conns[0].wants().close && !conns[1].wants().close);
    assert!(conns[1].wants().wake > Some(pulse), "it looks again later");
    assert_eq!(state.closed(CloseReason::Dismissed), 1);
    conns.remove(0).close(&echo, &cx(0, pulse.ns()));
    assert_eq!(state.dismiss_first(), Some(SessionId::new(0, 1, 1)));
    assert_eq!(state.dismiss_first(), None, "nobody is told twice");
}

/// The operator's action does not affect other sessions: with all network faults, the marked
/// session gets a prefix of its echo, and the others get everything.
#[test]
fn only_the_called_go() {
    let last: RefCell<Option<Founded>> = RefCell::new(None);
    let fresh = || {
        let register = founded();
        *last.borrow_mut() = Some(register.clone());
        register
    };
    sim::check(
        &operated(),
        fresh,
        50,
        |seed| case(seed, Faults::rough(seed)),
        |case, heard| {
            let register = last.borrow().clone().expect("a run has a register");
            if register.0.dismiss_first().is_some() {
                return Err("somebody still has a seat".to_owned());
            }
            judge(case, heard)
        },
    );
}
