//! The generator under remote control: users come and go, and figures are taken at any time.
//!
//! A [`Crowd`] is one class of users of one server, on a thread of its own. Whoever controls it
//! (a swarm's worker, an interactive view) says how many users there shall be and harvests what
//! happened since it last asked. Nothing is kept here between two harvests but sums and
//! histograms, so a crowd may run for weeks.
//!
//! How users behave is [`Behaviour`]: in the closed model each asks, waits, thinks and asks again;
//! in the open model the number of users times a rate is the rate of one Poisson process, which is
//! what many independent users look like from the server's side; in the partly open model it is
//! the rate of sessions. Rates of several crowds, on one machine or on many, add up to one such
//! process.
//!
//! The surprising thing: a crowd never pauses. Stopping is zero users; starting again is more.

use crate::arrive::{self, Constant, Poisson};
use crate::drive::{Drive, Parts, Pulse, Settings};
use crate::faults::Faults;
use crate::parse::Target;
use crate::report::Check;
use crate::run::{self, Failure, Talk};
use crate::stop::{Drained, Progress, Stop};
use crate::tally::{Kind, Tally};
use crate::watch;
use crate::work::{Think, Work};
use seam::Instant;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::eventfd::EventFd;

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    /// Each has a connection, asks `depth` requests, waits for all replies, thinks, asks again.
    Closed {
        /// Requests in one write.
        depth: u32,
        /// The pause between.
        think: Think,
    },
    /// All together are a process of `rate_per_user` requests a second for each of them, over
    /// [`Settings::connections`] shared connections.
    Open {
        /// Requests a second for each user.
        rate_per_user: f64,
        /// Evenly spaced instead of independent.
        constant: bool,
        /// Requests that a connection may have outstanding.
        depth: u32,
    },
    /// Partly open: all together are a process of `rate_per_user` sessions a second for each of
    /// them. A session has a connection of its own, of [`Settings::connections`] at a time, makes
    /// its requests, and leaves.
    Sessions {
        /// Sessions a second for each user.
        rate_per_user: f64,
        /// Evenly spaced instead of independent.
        constant: bool,
        /// Batches of a session.
        rounds: u64,
        /// Requests in a batch.
        depth: u32,
        /// The pause between two batches.
        think: Think,
    },
}

/// A crowd, as its owner describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct CrowdPlan {
    /// The server.
    pub target: Target,
    /// What to say to it.
    pub talk: Talk,
    /// What a user does.
    pub behaviour: Behaviour,
    /// Connections and their keeping. In the closed model their number follows the users.
    pub settings: Settings,
    /// Addresses of this machine to connect from; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// What schedules and pauses are drawn from; give each worker its own.
    pub seed: u64,
}

impl CrowdPlan {
    /// Users of a closed loop without a pause, kinds of requests told apart.
    pub fn new(target: Target, talk: Talk) -> Self {
        Self {
            target,
            talk,
            behaviour: Behaviour::Closed { depth: 1, think: Think::None },
            settings: Settings { detailed: true, ..Settings::default() },
            sources: Vec::new(),
            seed: 1,
        }
    }
}

/// A running crowd. Dropping it closes every connection without waiting for replies.
pub struct Crowd {
    orders: Sender<Order>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// What happened since the last harvest.
#[derive(Clone, Debug)]
pub struct Harvest {
    /// By kind of request, in the script's order; kinds that were not asked are there, and empty.
    pub kinds: Vec<Named>,
    /// All kinds together. `tally.failed` counts what has no time (wrong, lost, dropped).
    pub tally: Tally,
    /// What went wrong with connections and replies since the last harvest, by kind of fault. What
    /// belongs to a reply is also at its kind of request.
    pub faults: Faults,
    /// Requests whose connection ended before the reply came, since the last harvest.
    pub lost: u64,
    /// Users that are here now: connections in the closed model, the number set in the others.
    pub users: usize,
    /// Connections that are up now.
    pub connections: usize,
    /// Requests that are unanswered now, those included that wait for a connection.
    pub outstanding: u64,
    /// The generator's own delays since the last harvest.
    pub pulse: Pulse,
    /// CPU time of the crowd's thread since the last harvest (ns).
    pub cpu_ns: u64,
    /// Length of the stretch (ns).
    pub span_ns: u64,
}

/// A kind of request and what was counted of it.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name: `buy`, `/index.html`, `echo`.
    pub name: String,
    /// Replies, bytes, times, and what was wrong. `tally.response` holds right replies only.
    pub tally: Kind,
}

/// What is known when a crowd has ended.
#[derive(Clone, Debug)]
pub struct End {
    /// What came since the last harvest, the last replies included.
    pub harvest: Harvest,
    /// Whether the replies were right as a whole. A market's books balance only if nobody else has
    /// traded meanwhile; where several crowds or workers trade, look at `wrong` instead.
    pub check: Check,
    /// Requests that were still unanswered when patience ended.
    pub censored: u64,
}

/// The crowd's thread has ended, by a panic or because the kernel refused it an epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

enum Order {
    Users(usize),
    Harvest(Sender<Harvest>),
    End(Sender<End>),
}

/// Wakes the crowd's thread and tells its loop that there is an order.
struct Bell {
    event: EventFd,
    rung: AtomicBool,
}

impl Crowd {
    /// Asks the server what it is and starts the thread; nobody is there until
    /// [`Crowd::set_users`].
    ///
    /// # Errors
    /// See [`Failure`]: the server does not answer, or the talk makes no sense for it.
    pub fn start(plan: CrowdPlan) -> Result<Self, Failure> {
        let machinery = |doing| move |error| Failure::Machinery { doing, error };
        let (work, connections) = match plan.behaviour {
            Behaviour::Closed { depth, think } => (Work::Own { rounds: u64::MAX, depth, think }, 1),
            Behaviour::Open { depth, .. } => (Work::Shared { depth }, plan.settings.connections),
            Behaviour::Sessions { rounds, depth, think, .. } => {
                // No end of rounds is what a user of the closed model has.
                let rounds = rounds.clamp(1, u64::MAX - 1);
                (Work::Own { rounds, depth, think }, plan.settings.connections)
            }
        };
        let mut script = run::script(&plan.target, &plan.talk, connections)?;
        // Other workers may speak to the same server.
        script.share();
        let mut drive = Drive::new(Parts {
            address: plan.target.address,
            sources: plan.sources.clone(),
            settings: Settings { connections, ..plan.settings },
            arrive: Box::new(arrive::Crowd::at_once(0)),
            work,
            script,
            seed: plan.seed,
            scheduled: plan.behaviour.is_scheduled(),
        })
        .map_err(machinery("making a generator"))?;
        let event = EventFd::new().map_err(machinery("making a bell"))?;
        let bell = Arc::new(Bell { event, rung: AtomicBool::new(false) });
        drive.listen_to(&bell.event).map_err(machinery("watching the bell"))?;
        let (orders, inbox) = mpsc::channel();
        let listener = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name("crowd".to_owned())
            .spawn(move || Host::new(drive, plan, listener).serve(&inbox))
            .map_err(machinery("starting a thread"))?;
        Ok(Self { orders, bell, thread: Some(thread) })
    }

    /// From now on there shall be so many users. Those who are too many leave when their requests
    /// are answered.
    ///
    /// # Errors
    /// If the crowd's thread is gone.
    pub fn set_users(&self, users: usize) -> Result<(), Gone> {
        self.order(Order::Users(users))
    }

    /// What happened since the last time.
    ///
    /// # Errors
    /// As [`Crowd::set_users`].
    pub fn harvest(&self) -> Result<Harvest, Gone> {
        let (answer, harvest) = mpsc::channel();
        self.order(Order::Harvest(answer))?;
        harvest.recv().map_err(|_| Gone)
    }

    /// Sends everybody home, waits for the last replies ([`Settings::drain`]), audits the server.
    ///
    /// # Errors
    /// As [`Crowd::set_users`].
    pub fn end(mut self) -> Result<End, Gone> {
        let (answer, end) = mpsc::channel();
        self.order(Order::End(answer))?;
        let end = end.recv().map_err(|_| Gone);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| Gone)?;
        }
        end
    }

    fn order(&self, order: Order) -> Result<(), Gone> {
        self.orders.send(order).map_err(|_| Gone)?;
        self.bell.ring();
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // An inbox whose sender is gone is the order to leave.
        self.orders = mpsc::channel().0;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Bell {
    fn ring(&self) {
        self.event.ring();
        self.rung.store(true, Ordering::Release);
    }

    /// Makes it silent again; whoever rings from here on is heard the next time. The order is the
    /// reverse of ringing: an event that stays set beside a flag that is not would keep the loop
    /// awake for nothing.
    fn clear(&self) {
        self.rung.store(false, Ordering::Release);
        self.event.clear();
    }
}

/// Over when the bell rings.
struct Rung<'a>(&'a Bell);

impl Stop for Rung<'_> {
    fn room(&self, _asked: u64) -> u64 {
        u64::MAX
    }

    fn over(&self, _progress: Progress) -> bool {
        self.0.rung.load(Ordering::Acquire)
    }

    fn wake(&self) -> Option<Instant> {
        None
    }
}

/// The thread's side.
struct Host {
    drive: Drive,
    plan: CrowdPlan,
    bell: Arc<Bell>,
    users: usize,
    /// How often the number of users of an open crowd changed: each time draws other moments.
    changes: u64,
    harvested: Instant,
    cpu_ns: u64,
    faults: Faults,
    lost: u64,
}

impl Host {
    fn new(drive: Drive, plan: CrowdPlan, bell: Arc<Bell>) -> Self {
        let (harvested, faults) = (run::now(), Faults::default());
        Self { drive, plan, bell, users: 0, changes: 0, harvested, cpu_ns: 0, faults, lost: 0 }
    }

    fn serve(mut self, inbox: &Receiver<Order>) {
        watch::wake_on_time();
        self.cpu_ns = watch::own_cpu_ns();
        loop {
            self.bell.clear();
            loop {
                match inbox.try_recv() {
                    Ok(Order::Users(users)) => self.set_users(users),
                    Ok(Order::Harvest(answer)) => {
                        // Whoever asked may have lost patience.
                        let _ = answer.send(self.harvest());
                    }
                    Ok(Order::End(answer)) => {
                        let _ = answer.send(self.end());
                        return;
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            // An epoll that fails is the end of the crowd; its owner learns it as `Gone`.
            if self.drive.phase(&Rung(&self.bell)).is_err() {
                return;
            }
        }
    }

    fn set_users(&mut self, users: usize) {
        match self.plan.behaviour {
            Behaviour::Closed { .. } => {
                self.drive.grow(users);
                self.drive.send_home(users);
                let new = users.saturating_sub(self.drive.users()) as u64;
                self.drive.set_arrivals(Box::new(arrive::Crowd::at_once(new)));
            }
            Behaviour::Open { rate_per_user, constant, .. }
            | Behaviour::Sessions { rate_per_user, constant, .. }
                if users != self.users =>
            {
                let rate = users as f64 * rate_per_user;
                self.changes += 1;
                let seed = self.plan.seed.wrapping_add(self.changes << 48);
                self.drive.set_arrivals(match (users, constant) {
                    (0, _) => Box::new(arrive::Crowd::at_once(0)),
                    (_, true) => Box::new(Constant::new(rate, 0.5)),
                    // The process has no memory: beginning anew is going on.
                    (_, false) => Box::new(Poisson::new(rate, seed)),
                });
            }
            Behaviour::Open { .. } | Behaviour::Sessions { .. } => {}
        }
        self.users = users;
    }

    fn harvest(&mut self) -> Harvest {
        let now = run::now();
        let mut tally = self.drive.take_tally();
        let counted = std::mem::take(&mut tally.kinds);
        let names = self.drive.script().kinds().into_iter();
        let mut counted = counted.into_iter();
        let kinds =
            names.map(|name| Named { name, tally: counted.next().unwrap_or_default() }).collect();
        let faults = self.drive.faults.since(&self.faults);
        self.faults = self.drive.faults.clone();
        let lost = self.drive.lost - self.lost;
        self.lost = self.drive.lost;
        let cpu_ns = watch::own_cpu_ns();
        let harvest = Harvest {
            kinds,
            tally,
            faults,
            lost,
            users: if self.plan.behaviour.is_scheduled() { self.users } else { self.drive.users() },
            connections: self.drive.connections(),
            outstanding: self.drive.outstanding(),
            pulse: std::mem::take(&mut self.drive.pulse),
            cpu_ns: cpu_ns.saturating_sub(self.cpu_ns),
            span_ns: now.since(self.harvested).as_nanos() as u64,
        };
        (self.harvested, self.cpu_ns) = (now, cpu_ns);
        harvest
    }

    fn end(&mut self) -> End {
        self.set_users(0);
        self.drive.part(true);
        let patience: Duration = self.plan.settings.drain;
        // Should the epoll fail here, what is unanswered is censored like after a timeout.
        let _ = self.drive.phase(&Drained { end: run::now() + patience });
        let harvest = self.harvest();
        let censored = self.drive.close();
        let check = run::audit(&self.plan.target, self.drive.script());
        End { harvest, check, censored }
    }
}

impl Behaviour {
    /// Whether arrivals follow a schedule, so that being late means something.
    pub fn is_scheduled(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected a running crowd, found that its thread has ended; start another")
    }
}

impl std::error::Error for Gone {}
