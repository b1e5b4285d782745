//! The worker that only accepts. It hands each connection to a worker that it chose before
//! accepting, so excess clients stay in the kernel's queue.

use std::io;
use std::time::Duration;

use memory::{Doing, Phase, Refusal, Slot, SlotState};

use super::source::Arrival;
use super::{Listeners, Means};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::parts::admission::{Admission, Attempt};

/// The pause before a worker's full channel is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// Accepts until the server drains. `first` is the slot of the first worker.
pub fn serve(
    context: &WorkerContext<'_>,
    listeners: &Listeners,
    first: usize,
) -> Result<(), Fault> {
    let mut acceptor = Acceptor { context, listeners, first, passed: Vec::new() };
    let mut admission = Admission::new(usize::MAX);
    let mut accepted = 0;
    context.ready();
    while context.phase() <= Phase::Ready || !context.is_over() {
        let now = context.now();
        context.turn(now);
        context.rest(Doing::Waiting);
        let Some(chosen) = acceptor.choose().map_err(Fault::Wait)? else { continue };
        match admission.sort(context.listener.accept(false), now, context.slot()) {
            Attempt::Taken(arrival) => {
                acceptor.deliver(chosen, arrival);
                accepted += 1;
                if accepted >= context.lifetime {
                    (first..=context.id.slot()).for_each(|slot| context.board.slot(slot).dismiss());
                }
            }
            Attempt::Gone | Attempt::Empty => {}
            Attempt::Exhausted => admission.sleep_back_off(now),
        }
    }
    context.slot().set_state(SlotState::Draining);
    Ok(())
}

/// The number of connections that a worker has taken, including those that it could not keep.
fn taken(slot: &Slot) -> u64 {
    slot.accepted.read() + slot.refused.read()
}

struct Acceptor<'a, 'd> {
    context: &'a WorkerContext<'d>,
    listeners: &'a Listeners,
    first: usize,
    /// The number of connections passed to each worker, counted as the worker counts them.
    passed: Vec<u64>,
}

impl Acceptor<'_, '_> {
    /// The worker for the next connection, if one has room.
    fn choose(&mut self) -> io::Result<Option<usize>> {
        let slot = |index: usize| self.context.board.slot(self.first + index);
        match &self.listeners.means {
            Means::Handoff(lanes) => Ok(lanes.choose(|index| slot(index).open.read())),
            Means::Pass(channels) => {
                if self.passed.is_empty() {
                    // The new count omits connections that an earlier acceptor passed and that
                    // still lie in a channel, so a worker may once get one too many.
                    self.passed = (0..channels.len()).map(|index| taken(slot(index))).collect();
                }
                let passed = &self.passed;
                let load = |index: usize| {
                    let taken = taken(slot(index));
                    (passed[index] + slot(index).open.read()).saturating_sub(taken)
                };
                channels.choose(load, self.context.sessions_max() as u64)
            }
            Means::Nothing | Means::Exclusive | Means::Lock(_) => {
                Err(io::Error::other("this way of accepting needs no acceptor"))
            }
        }
    }

    /// Hands `arrival` to the chosen worker, which had room a moment ago.
    fn deliver(&mut self, chosen: usize, (fd, peer): Arrival) {
        match &self.listeners.means {
            Means::Pass(channels) => {
                while let Err(error) = channels.deliver(chosen, &fd, peer) {
                    let full = error.kind() == io::ErrorKind::WouldBlock;
                    if !full || self.context.phase() >= Phase::Forced {
                        self.context.slot().refuse(Refusal::NoWorker);
                        return;
                    }
                    std::thread::sleep(RETRY);
                }
                self.passed[chosen] += 1;
            }
            Means::Handoff(lanes) if lanes.deliver(chosen, fd, peer).is_ok() => {}
            _ => self.context.slot().refuse(Refusal::NoWorker),
        }
    }
}
