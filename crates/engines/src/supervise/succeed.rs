//! Handover to the next binary.

use memory::Phase;
use seam::Service;

use super::{Crew, Supervisor};
use crate::handover::{Handover, Outcome, Successor};
use crate::say::say;

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// Starts a successor, unless there is a reason not to, which is then printed.
    pub(super) fn hand_over(&mut self) {
        let common = self.common;
        let refused = match common.server.state_fd {
            _ if self.phase() != Phase::Ready => Err("this server is not ready, or leaves"),
            _ if self.successor.is_some() => Err("one is being started already"),
            _ if common.server.handover.is_some_and(Handover::is_predecessor_here) => {
                Err("the server before has not left yet; try again when it has")
            }
            None => Err("the state lies in private memory; serve with --upgradable"),
            Some(state) => Ok(state),
        };
        let started = refused.map_err(str::to_owned).and_then(|state| {
            let started = Successor::start(
                common.epoch,
                state,
                &common.listeners.sockets,
                common.server.others,
            );
            started.map_err(|error| format!("the program cannot be started again: {error}"))
        });
        match started {
            Ok(successor) => {
                say!("handing over to process {}", successor.pid());
                self.successor = Some(successor);
            }
            Err(reason) => say!("cannot hand over: {reason}"),
        }
    }

    /// Leaves if the successor is ready.
    pub(super) fn follow_successor(&mut self, said_something: bool) {
        let Some(successor) = self.successor.as_mut().filter(|_| said_something) else { return };
        match successor.outcome() {
            Outcome::Ready => {
                self.handed_over = true;
                if self.phase() == Phase::Ready {
                    self.enter(Phase::Leaving, self.drain);
                }
            }
            Outcome::Failed => say!("the successor did not become ready; serving on"),
        }
        self.successor = None;
    }
}
