//! Look-ups by id, the table of sessions against a slot map and a hash map; and rings of bytes.

use std::collections::HashMap;
use std::hint::black_box;

use memory::SharedTable;
use paired::{Rng, ns_each};
use seam::SessionId;
use slotmap::{DefaultKey, SlotMap};

/// Sessions that live.
pub const LIVE: usize = 10_000;
/// Look-ups in the prepared order, repeated in a cycle.
const ORDER: usize = 1 << 16;

/// The same sessions in each table, and a random order of look-ups for each.
pub struct Tables {
    shared: SharedTable<u64>,
    slots: SlotMap<DefaultKey, u64>,
    hash: HashMap<u64, u64>,
    ids: Vec<SessionId>,
    keys: Vec<DefaultKey>,
}

impl Default for Tables {
    fn default() -> Self {
        let shared = SharedTable::new(1, LIVE);
        let mut slots = SlotMap::new();
        let mut hash = HashMap::new();
        let mut all = Vec::new();
        for value in 0..LIVE as u64 {
            let id = shared.open(value).expect("there is room");
            hash.insert(id.bits(), value);
            all.push((id, slots.insert(value)));
        }
        let mut rng = Rng::new(1);
        let (ids, keys) = (0..ORDER).map(|_| all[rng.below(LIVE)]).unzip();
        Tables { shared, slots, hash, ids, keys }
    }
}

impl Tables {
    /// Look-ups in our table, where a reference is taken and dropped.
    #[must_use]
    pub fn shared(&self, operations: u64) -> f64 {
        look_up(&self.ids, operations, |id| self.shared.acquire(*id).map(|held| *held))
    }

    /// Look-ups in `slotmap`.
    #[must_use]
    pub fn slotmap(&self, operations: u64) -> f64 {
        look_up(&self.keys, operations, |key| self.slots.get(*key).copied())
    }

    /// Look-ups in the standard library's hash map.
    #[must_use]
    pub fn hash(&self, operations: u64) -> f64 {
        look_up(&self.ids, operations, |id| self.hash.get(&id.bits()).copied())
    }
}

fn look_up<K>(keys: &[K], operations: u64, find: impl Fn(&K) -> Option<u64>) -> f64 {
    ns_each(operations, || {
        let mut sum = 0_u64;
        for operation in 0..operations {
            sum += find(&keys[operation as usize % ORDER]).expect("it lives");
        }
        black_box(sum);
    })
}

/// Closes one of `ids` and opens another session.
fn churn<K>(mut ids: Vec<K>, operations: u64, mut replace: impl FnMut(&mut K, u64)) -> f64 {
    let mut rng = Rng::new(3);
    let order: Vec<usize> = (0..4096).map(|_| rng.below(LIVE)).collect();
    ns_each(operations, || {
        for operation in 0..operations {
            replace(&mut ids[order[operation as usize % 4096]], operation);
        }
    })
}

/// Opens a session and closes another, with `LIVE` of them, in our table.
#[must_use]
pub fn churn_shared(operations: u64) -> f64 {
    let table = SharedTable::new(1, LIVE);
    let ids = (0..LIVE as u64).map(|at| table.open(at).expect("room")).collect();
    churn(ids, operations, |id, value| {
        black_box(table.close(*id));
        *id = table.open(value).expect("room");
    })
}

/// [`churn_shared`] in `slab`.
#[must_use]
pub fn churn_slab(operations: u64) -> f64 {
    let mut table = slab::Slab::new();
    let ids = (0..LIVE as u64).map(|at| table.insert(at)).collect();
    churn(ids, operations, |id, value| {
        black_box(table.remove(*id));
        *id = table.insert(value);
    })
}

/// [`churn_shared`] in `slotmap`.
#[must_use]
pub fn churn_slotmap(operations: u64) -> f64 {
    let mut table: SlotMap<DefaultKey, u64> = SlotMap::new();
    let ids = (0..LIVE as u64).map(|at| table.insert(at)).collect();
    churn(ids, operations, |id, value| {
        black_box(table.remove(*id));
        *id = table.insert(value);
    })
}

/// Moves bytes in pieces of 512 into our ring and out of it again, on one thread.
#[must_use]
pub fn ring(operations: u64) -> f64 {
    let (mut producer, mut consumer) = pools::ring::spsc(1 << 16).expect("a power of two");
    let (bytes, mut back) = ([7; 512], [0; 512]);
    ns_each(operations, || {
        for _ in 0..operations {
            assert_eq!(producer.write(black_box(&bytes)), 512);
            assert_eq!(consumer.read(&mut back), 512);
            black_box(&back);
        }
    })
}

/// [`ring`] in `rtrb`.
#[must_use]
pub fn ring_rtrb(operations: u64) -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u8>::new(1 << 16);
    let (bytes, mut back) = ([7; 512], [0; 512]);
    ns_each(operations, || {
        for _ in 0..operations {
            producer.push_entire_slice(black_box(&bytes)).expect("there is room");
            consumer.pop_entire_slice(&mut back).expect("it is there");
            black_box(&back);
        }
    })
}
