//! Pools, rings and tables match plain models, under sequences that shrink to a small one.
#![cfg(not(loom))]

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;

use memory::ring::{Ring, spsc};
use memory::session::{Closing, Landing, Outbox, ShardTable};
use memory::{Backing, Fault, Full, Guard, Order, Plan, Pool};
use proptest::collection::vec;
use proptest::prelude::*;

fn backing() -> impl Strategy<Value = Backing> {
    prop_oneof![Just(Backing::Array), Just(Backing::List)]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Lifo), Just(Order::Fifo)]
}

/// An operation on a pool; numbers choose among the present objects.
#[derive(Clone, Copy, Debug)]
enum Act {
    Put,
    Take(usize),
    Discard(usize),
    Late(usize),
    Trim,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => Just(Act::Put),
        3 => any::<usize>().prop_map(Act::Take),
        1 => any::<usize>().prop_map(Act::Discard),
        1 => any::<usize>().prop_map(Act::Late),
        1 => Just(Act::Trim),
    ];
    vec(act, 0..200)
}

/// The order of reuse: the free slots in the order in which they were freed, then fresh
/// ones, or the other way round.
struct Slots {
    order: Order,
    free: VecDeque<u32>,
    fresh: u32,
    capacity: u32,
}

impl Slots {
    fn next(&mut self) -> Option<u32> {
        let fresh = (self.fresh < self.capacity).then_some(self.fresh);
        let freed = match self.order {
            Order::Lifo => self.free.back().copied(),
            Order::Fifo => self.free.front().copied(),
        };
        let next = if self.order == Order::Lifo { freed.or(fresh) } else { fresh.or(freed) };
        match next {
            Some(index) if Some(index) == fresh => self.fresh += 1,
            Some(index) => self.free.retain(|free| *free != index),
            None => {}
        }
        next
    }
}

/// The operations in flight for a session, and whether it was closed.
type Known = (u32, bool);

/// The expected verdict on a completion for a session of the model.
fn landing(known: Option<&mut Known>) -> &'static str {
    let Some((flight, closed)) = known.filter(|(flight, _)| *flight > 0) else { return "stray" };
    *flight -= 1;
    match (*flight, *closed) {
        (0, true) => "last",
        (_, true) => "closing",
        (_, false) => "live",
    }
}

/// The expected result of closing a session of the model.
fn closing(known: Option<&mut Known>) -> Closing<i32> {
    match known {
        Some((0, false)) => Closing::Freed(0),
        Some((_, closed)) if !*closed => {
            *closed = true;
            Closing::Waits
        }
        _ => Closing::Unknown,
    }
}

proptest! {
    #[test]
    fn a_pool_uses_the_slots_that_its_order_says(
        capacity in 1_u32..12,
        backing in backing(),
        order in order(),
        acts in acts(),
    ) {
        let mut pool = Pool::new(Plan { backing, order, ..Plan::new(capacity) });
        let mut slots = Slots { order, free: VecDeque::new(), fresh: 0, capacity };
        let (mut live, mut late) = (Vec::new(), Vec::new());
        for (value, act) in acts.into_iter().enumerate() {
            match act {
                Act::Put => match (pool.put(value), slots.next()) {
                    (Ok(handle), Some(index)) => {
                        prop_assert_eq!(handle.index(), index);
                        live.push((handle, value));
                    }
                    (Err(Full(back)), None) => prop_assert_eq!(back, value),
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                },
                Act::Take(at) | Act::Discard(at) if !live.is_empty() => {
                    let (handle, value) = live.swap_remove(at % live.len());
                    prop_assert_eq!(pool.get(handle), Some(&value));
                    if matches!(act, Act::Take(_)) {
                        prop_assert_eq!(pool.take(handle), Ok(value));
                    } else {
                        prop_assert_eq!(pool.discard(handle), Ok(()));
                    }
                    slots.free.push_back(handle.index());
                    late.push(handle);
                }
                Act::Late(at) if !late.is_empty() => {
                    let handle = late[at % late.len()];
                    prop_assert_eq!(pool.get(handle), None);
                    let fault = pool.discard(handle);
                    let named = matches!(
                        fault, Err(Fault::DoubleFree { .. } | Fault::Stale { .. }));
                    prop_assert!(named, "{:?}", fault);
                }
                Act::Trim => drop(pool.trim()),
                _ => {}
            }
            prop_assert_eq!(pool.len(), live.len());
        }
    }

    #[test]
    fn one_byte_anywhere_around_an_object_is_found(
        len_class in 0_usize..3,
        side in any::<bool>(),
        distance in 0_usize..16,
        bits in 1_u8..=255,
    ) {
        // Sizes that are multiples of eight, and sizes that are not.
        match len_class {
            0 => poke([0_u8; 3], side, distance, bits)?,
            1 => poke([0_u64; 4], side, distance, bits)?,
            _ => poke([0_u16; 13], side, distance, bits)?,
        }
    }

    #[test]
    fn a_ring_is_a_queue_of_bytes(
        power in 0_u32..8,
        moves in vec((any::<bool>(), 0_usize..300), 0..100),
    ) {
        let capacity = 1_usize << power;
        let mut ring = Ring::new(capacity).unwrap();
        let (mut producer, mut consumer) = spsc(capacity).unwrap();
        let mut model = VecDeque::new();
        for (step, (write, len)) in moves.into_iter().enumerate() {
            if write {
                let bytes: Vec<u8> = (0..len).map(|at| (step * 31 + at) as u8).collect();
                let written = ring.write(&bytes);
                prop_assert_eq!(written, len.min(capacity - model.len()));
                prop_assert_eq!(producer.write(&bytes), written);
                model.extend(&bytes[..written]);
            } else {
                let there = model.len().min(len);
                let expected: Vec<u8> = model.drain(..there).collect();
                let mut bytes = vec![0; len];
                prop_assert_eq!(ring.read(&mut bytes), there);
                prop_assert_eq!(&bytes[..there], &expected[..]);
                prop_assert_eq!(&consumer.readable().concat()[..there], &expected[..]);
                prop_assert_eq!(consumer.consume(there), Ok(()));
            }
            prop_assert_eq!(ring.readable().concat(), Vec::from(model.clone()));
            prop_assert_eq!(consumer.readable().concat().len(), model.len());
            let room: usize = producer.writable().iter().map(|part| part.len()).sum();
            prop_assert_eq!((room, ring.room()), (capacity - model.len(), capacity - model.len()));
        }
    }

    #[test]
    fn a_session_keeps_its_slot_while_something_flies(
        capacity in 1_usize..6,
        order in order(),
        steps in vec((0_u8..4, any::<usize>()), 0..150),
    ) {
        let mut table = ShardTable::new(9, capacity, order);
        let mut slots = Slots { order, free: VecDeque::new(), fresh: 0, capacity: capacity as u32 };
        let mut model: HashMap<_, Known> = HashMap::new();
        let mut names = Vec::new();
        for (step, at) in steps {
            let id = names.get(at % names.len().max(1)).copied();
            match (step, id) {
                (0, _) => match (table.open(0), slots.next()) {
                    (Ok(id), Some(index)) => {
                        prop_assert_eq!(id.index(), index);
                        prop_assert!(!names.contains(&id));
                        names.push(id);
                        model.insert(id, (0_u32, false));
                    }
                    (Err(_), None) => {}
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                },
                (1, Some(id)) => {
                    let open = model.get_mut(&id).filter(|(_, closed)| !*closed);
                    prop_assert_eq!(table.launch(id).is_some(), open.is_some());
                    open.into_iter().for_each(|(flight, _)| *flight += 1);
                }
                (2, Some(id)) => {
                    let expected = landing(model.get_mut(&id));
                    let found = match table.land(id) {
                        Landing::Stray => "stray",
                        Landing::Last(_) => "last",
                        Landing::Closing(_) => "closing",
                        Landing::Live(_) => "live",
                    };
                    prop_assert_eq!(found, expected);
                    if expected == "last" {
                        model.remove(&id);
                        slots.free.push_back(id.index());
                    }
                }
                (3, Some(id)) => {
                    let expected = closing(model.get_mut(&id));
                    let found = table.close(id);
                    prop_assert_eq!(&found, &expected);
                    if found == Closing::Freed(0) {
                        model.remove(&id);
                        slots.free.push_back(id.index());
                    }
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), model.len());
            for (id, (flight, closed)) in &model {
                prop_assert_eq!(table.get(*id).is_some(), !closed);
                prop_assert_eq!(table.in_flight(*id), *flight);
            }
        }
    }

    #[test]
    fn an_outbox_has_a_sender_while_something_is_queued(steps in vec(any::<bool>(), 0..60)) {
        let mut outbox = Outbox::default();
        let (mut queue, mut senders) = (0, 0);
        for queued in steps {
            if queued {
                queue += 1;
                senders += u32::from(outbox.queued());
            } else if senders == 1 {
                // A send has completed: the queue is empty, and the sender asks.
                queue = 0;
                senders -= u32::from(!outbox.drained());
            }
            prop_assert!(senders <= 1);
            prop_assert_eq!(outbox.is_sending(), senders == 1);
            prop_assert!(queue == 0 || senders == 1, "what is queued has a sender");
        }
    }
}

/// Changes one byte of a canary by `bits`, which is not 0, and asserts that the damage is found.
fn poke<T: Debug>(object: T, behind: bool, distance: usize, bits: u8) -> Result<(), TestCaseError> {
    let mut pool = Pool::new(Plan { guard: Guard::Full, ..Plan::new(2) });
    let handle = pool.put(object).expect("there is room");
    let data = pool.pointer(handle).expect("it lives").as_ptr().cast::<u8>();
    let (offset, expected) = if behind {
        let offset = size_of::<T>().cast_signed() + distance.cast_signed();
        (offset, Fault::Overrun { index: 0, distance })
    } else {
        let distance = distance + 1;
        (-distance.cast_signed(), Fault::Underrun { index: 0, distance })
    };
    let byte = data.wrapping_offset(offset);
    // SAFETY: a guarded slot has at least 16 bytes of its own on both sides.
    unsafe { byte.write(byte.read() ^ bits) };
    prop_assert_eq!(pool.take(handle).err(), Some(expected));
    Ok(())
}
