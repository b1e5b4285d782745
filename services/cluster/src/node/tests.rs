//! Three nodes and a simulated store that loses requests and answers, carries requests out late and
//! twice, and delivers batches again; nodes die, stall, start again, and write snapshots. The
//! market remembers few requests here, so that stalled nodes hold orders for longer than that.
//!
//! The judge is a replica that applies the whole log once, in its order. Every node must end in the
//! same state, and the receipts of all clients must fit the executed orders (`ledger::prove`). Four
//! mutants break a node or the store on purpose, and the judge must object to each of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use ledger::prove;
use stats::Rng;
use wire::receipt::{Receipt, ReceiptEnd};

use super::*;
use crate::replica::HELD_MAX;

/// A separate fault, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Orders are acknowledged before the store has them.
    EarlyAck,
    AppliedTwice,
    /// The store overwrites the batch of another node.
    NoFence,
    /// A node does not say how long it held its orders.
    HeldForEver,
}

impl ClusterNode {
    pub(super) fn acknowledge_early(&mut self, orders: &[PlacedOrder], news: &mut Settlement) {
        if self.mutant == Some(Mutant::EarlyAck) {
            let (mut guess, first) = (self.replica.clone(), self.settled + 1);
            let bytes = batch::encode(self.id, first, orders);
            let applied = guess.apply(guess.batch + 1, &bytes).expect("the next batch");
            news.outcomes.extend((first..).zip(applied.outcomes));
            self.settled += orders.len() as u64;
        }
    }

    pub(super) fn apply_twice(&mut self, bytes: &[u8]) {
        if self.mutant == Some(Mutant::AppliedTwice) {
            let again = batch::decode(bytes).expect("a batch").orders;
            let again: Vec<_> =
                again.iter().map(|order| PlacedOrder { request: 0, ..*order }).collect();
            let number = self.replica.batch;
            let ticket = self.replica.ticket(1) + 1;
            let bytes = batch::encode(1, ticket, &again);
            self.replica.apply(number + 1, &bytes).expect("the next batch");
            self.replica.batch = number;
        }
    }
}

#[derive(Default)]
struct Machines {
    batches: BTreeMap<u64, Vec<u8>>,
    /// All batches that ever were, for the judge.
    all: BTreeMap<u64, Vec<u8>>,
    head: u64,
    snaps: VecDeque<(u64, Vec<u8>)>,
    /// Requests that are under way although their senders have given up.
    late: Vec<(u64, Vec<u8>)>,
    is_fenced: bool,
}

impl Machines {
    fn append(&mut self, after: u64, batch: &[u8]) -> bool {
        let is_next = after == self.head || !self.is_fenced;
        if is_next {
            self.head = after + 1;
            self.batches.insert(after + 1, batch.to_vec());
            self.all.insert(after + 1, batch.to_vec());
        }
        is_next
    }

    fn after(&self, number: u64) -> Batches {
        let found = self.batches.range(number + 1..).take(3);
        found.map(|(number, batch)| (*number, batch.clone())).collect()
    }
}

struct Simulated<'a> {
    machines: &'a RefCell<Machines>,
    rng: &'a RefCell<Rng>,
    has_faults: bool,
}

impl Simulated<'_> {
    fn once_in(&self, n: usize) -> bool {
        self.has_faults && self.rng.borrow_mut().once_in(n)
    }

    /// A fault on the way, or a late request that arrives now.
    fn travel(&self) -> Result<(), StoreFault> {
        let mut machines = self.machines.borrow_mut();
        if !machines.late.is_empty() && (!self.has_faults || self.once_in(3)) {
            let index = self.rng.borrow_mut().below(machines.late.len());
            let (after, batch) = machines.late[index].clone();
            if self.once_in(2) {
                machines.late.swap_remove(index);
            }
            machines.append(after, &batch);
        }
        let fault = StoreFault::Silent { address: "simulated".into(), why: "silent".into() };
        if self.once_in(8) { Err(fault) } else { Ok(()) }
    }
}

impl BatchStore for Simulated<'_> {
    fn append(&mut self, after: u64, batch: &[u8]) -> Result<Appended, StoreFault> {
        if let Err(lost) = self.travel() {
            if self.once_in(2) {
                self.machines.borrow_mut().late.push((after, batch.to_vec()));
            }
            return Err(lost);
        }
        let is_done = self.machines.borrow_mut().append(after, batch);
        self.travel()?;
        let machines = self.machines.borrow();
        Ok(if is_done { Appended::Done } else { Appended::Behind(machines.after(after)) })
    }

    fn read(&mut self, after: u64) -> Result<(u64, Batches), StoreFault> {
        self.travel()?;
        let machines = self.machines.borrow();
        let from = if self.once_in(3) { after.saturating_sub(2) } else { after };
        Ok((machines.head, machines.after(from)))
    }

    fn snapshot(&mut self, newest: bool) -> Result<Option<(u64, Vec<u8>)>, StoreFault> {
        self.travel()?;
        let snaps = &self.machines.borrow().snaps;
        Ok(if newest { snaps.front() } else { snaps.back() }.cloned())
    }

    fn save(&mut self, number: u64, snapshot: &[u8]) -> Result<(), StoreFault> {
        self.travel()?;
        let mut machines = self.machines.borrow_mut();
        if machines.snaps.front().is_none_or(|(newest, _)| *newest < number) {
            machines.snaps.push_front((number, snapshot.to_vec()));
            machines.snaps.truncate(2);
            let oldest = machines.snaps[machines.snaps.len() - 1].0;
            machines.batches.retain(|number, _| *number > oldest);
        }
        Ok(())
    }

    fn beat(&mut self, _: u64, words: &str) -> Result<Vec<String>, StoreFault> {
        Ok(vec![words.to_owned()])
    }

    fn members(&mut self) -> Vec<(String, crate::MemberState)> {
        Vec::new()
    }

    fn watch(&mut self, _: &AtomicBool, _: &dyn Fn()) {}
}

/// A node, the orders that wait for it with their places in the receipts, unless their clients went
/// to another node, and its next ticket.
struct Place {
    node: ClusterNode,
    /// It does nothing before then.
    stalled: u64,
    waiting: VecDeque<(u64, Option<usize>)>,
    orders: VecDeque<PlacedOrder>,
    next: u64,
}

struct World {
    machines: RefCell<Machines>,
    rng: Rc<RefCell<Rng>>,
    places: Vec<Place>,
    receipts: Vec<Receipt>,
    /// The numbered orders that were decided when each was sent first.
    asked: Vec<u64>,
    judge: Replica,
    now: u64,
    mutant: Option<Mutant>,
    ids: u64,
}

const SHARES: u64 = 40;

fn lefts() -> BTreeMap<u32, u64> {
    (1..=3).map(|stock| (stock, SHARES)).collect()
}

impl World {
    fn new(seed: u64, mutant: Option<Mutant>) -> World {
        let is_fenced = mutant != Some(Mutant::NoFence);
        let machines = RefCell::new(Machines { is_fenced, ..Machines::default() });
        let rng = Rc::new(RefCell::new(Rng::new(seed)));
        let (places, receipts, asked) = (Vec::new(), Vec::new(), Vec::new());
        let (judge, now, ids) = (Replica::new(lefts()), 0, 100);
        let mut world = World { machines, rng, places, receipts, asked, judge, now, mutant, ids };
        (0..3).for_each(|_| {
            let place = world.started();
            world.places.push(place);
        });
        world
    }

    fn store(&self, has_faults: bool) -> Simulated<'_> {
        Simulated { machines: &self.machines, rng: &self.rng, has_faults }
    }

    fn joined(&self, id: u64, settled: u64) -> (ClusterNode, Settlement) {
        for _ in 0..1000 {
            if let Ok((mut node, news)) =
                ClusterNode::join(&mut self.store(true), id, settled, &lefts())
            {
                node.mutant = self.mutant;
                return (node, news);
            }
        }
        panic!("a node cannot join");
    }

    fn started(&mut self) -> Place {
        self.ids += 1;
        let (node, _) = self.joined(self.ids, 0);
        let (waiting, orders) = (VecDeque::new(), VecDeque::new());
        Place { node, stalled: 0, waiting, orders, next: 1 }
    }

    /// The numbered orders that are decided in the log.
    fn decided(&mut self) -> u64 {
        for (number, batch) in self.machines.borrow().all.range(self.judge.batch + 1..) {
            // Without a fence the log contradicts itself; the verdict says so at the end.
            if self.judge.apply(*number, batch).is_err() {
                break;
            }
        }
        self.judge.decided
    }

    /// Gives an order, or one that is sent again, to a node. A client does not send an order again
    /// that the market may have forgotten.
    fn send(&mut self, at: usize, index: usize) {
        if self.decided() - self.asked[index] >= HELD_MAX {
            return;
        }
        let Receipt { stock, change, request, .. } = self.receipts[index];
        let place = &mut self.places[at];
        let since = match self.mutant {
            Some(Mutant::HeldForEver) => u64::MAX,
            _ => place.node.market().decided,
        };
        place.waiting.push_back((place.next, Some(index)));
        place.orders.push_back(PlacedOrder { request, stock, change, since });
        place.next += 1;
    }

    /// The clients of a node lose their patience and go to another one.
    fn desert(&mut self, at: usize) {
        let waiting = self.places[at].waiting.iter_mut();
        let left: Vec<usize> = waiting.filter_map(|(_, index)| index.take()).collect();
        left.into_iter().for_each(|index| self.send((at + 1) % 3, index));
    }

    fn order(&mut self, at: usize) {
        let mut rng = self.rng.borrow_mut();
        let count = 1 + rng.below(9) as i32;
        let change = if rng.once_in(2) { count } else { -count };
        let (stock, request) = (1 + rng.below(3) as u32, self.receipts.len() as u64 + 1);
        drop(rng);
        let (called, returned) = (self.now, u64::MAX);
        let end = ReceiptEnd::Unknown;
        self.receipts.push(Receipt { called, returned, stock, change, request, end });
        let decided = self.decided();
        self.asked.push(decided);
        self.send(at, self.receipts.len() - 1);
    }

    fn turn(&mut self, at: usize, has_faults: bool) {
        let place = &mut self.places[at];
        let orders: Vec<PlacedOrder> = place.orders.iter().copied().collect();
        let mut news = Settlement::default();
        let mut store = Simulated { machines: &self.machines, rng: &self.rng, has_faults };
        match place.node.turn(&mut store, &orders, &mut news) {
            Ok(()) | Err(StoreFault::Silent { .. }) => self.settle(at, news),
            Err(fault) => panic!("{fault}"),
        }
    }

    fn settle(&mut self, at: usize, news: Settlement) {
        for (ticket, outcome) in news.outcomes {
            let (expected, index) = self.places[at].waiting.pop_front().expect("it waits");
            self.places[at].orders.pop_front();
            assert_eq!(ticket, expected, "outcomes come in the order of tickets");
            let Some(index) = index else { continue };
            let receipt = &mut self.receipts[index];
            match outcome {
                OrderOutcome::Placed(seq) => receipt.end = ReceiptEnd::Placed(seq),
                OrderOutcome::NotEnough => receipt.end = ReceiptEnd::Refused,
                OrderOutcome::Lost => {
                    self.send(at, index);
                    continue;
                }
                other => panic!("{other:?}"),
            }
            receipt.returned = self.now;
        }
    }

    /// A node dies; its clients go on at another one.
    fn kill(&mut self, at: usize) {
        let fresh = self.started();
        let dead = std::mem::replace(&mut self.places[at], fresh);
        let other = self.rng.borrow_mut().below(3);
        let left = dead.waiting.iter().filter_map(|(_, index)| *index);
        left.for_each(|index| self.send(other, index));
    }

    /// A committer dies; another one takes the same orders.
    fn replace(&mut self, at: usize) {
        let ClusterNode { id, settled, .. } = self.places[at].node;
        let (node, news) = self.joined(id, settled);
        self.places[at].node = node;
        self.settle(at, news);
    }

    fn run(mut self) -> Result<(), String> {
        for _ in 0..400 {
            self.now += 1;
            let at = self.rng.borrow_mut().below(3);
            let what = self.rng.borrow_mut().below(40);
            match what {
                0 => self.kill(at),
                1 => self.replace(at),
                2 => {
                    let market = self.places[at].node.market();
                    let _ = self.store(true).save(market.batch, &market.encode());
                }
                3 => self.places[at].stalled = self.now + 150,
                4 => self.desert(at),
                5..=20 => self.order(at),
                _ if self.places[at].stalled > self.now => {}
                _ => self.turn(at, true),
            }
        }
        for _ in 0..100 {
            (0..3).for_each(|at| self.turn(at, false));
        }
        if self.places.iter().any(|place| !place.waiting.is_empty()) {
            return Err("orders wait for ever".into());
        }
        let (mut judge, mut records) = (Replica::new(lefts()), Vec::new());
        for (number, batch) in &self.machines.borrow().all {
            records.append(&mut judge.apply(*number, batch)?.records);
        }
        prove(self.receipts, Some((0, &records)))?;
        for Place { node, .. } in &self.places {
            if *node.market() != judge {
                return Err(format!("a node has {:?}, the log {:?}", node.market(), judge));
            }
        }
        Ok(())
    }
}

#[test]
fn no_acknowledged_order_is_missing_or_there_twice() {
    for seed in 0..2000 {
        World::new(seed, None).run().unwrap_or_else(|found| panic!("seed {seed}: {found}"));
    }
}

#[test]
fn faults_of_our_own_are_found() {
    use Mutant::{AppliedTwice, EarlyAck, HeldForEver, NoFence};
    // A stall that outlasts the market's memory is rarer than other faults.
    for (mutant, least) in [(EarlyAck, 25), (AppliedTwice, 25), (NoFence, 25), (HeldForEver, 8)] {
        let found = (0..50).filter(|seed| {
            let run = move || World::new(*seed, Some(mutant)).run();
            std::panic::catch_unwind(run).map_or(true, |judged| judged.is_err())
        });
        let found = found.count();
        assert!(found > least, "{mutant:?}: {found} of 50");
    }
}
