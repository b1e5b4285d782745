//! A service whose sessions give orders to a paced source: all streams end with the first session.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use pacing::cbr::CbrOrders;
use seam::{Closed, Cx, Event, Limits, Out, Peer, Service, Step};

/// Greets, and ends the session and all streams at the session's first bytes.
pub struct Bell;

/// The first bytes that a session sends.
pub const GREETING: &[u8] = b"HELLO\n";

impl Service for Bell {
    type State = CbrOrders;
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        Limits { input_max: 64, output_high: 64, output_low: 16, sessions_max: 8 }
    }

    fn open(&self, _cx: &Cx<'_, CbrOrders>, _peer: Peer, out: &mut Out) {
        out.bytes().extend_from_slice(GREETING);
    }

    fn step(
        &self,
        _cx: &Cx<'_, CbrOrders>,
        _session: &mut (),
        event: Event<'_, Infallible>,
        _out: &mut Out,
    ) -> Step<Infallible> {
        match event {
            Event::Bytes(input) => Step::close(input.len()),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Outcome(never) => match never {},
        }
    }

    fn work(&self, _state: &CbrOrders, job: Infallible) -> Infallible {
        job
    }

    fn close(&self, cx: &Cx<'_, CbrOrders>, _session: (), _why: Closed) {
        cx.state.ended.store(1, Ordering::Release);
        cx.ring();
    }
}
