//! Pools shared by threads: every object has one owner, and all slots come back.
#![cfg(not(loom))]

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::thread;

use pools::{Backing, Full, Guard, Handle, Home, Lent, Plan, Shared, Worker};

/// Objects that each thread tries to lend.
const EACH: u64 = 20_000;

/// An object that can check its own integrity.
type Object = [u64; 3];

fn object(number: u64) -> Object {
    [number, !number, number.wrapping_mul(3)]
}

/// An entry of the exchange between the threads: an object, or the name of one in the pool.
enum Parcel<'p> {
    Whole(Lent<'p, Object>),
    Name(Handle<Object>),
}

type Table<'p> = Mutex<Vec<Parcel<'p>>>;

/// Lends objects and returns those of either thread, by every available call. The table fills until
/// the pool is full and empties again, several times.
fn work<'p>(pool: &'p Shared<Object>, table: &Table<'p>, seed: u64) {
    let mut worker = pool.worker().expect("a worker slot for each");
    let lock = || table.lock().unwrap_or_else(PoisonError::into_inner);
    for number in 0..EACH {
        let value = object(number * 2 + seed);
        match worker.lend(value) {
            Ok(lent) if number.is_multiple_of(3) => lock().push(Parcel::Name(lent.detach())),
            Ok(lent) => lock().push(Parcel::Whole(lent)),
            Err(Full(back)) => assert_eq!(back, value),
        }
        let is_emptying = number / 1000 % 2 == 1;
        let turns = if is_emptying { 2 } else { 0 };
        for turn in 0..turns {
            let mut parcels = lock();
            let at = (number * 7 + turn) as usize % parcels.len().max(1);
            let parcel = (at < parcels.len()).then(|| parcels.swap_remove(at));
            drop(parcels);
            parcel.into_iter().for_each(|parcel| open(pool, &mut worker, parcel, number + turn));
        }
    }
    loop {
        let parcel = lock().pop();
        let Some(parcel) = parcel else { return };
        open(pool, &mut worker, parcel, seed);
    }
}

fn open<'p>(
    pool: &'p Shared<Object>,
    worker: &mut Worker<'p, Object>,
    parcel: Parcel<'p>,
    way: u64,
) {
    let lent = match parcel {
        Parcel::Whole(lent) => lent,
        Parcel::Name(handle) => {
            let lent = pool.claim(handle).expect("it lies in the pool");
            assert!(pool.claim(handle).is_err(), "it has an owner now");
            lent
        }
    };
    assert_eq!(*lent, object(lent[0]), "two objects share a slot");
    match way % 4 {
        0 => worker.discard(lent),
        1 => drop(lent),
        _ => {
            let value = worker.take(lent);
            assert_eq!(value, object(value[0]), "it was moved while it was written");
        }
    }
}

fn check(guard: Guard, backing: Backing, home: Home) {
    let plan = Plan { guard, backing, align: 64, ..Plan::new(100) };
    let pool = Shared::new(plan, 2, home);
    let table = Mutex::new(Vec::new());
    thread::scope(|threads| {
        for seed in 0..2 {
            let (pool, table) = (&pool, &table);
            threads.spawn(move || work(pool, table, seed));
        }
    });
    let what = format!("{guard:?}, {backing:?}, {home:?}");
    assert_eq!((pool.usage().live, pool.leaks().len()), (0, 0), "{what}");
    assert!(pool.usage().refused > 0, "{what}: it was never full");
    assert_eq!(pool.usage().retired, 0, "{what}: sound slots were given up");
    let mut worker = pool.worker().expect("the worker slots are free");
    let all: Vec<_> = std::iter::from_fn(|| worker.lend(object(7)).ok()).collect();
    assert!(all.len() >= plan.capacity as usize, "{what}: {} slots came back", all.len());
}

#[test]
fn every_object_has_one_owner_and_every_slot_comes_back() {
    for home in [Home::Depot, Home::Lender] {
        check(Guard::Off, Backing::Array, home);
        check(Guard::Off, Backing::List, home);
    }
}

#[test]
fn so_it_is_under_guard() {
    let some = NonZeroU32::new(7).expect("not zero");
    for home in [Home::Depot, Home::Lender] {
        check(Guard::Full, Backing::Array, home);
        check(Guard::Sampled(some), Backing::List, home);
    }
}
