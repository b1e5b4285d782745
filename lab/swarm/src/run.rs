//! A running worker: connects the state machine, the connection, the crew and the clock.
//!
//! It runs on one thread, which sleeps most of the time. The crew's own threads make the requests,
//! so a slow master can only delay reports, not disturb a measurement.

use crate::crew::{Crew, CrewEvent};
use crate::link::{Event, Link, LinkEvent};
use crate::usage::UsageMeter;
use crate::worker::{Action, Exit, Now, Settings, TestSummary, Worker};
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Notices for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The master knows this worker, under this name and index.
    Known(String, u64),
    /// A test has ended.
    TestSummary(TestSummary),
    /// A line of the log.
    Line(String),
}

/// The reason why a worker failed.
#[derive(Debug, derive_more::Display)]
pub enum Failure {
    /// The system refused a resource that every worker needs: a runtime, signals.
    #[display("a worker needs an event loop and signals: {_0}")]
    System(io::Error),
    /// No master answered; the text says what to do.
    #[display("{}", _0)]
    Alone(String),
}

/// The sender of a crew's events.
#[derive(Clone, Debug)]
pub struct EventSender(pub(crate) UnboundedSender<CrewEvent>);

impl EventSender {
    /// Sends an event; events after the worker has ended are dropped.
    pub fn tell(&self, news: CrewEvent) {
        // A class sends four batches a second and the worker reads them at once, so no bound is
        // needed.
        let _ = self.0.send(news);
    }
}

/// Works for the master at `address` (`HOST:PORT`) until the master says `quit`, the user
/// interrupts, or no master has answered for too long. `hire` makes the crew, given the sender for
/// its events.
///
/// # Errors
/// The system refuses a resource, or no master answered.
pub fn run<C: Crew>(
    address: &str,
    settings: Settings,
    hire: impl FnOnce(EventSender) -> C,
    mut notify: impl FnMut(Notice),
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::System)?;
    let exit = runtime.block_on(async {
        let (news_in, news) = unbounded_channel();
        let (events_in, events) = unbounded_channel();
        let mut event_loop = EventLoop {
            address,
            begun: Instant::now(),
            crew: hire(EventSender(news_in)),
            news,
            events_in,
            events,
            link: None,
            dialled: 0,
            meter: UsageMeter::default(),
            signals: [
                signal(SignalKind::interrupt()).map_err(Failure::System)?,
                signal(SignalKind::terminate()).map_err(Failure::System)?,
            ],
        };
        Ok(event_loop.work(settings, &mut notify).await)
    })?;
    match exit {
        Exit::ByMaster | Exit::Interrupted => Ok(()),
        Exit::Alone(why) => Err(Failure::Alone(why)),
    }
}

/// The parts of a running worker.
struct EventLoop<'a, C> {
    address: &'a str,
    begun: Instant,
    crew: C,
    news: UnboundedReceiver<CrewEvent>,
    events_in: UnboundedSender<LinkEvent>,
    events: UnboundedReceiver<LinkEvent>,
    link: Option<Link>,
    dialled: u64,
    meter: UsageMeter,
    signals: [Signal; 2],
}

impl<C: Crew> EventLoop<'_, C> {
    async fn work(&mut self, settings: Settings, notify: &mut impl FnMut(Notice)) -> Exit {
        let mut worker = Worker::new(settings, self.now());
        loop {
            worker.tick(self.meter.read(), self.now());
            while let Some(action) = worker.action() {
                if let Some(exit) = self.action(action, notify) {
                    if let Some(link) = self.link.take() {
                        link.finish().await;
                    }
                    return exit;
                }
            }
            self.wait(&mut worker).await;
        }
    }

    /// Executes one action; returns why the worker ends, if it does.
    fn action(&mut self, action: Action, notify: &mut impl FnMut(Notice)) -> Option<Exit> {
        match action {
            Action::Dial(name) => {
                self.dialled += 1;
                let events = self.events_in.clone();
                self.link = Some(Link::dial(self.address, &name, self.dialled, events));
            }
            Action::Hangup => self.link = None,
            Action::Send(message) => {
                if let Some(link) = &self.link {
                    link.send(message);
                }
            }
            Action::UserTargets(targets) => self.crew.set_targets(targets),
            Action::Halt(patience) => self.crew.halt(patience),
            Action::Known(name, index) => notify(Notice::Known(name, index)),
            Action::TestSummary(account) => notify(Notice::TestSummary(account)),
            Action::Say(line) => notify(Notice::Line(line)),
            Action::Exit(exit) => return Some(exit),
        }
        None
    }

    /// Waits for the next event and passes it to the worker.
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
        // A clock before 1970 is no reason to fail.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { run: self.begun.elapsed(), unix: unix.as_secs_f64() }
    }
}

impl std::error::Error for Failure {}
