//! The windows of a second from which rates are computed.

use std::time::Duration;

use seam::Instant;

use crate::status::Rates;

/// The minimum length of a window; it ends when the supervisor wakes after that.
const WINDOW: Duration = Duration::from_secs(1);

/// The counts at the beginning of the present window, and the results of the last one.
#[derive(Debug, Default)]
pub(super) struct Windows {
    since: Option<(Instant, memory::Totals)>,
    pub rates: Rates,
}

impl Windows {
    /// The end of the present window.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.since.map(|(begun, _)| begun + WINDOW)
    }

    /// Ends the window if its time is over, and begins the next.
    pub(super) fn look(&mut self, now: Instant, totals: impl FnOnce() -> memory::Totals) {
        if self.wakes_at().is_some_and(|moment| now < moment) {
            return;
        }
        let totals = totals();
        if let Some((begun, before)) = self.since.replace((now, totals)) {
            let window = now.since(begun);
            let rate = |now: u64, before: u64| {
                now.saturating_sub(before) as f64 / window.as_secs_f64().max(1e-9)
            };
            let (accepted, answered) =
                (rate(totals.accepted, before.accepted), rate(totals.answered, before.answered));
            self.rates = Rates {
                window_ns: window.as_nanos() as u64,
                accepted,
                answered,
                bytes_in: rate(totals.bytes_in, before.bytes_in),
                bytes_out: rate(totals.bytes_out, before.bytes_out),
                accepted_max: self.rates.accepted_max.max(accepted),
                answered_max: self.rates.answered_max.max(answered),
                open_max: self.rates.open_max.max(totals.open),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_belongs_to_its_window_and_the_highest_stays() {
        let mut windows = Windows::default();
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let counts = |answered: u64, open: u64| memory::Totals {
            answered,
            accepted: answered / 10,
            open,
            ..memory::Totals::default()
        };
        windows.look(at(5000), || counts(100, 1));
        assert_eq!((windows.rates.clone(), windows.wakes_at()), (Rates::default(), Some(at(6000))));
        windows.look(at(5999), || panic!("it is not over"));
        windows.look(at(7000), || counts(700, 9));
        assert_eq!((windows.rates.answered, windows.rates.accepted), (300.0, 30.0));
        windows.look(at(8000), || counts(710, 2));
        let Rates { answered, answered_max, open_max, window_ns, .. } = windows.rates;
        assert_eq!((answered, answered_max, open_max), (10.0, 300.0, 9));
        assert_eq!(window_ns, 1_000_000_000);
    }
}
