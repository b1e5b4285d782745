//! Workers that are processes, forked from a supervisor with a single thread: beforehand, or one
//! for each connection.
//!
//! Shared data lies in mappings made before the fork; the listeners and the two event descriptors
//! are inherited. The supervisor follows a child by its pidfd, so the child's end is an event like
//! any other. A child dies with the supervisor: no orphan keeps the port.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use seam::{Service, WorkerId};
use sys::epoll::{Epoll, Events};
use sys::process::{self, Exit, Fork, Pid};
use sys::ready::Interest;
use sys::signal::Signal;

use super::{Member, hybrid, serve, serve_visitor};
use crate::accept::Arrival;
use crate::admin::Admin;
use crate::axes::Container;
use crate::fault::Fault;
use crate::say::say;
use crate::server::{Common, Report, StateStore};
use crate::supervise::{Crew, End, Ended, supervise};
use crate::wait::mechanism;

/// The exit code of a worker that panicked, as of any Rust program.
const PANICKED: i32 = 101;

/// Runs the workers as children of this process.
pub(crate) fn run<S: Service>(
    common: &Common<'_, S>,
    store: &mut dyn StateStore<S::State>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(),
) -> Result<Report, Fault> {
    let ends = Epoll::new().map_err(Fault::Wait)?;
    let events = Events::with_capacity(ENDS);
    let mut crew = Processes { common, children: HashMap::new(), ends, events };
    supervise(common, &mut crew, store, admin, ready)
}

struct Processes<'a, S: Service> {
    common: &'a Common<'a, S>,
    /// The living processes, by the bits of their worker's id.
    children: HashMap<u32, Child>,
    /// Their pidfds in an epoll, so that the cost of a check grows with the processes that have
    /// ended, not with the living ones.
    ends: Epoll,
    events: Events,
}

struct Child {
    id: WorkerId,
    pid: Pid,
    pidfd: OwnedFd,
}

/// The maximum number of ends that one check returns.
const ENDS: usize = 64;

impl<S: Service> Crew for Processes<'_, S> {
    fn start(&mut self, id: WorkerId, visitor: Option<Arrival>) -> io::Result<()> {
        let supervisor = process::this();
        let pid = match process::fork()? {
            Fork::Child => self.live(id, supervisor, visitor),
            Fork::Parent(pid) => pid,
        };
        let watched = process::pidfd_open(pid).and_then(|pidfd| {
            self.ends.add(&pidfd, Interest::READ, id.bits().into())?;
            Ok(pidfd)
        });
        match watched {
            Ok(pidfd) => {
                self.children.insert(id.bits(), Child { id, pid, pidfd });
            }
            Err(error) => {
                // Without a pidfd its end would go unnoticed, and its successor would share its
                // slot.
                let _ = process::kill(pid, Signal::KILL);
                let _ = process::wait(pid);
                self.common.heal(id);
                return Err(error);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        // One descriptor for the connection itself, one for the pidfd.
        let one = || self.ends.as_fd().try_clone_to_owned();
        one().and_then(|first| one().map(|second| (first, second))).is_ok()
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.ends.as_fd()]
    }

    fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        if self.ends.wait(&mut self.events, Some(Duration::ZERO)).is_err() {
            return ended;
        }
        for event in self.events.iter() {
            let Some(child) = self.children.get(&(event.key as u32)) else { continue };
            let end = match process::reap(child.pid) {
                Ok(None) => continue,
                Ok(Some(Exit::Code(0))) => End::Left,
                Ok(Some(Exit::Code(code))) => End::Code(code),
                Ok(Some(Exit::Signal(signal))) => End::Signal(signal),
                Err(error) => End::Lost(error.to_string()),
            };
            ended.push(Ended { id: child.id, end });
            // Another child may hold a copy of the pidfd; closing ours alone would leave it in the
            // list.
            let _ = self.ends.remove(&child.pidfd);
            self.children.remove(&(event.key as u32));
        }
        ended
    }

    fn kill(&mut self) -> bool {
        for child in self.children.values() {
            // A process that is gone already needs no signal.
            let _ = process::kill(child.pid, Signal::KILL);
        }
        true
    }
}

impl<S: Service> Processes<'_, S> {
    /// The child's whole life.
    fn live(&mut self, id: WorkerId, supervisor: Pid, visitor: Option<Arrival>) -> ! {
        if visitor.is_none() {
            // The siblings' descriptors belong to the supervisor. A process for a single connection
            // leaves them to its exit, which closes them all at once.
            self.children.clear();
        }
        self.common.board.sit(id, process::this());
        let bound = process::set_parent_death_signal(Signal::KILL).map_err(Fault::Spawn);
        if process::parent() != Some(supervisor) {
            // The supervisor ended before this process could bind its life to it.
            process::exit_now(1);
        }
        // A panic must not unwind into the supervisor's frames, of which this process has a copy.
        let common = self.common;
        let member = Member::of_all(common, id);
        let is_extra = common.extra.is_some_and(|extra| extra.slot == id.slot());
        let live = || match visitor {
            Some(visitor) => serve_visitor(common, id, member, visitor),
            None if common.shape.container == Container::Hybrid && !is_extra => {
                hybrid::live(common, id)
            }
            None => serve(common, &*mechanism(common)?, id, member),
        };
        match catch_unwind(AssertUnwindSafe(|| bound.and_then(|()| live()))) {
            Ok(Ok(())) => process::exit_now(0),
            Ok(Err(fault)) => {
                say!("worker {}: {fault}", id.slot());
                process::exit_now(1)
            }
            Err(_) => process::exit_now(PANICKED),
        }
    }
}
