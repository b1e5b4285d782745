//! A service that is smaller than [`super::Probe`].

use core::convert::Infallible;

use seam::{Cx, Event, Limits, Out, Peer, Service, Step};

/// Sends back each byte, and closes at the end of input.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// The limits of each connection.
    pub limits: Limits,
    /// Never uses a byte: an engine must close a peer that sends [`Limits::input_max`] bytes.
    pub is_deaf: bool,
}

impl Default for Echo {
    fn default() -> Echo {
        let limits = Limits {
            input_max: 16 * 1024,
            output_high: 64 * 1024,
            output_low: 16 * 1024,
            sessions_max: 4096,
        };
        Echo { limits, is_deaf: false }
    }
}

impl Echo {
    /// A service that never uses a byte, with room for few.
    pub fn deaf() -> Echo {
        let limits = Limits { input_max: 1024, ..Echo::default().limits };
        Echo { limits, is_deaf: true }
    }
}

impl Service for Echo {
    type State = ();
    type Session = ();
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn open(&self, _cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        _cx: &Cx<'_, ()>,
        _session: &mut (),
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        match event {
            Event::Bytes(input) if !self.is_deaf => {
                out.bytes().extend_from_slice(input);
                Step::read(input.len())
            }
            Event::Bytes(_) | Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Outcome(never) => match never {},
        }
    }

    fn work(&self, _state: &(), job: Infallible) -> Infallible {
        job
    }
}
