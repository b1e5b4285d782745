//! The thread that leads: it accepts, and does what concerns several tasks.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use memory::{Doing, Phase, Refusal, SlotState};
use sys::task::{Moving, Scope};
use tokio::io::unix::AsyncFd;

use super::Tasks;
use super::task::Client;
use crate::accept::source::Arrival;
use crate::context::WorkerContext;
use crate::limits::ACCEPTS;
use crate::parts::admission::Attempt;
use crate::parts::lock::lock;
use crate::parts::table::Table;
use crate::parts::tick::tick;
use crate::wait::parked::listener::Duties;
use crate::wait::tokio_local::{Watched, watch};

struct Lead<'l, 's, 'a> {
    tasks: &'s Tasks<'a>,
    context: &'l WorkerContext<'a>,
    duties: Duties,
    /// Names the sessions.
    table: Table<()>,
    /// The phase that all tasks were woken for.
    seen: Phase,
    /// The queue of the listener has connections of which no edge will tell.
    has_more: bool,
}

impl<'a> Tasks<'a> {
    /// The leader's life.
    pub(super) async fn lead<'s>(
        &'s self,
        context: &WorkerContext<'a>,
        scope: &Scope<'s, Moving>,
    ) -> io::Result<()> {
        let watched = Watched {
            listener: watch(context.accept_source.fd())?,
            bells: [watch(context.stop.as_fd())?],
        };
        let (duties, table) = (Duties::new(context), Table::new(context.id.slot()));
        let (seen, has_more) = (Phase::Ready, false);
        let mut lead = Lead { tasks: self, context, duties, table, seen, has_more };
        context.ready();
        loop {
            lead.wait(&watched).await;
            if lead.turn(scope, &watched) {
                return Ok(());
            }
        }
    }
}

impl<'s> Lead<'_, 's, '_> {
    /// Waits for an event, for the end of a session, or for its time.
    async fn wait(&mut self, watched: &Watched<'_, 1>) {
        let (live, now) = (self.table.len(), self.duties.now);
        let is_open = self.duties.admission.is_open(live, now) && !self.context.is_over();
        let timeout = match self.has_more && is_open {
            true => Some(Duration::ZERO),
            false => self.duties.timeout(self.context, seam::Instant::NEVER),
        };
        self.context.rest(Doing::Waiting);
        let mut sleep = pin!(tokio::time::sleep(timeout.unwrap_or_default()));
        let mut bell = pin!(self.tasks.bell.notified());
        poll_fn(|cx| {
            let has_event = watched.poll(is_open, cx);
            let is_rung = bell.as_mut().poll(cx).is_ready();
            let is_due = timeout.is_some() && sleep.as_mut().poll(cx).is_ready();
            if has_event | is_rung | is_due { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Does what concerns several sessions; true when the server has drained.
    fn turn(&mut self, scope: &Scope<'s, Moving>, watched: &Watched<'_, 1>) -> bool {
        let (context, tasks) = (self.context, self.tasks);
        let now = context.now();
        self.duties.now = now;
        let is_renewed = context.turn(now);
        if is_renewed {
            self.duties.admission.set_limit(context.sessions_max());
        }
        for id in std::mem::take(&mut *lock(&tasks.ended)) {
            self.table.remove(id);
            context.closed(now);
        }
        self.accept(scope, watched);
        let phase = context.phase();
        if phase > Phase::Ready && self.seen <= Phase::Ready {
            let seats = (0..=tasks.seats.len()).map(|index| context.id.slot() + index);
            seats.for_each(|slot| context.board.slot(slot).set_state(SlotState::Draining));
        }
        let bound = self.duties.room_bound(context);
        if bound.is_some() || !self.duties.admission.is_full() {
            let bound_ns = bound.map_or(0, |bound| bound.as_nanos() as u64);
            tasks.room_ns.store(bound_ns, Ordering::Relaxed);
        }
        let has_news = std::mem::replace(&mut self.seen, phase) != phase || is_renewed;
        if has_news || bound.is_some() || context.board.is_short() {
            tasks.call.send_replace(context.edition.get());
        }
        self.duties.next_tick = tick(context, self.duties.next_tick, now);
        context.carry_out_effects();
        self.table.len() == 0 && context.is_over()
    }

    /// Accepts up to [`ACCEPTS`] connections while they are admitted.
    fn accept(&mut self, scope: &Scope<'s, Moving>, watched: &Watched<'_, 1>) {
        let context = self.context;
        if !std::mem::take(&mut self.has_more) && !watched.is_acceptable() {
            return;
        }
        for _ in 0..ACCEPTS {
            let (live, now) = (self.table.len(), self.duties.now);
            if context.is_over() || !self.duties.admission.is_open(live, now) {
                return;
            }
            let accepted = context.accept_source.take(false);
            match self.duties.admission.sort(accepted, now, context.slot()) {
                Attempt::Taken(arrival) => self.admit(scope, arrival),
                Attempt::Gone => {}
                Attempt::Empty => {
                    watched.clear_listener();
                    self.has_more = context.is_awaited();
                    return;
                }
                Attempt::Exhausted => return,
            }
        }
    }

    /// Starts the task of a connection.
    fn admit(&mut self, scope: &Scope<'s, Moving>, (fd, peer): Arrival) {
        let (context, tasks, now) = (self.context, self.tasks, self.duties.now);
        context.opened(now);
        // SAFETY: the descriptor stays open while it is registered: `Client` owns both, and drops
        // the registration first.
        let watched: Result<AsyncFd<RawFd>, _> = unsafe { AsyncFd::register(fd.as_raw_fd()) };
        match watched {
            Ok(watched) => {
                let id = self.table.insert(());
                let client = Client::new(id, watched, fd, context.edition.get());
                tokio::spawn(scope.task(tasks.serve(client, peer)));
            }
            Err(_) => {
                context.slot().refuse(Refusal::Exhausted);
                context.closed(now);
            }
        }
    }
}
