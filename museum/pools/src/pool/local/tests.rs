//! Tests of the order and the backing of a pool.

use super::super::Backing;
use super::*;

fn plan(capacity: u32, backing: Backing, order: Order) -> Plan {
    Plan { backing, order, ..Plan::new(capacity) }
}

#[test]
fn lifo_gives_the_last_slot_and_fifo_the_longest_free() {
    for backing in [Backing::Array, Backing::List] {
        for (order, expected) in [(Order::Lifo, [2, 0, 3]), (Order::Fifo, [3, 0, 2])] {
            let mut pool = Pool::new(plan(4, backing, order));
            let put: Vec<_> = (0..3).map(|value| pool.put(value).unwrap()).collect();
            pool.take(put[0]).unwrap();
            pool.take(put[2]).unwrap();
            let next = [9; 3].map(|value| pool.put(value).unwrap().index());
            assert_eq!(next, expected, "{backing:?}, {order:?}");
            assert_eq!(pool.put(7), Err(Full(7)));
        }
    }
}

#[test]
fn objects_do_not_move_and_are_dropped_once() {
    let one = std::rc::Rc::new(());
    let mut pool = Pool::new(plan(100, Backing::List, Order::Lifo));
    let first = pool.put(one.clone()).unwrap();
    let address = pool.pointer(first);
    for _ in 1..100 {
        pool.put(one.clone()).unwrap();
    }
    assert_eq!(pool.pointer(first), address);
    assert_eq!(std::rc::Rc::strong_count(&one), 101);
    drop(pool.take(first).unwrap());
    drop(pool);
    assert_eq!(std::rc::Rc::strong_count(&one), 1);
}

#[test]
fn a_trimmed_slot_takes_memory_again() {
    let mut pool = Pool::new(plan(8, Backing::List, Order::Fifo));
    let put: Vec<_> = (0..8_u64).map(|value| pool.put(value).unwrap()).collect();
    for handle in &put[2..6] {
        pool.take(*handle).unwrap();
    }
    assert_eq!((pool.trim(), pool.trim()), (4, 0));
    let again: Vec<_> = (10..14).map(|value| pool.put(value).unwrap()).collect();
    assert_eq!(again.iter().map(|it| *pool.get(*it).unwrap()).sum::<u64>(), 46);
    assert_eq!(pool.take(put[2]), Err(Fault::Stale { index: 2 }));
    assert_eq!(Pool::<u64>::new(Plan::new(4)).trim(), 0, "an array is given back whole");
}

#[test]
fn values_without_size_have_handles_too() {
    let mut pool = Pool::new(Plan::new(2));
    let handle = pool.put(()).unwrap();
    assert_eq!(
        (pool.take(handle), pool.take(handle)),
        (Ok(()), Err(Fault::DoubleFree { index: 0 }))
    );
    assert!(Pool::new(Plan::new(0)).put(1).is_err());
}

#[test]
fn a_pool_knows_no_handle_of_one_that_was_there_before() {
    let mut late = Vec::new();
    for round in 0..50 {
        // The heap gives the same memory again.
        let mut pool = Pool::new(Plan::new(4));
        let own = pool.put(round).unwrap();
        for handle in &late {
            assert_eq!(pool.get(*handle), None);
            assert_eq!(pool.take(*handle), Err(Fault::WrongPool { index: 0 }));
        }
        assert_eq!((own.generation(), pool.get(own)), (1, Some(&round)));
        late.push(own);
    }
}

#[test]
fn slots_go_on_where_they_were_after_a_trim() {
    for (backing, order) in [(Backing::Array, Order::Lifo), (Backing::List, Order::Lifo)] {
        let mut pool = Pool::new(plan(4, backing, order));
        let put: Vec<_> = (0..4).map(|value| pool.put(value).unwrap()).collect();
        pool.take(put[1]).unwrap();
        pool.take(put[2]).unwrap();
        pool.trim();
        pool.take(put[3]).unwrap();
        let next = [9; 3].map(|value| pool.put(value).unwrap());
        assert_eq!(next.map(Handle::index), [3, 2, 1], "{backing:?}: the last one first");
        assert_eq!(next.map(Handle::generation), [2; 3]);
        assert_eq!((pool.len(), pool.put(7)), (4, Err(Full(7))));
    }
}

#[test]
fn usage_counts_what_happened() {
    let mut pool = Pool::new(Plan::new(2));
    let handle = pool.put(1).unwrap();
    pool.put(2).unwrap();
    pool.put(3).unwrap_err();
    pool.take(handle).unwrap();
    let usage = Usage { capacity: 2, carved: 2, live: 1, retired: 0, refused: 1 };
    assert_eq!(pool.usage(), usage);
}
