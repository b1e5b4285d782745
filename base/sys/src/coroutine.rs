//! Coroutines: functions with their own stacks, between which one thread switches.
//!
//! A coroutine runs until it waits ([`Switch::wait`]); then the code that resumed it goes on. The
//! stacks have a size, a guard page each, and are used again. The kernel gives a stack memory page
//! by page as it is touched, so a large stack costs address space and no memory.
//!
//! A coroutine may borrow from the function that opens the [`scope`]. The scope owns all of them
//! and unwinds those that are left when it ends, so none is forgotten and none outlives what it
//! borrows.

use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, Yielder};

type Inner = corosensei::Coroutine<(), (), (), DefaultStack>;

/// Stacks without a coroutine that a scope keeps for the next ones. Each keeps the pages that it
/// has touched.
const SPARE_MAX: usize = 64;

/// The coroutines of one thread, which end with the call of [`scope`].
pub struct Scope<'env> {
    stack: usize,
    places: Vec<Option<Inner>>,
    free: Vec<usize>,
    spare: Vec<DefaultStack>,
    /// Invariant: a coroutine may borrow for all of `'env`, and no shorter.
    env: PhantomData<&'env mut &'env ()>,
}

/// The side of a coroutine: it gives the thread back.
pub struct Switch<'c>(&'c Yielder<(), ()>);

impl Switch<'_> {
    /// Gives the thread back until the coroutine is resumed.
    #[inline]
    pub fn wait(&self) {
        self.0.suspend(());
    }
}

/// Calls `lead`, which may start coroutines with stacks of `stack` bytes. Those that have not ended
/// when it returns are unwound: each drops what it holds.
pub fn scope<'env, T>(stack: usize, lead: impl FnOnce(&mut Scope<'env>) -> T) -> T {
    let (places, free, spare) = (Vec::new(), Vec::new(), Vec::new());
    lead(&mut Scope { stack, places, free, spare, env: PhantomData })
}

impl<'env> Scope<'env> {
    /// Makes a coroutine that does `work` when it is resumed; returns its place.
    ///
    /// # Errors
    /// No stack can be mapped.
    pub fn start(&mut self, work: impl FnOnce(&Switch<'_>) + 'env) -> io::Result<usize> {
        let stack = match self.spare.pop() {
            Some(stack) => stack,
            None => DefaultStack::new(self.stack)?,
        };
        // SAFETY: what `work` borrows lives for `'env`, which is longer than the call of `scope`.
        // This scope owns the coroutine, only `scope` makes one, and it drops it before it returns:
        // a caller has no more than a reference. So the coroutine ends or is unwound before `'env`
        // does, and is never forgotten.
        let made = unsafe {
            Inner::with_stack_unchecked(stack, move |yielder, ()| work(&Switch(yielder)))
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(made);
        Ok(place)
    }

    /// Runs the coroutine at `place` until it waits or ends; true if it has ended and its place is
    /// free.
    ///
    /// # Errors
    /// The panic that ended it.
    #[inline]
    pub fn resume(&mut self, place: usize) -> thread::Result<bool> {
        let Some(coroutine) = self.places[place].as_mut() else { return Ok(true) };
        // A coroutine that panics is caught at its root, so this frame is unwound only afterwards.
        match catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))) {
            Ok(CoroutineResult::Yield(())) => Ok(false),
            Ok(CoroutineResult::Return(())) => {
                self.vacate(place);
                Ok(true)
            }
            Err(panic) => {
                self.vacate(place);
                Err(panic)
            }
        }
    }

    fn vacate(&mut self, place: usize) {
        self.free.push(place);
        if let Some(ended) = self.places[place].take()
            && ended.done()
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(ended.into_stack());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    const STACK: usize = 64 << 10;

    #[test]
    fn coroutines_take_turns_and_borrow() {
        let seen = RefCell::new(Vec::new());
        scope(STACK, |coroutines| {
            let places: Vec<usize> = (0..3)
                .map(|number| {
                    let seen = &seen;
                    let work = move |switch: &Switch<'_>| {
                        seen.borrow_mut().push(number);
                        switch.wait();
                        seen.borrow_mut().push(number + 10);
                    };
                    coroutines.start(work).expect("a stack")
                })
                .collect();
            assert!(seen.borrow().is_empty());
            let mut turn = || -> Vec<bool> {
                places.iter().map(|&place| coroutines.resume(place).expect("no panic")).collect()
            };
            assert_eq!([turn(), turn()], [vec![false; 3], vec![true; 3]]);
        });
        assert_eq!(seen.into_inner(), [0, 1, 2, 10, 11, 12]);
    }

    #[test]
    fn a_panic_ends_its_coroutine_and_its_stack_is_used_again() {
        scope(STACK, |coroutines| {
            let first = coroutines.start(|_| panic!("as planned")).expect("a stack");
            let panic = coroutines.resume(first).expect_err("it panics");
            assert_eq!(panic.downcast_ref(), Some(&"as planned"));
            assert_eq!(coroutines.spare.len(), 1);
            let second = coroutines.start(|switch| switch.wait()).expect("a stack");
            assert_eq!((second, coroutines.spare.len()), (first, 0));
            assert!(!coroutines.resume(second).expect("no panic"));
        });
    }

    #[test]
    fn those_that_wait_at_the_end_drop_what_they_hold() {
        let (held, unwound) = (Rc::new(()), Cell::new(0));
        struct Count<'a>(&'a Cell<u32>);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        scope(STACK, |coroutines| {
            for is_begun in [true, false] {
                let (held, unwound) = (Rc::clone(&held), &unwound);
                let work = move |switch: &Switch<'_>| {
                    let _held = held;
                    let _count = Count(unwound);
                    switch.wait();
                };
                let place = coroutines.start(work).expect("a stack");
                if is_begun {
                    assert!(!coroutines.resume(place).expect("no panic"));
                }
            }
        });
        assert_eq!((Rc::strong_count(&held), unwound.get()), (1, 1), "one had not begun");
    }

    #[test]
    fn a_stack_that_cannot_be_is_refused() {
        // Nobody has this much address space.
        scope(1 << 50, |coroutines| assert!(coroutines.start(|_| ()).is_err()));
    }
}
