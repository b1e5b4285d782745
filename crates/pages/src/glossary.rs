//! Every term of the pages with its explanation: shown in place by one click, and again at the end.

use serde::Serialize;

/// One term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// The identifier in templates.
    pub id: &'static str,
    /// The name of the term.
    pub name: &'static str,
    /// The definition, in words that need no other term.
    pub text: &'static str,
}

const fn term(id: &'static str, name: &'static str, text: &'static str) -> Term {
    Term { id, name, text }
}

/// All terms, in the order in which a reader meets them.
pub const TERMS: &[Term] = &[
    term(
        "arm",
        "Server, arm",
        "A server with its parameters: one of the things that are compared. The baseline is the \
         arm that all others are divided by.",
    ),
    term(
        "point",
        "Load point",
        "One way of asking: how many connections, how many requests in flight on each, what is \
         requested, and whether the clients or a clock decide when. Results hold for their load \
         point and for no other.",
    ),
    term(
        "block",
        "Trial, block",
        "A trial is one fresh server process under one load point. A block is every arm once, in \
         random order and with the same seed of requests. Whatever disturbs a whole block (a warm \
         morning, a busy neighbour) hits all arms alike and falls out of the comparison.",
    ),
    term(
        "ratio",
        "Ratio",
        "In each block the arm's number is divided by the baseline's. Shown is the median of those \
         ratios: 1.12× requests/s means 12 % more, 0.93× CPU per request means 7 % less.",
    ),
    term(
        "interval",
        "Interval",
        "Two of the blocks' own ratios, chosen by rank so that the true median lies between them \
         with at least 95 % confidence, whatever the distribution (Hahn and Meeker, Statistical \
         Intervals, section 5.2). Below six blocks there is none. Read the interval, not the dot.",
    ),
    term(
        "floor",
        "Noise band, twin",
        "The baseline runs a second time under another name, its twin. Both are the same program, \
         so every difference between them is noise. The grey band reaches as far as the twin's \
         interval strayed from 1: what this machine invents out of nothing, here and today.",
    ),
    term(
        "verdict",
        "Faster, slower, cheaper, costlier",
        "Claimed only where the whole interval lies beyond the grey band. A dot on the better side \
         is not enough.",
    ),
    term(
        "equivalent",
        "Equivalent",
        "The whole interval lies within the margin that was agreed before the race. This is a \
         finding: the difference, if there is one, is too small to matter.",
    ),
    term(
        "unresolved",
        "Unresolved",
        "The measurement cannot tell. That is not the same as equal: a difference may be there, \
         and the forecast says about how many blocks would show it, if the noise stays as it is.",
    ),
    term(
        "limited",
        "Generator-limited",
        "The load generator was the bottleneck, so the speed seen is its own. The server's may be \
         higher. CPU per request is counted on the server and stays valid.",
    ),
    term(
        "corrected",
        "Corrected for many comparisons",
        "Twenty questions at 95 % give one wrong answer on average. So all comparisons that the \
         plan named beforehand are tested together: a difference counts if chance alone makes the \
         largest of them as clear in fewer than 5 % of cases. One that does not pass is called \
         unresolved here, even if its own interval looks clear.",
    ),
    term(
        "exploratory",
        "Registered, exploratory",
        "Registered comparisons were named in the plan before the first trial. Everything else is \
         exploratory: worth a look, and worth a race of its own before it is believed.",
    ),
    term(
        "lamp",
        "Validity lamps",
        "● nothing speaks against it; ▲ read the words beside it; ✖ wrong answers were seen, do \
         not use it.",
    ),
    term(
        "check",
        "Model check",
        "After every trial the server's books are compared with the replies it gave: for each \
         stock, what there was, plus sold, minus bought. A fast server that gives wrong answers \
         does not count.",
    ),
    term(
        "gate",
        "Gates, repeated trials",
        "Limits on the machine (stolen time, other processes, clock steps, late wake-ups, \
         retransmissions). A trial that broke one of them is repeated inside its block. That \
         is decided before its outcome is looked at, and all attempts are kept and counted.",
    ),
    term(
        "closed",
        "Closed loop, service time",
        "Clients wait for each reply before they ask again, so a server that stalls is asked less \
         meanwhile. Times run from sending to the whole reply: service time. They hide what a \
         queue of waiting users would feel.",
    ),
    term(
        "open",
        "Open load, response time",
        "Requests are due on a schedule made beforehand, whether the server keeps up or not. Times \
         run from the moment a request was due: response time, what a user feels. A stall of one \
         second shows as a thousand slow requests, not as one.",
    ),
    term(
        "percentile",
        "p50, p99, p99.9",
        "Half of the requests are quicker than p50, 99 of 100 are quicker than p99. A percentile \
         is shown only if at least 100 requests lie beyond it in every trial. One page view often \
         needs many requests, so the rare slow ones are met often.",
    ),
    term(
        "nines",
        "Nines axis",
        "The horizontal axis gives each further nine the same room: 90 %, 99 %, 99.9 %. The right \
         end is about the slowest requests, which an axis in percent would hide in a corner.",
    ),
    term(
        "capacity",
        "Capacity within a promise",
        "The highest offered rate at which the promise (say, 99 % within 1 ms) was kept, found by \
         doubling and bisection with a fresh server for each probe.",
    ),
    term(
        "overload",
        "Overload, recovery",
        "More is asked than the server can do. A good server goes on answering at its capacity \
         (kept share near 1) and is back to normal soon afterwards (recovery).",
    ),
    term(
        "usl",
        "Scalability law",
        "Throughput with c clients is modelled as λc / (1 + σ(c−1) + κc(c−1)) (Gunther). σ is the \
         share of work that all must queue for, κ the cost of keeping each other informed: with κ \
         above zero there is a best number of clients, and beyond it more clients get less.",
    ),
    term(
        "cpu",
        "CPU per request",
        "User and system time of all processes and threads of the server, divided by the requests. \
         It does not depend on how quick the generator is. The split into user and system is \
         sampled at the kernel's tick; the sum is exact.",
    ),
    term(
        "switches",
        "Context switches per request",
        "How often the server gave up or lost its core, per request. Blocking for every message \
         costs about one.",
    ),
    term(
        "syscalls",
        "System calls, census",
        "Calls into the kernel, counted in a run of its own: counting slows a server many times \
         over, so it never happens in a timed trial.",
    ),
    term(
        "memory",
        "Memory",
        "Of the server's whole process tree at the end of the window. Pages that processes share \
         are counted once where the kernel says so (PSS).",
    ),
    term(
        "busy",
        "Generator busy",
        "The share of the window in which the load generator itself was computing. Above 80 % the \
         speed seen is the generator's.",
    ),
    term(
        "little",
        "In flight: Little's law",
        "Requests per second times mean latency is the number of requests under way. In a closed \
         loop that number is known beforehand (connections times depth), so this column should be \
         close to it: a little less where clients reconnect or wait for their own processor. A \
         trial whose sums contradict each other is repeated.",
    ),
    term(
        "smoke",
        "Smoke, claim, publish",
        "How far the size of the race lets it be trusted. Smoke (six blocks) finds large \
         differences, claim (ten) is enough to say so aloud, publish (twelve) is what we print, \
         and then twice, at different times.",
    ),
];

/// The term with that id, if it exists.
pub fn find(id: &str) -> Option<&'static Term> {
    TERMS.iter().find(|term| term.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_texts_are_sentences() {
        for (at, term) in TERMS.iter().enumerate() {
            assert!(TERMS[..at].iter().all(|other| other.id != term.id), "{}", term.id);
            assert!(term.text.ends_with('.') && term.text.len() > 60, "{}", term.id);
            assert!(!term.text.contains("  "), "{}", term.id);
        }
        assert_eq!(find("ratio").map(|term| term.name), Some("Ratio"));
        assert_eq!(find("x"), None);
    }
}
