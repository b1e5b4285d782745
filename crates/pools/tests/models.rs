//! Pools and rings match plain models, under sequences that shrink to a small one.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::fmt::Debug;

use pools::ring::{Ring, spsc};
use pools::{Backing, Fault, Full, Guard, Order, Plan, Pool};
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
