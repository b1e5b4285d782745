//! A byte string of limited length that lies where it is declared.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use seam::Share;

/// Up to `N` bytes. It dereferences to those that are in use; all `N` are copied with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Bytes<const N: usize> {
    len: u32,
    /// Zeros from `len` on, so that equal strings are equal as a whole.
    bytes: [u8; N],
}

// SAFETY: numbers, which are valid if zero, and no pointer.
unsafe impl<const N: usize> Share for Bytes<N> {}

impl<const N: usize> Bytes<N> {
    /// A copy of `text`; `None` if it is longer than `N` bytes.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Bytes<N>> {
        let text = text.as_ref();
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Bytes { len: u32::try_from(text.len()).ok()?, bytes })
    }
}

impl<const N: usize> Deref for Bytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl<const N: usize> Borrow<[u8]> for Bytes<N> {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl<const N: usize> Hash for Bytes<N> {
    /// As the slice, which [`Borrow`] demands.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (**self).hash(hasher);
    }
}
