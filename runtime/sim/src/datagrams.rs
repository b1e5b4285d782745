//! Services of datagrams in virtual time, over a network that loses, duplicates and reorders by a
//! seed.
//!
//! The surprising thing: reordering needs no rule of its own. Each datagram has a delay of its own,
//! so a later one overtakes an earlier one.

use core::borrow::Borrow;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::{Cx, Datagrams, Effects, Instant, Replies, SessionId, WorkerId};

use crate::check::{panic_text, seeds, story};
use crate::rng::{Choices as _, Rng};

/// The time between two datagrams of a client.
const APART: Duration = Duration::from_millis(1);
/// How long the server runs after the last datagram of a client.
const AFTER: Duration = Duration::from_secs(1);

/// The behaviour of the network and of the server's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramNet {
    /// The percentage of datagrams that are lost.
    pub loss: u8,
    /// The percentage that arrive twice.
    pub duplicates: u8,
    /// The longest time on the way, and the longest delay of a tick.
    pub delay: Duration,
    /// The number of workers; each client has one.
    pub workers: usize,
}

impl DatagramNet {
    /// Nothing is lost, and the order stays.
    pub const CALM: DatagramNet =
        DatagramNet { loss: 0, duplicates: 0, delay: Duration::ZERO, workers: 1 };

    /// The network of a seed; that of seed 0 is calm.
    pub fn of(seed: u64) -> DatagramNet {
        let mut rng = Rng::new(seed);
        match seed {
            0 => DatagramNet::CALM,
            _ => DatagramNet {
                loss: rng.below(40) as u8,
                duplicates: rng.below(40) as u8,
                delay: rng.span(20 * APART),
                workers: rng.size(3),
            },
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramRun {
    /// The datagrams that the service got: the number of the client, and the datagram.
    pub delivered: Vec<(usize, Vec<u8>)>,
    /// The datagrams that each client got, in the order of arrival.
    pub heard: Vec<Vec<Vec<u8>>>,
    /// Datagrams to addresses that no client has.
    pub strays: u64,
    /// The first breach of the contract of [`seam::Datagrams`].
    pub breach: Option<String>,
}

enum Event {
    /// At the server, from this client.
    Arrival(usize, Vec<u8>),
    /// At this client.
    Reply(usize, Vec<u8>),
    Tick,
}

struct World {
    net: DatagramNet,
    rng: Rng,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
}

impl World {
    fn plan(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Sends a datagram over the network.
    fn carry(&mut self, now: Instant, bytes: &[u8], event: impl Fn(Vec<u8>) -> Event) {
        if self.rng.chance(self.net.loss) {
            return;
        }
        let copies = 1 + usize::from(self.rng.chance(self.net.duplicates));
        for _ in 0..copies {
            let at = now + self.rng.span(self.net.delay);
            self.plan(at, event(bytes.to_vec()));
        }
    }
}

/// The address of a client.
fn address(client: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000 + client as u16))
}

/// Plays clients that send their datagrams a millisecond apart, whatever they hear; a pure function
/// of its arguments.
pub fn play_datagrams<D: Datagrams>(
    service: &D,
    state: &D::State,
    clients: &[Vec<Vec<u8>>],
    net: DatagramNet,
    seed: u64,
) -> DatagramRun {
    // The clock starts above zero: a service that mistakes a time for a length fails.
    let start = Instant::from_ns(1_000_000_000_000);
    let mut world = World { net, rng: Rng::new(seed), events: BTreeMap::new(), count: 0 };
    let mut run = DatagramRun { heard: vec![Vec::new(); clients.len()], ..DatagramRun::default() };
    world.plan(start, Event::Tick);
    for (client, datagrams) in clients.iter().enumerate() {
        for (at, bytes) in datagrams.iter().enumerate() {
            world.carry(start + APART * at as u32, bytes, |bytes| Event::Arrival(client, bytes));
        }
    }
    let longest = clients.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let end = start + APART * longest + AFTER;
    let (limits, effects) = (service.limits(), Effects::new(false, true));
    let mut replies = Replies::new(limits);
    while let Some(((now, _), event)) = world.events.pop_first() {
        if now > end || run.breach.is_some() {
            break;
        }
        let cx = |worker| Cx::new(now, SessionId::NONE, WorkerId::new(worker, 1), state, &effects);
        match event {
            Event::Reply(client, bytes) => run.heard[client].push(bytes),
            Event::Arrival(client, bytes) => {
                if bytes.len() <= limits.datagram_max {
                    let cx = cx(client % net.workers);
                    service.receive(&cx, address(client), &bytes, &mut replies);
                    run.delivered.push((client, bytes));
                }
            }
            Event::Tick => match service.tick(&cx(0), &mut replies) {
                Some(next) if next <= now => {
                    run.breach = Some("expected a tick that asks for a later moment".to_owned());
                }
                Some(next) => {
                    let late = world.rng.span(net.delay);
                    world.plan(next + late, Event::Tick);
                }
                None => {}
            },
        }
        if replies.take_dropped() > 0 {
            run.breach = Some(format!("expected replies within {limits:?}, found more"));
        }
        for train in replies.trains() {
            let client = (0..clients.len()).find(|client| address(*client) == train.to);
            for bytes in replies.datagrams(train) {
                match client {
                    Some(client) => world.carry(now, bytes, |bytes| Event::Reply(client, bytes)),
                    None => run.strays += 1,
                }
            }
        }
        replies.leave(replies.trains().len());
    }
    run
}

/// For each of [`seeds`]`(count)`, plays `clients` over the network of the seed, twice: the service
/// must keep its contract, the same seed must give the same datagrams, and `judge` must agree.
///
/// # Panics
/// At the first failure, with the network, and the command that replays the seed.
pub fn check_datagrams<D, B>(
    service: &D,
    fresh: impl Fn() -> B,
    clients: &[Vec<Vec<u8>>],
    count: u64,
    judge: impl Fn(&DatagramRun) -> Result<(), String>,
) where
    D: Datagrams,
    B: Borrow<D::State>,
{
    let fails = |net, seed| {
        let play = || play_datagrams(service, fresh().borrow(), clients, net, seed);
        let verdict = catch_unwind(AssertUnwindSafe(|| {
            let run = play();
            if let Some(breach) = &run.breach {
                return Err(breach.clone());
            }
            if play() != run {
                return Err("expected the same datagrams from the same seed".to_owned());
            }
            judge(&run)
        }));
        verdict.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic)))).err()
    };
    for seed in seeds(count) {
        let net = DatagramNet::of(seed);
        if let Some(why) = fails(net, seed) {
            panic!("{}", story(seed, &format!("{net:#?}"), &why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Echo;

    impl Datagrams for Echo {
        type State = ();

        fn receive(&self, _: &Cx<'_, ()>, from: SocketAddr, datagram: &[u8], out: &mut Replies) {
            out.send(from, datagram);
        }
    }

    fn clients() -> Vec<Vec<Vec<u8>>> {
        (0..3).map(|client| (0..20).map(|at| vec![b'a' + client, at]).collect()).collect()
    }

    #[test]
    fn networks_lose_duplicate_and_reorder() {
        let (mut lost, mut duplicated, mut reordered) = (false, false, false);
        for seed in 0..30 {
            let run = play_datagrams(&Echo, &(), &clients(), DatagramNet::of(seed), seed);
            for heard in &run.heard {
                let distinct: HashSet<_> = heard.iter().collect();
                lost |= distinct.len() < 20;
                duplicated |= distinct.len() < heard.len();
                reordered |= !heard.is_sorted();
            }
            assert!(seed > 0 || run.heard == clients(), "the first network is calm");
        }
        assert!(lost && duplicated && reordered);
    }

    #[test]
    fn a_claim_that_nothing_is_lost_is_refuted_with_its_seed() {
        let once = |run: &DatagramRun| match run.delivered.len() {
            60 => Ok(()),
            other => Err(format!("expected 60 datagrams, found {other}")),
        };
        let found = catch_unwind(|| check_datagrams(&Echo, || (), &clients(), 20, once));
        let story = panic_text(&*found.expect_err("a network that loses"));
        assert!(story.contains("replay: ROUNDHOUSE_SEED="), "{story}");
    }
}
