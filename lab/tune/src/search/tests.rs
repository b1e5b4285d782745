use super::*;
use stats::Rng;

/// A machine whose costs and shares are known: those of a candidate come from `truth`, with
/// noise and a disturbance of each block.
struct Planted<F> {
    truth: F,
    /// The width of the noise, as a share of the cost.
    noise: f64,
    rng: Rng,
    heats: usize,
}

impl<F: Fn(&Candidate, f64) -> (f64, f64)> Heats for Planted<F> {
    fn block(&mut self, _: Stage, _: u32, load: f64, asked: &[Candidate]) -> Option<Vec<Heat>> {
        let disturbance = 1.0 + 0.3 * self.rng.unit();
        self.heats += asked.len();
        let mut heat = |candidate: &Candidate| {
            let (cost, share) = (self.truth)(candidate, load);
            Heat {
                offered: 1_000,
                attained: (1_000.0 * share) as u64,
                cpu_ns: Some(cost * disturbance * (1.0 + self.noise * (self.rng.unit() - 0.5))),
                threads: Some(if candidate.server == "amped" { 1 } else { 2 }),
                ..Heat::default()
            }
        };
        Some(asked.iter().map(&mut heat).collect())
    }

    fn spent(&self) -> f64 {
        self.heats as f64 / 2_000.0
    }
}

fn facts() -> Facts {
    Facts { cores: 2, connections: 64, in_flight: 8.0, ..Facts::default() }
}

fn found(truth: impl Fn(&Candidate, f64) -> (f64, f64), seed: u64) -> Found {
    found_beside(truth, 0.06, seed)
}

fn found_beside(truth: impl Fn(&Candidate, f64) -> (f64, f64), noise: f64, seed: u64) -> Found {
    let mut heats = Planted { truth, noise, rng: Rng::new(seed), heats: 0 };
    let space = Space::engines(&facts());
    let found = search(&space, &facts(), &SearchTerms::usual(0.99), &mut heats);
    translated(found)
}

/// Checks that a result speaks Korean.
fn translated(found: Option<Found>) -> Found {
    let (found, korean) = (found.expect("nobody stops it"), language::korean());
    for text in found.steps.iter().map(|it| &it.text).chain([&found.sentence]) {
        assert_ne!(korean.text(text), *text);
    }
    found
}

#[test]
fn the_cheapest_server_is_found_with_its_best_setting() {
    // Two steps away from the seeds: twice the loops, and one setting of the ring.
    let truth = |it: &Candidate, _: f64| {
        let own = if it.server == "uring" { 80.0 } else { 100.0 };
        let is = |name, value| it.settings.contains(&(String::from(name), String::from(value)));
        let loops = if is("workers", "4") { 0.9 } else { 1.0 };
        (own * loops * if is("helpers", "0") { 0.9 } else { 1.0 }, 1.0)
    };
    let found = found(truth, 7);
    assert_eq!(found.choice.to_string(), "uring helpers=0 workers=4", "{found:#?}");
    assert_eq!((found.verdict, found.is_kept), (Advice::Cheaper, true));
    assert!(found.sentence.starts_with("Use uring") && found.sentence.contains("less CPU"));
    assert!(found.steps.iter().any(|it| it.text.contains("leads in place of")));
}

#[test]
fn equal_servers_leave_the_default_alone_and_the_tuner_says_so() {
    let kept = (0..20).filter(|seed| found(|_, _| (100.0, 1.0), *seed).verdict == Advice::Keep);
    assert!(kept.count() >= 19, "a false winner is rare");
    let found = found(|_, _| (100.0, 1.0), 1);
    assert!(found.sentence.starts_with("Keep epoll"), "{}", found.sentence);
}

#[test]
fn searches_agree_where_costs_cannot_be_told_apart() {
    let slow =
        |it: &Candidate, _: f64| (100.0, if *it == Candidate::usual("epoll") { 0.5 } else { 1.0 });
    for seed in 0..8 {
        let found = found_beside(slow, 0.5, seed);
        assert_eq!(found.choice, Candidate::usual("amped"), "the fewest threads: {found:#?}");
    }
}

#[test]
fn a_server_that_answers_in_time_wins_over_a_cheaper_one_that_does_not() {
    let slow = |it: &Candidate, _: f64| match it.server.as_str() {
        "thread" => (150.0, 1.0),
        "fork" => (190.0, 1.0),
        _ => (100.0, 0.4),
    };
    let found_slow = found(slow, 5);
    assert_eq!(found_slow.choice.server, "thread");
    assert_eq!((found_slow.verdict, found_slow.is_kept), (Advice::Timelier, true));
    // Headroom counts: at 1.2 of the load only `reactor` is still in time.
    let tight = |it: &Candidate, load: f64| match it.server.as_str() {
        "reactor" => (100.0, 1.0),
        _ => (100.0, if load > 1.0 { 0.8 } else { 1.0 }),
    };
    let mut heats = Planted { truth: tight, noise: 0.06, rng: Rng::new(5), heats: 0 };
    let mut space = Space::engines(&facts());
    space.only(&["epoll".to_string(), "reactor".to_string()]).expect("two engines");
    let found = search(&space, &facts(), &SearchTerms::usual(0.99), &mut heats).expect("it ends");
    assert_eq!(found.choice.server, "reactor");
    assert!(found.sentence.contains("at 1.2 of the load"), "{}", found.sentence);
}

#[test]
fn an_objective_that_no_server_keeps_is_said() {
    let found = found(|it, _| (100.0, if it.server == "pool" { 0.7 } else { 0.3 }), 5);
    assert_eq!((found.choice.server.as_str(), found.is_kept), ("pool", false));
    assert!(found.sentence.starts_with("No server keeps the objective: pool answers 70.0 %"));
}

#[test]
fn among_equals_the_smallest_is_chosen_and_an_unstable_one_is_not() {
    let finalist = |name: &str, cpu: f64, threads: f64, range: f64| Finalist {
        candidate: Candidate::usual(name),
        shares: vec![(1.0, 1.0)],
        cpu_ns: Some(cpu),
        over_default: Some((cpu / 100.0, cpu / 100.0, cpu / 100.0)),
        rate: None,
        decision: Decision::Better,
        memory_kb: Some(1.0),
        threads: Some(threads),
        range,
    };
    let all = [
        finalist("epoll", 100.0, 1.0, 0.1),
        finalist("many", 80.0, 64.0, 0.1),
        finalist("few", 81.0, 2.0, 0.1),
        finalist("wild", 60.0, 1.0, 0.5),
    ];
    assert!(all[3].is_unstable());
    let terms = SearchTerms { loads: vec![1.0], ..SearchTerms::usual(0.99) };
    let heat =
        |it: &Finalist| Heat { offered: 9, attained: 9, cpu_ns: it.cpu_ns, ..Heat::default() };
    let row =
        |it: &Finalist| Runner { heats: vec![heat(it); 6], ..Runner::new(it.candidate.clone()) };
    let fields = [Field(all.iter().map(row).collect())];
    assert_eq!(decide(&terms, &fields, &all), (2, Advice::Cheaper));
}

/// A machine whose candidates carry a known rate, as a multiple of the workload's: below it all
/// requests are in time, above it none is.
struct Carrying(fn(&Candidate) -> f64, Rng);

impl Heats for Carrying {
    fn block(&mut self, stage: Stage, _: u32, load: f64, asked: &[Candidate]) -> Option<Vec<Heat>> {
        let mut heat = |candidate: &Candidate| {
            let most = (self.0)(candidate) * (1.0 + 0.04 * (self.1.unit() - 0.5));
            let rate = (stage == Stage::Confirm).then_some(100.0 * most);
            let attained = u64::from(rate.is_some() || load <= most);
            Heat { offered: 1, attained, rate, cpu_ns: Some(1e6), ..Heat::default() }
        };
        Some(asked.iter().map(&mut heat).collect())
    }

    fn spent(&self) -> f64 {
        0.0
    }
}

#[test]
fn the_server_that_carries_the_highest_rate_in_time_is_found() {
    let terms = SearchTerms::usual(0.99).for_capacity();
    let found = |most| {
        let mut heats = Carrying(most, Rng::new(3));
        translated(search(&Space::engines(&facts()), &facts(), &terms, &mut heats))
    };
    // Twice the usual loops are a step away from the seeds.
    let best = found(|it| match it.server.as_str() {
        "uring" if it.to_string().contains("workers=4") => 4.0,
        "uring" => 3.0,
        _ => 2.0,
    });
    assert_eq!(best.choice.to_string(), "uring workers=4", "{best:#?}");
    assert!(best.sentence.contains("% more than epoll ["), "{}", best.sentence);
    let (_, low, high) = best.finalists[1].over().expect("a ratio");
    assert!(1.5 < low && low < high, "{low} {high}");
    let equal = found(|_| 2.0);
    assert_eq!(equal.verdict, Advice::Keep);
    assert!(equal.sentence.starts_with("Keep epoll: it carries"), "{}", equal.sentence);
}
