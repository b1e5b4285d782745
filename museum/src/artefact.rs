//! Flawed arms: the code of published experiments, kept so that their figures can be repeated.
//!
//! ```text
//!   build    a compiler that may not optimise, as a parameter of the code that it builds
//!   pool     a pool that takes its one lock for every object, four ways
//!   search   A* and jump point search over linked lists, with an estimate that is too high
//!   ladder   the same searches, one repair at a time
//!   echo     an echo server with five switches, each as it was before and after "optimisation"
//!   program  the commands of a separate process: a heap driven by pipe, a cold start, that server
//! ```
//!
//! Nothing here is meant for use. The unsound parts of the originals (a null pointer followed, a
//! buffer overrun) are left out, because they do not decide a time.

pub mod build;
pub mod echo;
pub mod ladder;
pub mod pool;
pub mod program;
pub mod search;
