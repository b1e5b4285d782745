//! Planted faults: each test commits a fault on a guarded pool, which must find it and name it.
//!
//! The list follows the kinds of `bench/security` in mimalloc-bench: writes of several widths on
//! both sides, double frees of several kinds, writes after free, foreign pointers, leaks.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use pools::pool::Report;
use pools::{Backing, Fault, Guard, Handle, Order, Plan, Pool};

type Object = [u8; 24];
const OBJECT: Object = [7; 24];

/// A guarded pool with several objects; the fault is committed on the first.
struct Scene {
    pool: Pool<Object>,
    other: Pool<Object>,
    victim: Handle<Object>,
}

impl Scene {
    fn write(&mut self, offset: isize, bytes: &[u8]) {
        let at = self.pool.pointer(self.victim).expect("the victim lives");
        write(at.as_ptr(), offset, bytes);
    }

    fn take(&mut self) -> Object {
        self.pool.take(self.victim).expect("the victim is sound")
    }
}

/// Writes at the test's chosen place: into gaps and free slots, which are the pool's own memory.
fn write(object: *mut Object, offset: isize, bytes: &[u8]) {
    let at = object.cast::<u8>().wrapping_offset(offset);
    // SAFETY: the gaps around a slot have 16 bytes and a slot 24, and no offset here goes beyond
    // the neighbouring slot, so the bytes belong to the pool's memory and to no reference.
    unsafe { at.copy_from(bytes.as_ptr(), bytes.len()) };
}

/// Damage that shows when the object is taken.
fn at_its_end(scene: &mut Scene) -> Option<Fault> {
    scene.pool.take(scene.victim).err()
}

/// Damage that shows when the slot is used again.
fn at_reuse(scene: &mut Scene) -> Option<Fault> {
    let room = scene.pool.usage().capacity;
    for _ in 0..room {
        let _ = scene.pool.put(OBJECT);
    }
    scene.pool.faults().first().map(|report| report.fault)
}

/// Commits a fault and returns the fault that the pool found.
type Planted = fn(&mut Scene) -> Option<Fault>;

/// Writes `bytes` at `offset` of the victim, which is then taken.
fn overwritten(it: &mut Scene, offset: isize, bytes: &[u8]) -> Option<Fault> {
    it.write(offset, bytes);
    at_its_end(it)
}

const fn over(distance: usize) -> Fault {
    Fault::Overrun { index: 0, distance }
}

const fn under(distance: usize) -> Fault {
    Fault::Underrun { index: 0, distance }
}

const fn late(offset: usize) -> Fault {
    Fault::WriteAfterFree { index: 0, offset }
}

const TWICE: Fault = Fault::DoubleFree { index: 0 };
const STALE: Fault = Fault::Stale { index: 0 };
const WRONG: Fault = Fault::WrongPool { index: 0 };
const FOREIGN: Fault = Fault::Foreign { address: 0 };

/// The name, the function, the expected fault (of slot 0), and whether finding it needs canaries.
const FAULTS: &[(&str, Planted, Fault, bool)] = &[
    ("1 byte behind", |it| overwritten(it, 24, &[1]), over(0), true),
    ("8 bytes behind", |it| overwritten(it, 24, &[0; 8]), over(0), true),
    ("32 bytes behind, into the neighbour", |it| overwritten(it, 24, &[0xff; 32]), over(0), true),
    ("1 byte, 15 behind", |it| overwritten(it, 39, &[0xff]), over(15), true),
    ("a string's NUL", |it| overwritten(it, 20, b"abcd\0"), over(0), true),
    ("1 byte in front", |it| overwritten(it, -1, &[0]), under(1), true),
    ("8 bytes in front", |it| overwritten(it, -8, &[0xff; 8]), under(1), true),
    ("16 bytes in front", |it| overwritten(it, -16, &[0; 16]), under(1), true),
    ("1 byte, 16 in front", |it| overwritten(it, -16, &[0]), under(16), true),
    ("both sides", |it| overwritten(it, -4, &[0; 32]), over(0), true),
    ("found on patrol, while it lives", |it| (it.write(24, &[0]), patrolled(it)).1, over(0), true),
    ("double free, at once", |it| (it.take(), at_its_end(it)).1, TWICE, false),
    (
        "double free, others between",
        |it| {
            it.take();
            let other = it.pool.put(OBJECT).unwrap();
            it.pool.take(other).unwrap();
            at_its_end(it)
        },
        TWICE,
        true,
    ),
    (
        "double free, after the slot's next use",
        |it| (it.take(), reuse(it), at_its_end(it)).2,
        STALE,
        false,
    ),
    (
        "double free by address",
        |it| {
            let address = it.pool.pointer(it.victim).unwrap().as_ptr();
            it.take();
            it.pool.take_at(address).err()
        },
        TWICE,
        false,
    ),
    (
        "read by a late handle",
        |it| {
            it.take();
            reuse(it);
            assert_eq!(it.pool.get(it.victim), None);
            at_its_end(it)
        },
        STALE,
        false,
    ),
    ("written after its end, first byte", |it| written_late(it, 0), late(0), true),
    ("written after its end, last byte", |it| written_late(it, 23), late(23), true),
    ("behind it after its end", |it| written_late(it, 24), over(0), true),
    (
        "written after its end, found on patrol",
        |it| {
            let address = it.pool.pointer(it.victim).unwrap().as_ptr();
            it.take();
            write(address, 9, &[0]);
            patrolled(it)
        },
        late(9),
        true,
    ),
    ("the wrong pool", |it| it.other.take(it.victim).err(), WRONG, false),
    (
        "the wrong pool, where the slot lives too",
        |it| (it.other.put(OBJECT).unwrap(), it.other.take(it.victim).err()).1,
        WRONG,
        false,
    ),
    ("an address of the stack", |it| stranger(it, &OBJECT), FOREIGN, false),
    (
        "an address of another pool",
        |it| {
            let theirs = it.other.put(OBJECT).unwrap();
            let address = it.other.pointer(theirs).unwrap().as_ptr();
            stranger(it, address)
        },
        FOREIGN,
        false,
    ),
    (
        "an address inside an object",
        |it| {
            let address = it.pool.pointer(it.victim).unwrap().as_ptr();
            it.pool.take_at(address.wrapping_byte_add(8)).err()
        },
        Fault::Inside { index: 0, offset: 8 },
        false,
    ),
    (
        "a leak",
        |it| it.pool.leaks().first().map(|report| report.fault),
        Fault::Leak { index: 0 },
        false,
    ),
];

/// The only fault that a patrol has found.
fn patrolled(it: &mut Scene) -> Option<Fault> {
    (it.pool.patrol() == 1).then(|| it.pool.faults()[0].fault)
}

/// Gives back an object at an address that is not the pool's; the fault names it.
fn stranger(it: &mut Scene, object: *const Object) -> Option<Fault> {
    let found = it.pool.take_at(object).err();
    assert_eq!(found, Some(Fault::Foreign { address: object.addr() }));
    Some(FOREIGN)
}

/// Uses the victim's slot again, under any order.
fn reuse(it: &mut Scene) {
    while let Ok(handle) = it.pool.put(OBJECT) {
        if handle.index() == it.victim.index() {
            return;
        }
    }
    panic!("a full pool has used every slot");
}

/// Writes one byte at `offset` of a free slot.
fn written_late(it: &mut Scene, offset: isize) -> Option<Fault> {
    let address = it.pool.pointer(it.victim).unwrap().as_ptr();
    it.take();
    write(address, offset, &[0]);
    at_reuse(it)
}

fn scene(backing: Backing, order: Order, guard: Guard) -> Scene {
    let plan = Plan { backing, order, guard, ..Plan::new(8) };
    let (mut pool, other) = (Pool::new(plan), Pool::new(plan));
    let victim = pool.put(OBJECT).unwrap();
    // A neighbour with a value of its own, which a long overrun reaches.
    pool.put([3; 24]).unwrap();
    Scene { pool, other, victim }
}

#[test]
fn all_planted_faults_are_found_by_name() {
    const { assert!(FAULTS.len() >= 20) };
    for (name, plant, expected, _) in FAULTS {
        for backing in [Backing::Array, Backing::List] {
            for order in [Order::Lifo, Order::Fifo] {
                // Two pieces of the heap may be neighbours; then an overrun of 32 bytes would
                // damage the heap instead.
                if backing == Backing::List && name.starts_with("32 bytes") {
                    continue;
                }
                let mut scene = scene(backing, order, Guard::Full);
                let found = plant(&mut scene);
                assert_eq!(found, Some(*expected), "{name}, {backing:?}, {order:?}");
            }
        }
    }
}

/// Changes one byte of a canary and asserts that the damage is found.
fn poke<T: Copy + std::fmt::Debug + PartialEq>(object: T) {
    for (at, bits) in (0..16).flat_map(|at| [1_u8, 0x80, 0xff].map(|bits| (at, bits))) {
        let behind = (size_of::<T>() + at).cast_signed();
        for (offset, expected) in [(behind, over(at)), (!at.cast_signed(), under(at + 1))] {
            let mut pool = Pool::new(Plan { guard: Guard::Full, ..Plan::new(2) });
            let handle = pool.put(object).expect("there is room");
            let data = pool.pointer(handle).expect("it lives").as_ptr().cast::<u8>();
            let byte = data.wrapping_offset(offset);
            // SAFETY: a guarded slot has at least 16 bytes of its own on both sides.
            unsafe { byte.write(byte.read() ^ bits) };
            assert_eq!(pool.take(handle).err(), Some(expected), "{offset}, {bits}");
        }
    }
}

#[test]
fn one_byte_anywhere_around_an_object_is_found() {
    // Sizes that are multiples of eight, and sizes that are not.
    poke([0_u8; 3]);
    poke([0_u64; 4]);
    poke([0_u16; 13]);
}

#[test]
fn what_needs_no_canary_is_found_without_guard() {
    for (name, plant, expected, needs_guard) in FAULTS {
        if !needs_guard {
            let found = plant(&mut scene(Backing::Array, Order::Lifo, Guard::Off));
            assert_eq!(found, Some(*expected), "{name}");
        }
    }
}

#[test]
fn a_sound_life_is_no_fault() {
    for backing in [Backing::Array, Backing::List] {
        for order in [Order::Lifo, Order::Fifo] {
            let mut it = scene(backing, order, Guard::Full);
            for round in 0..200_u8 {
                it.write(0, &[round; 24]);
                assert_eq!(it.take(), [round; 24]);
                it.victim = it.pool.put(OBJECT).unwrap();
            }
            assert_eq!((it.pool.patrol(), it.pool.usage().retired), (0, 0));
        }
    }
}

#[test]
fn one_in_ten_is_guarded_where_one_in_ten_is_asked_for() {
    let each = NonZeroU32::new(10).unwrap();
    let plan = Plan { guard: Guard::Sampled(each), ..Plan::new(2000) };
    let mut pool = Pool::new(plan);
    let all: Vec<_> = (0..1000).map(|_| pool.put(OBJECT).unwrap()).collect();
    let mut found = 0;
    for handle in all {
        let at = pool.pointer(handle).unwrap();
        write(at.as_ptr(), 24, &[0]);
        found += u32::from(pool.take(handle).is_err());
    }
    assert_eq!((found, pool.usage().retired), (100, 100));
    assert!(pool.set_guard(Guard::Full));
    let watched = pool.put(OBJECT).unwrap();
    write(pool.pointer(watched).unwrap().as_ptr(), 24, &[0]);
    assert!(pool.take(watched).is_err());
    assert!(pool.set_guard(Guard::Off) && !Pool::<u8>::new(Plan::new(1)).set_guard(Guard::Full));
}

#[test]
fn quarantine_keeps_a_slot_out_of_use_but_never_makes_a_pool_full() {
    let plan = Plan { guard: Guard::Full, quarantine: 4, ..Plan::new(8) };
    let mut pool = Pool::new(plan);
    let first = pool.put(OBJECT).unwrap();
    pool.take(first).unwrap();
    let next = pool.put(OBJECT).unwrap();
    assert_ne!(next.index(), first.index());
    let more = std::iter::from_fn(|| pool.put(OBJECT).ok()).count();
    assert_eq!(more, 7, "all eight slots are used before it is full");
}

#[test]
fn a_fault_names_the_line_that_put_the_object_there() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    fn tell(report: &Report) {
        assert!(matches!(report.fault, Fault::Leak { index: 0 }));
        assert!(report.to_string().contains("faults.rs"), "{report}");
        TOLD.fetch_add(1, Ordering::Relaxed);
    }
    let plan = Plan { guard: Guard::Full, on_fault: Some(tell), ..Plan::new(8) };
    let mut pool = Pool::new(plan);
    let line = line!() + 1;
    pool.put(OBJECT).unwrap();
    assert_eq!(pool.leaks()[0].put_by.unwrap().line(), line);
    drop(pool);
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
}
