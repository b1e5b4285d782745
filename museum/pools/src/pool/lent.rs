//! An object that a worker has lent, as a value that owns it.

use std::mem::forget;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::Handle;
use super::shared::Shared;

/// An object lent from a [`Shared`] pool: the only way to it, like a `Box`.
///
/// [`crate::Worker::take`] is the fastest way to return it. Dropping it anywhere works too and
/// costs one compare-and-swap.
pub struct Lent<'p, T> {
    pub(super) index: u32,
    pub(super) pool: &'p Shared<T>,
}

// SAFETY: a `Lent` owns its T, as a `Box` does; the pool behind it is `Sync` for such a T.
unsafe impl<T: Send> Send for Lent<'_, T> {}
// SAFETY: `&Lent<T>` gives `&T`.
unsafe impl<T: Send + Sync> Sync for Lent<'_, T> {}

impl<T> Lent<'_, T> {
    /// Where the object lies.
    #[inline]
    pub(super) fn place(&self) -> NonNull<T> {
        self.pool.arena.at(self.index).cast()
    }

    /// Leaves the object in the pool under a handle, which can travel as a number: through the
    /// kernel, or in a packet. [`Shared::claim`] gets the object back, once.
    #[must_use = "an object whose handle is lost stays in the pool until its end"]
    pub fn detach(self) -> Handle<T> {
        let (pool, index) = (self.pool, self.index);
        forget(self);
        let word = &pool.meta(index).life;
        let life = word.load(Ordering::Relaxed) + 1;
        // Release: the claimer sees the object.
        word.store(life, Ordering::Release);
        Handle::new(pool.tag, index, life)
    }

    /// The object's address, for the kernel: valid for one `T` while it is lent or detached.
    #[must_use]
    pub fn pointer(&mut self) -> NonNull<T> {
        self.place()
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot holds a T for as long as this lives.
        unsafe { self.place().as_ref() }
    }
}

impl<T> DerefMut for Lent<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and there is no other way to it.
        unsafe { self.place().as_mut() }
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Lent<'_, T> {
    fn as_ref(&self) -> &[u8] {
        (**self).as_ref()
    }
}

impl<T: AsMut<[u8]>> AsMut<[u8]> for Lent<'_, T> {
    fn as_mut(&mut self) -> &mut [u8] {
        (**self).as_mut()
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the slot holds a T that is not reached again.
        unsafe { self.place().drop_in_place() };
        self.pool.strayed.fetch_add(1, Ordering::Relaxed);
        if self.pool.end(self.index) {
            self.pool.stray(self.index);
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Lent<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
