//! Random changes to every index at once, in realistic orders of keys, compared
//! with the standard library's map.

use crate::arena::{Node, Refused};
use crate::by_id::{self, ById, Slot};
use crate::check::Shape;
use crate::level_order::LevelOrder;
use crate::search::{Bst, RedBlack, SearchTree};
use crate::tree::Tree;
use stats::Rng;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The maximum number of keys at once.
const CAPACITY: usize = 160;
/// Changes in a round; the next round starts empty, in another order.
const ROUND: u32 = 400;

/// Runs `events` changes from `seed`.
///
/// # Panics
/// When an index breaks an invariant or forgets a key; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let mut done = 0;
    while done < events {
        let round = ROUND.min(events - done);
        let order = ORDERS[rng.below(ORDERS.len())];
        let at = format!("index::fuzz seed {seed}, {order:?} from event {done}");
        search_tree::<RedBlack>(&mut rng.clone(), order, round, &at);
        search_tree::<Bst>(&mut rng.clone(), order, round, &at);
        level_order(&mut rng, round, &at);
        by_id(&mut rng, round, &at);
        done += round;
    }
}

/// The order in which keys come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Any key comes and goes at any time.
    Random,
    /// Each key is greater than all before; any key goes.
    Ascending,
    /// Each key is less than all before; any key goes.
    Descending,
    /// Each key is greater than all before, and the oldest goes: session numbers.
    Fifo,
}

const ORDERS: [Order; 4] = [Order::Random, Order::Ascending, Order::Descending, Order::Fifo];

struct Pair<T> {
    tree: T,
    nodes: Vec<Node<u32>>,
    model: BTreeMap<u32, u32>,
}

fn search_tree<T: SearchTree + Debug>(rng: &mut Rng, order: Order, events: u32, at: &str) {
    let nodes = vec![Node::default(); Node::<u32>::slots_for(CAPACITY)];
    let mut pair = Pair { tree: T::default(), nodes, model: BTreeMap::new() };
    for event in 0..events {
        // Insertions twice as often as removals, until the storage is full.
        let goes = pair.model.len() == CAPACITY || rng.below(3) == 0;
        if goes {
            pair.remove(going(rng, order, &pair.model), at);
        } else {
            pair.insert(coming(rng, order, event), rng.roll() as u32, at);
        }
        pair.check(rng, at);
    }
    while let Some(key) = pair.model.keys().next().copied() {
        pair.remove(if rng.below(2) == 0 { key } else { going(rng, order, &pair.model) }, at);
        pair.check(rng, at);
    }
}

fn coming(rng: &mut Rng, order: Order, event: u32) -> u32 {
    match order {
        Order::Random => rng.below(2 * CAPACITY) as u32,
        Order::Ascending | Order::Fifo => 2 * event,
        Order::Descending => u32::MAX - 2 * event,
    }
}

fn going(rng: &mut Rng, order: Order, model: &BTreeMap<u32, u32>) -> u32 {
    if order == Order::Fifo {
        return model.keys().next().copied().unwrap_or(0);
    }
    let near = rng.roll() as u32;
    let near = if order == Order::Random { near % (2 * CAPACITY as u32) } else { near };
    // Sometimes a key that is not in the tree.
    let there = rng.below(8) > 0;
    let next = model.range(near..).next().or(model.iter().next());
    next.filter(|_| there).map_or(near, |(key, _)| *key)
}

impl<T: SearchTree + Debug> Pair<T> {
    fn insert(&mut self, key: u32, value: u32, at: &str) {
        let inserted = self.tree.insert(&mut self.nodes, key, value);
        match self.model.get(&key) {
            Some(_) => {
                let node = self.tree.view(&self.nodes).find(key).expect("the model has the key");
                assert_eq!(inserted, Err(Refused::Duplicate { node }), "{at}: key {key}");
            }
            None => {
                let node = inserted.unwrap_or_else(|refused| panic!("{at}: key {key}: {refused}"));
                assert_eq!(self.nodes[node as usize].value(), value, "{at}: key {key}");
                self.model.insert(key, value);
            }
        }
    }

    fn remove(&mut self, key: u32, at: &str) {
        let removed = self.tree.remove(&mut self.nodes, key);
        assert_eq!(removed, self.model.remove(&key), "{at}: removal of key {key}");
    }

    fn check(&self, rng: &mut Rng, at: &str) {
        let shape = self.tree.check(&self.nodes);
        let Shape { len, .. } = shape.unwrap_or_else(|broken| panic!("{at}: {broken}"));
        assert_eq!(len as usize, self.model.len(), "{at}");
        let view = self.tree.view(&self.nodes);
        let near = rng.roll() as u32;
        for key in [near, near % (2 * CAPACITY as u32), u32::MAX - near % 1024] {
            assert_eq!(view.get(key), self.model.get(&key).copied(), "{at}: key {key}");
            let wanted = self.model.range(key..).map(|(key, value)| (*key, *value));
            assert!(view.range(key..).take(20).eq(wanted.take(20)), "{at}: from {key}");
        }
        if rng.below(16) == 0 {
            assert_eq!(view.pre_order().count(), self.model.len(), "{at}");
            assert!(view.iter().map(|(key, _)| key).eq(self.model.keys().copied()), "{at}");
        }
    }
}

/// The complete tree over an array, of which it is only the shape, compared with a list.
fn level_order(rng: &mut Rng, events: u32, at: &str) {
    let (mut tree, mut keys) = (LevelOrder::default(), [0; CAPACITY]);
    let mut model: Vec<u32> = Vec::new();
    for _ in 0..events {
        let pushed = tree.push(CAPACITY as u32);
        let wanted = (model.len() < CAPACITY).then_some(model.len() as u32);
        assert_eq!(pushed, wanted, "{at}");
        if let Some(node) = pushed {
            let key = rng.roll() as u32 % CAPACITY as u32;
            keys[node as usize] = key;
            model.push(key);
        }
        let wanted = rng.below(2 * CAPACITY) as u32;
        let found = model.iter().position(|key| *key == wanted).map(|node| node as u32);
        assert_eq!(tree.find(|node| keys[node as usize], &wanted), found, "{at}");
        assert!(tree.by_level().map(|node| keys[node as usize]).eq(model.iter().copied()), "{at}");
        // Many nodes are equal, and keep their order.
        let (mut order, mut sorted) = (vec![0; model.len()], Vec::from_iter(tree.by_level()));
        tree.sort_into(&mut order, |node| keys[node as usize] % 20);
        sorted.sort_by_key(|node| keys[*node as usize] % 20);
        assert_eq!(order, sorted, "{at}");
    }
}

/// The index by id has no removal, so a round fills it once.
fn by_id(rng: &mut Rng, events: u32, at: &str) {
    let rows = 1 + rng.below(CAPACITY);
    let (mut index, mut slots) =
        (ById::sized_for(rows), vec![Slot::default(); ById::slots_for(rows)]);
    let (mut model, room) = (BTreeMap::new(), slots.len() / 2);
    let spread = rng.roll() as u32 | 1;
    for event in 0..events {
        let id = (rng.below(2 * rows) as u32).wrapping_mul(spread);
        let expected = match (id, model.get(&id)) {
            (0, _) => Err(by_id::Refused::Zero),
            (_, Some(row)) => Err(by_id::Refused::Duplicate { row: *row }),
            _ if model.len() == room => Err(by_id::Refused::Full),
            _ => Ok(()),
        };
        assert_eq!(index.insert(&mut slots, id, event), expected, "{at}: id {id}");
        if expected.is_ok() {
            model.insert(id, event);
        }
        assert_eq!(index.find(&slots, id), model.get(&id).copied(), "{at}: id {id}");
    }
}
