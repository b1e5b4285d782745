//! The task of a connection.

use std::future::poll_fn;
use std::os::fd::{OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use memory::{Doing, Phase};
use seam::{Closed, Instant, Peer, SessionId};
use sys::ready::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::{block_in_place, yield_now};
use tokio::time::Sleep;

use super::{Seat, Tasks};
use crate::erased::Value;
use crate::helpers::{self, Done};
use crate::parts::lock::lock;
use crate::wait::parked::parking::Connection;
use crate::wait::parked::stepper::{Rest, Stepper};

/// The longest sleep of a timer, which then begins again.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// A connection and its task's state.
pub(super) struct Client {
    /// Dropped before the descriptor.
    watched: AsyncFd<RawFd>,
    /// The descriptor until the session is open.
    fd: Option<OwnedFd>,
    connection: Option<Box<Connection>>,
    id: SessionId,
    /// The number of its last seat.
    seat: usize,
    /// There may be input.
    readable: bool,
    /// The edition of the settings that its deadlines follow.
    edition: u32,
    /// When its timer ends.
    armed: Instant,
    /// It was silent for so long that it must make room.
    is_silent: bool,
    /// The service has panicked, and is not called again.
    has_panicked: bool,
    /// Its job, with the time when that was given.
    job: Option<(Value, u64)>,
    /// The outcome of its job.
    done: Option<Done>,
}

impl Client {
    pub fn new(id: SessionId, watched: AsyncFd<RawFd>, fd: OwnedFd, edition: u32) -> Client {
        Client {
            watched,
            fd: Some(fd),
            connection: None,
            id,
            seat: 0,
            readable: true,
            edition,
            armed: Instant::NEVER,
            is_silent: false,
            has_panicked: false,
            job: None,
            done: None,
        }
    }

    /// A turn of the session; `moved`: for an event.
    fn step(&mut self, stepper: &mut Stepper<'_, '_>, peer: Peer, moved: bool) -> Rest {
        let context = stepper.context;
        match &mut self.connection {
            None => self.connection = stepper.open(self.id, &mut self.fd, peer),
            Some(connection) => stepper.resume(connection, moved),
        }
        let Some(connection) = &mut self.connection else { return Rest::Over };
        if let Some(Done { outcome, times, .. }) = self.done.take() {
            context.job_ended(times);
            let cx = stepper.cx(self.id);
            match outcome {
                Some(outcome) => connection.conn.outcome(context.service, &cx, outcome),
                None => connection.conn.abort(Closed::Reset),
            }
        }
        if std::mem::take(&mut self.is_silent) {
            connection.end(Closed::Idle);
        }
        let rest = stepper.step(connection, &mut self.readable);
        if matches!(rest, Rest::Job) {
            self.job = connection.conn.take_job().map(|job| (job, context.job_begins()));
        }
        rest
    }

    /// When the session is due.
    fn due(&self) -> Instant {
        self.connection.as_ref().map_or(Instant::ZERO, |connection| connection.scheduled)
    }

    /// Sets the timer to the time when the session is due; false if that has come.
    fn arm(&mut self, sleep: Pin<&mut Sleep>) -> bool {
        let now = now();
        self.armed = self.due().min(now + SLEEP_MAX);
        sleep.reset(tokio::time::Instant::now() + self.armed.since(now));
        self.armed > now
    }
}

fn now() -> Instant {
    Instant::from_ns(sys::clock::now_ns())
}

impl Tasks<'_> {
    /// The life of a connection's task.
    pub(super) async fn serve(&self, mut client: Client, peer: Peer) {
        client.seat = client.id.index() as usize % self.seats.len();
        let mut calls = self.call.subscribe();
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut moved = true;
        loop {
            match self.step(&mut client, peer, moved) {
                Rest::Parked(interest) => {
                    moved = self.wait(&mut client, &mut calls, sleep.as_mut(), interest).await;
                }
                // Others first.
                Rest::Again | Rest::Output => yield_now().await,
                Rest::Job => self.work(&mut client),
                Rest::Over => break,
            }
        }
        self.finish(client);
    }

    /// Takes a seat for a turn of the session.
    fn step(&self, client: &mut Client, peer: Peer, moved: bool) -> Rest {
        let mut seat = match &client.done {
            // The seat that counts the job.
            Some(_) => lock(&self.seats[client.seat]),
            None => self.seat(&mut client.seat),
        };
        let Seat { context, spare } = &mut *seat;
        let context = &*context;
        context.id.enter();
        let now = context.now();
        context.turn(now);
        let mut stepper = Stepper { context, spare, now, works: false, sends: true };
        let stepped = catch_unwind(AssertUnwindSafe(|| client.step(&mut stepper, peer, moved)));
        context.rest(Doing::Waiting);
        stepped.unwrap_or_else(|_| {
            context.slot().panics.add(1);
            client.has_panicked = true;
            if let Some(connection) = &mut client.connection {
                connection.release(context, now);
            }
            Rest::Over
        })
    }

    /// Runs the job of a session, while another thread polls the other tasks.
    fn work(&self, client: &mut Client) {
        let Some((job, given_ns)) = client.job.take() else { return };
        let job = (client.id, job, given_ns);
        client.done = Some(block_in_place(|| helpers::run(self.service, job)));
    }

    /// Waits until the session is ready, due or called; true if for an event.
    async fn wait(
        &self,
        client: &mut Client,
        calls: &mut watch::Receiver<u32>,
        mut sleep: Pin<&mut Sleep>,
        interest: Interest,
    ) -> bool {
        if interest.read && client.readable {
            yield_now().await;
            return true;
        }
        if client.due() < client.armed && !client.arm(sleep.as_mut()) {
            return false;
        }
        loop {
            let mut called = pin!(calls.changed());
            let (mut moved, mut is_called) = (false, false);
            poll_fn(|cx| {
                if interest.read
                    && let Poll::Ready(Ok(mut guard)) = client.watched.poll_read_ready(cx)
                {
                    guard.clear_ready();
                    (client.readable, moved) = (true, true);
                }
                if interest.write
                    && let Poll::Ready(Ok(mut guard)) = client.watched.poll_write_ready(cx)
                {
                    guard.clear_ready();
                    moved = true;
                }
                is_called = called.as_mut().poll(cx).is_ready();
                let is_due = sleep.as_mut().poll(cx).is_ready();
                if moved | is_called | is_due { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if moved
                || (is_called && self.concerns(client))
                || (sleep.is_elapsed() && !client.arm(sleep.as_mut()))
            {
                return moved;
            }
        }
    }

    /// Whether the leader's call concerns this session.
    fn concerns(&self, client: &mut Client) -> bool {
        let Some(connection) = &client.connection else { return true };
        let (phase, edition) = (self.board.phase(), *self.call.borrow());
        let is_old = std::mem::replace(&mut client.edition, edition) != edition;
        let (bound_ns, now) = (self.room_ns.load(Ordering::Relaxed), now());
        let silence = now.since(connection.active);
        client.is_silent =
            bound_ns > 0 && silence >= Duration::from_nanos(bound_ns) && connection.is_silent(now);
        is_old
            || client.is_silent
            || phase >= Phase::Forced
            || (phase == Phase::Draining && !connection.x.drained && connection.linger.is_none())
            || (self.board.is_short() && connection.holds_much())
    }

    /// Closes the connection.
    fn finish(&self, client: Client) {
        let Client { watched, fd, connection, id, has_panicked, mut seat, .. } = client;
        // The reactor forgets the descriptor before it is closed.
        drop(watched);
        if let Some(connection) = connection
            && !has_panicked
        {
            let mut seat = self.seat(&mut seat);
            let Seat { context, spare } = &mut *seat;
            let context = &*context;
            let now = context.now();
            context.id.enter();
            // A panic here is the service's own, as in a turn.
            let close =
                || Stepper { context, spare, now, works: false, sends: true }.finish(*connection);
            if catch_unwind(AssertUnwindSafe(close)).is_err() {
                context.slot().panics.add(1);
            }
            context.carry_out_effects();
            context.rest(Doing::Waiting);
        }
        drop(fd);
        self.end(id);
    }
}
