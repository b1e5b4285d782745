//! The echo server of the portfolio, with five switches: before and after its optimisation. They
//! are digits of a number, the last one of which is the lock.
//!
//! ```text
//!   lock      one lock of the whole server is held from finding a session until its send is over,
//!             or let go as soon as it is found
//!   table     a hash map and a new session for each client, or places prepared beforehand
//!   messages  a new buffer of 20,000 bytes for each reception, or one from a pool
//!   session   a recursive lock (owner and count, as a critical section has) next to the plain one
//!   lines     a session's words side by side, or on cache lines of their own
//! ```
//!
//! Its structure follows the original's on completion ports: several workers wait at one queue (an
//! epoll set whose events come once), the worker that gets an event receives everything, and the
//! packets of that reception travel as one message. Packets are ten bytes: a length of 8, little
//! endian, and eight bytes that the server returns. Each client first receives a login packet. Two
//! faults of the original are not repeated, because they decide no time: here a packet that arrives
//! in two pieces is joined, and bytes queued while another worker sends are sent too.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Bytes of a packet, and of its payload.
const PACKET: usize = 10;
/// The value of a packet's first two bytes.
const PAYLOAD: u16 = 8;
/// The payload of the first packet that a client gets.
const LOGIN: u64 = 0x7fff_ffff_ffff_ffff;
/// Bytes of a message buffer.
const MESSAGE: usize = 20_000;
/// Bytes of a session's buffers.
const BUFFER: usize = 64_000;
const SESSIONS: usize = 256;
/// Threads that wait for events.
const WORKERS: usize = 4;

/// The enabled ones of the five optimisations, the first in the lowest bit.
#[derive(Clone, Copy)]
struct Switches(u32);

impl Switches {
    fn is_on(self, at: u32) -> bool {
        self.0 >> at & 1 == 1
    }
}

/// Side by side.
struct Packed;

/// On separate lines, which some processors fetch in pairs.
#[repr(align(128))]
struct Apart;

/// A part of a session, laid out as `L` is.
#[derive(derive_more::Deref)]
struct Laid<T, L> {
    #[deref]
    part: T,
    _layout: [L; 0],
}

impl<T, L> Laid<T, L> {
    fn new(part: T) -> Self {
        Laid { part, _layout: [] }
    }
}

/// Waits for a lock whose last holder may have panicked: it protects only bytes.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that its holder may take again, as a critical section.
#[derive(Default)]
struct Recursive {
    holder: Mutex<Option<(ThreadId, u32)>>,
    freed: Condvar,
}

impl Recursive {
    fn enter(&self) {
        let me = thread::current().id();
        let mut holder = held(&self.holder);
        loop {
            match &mut *holder {
                None => break *holder = Some((me, 1)),
                Some((owner, count)) if *owner == me => break *count += 1,
                Some(_) => {
                    holder = self.freed.wait(holder).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn leave(&self) {
        let mut holder = held(&self.holder);
        match &mut *holder {
            Some((_, count)) if *count > 1 => *count -= 1,
            _ => {
                *holder = None;
                self.freed.notify_one();
            }
        }
    }
}

struct Session<L> {
    received: Laid<Mutex<Vec<u8>>, L>,
    queued: Laid<Mutex<Vec<u8>>, L>,
    in_flight: Laid<AtomicU32, L>,
    sends: Laid<AtomicU64, L>,
    section: Recursive,
    /// The client and its id; `None` between two clients.
    client: Mutex<Option<Arc<TcpStream>>>,
    id: AtomicU64,
}

impl<L> Session<L> {
    fn new() -> Session<L> {
        let buffer = || Laid::new(Mutex::new(Vec::with_capacity(BUFFER)));
        Session {
            received: buffer(),
            queued: buffer(),
            in_flight: Laid::new(AtomicU32::new(0)),
            sends: Laid::new(AtomicU64::new(0)),
            section: Recursive::default(),
            client: Mutex::new(None),
            id: AtomicU64::new(0),
        }
    }
}

type Held<L> = Arc<Session<L>>;

struct Server<L> {
    switches: Switches,
    poll: OwnedFd,
    /// The lock of the whole server.
    gate: Mutex<()>,
    map: Mutex<HashMap<u64, Held<L>>>,
    places: Box<[Held<L>]>,
    /// By place: the session whose number the events carry, as a completion carries its key.
    keys: Box<[Mutex<Option<Held<L>>>]>,
    free: Mutex<Vec<usize>>,
    messages: Mutex<Vec<Vec<u8>>>,
    count: AtomicU64,
}

impl<L> Server<L> {
    fn new(switches: Switches) -> io::Result<Server<L>> {
        let places = if switches.is_on(1) { SESSIONS } else { 0 };
        let messages = if switches.is_on(2) { 64 } else { 0 };
        Ok(Server {
            switches,
            poll: epoll::create(CreateFlags::CLOEXEC)?,
            gate: Mutex::new(()),
            map: Mutex::new(HashMap::new()),
            places: (0..places).map(|_| Arc::new(Session::new())).collect(),
            keys: (0..SESSIONS).map(|_| Mutex::new(None)).collect(),
            free: Mutex::new((0..SESSIONS).rev().collect()),
            messages: Mutex::new((0..messages).map(|_| Vec::with_capacity(MESSAGE)).collect()),
            count: AtomicU64::new(0),
        })
    }

    /// Takes a client in and greets it; turned away if all places are taken.
    fn enter(&self, client: TcpStream) -> io::Result<()> {
        client.set_nonblocking(true)?;
        let Some(place) = held(&self.free).pop() else { return Ok(()) };
        let session = match self.places.get(place) {
            Some(session) => session.clone(),
            None => Arc::new(Session::new()),
        };
        let id = (self.count.fetch_add(1, Relaxed) + 1) << 32 | place as u64;
        session.id.store(id, Relaxed);
        held(&session.received).clear();
        held(&session.queued).clear();
        let client = Arc::new(client);
        *held(&session.client) = Some(client.clone());
        if !self.switches.is_on(1) {
            held(&self.map).insert(id, session.clone());
        }
        *held(&self.keys[place]) = Some(session);
        (&*client).write_all(&packet(LOGIN))?;
        let data = EventData::new_u64(place as u64);
        Ok(epoll::add(&self.poll, &client, data, wanted(false))?)
    }

    fn leave(&self, place: usize) {
        let Some(session) = held(&self.keys[place]).take() else { return };
        if !self.switches.is_on(1) {
            held(&self.map).remove(&session.id.load(Relaxed));
        }
        session.id.store(0, Relaxed);
        *held(&session.client) = None;
        held(&self.free).push(place);
    }

    /// A worker: handles events for as long as the process lives.
    fn work(&self) {
        let mut events: Vec<Event> = Vec::with_capacity(1);
        loop {
            events.clear();
            let waited = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), None);
            if waited.is_err() {
                continue;
            }
            let Some(event) = events.first() else { continue };
            let place = event.data.u64() as usize;
            match self.event(place) {
                Ok(true) => {}
                Ok(false) | Err(_) => self.leave(place),
            }
        }
    }

    /// Handles a session's event; returns whether the client is still there.
    fn event(&self, place: usize) -> io::Result<bool> {
        let Some(session) = held(&self.keys[place]).clone() else { return Ok(true) };
        let Some(client) = held(&session.client).clone() else { return Ok(true) };
        session.in_flight.fetch_add(1, Relaxed);
        let id = session.id.load(Relaxed);
        let mut message = self.message();
        let is_there = self.receive(&session, &client, &mut message)?;
        if !message.is_empty() {
            self.transmit(id, &message)?;
        }
        self.done_with(message);
        // Something may have been left in the way of an earlier event.
        let is_full = self.send(&session, &client)?;
        session.in_flight.fetch_sub(1, Relaxed);
        if is_there {
            let data = EventData::new_u64(place as u64);
            epoll::modify(&self.poll, &client, data, wanted(is_full))?;
        }
        Ok(is_there)
    }

    fn message(&self) -> Vec<u8> {
        let pooled = if self.switches.is_on(2) { held(&self.messages).pop() } else { None };
        pooled.unwrap_or_else(|| Vec::with_capacity(MESSAGE))
    }

    fn done_with(&self, mut message: Vec<u8>) {
        if self.switches.is_on(2) {
            message.clear();
            held(&self.messages).push(message);
        }
    }

    /// Receives once and moves whole packets into the message; returns whether the client is there.
    fn receive(
        &self,
        session: &Session<L>,
        mut client: &TcpStream,
        message: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let bytes = &mut *held(&session.received);
        let before = bytes.len();
        bytes.resize(before + MESSAGE / 2, 0);
        let read = match client.read(&mut bytes[before..]) {
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                bytes.truncate(before);
                return Ok(true);
            }
            Err(why) => return Err(why),
        };
        bytes.truncate(before + read);
        let whole = bytes.len() / PACKET * PACKET;
        let mut packets = bytes[..whole].chunks_exact(PACKET);
        if !packets.all(|it| it[..2] == PAYLOAD.to_le_bytes()) {
            return Err(io::Error::other("expected a packet of length 8"));
        }
        message.extend_from_slice(&bytes[..whole]);
        bytes.drain(..whole);
        Ok(read > 0)
    }

    fn find(&self, id: u64) -> Option<Held<L>> {
        if !self.switches.is_on(1) {
            return held(&self.map).get(&id).cloned();
        }
        let session = self.places.get(id as u32 as usize)?;
        (session.id.load(Relaxed) == id).then(|| session.clone())
    }

    /// Sends a message to a session by its id, as the library's users do.
    fn transmit(&self, id: u64, message: &[u8]) -> io::Result<()> {
        let mut gate = Some(held(&self.gate)).filter(|_| !self.switches.is_on(0));
        let Some(session) = self.find(id) else { return Ok(()) };
        let Some(client) = held(&session.client).clone() else { return Ok(()) };
        if !self.switches.is_on(3) {
            session.section.enter();
        }
        held(&session.queued).extend_from_slice(message);
        let sent = self.send(&session, &client);
        if !self.switches.is_on(3) {
            session.section.leave();
        }
        gate.take();
        sent.map(|_| ())
    }

    /// Sends the queued bytes; returns whether some remain.
    fn send(&self, session: &Session<L>, mut client: &TcpStream) -> io::Result<bool> {
        let mut queued = held(&session.queued);
        while !queued.is_empty() {
            session.sends.fetch_add(1, Relaxed);
            match client.write(&queued) {
                Ok(count) => _ = queued.drain(..count),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(why) => return Err(why),
            }
        }
        Ok(false)
    }
}

fn wanted(is_full: bool) -> EventFlags {
    let out = if is_full { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT | out
}

pub fn packet(payload: u64) -> [u8; PACKET] {
    let mut bytes = [0; PACKET];
    bytes[..2].copy_from_slice(&PAYLOAD.to_le_bytes());
    bytes[2..].copy_from_slice(&payload.to_le_bytes());
    bytes
}

/// Serves on `port` for as long as the process lives.
///
/// # Errors
/// A sentence: bad switches, or no socket.
pub fn serve(switches: &str, port: u16) -> Result<(), String> {
    let bad = |_| format!("expected switches such as 10011, found `{switches}`");
    let switches = Switches(u32::from_str_radix(switches, 2).map_err(bad)?);
    let served = match switches.is_on(4) {
        true => run::<Apart>(switches, port),
        false => run::<Packed>(switches, port),
    };
    served.map_err(|why| format!("cannot serve: {why}"))
}

fn run<L: Send + Sync + 'static>(switches: Switches, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let server: Arc<Server<L>> = Arc::new(Server::new(switches)?);
    for _ in 0..WORKERS {
        let server = server.clone();
        thread::Builder::new().spawn(move || server.work())?;
    }
    for client in listener.incoming().flatten() {
        // The client may have left already.
        let _ = server.enter(client);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_entered_again_by_its_holder_alone() {
        let section = Arc::new(Recursive::default());
        section.enter();
        section.enter();
        let other = section.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = thread::spawn(move || {
            other.enter();
            let _ = sender.send(());
            other.leave();
        });
        section.leave();
        assert!(receiver.try_recv().is_err(), "it is held once more");
        section.leave();
        receiver.recv().expect("it is free");
        waiting.join().expect("no panic");
    }
}
