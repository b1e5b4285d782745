//! Whether replies fit into the framing: `show` is the longest, and grows with the amounts.

use super::{Options, Stock};
use crate::Market;

/// The minimum room for errors and `help` in a `fixed` framing, in bytes.
const TEXT_MIN: usize = 511;

impl Stock {
    /// Whether every reply of `market` fits into the framing now. Check this once, before the first
    /// connection. If the amounts grow beyond it later, `show` is answered with an error.
    ///
    /// # Errors
    /// How much room is needed.
    pub fn fits(&self, market: &Market) -> Result<(), String> {
        let (show, _) = market.show_len();
        let (framing, text_max) = (self.options.framing, self.options.framing.text_max());
        let too_long = match (show, text_max) {
            _ if show.max(TEXT_MIN) <= text_max => return Ok(()),
            (_, TEXT_MIN..) => format!(
                "`show` of {} stocks takes {show} bytes; serve fewer stocks, or use --framing line",
                market.len()
            ),
            _ => format!(
                "errors and `help` take up to {TEXT_MIN} bytes; the course's framing is fixed:8192"
            ),
        };
        Err(format!(
            "expected every reply to fit into the {text_max} text bytes of framing {framing}, \
             found that {too_long}"
        ))
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
