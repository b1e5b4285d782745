//! Workloads over any source of objects: a pool, a slab, the heap.

use std::hint::black_box;
use std::mem;
use std::sync::mpsc::sync_channel;
use std::thread;

use pools::{Boxed, Boxes, Handle, Lent, Plan, Pool, Shared, Worker};
use paired::{Rng, ns_each, process_time, thread_time};

use crate::{BATCH, Object};

/// A source of objects.
pub trait Source {
    /// The handle of an allocated object.
    type Held;
    /// Keeps one.
    fn put(&mut self, value: Object) -> Self::Held;
    /// Gives it back.
    fn take(&mut self, held: Self::Held) -> Object;
}

/// The global allocator of this program.
pub struct Heap;

impl Source for Heap {
    type Held = Box<Object>;

    #[inline(always)]
    fn put(&mut self, value: Object) -> Box<Object> {
        Box::new(value)
    }

    #[inline(always)]
    fn take(&mut self, held: Box<Object>) -> Object {
        *held
    }
}

impl Source for Pool<Object> {
    type Held = Handle<Object>;

    #[inline(always)]
    fn put(&mut self, value: Object) -> Handle<Object> {
        Pool::put(self, value).expect("there is room")
    }

    #[inline(always)]
    fn take(&mut self, held: Handle<Object>) -> Object {
        Pool::take(self, held).expect("it lives")
    }
}

impl<'p> Source for Worker<'p, Object> {
    type Held = Lent<'p, Object>;

    #[inline(always)]
    fn put(&mut self, value: Object) -> Lent<'p, Object> {
        self.lend(value).expect("there is room")
    }

    #[inline(always)]
    fn take(&mut self, held: Lent<'p, Object>) -> Object {
        Worker::take(self, held)
    }
}

impl<'p> Source for &'p Boxes<Object> {
    type Held = Boxed<'p, Object>;

    #[inline(always)]
    fn put(&mut self, value: Object) -> Boxed<'p, Object> {
        self.lend(value).expect("there is room")
    }

    #[inline(always)]
    fn take(&mut self, held: Boxed<'p, Object>) -> Object {
        held.take()
    }
}

impl Source for slab::Slab<Object> {
    type Held = usize;

    #[inline(always)]
    fn put(&mut self, value: Object) -> usize {
        self.insert(value)
    }

    #[inline(always)]
    fn take(&mut self, held: usize) -> Object {
        self.remove(held)
    }
}

/// Replaces one of `live` objects, in random order, `operations` times; nanoseconds of this
/// thread's processor time for each replacement: an allocation, its line written, and a free.
pub fn pairs(source: &mut impl Source, live: usize, operations: u64) -> f64 {
    let mut rng = Rng::new(live as u64);
    let order: Vec<usize> = (0..4096).map(|_| rng.below(live)).collect();
    let mut held: Vec<_> = (0..live as u64).map(|at| source.put(Object::new(at))).collect();
    let cost = ns_each(operations, || {
        for operation in 0..operations {
            let new = source.put(Object::new(operation));
            let old = mem::replace(&mut held[order[operation as usize % 4096]], new);
            black_box(source.take(old).first());
        }
    });
    for old in held {
        source.take(old);
    }
    cost
}

/// A producer thread keeps objects and a consumer thread gives them back, [`BATCH`] at a time;
/// nanoseconds of both threads' processor time for each object.
pub fn cross<S, P, C>(mut producer: P, mut consumer: C, operations: u64) -> f64
where
    S: Send,
    P: Source<Held = S> + Send,
    C: Source<Held = S> + Send,
{
    let start = process_time();
    thread::scope(|threads| {
        let (full, filled) = sync_channel::<Vec<S>>(2);
        let (empty, emptied) = sync_channel::<Vec<S>>(3);
        for _ in 0..3 {
            empty.send(Vec::with_capacity(BATCH)).expect("the channel is open");
        }
        threads.spawn(move || {
            for batch in 0..operations / BATCH as u64 {
                let mut objects: Vec<S> = emptied.recv().expect("the consumer brings it");
                for at in 0..BATCH as u64 {
                    objects.push(producer.put(Object::new(batch ^ at)));
                }
                full.send(objects).expect("the consumer waits");
            }
        });
        threads.spawn(move || {
            let mut sum = 0;
            for mut objects in filled {
                for object in objects.drain(..) {
                    sum ^= consumer.take(object).first();
                }
                // At the end of the round the channel may already be closed.
                let _ = empty.send(objects);
            }
            black_box(sum);
        });
    });
    (process_time() - start).as_nanos() as f64 / operations as f64
}

/// [`pairs`] on `workers` threads at once over one pool; the mean cost of a replacement in
/// processor time of its thread.
pub fn together(pool: &Shared<Object>, workers: usize, operations: u64) -> f64 {
    let costs: Vec<f64> = thread::scope(|threads| {
        let run = |_| threads.spawn(|| alone(pool, operations));
        let all: Vec<_> = (0..workers).map(run).collect();
        all.into_iter().map(|it| it.join().expect("it does not panic")).collect()
    });
    costs.iter().sum::<f64>() / costs.len() as f64
}

fn alone(pool: &Shared<Object>, operations: u64) -> f64 {
    let mut worker = pool.worker().expect("a slot for each");
    let start = thread_time();
    pairs(&mut worker, 64, operations);
    (thread_time() - start).as_nanos() as f64 / operations as f64
}

/// A pool of one owner with room for every workload.
#[must_use]
pub fn pool(guard: pools::Guard) -> Pool<Object> {
    Pool::new(Plan { guard, ..Plan::new(8192) })
}

/// A shared pool with room for every workload.
#[must_use]
pub fn shared(home: pools::Home) -> Shared<Object> {
    Shared::new(Plan::new(8 * BATCH as u32), 2, home)
}
