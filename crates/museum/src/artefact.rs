//! Flawed arms: what published experiments really ran, kept so that their figures can be repeated.
//!
//! ```text
//!   build    a compiler that may not optimise, as a parameter of the code that it builds
//!   chain    a list and a plain tree, a node from the heap each
//!   pool     a pool that takes its one lock for every object, four ways
//!   search   A* and jump point search over linked lists, with an estimate that is too high
//!   ladder   the same searches, one repair at a time
//!   echo     an echo server with five switches, each as it was before and after "optimisation"
//!   program  what runs in a process of its own: a heap asked by pipe, a cold start, that server
//! ```
//!
//! Nothing here is meant for use. What is unsound in the originals (a null pointer followed, a
//! buffer overrun) is left out, because it does not decide a time.

pub mod build;
pub mod chain;
pub mod echo;
pub mod ladder;
pub mod pool;
pub mod program;
pub mod search;
