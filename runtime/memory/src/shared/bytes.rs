//! A byte string of limited length that lies where it is declared.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use seam::Share;

/// Up to `N` bytes. It dereferences to those that are in use; all `N` are copied with it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bytes<const N: usize> {
    len: u32,
    bytes: [u8; N],
}

impl<const N: usize> PartialEq for Bytes<N> {
    fn eq(&self, other: &Bytes<N>) -> bool {
        **self == **other
    }
}

impl<const N: usize> Eq for Bytes<N> {}

// SAFETY: numbers, which are valid if zero, and no pointer.
unsafe impl<const N: usize> Share for Bytes<N> {}

impl<const N: usize> Bytes<N> {
    /// A copy of `text`; `None` if it is longer than `N` bytes.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Bytes<N>> {
        let mut bytes = Bytes { len: 0, bytes: [0; N] };
        bytes.set(text.as_ref()).then_some(bytes)
    }

    /// Holds `text` from now on, and touches no byte behind it; false, and nothing has changed, if
    /// it is longer than `N` bytes.
    #[must_use = "a long text is refused"]
    pub fn set(&mut self, text: &[u8]) -> bool {
        const { assert!(N <= u32::MAX as usize, "a string has up to 2^32 bytes") };
        let Some(place) = self.bytes.get_mut(..text.len()) else { return false };
        place.copy_from_slice(text);
        self.len = text.len() as u32;
        true
    }
}

impl<const N: usize> Deref for Bytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl<const N: usize> AsRef<[u8]> for Bytes<N> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The text; bytes that are not UTF-8 are the replacement character.
impl<const N: usize> fmt::Display for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self))
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
