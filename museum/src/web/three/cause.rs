//! The limit behind the first failure: the client's, the backlog's or the server's.
//!
//! A full backlog also has a less visible effect. A client whose handshake met a full accept queue
//! treats the connection as established, because only the last of three segments was dropped; it
//! sends its request and never gets an answer. The kernel's count of full queues distinguishes this
//! from a slow server.

use super::super::cases::Results;
use crate::stage::WebRun;
use stats::words;
use std::collections::BTreeMap;

/// The limit, in words.
pub fn of(run: &WebRun) -> String {
    let overflows = run.kernel.listen_overflows.unwrap_or(0);
    let queue = match overflows {
        0 => String::new(),
        count => format!("; the accept queue was full {} times", words::count(count)),
    };
    let Some(first) = &run.load.first_failure else {
        return format!("nothing failed{queue}");
    };
    let backlog = format!("backlog (the accept queue was full {} times)", words::count(overflows));
    let is_unanswered = first.words.starts_with("no reply");
    match first.kind.as_str() {
        "no_descriptors" => format!("client limit (no descriptor left){queue}"),
        "no_ports" => "client limit (no local port left)".to_string(),
        "timeout" if overflows > 0 && is_unanswered => backlog,
        "reset" | "closed_early" if overflows > 0 => backlog,
        "timeout" => format!("server ({}){queue}", first.words),
        "refused" => "server (it does not listen)".to_string(),
        "reset" | "closed_early" => "server (it ended the connection)".to_string(),
        _ => format!("server ({})", first.words),
    }
}

/// The first failure's kind, empty if nothing failed.
pub fn kind(run: &WebRun) -> &str {
    run.load.first_failure.as_ref().map_or("", |first| first.kind.as_str())
}

/// The cause that most runs of a case had, and how many if not all.
pub fn usual(results: &Results, case: usize) -> String {
    let mut kinds: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for run in results.of(case) {
        let of = of(run);
        let entry = kinds.entry(kind(run)).or_insert((0, of));
        entry.0 += 1;
    }
    let all: usize = kinds.values().map(|it| it.0).sum();
    match kinds.into_values().max_by_key(|it| it.0) {
        Some((count, words)) if count < all => format!("{words}: {count} of {all} runs"),
        Some((_, words)) => words,
        None => words::NONE.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{First, SimulatorRun};

    fn run(kind: &str, words: &str, overflows: u64) -> WebRun {
        let (kind, words) = (kind.to_string(), words.to_string());
        let first = First { kind, words, after_requests: 7, ..First::default() };
        let mut run = WebRun {
            load: SimulatorRun {
                first_failure: Some(first),
                requests: 7,
                ..SimulatorRun::default()
            },
            ..WebRun::default()
        };
        run.kernel.listen_overflows = Some(overflows);
        run
    }

    #[test]
    fn a_first_failure_has_an_owner() {
        let check = |kind: &str, words: &str, overflows: u64, want: &str| {
            let found = of(&run(kind, words, overflows));
            assert!(found.starts_with(want), "{kind}: expected {want}, found {found}");
        };
        check("no_descriptors", "", 0, "client limit");
        check("no_ports", "", 0, "client limit");
        check("reset", "", 12, "backlog (the accept queue was full 12 times)");
        check("reset", "", 0, "server");
        check("timeout", "no reply came in time", 3, "backlog (the accept queue was full 3 times)");
        check("timeout", "no reply came in time", 0, "server (no reply came in time)");
        check("timeout", "half", 3, "server (half); the accept queue was full 3 times");
        assert_eq!(of(&WebRun::default()), "nothing failed");
    }
}
