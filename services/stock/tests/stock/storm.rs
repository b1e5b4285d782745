//! Many clients, several workers, and a faulty network: the seam's laws and the market's sums hold.

use crate::client::{SAMPLE, market_of};
use ::stock::{Lock, Market, Options, Stock, command};
use memory::Region;
use seam::WorkerId;
use sim::{Act, Case, Client, Faults, Script, Transcript};
use stats::Rng;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use wire::framing::{Decoder, Framing};

const LARGE: i64 = 1_000_000;

/// Clients with forty requests each, all of which succeed.
fn case(seed: u64, clients: usize, faults: Faults) -> Case {
    let mut rng = Rng::new(seed);
    let clients = (0..clients).map(|_| {
        let lines = (0..40).map(|_| match rng.below(7) {
            0 => "show\n".to_owned(),
            kind => {
                let side = if kind < 4 { "buy" } else { "sell" };
                format!("{side} {} {}\n", 1 + rng.below(5), 1 + rng.below(9))
            }
        });
        let said = lines.collect::<String>();
        let start = Duration::from_micros(rng.below(2000) as u64);
        Client { start, acts: vec![Act::Send(said.into_bytes())] }
    });
    Case { script: Script { clients: clients.collect() }, faults, seed }
}

fn book() -> String {
    (1..=5).map(|id| format!("{id} {LARGE} 100\n")).collect()
}

type Lefts = BTreeMap<u32, i64>;

fn at_first() -> Lefts {
    (1..=5).map(|id| (id, LARGE)).collect()
}

/// Executes one request of [`case`].
fn carry_out(line: &str, left: &mut Lefts) {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [side, id, count] = words[..] {
        let count: i64 = count.parse().expect("a number");
        let signed = if side == "buy" { -count } else { count };
        *left.get_mut(&id.parse().expect("an id")).expect("one of five") += signed;
    }
}

fn requests(client: &Client) -> Vec<String> {
    let said = String::from_utf8(client.said()).expect("ASCII");
    said.split_inclusive('\n').map(str::to_owned).collect()
}

fn left(market: &Market) -> Lefts {
    let mut lefts = Vec::new();
    market.copy_for_file(WorkerId::new(4000, 1), &mut lefts);
    let id = |row| market.entry(row).id;
    (0..).zip(lefts).map(|(row, left)| (id(row), left as i64)).collect()
}

/// The market of a run, kept for checking.
struct Handle(Rc<Region<Market>>);

impl Borrow<Market> for Handle {
    fn borrow(&self) -> &Market {
        (*self.0).borrow()
    }
}

fn check(
    lock: Lock,
    case: fn(u64) -> Case,
    judge: impl Fn(&Case, &Transcript, &Lefts) -> Result<(), String>,
) {
    let last = RefCell::new(None);
    let fresh = || {
        let market = Rc::new(market_of(&book()));
        *last.borrow_mut() = Some(Rc::clone(&market));
        Handle(market)
    };
    let stock = Stock::new(Options { lock, ..Options::default() });
    sim::check(&stock, fresh, 40, case, |case, received| {
        let market = last.borrow().clone().expect("a run has a market");
        judge(case, received, &left(&market))
    });
}

#[test]
fn what_is_left_is_what_was_ordered() {
    for lock in Lock::ALL {
        let five = |seed| case(seed, 5, Faults::rough(seed));
        check(lock, five, |case, _, left| {
            let mut owed = at_first();
            let clients = case.script.clients.iter();
            clients.flat_map(requests).for_each(|line| carry_out(&line, &mut owed));
            if owed == *left { Ok(()) } else { Err(format!("expected {owed:?}, found {left:?}")) }
        });
    }
}

/// A client that disconnects loses replies, never half an order: the executed orders are a prefix
/// of those sent, and they include every order that got a reply.
#[test]
fn a_broken_connection_leaves_whole_orders() {
    for lock in Lock::ALL {
        let one = |seed| case(seed, 1, Faults::wild(seed));
        check(lock, one, |case, received, left| {
            let requests = requests(&case.script.clients[0]);
            let answered = answered(&requests, &received.clients[0].bytes);
            let mut owed = at_first();
            for (number, line) in requests.iter().enumerate() {
                if number >= answered && owed == *left {
                    return Ok(());
                }
                carry_out(line, &mut owed);
            }
            let whole = owed == *left;
            if whole { Ok(()) } else { Err(format!("{answered} answered, found {left:?}")) }
        });
    }
}

/// An overloaded server answers every request, in order, and executes those that it does not
/// refuse.
#[test]
fn what_is_refused_is_not_carried_out() {
    let five = |seed| case(seed, 5, Faults { overloads: 40, ..Faults::rough(seed) });
    let refused = RefCell::new(0);
    check(Lock::default(), five, |case, received, left| {
        let mut owed = at_first();
        for (client, heard) in case.script.clients.iter().zip(&received.clients) {
            let (mut decoder, mut rest) = (Decoder::new(Framing::Line), &heard.bytes[..]);
            for line in requests(client) {
                let shape = command::shape(line.trim().as_bytes());
                let reply = decoder.next(rest, shape).ok_or(format!("no reply to {line}"))?;
                rest = &rest[reply.used..];
                match reply.text {
                    b"BUSY\n" => *refused.borrow_mut() += 1,
                    _ => carry_out(&line, &mut owed),
                }
            }
        }
        if owed == *left { Ok(()) } else { Err(format!("expected {owed:?}, found {left:?}")) }
    });
    assert!(refused.into_inner() > 100, "the fault does something");
}

/// How many of the requests have a whole reply in `bytes`.
fn answered(requests: &[String], bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new(Framing::Line);
    let mut rest = bytes;
    let whole = |line: &&String| match decoder.next(rest, command::shape(line.trim().as_bytes())) {
        Some(reply) => {
            rest = &rest[reply.used..];
            true
        }
        None => false,
    };
    requests.iter().take_while(whole).count()
}

#[test]
fn the_laws_of_chunking_and_determinism() {
    let script =
        b"show\nbuy 5 3\r\nsell 2 2\n\nbuy 1 8\nbuy 77 1\nshow 2\n\xff\nhelp\nshow\nexit\n";
    for lock in Lock::ALL {
        let stock = Stock::new(Options { lock, ..Options::default() });
        sim::chunking(&stock, || market_of(SAMPLE), script, &Faults::calm(), 20, <[u8]>::to_vec);
        let wild = |seed| case(seed, 5, Faults::wild(seed));
        sim::determinism(&stock, || market_of(&book()), 20, wild);
    }
}
