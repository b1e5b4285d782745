//! The most common spelling of an order, parsed without the command table.
//!
//! A busy server sees almost nothing but `buy 5 3\n`. [`common`] parses that spelling only: single
//! blanks and at most nine digits. Everything else goes to [`crate::command::parse`]. A test
//! checks that both agree.

/// The direction in which stock moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum Side {
    /// To the peer.
    #[display("buy")]
    Buy,
    /// From the peer.
    #[display("sell")]
    Sell,
}

/// An order; whether the stock exists is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trade {
    /// Buy or sell.
    pub side: Side,
    /// Which stock; at least 1.
    pub id: u32,
    /// How many; at least 1.
    pub count: u32,
}

/// The order at the front of `input`, if it is complete and in the common spelling, and the length
/// of its line.
#[inline]
pub fn common(input: &[u8]) -> Option<(Trade, usize)> {
    let (side, rest) = if let Some(rest) = input.strip_prefix(b"buy ") {
        (Side::Buy, rest)
    } else {
        (Side::Sell, input.strip_prefix(b"sell ")?)
    };
    let (id, rest) = number(rest, b' ')?;
    let (count, rest) = number(rest, b'\n')?;
    (id > 0 && count > 0).then(|| (Trade { side, id, count }, input.len() - rest.len()))
}

/// The number of one to nine digits before `end`, and the input after `end`.
#[inline]
fn number(text: &[u8], end: u8) -> Option<(u32, &[u8])> {
    const DIGITS_MAX: usize = 9;
    let mut number = 0;
    for (at, byte) in text.iter().enumerate().take(DIGITS_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*byte == end && at > 0).then(|| (number, &text[at + 1..]));
        }
        if at == DIGITS_MAX {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Side, Trade, common};
    use crate::command::{self, Request};
    use stats::Rng;
    use wire::line::{self, Next};

    fn check(input: &str, expected: Option<(Side, u32, u32, usize)>) {
        let found = common(input.as_bytes())
            .map(|(Trade { side, id, count }, used)| (side, id, count, used));
        assert_eq!(found, expected, "{input:?}");
    }

    #[test]
    fn the_common_spelling_and_nothing_else() {
        check("buy 5 3\n", Some((Side::Buy, 5, 3, 8)));
        check("sell 999999999 1\nbuy", Some((Side::Sell, 999_999_999, 1, 17)));
        check("buy 007 010\n", Some((Side::Buy, 7, 10, 12)));
        for other in "\
            |b|buy|buy |buy 5|buy 5 |buy 5 3|buy 5 3\r\n|buy 5  3\n|buy  5 3\n|buy 5 3 \n|\
            buy 1000000000 1\n|buy 0 1\n|buy 1 0\n|buy -1 1\n|buy 1\n|buy 1 \n|show\n|\
            Buy 1 1\n| buy 1 1\n|buy 1\n1\n"
            .split('|')
        {
            check(other, None);
        }
    }

    #[test]
    fn what_it_recognises_the_table_reads_alike() {
        let mut rng = Rng::new(1);
        let (mut recognised, mut input) = (0, Vec::new());
        for _ in 0..20_000 {
            input.clear();
            input.extend_from_slice(rng.pick(&["buy", "sell", "sel"]).as_bytes());
            input.extend_from_slice(rng.pick(&[" ", "  "]).as_bytes());
            (0..rng.below(12)).for_each(|_| input.push(*rng.pick(b"0123456789-")));
            input.push(*rng.pick(b" \t"));
            (0..rng.below(12)).for_each(|_| input.push(*rng.pick(b"0123456789")));
            input.extend_from_slice(rng.pick(&["\n", "\r\n", "\nbuy"]).as_bytes());
            let Some((Trade { side, id, count }, len)) = common(&input) else { continue };
            recognised += 1;
            let Next::Line { text, used } = line::next(&input, 8191) else {
                panic!("a trade without a line");
            };
            assert_eq!(used, len);
            let request = Request::Trade(Trade { side, id, count });
            assert_eq!(command::parse(text, false).request.ok(), Some(request));
        }
        assert!(recognised > 300, "{recognised} of 20,000");
    }
}
