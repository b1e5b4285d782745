//! Connections: how they are made, used for sending and receiving, recorded, and given up.
//!
//! The event loop of a driver calls these methods with the number of a link. Received bytes go to
//! the script, which says how many replies they complete; `credit` takes as many requests off the
//! oldest runs of the link and records their times. Bytes that the script could not use are kept
//! and offered again with more. Every request ends in exactly one way: answered, wrong, refused,
//! lost, or still open at the end, and `run.outstanding` equals the sum over the links. The subtle
//! part is a server that ends a connection: requests are sent again only if the script says that a
//! repetition is harmless, and keep their first times, so a close does not hide a delay.

use super::link::State;
use super::state::Net;
use super::windows::ECHO_LATE;
use super::wire::Wire;
use super::{Driver, RECEIVE, now};
use crate::Instant;
use crate::faults::FaultKind;
use crate::script::{Replies, ReplyLog};
use crate::stop::Stop;
use crate::tally::{Span, nanos};
use crate::tls::Layers;
use crate::work::Work;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use sys::epoll::{Epoll, Interest};
use sys::limits;
use sys::socket::{self, SockRef};

/// The longest reply that is held (bytes).
const REPLY_MAX: usize = 256 << 20;

/// Starts a connection and adds it to the epoll.
pub(super) fn dial(
    place: (SocketAddr, Option<&Path>),
    sources: &[IpAddr],
    dialled: &mut usize,
    tls: Option<&Layers>,
    epoll: &Epoll,
    (key, interest): (u64, Interest),
) -> io::Result<Wire> {
    *dialled += 1;
    let fd = match (place, sources) {
        ((_, Some(path)), _) => socket::connect_unix(path, true)?,
        ((address, None), []) => socket::connect_nonblocking(address)?,
        ((address, None), _) => {
            socket::connect_nonblocking_from(address, sources[*dialled % sources.len()])?
        }
    };
    if place.1.is_none() {
        SockRef::from(&fd).set_tcp_nodelay(true)?;
    }
    let write = interest.write || tls.is_some();
    epoll.add(&fd, Interest { write, ..interest }, key)?;
    Ok(match tls {
        None => Wire::Plain(fd),
        Some(tls) => Wire::Layered(Box::new(tls.begin(fd)?)),
    })
}

/// Whether the connection goes on after this.
fn is_sound(received: &io::Result<usize>) -> bool {
    match received {
        Ok(count) => *count > 0,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}

impl Driver {
    /// Makes the connection; false if that failed at once.
    pub(super) fn connect(&mut self, at: usize, moment: Instant) -> bool {
        let Net { addresses, unix, sources, dialled, tls, epoll, .. } = &mut self.net;
        let address = addresses[(at + self.links[at].failed) % addresses.len()];
        let interest = Interest { write: self.settings.connect_apart, ..Interest::READ };
        let place = (address, unix.as_deref());
        match dial(place, sources, dialled, tls.as_ref(), epoll, (at as u64, interest)) {
            Ok(wire) => {
                let link = &mut self.links[at];
                link.open(wire, now());
                if self.settings.connect_apart {
                    (link.dialled, link.watching_room) = (Some(link.opened), true);
                }
                self.net.up += 1;
                self.counts.stress.connects += 1;
                self.script.open(at);
                true
            }
            Err(e) => {
                // The queue of a listener in the file system is full: it is slow, not wrong.
                match e.kind() == io::ErrorKind::WouldBlock {
                    true => self.counts.retries += 1,
                    false => self.count_io(&e, "connecting"),
                }
                self.links[at].back_off(moment);
                self.after_loss(at, moment);
                false
            }
        }
    }

    /// Receives what has arrived and continues with the connection.
    pub(super) fn receive(&mut self, at: usize, stop: &Stop) {
        loop {
            let State::Up(wire) = &mut self.links[at].state else { return };
            let received = wire.recv(&mut self.net.buffer, &mut self.net.sealed);
            let now = now();
            self.counts.delays.worked(now);
            if self.net.tls.is_some() && is_sound(&received) && !self.agree(at, now) {
                return;
            }
            match received {
                Ok(0) => return self.ended(at, stop, now),
                Ok(count) => {
                    let replies = self.feed_script(at, count);
                    if self.settings.tops_up {
                        self.counts.stress.echoes_late += self.links[at].late(now, ECHO_LATE);
                        self.count_greetings(at);
                    }
                    self.credit(at, replies, now);
                    if self.links[at].held.len() > REPLY_MAX {
                        let held = self.links[at].held.len();
                        return self.fail(at, now, FaultKind::Overlong, || {
                            format!("no end in {held} bytes")
                        });
                    }
                    if replies.over {
                        return self.move_on(at, stop, now);
                    }
                    self.answer(at, now);
                    self.go_on(at, stop, now);
                    if count < RECEIVE && !self.links[at].has_more() {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => return self.fail_io(at, now, &e, "receiving"),
            }
        }
    }

    fn feed_script(&mut self, at: usize, count: usize) -> Replies {
        self.record.tally.bytes_in += count as u64;
        let notes = self.is_noting().then_some(&mut self.record.notes);
        let mut log = ReplyLog::new(&mut self.counts.faults, notes);
        let held = &mut self.links[at].held;
        let fresh = &self.net.buffer[..count];
        if held.is_empty() {
            let replies = self.script.receive(at, fresh, &mut log);
            if replies.used < count {
                held.extend_from_slice(&fresh[replies.used..]);
            }
            replies
        } else {
            held.extend_from_slice(fresh);
            let replies = self.script.receive(at, held, &mut log);
            held.drain(..replies.used);
            replies
        }
    }

    /// Sends what the protocol has to say without a request.
    fn answer(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        if !link.is_up() {
            return;
        }
        let before = link.unsent.len();
        self.script.answer(at, &mut link.unsent);
        if link.unsent.len() > before {
            self.send(at, now);
        }
    }

    /// Records the times of answered requests of a connection: the oldest, or those that the script
    /// names.
    fn credit(&mut self, at: usize, replies: Replies, now: Instant) {
        let link = &mut self.links[at];
        link.moved = now;
        let order = self.script.order(at);
        if replies.done > 0 {
            if order.is_none() {
                link.replied = now;
            }
            self.run.answered = now;
        }
        let (detailed, noting) = (self.settings.detailed, self.is_noting());
        let link = &mut self.links[at];
        if replies.done == 0 {
            if noting {
                self.name_faults();
            }
            return;
        }
        let (mut left, mut wrong, mut noted) = (replies.done, replies.wrong, 0);
        let mut refused = replies.refused;
        while left > 0 {
            let most = if noting || order.is_some() { 1 } else { left };
            let place = order.and_then(|all| all.get((replies.done - left) as usize).copied());
            let Some((run, count)) = link.answered(place.unwrap_or(0), most) else { break };
            left -= count;
            // All replies arrived at the same moment, so it does not matter to the times which were
            // wrong or refused.
            let faulty = wrong.min(count);
            let turned_away = refused.min(count - faulty);
            let bad = faulty + turned_away;
            (wrong, refused) = (wrong - faulty, refused - turned_away);
            let span = Span { due: run.due, sent: run.sent, done: now };
            let measured = run.due >= self.run.epoch;
            let good = u64::from(count - bad);
            self.record.tally.done += good;
            self.record.tally.wrong += u64::from(faulty);
            self.record.tally.refused += u64::from(turned_away);
            if measured {
                self.record.tally.failed += u64::from(bad);
                if good > 0 {
                    self.record.tally.record(span, good);
                }
            }
            let start = if self.arrivals.scheduled { span.due } else { span.sent };
            if good > 0 {
                self.record.recorder.replied(now, good, nanos(start, now), measured);
            }
            if bad > 0 {
                self.record.recorder.failed(u64::from(bad));
            }
            if let Some(&note) = self.record.notes.list.get(noted) {
                self.record.note(note, noted, span, detailed.then_some(measured));
                noted += 1;
            }
        }
        debug_assert_eq!(left, 0, "a script answers only what was asked");
        let answered = u64::from(replies.done - left);
        self.counts.answered += answered;
        self.run.outstanding -= answered;
        self.record.tally.malformed += u64::from(replies.malformed);
        if noting {
            self.name_faults();
        }
        if self.links[at].outstanding == 0 {
            self.batch_done(at, now);
        }
    }

    fn is_noting(&self) -> bool {
        self.settings.detailed || self.record.recorder.rows.is_some()
    }

    /// Attributes faults of replies to the request kinds of those replies.
    fn name_faults(&mut self) {
        for (place, kind, words) in self.record.notes.faults.drain(..) {
            let note = self.record.notes.list.get(place).or(self.record.notes.list.last());
            let at = note.map_or(0, |note| usize::from(note.kind));
            if let Some(of) = self.record.tally.kinds.get_mut(at) {
                of.faults.count(kind, || words);
            }
        }
        self.record.notes.list.clear();
    }

    /// Sends pending bytes; watches for room if some are left.
    pub(super) fn send(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        let State::Up(wire) = &mut link.state else { return };
        let waiting = &link.unsent[link.sent..];
        match wire.send(waiting, now) {
            Ok(count) => {
                self.record.tally.bytes_out += count as u64;
                if count == waiting.len() {
                    link.unsent.clear();
                    link.sent = 0;
                } else {
                    link.sent += count;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return self.fail_io(at, now, &e, "sending"),
        }
        self.watch_room(at, now);
    }

    /// Watches for room to send exactly while that is wanted.
    pub(super) fn watch_room(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        let State::Up(wire) = &link.state else { return };
        let blocked = wire.wants_room(!link.unsent.is_empty());
        if blocked != link.watching_room {
            link.watching_room = blocked;
            let interest = Interest { write: blocked, ..Interest::READ };
            if let Err(e) = self.net.epoll.modify(wire.fd(), interest, at as u64) {
                self.fail_io(at, now, &e, "sending");
            }
        }
    }

    /// Handles the end of the server's side of a connection.
    fn ended(&mut self, at: usize, stop: &Stop, now: Instant) {
        self.count_end(at);
        if self.repeat_after_rest(at, now) {
            return;
        }
        let notes = self.is_noting().then_some(&mut self.record.notes);
        let mut log = ReplyLog::new(&mut self.counts.faults, notes);
        let held = std::mem::take(&mut self.links[at].held);
        let replies = self.script.ended(at, &held, &mut log);
        self.credit(at, replies, now);
        if replies.over {
            return self.move_on(at, stop, now);
        }
        let (owed, asked) = (self.links[at].outstanding, self.links[at].asked);
        if owed == 0 && asked == 0 {
            // Closed before any request was sent: reconnecting at once would only be closed again.
            self.drop_link(at, now);
            self.links[at].back_off(now);
            return self.go_on(at, stop, now);
        }
        if owed > 0 {
            return self.fail(at, now, FaultKind::ClosedEarly, || {
                let done = asked - u64::from(owed);
                let mut words =
                    format!("connection {at} was closed with {owed} of {asked} replies missing");
                if done > 0 {
                    words += &format!(
                        "; if the server closes after each {done} without `Connection: close`, say \
                         --requests-per-connection {done}"
                    );
                }
                words
            });
        }
        self.drop_link(at, now);
        self.go_on(at, stop, now);
    }

    /// Handles a reply that announces the end of its connection: unanswered requests are sent again
    /// on a new one, if repeating them is harmless.
    fn move_on(&mut self, at: usize, stop: &Stop, now: Instant) {
        let owed = self.links[at].outstanding;
        if owed > 0 && self.script.is_numbered() {
            // The server is overloaded, or has lost its store: not again at once.
            return self.lose(at, now, FaultKind::ClosedEarly);
        }
        if owed > 0 && !self.script.may_repeat(at) {
            return self.fail(at, now, FaultKind::ClosedEarly, || {
                format!("the server ended connection {at} with {owed} replies missing")
            });
        }
        self.drop_link(at, now);
        if owed == 0 {
            return self.go_on(at, stop, now);
        }
        if !self.resend(at, now) {
            self.count_lost(at, FaultKind::ClosedEarly);
        }
    }

    /// Makes a connection and sends what is outstanding again; false if that failed at once.
    pub(super) fn resend(&mut self, at: usize, now: Instant) -> bool {
        let (owed, runs) = (self.links[at].outstanding, self.links[at].take_runs());
        let is_up = self.connect(at, now);
        let link = &mut self.links[at];
        if is_up {
            self.script.ask(at, owed, &mut link.unsent);
            self.counts.repeated += u64::from(owed);
        }
        link.restore_runs(runs);
        if is_up {
            self.send(at, now);
        }
        is_up
    }

    /// Sends requests again that met a connection which the server had just left after a rest, as
    /// browsers do; whether it did. A second close is a fault, because the new connection has not
    /// rested.
    fn repeat_after_rest(&mut self, at: usize, now: Instant) -> bool {
        let may = self.links[at].was_left() && self.script.may_repeat(at);
        if may {
            self.drop_link(at, now);
            if !self.resend(at, now) {
                self.count_lost(at, FaultKind::ClosedEarly);
            }
        }
        may
    }

    pub(super) fn fail_io(&mut self, at: usize, now: Instant, e: &io::Error, doing: &str) {
        if FaultKind::of(e) == FaultKind::Reset {
            self.count_end(at);
            if self.repeat_after_rest(at, now) {
                return;
            }
        }
        self.count_io(e, doing);
        self.lose(at, now, FaultKind::of(e));
    }

    pub(super) fn fail(
        &mut self,
        at: usize,
        now: Instant,
        kind: FaultKind,
        words: impl FnOnce() -> String,
    ) {
        if !self.is_survived(kind) {
            self.counts.faults.count(kind, words);
        }
        self.lose(at, now, kind);
    }

    /// Whether this fault loses nothing, because requests go on under their numbers.
    fn is_survived(&self, kind: FaultKind) -> bool {
        use FaultKind::{ClosedEarly, Refused, Reset, Socket, Timeout};
        let is_loss = matches!(kind, Refused | Reset | ClosedEarly | Timeout | Socket);
        is_loss && self.script.is_numbered()
    }

    /// Counts a socket error. If a limit was hit, the fault names it.
    fn count_io(&mut self, error: &io::Error, doing: &str) {
        if self.is_survived(FaultKind::of(error)) {
            return;
        }
        self.counts.faults.count_io(error, || match FaultKind::of(error) {
            FaultKind::NoDescriptors => {
                let limit = limits::open_files().map_or(0, |limit| limit.soft);
                format!("{doing}: {error}; this process may open {limit}")
            }
            _ => format!("{doing}: {error}"),
        });
    }

    /// Gives up a connection with all its unanswered requests, unless they have numbers; it is made
    /// again after a pause.
    fn lose(&mut self, at: usize, now: Instant, kind: FaultKind) {
        if !self.script.is_numbered() {
            self.count_lost(at, kind);
        }
        self.drop_link(at, now);
        self.links[at].back_off(now);
        self.after_loss(at, now);
    }

    /// Counts the unanswered requests of a connection as lost.
    fn count_lost(&mut self, at: usize, kind: FaultKind) {
        self.write_lost(at, kind);
        let link = &mut self.links[at];
        let unanswered = u64::from(link.outstanding);
        let measured = link.runs().filter(|run| run.due >= self.run.epoch);
        self.record.tally.failed += measured.map(|run| u64::from(run.left)).sum::<u64>();
        link.take_runs();
        self.counts.lost += unanswered;
        self.run.outstanding -= unanswered;
        self.record.recorder.failed(unanswered);
    }

    /// Writes a row for each unanswered request of a connection.
    pub(super) fn write_lost(&self, at: usize, kind: FaultKind) {
        let Some(rows) = &self.record.recorder.rows else { return };
        let done = now();
        for run in self.links[at].runs() {
            rows.lost(run.left, Span { due: run.due, sent: run.sent, done }, kind);
        }
    }

    /// After a loss the connection is made again after a pause, unless it was a session, which is
    /// over.
    fn after_loss(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        let (rounds, due, unheard) = (link.rounds, link.due, link.asked == 0);
        link.due = now;
        match (self.arrivals.work, &link.state) {
            (Work::Own { rounds: all, .. }, _)
                if rounds > 0 && rounds < u64::MAX && !self.script.is_numbered() =>
            {
                // Not even the first request of the session was sent.
                let failed = rounds == all && unheard && due >= self.run.epoch;
                self.record.tally.failed += u64::from(failed);
                self.leave(at, now);
            }
            (_, &State::Down { again }) => self.set_alarm(at, again),
            (_, State::Up(_)) => {}
        }
    }

    /// Closes a connection; it may be made again at once.
    pub(super) fn drop_link(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        if link.is_up() {
            self.script.close(at);
            self.net.up -= 1;
            link.close(now);
        }
    }
}

#[cfg(test)]
mod tests;
