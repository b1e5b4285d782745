//! The search for the highest value that passes: doubles until one fails, then bisects.
//!
//! After mutilate's `--search` and Nighthawk's adaptive load. The value is approached from below,
//! because a server that was just overloaded behaves differently. The search is pure: the caller's
//! probe runs whatever there is to run.

/// How a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The first value.
    pub begin: f64,
    /// The lowest value that is tried.
    pub least: f64,
    /// A value that fails before any has passed is divided by this.
    pub shrink: f64,
    /// The search ends when the edges are closer than this, as a share.
    pub resolution: f64,
    /// The most probes.
    pub probes_max: usize,
}

/// Why a value is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BracketStep {
    /// No value has failed yet.
    Raise,
    /// No value has passed yet.
    Lower,
    /// Between the two.
    Bisect,
}

/// The edges that a search has found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BracketEdges {
    /// The highest value that passed.
    pub passed: Option<f64>,
    /// The lowest value that failed.
    pub failed: Option<f64>,
}

impl BracketEdges {
    fn step(self) -> BracketStep {
        match (self.passed, self.failed) {
            (_, None) => BracketStep::Raise,
            (None, Some(_)) => BracketStep::Lower,
            (Some(_), Some(_)) => BracketStep::Bisect,
        }
    }

    /// The next value, if another one is worth trying.
    fn next(self, search: &Bracket) -> Option<f64> {
        let next = match (self.passed, self.failed) {
            (None, None) => search.begin,
            (Some(low), None) => 2.0 * low,
            (None, Some(high)) => high / search.shrink,
            (Some(low), Some(high)) if high <= low * (1.0 + search.resolution) => return None,
            (Some(low), Some(high)) => (low * high).sqrt(),
        };
        (next >= search.least).then_some(next)
    }
}

/// Searches; `probe` says whether a value passes, or `None` where that ends the search without an
/// outcome.
///
/// # Errors
/// Those of the probe.
pub fn bracket<E>(
    search: &Bracket,
    mut probe: impl FnMut(BracketStep, f64) -> Result<Option<bool>, E>,
) -> Result<BracketEdges, E> {
    let mut edges = BracketEdges::default();
    for _ in 0..search.probes_max {
        let Some(value) = edges.next(search) else { break };
        match probe(edges.step(), value)? {
            Some(true) => edges.passed = Some(value),
            Some(false) => edges.failed = Some(value),
            None => break,
        }
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const SEARCH: Bracket =
        Bracket { begin: 250.0, least: 2.5, shrink: 4.0, resolution: 0.05, probes_max: 16 };

    /// Searches what passes up to `truth`; the edges and the number of probes.
    fn search(begin: f64, truth: f64) -> (BracketEdges, usize) {
        let mut probes = 0;
        let found = bracket(&Bracket { begin, ..SEARCH }, |_, value| {
            probes += 1;
            Ok::<_, Infallible>(Some(value <= truth))
        });
        (found.unwrap_or_default(), probes)
    }

    #[test]
    fn the_bracket_closes_around_the_truth() {
        for (begin, truth) in [(250.0, 1_000.0), (250.0, 90.0), (250.0, 250.0), (10.0, 5_000.0)] {
            let (edges, probes) = search(begin, truth);
            let passed = edges.passed.expect("some value passes");
            assert!(passed <= truth && passed * 1.051 >= truth, "{passed} for {truth}");
            assert!(edges.failed.is_some_and(|failed| failed > truth), "{edges:?}");
            assert!(probes <= SEARCH.probes_max, "{probes} probes for {truth}");
        }
        let (edges, probes) = search(250.0, 0.0);
        assert_eq!((edges.passed, probes), (None, 4), "a hundredth is the least");
    }

    #[test]
    fn a_probe_without_an_outcome_ends_the_search() {
        let mut steps = Vec::new();
        let edges = bracket(&SEARCH, |step, value| {
            steps.push(step);
            Ok::<_, Infallible>((value < 600.0).then_some(true))
        });
        let want = BracketEdges { passed: Some(500.0), failed: None };
        assert_eq!(edges.unwrap_or_default(), want);
        assert_eq!(steps, [BracketStep::Raise; 3]);
    }
}
