//! Applies seeded operations to pools and rings and compares with simple models.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;

use stats::Rng;

use crate::pool::{Backing, Fault, Guard, Handle, Order, Plan, Pool};
use crate::ring::Ring;

/// Runs `events` operations on each structure from `seed`.
///
/// # Panics
/// When a structure breaks one of its promises; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    let at = format!("pools::fuzz seed {seed}");
    pool(&mut rng, events, &at);
    rings(&mut rng, events, &at);
}

/// A random pool configuration.
fn drawn(rng: &mut Rng) -> Plan {
    let some = NonZeroU32::MIN.saturating_add(rng.below(5) as u32);
    Plan {
        capacity: 1 + rng.below(40) as u32,
        backing: *rng.pick(&[Backing::Array, Backing::List]),
        order: *rng.pick(&[Order::Lifo, Order::Fifo]),
        align: *rng.pick(&[1, 3, 64]),
        guard: *rng.pick(&[Guard::Off, Guard::Full, Guard::Sampled(some)]),
        quarantine: rng.below(10) as u32,
        on_fault: None,
    }
}

/// The order of reuse: the free slots in the order in which they were freed, then fresh ones, or
/// the other way round.
struct Slots {
    free: VecDeque<u32>,
    fresh: u32,
}

impl Slots {
    fn next(&mut self, plan: &Plan) -> Option<u32> {
        let is_left = self.fresh < plan.capacity;
        if self.free.is_empty() || (is_left && plan.order == Order::Fifo) {
            self.fresh += u32::from(is_left);
            return is_left.then(|| self.fresh - 1);
        }
        if plan.order == Order::Lifo { self.free.pop_back() } else { self.free.pop_front() }
    }
}

/// A pool holds what a map holds and, without guard, uses the slots that its order says; late
/// handles find nothing and give the reason.
fn pool(rng: &mut Rng, events: u32, at: &str) {
    let plan = drawn(rng);
    let mut pool = Pool::new(plan);
    let mut model: HashMap<Handle<u64>, u64> = HashMap::new();
    let mut late: Vec<Handle<u64>> = Vec::new();
    let mut slots = Slots { free: VecDeque::new(), fresh: 0 };
    for _ in 0..events {
        let some = model.keys().nth(rng.below(model.len().max(1))).copied();
        match (rng.below(8), some) {
            (0..=2, _) => {
                let (value, slot) = (rng.roll(), slots.next(&plan));
                match pool.put(value) {
                    Ok(handle) => {
                        let is_ordered = plan.guard != Guard::Off || slot == Some(handle.index());
                        assert!(is_ordered, "{at}: {handle:?} in place of {slot:?}: {plan:?}");
                        assert_eq!(model.insert(handle, value), None, "{at}: a handle twice");
                    }
                    Err(full) => {
                        assert_eq!(full.0, value, "{at}: another value back");
                        assert_eq!(model.len(), plan.capacity as usize, "{at}: {plan:?}");
                    }
                }
            }
            (3..=4, Some(handle)) => {
                let value = model.remove(&handle);
                if rng.below(2) == 0 {
                    assert_eq!(pool.take(handle).ok(), value, "{at}: {plan:?}");
                } else {
                    assert_eq!(pool.discard(handle), Ok(()), "{at}: {plan:?}");
                }
                slots.free.push_back(handle.index());
                late.push(handle);
            }
            (5, Some(handle)) => {
                let value = rng.roll();
                *pool.get_mut(handle).expect("it lives") = value;
                model.insert(handle, value);
            }
            (6, _) if !late.is_empty() => {
                let handle = *rng.pick(&late);
                assert_eq!(pool.get(handle), None, "{at}: a late handle finds something");
                let fault = pool.take(handle);
                let named = matches!(fault, Err(Fault::DoubleFree { .. } | Fault::Stale { .. }));
                assert!(named, "{at}: {fault:?}");
            }
            (7, _) => drop(pool.trim()),
            _ => {}
        }
        assert_eq!(pool.len(), model.len(), "{at}: {plan:?}");
    }
    for (handle, value) in &model {
        assert_eq!(pool.get(*handle), Some(value), "{at}: {plan:?}");
    }
    let mut known: Vec<_> = pool.handles().map(Handle::index).collect();
    known.dedup();
    assert_eq!(known.len(), model.len(), "{at}: two objects in one slot");
    pool.patrol();
    assert_eq!(pool.usage().retired, 0, "{at}: sound slots were given up");
}

/// Bytes written into a ring come out in order, however they are split.
fn rings(rng: &mut Rng, events: u32, at: &str) {
    let capacity = 1 << rng.below(7);
    let mut ring = Ring::new(capacity).expect("a power of two");
    let mut model = VecDeque::new();
    for _ in 0..events {
        let bytes: Vec<u8> = (0..rng.below(capacity + 3)).map(|_| rng.roll() as u8).collect();
        if rng.below(2) == 0 {
            let written = ring.write(&bytes);
            assert_eq!(written, bytes.len().min(capacity - model.len()), "{at}");
            model.extend(&bytes[..written]);
        } else {
            let wanted = bytes.len().min(model.len());
            let expected: Vec<u8> = model.drain(..wanted).collect();
            let mut own = bytes;
            assert_eq!(ring.read(&mut own), wanted, "{at}");
            assert_eq!(own[..wanted], expected, "{at}");
        }
        assert_eq!((ring.len(), ring.room()), (model.len(), capacity - model.len()), "{at}");
        assert_eq!(ring.readable().concat(), Vec::from(model.clone()), "{at}");
        let room: usize = ring.writable().iter().map(|part| part.len()).sum();
        assert_eq!(room, capacity - model.len(), "{at}");
        assert!(ring.commit(ring.room() + 1).is_err(), "{at}");
        assert!(ring.consume(model.len() + 1).is_err(), "{at}");
    }
}
