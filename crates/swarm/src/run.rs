//! A worker at work: joins the state machine, the connection, the crew and the clock.
//!
//! One thread, which sleeps nearly always; requests are made by the crew's own threads, so that a
//! slow master cannot disturb a measurement, only its report.

use crate::crew::{Crew, News};
use crate::gauge::Meter;
use crate::link::{Event, Happened, Link};
use crate::worker::{Account, Act, Exit, Now, Settings, Worker};
use std::fmt;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What the user may want to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The master knows us, under this name and as this number.
    Known(String, u64),
    /// A test has ended.
    Account(Account),
    /// A line of the log.
    Line(String),
}

/// Why a worker could not work.
#[derive(Debug)]
pub enum Failure {
    /// The system refused what every worker needs: a runtime, signals.
    System(io::Error),
    /// No master was there; a sentence that says what to do.
    Alone(String),
}

/// Where a crew tells its news.
#[derive(Clone, Debug)]
pub struct Ear(pub(crate) UnboundedSender<News>);

impl Ear {
    /// Tells it; after the worker has ended nobody hears it.
    pub fn tell(&self, news: News) {
        // A class tells four batches a second and the worker reads them at once: no bound needed.
        let _ = self.0.send(news);
    }
}

/// Works for the master at `address` (`HOST:PORT`) until it says `quit`, the user interrupts, or
/// patience ends. `hire` makes the crew, which tells its news to the ear that it is given.
///
/// # Errors
/// If the system refuses what is needed, or no master answered.
pub fn run<C: Crew>(
    address: &str,
    settings: Settings,
    hire: impl FnOnce(Ear) -> C,
    mut told: impl FnMut(Told),
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::System)?;
    let exit = runtime.block_on(async {
        let (news_in, news) = unbounded_channel();
        let (events_in, events) = unbounded_channel();
        let mut shift = Shift {
            address,
            begun: Instant::now(),
            crew: hire(Ear(news_in)),
            news,
            events_in,
            events,
            link: None,
            dialled: 0,
            meter: Meter::default(),
            signals: [
                signal(SignalKind::interrupt()).map_err(Failure::System)?,
                signal(SignalKind::terminate()).map_err(Failure::System)?,
            ],
        };
        Ok(shift.work(settings, &mut told).await)
    })?;
    match exit {
        Exit::Bidden | Exit::Interrupted => Ok(()),
        Exit::Alone(why) => Err(Failure::Alone(why)),
    }
}

/// What a running worker has in its hands.
struct Shift<'a, C> {
    address: &'a str,
    begun: Instant,
    crew: C,
    news: UnboundedReceiver<News>,
    events_in: UnboundedSender<Happened>,
    events: UnboundedReceiver<Happened>,
    link: Option<Link>,
    dialled: u64,
    meter: Meter,
    signals: [Signal; 2],
}

impl<C: Crew> Shift<'_, C> {
    async fn work(&mut self, settings: Settings, told: &mut impl FnMut(Told)) -> Exit {
        let mut worker = Worker::new(settings, self.now());
        loop {
            worker.tick(self.meter.read(), self.now());
            while let Some(act) = worker.act() {
                if let Some(exit) = self.act(act, told) {
                    if let Some(link) = self.link.take() {
                        link.finish().await;
                    }
                    return exit;
                }
            }
            self.wait(&mut worker).await;
        }
    }

    /// Does one thing; gives back why it is over, if it is.
    fn act(&mut self, act: Act, told: &mut impl FnMut(Told)) -> Option<Exit> {
        match act {
            Act::Dial(name) => {
                self.dialled += 1;
                let events = self.events_in.clone();
                self.link = Some(Link::dial(self.address, &name, self.dialled, events));
            }
            Act::Hangup => self.link = None,
            Act::Send(message) => {
                if let Some(link) = &self.link {
                    link.send(message);
                }
            }
            Act::Aim(aim) => self.crew.aim(aim),
            Act::Halt(patience) => self.crew.halt(patience),
            Act::Known(name, index) => told(Told::Known(name, index)),
            Act::Account(account) => told(Told::Account(account)),
            Act::Say(line) => told(Told::Line(line)),
            Act::Exit(exit) => return Some(exit),
        }
        None
    }

    /// Waits for whatever is next and shows it to the worker.
    async fn wait(&mut self, worker: &mut Worker) {
        let sleep = worker.wake().saturating_sub(self.now().run);
        let [interrupt, terminate] = &mut self.signals;
        tokio::select! {
            Some(happened) = self.events.recv() => {
                if self.link.as_ref().is_some_and(|link| link.number() == happened.number) {
                    self.happened(happened.event, worker);
                }
            }
            Some(news) = self.news.recv() => worker.news(news, self.now()),
            Some(()) = interrupt.recv() => worker.interrupt(self.now()),
            Some(()) = terminate.recv() => worker.interrupt(self.now()),
            () = tokio::time::sleep(sleep) => {}
        }
    }

    fn happened(&mut self, event: Event, worker: &mut Worker) {
        let now = self.now();
        match event {
            Event::Up => worker.connected(now),
            Event::Message(message) => worker.hear(&message, now),
            Event::Down(why) => {
                self.link = None;
                worker.lost(&why, now);
            }
        }
    }

    fn now(&self) -> Now {
        // A clock before 1970 is no reason to end.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { run: self.begun.elapsed(), unix: unix.as_secs_f64() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "a worker needs an event loop and signals: {error}"),
            Self::Alone(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
