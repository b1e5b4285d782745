//! The prices of what a server can do, measured on this machine in some 100 ms: the time of a
//! system call, of a context switch, of a thread's start, of a page fault, of an allocation, of a
//! switch of stacks, of a miss of the cache.
//!
//! A price is the time of the call in one thread that finds its work ready: a message of 64 bytes
//! on a TCP connection over loopback, one descriptor of a set. Sending includes the way through the
//! kernel's network to the other socket. All of it runs on the server's core if the race has one.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;
use sys::clock::now_ns;
use sys::cpu::{affinity, set_affinity};
use sys::epoll::{Epoll, Events};
use sys::poll::{PollFd, poll};
use sys::ready::Interest;

/// Calls in one batch.
const BATCH: usize = 64;
/// Batches; the price is their median.
const BATCHES: usize = 25;
/// The length of a message, bytes.
const MESSAGE: usize = 64;
/// Memory that is touched to price page faults, bytes.
const PAGES: usize = 8 << 20;
/// Memory that no cache holds, bytes.
const COLD: usize = 64 << 20;
/// Numbers of four bytes in a line of the cache.
const LINE: usize = 16;

/// Prices in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The cheapest system call: the way into the kernel and back.
    pub entry_ns: f64,
    /// System calls that cost more, by name.
    pub calls: BTreeMap<String, f64>,
    /// A switch from one thread to another on the same core.
    pub switch_ns: f64,
    /// The start and end of a thread.
    pub thread_ns: f64,
    /// The start and end of a process with the memory of this one, until its parent has reaped it.
    #[serde(default)]
    pub process_ns: f64,
    /// A page fault that needs no disk.
    pub fault_ns: f64,
    /// An allocation of 64 bytes, and their release.
    #[serde(default)]
    pub allocation_ns: f64,
    /// A switch from one stack to another within a thread.
    #[serde(default)]
    pub stack_switch_ns: f64,
    /// A read that misses all caches.
    #[serde(default)]
    pub cache_miss_ns: f64,
}

/// System calls with one price: the first is measured, the others do the same work.
const ALIKE: [&[&str]; 6] = [
    &["sendto", "sendmsg", "send", "write", "writev"],
    &["recvfrom", "recvmsg", "recv", "read", "readv"],
    &["poll", "ppoll", "select", "pselect6"],
    &["epoll_wait", "epoll_pwait", "epoll_pwait2"],
    &["accept4", "accept"],
    &["clone", "fork", "vfork"],
];

impl Prices {
    /// Measures all prices, on core `core` if it is given.
    ///
    /// # Errors
    /// If a socket, a thread or a core cannot be had.
    pub fn measure(core: Option<usize>) -> Result<Prices> {
        let work = move || -> Result<Prices> {
            let cores = core.map_or_else(affinity, |core| Ok(vec![core]))?;
            // Threads that hand over to each other must share a core to switch.
            set_affinity(&cores[..1]).context("cannot stay on one core")?;
            let mut prices = Prices {
                entry_ns: batch(sys::process::parent),
                thread_ns: batch_of(8, || start(|| ()).is_ok_and(|it| it.join().is_ok())),
                process_ns: batch_of(2, || sys::process::fork_in_vain().is_ok()),
                fault_ns: fault()?,
                allocation_ns: batch(|| Box::new(std::hint::black_box([0_u8; MESSAGE]))),
                stack_switch_ns: stack_switch()?,
                cache_miss_ns: cache_miss(),
                ..Prices::default()
            };
            prices.sockets()?;
            prices.switch_ns = prices.switch();
            let (thread, process) = (prices.thread_ns, prices.process_ns);
            prices.put("clone3", thread);
            prices.put("clone", process);
            Ok(prices)
        };
        let measuring = start(work).context("no thread can measure prices")?;
        measuring.join().unwrap_or_else(|_| anyhow::bail!("a price panicked"))
    }

    /// The price of a system call.
    pub fn call(&self, name: &str) -> f64 {
        self.calls.get(name).copied().unwrap_or(self.entry_ns)
    }

    /// Sets the price of a call and of those that do the same work.
    fn put(&mut self, first: &'static str, price: f64) {
        let alike = ALIKE.iter().find(|names| names[0] == first).copied();
        let names = alike.into_iter().flatten().copied().chain([first]);
        self.calls.extend(names.map(|name| (name.to_string(), price)));
    }

    fn sockets(&mut self) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        // Nothing that could block waits for ever if the kernel does not deliver.
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut buffer = [0; MESSAGE];
        for _ in 0..BATCHES {
            sent.push(each(BATCH, || client.write_all(&buffer))?);
            received.push(each(BATCH, || server.read_exact(&mut buffer))?);
        }
        self.put("sendto", middle(sent));
        self.put("recvfrom", middle(received));
        client.write_all(&buffer)?;
        let epoll = Epoll::new()?;
        epoll.add(&server, Interest::READ, 0)?;
        let mut events = Events::with_capacity(8);
        self.put("epoll_wait", batch(|| epoll.wait(&mut events, None).is_ok()));
        self.put("epoll_ctl", batch(|| epoll.modify(&server, Interest::READ, 0).is_ok()));
        let mut set = [PollFd::new(server.as_fd(), true, false)];
        self.put("poll", batch(|| poll(&mut set, None).is_ok()));
        let (mut accepted, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let address = listener.local_addr()?;
            let connect = |_| TcpStream::connect(address);
            let clients: Vec<TcpStream> = (0..BATCH / 4).map(connect).collect::<Result<_, _>>()?;
            let mut servers = Vec::new();
            accepted.push(each(clients.len(), || {
                servers.push(listener.accept()?.0);
                Ok(())
            })?);
            closed.push(each(clients.len(), || {
                drop(servers.pop());
                Ok(())
            })?);
        }
        self.put("accept4", middle(accepted));
        self.put("close", middle(closed));
        Ok(())
    }

    /// Half a round trip between two threads on one core, without the calls that it takes.
    fn switch(&self) -> f64 {
        let (there, ping) = mpsc::sync_channel::<()>(0);
        let (back, pong) = mpsc::sync_channel::<()>(0);
        let Ok(other) = start(move || while ping.recv().is_ok() && back.send(()).is_ok() {}) else {
            return 0.0;
        };
        let trip = batch(|| there.send(()).is_ok() && pong.recv().is_ok());
        drop(there);
        let _ = other.join();
        (trip / 2.0 - 2.0 * self.entry_ns).max(0.0)
    }
}

/// The time of a page fault: memory touched for the first time, divided by the faults it took;
/// where the kernel gives large pages, they are fewer.
fn fault() -> Result<f64> {
    let before = faults(std::process::id())?;
    let start = now_ns();
    let mut memory = vec![0_u8; PAGES];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    let took = (now_ns() - start) as f64;
    let count = faults(std::process::id())?.saturating_sub(before);
    Ok(took / count.max(1) as f64)
}

/// Half of the way to a coroutine and back.
fn stack_switch() -> Result<f64> {
    let is_over = std::cell::Cell::new(false);
    let trip = sys::coroutine::scope(64 << 10, |scope| {
        let waits = |switch: &sys::coroutine::Switch<'_>| {
            while !is_over.get() {
                switch.wait();
            }
        };
        let place = scope.start(waits)?;
        let trip = batch(|| scope.resume(place).is_ok());
        is_over.set(true);
        let ended = scope.resume(place).is_ok();
        anyhow::Ok(if ended { trip } else { 0.0 })
    })?;
    Ok(trip / 2.0)
}

/// The time of a read whose place only the read before it tells, all over [`COLD`] bytes.
fn cache_miss() -> f64 {
    // Every line of the cache once, in an order that no prefetcher knows: a linear congruence with
    // a full period (Knuth, The Art of Computer Programming, volume 2, 3.2.1.2).
    let lines = COLD / size_of::<[u32; LINE]>();
    let next = |at: usize| (at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % lines) as u32;
    let memory: Vec<[u32; LINE]> = (0..lines).map(|at| [next(at); LINE]).collect();
    let mut at = 0;
    batch(|| at = memory[at as usize][0])
}

/// Page faults without a disk of a process and of its children that ended (proc_pid_stat(5)).
///
/// # Errors
/// If there is no such process.
pub fn faults(pid: u32) -> Result<u64> {
    let stat = meter::proc::stat(pid).ok_or(meter::ProcError::Gone { pid })?;
    Ok(stat[10] + stat[11])
}

fn batch<T>(act: impl FnMut() -> T) -> f64 {
    batch_of(BATCH, act)
}

/// The time of one `act`: the median over batches of `count`.
fn batch_of<T>(count: usize, mut act: impl FnMut() -> T) -> f64 {
    let one = |_| {
        let start = now_ns();
        for _ in 0..count {
            std::hint::black_box(act());
        }
        (now_ns() - start) as f64 / count as f64
    };
    middle((0..BATCHES).map(one).collect())
}

/// The time of one of `count` acts that can fail.
fn each(count: usize, mut act: impl FnMut() -> std::io::Result<()>) -> std::io::Result<f64> {
    let start = now_ns();
    for _ in 0..count {
        act()?;
    }
    Ok((now_ns() - start) as f64 / count as f64)
}

fn middle(times: Vec<f64>) -> f64 {
    stats::median(&times).unwrap_or(0.0)
}

fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().spawn(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_measured_and_a_send_costs_more_than_a_bare_call() {
        let prices = Prices::measure(None).expect("loopback and threads");
        let all = [prices.entry_ns, prices.switch_ns, prices.thread_ns, prices.fault_ns];
        let inner = [prices.allocation_ns, prices.stack_switch_ns, prices.cache_miss_ns];
        let each = |price: &f64| *price > 0.0 && *price < 1e7;
        assert!(all.iter().chain(&inner).all(each), "{prices:?}");
        assert!(prices.stack_switch_ns < prices.switch_ns, "{prices:?}");
        for names in ALIKE {
            assert!(names.iter().all(|name| prices.calls.contains_key(*name)), "{names:?}");
        }
        assert!(prices.call("sendto") > prices.call("getppid"), "{prices:?}");
        assert_eq!(prices.call("getppid"), prices.entry_ns);
    }
}
