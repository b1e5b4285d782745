//! Whole numbers to decimal digits and back. Replies and files are mostly numbers, so writing
//! bypasses `core::fmt`, and reading takes bytes that need not be text.

/// The maximum number of digits of a `u64`.
pub const DIGITS_MAX: usize = 20;

/// `00` to `99`: one division yields two digits.
const PAIRS: [[u8; 2]; 100] = pairs();

const fn pairs() -> [[u8; 2]; 100] {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
}

/// Appends the digits of `number` to `out`.
#[inline]
pub fn push(out: &mut Vec<u8>, number: u64) {
    match number {
        0..10 => return out.push(b'0' + number as u8),
        10..100 => return out.extend_from_slice(&PAIRS[number as usize]),
        _ => {}
    }
    let mut digits = [0; DIGITS_MAX];
    let start = fill(&mut digits, number);
    out.extend_from_slice(&digits[start..]);
}

/// The number of digits of `number`; at least 1.
pub fn width(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes the digits of `number` to the end of `place` and returns where they start, so a line can
/// be built backwards without moving a byte.
///
/// # Panics
/// If `place` is shorter than the number; [`DIGITS_MAX`] bytes are always enough.
#[inline]
pub fn fill(place: &mut [u8], number: u64) -> usize {
    let mut rest = number;
    let mut start = place.len();
    while rest >= 10 {
        start -= 2;
        place[start..start + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest > 0 || start == place.len() {
        start -= 1;
        place[start] = b'0' + rest as u8;
    }
    start
}

/// Why the bytes are not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// Empty, or a byte that is not a digit (signs and blanks are not).
    NotDigits,
    /// More than fits in a `u64`.
    Overflow,
}

/// Parses `text`; leading zeros are allowed.
///
/// # Errors
/// [`Bad`] says why `text` is not a number.
pub fn parse(text: &[u8]) -> Result<u64, Bad> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(Bad::NotDigits);
    }
    let digit =
        |number: u64, byte: &u8| number.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    text.iter().try_fold(0, digit).ok_or(Bad::Overflow)
}

#[cfg(test)]
mod tests {
    use super::{Bad, parse, push, width};

    fn check(number: u64) {
        let mut out = b"x".to_vec();
        push(&mut out, number);
        assert_eq!(out, format!("x{number}").as_bytes());
        assert_eq!(parse(&out[1..]), Ok(number));
        assert_eq!(width(number), out.len() - 1);
    }

    #[test]
    fn numbers_around_every_power_of_ten() {
        for power in (0..20).map(|exponent| 10u64.pow(exponent)) {
            [power - 1, power, power + 1].into_iter().for_each(check);
        }
        (0..1200).for_each(check);
        check(u64::MAX);
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", "-1", "+1", " 1", "1 ", "1a", "\u{661}", "0x1"] {
            assert_eq!(parse(text.as_bytes()), Err(Bad::NotDigits), "{text:?}");
        }
        assert_eq!(parse(b"18446744073709551616"), Err(Bad::Overflow));
        assert_eq!(parse(b"99999999999999999999999"), Err(Bad::Overflow));
        assert_eq!(parse(b"000000000000000000000000000007"), Ok(7));
    }
}
