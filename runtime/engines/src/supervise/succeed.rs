//! Handover to the next binary.

use std::time::Duration;

use language::{eprintln, info};
use memory::Phase;

use super::crew::Crew;
use super::state::{Supervisor, clock};
use crate::handover::Successor;

/// The interval of looks whether a hand-over can begin.
const LOOK: Duration = Duration::from_millis(50);

impl<C: Crew> Supervisor<'_, C> {
    /// Starts a successor, as soon as that is possible; prints the reason if it never is.
    pub(super) fn hand_over(&mut self) {
        let common = self.common;
        let refused = match (common.host.state_fd, self.takeover.handed_over) {
            (_, Some(pid)) => {
                Err(format!("process {pid} has taken over already; send the signal to that one"))
            }
            _ if self.phase() > Phase::Ready => Err("this server stops".to_owned()),
            _ if self.takeover.successor.is_some() => {
                Err("one is being started already".to_owned())
            }
            (None, _) => {
                Err("the state lies in private memory; serve with --upgradable".to_owned())
            }
            (Some(state), _) => Ok(state),
        };
        let is_early = self.phase() < Phase::Ready
            || common.host.handover.is_some_and(|it| it.predecessor().is_some());
        if refused.is_ok() && is_early {
            if self.takeover.retry_at.is_none() {
                info!("the server before has not left yet; handing over when it has");
            }
            self.takeover.retry_at = Some(clock() + LOOK);
            return;
        }
        self.takeover.retry_at = None;
        let started = refused.and_then(|state| {
            let started = Successor::start(
                common.epoch,
                state,
                &common.listeners.sockets,
                common.host.others,
            );
            started.map_err(|error| format!("the program cannot be started again: {error}"))
        });
        match started {
            Ok(successor) => {
                info!("handing over to process {}", successor.pid());
                self.takeover.successor = Some(successor);
            }
            Err(reason) => eprintln!("cannot hand over: {reason}"),
        }
    }

    /// Tries a hand-over that was asked for too early.
    pub(super) fn retry_hand_over(&mut self) {
        if self.takeover.retry_at.is_some_and(|moment| moment <= clock()) {
            self.hand_over();
        }
    }

    /// Leaves if the successor is ready.
    pub(super) fn follow_successor(&mut self, said_something: bool) {
        let Some(successor) = self.takeover.successor.as_mut().filter(|_| said_something) else {
            return;
        };
        if !successor.is_ready() {
            eprintln!("the successor did not become ready; this server continues");
        } else {
            self.takeover.handed_over = Some(successor.pid());
            if self.phase() == Phase::Ready {
                self.enter(Phase::Leaving, self.drain());
            }
        }
        self.takeover.successor = None;
    }

    /// Tells a predecessor that it may leave.
    pub(super) fn report_ready(&self) {
        if let Some(handover) = self.common.host.handover
            && let Err(error) = handover.report_ready()
        {
            eprintln!("the predecessor has ended already: {error}");
        }
    }
}
