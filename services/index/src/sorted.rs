//! The sorted array: row numbers in ascending order of their keys, and binary search.
//!
//! The cheapest ordered index for data that rarely changes: four bytes a row, no links, and a walk
//! in order is a walk through memory. Only the numbers are sorted; the keys stay where they are, so
//! a look-up reads two arrays.

/// The row with `wanted` among `rows`, whose keys ascend.
#[inline]
pub fn find<K: Ord>(rows: &[u32], key: impl Fn(u32) -> K, wanted: &K) -> Option<u32> {
    let at = at_least(rows, &key, wanted);
    rows.get(at).copied().filter(|row| key(*row) == *wanted)
}

/// The number of `rows`, whose keys ascend, with a key less than `wanted`: the position of its row,
/// or the position to insert it.
#[inline]
pub fn at_least<K: Ord>(rows: &[u32], key: impl Fn(u32) -> K, wanted: &K) -> usize {
    rows.partition_point(|row| key(*row) < *wanted)
}

#[cfg(test)]
mod tests {
    use super::{at_least, find};

    #[test]
    fn between_and_beyond_the_keys() {
        let keys = [30, 10, 20];
        let rows = [1, 2, 0];
        let key = |row: u32| keys[row as usize];
        for (wanted, place, row) in
            [(5, 0, None), (10, 0, Some(1)), (15, 1, None), (30, 2, Some(0)), (31, 3, None)]
        {
            assert_eq!((at_least(&rows, key, &wanted), find(&rows, key, &wanted)), (place, row));
        }
        assert_eq!(find(&[], key, &10), None);
    }

    #[test]
    fn finds_what_is_there() {
        for len in 0..60 {
            let rows: Vec<u32> = (0..len).collect();
            for wanted in 0..=len * 3 {
                let place = (wanted % 3 == 0 && wanted < len * 3).then_some(wanted / 3);
                assert_eq!(find(&rows, |row| row * 3, &wanted), place, "{wanted} of {len} keys");
            }
        }
    }
}
