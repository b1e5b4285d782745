//! The crew that makes real requests: a crowd of the crate `load` for each class of users.
//!
//! Crowds have a thread each, and orders to them may take as long as a server takes to answer. So
//! there is one thread more, the foreman's, who gives the orders and once a second, when a new
//! second of the Unix clock begins, harvests what was counted: a master keeps requests by that
//! second.

mod books;
#[cfg(test)]
mod tests;

use crate::crew::{Aim, Crew, Level, News, Trouble};
use crate::message::Users;
use crate::options::plan;
use crate::run::Ear;
use books::Books;
use load::crowd::{Behaviour, Crowd, Gone, Harvest};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far behind the turn of a second the harvest is, so that it falls into the right one.
const BEHIND: Duration = Duration::from_millis(2);
/// How often it is looked whether users who were sent home are gone.
const DISMISS: Duration = Duration::from_millis(20);
/// What replies are given to come in when users begin anew, at least.
const LINGER: Duration = Duration::from_millis(250);

/// The crews of all classes.
pub struct Fleet {
    orders: Sender<Order>,
    foreman: Option<JoinHandle<()>>,
}

enum Order {
    Aim(Box<Aim>),
    Halt(Duration),
}

impl Fleet {
    /// A fleet without users that tells its news to `ear`.
    pub fn new(ear: Ear) -> Self {
        let (orders, inbox) = mpsc::channel();
        let foreman = Foreman { ear, squads: BTreeMap::new(), index: 0 };
        let foreman = std::thread::spawn(move || foreman.work(&inbox));
        Self { orders, foreman: Some(foreman) }
    }
}

impl Crew for Fleet {
    fn aim(&mut self, aim: Aim) {
        // A foreman who is gone has panicked; the worker's own deadlines deal with that.
        let _ = self.orders.send(Order::Aim(Box::new(aim)));
    }

    fn halt(&mut self, patience: Duration) {
        let _ = self.orders.send(Order::Halt(patience));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.orders = mpsc::channel().0;
        if let Some(foreman) = self.foreman.take() {
            let _ = foreman.join();
        }
    }
}

/// Who gives the orders.
struct Foreman {
    ear: Ear,
    squads: BTreeMap<String, Squad>,
    /// Which worker of the swarm we were when the test began: another name in the middle of it must
    /// not make other users of ours.
    index: u64,
}

/// The users of one class.
struct Squad {
    crowd: Crowd,
    books: Books,
}

impl Foreman {
    fn work(mut self, inbox: &Receiver<Order>) {
        loop {
            match inbox.recv_timeout(to_next_second()) {
                Ok(Order::Aim(aim)) => self.aim(&aim),
                Ok(Order::Halt(patience)) => self.halt(patience),
                Err(RecvTimeoutError::Timeout) => self.harvest(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn aim(&mut self, aim: &Aim) {
        if aim.fresh {
            self.index = aim.index;
        }
        for (class, &users) in &aim.users {
            if let Err(trouble) = self.aim_class(class, users, aim) {
                self.ear.tell(News::Trouble(trouble));
            }
        }
        let there = |class: &String| self.squads.get(class).map_or(0, |squad| squad.books.users);
        let users: Users = aim.users.keys().map(|class| (class.clone(), there(class))).collect();
        self.ear.tell(News::Settled(users));
    }

    fn aim_class(&mut self, class: &str, users: u64, aim: &Aim) -> Result<(), Trouble> {
        if users == 0 && !self.squads.contains_key(class) {
            return Ok(());
        }
        let plan = plan(class, aim, self.index)?;
        // Fields were changed while users are there: they begin anew, as other users.
        if self.squads.get(class).is_some_and(|squad| squad.books.plan != plan)
            && let Some(squad) = self.squads.remove(class)
        {
            let _ = squad.crowd.set_users(0);
            self.dismiss(squad, Instant::now() + aim.stop_timeout.max(LINGER));
        }
        let squad = match self.squads.entry(class.to_owned()) {
            Entry::Occupied(squad) => squad.into_mut(),
            Entry::Vacant(place) => {
                let crowd = Crowd::start(plan.clone()).map_err(|failure| Trouble {
                    what: failure.to_string(),
                    place: format!("starting users of {class}"),
                })?;
                place.insert(Squad { crowd, books: Books::new(class, plan) })
            }
        };
        squad.books.users = users;
        let count = usize::try_from(users).unwrap_or(usize::MAX);
        squad.crowd.set_users(count).map_err(|gone| trouble(class, gone))
    }

    /// Tells what was counted in the second that is over.
    fn harvest(&mut self) {
        let mut gone = Vec::new();
        for (class, squad) in &mut self.squads {
            match squad.crowd.harvest() {
                Ok(harvest) => tell(&self.ear, &mut squad.books, harvest, 0),
                Err(error) => {
                    self.ear.tell(News::Trouble(trouble(class, error)));
                    gone.push(class.clone());
                }
            }
        }
        for class in gone {
            self.squads.remove(&class);
        }
    }

    /// Lets all users go and tells all that was counted.
    fn halt(&mut self, patience: Duration) {
        let squads = std::mem::take(&mut self.squads);
        for squad in squads.values() {
            // Who is gone says so below.
            let _ = squad.crowd.set_users(0);
        }
        let end = Instant::now() + patience;
        for squad in squads.into_values() {
            self.dismiss(squad, end);
        }
        self.ear.tell(News::Halted);
    }

    /// Tells what the users of a class do until the last reply has come and the last session has
    /// ended, or until `end`. A market is not audited: who trades beside others cannot know what
    /// should be left.
    fn dismiss(&self, squad: Squad, end: Instant) {
        let Squad { crowd, mut books } = squad;
        let sessions = matches!(books.plan.behaviour, Behaviour::Sessions { .. });
        loop {
            match crowd.harvest() {
                Ok(harvest) => {
                    let left = harvest.outstanding;
                    // Who thinks has nothing outstanding, and is still here.
                    let here = if sessions { harvest.connections } else { 0 };
                    let over = (left == 0 && here == 0) || Instant::now() >= end;
                    tell(&self.ear, &mut books, harvest, if over { left } else { 0 });
                    if over {
                        return;
                    }
                }
                Err(gone) => return self.ear.tell(News::Trouble(trouble(&books.class, gone))),
            }
            std::thread::sleep(DISMISS);
        }
    }
}

fn tell(ear: &Ear, books: &mut Books, harvest: Harvest, unanswered: u64) {
    let (batch, doubts) = books.batch(harvest, unanswered);
    ear.tell(News::Batch(Box::new(batch)));
    for doubt in doubts {
        ear.tell(News::Log(Level::Warning, doubt));
    }
}

fn trouble(class: &str, gone: Gone) -> Trouble {
    Trouble { what: gone.to_string(), place: format!("users of {class}") }
}

/// How long it is until a second of the Unix clock is over.
fn to_next_second() -> Duration {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let part = Duration::from_nanos(u64::from(unix.subsec_nanos()));
    (Duration::from_secs(1) + BEHIND).saturating_sub(part)
}
