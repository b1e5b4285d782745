//! Why a service closed connections: printed after the last client has left and at the end.

use engines::StateStore;
use engines::status::Gauge;
use language::info;

/// Prints the counts of `N` reasons that the state `S` holds, and keeps nothing.
pub struct CloseTally<S, const N: usize> {
    words: [&'static str; N],
    counts: fn(&S) -> [u64; N],
    printed: [u64; N],
    gauges: fn(&S) -> Vec<Gauge>,
}

impl<S, const N: usize> CloseTally<S, N> {
    /// Each reason is the predicate of a sentence, such as "closed for a malformed packet".
    pub fn new(words: [&'static str; N], counts: fn(&S) -> [u64; N]) -> CloseTally<S, N> {
        CloseTally { words, counts, printed: [0; N], gauges: |_| Vec::new() }
    }

    /// With figures for whoever watches the server.
    #[must_use]
    pub fn with_gauges(self, gauges: fn(&S) -> Vec<Gauge>) -> CloseTally<S, N> {
        CloseTally { gauges, ..self }
    }

    /// The sentences about counts that changed since the last call.
    fn news(&mut self, state: &S) -> Vec<String> {
        let counts = (self.counts)(state);
        let before = std::mem::replace(&mut self.printed, counts);
        let all = self.words.iter().zip(counts.into_iter().zip(before));
        let fresh = all.filter(|(_, (count, before))| count != before);
        fresh
            .map(|(words, (count, _))| {
                let plural = if count == 1 { "" } else { "s" };
                format!("{count} connection{plural} {words}")
            })
            .collect()
    }
}

impl<S, const N: usize> StateStore<S> for CloseTally<S, N> {
    fn is_changed(&mut self, state: &S) -> bool {
        self.printed != (self.counts)(state)
    }

    fn save(&mut self, state: &S) -> Result<(), String> {
        self.news(state).iter().for_each(|sentence| info!("{sentence}"));
        Ok(())
    }

    fn gauges(&self, state: &S) -> Vec<Gauge> {
        (self.gauges)(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_when_they_change() {
        let words = ["closed for a malformed packet", "disconnected by the operator"];
        let mut tally: CloseTally<[u64; 2], 2> = CloseTally::new(words, |state| *state);
        assert!(!tally.is_changed(&[0, 0]) && tally.is_changed(&[1, 0]));
        assert_eq!(tally.news(&[1, 0]), ["1 connection closed for a malformed packet"]);
        assert_eq!(tally.news(&[1, 2]), ["2 connections disconnected by the operator"]);
        assert_eq!(tally.news(&[1, 2]), [""; 0]);
    }
}
