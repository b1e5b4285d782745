//! The supervisor's data, by what changes together. The other files of this folder are its methods.

use std::time::Duration;

use seam::Instant;

use super::crew::Crew;
use super::event_log::EventLog;
use super::governing::{Governing, governing};
use super::reception::Reception;
use super::reserve::Reserve;
use super::windows::Windows;
use super::worker_entry::WorkerEntry;
use crate::admin::{Admin, AdminQueue};
use crate::common::Common;
use crate::handover::Successor;
use crate::server::{Report, StateStore};
use crate::spare::Spare;

/// The time that workers have to end by themselves after a force.
pub(super) const GRACE: Duration = Duration::from_secs(2);

pub(super) struct Supervisor<'a, C: Crew> {
    pub common: &'a Common<'a>,
    pub crew: &'a mut C,
    pub store: &'a mut dyn StateStore<()>,
    pub entries: Vec<WorkerEntry>,
    pub reception: Option<Reception<'a>>,
    /// Decides how many processes there are, where that changes.
    pub spare: Option<Spare>,
    /// Decides how many requests are executed at once, where that is limited.
    pub governing: Option<Governing>,
    pub saving: Saving,
    pub stopping: Stopping,
    pub takeover: Takeover,
    pub administration: Administration<'a>,
    pub event_log: EventLog,
    /// The time when the server started.
    pub begun: Instant,
    pub report: Report,
}

impl<'a, C: Crew> Supervisor<'a, C> {
    /// A supervisor that has not started any worker.
    pub fn new(
        common: &'a Common<'a>,
        crew: &'a mut C,
        store: &'a mut dyn StateStore<()>,
        admin: Admin<'a>,
    ) -> Supervisor<'a, C> {
        let now = clock();
        let save_next = store.every().map(|every| now + every);
        let staffing = common.shape.staffing();
        Supervisor {
            common,
            crew,
            store,
            entries: Vec::new(),
            reception: Reception::new(common),
            spare: staffing.and_then(|it| Spare::new(it.policy, it.terms, now)),
            governing: governing(common.shape, now),
            saving: Saving { at: None, next: save_next, reserve: Reserve::take() },
            stopping: Stopping { closing: None, stopped_at: None, deadline: None },
            takeover: Takeover::default(),
            event_log: EventLog::new(admin.handler.is_some()),
            administration: Administration {
                pulse_at: admin.pulse.is_some().then_some(now),
                admin,
                queue: AdminQueue::default(),
                windows: Windows::default(),
            },
            begun: now,
            report: Report::default(),
        }
    }
}

/// When the state is saved.
pub(super) struct Saving {
    /// The time of a save that is due for a reason.
    pub at: Option<Instant>,
    /// The time of the next save by the clock.
    pub next: Option<Instant>,
    pub reserve: Reserve,
}

/// The end of the server.
pub(super) struct Stopping {
    /// The server is stopping, and connections may still wait in the kernel's queue.
    pub closing: Option<Closing>,
    /// The time of the last stop that counted.
    pub stopped_at: Option<Instant>,
    /// The time when the present phase ends by force.
    pub deadline: Option<Instant>,
}

/// A stop in progress, while the listeners are deaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    pub from: Instant,
    pub until: Instant,
    /// When to check the queue.
    pub looks_at: Instant,
}

/// The handover to the next binary.
#[derive(Default)]
pub(super) struct Takeover {
    /// A binary that was started to take over.
    pub successor: Option<Successor>,
    /// The time to try a hand-over that could not begin yet.
    pub retry_at: Option<Instant>,
    /// The process of the successor, which saves the state from now on.
    pub handed_over: Option<u32>,
}

/// The administration's clients, and what they can ask for.
pub(super) struct Administration<'a> {
    pub admin: Admin<'a>,
    pub queue: AdminQueue,
    /// The time of the next sign of life.
    pub pulse_at: Option<Instant>,
    pub windows: Windows,
}

/// The time.
pub(super) fn clock() -> Instant {
    Instant::from_ns(sys::clock::now_ns())
}
