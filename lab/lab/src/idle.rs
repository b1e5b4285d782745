//! Idle connections: opened by the laboratory and held through the trial without traffic.
//!
//! Most connections of a real server are idle. Holding them here keeps the generator's core free
//! for the busy ones, and works with any server. One pair of addresses has only some 28,000 ports,
//! so beyond `PER_ADDRESS` connections the laboratory connects to the next server address of
//! 127.0.0.0/8. A server that listens on 127.0.0.1 alone refuses those, and the count tells how
//! many succeeded.

use crate::far::Far;
use crate::observations::Idle;
use meter::Memory;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of connections to one address of the server.
const PER_ADDRESS: u32 = 20_000;
/// The time limit for opening all of them.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time limit for one connection: a full accept queue answers after a second at the earliest.
const CONNECT: Duration = Duration::from_secs(3);
/// After a handshake that took this long, and so was repeated, connections have a gap between them.
const REPEATED: Duration = Duration::from_millis(500);
const GAP_AFTER: Duration = Duration::from_millis(5);
const GAP_MAX: Duration = Duration::from_millis(20);
/// The number of descriptors for everything else.
const RESERVE: u64 = 128;

/// Open connections; dropping them closes them.
pub struct IdleSockets {
    /// No connection begins later than this after the first.
    patience: Duration,
    /// The generator, whose network the connections come from.
    far: Option<Arc<Far>>,
    streams: Vec<TcpStream>,
    seen: Idle,
    /// The first ones, whose cost is not measured.
    first: u32,
    kernel_before_kb: Option<u64>,
}

impl Default for IdleSockets {
    fn default() -> IdleSockets {
        IdleSockets::within(PATIENCE)
    }
}

impl IdleSockets {
    /// Opens up to `wanted` connections to the server `pid` at `address`, from the generator's
    /// network.
    pub fn open(address: &str, pid: u32, wanted: u32, far: Option<&Arc<Far>>) -> IdleSockets {
        let mut held = IdleSockets::default().in_network_of(far);
        held.grow(address, pid, wanted);
        held
    }

    /// None yet; no connection begins later than `patience` after the first.
    pub fn within(patience: Duration) -> IdleSockets {
        let (streams, seen) = (Vec::new(), Idle::default());
        IdleSockets { patience, far: None, streams, seen, first: 0, kernel_before_kb: None }
    }

    /// The same from the network of a generator.
    #[must_use]
    pub fn in_network_of(self, far: Option<&Arc<Far>>) -> IdleSockets {
        IdleSockets { far: far.cloned(), ..self }
    }

    /// Opens more, up to `wanted` in all. [`IdleSockets::weigh`] then measures the cost of these
    /// alone: the first ones also pay for memory that a server touches only once.
    pub fn grow(&mut self, address: &str, pid: u32, wanted: u32) {
        self.first = self.seen.opened;
        self.seen = Idle { wanted, before_kb: tree_kb(pid), ..Idle::default() };
        self.kernel_before_kb = tcp_kb();
        let opened = address
            .parse::<SocketAddr>()
            .map_err(|_| format!("expected HOST:PORT with a numeric host, found {address}"))
            .and_then(|address| self.fill(address, wanted));
        self.seen.why = opened.err().unwrap_or_default();
        self.seen.opened = self.streams.len() as u32;
    }

    /// The observations so far.
    pub fn seen(&self) -> &Idle {
        &self.seen
    }

    /// Opens connections, in the generator's network if that is a separate one of this machine.
    fn fill(&mut self, address: SocketAddr, wanted: u32) -> Result<(), String> {
        let (patience, streams) = (self.patience, &mut self.streams);
        let Some(nest) = self.far.as_ref().and_then(|far| far.nest.as_ref()) else {
            return fill(address, wanted, patience, streams);
        };
        let work = || {
            sys::netlink::enter(nest.as_fd()).map_err(|why| why.to_string())?;
            fill(address, wanted, patience, streams)
        };
        let ended = std::thread::scope(|threads| threads.spawn(work).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Sends `words` once on each connection and waits for a reply, so that each session holds the
    /// memory that it keeps after a request. Bytes after the beginning of a reply stay in the
    /// kernel.
    ///
    /// # Errors
    /// The first connection without an answer, as text.
    pub fn speak(&mut self, words: &[u8]) -> Result<(), String> {
        match self.ask(words, PATIENCE) {
            None => Ok(()),
            Some((at, why)) => Err(format!(
                "idle connection {} was not answered: {why}; is the server allowed as many open \
                 files? See ulimit -n",
                at + 1
            )),
        }
    }

    /// Sends `words` once on each connection and counts those that are answered within `patience`,
    /// the time for all.
    pub fn count_answers(&mut self, words: &[u8], patience: Duration) {
        self.ask(words, patience);
    }

    /// The first connection without an answer, if any.
    fn ask(&mut self, words: &[u8], patience: Duration) -> Option<(usize, std::io::Error)> {
        let mut first = None;
        let mut answered = 0;
        let asked: Vec<std::io::Result<()>> =
            self.streams.iter_mut().map(|stream| stream.write_all(words)).collect();
        let end = Instant::now() + patience;
        for (at, (stream, asked)) in self.streams.iter_mut().zip(asked).enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            match asked.and_then(|()| reply(stream, left)) {
                Ok(1..) => answered += 1,
                Ok(0) => {
                    first.get_or_insert((at, ErrorKind::UnexpectedEof.into()));
                }
                Err(why) => {
                    first.get_or_insert((at, why));
                }
            }
        }
        self.seen.answered = Some(answered);
        first
    }

    /// Measures the connections' cost once the server has settled. Call it before the load begins.
    pub fn weigh(&mut self, pid: u32) {
        self.seen.after_kb = settled_kb(pid);
        let kernel = tcp_kb().zip(self.kernel_before_kb);
        self.seen.kernel_kb = kernel.map(|(now, then)| now as i64 - then as i64);
        let gained = self.seen.after_kb.zip(self.seen.before_kb);
        let weighed = self.seen.opened.saturating_sub(self.first);
        self.seen.bytes_each = gained
            .filter(|_| self.seen.answered.unwrap_or(self.seen.opened) == self.seen.opened)
            .filter(|_| weighed > 0)
            .map(|(now, then)| (now as f64 - then as f64) * 1024.0 / f64::from(weighed))
            // A decrease is noise of the allocator, not a negative cost.
            .map(|bytes| bytes.max(0.0));
    }

    /// Counts the connections that are still open, and closes them.
    pub fn close(mut self) -> Idle {
        self.seen.kept = self.streams.iter().filter(|stream| is_open(stream)).count() as u32;
        self.seen
    }
}

/// Opens connections at the server's own pace: where its accept queue overflows, the kernel drops
/// the handshake and repeats it after a second (listen(2), tcp(7)), so from then on the next one
/// waits a moment for the server to accept.
fn fill(
    address: SocketAddr,
    wanted: u32,
    patience: Duration,
    streams: &mut Vec<TcpStream>,
) -> Result<(), String> {
    allow(u64::from(wanted))?;
    let begun = Instant::now();
    let mut gap = Duration::ZERO;
    for at in streams.len() as u32..wanted {
        if begun.elapsed() > patience {
            return Err(format!(
                "{at} of {wanted} were open after {:.1} s; its accept queue is short",
                patience.as_secs_f64()
            ));
        }
        let address = nth_address(address, at / PER_ADDRESS);
        if !gap.is_zero() {
            std::thread::sleep(gap);
        }
        let asked = Instant::now();
        let stream = TcpStream::connect_timeout(&address, CONNECT)
            .map_err(|why| format!("connection {} to {address}: {why}", at + 1))?;
        if asked.elapsed() > REPEATED {
            gap = (2 * gap).clamp(GAP_AFTER, GAP_MAX);
        }
        stream.set_nonblocking(true).map_err(|why| why.to_string())?;
        streams.push(stream);
    }
    Ok(())
}

/// Waits for the beginning of a reply on a non-blocking connection. A reply that is there needs no
/// time, and the kernel rounds a short wait up to its tick, which many connections add up.
fn reply(stream: &mut TcpStream, patience: Duration) -> std::io::Result<usize> {
    if patience.is_zero() {
        return stream.read(&mut [0; 4096]);
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(patience))?;
    let found = stream.read(&mut [0; 4096]);
    stream.set_nonblocking(true)?;
    found
}

/// The server's address for the `nth` batch: 127.0.0.1, 127.0.0.2, …
fn nth_address(address: SocketAddr, nth: u32) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_loopback() => {
            let ip = Ipv4Addr::from(u32::from(*v4.ip()) + nth);
            SocketAddr::from((ip, v4.port()))
        }
        other => other,
    }
}

/// Raises the limit of open files as far as allowed.
fn allow(wanted: u64) -> Result<(), String> {
    let needed = wanted + RESERVE;
    let most = sys::limits::raise_open_files(needed)
        .map_err(|why| format!("cannot raise the limit of open files: {why}"))?;
    if most < needed {
        return Err(format!(
            "{wanted} connections need {needed} open files, {most} are allowed: see ulimit -Hn"
        ));
    }
    Ok(())
}

/// A closed peer yields an end of input; a silent one has nothing to read.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.peek(&mut byte), Err(why) if why.kind() == ErrorKind::WouldBlock)
}

fn tree_kb(pid: u32) -> Option<u64> {
    let memory = Memory::read(pid).ok()?;
    Some(memory.pss_kb.unwrap_or(memory.rss_kb))
}

/// The memory of the tree once two readings agree to a percent, or after half a second.
fn settled_kb(pid: u32) -> Option<u64> {
    let mut last = tree_kb(pid)?;
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(50));
        let now = tree_kb(pid)?;
        if now.abs_diff(last) * 100 <= last {
            return Some(now);
        }
        last = now;
    }
    Some(last)
}

/// Kernel memory of all TCP sockets on the machine (`/proc/net/sockstat`, in pages of 4 kB).
fn tcp_kb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    words.nth(1)?.parse::<u64>().ok().map(|pages| pages * 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn connections_are_held_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let mut held = IdleSockets::open(&address, std::process::id(), 20, None);
        let mut peers: Vec<TcpStream> =
            (0..20).map(|_| listener.accept().expect("they are queued").0).collect();
        held.weigh(std::process::id());
        peers.truncate(15);
        let end = Instant::now() + Duration::from_secs(5);
        while held.streams.iter().filter(|it| is_open(it)).count() > 15 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = held.close();
        assert_eq!((seen.opened, seen.kept, seen.why.as_str()), (20, 15, ""), "{seen:?}");
        assert!(seen.bytes_each.is_some_and(|bytes| bytes >= 0.0), "{seen:?}");
    }

    #[test]
    fn a_full_accept_queue_ends_the_opening_in_time() {
        // Nobody accepts: the queue of the listener takes a few connections.
        let socket = short_listener();
        let address = socket.local_addr().expect("it is bound").to_string();
        let begun = Instant::now();
        let patience = Duration::from_millis(100);
        let mut held = IdleSockets::within(patience);
        held.grow(&address, std::process::id(), 100);
        let seen = held.close();
        assert!(seen.opened < 100 && !seen.why.is_empty(), "{seen:?}");
        assert!(begun.elapsed() < CONNECT + Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    /// A listener with a queue for one connection.
    fn short_listener() -> TcpListener {
        use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        bind(&socket, &any).expect("a free port");
        listen(&socket, 1).expect("it listens");
        TcpListener::from(socket)
    }

    #[test]
    fn each_is_answered_before_it_falls_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = std::thread::spawn(move || {
            let mut peers: Vec<TcpStream> =
                (0..5).map(|_| listener.accept().expect("they come").0).collect();
            for peer in &mut peers[..4] {
                peer.read_exact(&mut [0; 3]).expect("it asks");
                peer.write_all(b"well").expect("it listens");
            }
        });
        let mut held = IdleSockets::open(&address, std::process::id(), 5, None);
        let why = held.speak(b"ho\n").expect_err("the fifth is not answered");
        assert!(why.contains("idle connection 5"), "{why}");
        server.join().expect("it ends");
    }

    #[test]
    fn nobody_there_is_a_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let seen = IdleSockets::open(&address, std::process::id(), 3, None).close();
        assert_eq!((seen.opened, seen.kept), (0, 0));
        assert!(seen.why.contains("connection 1 to"), "{seen:?}");
        assert!(!IdleSockets::open("nowhere", 1, 1, None).close().why.is_empty());
    }

    #[test]
    fn addresses_go_on_where_ports_end() {
        let one: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        assert_eq!(nth_address(one, 2).to_string(), "127.0.0.3:80");
        let other: SocketAddr = "10.0.0.1:80".parse().expect("an address");
        assert_eq!(nth_address(other, 2), other);
    }
}
