//! Whether replies fit into the framing: `show` is the longest, and grows with the amounts.

use std::fmt;

use wire::framing::Framing;

use super::{Options, Stock};
use crate::Market;

/// The minimum room for errors and `help` in a `fixed` framing, in bytes.
const TEXT_MIN: usize = 511;

/// The replies do not fit into the framing, so the server must not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooNarrow {
    stocks: usize,
    /// The length of `show` in bytes.
    show: usize,
    framing: Framing,
}

impl Stock {
    /// Whether every reply of `market` fits into the framing now. Check this once, before the first
    /// connection. If the amounts grow beyond it later, `show` is answered with an error.
    ///
    /// # Errors
    /// [`TooNarrow`] says how much room is needed.
    pub fn fits(&self, market: &Market) -> Result<(), TooNarrow> {
        let (show, _) = market.show_len();
        if show.max(TEXT_MIN) <= self.options.framing.text_max() {
            return Ok(());
        }
        Err(TooNarrow { stocks: market.len(), show, framing: self.options.framing })
    }

    /// A note to the operator if `show` fits now and may not when the amounts have grown.
    pub fn outgrown(&self, market: &Market) -> Option<String> {
        let (_, longest) = market.show_len();
        let Options { framing, .. } = self.options;
        (longest > framing.text_max()).then(|| {
            format!(
                "framing {framing}: `show` fits now, and is answered with an error once it is \
                 longer than {} bytes because amounts have grown",
                framing.text_max()
            )
        })
    }
}

impl fmt::Display for TooNarrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooNarrow { stocks, show, framing } = self;
        write!(
            f,
            "expected every reply to fit into the {} text bytes of framing {framing}, found that ",
            framing.text_max(),
        )?;
        if TEXT_MIN <= framing.text_max() {
            let advice = "serve fewer stocks, or use --framing line";
            return write!(f, "`show` of {stocks} stocks takes {show} bytes; {advice}");
        }
        write!(
            f,
            "errors and `help` take up to {TEXT_MIN} bytes; the course's framing is fixed:8192"
        )
    }
}

impl std::error::Error for TooNarrow {}
