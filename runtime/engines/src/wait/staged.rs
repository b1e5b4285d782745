//! Stages with queues between them: SEDA (Welsh, Culler, Brewer, *SEDA: An Architecture for
//! Well-Conditioned, Scalable Internet Services*, SOSP 2001).
//!
//! A request passes three stages, each with separate threads. *Read* waits at one epoll for all
//! connections and accepts; it receives what has come, and queues the session with its input.
//! *Step* feeds the input and runs the service and its jobs. *Write* sends, and arms the
//! descriptor again (`EPOLLONESHOT`). A session is in one place at a time, the epoll, a queue or
//! the hands of a thread, so no two threads step it, and its replies keep their order.
//!
//! The queues are bounded: a stage that finds the next queue full waits, so the reader stops
//! receiving and accepting while the threads of *step* have enough to do. One thread reads. The
//! others are shared by *step* and *write*: each of these keeps one, and the rest sleep in a
//! reserve until SEDA's controller gives them to a stage whose queue is long or does not move. A
//! second controller looks for the smallest batch that keeps the stage fast ([`controller`]).
//!
//! The parked connections and the turn of a session are those of `event`, and the reader's duties
//! those of `leader` ([`Leaders`]). The service also runs in *write* if a reply that has left makes
//! room for the rest of an answer, or if it looks for a last request while the server drains.

mod controller;
mod queue;
pub mod stages;
mod thread;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use memory::Doing;
use seam::Instant;
use sys::socket::{self, Received};

use self::queue::Figures;
use self::stages::{Input, STEP, Stages, WRITE};
use self::thread::StageThread;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::RECEIVE_BYTES;
use crate::member::Member;
use crate::parts::lock::lock;
use crate::status::Gauge;
use crate::wait::mechanism::Mechanism;
use crate::wait::parked::Next;
use crate::wait::parked::parking::ParkedWork;
use crate::wait::parked::stepper::{Spare, Stepper};

impl Stages {
    /// The life of the reader.
    fn run_reader(&self, context: &WorkerContext<'_>) -> Result<(), Fault> {
        let pool = context.of_pool(self.reader.pool);
        let mut scratch = vec![0; RECEIVE_BYTES];
        context.ready();
        loop {
            let mut work = match self.reader.follow(&pool)? {
                Next::Work(Some(work)) => work,
                Next::Work(None) => continue,
                Next::Over => break,
            };
            let now = context.now();
            context.turn(now);
            let length = self.reader.parking.queued() + 1;
            lock(&self.read).note(self.reader.led(), now, length);
            let input = receive(context, &mut work, &mut scratch, now);
            self.call(self.steps.put((work, input), context.now()));
            context.rest(Doing::Waiting);
        }
        self.close();
        Ok(())
    }
}

/// Receives for a session that an event concerns, if it wants input.
fn receive(
    context: &WorkerContext<'_>,
    work: &mut ParkedWork,
    scratch: &mut [u8],
    now: Instant,
) -> Input {
    let ParkedWork::Parked(connection, true) = work else { return None };
    // A session that lingers drops its input in its turn.
    if connection.linger.is_some()
        || !connection.conn.wants().read
        || !connection.may_receive(context, now)
    {
        return None;
    }
    match socket::recv_nowait(&connection.fd, scratch) {
        Received::Later => None,
        received @ Received::Bytes(len) => Some((received, scratch[..len].to_vec())),
        received => Some((received, Vec::new())),
    }
}

impl Mechanism for Stages {
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault> {
        if member.index == member.workers {
            return self.run_reader(context);
        }
        let mut spare = Spare::new();
        let (now, shard) = (context.now(), self.reader.pool.slot());
        let stepper = Stepper { context, spare: &mut spare, now, works: false, sends: false };
        let mut thread = StageThread { stages: self, stepper, shard };
        context.ready();
        while let Some(stage) = self.join(context) {
            let served = catch_unwind(AssertUnwindSafe(|| match stage {
                STEP => thread.serve(STEP, &self.steps, StageThread::step),
                _ => thread.serve(WRITE, &self.writes, StageThread::write),
            }));
            if let Err(panic) = served {
                lock(&self.reserve).controller.lose(stage);
                self.called.notify_one();
                resume_unwind(panic);
            }
        }
        Ok(())
    }

    fn pools_sessions(&self) -> bool {
        true
    }

    fn has_listener(&self) -> bool {
        true
    }

    fn gauges(&self) -> Vec<Gauge> {
        let threads = lock(&self.reserve).controller.threads;
        let (read, queued) = (*lock(&self.read), self.reader.parking.queued());
        let (step, write) = (self.steps.figures(), self.writes.figures());
        let stages = [
            ("read", (read, queued, 1), 1),
            ("step", step, threads[STEP]),
            ("write", write, threads[WRITE]),
        ];
        stages
            .into_iter()
            .flat_map(|(name, figures, threads)| rows(name, figures, threads))
            .collect()
    }
}

/// The figures of a stage.
fn rows(
    stage: &str,
    (figures, length, batch): (Figures, usize, usize),
    threads: usize,
) -> [Gauge; 8] {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mean = seconds(figures.wait_ns / figures.events.max(1));
    [
        Gauge::now("stage_queue_length", "Events in the queue of a stage", length as f64),
        Gauge::now(
            "stage_queue_length_max",
            "The longest queue of a stage",
            figures.length_max as f64,
        ),
        Gauge::now("stage_wait_seconds", "Mean wait of an event in the queue", mean),
        Gauge::now(
            "stage_wait_seconds_max",
            "The longest wait of an event",
            seconds(figures.wait_ns_max),
        ),
        Gauge::now("stage_batch", "Events that a thread takes at once", batch as f64),
        Gauge::now("stage_threads", "Threads that serve the stage", threads as f64),
        Gauge::total("stage_events", "Events that the stage has taken", figures.events as f64),
        Gauge::total("stage_full", "Waits because its queue was full", figures.full as f64),
    ]
    .map(|gauge| gauge.with("stage", stage))
}
