//! Workers that are processes, forked from a supervisor with a single thread: beforehand, or one
//! for each connection.
//!
//! Shared data lies in mappings made before the fork; the listeners and the two event descriptors
//! are inherited. The end of a child is a signal that the supervisor reads like any other event, so
//! it holds no descriptor for a child, and none that later children would copy and close. A child
//! dies with the supervisor: no orphan keeps the port.
//!
//! A child for one connection costs mostly page faults. It therefore starts with its buffers, and
//! allocates next to nothing: a large allocation would touch the headers of all free memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use language::eprintln;
use seam::WorkerId;
use sys::process::{self, Exit, Fork, Pid};
use sys::signal::{self, Signal, SignalFd};

use super::{hybrid, serve, serve_visitor};
use crate::accept::source::Arrival;
use crate::axes::Container;
use crate::common::Common;
use crate::fault::Fault;
use crate::supervise::crew::{Crew, End, Ended};
use crate::wait;
use crate::wait::blocking::kept::Kept;

/// The exit code of a worker that panicked, as of any Rust program.
const PANICKED: i32 = 101;

/// Readable when a child has ended.
fn ends() -> io::Result<SignalFd> {
    // Where the signal was ignored before exec, the kernel would reap children unnoticed.
    signal::set_default(Signal::CHLD)?;
    signal::block(&[Signal::CHLD])?;
    SignalFd::new(&[Signal::CHLD])
}

/// The children of this process.
pub(crate) struct Processes<'a> {
    common: &'a Common<'a>,
    /// The living, in no order. After a fork each write copies a page, and here one is written.
    children: Vec<(Pid, WorkerId)>,
    ends: SignalFd,
    /// The buffers of each child that serves one connection, which has a copy of them.
    kept: Kept,
}

impl<'a> Processes<'a> {
    /// None yet.
    pub fn new(common: &'a Common<'a>) -> io::Result<Processes<'a>> {
        // Every fork copies the tables of these pages.
        process::trim_heap();
        Ok(Processes { common, children: Vec::new(), ends: ends()?, kept: Kept::new() })
    }
}

impl Crew for Processes<'_> {
    fn start(&mut self, id: WorkerId, visitor: Option<Arrival>) -> io::Result<()> {
        let supervisor = process::this();
        match process::fork()? {
            Fork::Child => self.live(id, supervisor, visitor),
            Fork::Parent(pid) => self.children.push((pid, id)),
        }
        Ok(())
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ends.as_fd())
    }

    fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        if !matches!(self.ends.read(), Ok(Some(_))) {
            return ended;
        }
        // One signal may stand for several ends.
        while let Some(pid) = process::ended() {
            let Some(at) = self.children.iter().position(|child| child.0 == pid) else {
                // Not a worker but a successor, which hides the workers that ended after it.
                self.children.retain(|&(pid, id)| match end(pid) {
                    None => true,
                    Some(end) => {
                        ended.push(Ended { id, end });
                        false
                    }
                });
                break;
            };
            let (pid, id) = self.children.swap_remove(at);
            ended.extend(end(pid).map(|end| Ended { id, end }));
        }
        ended
    }

    fn kill(&mut self) -> bool {
        for &(pid, _) in &self.children {
            // A process that is gone already needs no signal.
            let _ = process::kill(pid, Signal::KILL);
        }
        true
    }
}

/// Reaps the child `pid`; `None` while it runs.
fn end(pid: Pid) -> Option<End> {
    Some(match process::reap(pid) {
        Ok(None) => return None,
        Ok(Some(Exit::Code(0))) => End::Left,
        Ok(Some(Exit::Code(code))) => End::Code(code),
        Ok(Some(Exit::Signal(signal))) => End::Signal(signal),
        Err(error) => End::Lost(error.to_string()),
    })
}

impl Processes<'_> {
    /// The child's whole life.
    fn live(&mut self, id: WorkerId, supervisor: Pid, visitor: Option<Arrival>) -> ! {
        self.common.board.sit(id, process::this());
        // The supervisor replaces a worker; nobody replaces the supervisor.
        let _ = process::end_first_without_memory();
        let bound = process::set_parent_death_signal(Signal::KILL).map_err(Fault::Spawn);
        if process::parent() != Some(supervisor) {
            // The supervisor ended before this process could bind its life to it.
            process::exit_now(1);
        }
        // A panic must not unwind into the supervisor's frames, of which this process has a copy.
        let common = self.common;
        let member = common.member(id);
        let is_extra = common.extra.is_some_and(|extra| extra.slot == id.slot());
        let kept = &mut self.kept;
        let live = || match visitor {
            Some(visitor) => serve_visitor(common, id, member, kept, visitor),
            None if common.shape.container == Container::Hybrid && !is_extra => {
                hybrid::live(common, id)
            }
            None => serve(common, &*wait::of_server(common)?, id, member),
        };
        match catch_unwind(AssertUnwindSafe(|| bound.and_then(|()| live()))) {
            Ok(Ok(())) => process::exit_now(0),
            Ok(Err(fault)) => {
                eprintln!("worker {}: {fault}", id.slot());
                process::exit_now(1)
            }
            Err(_) => process::exit_now(PANICKED),
        }
    }
}
