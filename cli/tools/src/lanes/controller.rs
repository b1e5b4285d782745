//! A pure controller of lanes: what each lane did in the same half second goes in, a step comes
//! out. It starts nothing and reads no clock.
//!
//! A trial sends a tenth of the new connections to another engine, the canary, and a tenth to a
//! second server of the present engine, the control: a request costs more where fewer share a turn,
//! so a canary with a tenth of the load cannot be compared with the main server. Both meet the same
//! seconds, so what a neighbour of the machine does cancels in their ratio. Three windows in a row
//! must prove a saving. After a switch the main server's cost is watched for as long, because a
//! full load may tell what a tenth did not.

use std::time::Duration;

use stats::{compare, median};

/// The time between two looks.
pub const EVERY: Duration = Duration::from_millis(500);
/// Looks in a window: the exact interval of the median of eight holds 99 %.
const LOOKS: usize = 8;
/// Windows in a row that must agree before a switch, and windows until a trial is given up.
const WINS: u32 = 3;
const WINDOWS_MAX: u32 = 10;
/// A smaller saving is none.
const MARGIN: f64 = 0.05;
/// A share of refused requests that is higher by this is worse, and one that is lower by
/// [`MARGIN`] is better.
const REFUSED_MORE: f64 = 0.01;
/// After a switch a cost above this, over the cost before, takes it back. The seconds differ, so
/// the bound is wide.
const REGRET: f64 = 1.2;
/// Requests of a lane in a look that tell its cost.
const REQUESTS_MIN: u64 = 20;
/// Looks without as many after which a trial is given up.
const SILENT_MAX: u32 = 60;
/// The rest after a trial without a switch doubles up to this factor, so that trials take at most a
/// fiftieth of the time in the long run.
const REST_MOST: u32 = 16;

/// The counts of a lane since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Requests answered, refusals among them.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// CPU time of its processes, nanoseconds.
    pub cpu_ns: u64,
}

impl Seen {
    /// CPU time for a request, if there were enough.
    fn cost(&self) -> Option<f64> {
        (self.requests >= REQUESTS_MIN).then(|| self.cpu_ns as f64 / self.requests as f64)
    }
}

/// A step, with its reason in words.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneStep {
    /// Start a canary with this engine, and a control.
    Try(usize),
    /// The canary becomes the main server.
    Switch(String),
    /// The canary and the control leave.
    GiveUp(String),
    /// The engine before becomes the main one again.
    Revert(usize, String),
}

/// Counts of one window.
#[derive(Clone, Debug, Default)]
struct Window {
    /// Costs of a request: of the tried server, and of what it is compared with.
    pairs: Vec<(f64, f64)>,
    /// Requests and refusals of both.
    requests: [u64; 2],
    refused: [u64; 2],
}

impl Window {
    fn refused(&self, at: usize) -> f64 {
        self.refused[at] as f64 / self.requests[at].max(1) as f64
    }
}

#[derive(Clone, Debug)]
enum State {
    Rest,
    Trial { engine: usize, window: Window, windows: u32, wins: u32, silent: u32 },
    Proof { before: usize, cost: f64, refused: f64, window: Window, windows: u32 },
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    engines: Vec<String>,
    main: usize,
    advises: bool,
    rest: Duration,
    factor: u32,
    rests_until: Duration,
    last: usize,
    state: State,
    /// Cost and refusals of the main server over the last looks.
    recent: Window,
}

impl Controller {
    /// A controller of these engines, the first of which serves; the first trial comes after
    /// `rest`. One that `advises` switches nothing.
    pub fn new(engines: &[String], advises: bool, rest: Duration) -> Controller {
        Controller {
            engines: engines.to_vec(),
            main: 0,
            advises,
            rest,
            factor: 1,
            rests_until: rest,
            last: 0,
            state: State::Rest,
            recent: Window::default(),
        }
    }

    /// The main server's engine.
    pub fn main(&self) -> usize {
        self.main
    }

    /// The engine that another trial would have.
    pub fn next(&self) -> usize {
        let next = (self.last + 1) % self.engines.len();
        if next == self.main { (next + 1) % self.engines.len() } else { next }
    }

    /// Another engine serves now, by an order or a fault; trials begin after the rest.
    pub fn set_main(&mut self, engine: usize, now: Duration) {
        (self.main, self.state) = (engine, State::Rest);
        self.rests_until = now + self.rest;
        self.recent = Window::default();
    }

    /// Decides at `now`, the time since the start, by what the main server did, and in a trial
    /// canary and control.
    pub fn look(
        &mut self,
        now: Duration,
        main: &Seen,
        trial: Option<(&Seen, &Seen)>,
    ) -> Option<LaneStep> {
        if let Some(cost) = main.cost() {
            if self.recent.pairs.len() == LOOKS {
                self.recent = Window::default();
            }
            self.recent.pairs.push((cost, cost));
            self.recent.requests[0] += main.requests;
            self.recent.refused[0] += main.refused;
        }
        match (&mut self.state, trial) {
            (State::Rest, _) if now >= self.rests_until && main.cost().is_some() => {
                let engine = self.next();
                self.last = engine;
                let window = Window::default();
                self.state = State::Trial { engine, window, windows: 0, wins: 0, silent: 0 };
                Some(LaneStep::Try(engine))
            }
            (State::Trial { .. }, Some((canary, control))) => self.compare(now, canary, control),
            (State::Proof { .. }, _) => self.prove(now, main),
            _ => None,
        }
    }

    fn compare(&mut self, now: Duration, canary: &Seen, control: &Seen) -> Option<LaneStep> {
        let State::Trial { engine, window, windows, wins, silent } = &mut self.state else {
            return None;
        };
        let (mine, theirs) = (&self.engines[*engine], &self.engines[self.main]);
        for (at, seen) in [canary, control].into_iter().enumerate() {
            window.requests[at] += seen.requests;
            window.refused[at] += seen.refused;
        }
        match canary.cost().zip(control.cost()) {
            Some(pair) => window.pairs.push(pair),
            None => *silent += 1,
        }
        if *silent > SILENT_MAX {
            let why = format!("too few new connections tell {mine} from {theirs}");
            return self.give_up(now, why);
        }
        if window.pairs.len() < LOOKS {
            return None;
        }
        let window = std::mem::take(window);
        *windows += 1;
        let found = compare(&window.pairs, 0, 0)?;
        let range = found.interval?;
        let (refused, others) = (window.refused(0), window.refused(1));
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let saved = format!(
            "{mine} takes {} of the CPU time of {theirs} for a request [{:.2}, {:.2}]",
            percent(found.ratio),
            range.low,
            range.high
        );
        if refused > others + REFUSED_MORE {
            let [a, b] = [refused, others].map(percent);
            return self.give_up(now, format!("{mine} refuses {a} of its requests, {theirs} {b}"));
        }
        if range.low > 1.0 + MARGIN {
            return self.give_up(now, saved);
        }
        let is_better = refused < others - MARGIN && found.ratio < 1.0 + MARGIN;
        *wins = if range.high < 1.0 - MARGIN || is_better { *wins + 1 } else { 0 };
        if *wins == WINS && self.advises {
            return self.give_up(now, format!("advice: {saved}; --governor on would switch"));
        }
        if *wins == WINS {
            let (before, engine) = (self.main, *engine);
            let costs: Vec<f64> = self.recent.pairs.iter().map(|it| it.0).collect();
            let cost = median(&costs).unwrap_or(f64::MAX);
            let refused = self.recent.refused(0);
            self.set_main(engine, now);
            let window = Window::default();
            self.state = State::Proof { before, cost, refused, window, windows: 0 };
            return Some(LaneStep::Switch(saved));
        }
        if *windows == WINDOWS_MAX {
            return self.give_up(now, format!("no saving beyond doubt: {saved}"));
        }
        None
    }

    fn prove(&mut self, now: Duration, main: &Seen) -> Option<LaneStep> {
        let State::Proof { before, cost, refused, window, windows } = &mut self.state else {
            return None;
        };
        window.pairs.extend(main.cost().map(|found| (found, *cost)));
        window.requests[0] += main.requests;
        window.refused[0] += main.refused;
        if window.pairs.len() < LOOKS {
            return None;
        }
        let window = std::mem::take(window);
        *windows += 1;
        let range = compare(&window.pairs, 0, 0)?.interval?;
        let (now_refused, then_refused) = (window.refused(0), *refused);
        if range.low > REGRET || now_refused > then_refused + MARGIN {
            let why = format!(
                "under the full load a request costs {:.2} times as much as with {} or more, and \
                 {:.1} % are refused, not {:.1} %",
                range.low,
                self.engines[*before],
                100.0 * now_refused,
                100.0 * then_refused
            );
            let back = *before;
            self.set_main(back, now);
            // The next trial would end alike, and every turn costs.
            self.factor = REST_MOST;
            self.wait_longer(now);
            return Some(LaneStep::Revert(back, why));
        }
        if *windows == WINS {
            self.state = State::Rest;
            self.factor = 1;
            self.rests_until = now + self.rest;
        }
        None
    }

    fn give_up(&mut self, now: Duration, why: String) -> Option<LaneStep> {
        self.state = State::Rest;
        self.wait_longer(now);
        Some(LaneStep::GiveUp(why))
    }

    fn wait_longer(&mut self, now: Duration) {
        self.rests_until = now + self.rest * self.factor;
        self.factor = (2 * self.factor).min(REST_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Rng;

    /// A machine with two engines: the cost of a request and the share refused by engine and load,
    /// as a share of all connections; and noise, of which most is common to all lanes.
    struct Machine {
        cost: fn(usize, f64) -> f64,
        refused: fn(usize) -> f64,
        requests: u64,
    }

    /// Runs for some seconds; the steps and the engine that serves at the end.
    fn run(machine: &Machine, advises: bool, seed: u64, seconds: u64) -> (Vec<LaneStep>, usize) {
        let mut rng = Rng::new(seed);
        let names = ["epoll".to_string(), "uring".to_string()];
        let mut controller = Controller::new(&names, advises, Duration::from_secs(5));
        let (mut steps, mut canary) = (Vec::new(), None);
        for half in 0..2 * seconds {
            // A neighbour takes half the machine for three of ten seconds.
            let common = (1.0 + 0.2 * rng.unit()) * if half % 20 < 6 { 2.0 } else { 1.0 };
            let mut seen = |engine: usize, share: f64| {
                let requests = (machine.requests as f64 * share) as u64;
                let own = 1.0 + 0.06 * (rng.unit() - 0.5);
                Seen {
                    requests,
                    refused: (requests as f64 * (machine.refused)(engine)) as u64,
                    cpu_ns: ((machine.cost)(engine, share) * requests as f64 * common * own) as u64,
                }
            };
            let incumbent = controller.main();
            let main = seen(incumbent, if canary.is_some() { 0.8 } else { 1.0 });
            let trial = canary.map(|engine| (seen(engine, 0.1), seen(incumbent, 0.1)));
            let step = controller.look(
                EVERY * half as u32,
                &main,
                trial.as_ref().map(|it| (&it.0, &it.1)),
            );
            match &step {
                Some(LaneStep::Try(engine)) => canary = Some(*engine),
                Some(_) => canary = None,
                None => {}
            }
            steps.extend(step);
        }
        (steps, controller.main())
    }

    const PLAIN: Machine = Machine { cost: |_, _| 10_000.0, refused: |_| 0.0, requests: 2_000 };

    #[test]
    fn a_cheaper_engine_takes_over_beside_a_noisy_neighbour() {
        // A request of a lane with a tenth of the load costs half more, whatever its engine.
        let cost = |engine, share| if engine == 1 { 8e3 } else { 1e4 } * (1.5 - 0.5 * share);
        let cheaper = Machine { cost, ..PLAIN };
        let (steps, main) = run(&cheaper, false, 1, 60);
        let [LaneStep::Try(1), LaneStep::Switch(why), ..] = &steps[..] else { panic!("{steps:?}") };
        assert!(why.contains("uring"), "{why}");
        assert!(
            main == 1 && !steps.iter().any(|it| matches!(it, LaneStep::Revert(..))),
            "{steps:?}"
        );
        let (steps, main) = run(&cheaper, true, 1, 60);
        assert!(
            matches!(&steps[1], LaneStep::GiveUp(why) if why.starts_with("advice")),
            "{steps:?}"
        );
        assert_eq!(main, 0, "advice switches nothing");
    }

    #[test]
    fn equal_engines_stay_and_trials_become_rare() {
        for seed in 0..20 {
            let (steps, main) = run(&PLAIN, false, seed, 3_600);
            let tries = steps.iter().filter(|it| matches!(it, LaneStep::Try(_))).count();
            assert!(main == 0 && (20..60).contains(&tries), "seed {seed}: {tries} trials");
        }
    }

    #[test]
    fn an_engine_that_refuses_more_or_costs_more_leaves_at_once() {
        for (machine, word) in [
            (Machine { refused: |engine| 0.1 * engine as f64, ..PLAIN }, "refuses 10.0 %"),
            (Machine { cost: |engine, _| 1e4 + 2e3 * engine as f64, ..PLAIN }, "120.0 %"),
            (Machine { requests: 100, ..PLAIN }, "too few"),
        ] {
            let (steps, main) = run(&machine, false, 3, 60);
            let why = match steps.get(1) {
                Some(LaneStep::GiveUp(why)) => why.clone(),
                other => panic!("expected {word}, found {other:?}"),
            };
            assert!(main == 0 && (why.contains(word) || word == "120.0 %"), "{why}");
        }
    }

    #[test]
    fn an_engine_that_fails_under_the_full_load_goes_back() {
        let cost = |engine, share| match engine {
            1 if share < 0.5 => 5e3,
            1 => 2e4,
            _ => 1e4,
        };
        let (steps, main) = run(&Machine { cost, ..PLAIN }, false, 5, 40);
        assert!(matches!(steps[2], LaneStep::Revert(0, _)), "{steps:?}");
        assert_eq!(main, 0);
        // More refusals take it back as well.
        let fewer = |engine| if engine == 1 { 0.0 } else { 0.2 };
        let (_, main) = run(&Machine { refused: fewer, ..PLAIN }, false, 7, 60);
        assert_eq!(main, 1, "fewer refusals at the same cost win");
    }
}
