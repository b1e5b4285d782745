//! The laws that every report must obey, whatever the server did.
//!
//! Little's law (L = X W; Little, *A Proof for the Queuing Formula*, 1961) ties throughput and mean
//! latency to the number of requests in flight, which a closed loop knows beforehand. Flow balance
//! ties the number of requests to the number of replies. Both hold for every server, quick, slow or
//! stuck: a report that breaks one has counted wrongly, and its trial is invalid.
//!
//! The textbook's L = X W holds for long averages, and a server that stalls at the end of a short
//! window breaks it without any fault in counting. So the gate uses sums with their edges: each
//! place holds one request at a time, and the last request of the window ends at most the longest
//! latency after it.

use crate::load::Load;

/// Histograms keep three digits; sums of them may differ by this share.
const SLACK: f64 = 0.02;
/// Requests that may be counted on either side of the window's ends.
const EDGE: f64 = 2.0;

/// The mean number of requests in flight by Little's law, and the possible number. `None` for open
/// runs, whose number of places is no limit, and if the generator does not report it.
pub fn in_flight(load: &Load) -> Option<(f64, f64)> {
    let places = places(load)?;
    Some((load.throughput_rps * load.service.mean_ns? / 1e9, places))
}

/// The laws that a report breaks; a value that it lacks breaks none.
pub(super) fn broken(load: &Load) -> Vec<String> {
    [little(load), edges(load), flow(load), rate(load)].into_iter().flatten().collect()
}

/// The number of places for requests in a closed loop.
fn places(load: &Load) -> Option<f64> {
    let places = load.connections?.saturating_mul(load.depth?);
    (load.model == "closed" && places > 0).then_some(places as f64)
}

/// The time that all requests of the window spent in flight must fit into the places.
fn little(load: &Load) -> Option<String> {
    let (places, window_ns) = (places(load)?, load.window_ns as f64);
    let spent_ns = load.service.count as f64 * load.service.mean_ns?;
    let room_ns = places * (window_ns + load.service.max_ns?);
    let (found, limit) = (spent_ns / window_ns.max(1.0), room_ns / window_ns.max(1.0));
    (found > limit * (1.0 + SLACK)).then(|| {
        format!(
            "Little's law is broken: {found:.1} requests in flight on average where {limit:.1} \
             are possible"
        )
    })
}

/// In a closed loop, replies in the window and requests of the window differ by at most those in
/// flight at its ends.
fn edges(load: &Load) -> Option<String> {
    let places = places(load)? + EDGE;
    let apart = (load.requests as f64 - load.service.count as f64).abs();
    let limit = places + load.failed.unwrap_or(0) as f64;
    (load.service.count > 0 && apart > limit).then(|| {
        format!(
            "the flow does not balance: {} replies in the window, {} requests with a time, and \
             only {limit:.0} can lie across its ends",
            load.requests, load.service.count
        )
    })
}

/// In an open run, every due request was answered, failed, or is still unanswered.
fn flow(load: &Load) -> Option<String> {
    let (arrived, failed) = (load.arrived? as f64, load.failed? as f64);
    if load.model != "open" {
        return None;
    }
    let known = load.response.count as f64 + failed;
    let (least, most) = (known - EDGE, known + load.censored as f64 + EDGE);
    (!(least..=most).contains(&arrived)).then(|| {
        format!(
            "the flow does not balance: {arrived} requests were due, {} were answered, {failed} \
             failed, {} are unanswered",
            load.response.count, load.censored
        )
    })
}

/// The rate must be the number of replies divided by the window.
fn rate(load: &Load) -> Option<String> {
    let limit = load.requests as f64 * 1e9 / load.window_ns as f64;
    let apart = (load.throughput_rps - limit).abs();
    (load.window_ns > 0 && load.requests > 0 && apart > limit * SLACK).then(|| {
        format!(
            "{} requests/s were reported, {} replies in the window are {limit:.0}",
            load.throughput_rps, load.requests
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(change: impl Fn(&mut serde_json::Value)) -> Load {
        // Eight places, 0.1 ms each: 80,000 requests/s, for 100 ms.
        let mut value = serde_json::json!({
            "schema": "roundhouse.load/1", "model": "closed", "connections": 8, "depth": 1,
            "window_ns": 100_000_000, "requests": 8_000, "throughput_rps": 80_000.0, "failed": 0,
            "service": {"count": 8_008, "mean_ns": 100_000.0, "max_ns": 2_000_000.0},
        });
        change(&mut value);
        serde_json::from_value(value).expect("a report")
    }

    fn check(change: impl Fn(&mut serde_json::Value), want: &[&str]) {
        let texts = broken(&load(change));
        let fits = texts.len() == want.len() && texts.iter().zip(want).all(|(f, w)| f.contains(w));
        assert!(fits, "expected {want:?}, found {texts:?}");
    }

    #[test]
    fn a_closed_run_obeys_littles_law() {
        check(|_| {}, &[]);
        let (seen, places) = in_flight(&load(|_| {})).expect("it is closed");
        assert!((seen - 8.0).abs() < 1e-9 && places == 8.0, "{seen} of {places}");
        check(|it| it["service"]["mean_ns"] = 150_000.0.into(), &["Little's law is broken: 12.0"]);
        // A server that stalls at the end of the window is slow, not miscounted.
        let stall = |it: &mut serde_json::Value| {
            it["service"]["mean_ns"] = 1_098_000.0.into();
            it["service"]["max_ns"] = 1_000_000_000.0.into();
        };
        check(stall, &[]);
        check(|it| it["service"]["count"] = 8_100.into(), &["only 10 can lie across its ends"]);
        check(
            |it| it["throughput_rps"] = 90_000.0.into(),
            &["8000 replies in the window are 80000"],
        );
    }

    #[test]
    fn an_open_run_loses_no_request() {
        let open = |arrived: u64, censored: u64| {
            move |it: &mut serde_json::Value| {
                it["model"] = "open".into();
                it["arrived"] = arrived.into();
                it["censored"] = censored.into();
                it["failed"] = 8.into();
                it["response"] = serde_json::json!({"count": 8_000});
            }
        };
        check(open(8_008, 0), &[]);
        check(open(8_100, 92), &[]);
        check(open(8_100, 50), &["8100 requests were due, 8000 were answered, 8 failed"]);
        check(open(7_000, 50), &["7000 requests were due"]);
    }

    #[test]
    fn what_a_generator_does_not_tell_breaks_nothing() {
        let text = "{\"schema\":\"roundhouse.load/1\",\"requests\":10,\"throughput_rps\":5.5,\
            \"service\":{\"count\":10}}";
        let load = Load::parse(text).expect("well formed");
        assert_eq!((broken(&load), in_flight(&load)), (Vec::new(), None));
    }
}
