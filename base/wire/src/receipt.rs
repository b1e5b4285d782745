//! Receipts: a client's knowledge of an order that it sent, as a line of text.
//!
//! Clients write receipts, and the ledger proves them against each other and against its log.

use std::str::FromStr;

/// The end of an order, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum ReceiptEnd {
    /// Acknowledged, with its number.
    #[display("@{_0}")]
    Placed(u64),
    /// Refused by the market.
    #[display("refused")]
    Refused,
    /// No answer came: it may be in the log or not.
    #[display("unknown")]
    Unknown,
}

/// One order of a client. As text: `CALLED RETURNED STOCK CHANGE #REQUEST @SEQ`, or `refused` or
/// `unknown` in place of `@SEQ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{called} {returned} {stock} {change} #{request} {end}")]
pub struct Receipt {
    /// When it was sent first, on a clock that all clients share.
    pub called: u64,
    /// When its answer came, on the same clock.
    pub returned: u64,
    /// The stock's id.
    pub stock: u32,
    /// The number of shares that the market was to gain.
    pub change: i32,
    /// The client's number.
    pub request: u64,
    /// The answer.
    pub end: ReceiptEnd,
}

impl FromStr for Receipt {
    type Err = String;

    fn from_str(line: &str) -> Result<Receipt, String> {
        let read = || -> Option<Receipt> {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [called, returned, stock, change, request, end] = words[..] else { return None };
            let end = match end {
                "refused" => ReceiptEnd::Refused,
                "unknown" => ReceiptEnd::Unknown,
                placed => ReceiptEnd::Placed(placed.strip_prefix('@')?.parse().ok()?),
            };
            let (called, returned) = (called.parse().ok()?, returned.parse().ok()?);
            let (stock, change) = (stock.parse().ok()?, change.parse().ok()?);
            let request = request.strip_prefix('#')?.parse().ok()?;
            Some(Receipt { called, returned, stock, change, request, end })
        };
        read().ok_or_else(|| {
            format!("expected CALLED RETURNED STOCK CHANGE #REQUEST @SEQ, found `{line}`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        for line in ["0 10 1 -3 #7 @1", "16 30 1 -1 #10 refused", "21 31 1 2 #11 unknown"] {
            assert_eq!(line.parse::<Receipt>().expect("a receipt").to_string(), line);
        }
        for line in ["1 2 3", "0 10 1 -3 7 @1", "0 10 1 -3 #7 1", "0 10 1 -3 #7 @", "a 1 1 1 #1 @1"]
        {
            assert!(line.parse::<Receipt>().is_err(), "{line}");
        }
    }
}
