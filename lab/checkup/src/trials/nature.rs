//! The nature of a server, as `/proc` and the kernel show it from outside: processes, threads, who
//! accepts, how they wait; and what a client sees of its sockets.
//!
//! A thread waits in a system call, which `/proc/PID/task/TID/syscall` numbers. A socket that
//! listens has an inode, and every process that holds it may accept. Idle connections show who
//! serves them: a thread more for each is a thread per connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use meter::machine::{CONNECTED, tcp_sockets};
use stats::words::{self, counted};

use super::Finding;
use crate::stand::{STARVED, Stand};

/// Connections that come together, and the time in which they are made; a SYN that is dropped is
/// sent again after a second (tcp(7)).
const BURST: usize = 64;
const PROMPT: Duration = Duration::from_millis(700);
/// Idle connections that show who serves them, and looks at how threads wait.
const IDLE: usize = 8;
const LOOKS: usize = 5;
/// Requests of a client with late acknowledgements, and a delay that only those explain: Linux
/// waits 40 ms.
const REQUESTS: usize = 12;
const DELAY: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(60)];

/// A way of waiting: the beginnings of the kernel's functions, and where names are hidden, the
/// numbers of the system calls, on x86-64 and on other machines.
type Wait = (&'static str, &'static [&'static str], [&'static [u32]; 2]);

/// The ways in which servers wait.
const WAITS: &[Wait] = &[
    ("epoll", &["ep_poll", "do_epoll"], [&[232, 281, 441], &[22, 441]]),
    ("io_uring", &["io_cqring", "io_uring"], [&[426], &[426]]),
    ("select", &["do_select"], [&[23, 270], &[72]]),
    ("poll or select", &["poll_schedule"], [&[], &[]]),
    ("poll", &["do_poll", "do_sys_poll"], [&[7, 271], &[73]]),
    ("a blocking accept", &["inet_csk_accept"], [&[43, 288], &[202, 242]]),
    ("a blocking receive", &["sk_wait", "wait_woken", "tcp_recv"], [&[0, 45], &[63, 207]]),
];
/// The numbers of this machine.
const NUMBERS: usize = if cfg!(target_arch = "x86_64") { 0 } else { 1 };

/// The processes of a server at one moment.
struct Anatomy {
    processes: usize,
    threads: usize,
    /// Ways of waiting with the number of threads.
    waits: BTreeMap<&'static str, usize>,
    /// The listening sockets, each with the processes that hold it.
    listeners: BTreeMap<u32, BTreeSet<u32>>,
    has_ring: bool,
    /// Listening sockets of one family.
    sharing: usize,
    /// Connections to the port, by process.
    serving: BTreeMap<u32, usize>,
}

/// How a thread waits.
fn wait_of(pid: u32, task: &str) -> Option<&'static str> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{task}/{name}")).ok();
    let number = read("syscall").and_then(|text| text.split(' ').next()?.parse::<u32>().ok());
    let called = number.and_then(|it| WAITS.iter().find(|way| way.2[NUMBERS].contains(&it)));
    let place = read("wchan").unwrap_or_default();
    let named = || WAITS.iter().find(|way| way.1.iter().any(|name| place.starts_with(name)));
    called.or_else(named).map(|way| way.0)
}

fn anatomy(stand: &Stand, peers: &BTreeSet<u32>) -> Anatomy {
    let queues = sys::netlink::listen_queues(stand.life.at.port()).unwrap_or_default();
    // One for each family is the usual pair.
    let family = |is_v6: bool| queues.iter().filter(|queue| queue.is_v6 == is_v6).count();
    let sharing = family(false).max(family(true));
    let listening: BTreeSet<u32> = queues.iter().map(|queue| queue.inode).collect();
    let pids = stand.life.pids();
    let mut anatomy = Anatomy {
        processes: pids.len(),
        threads: 0,
        waits: BTreeMap::new(),
        listeners: BTreeMap::new(),
        has_ring: false,
        sharing,
        serving: BTreeMap::new(),
    };
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            anatomy.threads += 1;
            if let Some(wait) = wait_of(pid, &task.file_name().to_string_lossy()) {
                *anatomy.waits.entry(wait).or_default() += 1;
            }
        }
        for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let link = fs::read_link(file.path()).unwrap_or_default();
            let link = link.to_string_lossy();
            anatomy.has_ring |= link.contains("io_uring");
            let Some(inode) = link.strip_prefix("socket:[") else { continue };
            let Ok(inode) = inode.trim_end_matches(']').parse::<u32>() else { continue };
            if listening.contains(&inode) {
                anatomy.listeners.entry(inode).or_default().insert(pid);
            } else if peers.contains(&inode) {
                *anatomy.serving.entry(pid).or_default() += 1;
            }
        }
    }
    anatomy
}

/// The inodes of the server's ends of its connections.
fn connections(at: SocketAddr) -> BTreeSet<u32> {
    let own = tcp_sockets(CONNECTED).filter(|it| it.0[0] == at.port() && it.1 > 0);
    own.map(|it| it.1).collect()
}

/// The limits of open descriptors of a process: the one in force, and the hard one.
pub(super) fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    let mut numbers = line.split_whitespace().skip(3).map(|it| it.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

pub(super) fn architecture(stand: &mut Stand) -> Result<Finding, String> {
    let before = anatomy(stand, &BTreeSet::new());
    let mut idle: Vec<_> = (0..IDLE).map_while(|_| stand.connect().ok()).collect();
    if stand.speech.stays {
        // A connection that has asked once is surely in the hands of its worker.
        idle.iter_mut().for_each(|client| drop(client.ask(&stand.speech, STARVED)));
    }
    thread::sleep(Duration::from_millis(200));
    let mut after = anatomy(stand, &connections(stand.life.at));
    for _ in 0..LOOKS {
        // A thread that is about to run waits in nothing.
        thread::sleep(Duration::from_millis(20));
        after.waits.extend(anatomy(stand, &BTreeSet::new()).waits);
    }
    let made = idle.len();
    drop(idle);
    let serves = match () {
        () if after.processes >= before.processes + made / 2 => "a process per connection",
        () if after.threads >= before.threads + made / 2 => "a thread per connection",
        () if after.processes > 1 && after.threads > after.processes => "processes with threads",
        () if after.processes > 1 => "processes",
        () if after.threads > 1 => "threads",
        () => "one thread",
    };
    let holders: BTreeSet<u32> = after.listeners.values().flatten().copied().collect();
    let accepts = match (after.sharing, holders.len()) {
        (_, 0) => "its listener cannot be seen".to_owned(),
        (0 | 1, 1) => "one process accepts".to_owned(),
        (0 | 1, many) => format!("{many} processes share a listener"),
        (sockets, _) => format!("{sockets} listeners share the port (SO_REUSEPORT)"),
    };
    let is_handed = after.serving.keys().any(|pid| !holders.contains(pid)) && !holders.is_empty();
    let mut waits: Vec<&str> = after.waits.keys().copied().collect();
    if after.has_ring && !waits.contains(&"io_uring") {
        waits.push("io_uring");
    }
    let waits = if waits.is_empty() { "unknown".to_owned() } else { waits.join(", ") };
    let (processes, threads) = (before.processes as u64, before.threads as u64);
    let limit = stand.life.pids().first().and_then(|pid| descriptors(*pid));
    let evidence = format!(
        "{}, {}; {serves}; {accepts}{}; waits in {waits}; at most {} descriptors",
        counted(processes, "process").replace("processs", "processes"),
        counted(threads, "thread"),
        if is_handed { ", and hands connections over" } else { "" },
        limit.map_or("an unknown number of".to_owned(), |it| words::grouped(it.0 as f64)),
    );
    let finding = Finding::good(evidence).measured("processes", processes as f64);
    Ok(finding.measured("threads", threads as f64))
}

pub(super) fn backlog(stand: &mut Stand) -> Result<Finding, String> {
    let queues = sys::netlink::listen_queues(stand.life.at.port()).unwrap_or_default();
    let backlog = queues.iter().map(|queue| queue.backlog).min();
    let said = backlog.map_or(String::new(), |it| format!(", the backlog is {it}"));
    let begin = |_| sys::socket::connect_nonblocking(stand.life.at).ok();
    let burst: Vec<_> = (0..BURST).filter_map(begin).collect();
    let end = Instant::now() + PROMPT;
    let is_made = |fd: &&std::os::fd::OwnedFd| sys::socket::peer_addr(fd.as_fd()).is_ok();
    let mut made = 0;
    while made < burst.len() && Instant::now() < end {
        made = burst.iter().filter(is_made).count();
        thread::sleep(Duration::from_millis(10));
    }
    for fd in &burst {
        let _ = sys::socket::set_linger_reset(fd.as_fd());
    }
    let late = burst.len() - made;
    let evidence = format!("{made} of {BURST} connections that come at once are made{said}");
    let finding = match late {
        0 => Finding::good(evidence),
        _ => Finding::fault(
            format!("{evidence}; {late} wait a second or more"),
            "the accept queue is full, so the kernel drops handshakes (listen(2))",
        ),
    };
    Ok(finding.measured("late", late as f64).measured("backlog", backlog.map_or(-1.0, f64::from)))
}

pub(super) fn keep_alive(stand: &mut Stand) -> Result<Finding, String> {
    Ok(match stand.speech.stays {
        true => Finding::good("a connection takes further requests"),
        false => Finding::attention(
            "the server closes the connection after its reply",
            "each request pays for a connection (RFC 9112 section 9.3: persistent by default)",
        ),
    })
}

/// The median time of requests whose replies are acknowledged at once, or late.
fn paced(stand: &Stand, quick: bool) -> Result<Duration, String> {
    let broken = |why: std::io::Error| format!("no reply: {why}");
    let mut client = stand.connect().map_err(broken)?;
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        if !stand.speech.stays {
            client = stand.connect().map_err(broken)?;
        }
        let begun = Instant::now();
        let request = client.requests(&stand.speech, 1);
        client.send(&request).map_err(broken)?;
        // Sending makes acknowledgements late again.
        sys::socket::SockRef::from(&client.stream.socket)
            .set_tcp_quickack(quick)
            .map_err(broken)?;
        client.reply(&stand.speech, STARVED).map_err(broken)?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times[REQUESTS / 2])
}

pub(super) fn nodelay(stand: &mut Stand) -> Result<Finding, String> {
    let (prompt, late) = (paced(stand, true)?, paced(stand, false)?);
    let evidence = format!(
        "a reply takes {}, and {} if the client acknowledges late",
        words::span(prompt),
        words::span(late)
    );
    let more = late.saturating_sub(prompt);
    let finding = match (DELAY[0]..DELAY[1]).contains(&more) {
        true => Finding::fault(
            evidence,
            "a reply in two writes waits for an acknowledgement (Nagle, RFC 9293 section 3.7.4)",
        ),
        false => Finding::good(evidence),
    };
    Ok(finding.measured("late_ack_ns", late.as_nanos() as f64))
}
