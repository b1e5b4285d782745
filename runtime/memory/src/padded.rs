//! Keeps two workers' words out of one cache line.

/// A value that has 128 bytes, or a multiple, to itself.
///
/// A line has 64 bytes on x86-64, but its processors fetch lines in aligned pairs (Intel 64 and
/// IA-32 Architectures Optimization Reference Manual, spatial prefetcher), so neighbours at 64
/// bytes still invalidate each other's line. On some aarch64 processors a line has 128 bytes.
#[derive(Debug, Default, derive_more::Deref)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

#[cfg(test)]
mod tests {
    use super::Padded;

    #[test]
    fn neighbours_share_no_pair_of_lines() {
        assert_eq!((size_of::<Padded<u8>>(), align_of::<Padded<u8>>()), (128, 128));
        assert_eq!(size_of::<Padded<[u8; 129]>>(), 256);
        assert_eq!(*Padded(7), 7);
    }
}
