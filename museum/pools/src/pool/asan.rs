//! Tells AddressSanitizer which slots are free, in programs that are compiled with it.
//!
//! To the sanitizer a pool is one live piece of memory, so it would miss every misuse inside. The
//! two calls are its interface for allocators (`sanitizer/asan_interface.h` of LLVM's compiler-rt);
//! the feature `asan` enables them, beside `-Zsanitizer=address`. Guarded slots stay accessible,
//! because the pool reads their poison.

use std::ptr::NonNull;

mod interface {
    unsafe extern "C" {
        pub(super) fn __asan_poison_memory_region(start: *const std::ffi::c_void, len: usize);
        pub(super) fn __asan_unpoison_memory_region(start: *const std::ffi::c_void, len: usize);
    }
}

/// From now on an access to these `len` bytes of a pool's memory stops the program.
pub(super) fn hide(start: NonNull<u8>, len: usize) {
    // SAFETY: the call changes the sanitizer's notes on the bytes, not the bytes. They belong to a
    // pool, which shows them before it uses them.
    unsafe { interface::__asan_poison_memory_region(start.as_ptr().cast(), len) }
}

/// From now on these `len` bytes may be used.
pub(super) fn show(start: NonNull<u8>, len: usize) {
    // SAFETY: as above.
    unsafe { interface::__asan_unpoison_memory_region(start.as_ptr().cast(), len) }
}
