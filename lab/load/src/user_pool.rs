//! The generator under remote control: users come and go, and figures are taken at any time.
//!
//! A [`UserPool`] is one class of users of one server, on a thread of its own. Its controller (a
//! swarm's worker, an interactive view) sets the number of users and harvests the events since its
//! last harvest. The pool keeps only sums and histograms between two harvests, so it may run for
//! weeks.
//!
//! [`Behaviour`] describes the users. In the closed model each user sends, waits, thinks and
//! repeats. In the open model the number of users times a rate is the rate of one Poisson process,
//! which is how many independent users appear to a server. In the partly open model that product is
//! the rate of sessions. Rates of several pools, on one machine or many, add up to one such
//! process.
//!
//! A pool never pauses: to stop, set zero users; to start again, set more.

use crate::Instant;
use crate::arrive::{self, Constant, Poisson};
use crate::drive::{Delays, Driver, Parts, Settings};
use crate::faults::Faults;
use crate::parse::Target;
use crate::report::Check;
use crate::run::{self, Failure, Workload};
use crate::stop::{Most, Progress, Stop, Until};
use crate::tally::{KindTally, Tally};
use crate::tls::Layers;
use crate::watch;
use crate::work::{Think, Work};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use sys::eventfd::EventFd;

/// A user's behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Behaviour {
    /// Each user has a connection, sends `depth` requests, waits for all replies, thinks, repeats.
    Closed {
        /// Requests in one write.
        depth: u32,
        /// The pause after a batch.
        think: Think,
    },
    /// All users together are a process of `rate_per_user` requests a second each, over
    /// [`Settings::connections`] shared connections.
    Open {
        /// Requests a second for each user.
        rate_per_user: f64,
        /// Evenly spaced instead of independent.
        constant: bool,
        /// Requests that a connection may have outstanding.
        depth: u32,
    },
    /// Partly open: all users together are a process of `rate_per_user` sessions a second each. A
    /// session has a connection of its own, of [`Settings::connections`] at a time, sends its
    /// requests, and leaves.
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

/// The configuration of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolPlan {
    /// The server.
    pub target: Target,
    /// The requests to send to it.
    pub workload: Workload,
    /// The users' behaviour.
    pub behaviour: Behaviour,
    /// Connections and their use. In the closed model their number follows the users.
    pub settings: Settings,
    /// Addresses of this machine to connect from; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// The seed of schedules and pauses; give each worker its own.
    pub seed: u64,
}

impl PoolPlan {
    /// Users of a closed loop without pauses, with kinds of requests counted separately.
    pub fn new(target: Target, workload: Workload) -> Self {
        Self {
            target,
            workload,
            behaviour: Behaviour::Closed { depth: 1, think: Think::None },
            settings: Settings { detailed: true, ..Settings::default() },
            sources: Vec::new(),
            seed: 1,
        }
    }
}

/// A running pool. Dropping it closes every connection without waiting for replies.
pub struct UserPool {
    commands: Sender<Command>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// The events since the last harvest.
#[derive(Clone, Debug)]
pub struct Harvest {
    /// By kind of request, in the script's order; unused kinds are present and empty.
    pub kinds: Vec<KindHarvest>,
    /// All kinds together. `tally.failed` counts requests without a time (wrong, lost, dropped).
    pub tally: Tally,
    /// Faults of connections and replies since the last harvest, by kind of fault. Faults of
    /// replies are also listed with their kind of request.
    pub faults: Faults,
    /// Requests whose connection ended before the reply arrived, since the last harvest.
    pub lost: u64,
    /// Present users: connections in the closed model, the number set in the others.
    pub users: usize,
    /// Connections that are up now.
    pub connections: usize,
    /// Unanswered requests, including those queued for a connection.
    pub outstanding: u64,
    /// The generator's own delays since the last harvest.
    pub delays: Delays,
    /// CPU time of the pool's thread since the last harvest (ns).
    pub cpu_ns: u64,
    /// Length of the interval (ns).
    pub span_ns: u64,
}

/// A kind of request and its counts.
#[derive(Clone, Debug)]
pub struct KindHarvest {
    /// Its name: `buy`, `/index.html`, `echo`.
    pub name: String,
    /// Replies, bytes, times and faults. `tally.response` holds right replies only.
    pub tally: KindTally,
}

/// The final figures of a pool.
#[derive(Clone, Debug)]
pub struct End {
    /// The events since the last harvest, including the last replies.
    pub harvest: Harvest,
    /// Whether the replies were right as a whole. A market's books balance only if no other client
    /// has traded meanwhile; where several pools or workers trade, check `wrong` instead.
    pub check: Check,
    /// Requests still unanswered at the end of the drain.
    pub censored: u64,
}

/// The pool's thread has ended, by a panic or because the kernel refused an epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected a running pool, found that its thread has ended; start another")]
pub struct PoolEnded;

enum Command {
    Users(usize),
    Harvest(Sender<Harvest>),
    End(Sender<End>),
}

/// Wakes the pool's thread when there is a command.
struct Bell {
    event: EventFd,
    rung: AtomicBool,
}

impl UserPool {
    /// Probes the server and starts the thread; there are no users until [`UserPool::set_users`].
    ///
    /// # Errors
    /// See [`Failure`]: the server does not answer, or the workload does not fit it.
    pub fn start(plan: PoolPlan) -> Result<Self, Failure> {
        let machinery = |doing| move |error| Failure::Machinery { doing, error };
        let (work, connections) = match plan.behaviour {
            Behaviour::Closed { depth, think } => (Work::Own { rounds: u64::MAX, depth, think }, 1),
            Behaviour::Open { depth, .. } => (Work::Shared { depth }, plan.settings.connections),
            Behaviour::Sessions { rounds, depth, think, .. } => {
                // An unlimited number of rounds would make it a user of the closed model.
                let rounds = rounds.clamp(1, u64::MAX - 1);
                (Work::Own { rounds, depth, think }, plan.settings.connections)
            }
        };
        let settings = Settings { connections, ..plan.settings };
        let mut script = run::script(&plan.target, &plan.workload, &settings)?;
        // Other workers may use the same server.
        script.share();
        let mut drive = Driver::new(Parts {
            addresses: plan.target.addresses(),
            sources: plan.sources.clone(),
            tls: Layers::of(&plan.target)?,
            settings,
            arrive: Box::new(arrive::Ramp::at_once(0)),
            work,
            script,
            seed: plan.seed,
            scheduled: plan.behaviour.is_scheduled(),
        })
        .map_err(machinery("making a generator"))?;
        let event = EventFd::new().map_err(machinery("making a bell"))?;
        let bell = Arc::new(Bell { event, rung: AtomicBool::new(false) });
        drive.listen_to(&bell.event).map_err(machinery("watching the bell"))?;
        let (commands, inbox) = mpsc::channel();
        let listener = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name("pool".to_owned())
            .spawn(move || PoolThread::new(drive, plan, listener).serve(&inbox))
            .map_err(machinery("starting a thread"))?;
        Ok(Self { commands, bell, thread: Some(thread) })
    }

    /// Sets the number of users. Surplus users leave when their requests are answered.
    ///
    /// # Errors
    /// The pool's thread has ended.
    pub fn set_users(&self, users: usize) -> Result<(), PoolEnded> {
        self.command(Command::Users(users))
    }

    /// Takes the events since the last harvest.
    ///
    /// # Errors
    /// As [`UserPool::set_users`].
    pub fn harvest(&self) -> Result<Harvest, PoolEnded> {
        let (answer, harvest) = mpsc::channel();
        self.command(Command::Harvest(answer))?;
        harvest.recv().map_err(|_| PoolEnded)
    }

    /// Dismisses all users, waits for the last replies ([`Settings::drain`]), audits the server.
    ///
    /// # Errors
    /// As [`UserPool::set_users`].
    pub fn end(mut self) -> Result<End, PoolEnded> {
        let (answer, end) = mpsc::channel();
        self.command(Command::End(answer))?;
        let end = end.recv().map_err(|_| PoolEnded);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| PoolEnded)?;
        }
        end
    }

    fn command(&self, command: Command) -> Result<(), PoolEnded> {
        self.commands.send(command).map_err(|_| PoolEnded)?;
        self.bell.ring();
        Ok(())
    }
}

impl Drop for UserPool {
    fn drop(&mut self) {
        // Dropping the sender is the command to leave.
        self.commands = mpsc::channel().0;
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

    /// Clears the bell; later rings are noticed next time. The order is the reverse of ringing,
    /// because an event that stays set while the flag is not would keep the loop awake for no
    /// reason.
    fn clear(&self) {
        self.rung.store(false, Ordering::Release);
        self.event.clear();
    }
}

/// Ends when the bell rings.
struct UntilRung<'a>(&'a Bell);

impl Stop for UntilRung<'_> {
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
struct PoolThread {
    drive: Driver,
    plan: PoolPlan,
    bell: Arc<Bell>,
    users: usize,
    /// The number of changes of an open pool's users: each change draws a new schedule.
    changes: u64,
    harvested: Instant,
    cpu_ns: u64,
    faults: Faults,
    lost: u64,
}

impl PoolThread {
    fn new(drive: Driver, plan: PoolPlan, bell: Arc<Bell>) -> Self {
        let (harvested, faults) = (run::now(), Faults::default());
        Self { drive, plan, bell, users: 0, changes: 0, harvested, cpu_ns: 0, faults, lost: 0 }
    }

    fn serve(mut self, inbox: &Receiver<Command>) {
        watch::wake_on_time();
        self.cpu_ns = sys::clock::thread_cpu_ns();
        loop {
            self.bell.clear();
            loop {
                match inbox.try_recv() {
                    Ok(Command::Users(users)) => self.set_users(users),
                    Ok(Command::Harvest(answer)) => {
                        // The caller may have given up waiting.
                        let _ = answer.send(self.harvest());
                    }
                    Ok(Command::End(answer)) => {
                        let _ = answer.send(self.end());
                        return;
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            // If the epoll fails the pool ends; its owner sees `PoolEnded`.
            if self.drive.phase(&UntilRung(&self.bell)).is_err() {
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
                self.drive.set_arrivals(Box::new(arrive::Ramp::at_once(new)));
            }
            Behaviour::Open { rate_per_user, constant, .. }
            | Behaviour::Sessions { rate_per_user, constant, .. }
                if users != self.users =>
            {
                let rate = users as f64 * rate_per_user;
                self.changes += 1;
                let seed = self.plan.seed.wrapping_add(self.changes << 48);
                self.drive.set_arrivals(match (users, constant) {
                    (0, _) => Box::new(arrive::Ramp::at_once(0)),
                    (_, true) => Box::new(Constant::new(rate, 0.5)),
                    // The process is memoryless, so a new one continues the old one.
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
        let kinds = names
            .map(|name| KindHarvest { name, tally: counted.next().unwrap_or_default() })
            .collect();
        let faults = self.drive.counts.faults.since(&self.faults);
        self.faults = self.drive.counts.faults.clone();
        let lost = self.drive.counts.lost - self.lost;
        self.lost = self.drive.counts.lost;
        let cpu_ns = sys::clock::thread_cpu_ns();
        let harvest = Harvest {
            kinds,
            tally,
            faults,
            lost,
            users: if self.plan.behaviour.is_scheduled() { self.users } else { self.drive.users() },
            connections: self.drive.connections(),
            outstanding: self.drive.outstanding(),
            delays: std::mem::take(&mut self.drive.counts.delays),
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
        // If the epoll fails here, unanswered requests are censored as after a timeout.
        let _ = self.drive.phase(&Until { end: run::now() + patience, most: Most::Drain });
        let harvest = self.harvest();
        let censored = self.drive.close();
        let check = run::audit(&self.plan.target, self.drive.script(), &[]);
        End { harvest, check, censored }
    }
}

impl Behaviour {
    /// Whether arrivals follow a schedule, so that lateness is defined.
    pub fn is_scheduled(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }
}

impl std::error::Error for PoolEnded {}
