//! A clock: each client gets the seconds since it connected, ten times a second, and sets its
//! clock back to 0 by any line. The session's deadline is its timer.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

const TICK: Duration = Duration::from_millis(100);

struct Ticker;

/// The start of the clock, and the next tick.
struct Clock(Instant, Instant);

impl Service for Ticker {
    type State = ();
    type Session = Clock;
    type Job = Infallible;
    type Outcome = Infallible;

    fn patience(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn open(&self, cx: &Cx<'_, ()>, _: Peer, _: &mut Out) -> Clock {
        Clock(cx.now, cx.now + TICK)
    }

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        Clock(start, next): &mut Clock,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        let mut used = 0;
        match event {
            Event::Bytes(input) => (*start, used) = (cx.now, input.len()),
            Event::Deadline if *next <= cx.now => {
                *next = cx.now + TICK;
                if !out.is_full() {
                    let seconds = cx.now.since(*start).as_secs_f32();
                    out.bytes().extend(format!("{seconds:.1}\n").bytes());
                }
            }
            Event::Eof | Event::Drain => return Step::close(0),
            Event::Room | Event::Deadline => {}
            Event::Outcome(never) => match never {},
        }
        Step::read(used).wake_at(*next)
    }

    fn work(&self, _: &(), job: Infallible) -> Infallible {
        match job {}
    }
}

fn main() -> ExitCode {
    roundhouse::main(Ticker)
}
