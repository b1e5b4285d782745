//! A service whose types the engines do not know, so that every loop is compiled once, here,
//! instead of once for each service.
//!
//! An [`ErasedService`] is itself a [`Service`]: its sessions and jobs are boxes, its state is
//! empty, and each call goes through one table of functions to the actual service. A step costs one
//! indirect call and a connection one small allocation; a build is minutes shorter.

use core::any::Any;
use core::time::Duration;

use seam::{
    Closed, Cx, Dead, Event, Instant, Limits, Out, Peer, PushRefused, Service, Share, Step, Then,
};

use crate::server::StateStore;
use crate::status::Gauge;

/// A session, a job or an outcome of the actual service.
pub(crate) type Value = Box<dyn Any + Send>;

/// A connection of an erased service.
pub(crate) type Conn = seam::Conn<Value, Value>;

/// A service with its state, behind one table of functions.
pub(crate) trait ErasedService:
    Service<State = (), Session = Value, Job = Value, Outcome = Value>
{
    /// As [`Share::heal`] of the state.
    fn heal(&self, dead: Dead);
}

pub(crate) struct Bound<'a, S: Service> {
    pub service: &'a S,
    pub state: &'a S::State,
}

impl<S: Service> ErasedService for Bound<'_, S> {
    fn heal(&self, dead: Dead) {
        self.state.heal(dead);
    }
}

/// An engine returns only values that [`Bound`] itself has boxed.
const OWN: &str = "an engine returns a service's own values to it";

impl<S: Service> Service for Bound<'_, S> {
    type State = ();
    type Session = Value;
    type Job = Value;
    type Outcome = Value;

    fn limits(&self) -> Limits {
        self.service.limits()
    }

    fn patience(&self) -> Option<Duration> {
        self.service.patience()
    }

    fn refuses(&self) -> bool {
        self.service.refuses()
    }

    fn open(&self, cx: &Cx<'_, ()>, peer: Peer, out: &mut Out) -> Value {
        Box::new(self.service.open(&cx.on(self.state), peer, out))
    }

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        session: &mut Value,
        event: Event<'_, Value>,
        out: &mut Out,
    ) -> Step<Value> {
        let event = match event {
            Event::Bytes(bytes) => Event::Bytes(bytes),
            Event::Room => Event::Room,
            Event::Deadline => Event::Deadline,
            Event::Eof => Event::Eof,
            Event::Drain => Event::Drain,
            Event::Outcome(outcome) => Event::Outcome(*outcome.downcast().expect(OWN)),
        };
        let session = session.downcast_mut().expect(OWN);
        let Step { used, then, wake } = self.service.step(&cx.on(self.state), session, event, out);
        let then = match then {
            Then::Read => Then::Read,
            Then::Pause => Then::Pause,
            Then::Close => Then::Close,
            Then::Offload(job) => Then::Offload(Box::new(job) as Value),
        };
        Step { used, then, wake }
    }

    fn push(
        &self,
        cx: &Cx<'_, ()>,
        session: &mut Value,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        let session = session.downcast_mut().expect(OWN);
        self.service.push(&cx.on(self.state), session, bytes, out)
    }

    fn work(&self, _state: &(), job: Value) -> Value {
        Box::new(self.service.work(self.state, *job.downcast().expect(OWN)))
    }

    fn close(&self, cx: &Cx<'_, ()>, session: Value, why: Closed) {
        self.service.close(&cx.on(self.state), *session.downcast().expect(OWN), why);
    }

    fn tick(&self, cx: &Cx<'_, ()>) -> Option<Instant> {
        self.service.tick(&cx.on(self.state))
    }
}

/// A store that is bound to its state.
pub(crate) struct BoundStore<'a, T> {
    pub store: &'a mut dyn StateStore<T>,
    pub state: &'a T,
}

impl<T: Sync> StateStore<()> for BoundStore<'_, T> {
    fn is_changed(&mut self, _state: &()) -> bool {
        self.store.is_changed(self.state)
    }

    fn save(&mut self, _state: &()) -> Result<(), String> {
        self.store.save(self.state)
    }

    fn end(&mut self) {
        self.store.end();
    }

    fn every(&self) -> Option<Duration> {
        self.store.every()
    }

    fn reload(&mut self, _state: &()) -> Vec<String> {
        self.store.reload(self.state)
    }

    fn gauges(&self, _state: &()) -> Vec<Gauge> {
        self.store.gauges(self.state)
    }
}
