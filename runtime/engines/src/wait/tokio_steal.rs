//! A task for each connection, on one runtime of tokio with several threads that steal tasks from
//! each other (`multi_thread`): tokio's reactor waits for the kernel, and its timers end the waits.
//!
//! The worker that the supervisor starts is the thread that *leads* ([`lead`]): it accepts, counts
//! connections, calls the service's tick, and wakes all tasks where something concerns them: the
//! server's phase, a reload, a shortage, a full server. The runtime's threads poll the tasks.
//!
//! A task owns its connection. It waits for its descriptor, its time or the leader's call, and then
//! takes a *seat* for one turn: the record of a worker, with a slot on the scoreboard and buffers.
//! There are as many seats as threads, and a slot has one writer at a time, whichever thread that
//! is. The turn is that of the engines `event` and `leader` ([`Stepper`]).
//!
//! A job runs without a seat, on the thread that polls the task. Meanwhile another thread takes
//! over the tasks that were waiting for that one (`block_in_place`).
//!
//! The reactor reports edges. A task takes a report before it receives, and remembers until a
//! receive comes short that there may be input, so nothing is lost between the two.

mod lead;
mod task;

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use memory::{Board, SlotState};
use seam::{SessionId, WorkerId};
use sys::process;
use sys::task::scope;
use tokio::runtime;
use tokio::sync::{Notify, watch};

use crate::context::WorkerContext;
use crate::erased::ErasedService;
use crate::fault::Fault;
use crate::member::Member;
use crate::parts::lock::lock;
use crate::wait::mechanism::Mechanism;
use crate::wait::parked::stepper::Spare;

/// The most threads besides those of the runtime: jobs that block at once beyond these delay tasks.
const JOBS_MAX: usize = 64;

/// The mechanism of one runtime.
pub struct StealingRuntime {
    /// The number of its threads.
    pub threads: usize,
}

impl Mechanism for StealingRuntime {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        let mut builder = runtime::Builder::new_multi_thread();
        builder.worker_threads(self.threads).max_blocking_threads(JOBS_MAX);
        let runtime = builder.enable_io().enable_time().build().map_err(Fault::Wait)?;
        let tasks = Tasks::new(context, self.threads);
        scope(|scope| runtime.block_on(tasks.lead(context, scope))).map_err(Fault::Wait)
    }

    fn pools_sessions(&self) -> bool {
        true
    }
}

/// A worker's record, for one turn of a task at a time.
struct Seat<'a> {
    context: WorkerContext<'a>,
    spare: Spare,
}

/// The data that the tasks and the leader share.
struct Tasks<'a> {
    board: &'a Board,
    service: &'a dyn ErasedService,
    seats: Vec<Mutex<Seat<'a>>>,
    /// The leader's call, with the edition of the settings.
    call: watch::Sender<u32>,
    /// The silence in ns after which a client makes room; 0: no client need.
    room_ns: AtomicU64,
    /// Sessions that have ended and that the leader has not counted yet.
    ended: Mutex<Vec<SessionId>>,
    /// Wakes the leader.
    bell: Notify,
}

impl<'a> Tasks<'a> {
    /// No task yet; the seats take the slots after the leader's.
    fn new(context: &WorkerContext<'a>, threads: usize) -> Tasks<'a> {
        let (first, generation) = (context.id.slot() + 1, context.id.generation());
        let seats = (first..first + threads).map(|slot| {
            let id = WorkerId::new(slot, generation);
            context.board.sit(id, process::this()).set_state(SlotState::Ready);
            Mutex::new(Seat { context: context.of_seat(id), spare: Spare::new() })
        });
        Tasks {
            board: context.board,
            service: context.service,
            seats: seats.collect(),
            call: watch::Sender::new(context.edition.get()),
            room_ns: AtomicU64::new(0),
            ended: Mutex::default(),
            bell: Notify::new(),
        }
    }

    /// A seat: that of number `last`, or another one that is free, whose number `last` becomes.
    fn seat(&self, last: &mut usize) -> MutexGuard<'_, Seat<'a>> {
        for index in (*last..self.seats.len()).chain(0..*last) {
            if let Ok(seat) = self.seats[index].try_lock() {
                *last = index;
                return seat;
            }
        }
        lock(&self.seats[*last])
    }

    /// Lets the leader count the end of a session.
    fn end(&self, id: SessionId) {
        lock(&self.ended).push(id);
        self.bell.notify_one();
    }
}
