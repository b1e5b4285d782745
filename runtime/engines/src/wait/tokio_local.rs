//! A task for each connection, on a runtime of tokio for each worker: one thread, its own listener,
//! tokio's reactor and timers (`current_thread`, a `LocalSet`).
//!
//! A connection's task waits for its descriptor ([`AsyncFd`]), receives once, steps, sends, and
//! waits again ([`task`]). One more task leads ([`Worker::lead`]): it accepts, and it does what
//! concerns several connections: outcomes of jobs, deadlines, sweeps, the server's phase. Sessions
//! lie in the table of all loops ([`EventLoop`]), so both kinds of tasks find them; a poll of a
//! task is a turn of that loop. Where the leader changes what a session waits for, or ends it, it
//! wakes the session's task, which alone closes the descriptor.
//!
//! The runtime is used for waiting and scheduling only. Jobs go to the helpers of other loops.

mod seat;
mod task;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memory::{Phase, SlotState};
use seam::{Closed, Instant, SessionId};
use sys::task::{Local, Scope, scope};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime;
use tokio::task::LocalSet;

use self::seat::Seat;
use crate::accept::source::Arrival;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers::{self, Helpers};
use crate::limits::{ACCEPTS, RECEIVE_BYTES};
use crate::member::Member;
use crate::parts::admission::Attempt;
use crate::parts::event_loop::EventLoop;
use crate::wait::mechanism::Mechanism;

/// The mechanism of workers with a runtime each, which share nothing.
pub struct LocalRuntimes;

impl Mechanism for LocalRuntimes {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        helpers::with(context, |helpers| {
            let mut builder = runtime::Builder::new_current_thread();
            let runtime = builder.enable_io().enable_time().build().map_err(Fault::Wait)?;
            let worker = Worker::new(context, helpers);
            scope(|scope| {
                let local = LocalSet::new();
                runtime.block_on(local.run_until(worker.lead(scope))).map_err(Fault::Wait)
            })
        })
    }
}

/// The data that the tasks of a worker share.
struct Worker<'a> {
    context: &'a WorkerContext<'a>,
    helpers: &'a dyn Helpers,
    event_loop: RefCell<EventLoop<'a, Seat>>,
    scratch: RefCell<Vec<u8>>,
    /// Until when the leader sleeps, unless it is woken.
    until: Cell<Instant>,
    /// The leader has to look at the sessions.
    is_called: Cell<bool>,
    leader: RefCell<Waker>,
}

/// The descriptors of the leader; a session calls it without one.
pub(super) struct Watched<'a, const BELLS: usize> {
    pub listener: AsyncFd<BorrowedFd<'a>>,
    pub bells: [AsyncFd<BorrowedFd<'a>>; BELLS],
}

/// Registers a descriptor of the leader with the reactor of this thread.
pub(super) fn watch(fd: BorrowedFd<'_>) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: the descriptor is borrowed, and so stays open, for as long as the result lives.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

impl<const BELLS: usize> Watched<'_, BELLS> {
    /// Whether an event has come; a bell is silent again with that.
    pub fn poll(&self, is_open: bool, cx: &mut Context<'_>) -> bool {
        let mut has_come = is_open && self.listener.poll_read_ready(cx).is_ready();
        for bell in &self.bells {
            // Also registers for the next event.
            while let Poll::Ready(Ok(mut guard)) = bell.poll_read_ready(cx) {
                guard.clear_ready();
                has_come = true;
            }
        }
        has_come
    }

    /// Whether an edge of the listener has come since the last call of `clear_listener`.
    pub fn is_acceptable(&self) -> bool {
        self.listener.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// The listener has no connection: its next edge reports one.
    pub fn clear_listener(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(Ok(mut guard)) = self.listener.poll_read_ready(&mut cx) {
            guard.clear_ready();
        }
    }
}

impl<'a> Worker<'a> {
    fn new(context: &'a WorkerContext<'a>, helpers: &'a dyn Helpers) -> Worker<'a> {
        Worker {
            context,
            helpers,
            event_loop: RefCell::new(EventLoop::new(context)),
            scratch: RefCell::new(vec![0; RECEIVE_BYTES]),
            until: Cell::new(Instant::ZERO),
            is_called: Cell::new(false),
            leader: RefCell::new(Waker::noop().clone()),
        }
    }

    /// The leader's life.
    async fn lead<'s>(&'s self, scope: &Scope<'s, Local>) -> io::Result<()> {
        let context = self.context;
        let watched = Watched {
            listener: watch(context.accept_source.fd())?,
            bells: [watch(context.stop.as_fd())?, watch(self.helpers.bell())?],
        };
        context.ready();
        loop {
            let (timeout, is_open) = {
                let event_loop = &mut *self.event_loop.borrow_mut();
                let live = event_loop.table.len();
                (event_loop.timeout(), event_loop.admission.is_open(live, event_loop.now))
            };
            self.wait(&watched, timeout, is_open).await;
            if self.turn(scope, &watched) {
                return Ok(());
            }
        }
    }

    /// Waits for an event, for the call of a session, or for `timeout`.
    async fn wait(&self, watched: &Watched<'_, 2>, timeout: Option<Duration>, is_open: bool) {
        let now = self.event_loop.borrow().now;
        self.until.set(timeout.map_or(Instant::NEVER, |timeout| now + timeout));
        let mut sleep = pin!(tokio::time::sleep(timeout.unwrap_or_default()));
        poll_fn(|cx| {
            self.leader.borrow_mut().clone_from(cx.waker());
            let has_event = watched.poll(is_open, cx);
            let is_due = timeout.is_some() && sleep.as_mut().poll(cx).is_ready();
            match has_event | is_due | self.is_called.take() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Makes the leader look at the sessions.
    fn call_leader(&self) {
        self.is_called.set(true);
        self.leader.borrow().wake_by_ref();
    }

    /// Does what concerns several sessions; true when the server has drained.
    fn turn<'s>(&'s self, scope: &Scope<'s, Local>, watched: &Watched<'_, 2>) -> bool {
        let event_loop = &mut *self.event_loop.borrow_mut();
        event_loop.begin_turn();
        for id in event_loop.outcomes(self.helpers) {
            self.settle(event_loop, id);
        }
        self.accept(event_loop, scope, watched);
        for id in event_loop.wake_due() {
            self.settle(event_loop, id);
        }
        event_loop.tick();
        let mut overdue = event_loop.sweep();
        overdue.extend(event_loop.make_room(false));
        for (id, why) in overdue {
            let Some(at) = event_loop.at(id) else { continue };
            match at.connection.end_overdue(why) {
                true => at.connection.x.end(),
                false => self.settle(event_loop, id),
            }
        }
        self.carry_out(event_loop);
        self.follow_phase(event_loop);
        event_loop.end_turn();
        event_loop.table.len() == 0 && self.context.is_over()
    }

    /// Carries out the effects of sessions on others.
    fn carry_out(&self, event_loop: &mut EventLoop<'a, Seat>) {
        loop {
            let changed = event_loop.effects();
            if changed.is_empty() {
                return;
            }
            changed.into_iter().for_each(|id| self.settle(event_loop, id));
        }
    }

    fn follow_phase(&self, event_loop: &mut EventLoop<'a, Seat>) {
        let phase = self.context.phase();
        if phase > Phase::Ready {
            self.context.slot().set_state(SlotState::Draining);
        }
        match phase {
            Phase::Starting | Phase::Ready => {}
            Phase::Leaving => event_loop.stop_admitting(),
            Phase::Draining => {
                for id in event_loop.drain() {
                    self.settle(event_loop, id);
                }
            }
            Phase::Forced | Phase::Done => {
                for id in event_loop.force() {
                    if let Some(at) = event_loop.at(id) {
                        at.connection.x.end();
                    }
                }
            }
        }
    }

    /// Accepts up to [`ACCEPTS`] connections while they are admitted.
    fn accept<'s>(
        &'s self,
        event_loop: &mut EventLoop<'a, Seat>,
        scope: &Scope<'s, Local>,
        watched: &Watched<'_, 2>,
    ) {
        let context = self.context;
        for count in 0..ACCEPTS {
            // New connections may request much at once; they wait while others are served.
            if count > 0 && event_loop.is_long() {
                return;
            }
            let EventLoop { admission, table, now, .. } = event_loop;
            if !admission.is_open(table.len(), *now) {
                return;
            }
            match admission.sort(context.accept_source.take(false), *now, context.slot()) {
                Attempt::Taken(arrival) => self.admit(event_loop, scope, arrival),
                Attempt::Gone => {}
                Attempt::Empty => {
                    watched.clear_listener();
                    // No edge reports a connection again that is there already.
                    if !context.accept_source.is_given() && context.is_awaited() {
                        self.call_leader();
                    }
                    return;
                }
                Attempt::Exhausted => return,
            }
        }
    }

    /// Opens the session of a connection, and starts its task.
    fn admit<'s>(
        &'s self,
        event_loop: &mut EventLoop<'a, Seat>,
        scope: &Scope<'s, Local>,
        (fd, peer): Arrival,
    ) {
        // SAFETY: the descriptor stays open while it is registered. Its connection lies in the
        // table, from which only its task takes it, after that has dropped the registration; and
        // the tasks of a worker are dropped before its table.
        let watched: Result<AsyncFd<RawFd>, _> = unsafe { AsyncFd::register(fd.as_raw_fd()) };
        let mut at = event_loop.open(fd, peer, Seat::default());
        let id = at.cx.me;
        match watched {
            Ok(watched) => {
                // A greeting goes out at once.
                if !self.flush(&mut at) {
                    at.connection.x.end();
                }
                tokio::task::spawn_local(scope.task(self.serve(id, watched)));
            }
            Err(_) => {
                at.connection.conn.abort(Closed::Reset);
                event_loop.close(id);
            }
        }
    }

    /// Sends what a session has, and wakes its task where it waits for something else now.
    fn settle(&self, event_loop: &mut EventLoop<'a, Seat>, id: SessionId) {
        let Some(mut at) = event_loop.at(id) else { return };
        if !self.flush(&mut at) {
            at.connection.x.end();
        }
        at.connection.x.wake();
    }
}
