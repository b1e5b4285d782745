//! Proves a history of orders from the receipts of its clients: each order once, in one order that
//! no client can contradict, and the same as in the log. Sorting is the costliest step, so millions
//! of receipts take seconds.

use std::collections::HashMap;

use wire::receipt::{Receipt, ReceiptEnd};

use crate::OrderRecord;

/// A history without contradiction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryProof {
    /// Orders that were acknowledged.
    pub placed: u64,
    /// Orders that the market refused.
    pub refused: u64,
    /// Orders without an answer that the log has.
    pub unknown_placed: u64,
    /// Orders without an answer that it does not have, or that cannot be looked up.
    pub unknown_absent: u64,
}

/// Checks `receipts`; `log` has all orders after number `.0`, if the log is known.
///
/// # Errors
/// The first contradiction, in words.
pub fn prove(
    mut receipts: Vec<Receipt>,
    log: Option<(u64, &[OrderRecord])>,
) -> Result<HistoryProof, String> {
    let mut proof = HistoryProof::default();
    let mut by_request = HashMap::with_capacity(receipts.len());
    for receipt in &receipts {
        if by_request.insert(receipt.request, *receipt).is_some() {
            return Err(format!("expected one receipt of #{}, found two", receipt.request));
        }
    }
    let (after, orders) = log.unwrap_or((u64::MAX, &[]));
    for order in orders {
        let OrderRecord { seq, request, stock, change, .. } = *order;
        let Some(receipt) = by_request.get(&request) else {
            return Err(format!("expected a receipt of order {seq}, #{request}, found none"));
        };
        if (receipt.stock, receipt.change) != (stock, change) {
            return Err(format!("order {seq} differs from its receipt #{request}"));
        }
        match receipt.end {
            ReceiptEnd::Placed(number) if number == seq => {}
            ReceiptEnd::Unknown => proof.unknown_placed += 1,
            found => return Err(format!("order {seq} is in the log, its receipt says {found}")),
        }
    }
    let unknown = receipts.iter().filter(|it| it.end == ReceiptEnd::Unknown).count() as u64;
    proof.refused = receipts.iter().filter(|it| it.end == ReceiptEnd::Refused).count() as u64;
    proof.unknown_absent = unknown - proof.unknown_placed;
    receipts.retain(|receipt| matches!(receipt.end, ReceiptEnd::Placed(_)));
    proof.placed = receipts.len() as u64;
    receipts.sort_unstable_by_key(seq);
    gapless(&receipts, unknown)?;
    let end = after.saturating_add(orders.len() as u64);
    if let Some(lost) = receipts.last().map(seq).filter(|last| *last > end) {
        return Err(format!("order {lost} was acknowledged and is not in the log"));
    }
    timely(&receipts)?;
    Ok(proof)
}

fn seq(receipt: &Receipt) -> u64 {
    if let ReceiptEnd::Placed(seq) = receipt.end { seq } else { 0 }
}

/// Each number once, and no more of them missing than orders without an answer.
fn gapless(sorted: &[Receipt], unknown: u64) -> Result<(), String> {
    let mut missing = 0;
    for pair in sorted.windows(2) {
        let (one, next) = (seq(&pair[0]), seq(&pair[1]));
        if one == next {
            let (first, second) = (pair[0].request, pair[1].request);
            return Err(format!("expected one order {one}, found #{first} and #{second}"));
        }
        missing += next - one - 1;
        if missing > unknown {
            return Err(format!(
                "expected at most {unknown} orders missing, found more up to {next}"
            ));
        }
    }
    Ok(())
}

/// An order that was answered before another was sent comes before it.
fn timely(sorted: &[Receipt]) -> Result<(), String> {
    let mut soonest: Option<&Receipt> = None;
    for receipt in sorted.iter().rev() {
        if let Some(later) = soonest.filter(|later| later.returned < receipt.called) {
            return Err(format!(
                "order {} was answered before order {} was sent",
                seq(later),
                seq(receipt)
            ));
        }
        if soonest.is_none_or(|later| receipt.returned < later.returned) {
            soonest = Some(receipt);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: &str = "\
        0 10 1 -3 #7 @1
        5 20 2 4 #8 @3
        5 15 1 -1 #9 @2
        16 30 1 -1 #10 refused
        21 31 1 -2 #11 unknown
        40 50 1 5 #12 @5";

    fn log() -> Vec<OrderRecord> {
        let order =
            |(seq, request, stock, change)| OrderRecord { seq, request, stock, change, left: 0 };
        [(1, 7, 1, -3), (2, 9, 1, -1), (3, 8, 2, 4), (4, 11, 1, -2), (5, 12, 1, 5)]
            .map(order)
            .to_vec()
    }

    fn check(from: &str, to: &str, with_log: bool, objection: &str) {
        let text = HONEST.replace(from, to);
        let receipts = text.lines().map(|line| line.parse().expect("a receipt")).collect();
        let log = log();
        let found = prove(receipts, with_log.then_some((0, &log[..])));
        let found = found.map_or_else(|found| found, |proof| format!("{proof:?}"));
        assert!(found.contains(objection), "{from} -> {to}: {found}");
    }

    #[test]
    fn an_honest_history_is_proved_and_others_are_not() {
        check("-", "-", false, "placed: 4, refused: 1, unknown_placed: 0, unknown_absent: 1");
        check("-", "-", true, "placed: 4, refused: 1, unknown_placed: 1, unknown_absent: 0");
        check("#8", "#7", true, "one receipt of #7");
        check("@3", "@1", false, "one order 1");
        check("@5", "@9", false, "at most 1 orders missing");
        check("@5", "@6", true, "its receipt says @6");
        check("#10 refused", "#10 @6", true, "order 6 was acknowledged and is not in the log");
        check("#11 unknown", "#11 refused", true, "order 4 is in the log, its receipt says");
        check("#11", "#13", true, "a receipt of order 4, #11");
        check("1 -3", "1 -2", true, "differs from its receipt");
        check("40 50 1 5 #12 @5", "0 1 1 5 #12 @5", false, "order 5 was answered before order");
    }
}
