//! Response times as Locust's histogram keys: milliseconds with decimals.
//!
//! A master sums `{key: count}` maps over its workers and sorts the keys, which may be any numbers.
//! Workers in other languages send whole milliseconds, so that on a fast server each of their
//! percentiles is 0 or 1. Ours are rounded to steps of a fiftieth of their decade, at most 1 % off,
//! such as 0.0432 or 1.26 or 348. Such steps keep maps small (450 keys per decade), and the
//! decimals short, because Locust's page prints them as they are. Equal steps are equal bits: the
//! key is the double nearest to the decimal, so that two workers never produce two rows for one
//! step.

/// Steps in a decade, for each unit of its leading digit.
const STEPS: u64 = 50;

/// The key (ms) for a time (ns).
pub fn key_ms(ns: u64) -> f64 {
    // Division by a power of ten is correctly rounded, so this is the double nearest to the
    // decimal.
    rounded_ns(ns) as f64 / 1e6
}

/// A time (ns) rounded to its step.
pub fn rounded_ns(ns: u64) -> u64 {
    // Times beyond two centuries do not occur, and would overflow below.
    let ns = ns.min(i64::MAX as u64);
    let decade = 10u64.pow(ns.max(1).ilog10());
    let step = (decade / STEPS).max(1);
    (ns + step / 2) / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ns: u64, text: &str) {
        let key = key_ms(ns);
        assert_eq!(format!("{key}"), text, "{ns} ns");
        assert_eq!(text.parse(), Ok(key), "{ns} ns: the double that the decimal names");
    }

    #[test]
    fn keys_are_short_decimals_of_milliseconds() {
        check(0, "0");
        check(1, "0.000001");
        check(99, "0.000099");
        check(43_217, "0.0432");
        check(431_999, "0.432");
        check(999_999, "1");
        check(1_000_000, "1");
        check(1_009_999, "1");
        check(1_010_000, "1.02");
        check(147_449_000, "148");
        check(3_432_000_000, "3440");
        check(u64::MAX, "9220000000000");
    }

    #[test]
    fn a_key_is_within_one_percent_and_never_falls() {
        let (mut ns, mut last, mut keys) = (1u64, 0.0, 0);
        while ns < 100_000_000_000 {
            let key = key_ms(ns);
            assert!((key * 1e6 - ns as f64).abs() <= ns as f64 * 0.0101, "{ns} ns became {key} ms");
            assert!(key >= last, "{ns} ns became {key} ms after {last}");
            keys += u32::from(key > last);
            last = key;
            ns += 1 + ns / 1000;
        }
        assert!(keys < 11 * 450, "{keys} keys from 1 ns to 100 s");
    }
}
