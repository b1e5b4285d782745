//! A compiler that may not optimise, as a parameter of the code it builds.
//!
//! The published programs were built with optimisation off, where every accessor is a call and
//! every value goes through memory. A program cannot be built both ways at once, so code that runs
//! in both ways sends its accessors through [`Build::call`]: [`Optimised`] inlines them, [`Plain`]
//! makes each a call whose result is stored and loaded. It is a model: it leaves out the loop
//! counters and temporaries that such a compiler also keeps in memory, so it understates the cost.

use std::hint::black_box;

/// The compilation of accessors.
pub trait Build: 'static {
    /// An accessor.
    fn call<T>(make: impl FnOnce() -> T) -> T;
}

/// As a release is built.
#[derive(Clone, Copy, Debug)]
pub struct Optimised;

impl Build for Optimised {
    #[inline(always)]
    fn call<T>(make: impl FnOnce() -> T) -> T {
        make()
    }
}

/// As the published programs were built.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Build for Plain {
    #[inline(never)]
    fn call<T>(make: impl FnOnce() -> T) -> T {
        black_box(black_box(make)())
    }
}
