//! A thread of the stages "step" and "write": it takes batches, and gives each session to the next
//! stage, parks it or ends it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Doing;
use seam::{Closed, SessionId};

use super::queue::StageQueue;
use super::stages::{Input, Stages, WRITE};
use crate::parts::lock::lock;
use crate::wait::parked::parking::{Connection, ParkedWork};
use crate::wait::parked::stepper::{Rest, Stepper};

/// A thread that serves one of the two stages at a time.
pub(super) struct StageThread<'s, 'a, 'd> {
    pub stages: &'s Stages,
    pub stepper: Stepper<'a, 'd>,
    /// The slot that names the sessions.
    pub shard: usize,
}

impl StageThread<'_, '_, '_> {
    /// Serves a stage until the thread is idle, or the server ends.
    pub fn serve<T>(
        &mut self,
        stage: usize,
        queue: &StageQueue<T>,
        handle: fn(&mut Self, T, &mut VecDeque<T>),
    ) {
        let (context, stages) = (self.stepper.context, self.stages);
        let mut batch = VecDeque::new();
        while queue.take(&mut batch, || context.now()) {
            if batch.is_empty() {
                if lock(&stages.reserve).controller.leave(stage) {
                    return;
                }
                continue;
            }
            self.stepper.now = context.now();
            self.stepper.sends = stage == WRITE;
            context.turn(self.stepper.now);
            context.slot().serving.set(1);
            let mut events = 0;
            while let Some(event) = batch.pop_front() {
                events += 1;
                handle(self, event, &mut batch);
                // The governor counts each request.
                context.rest(Doing::Working);
            }
            context.slot().serving.set(0);
            context.rest(Doing::Waiting);
            queue.record(events, context.now());
        }
    }

    /// Opens or resumes a session, feeds its input, and runs the service.
    pub fn step(
        &mut self,
        (work, input): (ParkedWork, Input),
        batch: &mut VecDeque<(ParkedWork, Input)>,
    ) {
        let parking = &self.stages.reader.parking;
        let (id, mut connection, arrival, moved) = match work {
            ParkedWork::New(arrival) => (parking.name(self.shard), None, Some(arrival), true),
            ParkedWork::Parked(connection, moved) => {
                (connection.x.id, Some(connection), None, moved)
            }
        };
        let rest = self.caught(id, &mut connection, |thread, held| {
            let stepper = &mut thread.stepper;
            if let Some((fd, peer)) = arrival {
                *held = stepper.open(id, &mut Some(fd), peer);
            } else if let Some(connection) = held {
                stepper.resume(connection, moved);
            }
            let Some(connection) = held else { return Rest::Over };
            if let Some((received, bytes)) = input {
                let cx = stepper.cx(id);
                connection.received(stepper.context, &cx, received, &bytes);
            }
            let rest = stepper.step(connection, &mut false);
            if !matches!(rest, Rest::Job) {
                return rest;
            }
            // The job may block, so others take the rest of the batch.
            if !batch.is_empty() {
                thread.stages.call(thread.stages.steps.put_back(batch, stepper.now));
            }
            stepper.works = true;
            let rest = stepper.step(connection, &mut false);
            stepper.works = false;
            rest
        });
        self.settle(connection, rest);
    }

    /// Sends what a session has to say.
    pub fn write(&mut self, connection: Box<Connection>, _: &mut VecDeque<Box<Connection>>) {
        let (id, mut connection) = (connection.x.id, Some(connection));
        let rest = self.caught(id, &mut connection, |thread, held| match held {
            Some(connection) => thread.stepper.step(connection, &mut false),
            None => Rest::Over,
        });
        self.settle(connection, rest);
    }

    /// Calls the service; if it panics, its session ends, and the service is not called for it
    /// again.
    fn caught(
        &mut self,
        id: SessionId,
        held: &mut Option<Box<Connection>>,
        step: impl FnOnce(&mut Self, &mut Option<Box<Connection>>) -> Rest,
    ) -> Rest {
        let stepped = catch_unwind(AssertUnwindSafe(|| step(self, held)));
        stepped.unwrap_or_else(|_| {
            let (context, now) = (self.stepper.context, self.stepper.now);
            self.stepper.works = false;
            context.slot().panics.add(1);
            if let Some(mut connection) = held.take() {
                connection.release(context, now);
            }
            self.stages.reader.parking.end(id);
            Rest::Over
        })
    }

    /// Gives a session to the next stage, parks it or ends it; none: it has ended.
    fn settle(&mut self, connection: Option<Box<Connection>>, rest: Rest) {
        let Some(connection) = connection else { return };
        let (stages, now) = (self.stages, self.stepper.context.now());
        match rest {
            Rest::Output => stages.call(stages.writes.put(connection, now)),
            Rest::Again | Rest::Job => {
                let work = (ParkedWork::Parked(connection, false), None);
                stages.call(stages.steps.put_at_once(work, now));
            }
            Rest::Parked(interest) => {
                if let Err((mut back, _)) = stages.reader.parking.park(connection, interest) {
                    back.conn.abort(Closed::Reset);
                    self.finish(back);
                }
            }
            Rest::Over => self.finish(connection),
        }
    }

    fn finish(&mut self, connection: Box<Connection>) {
        let id = connection.x.id;
        // A panic here is the service's own, as in a turn.
        if catch_unwind(AssertUnwindSafe(|| self.stepper.finish(*connection))).is_err() {
            self.stepper.context.slot().panics.add(1);
        }
        self.stages.reader.parking.end(id);
    }
}
