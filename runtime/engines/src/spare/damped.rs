//! Our own rule: grow at once by the whole deficit, shrink late and all at once, within a band that
//! widens with the load's spread.
//!
//! Growth is urgent, because clients wait for workers. Each check, ten times a second, starts the
//! whole deficit, computed for the load at the time when the new processes will be ready. Shrinking
//! is not urgent, because idle workers cost only memory. It waits for [`DWELL`], and longer each
//! time it turns out to have been too early. The band's upper edge lies at least two processes and
//! twice the standard deviation of the load above its lower edge, so that a wobbling load, and a
//! process more or less, stay inside; if processes come and go nevertheless, it doubles.
//! The configured maximum itself applies only if the load has been still for as long as the
//! controller remembers.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;

use super::terms::{Act, Census, Terms, Verdict, hold};

/// The interval between two checks.
pub const EVERY: Duration = Duration::from_millis(100);
/// The time for which there must be too many idle workers before any process retires.
pub const DWELL: Duration = Duration::from_secs(10);
/// The longest dwell, as a multiple of [`DWELL`].
pub const PENALTY_MAX: u32 = 3;
/// Growth this soon after a retirement shows that the retirement was too early.
const REGRET: Duration = Duration::from_secs(60);
/// The load's spread is that of this window and the one before. Earlier windows are forgotten, so
/// that a load that has dropped once does not count as wobbling.
const WINDOW: Duration = Duration::from_secs(10);
/// More changes between growth and retirement than this, within this time, are churn: the band is
/// doubled for a while. The dwell and its penalty allow about twice as many.
const FLIPS_MAX: usize = 6;
const CHURN: Duration = Duration::from_secs(300);
const WIDENED: Duration = Duration::from_secs(900);
/// A queue that was never empty for this long although workers are idle is an emergency: the idle
/// workers do not serve it.
const STUCK: Duration = Duration::from_secs(2);
/// The time constant of the load's slope, in seconds.
const SLOPE_MEMORY: f64 = 0.3;
/// How far to look ahead at least, in seconds: a process's start-up time, and the time to the next
/// check. A slower start is measured.
const LEAD: f64 = 0.25;

/// The state kept from one check to the next.
#[derive(Clone, Debug)]
pub struct Damped {
    last: Instant,
    load: Option<Load>,
    /// How far to look ahead, in seconds.
    lead: f64,
    /// Since when there have been too many idle workers.
    over_since: Option<Instant>,
    retired_at: Option<Instant>,
    penalty: u32,
    /// Since when connections have been waiting at every check, and the fewest of them.
    queue: Option<(Instant, usize)>,
    /// Whether the last action was growth, and the last changes of that.
    grew: bool,
    flips: VecDeque<Instant>,
    widened_until: Option<Instant>,
}

/// The busy workers: their spread, and their growth a second.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The current window, and the one before.
    windows: [Moments; 2],
    began: Instant,
    latest: f64,
    slope: f64,
}

/// Count, sum and sum of squares of the observations.
#[derive(Clone, Copy, Debug, Default)]
struct Moments(f64, f64, f64);

impl Load {
    fn new(busy: f64, now: Instant) -> Load {
        Load { windows: [Moments::default(); 2], began: now, latest: busy, slope: 0.0 }
    }

    fn see(&mut self, busy: f64, now: Instant, seconds: f64) {
        if now.since(self.began) >= WINDOW {
            self.windows = [Moments::default(), self.windows[0]];
            self.began = now;
        }
        let Moments(count, sum, squares) = self.windows[0];
        self.windows[0] = Moments(count + 1.0, sum + busy, squares + busy * busy);
        let slope = (busy - self.latest) / seconds.max(1e-3);
        self.slope += (1.0 - (-seconds / SLOPE_MEMORY).exp()) * (slope - self.slope);
        self.latest = busy;
    }

    /// Whether the load varied by less than about a worker in both windows, of which one is
    /// complete.
    fn is_still(&self) -> bool {
        self.windows[1].0 > 0.0 && self.spread() < 1.0
    }

    /// The standard deviation, in workers.
    fn spread(&self) -> f64 {
        let [Moments(a, b, c), Moments(d, e, f)] = self.windows;
        let (count, sum, squares) = ((a + d).max(1.0), b + e, c + f);
        (squares / count - (sum / count).powi(2)).max(0.0).sqrt()
    }
}

impl Damped {
    pub fn new(now: Instant) -> Damped {
        Damped {
            last: now,
            load: None,
            lead: LEAD,
            over_since: None,
            retired_at: None,
            penalty: 1,
            queue: None,
            grew: true,
            flips: VecDeque::new(),
            widened_until: None,
        }
    }

    /// The upper edge of the band, in idle workers.
    pub fn ceiling(&self, terms: &Terms) -> usize {
        if self.widened_until.is_none() && self.load.is_some_and(|load| load.is_still()) {
            return terms.spare_max;
        }
        let spread = self.load.map_or(0.0, |load| 2.0 * load.spread());
        let band = 2 * terms.size + spread.ceil() as usize;
        let factor = if self.widened_until.is_some() { 2 } else { 1 };
        terms.spare_max.max(terms.spare_min + factor * band)
    }

    /// Counts a change of direction; too many of them widen the band.
    fn turn(&mut self, grows: bool, now: Instant) -> bool {
        if std::mem::replace(&mut self.grew, grows) == grows {
            return false;
        }
        self.flips.push_back(now);
        self.flips.retain(|moment| now.since(*moment) < CHURN);
        let is_churn = self.flips.len() > FLIPS_MAX;
        if is_churn {
            self.flips.clear();
            self.widened_until = Some(now + WIDENED);
        }
        is_churn
    }

    pub fn judge(&mut self, terms: &Terms, census: &Census, now: Instant) -> Verdict {
        let busy = census.busy as f64;
        let seconds = now.since(self.last).as_secs_f64();
        self.last = now;
        let load = self.load.get_or_insert(Load::new(busy, now));
        load.see(busy, now, seconds);
        self.lead = self.lead.max((census.starting + EVERY).as_secs_f64());
        let growth = (load.slope * self.lead).max(0.0);
        // A forecast never asks for more than twice what the current load justifies.
        let coming = growth.min(busy.max(terms.size as f64)) as usize;
        self.widened_until = self.widened_until.filter(|moment| now < *moment);
        // With idle workers a connection waits for a moment only.
        let (since, least) = self.queue.unwrap_or((now, usize::MAX));
        let least = least.min(census.waiting);
        self.queue = (least > 0).then_some((since, least));
        if least > 0 && now.since(since) >= STUCK {
            self.queue = None;
            return self.grow(terms, census, least, now);
        }
        let waiting = if census.idle == 0 { census.waiting } else { 0 };
        let missing = (terms.spare_min + coming.max(waiting)).saturating_sub(census.idle);
        if missing > 0 {
            return self.grow(terms, census, missing, now);
        }
        self.shrink(terms, census, now)
    }

    fn grow(&mut self, terms: &Terms, census: &Census, missing: usize, now: Instant) -> Verdict {
        self.over_since = None;
        let count = missing.div_ceil(terms.size).min(terms.vacant(census));
        if count == 0 {
            return hold("fewer idle workers than --spare-min, and no process may be added");
        }
        if self.retired_at.take().is_some_and(|moment| now.since(moment) < REGRET) {
            self.penalty = (self.penalty * 2).min(PENALTY_MAX);
        }
        let why = match census.waiting {
            _ if self.turn(true, now) => {
                "processes come and go, so the band is doubled for a while"
            }
            0 => "the forecast is short of the least spare",
            _ => "the forecast is short of the least spare, and connections wait to be accepted",
        };
        Verdict { act: Act::Spawn(count), why }
    }

    fn shrink(&mut self, terms: &Terms, census: &Census, now: Instant) -> Verdict {
        if self.retired_at.is_some_and(|moment| now.since(moment) >= REGRET) {
            (self.retired_at, self.penalty) = (None, 1);
        }
        let ceiling = self.ceiling(terms);
        if census.idle <= ceiling {
            self.over_since = None;
            return hold("within the band");
        }
        let since = *self.over_since.get_or_insert(now);
        if now.since(since) < DWELL * self.penalty {
            return hold("more idle workers than --spare-max, but not for long enough");
        }
        let most = census.processes - census.retiring;
        let count = (census.idle - ceiling).div_ceil(terms.size).min(most);
        if count == 0 {
            return hold("all are retiring already");
        }
        // The workers that leave must not be needed a moment later.
        let count = count.min(census.idle.saturating_sub(terms.spare_min) / terms.size);
        if count == 0 {
            return hold("one process less would leave fewer idle workers than --spare-min");
        }
        (self.over_since, self.retired_at) = (None, Some(now));
        self.turn(false, now);
        Verdict { act: Act::Retire(count), why: "more idle workers than --spare-max for a while" }
    }
}
