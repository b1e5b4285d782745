//! The example hello written against the seam itself: what functions of lines cost next to it, in
//! instructions under callgrind, is what the library adds.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;
use wire::line::{self, Next};

const LINE_MAX: usize = 8 * 1024;

struct Hello;

impl Service for Hello {
    type State = ();
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn open(&self, _: &Cx<'_, ()>, _: Peer, _: &mut Out) {}

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        _: &mut (),
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        let input = match event {
            Event::Bytes(input) => input,
            Event::Eof | Event::Drain => return Step::close(0),
            Event::Room | Event::Deadline => return Step::read(0),
            Event::Outcome(never) => match never {},
        };
        let mut used = 0;
        while used < input.len() && !out.is_full() {
            match line::next(&input[used..], LINE_MAX) {
                Next::Line { text, used: len } => {
                    used += len;
                    cx.answered(1);
                    let out = out.bytes();
                    out.extend_from_slice(b"hello, ");
                    out.extend_from_slice(text);
                    out.push(b'\n');
                }
                Next::More => break,
                Next::TooLong => {
                    out.bytes().extend_from_slice(b"error: expected a shorter line\n");
                    return Step::close(input.len());
                }
            }
        }
        Step::read(used)
    }

    fn work(&self, _: &(), job: Infallible) -> Infallible {
        match job {}
    }
}

fn main() -> ExitCode {
    roundhouse::main(Hello)
}
