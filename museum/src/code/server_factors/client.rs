//! The clients: one thread, a window of packets for each connection, every byte looked at.

use crate::artefact::echo::{LOGIN, PACKET, PAYLOAD, packet};
use crate::contest::thread_time;
use crate::exhibit::Fault;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The time limit on a server's silence.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// Packets that came back.
    pub(super) packets: u64,
    /// Those that differ from the sent packet.
    pub(super) wrong: u64,
    /// The number of receptions.
    pub(super) receptions: u64,
    /// From the first packet sent to the last one back.
    pub(super) took: Duration,
    /// Median latency from sending a batch to its last packet, nanoseconds.
    pub(super) p50: f64,
    /// The highest.
    pub(super) most: f64,
    /// Share of the time in which this thread was busy, 0 to 1.
    pub(super) busy: f64,
}

/// All clients of one server.
pub(super) struct Crowd {
    poll: OwnedFd,
    port: u16,
    clients: Vec<Client>,
    window: usize,
    /// The client that reconnects next: one in each window, as the original's clients did.
    turn: usize,
}

struct Client {
    stream: TcpStream,
    /// Bytes of a packet that has not come whole.
    rest: Vec<u8>,
    /// The numbers of the next packet to send, and of the next to come back.
    next: u64,
    due: u64,
    /// Batches on their way: the number after their last packet, and when they were sent.
    sent: VecDeque<(u64, Instant)>,
    greeted: bool,
    /// The bytes to send, in reused memory.
    bytes: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (rest, sent, bytes) = (Vec::new(), VecDeque::new(), Vec::new());
        Ok(Client { stream, rest, next: 0, due: 0, sent, greeted: false, bytes })
    }

    /// Sends `count` packets at once.
    fn send(&mut self, count: usize) -> io::Result<()> {
        self.bytes.clear();
        (0..count as u64).for_each(|at| self.bytes.extend_from_slice(&packet(self.next + at)));
        self.next += count as u64;
        self.sent.push_back((self.next, Instant::now()));
        // A window is far smaller than the kernel's buffer.
        self.stream.write_all(&self.bytes)
    }

    /// Receives the available bytes; returns the number of packets and the number of wrong ones.
    fn receive(&mut self, latencies: &mut Vec<u64>) -> io::Result<(u64, u64)> {
        let mut bytes = [0; 16 * 1024];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::Error::other("the server has hung up")),
            Ok(count) => count,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => 0,
            Err(why) => return Err(why),
        };
        self.rest.extend_from_slice(&bytes[..count]);
        let (mut came, mut wrong) = (0, 0);
        let whole = self.rest.len() / PACKET * PACKET;
        for it in self.rest[..whole].chunks_exact(PACKET) {
            if !self.greeted {
                self.greeted = true;
                wrong += u64::from(it != packet(LOGIN));
                continue;
            }
            let is_right = it[..2] == PAYLOAD.to_le_bytes() && it == packet(self.due);
            wrong += u64::from(!is_right);
            came += 1;
            self.due += 1;
            if self.sent.front().is_some_and(|batch| batch.0 <= self.due)
                && let Some((_, at)) = self.sent.pop_front()
            {
                latencies.push(at.elapsed().as_nanos() as u64);
            }
        }
        self.rest.drain(..whole);
        Ok((came, wrong))
    }

    fn is_waiting(&self) -> bool {
        self.due < self.next || !self.greeted
    }
}

impl Crowd {
    /// Connects `clients` clients, each with a window of `window` packets.
    pub(super) fn connect(port: u16, clients: u32, window: usize) -> Result<Crowd, Fault> {
        let connected = || -> io::Result<Crowd> {
            let poll = epoll::create(CreateFlags::CLOEXEC)?;
            let clients: io::Result<Vec<Client>> =
                (0..clients).map(|_| Client::connect(port)).collect();
            let crowd = Crowd { poll, port, clients: clients?, window, turn: 0 };
            for at in 0..crowd.clients.len() {
                crowd.watch(at)?;
            }
            Ok(crowd)
        };
        connected().map_err(|why| Fault::Clients(format!("cannot connect: {why}")))
    }

    fn watch(&self, at: usize) -> io::Result<()> {
        let data = EventData::new_u64(at as u64);
        Ok(epoll::add(&self.poll, &self.clients[at].stream, data, EventFlags::IN)?)
    }

    /// Keeps the windows full for `time`, waits until everything is back, and lets one client go
    /// and another come.
    pub(super) fn load(&mut self, time: Duration) -> Result<Window, Fault> {
        let loaded = self.loaded(time).and_then(|window| {
            self.renew()?;
            Ok(window)
        });
        loaded.map_err(|why| Fault::Clients(format!("expected echoes: {why}")))
    }

    fn loaded(&mut self, time: Duration) -> io::Result<Window> {
        let (start, ran) = (Instant::now(), thread_time());
        let mut window = Window::default();
        let mut latencies = Vec::new();
        for client in &mut self.clients {
            client.send(self.window)?;
        }
        let mut events: Vec<Event> = Vec::with_capacity(64);
        let mut last = start;
        while self.clients.iter().any(Client::is_waiting) {
            if last.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("nothing came for {PATIENCE:?}")));
            }
            events.clear();
            let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.poll, room, Some(&second)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
            for event in &events {
                let client = &mut self.clients[event.data.u64() as usize];
                let (came, wrong) = client.receive(&mut latencies)?;
                window.receptions += 1;
                window.packets += came;
                window.wrong += wrong;
                last = Instant::now();
                if came > 0 && start.elapsed() < time {
                    client.send(came as usize)?;
                }
            }
        }
        window.took = start.elapsed();
        let ran = thread_time().saturating_sub(ran);
        window.busy = ran.as_secs_f64() / window.took.as_secs_f64().max(1e-9);
        latencies.sort_unstable();
        window.p50 = latencies.get(latencies.len() / 2).copied().unwrap_or(0) as f64;
        window.most = latencies.last().copied().unwrap_or(0) as f64;
        Ok(window)
    }

    /// A client leaves and another takes its place.
    fn renew(&mut self) -> io::Result<()> {
        let at = self.turn % self.clients.len().max(1);
        self.turn += 1;
        epoll::delete(&self.poll, &self.clients[at].stream)?;
        self.clients[at] = Client::connect(self.port)?;
        self.watch(at)
    }
}
