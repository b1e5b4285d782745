//! State that may lie in memory shared by several processes.

use core::fmt;

use crate::WorkerId;

/// State that all workers share, and that the launcher can place in any memory.
///
/// With one process it lies in private memory, with several in a shared mapping made before the
/// fork; type and code are the same.
///
/// # Safety
/// The implementer promises three things. The all-zero bytes are a valid value. The value holds no
/// pointer, reference, `Box`, `Vec`, `Arc`, standard lock or destructor. All data that changes
/// through `&self` is atomic or lies behind a lock that works between processes.
pub unsafe trait Share: Sync + Sized + 'static {
    /// Fills the zeroed value, once, before the first worker exists: constant
    /// fields can therefore be plain.
    ///
    /// # Errors
    /// [`BadSeed`] names the expected part of `seed`, the text found and the remedy.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed>;

    /// Releases everything that the worker `dead` held when it ended; the supervisor calls it
    /// before a successor starts.
    fn heal(&self, dead: WorkerId) {
        let _ = dead;
    }
}

/// For services that share nothing.
// SAFETY: a unit has no bytes.
unsafe impl Share for () {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        Ok(())
    }
}

/// The reason that a state could not be initialised, in words for the author of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSeed(pub String);

impl fmt::Display for BadSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSeed {}
