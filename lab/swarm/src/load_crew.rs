//! The crew that makes real requests: a pool of the crate `load` for each class of users.
//!
//! Each pool has a thread, and commands to it may take as long as a server takes to answer. One
//! more thread, the controller, therefore issues the commands and harvests the counts at the start
//! of each second of the Unix clock, because a master counts requests by that second.

mod class_state;
#[cfg(test)]
mod tests;

use crate::crew::{Crew, CrewEvent, Level, Problem, UserTargets};
use crate::message::Users;
use crate::options::plan;
use crate::run::EventSender;
use class_state::ClassState;
use load::user_pool::{Behaviour, Harvest, PoolEnded, UserPool};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The delay of the harvest after the start of a second, so that it falls into the right second.
const BEHIND: Duration = Duration::from_millis(2);
/// The interval at which the crew checks whether dismissed users have left.
const DISMISS: Duration = Duration::from_millis(20);
/// The minimum time for outstanding replies when users are replaced.
const LINGER: Duration = Duration::from_millis(250);

/// The users of all classes.
pub struct LoadCrew {
    orders: Sender<Order>,
    controller: Option<JoinHandle<()>>,
}

enum Order {
    UserTargets(Box<UserTargets>),
    Halt(Duration),
}

impl LoadCrew {
    /// A crew without users that reports to `events`.
    pub fn new(events: EventSender) -> Self {
        let (orders, inbox) = mpsc::channel();
        let controller = Controller { events, classes: BTreeMap::new(), index: 0 };
        let controller = std::thread::spawn(move || controller.work(&inbox));
        Self { orders, controller: Some(controller) }
    }
}

impl Crew for LoadCrew {
    fn set_targets(&mut self, targets: UserTargets) {
        // If the controller has panicked, the worker's own deadlines handle it.
        let _ = self.orders.send(Order::UserTargets(Box::new(targets)));
    }

    fn halt(&mut self, patience: Duration) {
        let _ = self.orders.send(Order::Halt(patience));
    }
}

impl Drop for LoadCrew {
    fn drop(&mut self) {
        self.orders = mpsc::channel().0;
        if let Some(controller) = self.controller.take() {
            let _ = controller.join();
        }
    }
}

/// Issues the commands.
struct Controller {
    events: EventSender,
    classes: BTreeMap<String, ClassUsers>,
    /// This worker's index when the test began, because a change of name during a test must not
    /// change its users.
    index: u64,
}

/// The users of one class.
struct ClassUsers {
    pool: UserPool,
    state: ClassState,
}

impl Controller {
    fn work(mut self, inbox: &Receiver<Order>) {
        loop {
            match inbox.recv_timeout(to_next_second()) {
                Ok(Order::UserTargets(targets)) => self.set_targets(&targets),
                Ok(Order::Halt(patience)) => self.halt(patience),
                Err(RecvTimeoutError::Timeout) => self.harvest(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn set_targets(&mut self, targets: &UserTargets) {
        if targets.fresh {
            self.index = targets.index;
        }
        for (class, &users) in &targets.users {
            if let Err(problem) = self.set_class_target(class, users, targets) {
                self.events.tell(CrewEvent::Problem(problem));
            }
        }
        let there = |class: &String| self.classes.get(class).map_or(0, |it| it.state.users);
        let users: Users =
            targets.users.keys().map(|class| (class.clone(), there(class))).collect();
        self.events.tell(CrewEvent::Settled(users));
    }

    fn set_class_target(
        &mut self,
        class: &str,
        users: u64,
        targets: &UserTargets,
    ) -> Result<(), Problem> {
        if users == 0 && !self.classes.contains_key(class) {
            return Ok(());
        }
        let plan = plan(class, targets, self.index)?;
        // Fields were changed while users are present, so the users are replaced.
        if self.classes.get(class).is_some_and(|users| users.state.plan != plan)
            && let Some(users) = self.classes.remove(class)
        {
            let _ = users.pool.set_users(0);
            self.dismiss(users, Instant::now() + targets.stop_timeout.max(LINGER));
        }
        let entry = match self.classes.entry(class.to_owned()) {
            Entry::Occupied(users) => users.into_mut(),
            Entry::Vacant(place) => {
                let pool = UserPool::start(plan.clone()).map_err(|failure| Problem {
                    what: failure.to_string(),
                    place: format!("starting users of {class}"),
                })?;
                place.insert(ClassUsers { pool, state: ClassState::new(class, plan) })
            }
        };
        entry.state.users = users;
        let count = usize::try_from(users).unwrap_or(usize::MAX);
        entry.pool.set_users(count).map_err(|gone| problem(class, gone))
    }

    /// Reports the counts of the last second.
    fn harvest(&mut self) {
        let mut gone = Vec::new();
        for (class, users) in &mut self.classes {
            match users.pool.harvest() {
                Ok(harvest) => tell(&self.events, &mut users.state, harvest, 0),
                Err(error) => {
                    self.events.tell(CrewEvent::Problem(problem(class, error)));
                    gone.push(class.clone());
                }
            }
        }
        for class in gone {
            self.classes.remove(&class);
        }
    }

    /// Dismisses all users and reports all counts.
    fn halt(&mut self, patience: Duration) {
        let classes = std::mem::take(&mut self.classes);
        for users in classes.values() {
            // A pool that has ended is reported below.
            let _ = users.pool.set_users(0);
        }
        let end = Instant::now() + patience;
        for users in classes.into_values() {
            self.dismiss(users, end);
        }
        self.events.tell(CrewEvent::Halted);
    }

    /// Reports a class until its last reply has arrived and its last session has ended, or until
    /// `end`. A market is not audited: other workers trade at the same time, so its final rows are
    /// unknown.
    fn dismiss(&self, users: ClassUsers, end: Instant) {
        let ClassUsers { pool, mut state } = users;
        let sessions = matches!(state.plan.behaviour, Behaviour::Sessions { .. });
        loop {
            match pool.harvest() {
                Ok(harvest) => {
                    let left = harvest.outstanding;
                    // A thinking user has no outstanding request, and is still present.
                    let here = if sessions { harvest.connections } else { 0 };
                    let over = (left == 0 && here == 0) || Instant::now() >= end;
                    tell(&self.events, &mut state, harvest, if over { left } else { 0 });
                    if over {
                        return;
                    }
                }
                Err(gone) => {
                    return self.events.tell(CrewEvent::Problem(problem(&state.class, gone)));
                }
            }
            std::thread::sleep(DISMISS);
        }
    }
}

fn tell(events: &EventSender, state: &mut ClassState, harvest: Harvest, unanswered: u64) {
    let (batch, doubts) = state.batch(harvest, unanswered);
    events.tell(CrewEvent::Batch(Box::new(batch)));
    for doubt in doubts {
        events.tell(CrewEvent::Log(Level::Warning, doubt));
    }
}

fn problem(class: &str, gone: PoolEnded) -> Problem {
    Problem { what: gone.to_string(), place: format!("users of {class}") }
}

/// The time until the next second of the Unix clock.
fn to_next_second() -> Duration {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let part = Duration::from_nanos(u64::from(unix.subsec_nanos()));
    (Duration::from_secs(1) + BEHIND).saturating_sub(part)
}
