//! State that may lie in memory shared by several processes.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

use crate::WorkerId;

/// State that all workers share, and that the launcher can place in any memory.
///
/// With one process it lies in private memory, with several in a shared mapping made before the
/// fork; type and code are the same.
///
/// Numbers, atomics, arrays of such values and the types of the crate `memory` are states;
/// [`share!`](crate::share) makes a state of several of them without `unsafe`.
///
/// # Safety
/// The implementer promises three things. The all-zero bytes are a valid value. The value holds no
/// pointer, reference, `Box`, `Vec`, `Arc`, standard lock or destructor. All data that changes
/// through `&self` is atomic or lies behind a lock that works between processes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot lie in memory that worker processes share",
    label = "expected numbers, atomics, arrays, or types of `roundhouse::shared`",
    note = "a pointer (`Box`, `Vec`, `String`, `Arc`, `HashMap`) means nothing in another process: \
            take `Bytes` or `Map` instead",
    note = "declare a state of several fields with `share! {{ struct NAME {{ .. }} }}`"
)]
pub unsafe trait Share: Send + Sync + Sized + 'static {
    /// Fills the zeroed value, once, before the first worker exists: constant
    /// fields can therefore be plain.
    ///
    /// # Errors
    /// [`BadSeed`] names the expected part of `seed`, the text found and the remedy.
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let _ = seed;
        Ok(())
    }

    /// Releases everything that a worker held when it ended. The supervisor alone can call it:
    /// locks would guard nothing if the worker lived.
    fn heal(&self, dead: Dead) {
        let _ = dead;
    }
}

/// The proof that a worker has ended, for [`Share::heal`].
///
/// Nobody makes one without `unsafe`:
///
/// ```compile_fail,E0133
/// let dead = seam::Dead::sworn(seam::WorkerId::new(0, 1));
/// ```
/// ```compile_fail,E0423
/// let dead = seam::Dead(seam::WorkerId::new(0, 1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dead(WorkerId);

impl Dead {
    /// Takes the caller's word for it.
    ///
    /// # Safety
    /// The worker has ended, as its thread or process has, and no successor has started in its
    /// slot. Until the proof is gone, none does.
    pub const unsafe fn sworn(worker: WorkerId) -> Dead {
        Dead(worker)
    }

    /// The worker.
    pub const fn worker(self) -> WorkerId {
        self.0
    }
}

/// For services that share nothing.
// SAFETY: a unit has no bytes.
unsafe impl Share for () {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: zero is a value, there is no pointer, and only atomics change through `&self`.
        unsafe impl Share for $type {}
    )*};
}

plain!(bool, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
plain!(AtomicBool, AtomicU32, AtomicU64, AtomicUsize, AtomicI32, AtomicI64);

// SAFETY: each element keeps the promises, and an array is nothing but its elements.
unsafe impl<T: Share, const N: usize> Share for [T; N] {
    fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        self.iter_mut().try_for_each(|each| each.init(seed))
    }

    fn heal(&self, dead: Dead) {
        self.iter().for_each(|each| each.heal(dead));
    }
}

/// Declares a state that all workers share, threads or processes: a `#[repr(C)]` struct whose
/// fields are [`Share`], which the compiler checks. Attributes and visibility are as in Rust; there
/// are no type parameters.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
///
/// seam::share! {
///     /// The visits of each of eight doors.
///     pub struct Visits {
///         doors: [AtomicU64; 8],
///     }
/// }
///
/// fn visit(visits: &Visits, door: usize) -> u64 {
///     visits.doors[door].fetch_add(1, Ordering::Relaxed)
/// }
/// ```
///
/// A field on the heap is refused, and so is a destructor:
///
/// ```compile_fail
/// seam::share! { struct Names { names: Vec<String> } }
/// ```
/// ```compile_fail
/// seam::share! { struct Door { visits: u64 } }
/// impl Drop for Door { fn drop(&mut self) {} }
/// ```
#[macro_export]
macro_rules! share {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$field_about:meta])* $field_visible:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[repr(C)]
        $visible struct $name {
            $($(#[$field_about])* $field_visible $field: $type,)*
        }

        const _: () = {
            assert!(
                !::core::mem::needs_drop::<$name>(),
                "expected no destructor in a shared state: no `impl Drop`, no field on the heap",
            );
        };

        // SAFETY: `init` and `heal` compile only if each field is `Share`, and the struct is
        // nothing but its fields.
        unsafe impl $crate::Share for $name {
            fn init(&mut self, seed: &[u8]) -> ::core::result::Result<(), $crate::BadSeed> {
                let _ = seed;
                $(<$type as $crate::Share>::init(&mut self.$field, seed)?;)*
                Ok(())
            }

            fn heal(&self, dead: $crate::Dead) {
                let _ = dead;
                $(<$type as $crate::Share>::heal(&self.$field, dead);)*
            }
        }
    };
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
