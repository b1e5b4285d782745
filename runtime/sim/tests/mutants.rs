//! One deliberate mistake per law, and the proof that its checker sees it: a checker
//! that cannot fail proves nothing.
//!
//! An engine cannot make most of these mistakes, because `seam::Conn` prevents them. So the mutants
//! of the engine's laws are a middleman between `Conn` and a watched service.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use seam::{
    Buffers, Closed, Conn, Cx, Effects, Event, Instant, Limits, Out, Peer, Service, SessionId,
    Step, Then, WorkerId,
};
use sim::laws::probe::{Echo, Probe, World};
use sim::laws::{Law, Seen, Violation, Watched, listing};
use sim::{Case, Faults, Script, chunking, determinism, run};

/// The mistakes of the middleman.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Keeps unused input for ever and asks for more.
    Hoards,
    FeedsWhileFull,
    FeedsWhilePaused,
    RoomTooSoon,
    /// Subtracts a second from every other moment.
    TimeGoesBack,
    /// Delivers the deadline as soon as it is asked for.
    WakesEarly,
    WakesUnasked,
    LosesTail,
    EndsTwice,
    StepsWhileAway,
    StepsAfterClose,
    ForgetsClose,
}

/// Stands between `Conn` and a watched service and makes one mistake.
struct Middleman<'a, S> {
    inner: &'a Watched<S>,
    flaw: Flaw,
}

struct Held<T> {
    session: T,
    hoard: Vec<u8>,
    left: usize,
    steps: u32,
}

impl<S: Service> Middleman<'_, S> {
    /// The flaw's addition to the step that has just been made.
    fn spoil(
        &self,
        cx: &Cx<'_, S::State>,
        held: &mut Held<Seen<S::Session>>,
        input: Option<&[u8]>,
        step: Step<S::Job>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let rest = input.map_or(&b""[..], |input| &input[step.used..]);
        let again = match self.flaw {
            Flaw::FeedsWhileFull if out.is_full() && !rest.is_empty() => Event::Bytes(rest),
            Flaw::FeedsWhilePaused if matches!(step.then, Then::Pause) && !rest.is_empty() => {
                Event::Bytes(rest)
            }
            Flaw::RoomTooSoon if out.is_full() => Event::Room,
            Flaw::WakesEarly if step.wake.is_some_and(|wake| wake > cx.now) => Event::Deadline,
            Flaw::WakesUnasked if step.wake.is_none() => Event::Deadline,
            Flaw::StepsWhileAway if matches!(step.then, Then::Offload(_)) => Event::Drain,
            Flaw::StepsAfterClose if matches!(step.then, Then::Close) => Event::Room,
            _ => return step,
        };
        let more = self.inner.step(cx, &mut held.session, again, out);
        Step { used: step.used + more.used, ..step }
    }
}

impl<S: Service> Service for Middleman<'_, S> {
    type State = S::State;
    type Session = Held<Seen<S::Session>>;
    type Job = S::Job;
    type Outcome = S::Outcome;

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, out: &mut Out) -> Self::Session {
        let session = self.inner.open(cx, peer, out);
        Held { session, hoard: Vec::new(), left: 0, steps: 0 }
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        held: &mut Self::Session,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        held.steps += 1;
        if self.flaw == Flaw::TimeGoesBack && held.steps % 2 == 0 {
            let effects = Effects::new(false, false);
            let now = Instant::from_ns(cx.now.ns() - 1_000_000_000);
            let past = Cx::new(now, cx.me, cx.worker, cx.state, &effects);
            return self.inner.step(&past, &mut held.session, event, out);
        }
        let input = match event {
            Event::Bytes(input) => Some(input),
            _ => None,
        };
        if let (Flaw::Hoards, Some(input)) = (self.flaw, input) {
            held.hoard.extend_from_slice(input);
            let step = self.inner.step(cx, &mut held.session, Event::Bytes(&held.hoard), out);
            held.hoard.drain(..step.used);
            return Step { used: input.len(), ..step };
        }
        if let (Flaw::LosesTail, Some(input)) = (self.flaw, input) {
            let fresh = if held.left < input.len() { &input[held.left..] } else { input };
            let step = self.inner.step(cx, &mut held.session, Event::Bytes(fresh), out);
            held.left = fresh.len() - step.used;
            return Step { used: input.len() - held.left, ..step };
        }
        if self.flaw == Flaw::EndsTwice && matches!(event, Event::Eof) {
            self.inner.step(cx, &mut held.session, Event::Eof, out);
        }
        let step = self.inner.step(cx, &mut held.session, event, out);
        self.spoil(cx, held, input, step, out)
    }

    fn work(&self, state: &S::State, job: S::Job) -> S::Outcome {
        self.inner.work(state, job)
    }

    fn close(&self, cx: &Cx<'_, S::State>, held: Self::Session, why: Closed) {
        if self.flaw != Flaw::ForgetsClose {
            self.inner.close(cx, held.session, why);
        }
    }
}

/// The violations that `flaw` causes inside, over a few seeds of rough weather.
fn seen<S: Service>(inner: S, state: &S::State, flaw: Flaw, said: &[u8]) -> Vec<Violation> {
    let inner = Watched::new(inner, listing);
    for seed in 0..20 {
        let middleman = Middleman { inner: &inner, flaw };
        // The result in `Conn` or the probe is irrelevant here, but a panic must not end the test.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            run(&middleman, state, &Script::saying(said), &Faults::rough(seed), seed)
        }));
    }
    inner.violations()
}

const SAID: &[u8] =
    b"echo a\nmuch 9\necho b\nmuch 9\nwait 9\nnudge 5\njob abc\nflow 9\necho c\nbye\n";

#[test]
fn a_middleman_without_a_flaw_is_not_accused() {
    assert_eq!(seen(Probe::narrow(), &World::default(), Flaw::None, SAID), []);
    assert_eq!(seen(Echo::deaf(), &(), Flaw::None, &[b'x'; 5000]), []);
}

/// The law that each flaw breaks, and words of the evidence.
const FLAWS: [(Flaw, Law, &str); 12] = [
    (Flaw::FeedsWhileFull, Law::BackPressure, "bytes unsent"),
    (Flaw::FeedsWhilePaused, Law::BackPressure, "during its pause"),
    (Flaw::RoomTooSoon, Law::BackPressure, "`Room` with"),
    (Flaw::TimeGoesBack, Law::Time, "`now` went back by"),
    (Flaw::WakesEarly, Law::Time, "early"),
    (Flaw::WakesUnasked, Law::Time, "not asked for"),
    (Flaw::LosesTail, Law::Order, "were not offered first"),
    (Flaw::StepsWhileAway, Law::Order, "while its job is out"),
    (Flaw::StepsAfterClose, Law::Closing, "after it said `Close`"),
    (Flaw::ForgetsClose, Law::Closing, "dropped without `close`"),
    (Flaw::EndsTwice, Law::Order, "`Eof` twice"),
    (Flaw::Hoards, Law::Progress, "stepped after it used nothing of `input_max` bytes"),
];

#[test]
fn each_flaw_of_an_engine_is_seen_from_inside() {
    for (flaw, law, how) in FLAWS {
        let violations = match flaw {
            Flaw::EndsTwice => seen(Small(keeps), &(), flaw, b"x"),
            Flaw::Hoards => seen(Echo::deaf(), &(), flaw, &[b'x'; 5000]),
            _ => seen(Probe::narrow(), &World::default(), flaw, SAID),
        };
        let first = violations.first().unwrap_or_else(|| panic!("{flaw:?} was not seen"));
        assert_eq!(first.law, law, "{first}");
        assert!(violations.iter().any(|it| it.detail.contains(how)), "{violations:?}");
    }
}

/// A service made of one function, whose session is a number; closes at the end of input. The
/// function returns how much of the input it has used.
struct Small<F>(F);

impl<F> Service for Small<F>
where
    F: Fn(&mut u64, &Event<'_, Infallible>, &mut Out) -> usize + Sync,
{
    type State = ();
    type Session = u64;
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        Limits { output_high: 64, output_low: 16, ..Echo::default().limits }
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) -> u64 {
        0
    }

    fn step(
        &self,
        _cx: &Cx<'_, ()>,
        count: &mut u64,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        let used = self.0(count, &event, out);
        match event {
            Event::Eof | Event::Drain if *count < u64::MAX => Step::close(0),
            _ => Step::read(used),
        }
    }

    fn work(&self, _state: &(), job: Infallible) -> Infallible {
        job
    }
}

fn input<'a>(event: &Event<'a, Infallible>) -> &'a [u8] {
    if let Event::Bytes(input) = event { input } else { b"" }
}

/// Uses everything and does not close.
fn keeps(count: &mut u64, event: &Event<'_, Infallible>, _out: &mut Out) -> usize {
    *count = u64::MAX;
    input(event).len()
}

/// Answers each piece of input instead of each message.
fn counts_pieces(count: &mut u64, event: &Event<'_, Infallible>, out: &mut Out) -> usize {
    let Event::Bytes(input) = event else { return 0 };
    *count += 1;
    out.bytes().extend_from_slice(format!("{count}\n").as_bytes());
    input.len()
}

/// Puts the newest output before the output not sent yet.
fn newest_first(_count: &mut u64, event: &Event<'_, Infallible>, out: &mut Out) -> usize {
    let Event::Bytes(input) = event else { return 0 };
    let sent_already = out.bytes().len() - out.waiting();
    out.bytes().splice(sent_already..sent_already, input[..1].iter().copied());
    1
}

/// Drops its output when it is told to end, like an engine that closes before it flushes.
fn closes_unflushed(_count: &mut u64, event: &Event<'_, Infallible>, out: &mut Out) -> usize {
    out.bytes().extend_from_slice(input(event));
    if *event == Event::Eof {
        out.advance(out.waiting());
    }
    input(event).len()
}

static OUTSIDE: AtomicU64 = AtomicU64::new(0);

/// Puts a number from outside the seam into its reply.
fn unseeded(_count: &mut u64, event: &Event<'_, Infallible>, out: &mut Out) -> usize {
    let Event::Bytes(input) = event else { return 0 };
    let number = OUTSIDE.fetch_add(1, Relaxed);
    out.bytes().extend_from_slice(format!("{number}\n").as_bytes());
    input.len()
}

/// The output as it came.
fn whole(output: &[u8]) -> Vec<u8> {
    output.to_vec()
}

/// The panic message of `checker`.
fn panic_of(checker: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(checker)).expect_err("the checker sees nothing");
    panic.downcast_ref::<String>().expect("checkers panic with a text").clone()
}

/// Two threads, each with a connection, both with the same session id.
fn two_workers_in_one_session() -> String {
    let (inside, opened) = (Barrier::new(2), Barrier::new(2));
    // Waits inside a step until another step is inside too.
    let meets = |_: &mut u64, event: &Event<'_, Infallible>, _: &mut Out| {
        if let Event::Bytes(_) = event {
            inside.wait();
        }
        input(event).len()
    };
    let meets = Watched::new(Small(meets), listing);
    std::thread::scope(|scope| {
        for slot in 0..2 {
            let (meets, opened) = (&meets, &opened);
            scope.spawn(move || {
                let effects = Effects::new(false, false);
                let id = SessionId::new(0, 0, 1);
                let cx = Cx::new(Instant::ZERO, id, WorkerId::new(slot, 1), &(), &effects);
                let mut conn = Conn::open(meets, &cx, Peer::Local, &mut Buffers::new(1));
                opened.wait();
                conn.feed(meets, &cx, b"x");
                conn.abort(Closed::Forced);
                conn.close(meets, &cx);
            });
        }
    });
    let was_inside = |violation: &&Violation| violation.detail.contains("was inside");
    meets.violations().iter().find(was_inside).expect("both were inside at once").to_string()
}

#[test]
fn each_law_has_a_mutant_that_its_checker_sees() {
    let calm = Faults::calm();
    for law in Law::ALL {
        let words = law.to_string();
        let (found, marks) = match law {
            Law::Progress | Law::BackPressure | Law::Time | Law::Closing => {
                assert!(FLAWS.iter().any(|flaw| flaw.1 == law), "{law}");
                continue;
            }
            Law::Chunking => {
                let checked = || chunking(&Small(counts_pieces), || (), b"abcdef", &calm, 0, whole);
                (panic_of(checked), "cut after byte 1 of 6")
            }
            Law::Order => {
                // In calm weather everything is sent at once only if one step makes one byte.
                let input: Vec<u8> = (b'a'..=b'z').collect();
                let checked = || chunking(&Small(newest_first), || (), &input, &calm, 50, whole);
                (panic_of(checked), "equal bytes expected")
            }
            Law::Exclusion => (two_workers_in_one_session(), words.as_str()),
            Law::BoundedTurn => {
                let greedy = Faults { receive: 1 << 20, turn: 1 << 20, ..calm.clone() };
                let script = Script::saying(&vec![b'x'; 1 << 20]);
                let run = run(&Echo::default(), &(), &script, &greedy, 0);
                (run.violations[0].to_string(), words.as_str())
            }
            Law::Determinism => {
                let script = Script::saying(b"x");
                let case = |seed| Case { script: script.clone(), faults: calm.clone(), seed };
                (panic_of(|| determinism(&Small(unseeded), || (), 1, case)), "the same seed twice")
            }
        };
        assert!(found.contains(marks), "{law}\nfound: {found}");
    }
}

#[test]
fn output_that_is_dropped_at_the_close_is_missed() {
    let calm = Faults::calm();
    let checked = || chunking(&Small(closes_unflushed), || (), &[b'x'; 90], &calm, 50, whole);
    let found = panic_of(checked);
    assert!(found.contains("equal bytes expected"), "{found}");
}
