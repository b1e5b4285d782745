//! The engine's half of one connection: a worker's turn with it, by the contract at the top of
//! `seam::Conn`.
//!
//! It does what the loops of the engines do, in every order that the contract allows: input comes
//! in pieces, an event may wait for the next turn, a send takes all or a part, at once or later
//! ([`Writes`]), a cancelled receive may still feed. Which of these happens is a choice of the
//! seed. A later event is an [`Order`] to the world.

use std::collections::VecDeque;
use std::io::IoSlice;

use seam::{Buffers, Closed, Conn, Cx, Instant, Part, Service, SessionId, Source};

use crate::link::Link;
use crate::rng::{Choices as _, Rng};
use crate::script::Faults;

/// A connection's order to the world.
pub(crate) enum Order<J> {
    /// Work on the job, then deliver the outcome to the session.
    Work(SessionId, J),
    /// Let a send go on.
    Land(SessionId),
    Wake(SessionId),
}

/// The surroundings of a turn, next to the connection itself.
pub(crate) struct Context<'a, S: Service> {
    pub(crate) service: &'a S,
    pub(crate) cx: &'a Cx<'a, S::State>,
    pub(crate) link: &'a mut Link,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) faults: &'a Faults,
    pub(crate) rng: &'a mut Rng,
    pub(crate) orders: Vec<(Instant, Order<S::Job>)>,
    pub(crate) pushes_lost: &'a mut u64,
}

/// One connection in a worker's table.
pub(crate) struct Connection<S: Service> {
    pub(crate) conn: Conn<S::Session, S::Job>,
    pub(crate) client: usize,
    // The events of the session since its last turn.
    landed: usize,
    pub(crate) outcome: Option<S::Outcome>,
    pub(crate) pushed: Vec<Vec<u8>>,
    pub(crate) drain: bool,
    due: bool,
    pub(crate) shut: Option<Closed>,
    pub(crate) forced: bool,
    /// The connection waits for a turn.
    pub(crate) dirty: bool,
    /// A receive is armed, or its cancellation has not landed.
    armed: bool,
    cancelled: bool,
    writes: Writes,
    /// Bytes taken from the output that the kernel does not hold yet.
    flight: VecDeque<u8>,
    landing: bool,
    eof: bool,
    gone: bool,
    timer: Option<Instant>,
}

/// The way in which a connection's output leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// By sends that return at once.
    Now,
    /// By parts that are taken and land later.
    Later,
    /// By either, in random alternation.
    Either,
}

#[derive(Clone, Copy)]
enum Task {
    Landed,
    Outcome,
    Pushed,
    Drain,
    Deadline,
    Input,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(
        conn: Conn<S::Session, S::Job>,
        client: usize,
        writes: Writes,
    ) -> Connection<S> {
        Connection {
            conn,
            client,
            landed: 0,
            outcome: None,
            pushed: Vec::new(),
            drain: false,
            due: false,
            shut: None,
            forced: false,
            dirty: false,
            armed: false,
            cancelled: false,
            writes,
            flight: VecDeque::new(),
            landing: false,
            eof: false,
            gone: false,
            timer: None,
        }
    }

    /// Takes one turn; returns true if the connection must be closed.
    pub(crate) fn turn(&mut self, context: &mut Context<'_, S>) -> bool {
        self.dirty = false;
        self.conn.lend(context.buffers);
        let mut tasks =
            [Task::Landed, Task::Outcome, Task::Pushed, Task::Drain, Task::Deadline, Task::Input];
        context.rng.shuffle(&mut tasks);
        for task in tasks {
            self.task(task, context);
        }
        self.fail(context);
        self.work_and_write(context);
        self.settle(context)
    }

    fn task(&mut self, task: Task, context: &mut Context<'_, S>) {
        let spurious = context.faults.spurious && context.rng.coin();
        match task {
            Task::Landed => {
                let landed = core::mem::take(&mut self.landed);
                if landed > 0 || spurious {
                    self.conn.landed(context.service, context.cx, landed);
                }
            }
            Task::Outcome => {
                if let Some(outcome) = self.outcome.take() {
                    self.conn.outcome(context.service, context.cx, outcome);
                }
            }
            Task::Pushed => {
                for bytes in self.pushed.drain(..) {
                    if self.conn.push(context.service, context.cx, &bytes).is_err() {
                        *context.pushes_lost += 1;
                    }
                }
            }
            Task::Drain => {
                if self.drain {
                    self.conn.drain(context.service, context.cx);
                    self.drain = spurious;
                }
            }
            Task::Deadline => {
                if core::mem::take(&mut self.due) || spurious {
                    self.conn.deadline(context.service, context.cx);
                }
            }
            Task::Input => self.input(context),
        }
    }

    fn input(&mut self, context: &mut Context<'_, S>) {
        let mut budget = context.faults.turn.max(1);
        while self.armed && budget > 0 && !context.link.inbox.is_empty() {
            let most = context.faults.receive.min(budget).min(context.link.inbox.len()).max(1);
            let size = if context.faults.short { context.rng.size(most) } else { most };
            let bytes: Vec<u8> = context.link.inbox.drain(..size).collect();
            self.conn.feed(context.service, context.cx, &bytes);
            budget -= size;
            self.armed = self.conn.wants().read || context.faults.late_feeds && context.rng.coin();
        }
        if self.armed && context.link.inbox.is_empty() && context.link.fin {
            if !self.eof || context.faults.spurious {
                self.conn.eof(context.service, context.cx);
            }
            self.eof = true;
        }
    }

    /// Aborts a connection that the peer reset, or that the engine must end.
    fn fail(&mut self, context: &mut Context<'_, S>) {
        if let Some(why) = self.shut.take() {
            self.conn.shut(why);
        }
        if self.gone || !context.link.rst && !self.forced {
            return;
        }
        let why = if context.link.rst { Closed::Reset } else { Closed::Forced };
        self.gone = true;
        if context.rng.coin() {
            // The failed send is reported before the failed receive.
            let lost = self.flight.len() + core::mem::take(&mut self.landed);
            self.flight.clear();
            self.conn.landed(context.service, context.cx, lost);
        }
        self.conn.abort(why);
        if !self.flight.is_empty() && !self.landing {
            self.landing = true;
            context.order_soon(Order::Land(context.cx.me));
        }
    }

    fn work_and_write(&mut self, context: &mut Context<'_, S>) {
        while !self.gone {
            if let Some(job) = self.conn.take_job() {
                if context.rng.coin() {
                    context.order_soon(Order::Work(context.cx.me, job));
                } else {
                    let outcome = context.service.work(context.cx.state, job);
                    self.conn.outcome(context.service, context.cx, outcome);
                    continue;
                }
            }
            let now = match self.writes {
                Writes::Now => true,
                Writes::Later => false,
                Writes::Either => self.is_grounded() && context.rng.coin(),
            };
            let wrote = if now { self.write_now(context) } else { self.write_later(context) };
            if !wrote {
                return;
            }
        }
    }

    /// Sends once, if it would not block.
    fn write_now(&mut self, context: &mut Context<'_, S>) -> bool {
        let room = context.link.room();
        if self.conn.out().waiting() == 0 || room == 0 {
            return false;
        }
        let mut limit = room;
        if context.faults.short {
            limit = limit.min(context.rng.size(room.min(4096)));
        }
        if let Some((source, range)) = self.conn.out().front_file() {
            let Source::Asset(asset) = source else {
                panic!("there is no kernel here: lend no open file in a simulation");
            };
            let file = &context.faults.assets[asset.0 as usize];
            let len = ((range.end - range.start) as usize).min(limit);
            let from = range.start as usize;
            let bytes = &file[from..from + len];
            context.link.send(bytes.iter().copied());
            self.conn.sent(context.service, context.cx, len);
            return true;
        }
        let mut slices = [IoSlice::new(&[]); 4];
        let most = context.rng.size(slices.len());
        let filled = self.conn.out().gather(&mut slices[..most]);
        let waiting: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        let sent = waiting.min(limit);
        context
            .link
            .send(slices[..filled].iter().flat_map(|slice| slice.iter().copied()).take(sent));
        self.conn.sent(context.service, context.cx, sent);
        true
    }

    /// True if nothing is in flight.
    fn is_grounded(&self) -> bool {
        self.flight.is_empty() && self.landed == 0
    }

    /// Hands a few parts to the kernel if nothing of this session is in flight.
    fn write_later(&mut self, context: &mut Context<'_, S>) -> bool {
        if !self.is_grounded() {
            return false;
        }
        for _ in 0..context.rng.size(4) {
            let Some(part) = self.conn.out().take() else { break };
            match &part {
                Part::File(Source::Asset(asset), range) => {
                    let file = &context.faults.assets[asset.0 as usize];
                    self.flight.extend(&file[range.start as usize..range.end as usize]);
                }
                memory => self.flight.extend(memory.in_memory().expect("all others are bytes")),
            }
        }
        if !self.flight.is_empty() && !self.landing {
            self.landing = true;
            context.order_soon(Order::Land(context.cx.me));
        }
        false
    }

    /// Lets the kernel take as much of the flight as it can; returns true if it took bytes.
    pub(crate) fn land(&mut self, link: &mut Link, faults: &Faults, rng: &mut Rng) -> bool {
        self.landing = false;
        if self.gone {
            self.landed += self.flight.len();
            self.flight.clear();
            return true;
        }
        let most = link.room().min(self.flight.len());
        let taken = if faults.short && most > 0 { rng.size(most) } else { most };
        link.send(self.flight.drain(..taken));
        self.landed += taken;
        taken > 0
    }

    /// True if a send could continue but no event is scheduled for it.
    pub(crate) fn wants_landing(&mut self) -> bool {
        let wants = !self.landing && !self.flight.is_empty();
        self.landing |= wants;
        wants
    }

    /// Asks the connection once for its wishes, and changes only the difference.
    fn settle(&mut self, context: &mut Context<'_, S>) -> bool {
        let wants = self.conn.wants();
        assert!(!(wants.read && self.eof), "more input is wanted after the end");
        if wants.read {
            (self.armed, self.cancelled) = (true, false);
        } else if self.armed {
            self.armed = context.faults.late_feeds && !self.cancelled && context.rng.coin();
            self.cancelled = self.armed;
        }
        let readable = !context.link.inbox.is_empty() || context.link.fin && !self.eof;
        let writable = wants.write && self.is_grounded() && context.link.room() > 0;
        self.dirty = self.armed && readable || writable || self.landed > 0 || self.drain;
        if wants.wake != self.timer {
            self.timer = wants.wake;
            if let Some(wake) = wants.wake {
                let late = context.rng.span(context.faults.delay);
                context.orders.push((wake.max(context.cx.now) + late, Order::Wake(context.cx.me)));
            }
        }
        self.conn.reclaim(context.buffers);
        wants.close
    }

    /// The timer has fired.
    pub(crate) fn rung(&mut self) {
        self.timer = None;
        self.due = true;
    }
}

impl<S: Service> Context<'_, S> {
    fn order_soon(&mut self, order: Order<S::Job>) {
        let delay = self.rng.span(self.faults.delay);
        self.orders.push((self.cx.now + delay, order));
    }
}
