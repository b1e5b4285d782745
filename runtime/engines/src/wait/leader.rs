//! Leader and followers: threads that take turns at one epoll (Schmidt et al., *Leader/Followers*,
//! PLoP 2000; ACE's reactor with a pool of threads).
//!
//! One thread leads: it waits for one event. With that it hands the lead to a follower, and then
//! serves the connection itself until that would block, so no connection passes through a queue
//! from one thread to another, and no thread only waits for others. The price is a wake-up of the
//! next leader for each event. A connection is watched for one event at a time (`EPOLLONESHOT`), so
//! one thread at a time steps it.
//!
//! The parked connections, the serving and the duties of the thread that waits are those of the
//! engine `event` ([`parked`]); the duties pass on with the lead. An event that concerns several
//! connections (a drain, deadlines, a shortage) leaves them in the queue, from which the next
//! leaders take one each before they wait. Jobs run in place: while a thread works, others lead.

use std::sync::Mutex;

use memory::SlotState;
use seam::{Instant, WorkerId};
use sys::epoll::Events;
use sys::process;

use crate::common::Common;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::member::Member;
use crate::parts::lock::lock;
use crate::shape::SLOTS;
use crate::wait::mechanism::Mechanism;
use crate::wait::parked::listener::{Duties, Listener};
use crate::wait::parked::parking::ParkedConnections;
use crate::wait::parked::{self, Next};

/// The connections of all threads, and the lead.
pub struct Leaders {
    pub parking: ParkedConnections,
    lead: Mutex<Lead>,
    /// The most connections that a turn accepts.
    accepts: usize,
    /// The slot that names and counts the connections. It is no thread's own, because any thread
    /// may die.
    pub pool: WorkerId,
}

/// The state of the leader, whichever thread leads.
struct Lead {
    /// `None` before the first thread leads.
    duties: Option<Duties>,
    events: Events,
    is_over: bool,
}

impl Leaders {
    /// No connection yet, and no leader; a turn brings up to `events` events and accepts up to
    /// `accepts` connections.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(
        common: &Common<'_>,
        events: usize,
        accepts: usize,
    ) -> Result<Leaders, Fault> {
        let slot = common.epoch.slot() + SLOTS - 1;
        let pool = WorkerId::new(slot, common.epoch.generation() + 1);
        common.board.sit(pool, process::this()).set_state(SlotState::Ready);
        let parking = ParkedConnections::new(common.sessions_max()).map_err(Fault::Wait)?;
        let lead = Lead { duties: None, events: Events::with_capacity(events), is_over: false };
        Ok(Leaders { parking, lead: Mutex::new(lead), accepts, pool })
    }

    /// Takes the lead, and gives it on with work, or at the end of the server.
    pub(crate) fn follow(&self, pool: &WorkerContext<'_>) -> Result<Next, Fault> {
        self.parking.as_idle(self.accepts, || {
            let mut lead = lock(&self.lead);
            let mut work = self.parking.take_queued();
            if work.is_none() && !lead.is_over {
                self.lead(&mut lead, pool).map_err(Fault::Wait)?;
                work = self.parking.take_queued();
            }
            Ok(if work.is_none() && lead.is_over { Next::Over } else { Next::Work(work) })
        })
    }

    /// When the last turn found its events.
    pub fn led(&self) -> Instant {
        lock(&self.lead).duties.as_ref().map_or(Instant::ZERO, |duties| duties.now)
    }

    fn lead(&self, lead: &mut Lead, pool: &WorkerContext<'_>) -> std::io::Result<()> {
        let is_first = lead.duties.is_none();
        let duties = lead.duties.get_or_insert_with(|| Duties::new(pool));
        let parking = &self.parking;
        let (context, first, serves) = (pool, pool.id.slot(), true);
        let mut leader = Listener { context, parking, first, serves, duties };
        if is_first {
            leader.begin()?;
        }
        lead.is_over = leader.turn(&mut lead.events)?;
        Ok(())
    }
}

impl Mechanism for Leaders {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        let pool = context.of_pool(self.pool);
        parked::serve(context, &self.parking, self.pool.slot(), || self.follow(&pool))
    }

    fn pools_sessions(&self) -> bool {
        true
    }
}
