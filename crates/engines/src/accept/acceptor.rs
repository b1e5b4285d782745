//! The worker that only accepts: it gives each connection to another, chosen before it accepts, so
//! that who cannot be served waits in the kernel's queue.

use std::io;
use std::time::Duration;

use memory::{Doing, Phase, Refusal, Seat, SeatState};
use seam::Service;
use sys::socket;

use super::{Arrival, GRAIN, Hall, Means};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::parts::door::{Door, Failure};

/// How long a worker's full channel is given before it is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// Accepts until the house drains. `first` is the seat of the first worker.
pub fn serve<S: Service>(desk: &Desk<'_, S>, hall: &Hall, first: usize) -> Result<(), Fault> {
    let mut acceptor = Acceptor { desk, hall, first, passed: Vec::new() };
    let mut door = Door::new(usize::MAX);
    let mut accepted = 0;
    desk.ready();
    while desk.phase() <= Phase::Ready {
        let now = desk.now();
        desk.turn(now);
        desk.rest(Doing::Waiting);
        let Some(chosen) = acceptor.choose().map_err(Fault::Wait)? else { continue };
        match socket::accept(desk.listener, false) {
            Ok(arrival) => {
                acceptor.deliver(chosen, arrival);
                accepted += 1;
                if accepted >= desk.lifetime {
                    (first..=desk.id.slot()).for_each(|slot| desk.board.seat(slot).dismiss());
                }
            }
            Err(error) => match door.failed(&error, now) {
                Failure::Empty => {}
                Failure::Peer => desk.seat().refuse(Refusal::Gone),
                Failure::Exhausted => {
                    desk.seat().refuse(Refusal::Exhausted);
                    std::thread::sleep(door.opens_at().map_or(GRAIN, |moment| moment.since(now)));
                }
            },
        }
    }
    desk.seat().set_state(SeatState::Draining);
    Ok(())
}

/// Connections that a worker has taken, also those that it could not keep.
fn taken(seat: &Seat) -> u64 {
    seat.accepted.read() + seat.refused.read()
}

struct Acceptor<'a, 'd, S: Service> {
    desk: &'a Desk<'d, S>,
    hall: &'a Hall,
    first: usize,
    /// How many connections each worker was given, counted as it counts what it accepts.
    passed: Vec<u64>,
}

impl<S: Service> Acceptor<'_, '_, S> {
    /// The worker for the next connection, if one has room.
    fn choose(&mut self) -> io::Result<Option<usize>> {
        let seat = |index: usize| self.desk.board.seat(self.first + index);
        match &self.hall.means {
            Means::Handoff(lanes) => Ok(lanes.choose(|index| seat(index).open.read())),
            Means::Pass(channels) => {
                if self.passed.is_empty() {
                    // What an acceptor before us passed and still lies in a channel is not counted:
                    // its worker may have one connection more than it should, once.
                    self.passed = (0..channels.len()).map(|index| taken(seat(index))).collect();
                }
                let passed = &self.passed;
                let load = |index: usize| {
                    let taken = taken(seat(index));
                    (passed[index] + seat(index).open.read()).saturating_sub(taken)
                };
                channels.choose(load, self.desk.sessions_max() as u64)
            }
            Means::Nothing | Means::Exclusive | Means::Lock(_) => {
                Err(io::Error::other("nobody needs an acceptor here"))
            }
        }
    }

    /// Gives `arrival` to the worker that was chosen, for which there was room a moment ago.
    fn deliver(&mut self, chosen: usize, (fd, peer): Arrival) {
        match &self.hall.means {
            Means::Pass(channels) => {
                while let Err(error) = channels.deliver(chosen, &fd, peer) {
                    let full = error.kind() == io::ErrorKind::WouldBlock;
                    if !full || self.desk.phase() >= Phase::Forced {
                        self.desk.seat().refuse(Refusal::NoWorker);
                        return;
                    }
                    std::thread::sleep(RETRY);
                }
                self.passed[chosen] += 1;
            }
            Means::Handoff(lanes) if lanes.deliver(chosen, fd, peer).is_ok() => {}
            _ => self.desk.seat().refuse(Refusal::NoWorker),
        }
    }
}
