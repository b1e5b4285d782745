//! One run: a queue of future events, ordered by virtual time.
//!
//! The world holds the clients, the workers with their connections, and the queue. It takes the
//! earliest event, moves the clock to it, and lets the client, the worker or the connection act;
//! what these order (a packet on its way, a job, a send that lands, a deadline) becomes a later
//! event. Each random choice comes from the seed, and events of one time keep their order by a
//! serial number, so a run is a pure function of its arguments.
//!
//! The run ends when no later event can have an observable effect: none is left that must happen,
//! and those that matter only to an open connection (a reset, a hang-up, a drain) concern none. The
//! faults may order a drain, which is forced after its deadline, as in an engine. A run with too
//! many steps is cut off, and that is a finding.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::laws::{Watched, listing};
use seam::{Buffers, Closed, Conn, Cx, Effects, Instant, Peer, Service, SessionId, WorkerId};

use crate::connection::{Connection, Context, Order, Writes};
use crate::link::{Caller, Link, Packet};
use crate::rng::{Choices as _, Rng};
use crate::script::{Faults, Script};
use crate::transcript::{End, Heard, Transcript};

/// A run that takes more steps of the world than this is cut off.
const STEPS_MAX: u32 = 2_000_000;
/// The start of the clock: not zero, so that a deadline can lie in the past.
const START: Instant = Instant::from_ns(1_000_000_000);
/// The time that a drain waits for sessions to end by themselves.
const DRAIN: Duration = Duration::from_secs(60);

/// Plays `script` against `service` under `faults`, with all random choices from `seed`.
///
/// A pure function of its arguments, if the service keeps the law of determinism; the run starts
/// from `state` and changes it.
pub fn run<S: Service>(
    service: &S,
    state: &S::State,
    script: &Script,
    faults: &Faults,
    seed: u64,
) -> Transcript {
    let watched = Watched::new(service, listing);
    World::new(&watched, state, script, faults, seed).play()
}

/// A future event.
pub(crate) enum What<J> {
    Connect(usize),
    /// A client goes on with its script.
    Act(usize),
    /// A packet from a client reaches the server.
    Arrive(usize, Packet),
    /// A client reads.
    Sip(usize),
    /// A client resets, at any point of its script.
    Break(usize),
    /// A worker takes a turn.
    Turn(usize),
    Connection(Order<J>),
    /// Bytes reach another session.
    Push(SessionId, Vec<u8>),
    /// The engine finds a session idle.
    Hangup(SessionId),
    Tick,
    Drain,
    /// The drain's deadline has passed.
    Force,
}

struct Worker<S: Service> {
    id: WorkerId,
    effects: Effects,
    buffers: Buffers,
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    /// A turn is scheduled.
    called: bool,
    last: Instant,
}

struct Slot<S: Service> {
    generation: u32,
    connection: Option<Connection<S>>,
}

pub(crate) struct World<'a, S: Service> {
    service: &'a Watched<S>,
    state: &'a S::State,
    pub(crate) script: &'a Script,
    pub(crate) faults: &'a Faults,
    pub(crate) rng: Rng,
    pub(crate) now: Instant,
    serial: u64,
    queue: BTreeMap<(Instant, u64), What<S::Job>>,
    /// The number of queued events that must happen.
    live: usize,
    /// The number that matter only to a connection that is still open.
    pending: usize,
    pub(crate) callers: Vec<Caller>,
    workers: Vec<Worker<Watched<S>>>,
    seated: usize,
    /// Clients that wait to be accepted.
    pub(crate) backlog: VecDeque<usize>,
    draining: bool,
    notes: Vec<String>,
    pushes_lost: u64,
    turns: u64,
}

impl<'a, S: Service> World<'a, S> {
    fn new(
        service: &'a Watched<S>,
        state: &'a S::State,
        script: &'a Script,
        faults: &'a Faults,
        seed: u64,
    ) -> World<'a, S> {
        let worker = |slot| Worker {
            id: WorkerId::new(slot, 1),
            effects: Effects::new(faults.pushes, true),
            buffers: Buffers::new(2),
            slots: Vec::new(),
            free: Vec::new(),
            called: false,
            last: START,
        };
        let caller = |_| {
            let link = Link { window: faults.window.max(1), ..Link::default() };
            Caller { link, ..Caller::default() }
        };
        World {
            service,
            state,
            script,
            faults,
            rng: Rng::new(seed),
            now: START,
            serial: 0,
            queue: BTreeMap::new(),
            live: 0,
            pending: 0,
            callers: script.clients.iter().map(caller).collect(),
            workers: (0..faults.workers.max(1)).map(worker).collect(),
            seated: 0,
            backlog: VecDeque::new(),
            draining: false,
            notes: Vec::new(),
            pushes_lost: 0,
            turns: 0,
        }
    }

    fn play(mut self) -> Transcript {
        self.after(Duration::ZERO, What::Tick);
        for (client, plan) in self.script.clients.iter().enumerate() {
            self.after(plan.start, What::Connect(client));
            if self.rng.chance(self.faults.resets) {
                let moment = plan.start + self.rng.moment();
                self.after(moment, What::Break(client));
            }
        }
        if let Some(drain) = self.faults.drain {
            self.after(drain, What::Drain);
        }
        let mut steps = 0;
        while !self.is_over() && steps < STEPS_MAX {
            let ((at, _), what) = self.queue.pop_first().expect("what counts lies in the queue");
            if let Some(count) = self.count(&what) {
                *count -= 1;
            }
            self.now = at;
            self.happen(what);
            steps += 1;
        }
        self.end(steps == STEPS_MAX)
    }

    fn happen(&mut self, what: What<S::Job>) {
        match what {
            What::Connect(client) => self.connect(client),
            What::Act(client) => self.act(client),
            What::Arrive(client, packet) => {
                let caller = &mut self.callers[client];
                if !caller.link.closed {
                    caller.link.arrive(packet);
                    self.mark(self.callers[client].connection);
                }
            }
            What::Sip(client) => self.sip(client),
            What::Break(client) => self.reset(client),
            What::Turn(worker) => self.turn(worker),
            What::Connection(order) => self.order(order),
            What::Push(to, bytes) => match self.connection(to) {
                Some(connection) => {
                    connection.pushed.push(bytes);
                    self.mark(Some(to));
                }
                None => self.pushes_lost += 1,
            },
            What::Hangup(id) => {
                if let Some(connection) = self.connection(id) {
                    connection.shut = Some(Closed::Idle);
                    self.mark(Some(id));
                }
            }
            What::Tick => self.tick(),
            What::Drain => self.drain(),
            What::Force => self.force(),
        }
    }

    // ---- the queue

    /// True if no later event can have an observable effect.
    fn is_over(&self) -> bool {
        let ended = || self.callers.iter().all(|caller| caller.end.is_some());
        self.live == 0 && (self.pending == 0 || self.seated == 0 && ended())
    }

    /// The counter of an event; ticks may go on for ever and have none.
    fn count(&mut self, what: &What<S::Job>) -> Option<&mut usize> {
        match what {
            What::Tick => None,
            What::Break(_) | What::Hangup(_) | What::Drain | What::Force => Some(&mut self.pending),
            _ => Some(&mut self.live),
        }
    }

    pub(crate) fn at(&mut self, at: Instant, what: What<S::Job>) {
        if let Some(count) = self.count(&what) {
            *count += 1;
        }
        self.serial += 1;
        self.queue.insert((at, self.serial), what);
    }

    pub(crate) fn after(&mut self, span: Duration, what: What<S::Job>) {
        self.at(self.now + span, what);
    }

    pub(crate) fn soon(&mut self, what: What<S::Job>) {
        let span = self.rng.span(self.faults.delay);
        self.after(span, what);
    }

    // ---- the engine

    fn connect(&mut self, client: usize) {
        if self.callers[client].end.is_some() {
            // It has reset before it was accepted: its reserved slot goes to the next client.
            self.next_in_line();
        } else if self.draining {
            self.callers[client].end = Some(End::Refused);
        } else if self.seated >= self.service.limits().sessions_max {
            self.backlog.push_back(client);
        } else {
            self.accept(client);
        }
    }

    fn accept(&mut self, client: usize) {
        self.seated += 1;
        let shard = self.rng.below(self.workers.len());
        let runner = self.runner(shard);
        let worker = &mut self.workers[shard];
        let index = worker.free.pop().unwrap_or_else(|| {
            worker.slots.push(Slot { generation: 0, connection: None });
            worker.slots.len() as u32 - 1
        });
        let slot = &mut worker.slots[index as usize];
        slot.generation += 1;
        let id = SessionId::new(shard, index, slot.generation);
        let local = core::net::Ipv4Addr::LOCALHOST;
        let port = 20_000 + (client % 40_000) as u16;
        let peer = Peer::Net((local, port).into());
        let mut buffers = self.lend(runner);
        let who = &self.workers[runner];
        who.id.enter();
        let cx = Cx::new(self.now, id, who.id, self.state, &who.effects);
        let conn = Conn::open(self.service, &cx, peer, &mut buffers);
        self.workers[runner].buffers = buffers;
        let writes = match (self.rng.chance(self.faults.later), self.rng.coin()) {
            (false, _) => Writes::Now,
            (true, false) => Writes::Later,
            (true, true) => Writes::Either,
        };
        self.workers[shard].slots[index as usize].connection =
            Some(Connection::new(conn, client, writes));
        self.callers[client].connection = Some(id);
        self.collect(runner);
        self.mark(Some(id));
        self.soon(What::Act(client));
        if self.rng.chance(self.faults.hangups) {
            let moment = self.rng.moment();
            self.after(moment, What::Hangup(id));
        }
    }

    pub(crate) fn connection(&mut self, id: SessionId) -> Option<&mut Connection<Watched<S>>> {
        let worker = self.workers.get_mut(id.shard())?;
        let slot = worker.slots.get_mut(id.index() as usize)?;
        if slot.generation == id.generation() { slot.connection.as_mut() } else { None }
    }

    /// Lends a worker's buffers, until they are put back.
    fn lend(&mut self, runner: usize) -> Buffers {
        core::mem::replace(&mut self.workers[runner].buffers, Buffers::new(0))
    }

    /// The worker that runs a turn of the sessions of `shard`.
    fn runner(&mut self, shard: usize) -> usize {
        if self.faults.roam { self.rng.below(self.workers.len()) } else { shard }
    }

    /// Records an event of the session: its worker must take a turn.
    pub(crate) fn mark(&mut self, id: Option<SessionId>) {
        if let Some(id) = id
            && let Some(connection) = self.connection(id)
        {
            connection.dirty = true;
            self.call(id.shard());
        }
    }

    /// Schedules a turn of the worker soon, at a moment without another turn of it.
    fn call(&mut self, shard: usize) {
        if !self.workers[shard].called {
            self.workers[shard].called = true;
            let soon = self.now + self.rng.span(self.faults.delay);
            let next = self.workers[shard].last + Duration::from_nanos(1);
            self.at(soon.max(next), What::Turn(shard));
        }
    }

    fn turn(&mut self, shard: usize) {
        self.turns += 1;
        let worker = &mut self.workers[shard];
        (worker.called, worker.last) = (false, self.now);
        let dirty = |slot: &Slot<_>| {
            slot.connection.as_ref().is_some_and(|connection: &Connection<_>| connection.dirty)
        };
        let mut indices: Vec<usize> = (0..worker.slots.len()).collect();
        indices.retain(|index| dirty(&worker.slots[*index]));
        self.rng.shuffle(&mut indices);
        for index in indices {
            self.serve(shard, index);
        }
    }

    fn serve(&mut self, shard: usize, index: usize) {
        let runner = self.runner(shard);
        let slot = &mut self.workers[shard].slots[index];
        let id = SessionId::new(shard, index as u32, slot.generation);
        let mut connection = slot.connection.take().expect("a dirty slot has a connection");
        let client = connection.client;
        let mut buffers = self.lend(runner);
        let who = &self.workers[runner];
        // Without the fault no number is drawn, so that seeds replay what they did before.
        let overloaded = self.faults.overloads > 0 && self.rng.chance(self.faults.overloads);
        who.effects.set_overloaded(overloaded);
        who.id.enter();
        let cx = Cx::new(self.now, id, who.id, self.state, &who.effects);
        let mut context = Context {
            service: self.service,
            cx: &cx,
            link: &mut self.callers[client].link,
            buffers: &mut buffers,
            faults: self.faults,
            rng: &mut self.rng,
            orders: Vec::new(),
            pushes_lost: &mut self.pushes_lost,
        };
        let done = connection.turn(&mut context);
        let orders = context.orders;
        let again = connection.dirty && !done;
        if done {
            let why = connection.conn.why();
            connection.conn.close(self.service, &cx);
            self.closed(id, client, why);
        } else {
            self.workers[shard].slots[index].connection = Some(connection);
        }
        self.workers[runner].buffers = buffers;
        for (at, order) in orders {
            self.at(at, What::Connection(order));
        }
        self.collect(runner);
        if again {
            self.call(shard);
        }
        self.hear(client);
    }

    fn closed(&mut self, id: SessionId, client: usize, why: Closed) {
        self.workers[id.shard()].free.push(id.index());
        self.seated -= 1;
        let caller = &mut self.callers[client];
        caller.connection = None;
        caller.link.closed = true;
        caller.closed = Some(why);
        self.next_in_line();
    }

    /// Accepts the client that has waited longest.
    fn next_in_line(&mut self) {
        if let Some(next) = self.backlog.pop_front() {
            self.soon(What::Connect(next));
        }
    }

    fn order(&mut self, order: Order<S::Job>) {
        match order {
            Order::Work(id, job) => {
                let outcome = self.service.work(self.state, job);
                if let Some(connection) = self.connection(id) {
                    connection.outcome = Some(outcome);
                    self.mark(Some(id));
                }
            }
            Order::Wake(id) => {
                if let Some(connection) = self.connection(id) {
                    connection.rung();
                    self.mark(Some(id));
                }
            }
            Order::Land(id) => self.land(id),
        }
    }

    fn land(&mut self, id: SessionId) {
        let slot = &mut self.workers[id.shard()].slots[id.index() as usize];
        let Some(connection) =
            slot.connection.as_mut().filter(|_| slot.generation == id.generation())
        else {
            return;
        };
        let client = connection.client;
        let link = &mut self.callers[client].link;
        if connection.land(link, self.faults, &mut self.rng) {
            if link.room() > 0 && connection.wants_landing() {
                self.soon(What::Connection(Order::Land(id)));
            }
            self.mark(Some(id));
        }
        self.hear(client);
    }

    /// Collects the effects of `runner`'s sessions from its tray.
    fn collect(&mut self, runner: usize) {
        let effects = &self.workers[runner].effects;
        if !effects.is_filled() {
            return;
        }
        self.notes.extend(effects.take_notes());
        for push in effects.take_pushes() {
            self.soon(What::Push(push.to, push.bytes));
        }
    }

    fn tick(&mut self) {
        let who = &self.workers[0];
        who.id.enter();
        let cx = Cx::new(self.now, SessionId::NONE, who.id, self.state, &who.effects);
        if let Some(next) = self.service.tick(&cx) {
            let late = self.rng.span(self.faults.delay);
            self.at(next.max(self.now) + late, What::Tick);
        }
        self.collect(0);
    }

    fn seated_ids(&self) -> Vec<SessionId> {
        self.callers.iter().filter_map(|caller| caller.connection).collect()
    }

    fn drain(&mut self) {
        self.draining = true;
        for client in core::mem::take(&mut self.backlog) {
            self.callers[client].end = Some(End::Refused);
        }
        for id in self.seated_ids() {
            if let Some(connection) = self.connection(id) {
                connection.drain = true;
            }
            self.mark(Some(id));
        }
        self.after(DRAIN, What::Force);
    }

    fn force(&mut self) {
        for id in self.seated_ids() {
            if let Some(connection) = self.connection(id) {
                connection.forced = true;
            }
            self.mark(Some(id));
        }
    }

    /// Ends all open connections and writes the transcript.
    fn end(mut self, endless: bool) -> Transcript {
        for caller in &mut self.callers {
            caller.end.get_or_insert(End::Open);
        }
        self.force();
        for step in 0.. {
            if self.seated == 0 {
                break;
            }
            assert!(step < STEPS_MAX, "a connection that was aborted never becomes `done`");
            let ((at, _), what) = self.queue.pop_first().expect("a forced session has a turn");
            self.now = at;
            self.happen(what);
        }
        let hear = |caller: Caller| Heard {
            bytes: caller.heard,
            end: caller.end.expect("each caller has an end by now"),
            closed: caller.closed,
        };
        Transcript {
            clients: self.callers.into_iter().map(hear).collect(),
            violations: self.service.violations(),
            notes: self.notes,
            pushes_lost: self.pushes_lost,
            turns: self.turns,
            end: self.now,
            endless,
        }
    }
}
