//! Worker threads that never block: connections with nothing to do are parked in an epoll (Apache's
//! event MPM).
//!
//! One thread of each process, the listener, waits for all of its connections and queues each one
//! that becomes ready. The workers take connections from the queue; a worker serves a connection
//! until it would block, and parks it again. So a keep-alive connection costs no worker between two
//! requests. The price is a change of threads for each request, which a loop does not have.

pub mod listener;
pub mod parking;
pub mod stepper;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use memory::{Doing, Phase};
use seam::{Closed, SessionId};

use self::parking::{Connection, ParkedConnections, ParkedWork};
use self::stepper::{Rest, Spare, Stepper};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::member::Member;
use crate::wait::mechanism::Mechanism;

impl Mechanism for ParkedConnections {
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault> {
        if member.feeds_workers() {
            return listener::serve(context, self, member.first);
        }
        let next = || {
            let work = self.next_ready();
            let is_over = || context.phase() > Phase::Ready && self.is_over();
            Ok(if work.is_none() && is_over() { Next::Over } else { Next::Work(work) })
        };
        serve(context, self, member.first + member.workers, next)
    }

    fn pools_sessions(&self) -> bool {
        true
    }

    fn has_listener(&self) -> bool {
        true
    }

    fn listener_ended(&self) {
        self.close();
    }
}

/// The next action of a worker.
pub(crate) enum Next {
    /// It serves a connection, if one is ready.
    Work(Option<ParkedWork>),
    /// It ends, because no more will come.
    Over,
}

/// Serves the connections that `next` gives until none will come. `shard` is the slot that names
/// the sessions.
pub(crate) fn serve(
    context: &WorkerContext<'_>,
    parking: &ParkedConnections,
    shard: usize,
    mut next: impl FnMut() -> Result<Next, Fault>,
) -> Result<(), Fault> {
    let mut spare = Spare::new();
    let stepper =
        Stepper { context, spare: &mut spare, now: context.now(), works: true, sends: true };
    let mut worker = Worker { stepper, parking, shard, serving: None };
    context.ready();
    loop {
        let ready = match next()? {
            Next::Work(Some(ready)) => ready,
            Next::Work(None) => continue,
            Next::Over => return Ok(()),
        };
        worker.stepper.now = context.now();
        context.turn(worker.stepper.now);
        context.slot().serving.set(1);
        let served = catch_unwind(AssertUnwindSafe(|| worker.take(ready)));
        context.slot().serving.set(0);
        context.rest(Doing::Waiting);
        if let Err(panic) = served {
            // The session is lost; the listener must not wait for it.
            worker.serving.into_iter().for_each(|id| parking.end(id));
            resume_unwind(panic);
        }
    }
}

struct Worker<'a, 'd> {
    stepper: Stepper<'a, 'd>,
    parking: &'a ParkedConnections,
    shard: usize,
    serving: Option<SessionId>,
}

impl Worker<'_, '_> {
    fn take(&mut self, work: ParkedWork) {
        match work {
            ParkedWork::New((fd, peer)) => {
                let id = self.parking.name(self.shard);
                self.serving = Some(id);
                if let Some(connection) = self.stepper.open(id, &mut Some(fd), peer) {
                    self.serve(connection, true);
                }
            }
            ParkedWork::Parked(mut connection, moved) => {
                self.serving = Some(connection.x.id);
                self.stepper.resume(&mut connection, moved);
                self.serve(connection, moved);
            }
        }
        self.serving = None;
    }

    /// Serves a session until it would block, and parks it again or ends it.
    fn serve(&mut self, mut connection: Box<Connection>, mut readable: bool) {
        loop {
            match self.stepper.step(&mut connection, &mut readable) {
                Rest::Parked(interest) => {
                    if let Err((mut back, _)) = self.parking.park(connection, interest) {
                        back.conn.abort(Closed::Reset);
                        self.finish(*back);
                    }
                    return;
                }
                Rest::Again | Rest::Job | Rest::Output => match self.parking.requeue(connection) {
                    None => return,
                    Some(back) => connection = back,
                },
                Rest::Over => return self.finish(*connection),
            }
        }
    }

    fn finish(&mut self, connection: Connection) {
        let id = connection.x.id;
        self.stepper.finish(connection);
        self.parking.end(id);
    }
}
