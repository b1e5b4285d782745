//! The gates that a trial failed.

use super::Ending;
use super::laws;
use crate::machine::Conditions;
use crate::plan::{Gates, LoadPoint};

/// The gates that a trial at `point` failed, each in words with its figure. They test only three
/// properties of the outcome: whether the generator reported at all, whether it calls its own run
/// invalid, and whether its sums agree with each other. An unknown value fails no gate, and is
/// absent in the record.
pub fn objections(
    gates: &Gates,
    conditions: &Conditions,
    point: &LoadPoint,
    ending: &Ending,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |value: Option<f64>, limit: f64, text: &dyn Fn(f64) -> String| {
        found.extend(value.filter(|&value| value > limit).map(text));
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    check(conditions.steal, gates.steal_max, &|share| {
        format!("the hypervisor took {} of the machine", percent(share))
    });
    check(conditions.foreign, gates.foreign_max, &|share| {
        format!("other processes took {} of the machine", percent(share))
    });
    check(Some(conditions.clock_step_ms.abs()), gates.clock_step_ms_max, &|_| {
        format!("the wall clock moved by {:.0} ms", conditions.clock_step_ms)
    });
    check(conditions.hiccup_ms, gates.hiccup_ms_max, &|ms| {
        format!("a sleeping thread was woken {ms:.0} ms late")
    });
    check(conditions.memory_pressure, gates.memory_pressure_max, &|share| {
        format!("tasks waited for memory in {} of the time", percent(share))
    });
    check(conditions.io_pressure, gates.io_pressure_max, &|share| {
        format!("tasks waited for a disk in {} of the time", percent(share))
    });
    // An overload exceeds the server's capacity on purpose.
    let again = conditions.retransmits.filter(|_| !point.is_overload()).map(|it| it as f64);
    check(again, gates.retransmits_max as f64, &|count| {
        format!("{count:.0} TCP segments were sent again")
    });
    match ending {
        Ending::Failed { reason } => found.push(format!("the generator failed: {reason}")),
        Ending::Measured { load } => {
            let invalid = load.invalid();
            found.extend(invalid.map(|why| format!("the generator calls its run invalid: {why}")));
            found.extend(laws::broken(load));
        }
        Ending::Unavailable { .. } => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Model;

    #[test]
    fn gates_are_named_with_their_figures() {
        let ending = Ending::Unavailable { reason: String::new() };
        let conditions = Conditions {
            steal: Some(0.02),
            foreign: Some(0.25),
            clock_step_ms: -500.0,
            hiccup_ms: Some(140.2),
            cpu_pressure: Some(0.9),
            memory_pressure: Some(0.05),
            io_pressure: Some(0.5),
            retransmits: Some(3),
            syn_retransmits: Some(99),
            listen_overflows: Some(99),
            backlog_drops: None,
        };
        let closed = LoadPoint::default();
        let texts = |point: &LoadPoint| -> Vec<String> {
            objections(&Gates::default(), &conditions, point, &ending)
        };
        let want = [
            "the hypervisor took 2.0 % of the machine",
            "other processes took 25.0 % of the machine",
            "the wall clock moved by -500 ms",
            "a sleeping thread was woken 140 ms late",
            "tasks waited for memory in 5.0 % of the time",
            "tasks waited for a disk in 50.0 % of the time",
            "3 TCP segments were sent again",
        ];
        assert_eq!(texts(&closed), want);
        let over = LoadPoint { model: Model::Overload { factor: 2.0 }, ..LoadPoint::default() };
        assert_eq!(texts(&over), want[..6]);
    }

    #[test]
    fn what_is_unknown_fails_nothing() {
        let ending = Ending::Unavailable { reason: String::new() };
        let point = LoadPoint::default();
        let found = objections(&Gates::default(), &Conditions::default(), &point, &ending);
        assert!(found.is_empty(), "{found:?}");
    }
}
