//! The loads, the arms of each, and the goals.

use super::super::goals::Figure;
use super::super::{at_least, at_most};
use super::group::{Arm, CALLS, CORE, COST, DRIFT, LATE, LATE_P99, Metric, Taken};
use stats::words::short;

/// A load under which arms are compared.
pub struct Group {
    pub name: &'static str,
    /// The load and the sink in words.
    load: &'static str,
    /// The same for `roundhouse senders cast`.
    pub flags: String,
    metric: Metric,
    /// The arm that all others are compared with; empty: each arm's own value is the figure.
    base: &'static str,
    /// Only these take part; empty: everybody.
    only: &'static [&'static str],
    /// The bare loops take part.
    with_bare: bool,
    /// Also in front of the others.
    is_ranked: bool,
    goals: Vec<Goal>,
}

/// The goal: for left divided by right, or for left alone where right is empty.
struct Goal {
    id: &'static str,
    left: &'static str,
    right: &'static str,
    metric: Option<Metric>,
    wanted: Option<stats::Goal>,
    because: &'static str,
}

/// The senders in `bare/udp.c`.
const BARE: [&str; 8] = [
    "plain",
    "plain-abs",
    "wheel-sendto",
    "wheel-mmap",
    "sendmmsg",
    "gso",
    "sendmmsg+gso",
    "sendfile",
];
/// The senders and the ranks of the overload test.
const RANKED: [&str; 3] = ["plain", "sendmmsg", "uring-chain"];
const RANKS: [(&str, &str); 2] = [("nice -10", "--nice -10"), ("FIFO", "--fifo 50")];
/// Parts of the names of senders whose work the kernel does outside their process.
const KERNEL_WORKS: [&str; 4] = ["tbf", "htb", "bpf", "sqpoll"];
/// Parts of the names of senders that the kernel paces by bytes, so that they have no maximum
/// speed.
const PACED: [&str; 3] = ["tbf", "htb", "bpf"];

/// Senders of frames.
const FRAMES: [&str; 1] = ["xdp"];

const CHAIN: &str = "every timeout of a chain wakes the thread that submitted it, inside the \
    kernel, and io_uring's work for the requests of a packet comes on top";
const COPY: &str = "what a path without a copy saves at this size is less than the references to \
    its pages cost";
const WAKE: &str = "both are woken by the same timers; the chain's work is done when its thread \
    gets the processor, as a sleeper's is";
const CUT: &str = "the kernel's cutting in front of the device copies what the card would have cut";
const BATCH: &str = "a call costs little beside the UDP and IP layers, which a batch goes through \
    once for each packet as well";

/// The arms where the kernel has to cut.
const CUTTERS: [&str; 6] =
    ["wheel-sendto", "wheel-mmap", "sendmmsg", "gso", "sendmmsg+gso", "sendfile-gso"];
/// The load of a count of calls.
const CALLED: &str = "--streams 1 --packets 1000 --gap 1";

fn goal(id: &'static str, [left, right]: [&'static str; 2], wanted: Option<stats::Goal>) -> Goal {
    Goal { id, left, right, metric: None, wanted, because: "" }
}

impl Goal {
    fn because(self, because: &'static str) -> Goal {
        Goal { because, ..self }
    }
}

/// Every group; a quick one is shorter.
pub fn groups(quick: bool) -> Vec<Group> {
    let share = if quick { 5 } else { 1 };
    costs(share).into_iter().chain(moments(share)).collect()
}

fn group(
    name: &'static str,
    load: &'static str,
    flags: String,
    metric: Metric,
    base: &'static str,
) -> Group {
    let (only, goals): (&'static [&'static str], _) = (&[], Vec::new());
    Group { name, load, flags, metric, base, only, with_bare: false, is_ranked: false, goals }
}

/// One stream as fast as it can.
fn fast(bytes: u32, sink: &str, packets: u32) -> String {
    format!("--streams 1 --gap 0 --payload {bytes} --packets {packets} --sink {sink}")
}

/// Streams of 32 B each 30 ms.
fn paced(streams: u32, sink: &str, packets: u32) -> String {
    format!("--streams {streams} --gap 30 --packets {packets} --sink {sink}")
}

/// The groups that measure the cost of a packet.
fn costs(share: u32) -> Vec<Group> {
    let audio = "1000 streams of 32 B each 30 ms, freed";
    let small = "32 B as fast as it can, freed";
    let video = "1316 B as fast as it can, freed";
    let frames = "32 B as fast as it can, dropped at the other end of a veth";
    let cut = "1316 B as fast as it can, cut";
    let records = "1316 B with heads in the file, as fast as it can, freed";
    let fast = |bytes, sink, packets: u32| fast(bytes, sink, packets / share);
    let recorded = fast(1316, "freed", 400_000) + " --records";
    vec![
        Group {
            goals: vec![
                goal("P2", ["sendmmsg", "plain"], at_most(0.35)),
                goal("P2", ["wheel-sendto", "plain"], at_most(0.6)),
                goal("P6", ["uring-chain", "plain"], at_most(0.8)).because(CHAIN),
                goal("P6", ["sendmmsg", "uring-chain"], None),
            ],
            with_bare: true,
            ..group("audio", audio, paced(1000, "freed", 50 / share), COST, "plain")
        },
        Group {
            goals: vec![
                goal("P3", ["wheel-sendto", "sendmmsg"], at_least(1.15)).because(BATCH),
                goal("P3", ["wheel-mmap", "sendmmsg"], None),
                goal("P5", ["sendfile", "wheel-mmap"], None),
            ],
            with_bare: true,
            ..group("small", small, fast(32, "freed", 300_000), COST, "wheel-sendto")
        },
        Group {
            goals: vec![goal("P8", ["wheel-sendto", "xdp-run"], at_least(3.0))],
            only: &["wheel-sendto", "sendmmsg", "xdp-run"],
            ..group("frames", frames, fast(32, "dropped", 300_000), COST, "wheel-sendto")
        },
        Group {
            goals: vec![
                goal("P4", ["wheel-sendto", "gso"], at_least(2.0)),
                goal("P5", ["sendfile", "wheel-mmap"], None),
                goal("P5", ["gso", "sendfile-gso"], None),
            ],
            with_bare: true,
            ..group("video", video, fast(1316, "freed", 200_000), COST, "wheel-sendto")
        },
        Group {
            goals: vec![goal("P5", ["gso", "sendfile-gso"], at_least(1.2)).because(COPY)],
            only: &["wheel-sendto", "sendfile", "gso", "sendfile-gso"],
            ..group("records", records, recorded, COST, "wheel-sendto")
        },
        Group {
            goals: vec![goal("P4", ["wheel-sendto", "gso"], at_least(1.3)).because(CUT)],
            only: &CUTTERS,
            ..group("cut", cut, fast(1316, "freed-cut", 200_000), COST, "wheel-sendto")
        },
    ]
}

/// The groups that measure the moments at which packets leave.
fn moments(share: u32) -> Vec<Group> {
    let ten = "10 streams of 32 B each 30 ms, heard";
    let hogs = "10 streams of 32 B each 30 ms, heard, beside 50 spinners and a fork storm";
    let drift = "1 stream of 32 B each 30 ms, heard";
    let crowd = "10,000 streams of 32 B each 30 ms, freed";
    let paced = |streams, sink, packets: u32| paced(streams, sink, packets / share);
    let busy = paced(10, "heard", 50) + " --spinners 50 --forks 1";
    let chained = goal("P6", ["uring-chain", "plain-abs"], at_most(1.0)).because(WAKE);
    vec![
        Group {
            goals: vec![Goal { metric: Some(LATE_P99), ..chained }],
            ..group("ten", ten, paced(10, "heard", 50), LATE, "plain")
        },
        Group {
            goals: vec![
                goal("P7", ["tbf-kernel", "plain"], at_most(0.1)),
                goal("P7", ["tbf-kernel", "sendmmsg, FIFO"], at_most(2.0)),
                goal("P7", ["uring-chain", "plain"], None),
                goal("P7", ["uring-chain-sqpoll", "plain"], None),
            ],
            is_ranked: true,
            ..group("hogs", hogs, busy, LATE, "plain")
        },
        Group {
            goals: vec![goal("P1", ["plain-abs", ""], at_most(1.0))],
            only: &["plain", "plain-abs", "sendmmsg"],
            ..group("drift", drift, paced(1, "heard", 1000), DRIFT, "")
        },
        Group {
            goals: vec![goal("P6", ["uring-chain", ""], at_most(1.0))],
            only: &[
                "plain",
                "sendmmsg",
                "uring-chain",
                "uring-chain-sqpoll",
                "tbf-kernel",
                "bpf-stamp",
                "xdp-run",
            ],
            ..group("calls", "1000 packets of 1 stream, heard", CALLED.to_owned(), CALLS, "")
        },
        Group {
            goals: vec![goal("P10", ["sendmmsg", ""], at_most(10.0))],
            only: &["sendmmsg", "sendmmsg+gso", "uring-batch"],
            ..group("crowd", crowd, paced(10_000, "freed", 60), LATE, "")
        },
    ]
}

fn has(parts: &[&str], sender: &str) -> bool {
    parts.iter().any(|part| sender.contains(part))
}

impl Group {
    /// The arms.
    pub fn arms(&self, senders: &[String], bare: bool) -> Vec<Arm> {
        let is_fast = self.flags.contains("--gap 0");
        let fits = |name: &&String| {
            let wanted = self.only.is_empty() || self.only.contains(&name.as_str());
            // An `ifb` takes no frames: there the packets would leave by a socket.
            let is_refused = has(&FRAMES, name) && self.flags.contains("--sink freed");
            wanted && !(is_fast && has(&PACED, name)) && !is_refused
        };
        let names: Vec<&String> = senders.iter().filter(fits).collect();
        let mut arms: Vec<Arm> = names.iter().map(|name| Arm::ours(name)).collect();
        for name in &names {
            // The bare loops know one receiver only, and packets for one leave as one message.
            let is_fair = is_fast || !name.contains("gso");
            if bare && self.with_bare && is_fair && BARE.contains(&name.as_str()) {
                arms.push(Arm::bare(name));
            }
            if self.is_ranked && RANKED.contains(&name.as_str()) {
                arms.extend(RANKS.map(|(rank, flags)| Arm::ranked(name, rank, flags)));
            }
        }
        arms
    }

    /// Whether the rest of the core's cycles is counted for an arm.
    pub fn soaks(&self, arm: &Arm) -> bool {
        let is_base = arm.sender == self.base && arm.rank.is_empty();
        self.counts_core() && !arm.is_bare && (is_base || has(&KERNEL_WORKS, &arm.sender))
    }

    /// Whether the kernel's own work is part of the question.
    fn counts_core(&self) -> bool {
        self.metric.name == COST.name && !self.flags.contains("--gap 0")
    }

    /// The goals, and the other arms compared with the base.
    pub fn figures(&self, taken: &Taken) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.goals.iter().map(|it| self.figure(it, taken)).collect();
        for label in taken.labels.iter().filter(|it| *it != self.base) {
            let right = label.strip_prefix("bare ").unwrap_or(self.base);
            let is_goal = |it: &Goal| it.left == label && it.right == right && it.metric.is_none();
            if !self.goals.iter().any(is_goal) {
                figures.push(self.shown(label, right, taken));
            }
        }
        figures
    }

    fn figure(&self, goal: &Goal, taken: &Taken) -> Figure {
        let metric = goal.metric.unwrap_or(self.metric);
        let mut figure = self.read(goal.left, goal.right, metric, taken);
        (figure.goal, figure.wanted, figure.because) = (goal.id, goal.wanted, goal.because);
        figure
    }

    fn shown(&self, left: &str, right: &str, taken: &Taken) -> Figure {
        // If the kernel does the work outside the process, both sides include that work.
        let is_core = self.counts_core() && right == self.base && has(&KERNEL_WORKS, left);
        self.read(left, right, if is_core { CORE } else { self.metric }, taken)
    }

    fn read(&self, left: &str, right: &str, metric: Metric, taken: &Taken) -> Figure {
        let found = match right {
            "" => taken.values(left, metric).map(|mut it| {
                it.blocks.iter_mut().for_each(|value| *value /= metric.unit);
                it.from = format!("{} {}", short(it.middle()), metric.unit_name);
                it
            }),
            right => taken.ratio(left, right, metric),
        };
        let name = if right.is_empty() { left.to_owned() } else { format!("{left} / {right}") };
        let load = self.load.to_owned();
        let (goal, because) = ("", "");
        Figure { goal, name, what: metric.name, load, wanted: None, because, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sender_that_is_new_has_rows_in_every_open_group() {
        let known = senders(&["plain", "sendmmsg", "brand-new", "tbf-kernel"]);
        for group in groups(false) {
            let arms = group.arms(&known, true);
            let takes = |label: &str| arms.iter().any(|arm| arm.label == label);
            assert_eq!(takes("brand-new"), group.only.is_empty(), "{}", group.name);
            let is_fast = group.flags.contains("--gap 0");
            assert!(!(is_fast && takes("tbf-kernel")), "{}: paced by bytes", group.name);
            assert_eq!(takes("bare sendmmsg"), group.with_bare && takes("sendmmsg"));
            assert_eq!(takes("sendmmsg, FIFO"), group.is_ranked);
            let mut labels: Vec<_> = arms.iter().map(|arm| &arm.label).collect();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), arms.len(), "{}", group.name);
        }
    }

    #[test]
    fn a_goal_whose_sender_is_missing_says_so() {
        for group in groups(true) {
            let figures = group.figures(&Taken::default());
            assert_eq!(figures.len(), group.goals.len(), "{}", group.name);
            assert!(figures.iter().all(|it| it.found.is_err() && it.verdict().is_empty()));
        }
    }

    #[test]
    fn only_what_the_kernel_does_by_itself_is_soaked() {
        let all = groups(false);
        let audio = all.iter().find(|it| it.name == "audio").unwrap();
        assert!(
            audio.soaks(&Arm::ours("tbf-kernel")) && audio.soaks(&Arm::ours("uring-chain-sqpoll"))
        );
        assert!(audio.soaks(&Arm::ours("plain")), "whom they are compared with");
        assert!(!audio.soaks(&Arm::ours("sendmmsg")) && !audio.soaks(&Arm::bare("sqpoll")));
        assert!(!all.iter().find(|it| it.name == "small").unwrap().soaks(&Arm::ours("sqpoll")));
    }
}
