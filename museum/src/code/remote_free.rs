//! Memory that one thread allocates and another frees: a producer and a consumer; threads that
//! inherit each other's objects and end (bleeding, after Larson and Krishnan); and the worst single
//! allocations meanwhile.

use super::source::{Depot, Heap, Source};
use super::{blocks, list, whole};
use crate::artefact::build::Optimised;
use crate::artefact::pool::{Array, Locked, Pool as Published, Stack};
use crate::contest::{Contest, Rng, each, process_time};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

/// Batches on their way.
const QUEUE: usize = 2;
/// Objects that a thread of the bleeding run inherits.
const INHERITED: usize = 4_096;
/// Threads that follow each other there.
const GENERATIONS: u64 = 8;
const HEAP: &str = "heap";
const LOCKED: &str = "pool with a lock";
const MAGAZINES: &str = "pool with magazines";
const ARMS: [&str; 3] = [HEAP, LOCKED, MAGAZINES];

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (blocks, objects) = (blocks(scope)?, whole(scope, "objects")?);
    let pools = &Pools::new(1 << 15);
    for batch in list(scope, "batches")? {
        let mut contest = Contest::new(format!("handed over by {batch}"), blocks);
        for arm in ARMS {
            contest.arm(arm, move || pools.hand_over(arm, batch, objects));
        }
        stage.contest(contest, results)?;
    }
    let turns = whole(scope, "turns")?;
    let growth = ARMS.map(|arm| {
        let before = resident_kb();
        pools.bleed(arm, turns);
        resident_kb() - before
    });
    results.set("growth", growth);
    let mut contest = Contest::new("objects that outlive their thread", blocks);
    for arm in ARMS {
        contest.arm(arm, move || pools.bleed(arm, turns));
    }
    stage.contest(contest, results)?;
    let objects = whole(scope, "timed")?;
    results.set("waits", ARMS.map(|arm| pools.waits(arm, objects)));
    Ok(())
}

/// Two threads and the same kind of source for each: one takes, one gives back, a batch at a time.
/// Nanoseconds of both threads' time for each object.
fn handed_over<P, C, T>(mut producer: P, mut consumer: C, batch: usize, objects: u64) -> f64
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let batches = objects / batch as u64;
    // Channels exchange several batches of one, so that they do not decide the time.
    let parcel = (256 / batch).max(1);
    let start = process_time();
    std::thread::scope(|scope| {
        let (full, filled): (SyncSender<Vec<T>>, Receiver<Vec<T>>) = sync_channel(QUEUE);
        let (empty, emptied) = sync_channel::<Vec<T>>(QUEUE + 1);
        for _ in 0..=QUEUE {
            let _ = empty.send(Vec::with_capacity(batch * parcel));
        }
        scope.spawn(move || {
            for _ in 0..batches / parcel as u64 {
                let Ok(mut held) = emptied.recv() else { return };
                held.extend((0..batch * parcel).map(|_| producer.take()));
                if full.send(held).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for mut held in filled {
                held.drain(..).for_each(|it| consumer.give(it));
                // At the end the producer no longer takes it back.
                let _ = empty.send(held);
            }
        });
    });
    let count = batches / parcel as u64 * (batch * parcel) as u64;
    each(process_time().saturating_sub(start), count)
}

/// Pools with room for all objects in transit.
struct Pools {
    locked: Published<8, Array<8>, Locked, Stack, Optimised>,
    depot: Depot<7>,
}

impl Pools {
    fn new(objects: usize) -> Pools {
        Pools { locked: Published::new(objects as u32), depot: Depot::new(objects) }
    }

    fn hand_over(&self, arm: &str, batch: usize, objects: u64) -> f64 {
        match arm {
            HEAP => handed_over(Heap::<7>, Heap::<7>, batch, objects),
            LOCKED => handed_over(&self.locked, &self.locked, batch, objects),
            _ => handed_over(self.depot.worker(), self.depot.worker(), batch, objects),
        }
    }

    fn bleed(&self, arm: &str, turns: u64) -> f64 {
        match arm {
            HEAP => generations(|| Heap::<7>, turns),
            LOCKED => generations(|| &self.locked, turns),
            _ => generations(|| self.depot.worker(), turns),
        }
    }

    /// The median and the 99.9th percentile of single allocations, nanoseconds.
    fn waits(&self, arm: &str, objects: u64) -> [f64; 2] {
        match arm {
            HEAP => timed(Heap::<7>, Heap::<7>, objects),
            LOCKED => timed(&self.locked, &self.locked, objects),
            _ => timed(self.depot.worker(), self.depot.worker(), objects),
        }
    }
}

/// Threads follow each other. Each inherits its predecessor's objects, gives them back in random
/// order as it takes new ones, leaves those to its heir and ends. Nanoseconds for each pair.
fn generations<S>(source: impl Fn() -> S + Sync, turns: u64) -> f64
where
    S: Source,
    S::Held: Send,
{
    let start = process_time();
    let mut held: Vec<S::Held> = Vec::new();
    for generation in 0..GENERATIONS {
        let source = &source;
        let inherited = std::mem::take(&mut held);
        held = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let mut source = source();
                let mut held = inherited;
                while held.len() < INHERITED {
                    held.push(source.take());
                }
                let mut rng = Rng::new(generation);
                for _ in 0..turns {
                    let new = source.take();
                    let at = rng.below(INHERITED);
                    source.give(std::mem::replace(&mut held[at], new));
                }
                held
            });
            thread.join().unwrap_or_else(|_| unreachable!("it does not panic"))
        });
    }
    let mut last = source();
    held.into_iter().for_each(|it| last.give(it));
    each(process_time().saturating_sub(start), turns * GENERATIONS)
}

/// Memory of this process, kilobytes.
fn resident_kb() -> f64 {
    meter::proc::Memory::read(std::process::id()).map_or(0.0, |it| it.rss_kb as f64)
}

/// A source that times every allocation.
struct Timed<S> {
    source: S,
    times: Vec<u64>,
    sink: Sender<Vec<u64>>,
}

impl<S: Source> Source for Timed<S> {
    type Held = S::Held;

    fn take(&mut self) -> S::Held {
        let start = Instant::now();
        let held = black_box(self.source.take());
        self.times.push(start.elapsed().as_nanos() as u64);
        held
    }

    fn give(&mut self, held: S::Held) {
        self.source.give(held);
    }
}

impl<S> Drop for Timed<S> {
    fn drop(&mut self) {
        let _ = self.sink.send(std::mem::take(&mut self.times));
    }
}

fn timed<P, C, T>(producer: P, consumer: C, objects: u64) -> [f64; 2]
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let (sink, received) = channel();
    let times = Vec::with_capacity(objects as usize);
    handed_over(Timed { source: producer, times, sink }, consumer, 64, objects);
    let mut times = received.recv().unwrap_or_default();
    times.sort_unstable();
    let at = |share: f64| times.get((share * times.len() as f64) as usize).copied().unwrap_or(0);
    [at(0.5), at(0.999)].map(|it| it as f64)
}
