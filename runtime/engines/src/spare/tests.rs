//! The controller against a server in virtual time: processes take a moment to start and retire by
//! draining; the test sets the load.
//!
//! The reference for `Policy::Apache` is the published rule, step by step. `Policy::Damped` is
//! compared with it on the same load: it must start and retire less, and let no client wait.

mod server;

use std::time::Duration;

use super::*;
use server::Server;

/// Many threads in a process, as in a study of Apache 2.0: three processes of 50, of which 25 to 75
/// spare.
const MOSTLY: Terms = Terms { size: 50, spare_min: 25, spare_max: 75, processes_max: 3 };

fn spare(policy: Policy, terms: Terms) -> Spare {
    Spare::new(policy, terms, Instant::from_ns(1)).expect("a policy that changes the number")
}

#[test]
fn apache_doubles_to_32_and_retires_one_a_second() {
    let terms = Terms { size: 1, spare_min: 100, spare_max: 101, processes_max: 1000 };
    let mut spare = spare(Policy::Apache, terms);
    let mut look = |second: u64, idle: usize| {
        let census = Census { idle, processes: 10, ..Census::default() };
        spare.look(Instant::from_ns(1) + Duration::from_secs(second), &census).act
    };
    for (second, count) in [1, 2, 4, 8, 16, 32, 32].into_iter().enumerate() {
        assert_eq!(look(second as u64, 0), Act::Spawn(count), "second {second}");
    }
    assert_eq!(look(7, 100), Act::Hold, "the least is enough");
    assert_eq!(look(8, 99), Act::Spawn(1), "and growth begins again");
    assert_eq!(look(9, 101), Act::Hold, "the most is not too much");
    assert_eq!(look(10, 500), Act::Retire(1));
    assert_eq!(look(11, 500), Act::Retire(1), "one, however many there are");
}

#[test]
fn apache_looks_once_a_second_whoever_calls() {
    let terms = Terms { size: 1, spare_min: 5, spare_max: 10, processes_max: 9 };
    let mut spare = spare(Policy::Apache, terms);
    let census = Census::default();
    let at = |step: &u64| Instant::from_ns(1) + Duration::from_millis(100 * step);
    let acts = (0..30).filter(|step| spare.look(at(step), &census).act != Act::Hold);
    assert_eq!(acts.collect::<Vec<_>>(), [0, 10, 20]);
}

#[test]
fn a_full_server_grows_no_more_and_says_so() {
    for policy in [Policy::Apache, Policy::Damped] {
        let mut spare = spare(policy, MOSTLY);
        let census = Census { busy: 150, processes: 3, ..Census::default() };
        let verdict = spare.look(Instant::from_ns(2), &census);
        assert_eq!(verdict.act, Act::Hold, "{policy}");
        assert!(verdict.why.contains("no process may be added"), "{policy}: {}", verdict.why);
    }
}

#[test]
fn a_most_that_is_too_near_is_moved_away() {
    let near = spare(Policy::Apache, Terms { spare_max: 30, ..MOSTLY });
    assert_eq!(near.terms().spare_max, 75, "least 25 and a process of 50");
    let ours = Damped::new(Instant::from_ns(1));
    assert_eq!(ours.ceiling(&MOSTLY), 125, "least 25 and two processes of 50");
}

#[test]
fn a_wobble_around_the_edge_thrashes_the_one_and_not_the_other() {
    // 15 to 35 busy, once in 8 seconds: with 50 workers fewer than 25 are idle half the time, with
    // 100 more than 75.
    let churn = |policy| {
        let mut server = Server::new(policy, MOSTLY, 1);
        let swing = |at: f64| (at / 8.0 * std::f64::consts::TAU).sin();
        server.run(600, |at| (25.0 + 10.0 * swing(at)).round() as usize);
        assert_eq!(server.starved, 0, "{policy}: nobody waited");
        server.churn()
    };
    let (apache, damped) = (churn(Policy::Apache), churn(Policy::Damped));
    assert!(apache >= 50 * 100, "the effect is there: {apache} in ten minutes");
    assert!(damped * 10 <= apache, "expected a tenth of {apache}, found {damped}");
}

#[test]
fn after_a_drop_the_idle_are_few_within_a_minute() {
    for (size, processes_max) in [(1, 400), (10, 40), (50, 8)] {
        let terms = Terms { size, spare_min: 25, spare_max: 75, processes_max };
        let mut server = Server::new(Policy::Damped, terms, 25usize.div_ceil(size));
        server.run(60, |_| 250);
        assert!(server.census(250).idle >= 25, "size {size}: the least is there");
        server.run(60, |_| 5);
        let idle = server.census(5).idle;
        assert!((25..=75).contains(&idle), "size {size}: expected 25 to 75 idle, found {idle}");
    }
}

#[test]
fn growth_keeps_up_with_a_ramp() {
    let starved = |policy| {
        let terms = Terms { size: 10, spare_min: 20, spare_max: 60, processes_max: 100 };
        let mut server = Server::new(policy, terms, 2);
        // 5 seconds of quiet, then 80 a second more for 10 seconds.
        server.run(15, |at| ((at - 5.0).max(0.0) * 80.0) as usize);
        server.starved
    };
    let (apache, damped) = (starved(Policy::Apache), starved(Policy::Damped));
    assert_eq!(damped, 0, "nobody waits for the one");
    assert!(apache > 0, "somebody waits for the other: {apache}");
}

#[test]
fn a_slow_start_is_measured_and_the_forecast_reaches_as_far() {
    let terms = Terms { size: 10, spare_min: 20, spare_max: 60, processes_max: 100 };
    let mut server = Server::new(Policy::Damped, terms, 2);
    server.birth = Duration::from_secs(1);
    // 60 a second more: a constant forecast of a quarter of a second would be short of 45.
    let ramp = |at: f64| (at * 60.0) as usize;
    server.run(5, ramp);
    let early = server.starved;
    server.run(8, |at| ramp(at + 5.0));
    assert!(early > 0, "the first start is a surprise");
    assert_eq!(server.starved, early, "then nobody waits");
}

#[test]
fn regret_makes_it_patient() {
    let terms = Terms { size: 10, spare_min: 10, spare_max: 20, processes_max: 50 };
    let mut server = Server::new(Policy::Damped, terms, 2);
    // Bursts of five seconds, half a minute apart, as a cron job makes them.
    let burst = |at: f64| if at % 35.0 < 5.0 { 200 } else { 5 };
    server.run(70, burst);
    let early = server.spawned;
    server.run(350, burst);
    assert!(server.spawned < early * 3, "expected calm after {early}, found {}", server.spawned);
}

/// For any counts, the requested action is possible.
#[test]
fn any_census_has_a_verdict_that_can_be_carried_out() {
    let mut rng = stats::Rng::new(0x5EED);
    let mut below = |most: usize| rng.below(most);
    for round in 0..2_000 {
        let terms = Terms {
            size: 1 + below(64),
            spare_min: below(200),
            spare_max: 1 + below(400),
            processes_max: 1 + below(100),
        };
        let policy = [Policy::Apache, Policy::Damped][below(2)];
        let mut spare = spare(policy, terms);
        let mut now = Instant::from_ns(1);
        for _ in 0..20 {
            now = now + Duration::from_millis(below(20_000) as u64);
            let processes = below(120);
            let retiring = below(processes + 1);
            let (idle, busy) = (below(5_000), below(5_000));
            let census = Census { idle, busy, processes, retiring, ..Census::default() };
            let most = terms.processes_max.saturating_sub(processes - retiring);
            match spare.look(now, &census).act {
                Act::Hold => {}
                Act::Spawn(count) => assert!((1..=most).contains(&count), "round {round}"),
                Act::Retire(count) => {
                    assert!((1..=processes - retiring).contains(&count), "round {round}");
                }
            }
        }
    }
}

#[test]
fn workers_for_all_waiting_connections_start_at_once() {
    let terms = Terms { size: 25, spare_min: 25, spare_max: 75, processes_max: 32 };
    let mut server = Server::new(Policy::Damped, terms, 2);
    server.run(1, |_| 10);
    let before = server.starved;
    // A check, a start, and the next check.
    for _ in 0..25 {
        server.step(500);
    }
    assert!(server.serving * terms.size >= 500, "{} processes", server.serving);
    let starved = server.starved;
    assert!(starved > before, "the burst comes without a warning");
    server.run(1, |_| 500);
    assert_eq!(server.starved, starved);
}

#[test]
fn draining_processes_hold_no_place_except_in_apache() {
    let census = Census { busy: 50, processes: 3, retiring: 2, ..Census::default() };
    let act = |policy| {
        let mut spare = spare(policy, MOSTLY);
        spare.look(Instant::from_ns(2), &census).act
    };
    assert_eq!((act(Policy::Damped), act(Policy::Apache)), (Act::Spawn(1), Act::Hold));
}

#[test]
fn a_queue_that_idle_workers_do_not_serve_is_an_emergency() {
    let mut spare = spare(Policy::Damped, MOSTLY);
    let mut look = |ms: u64, waiting| {
        let census = Census { idle: 40, busy: 10, processes: 1, waiting, ..Census::default() };
        spare.look(Instant::from_ns(1) + Duration::from_millis(ms), &census).act
    };
    for check in 0..60 {
        // A queue that is empty now and then is served.
        assert_eq!(look(100 * check, usize::from(check % 10 != 0)), Act::Hold);
    }
    let acts: Vec<Act> = (60..85).map(|check| look(100 * check, 3)).collect();
    assert_eq!(acts.iter().filter(|act| **act == Act::Spawn(1)).count(), 1, "{acts:?}");
}

#[test]
fn churn_doubles_the_band() {
    let terms = Terms { size: 10, spare_min: 10, spare_max: 20, processes_max: 50 };
    let mut server = Server::new(Policy::Damped, terms, 2);
    let burst = |at: f64| if at % 45.0 < 5.0 { 200 } else { 5 };
    server.run(450, burst);
    let before = server.churn();
    server.run(450, burst);
    let after = server.churn() - before;
    assert!(before > 0 && after * 4 < before, "{before} workers before, {after} afterwards");
}
