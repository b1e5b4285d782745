//! Exhibits on the parts of a server: memory, paths, ids, indexes.
//!
//! They repeat the experiments of one portfolio ([`crate::portfolio`]), first unchanged and then
//! with one change at a time. They share objects of a given size and the sources of such objects.

pub mod false_sharing;
pub mod id_schemes;
pub mod ordered_index;
pub mod path_ladder;
pub mod pool_heap;
pub mod pool_layout;
pub mod remote_free;
pub mod server_factors;

use crate::artefact::build::Build;
use crate::artefact::pool::{Backing, Gate, Pool as Published, Turn};
use crate::contest::{Costs, Rng, ns_each};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Settings, Stage};
use document::Series;
use pools::{Boxed, Boxes, Handle, Lent, Plan, Worker};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

/// An exhibit that measures by contests first, and then writes.
trait Part: Sync {
    /// The measurements; nothing at first.
    type Measured: Default;
    /// The name on the command line.
    const NAME: &'static str;

    /// The effort with these settings.
    fn effort(settings: &Settings) -> Effort;
    /// Runs all contests.
    fn measure(stage: &mut Stage<'_>) -> Result<Self::Measured, Fault>;
    /// The costs of all contests, for their facts.
    fn costs(measured: &Self::Measured) -> Vec<&Costs>;
    /// The numbers as rows, series and findings.
    fn draft(measured: &Self::Measured, settings: &Settings) -> Draft;
}

impl<P: Part> Exhibit for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn effort(&self, settings: &Settings) -> Effort {
        P::effort(settings)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let measured = P::measure(stage)?;
        let mut it = P::draft(&measured, stage.settings());
        it.facts.extend(stage.contest_facts(&P::costs(&measured)));
        Ok(it)
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        P::draft(&P::Measured::default(), settings)
    }
}

/// The costs of contests over something.
fn costs_of<T>(all: &[(T, Costs)]) -> impl Iterator<Item = &Costs> {
    all.iter().map(|it| &it.1)
}

/// The first `few` of `all` for a quick look, else all of them.
fn some_of<'a, T>(all: &'a [T], few: usize, settings: &Settings) -> &'a [T] {
    if settings.quick { &all[..few] } else { all }
}

/// An object of `8 * (W + 1)` bytes whose first word is written.
pub struct Object<const W: usize> {
    first: u64,
    _rest: [MaybeUninit<u64>; W],
}

impl<const W: usize> Object<W> {
    /// An object whose first word is `first`.
    #[inline(always)]
    pub fn new(first: u64) -> Self {
        Object { first, _rest: [const { MaybeUninit::uninit() }; W] }
    }
}

/// A source of objects.
pub trait Source {
    /// An object that was taken.
    type Held;
    /// Takes an object and writes its first word.
    fn take(&mut self) -> Self::Held;
    /// Gives it back.
    fn give(&mut self, held: Self::Held);
}

/// The heap of this program.
pub struct Heap<const W: usize>;

impl<const W: usize> Source for Heap<W> {
    type Held = Box<Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        black_box(Box::new(Object::new(1)))
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        drop(black_box(held));
    }
}

impl<const W: usize> Source for pools::Pool<Object<W>> {
    type Held = Handle<Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        black_box(self.put(Object::new(1)).unwrap_or_else(|_| unreachable!("there is room")))
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        if let Ok(object) = pools::Pool::take(self, held) {
            black_box(object.first);
        }
    }
}

impl<'p, const W: usize> Source for &'p Boxes<Object<W>> {
    type Held = Boxed<'p, Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        black_box(self.lend(Object::new(1)).unwrap_or_else(|_| unreachable!("there is room")))
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        drop(black_box(held));
    }
}

impl<'p, const W: usize> Source for Worker<'p, Object<W>> {
    type Held = Lent<'p, Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        black_box(self.lend(Object::new(1)).unwrap_or_else(|_| unreachable!("there is room")))
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        black_box(Worker::take(self, held).first);
    }
}

impl<const W: usize, S, G, O, B> Source for &Published<W, S, G, O, B>
where
    S: Backing<W>,
    G: Gate,
    O: Turn,
    B: Build,
{
    type Held = u32;

    #[inline(always)]
    fn take(&mut self) -> u32 {
        let index = Published::take(self).unwrap_or_else(|| unreachable!("there is room"));
        self.data(index)[0].store(1, Relaxed);
        black_box(index)
    }

    #[inline(always)]
    fn give(&mut self, held: u32) {
        black_box(Published::give(self, held));
    }
}

/// Nanoseconds for a pair: each object is released immediately, so at most one is live.
pub fn at_once(source: &mut impl Source, operations: u64) -> f64 {
    ns_each(operations, || {
        for _ in 0..operations {
            let held = source.take();
            source.give(held);
        }
    })
}

/// Nanoseconds for a pair: one of `live` objects, in random order, is replaced by a new one.
pub fn replaced(source: &mut impl Source, live: usize, operations: u64) -> f64 {
    let mut rng = Rng::new(live as u64);
    let order: Vec<usize> = (0..4_096).map(|_| rng.below(live)).collect();
    let mut held: Vec<_> = (0..live).map(|_| source.take()).collect();
    let cost = ns_each(operations, || {
        for at in 0..operations as usize {
            let new = source.take();
            source.give(std::mem::replace(&mut held[order[at % 4_096]], new));
        }
    });
    held.into_iter().for_each(|it| source.give(it));
    cost
}

/// A pool of ours, not guarded, with room for `capacity`.
pub fn plan(capacity: usize) -> Plan {
    Plan::new(u32::try_from(capacity).unwrap_or(u32::MAX))
}

/// The medians of one arm over several contests, as a series; each contest has a position.
pub fn medians<'t>(name: &str, all: impl IntoIterator<Item = (f64, &'t Costs)>) -> Series {
    let points = all.into_iter().filter_map(|(x, costs)| Some((x, costs.median(name)?)));
    Series::measured(name, points)
}

/// The ratios of one arm to another over several contests, with their intervals.
pub fn ratios<'t>(
    name: &str,
    (arm, other): (&str, &str),
    all: impl IntoIterator<Item = (f64, &'t Costs)>,
) -> Series {
    let points =
        all.into_iter().filter_map(|(x, costs)| Some(point(x, &costs.against(arm, other)?)));
    Series::measured(name, points)
}

/// The smallest and the largest of some numbers, as `3.0` and `4.8`; 0 and 0 for none.
pub fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.into_iter().collect();
    let least = values.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
    let most = values.iter().copied().max_by(f64::total_cmp).unwrap_or(0.0);
    (least, most)
}
