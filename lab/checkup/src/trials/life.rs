//! Trials of ends: descriptors that run out, leftovers of clients, SIGTERM, SIGKILL.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use stats::words;

use super::Finding;
use crate::acts::alongside;
use crate::stand::{STARVED, Stand, resets};

pub(super) const SPINS: &str =
    "accept(2) fails and the listener stays ready: the loop spins and starves others";
/// The share of a core above which it does, in each of these looks.
pub(super) const SPIN: f64 = 0.5;
pub(super) const LOOKS: usize = 4;
/// Descriptors that a server may open above those that it has, and connections beyond them.
const SPARE: u64 = 8;
const BEYOND: usize = 64;
/// Clients of a round of [`leaks`]; descriptors whose growth is none; memory of each that is (B).
const VISITS: usize = 150;
const NOISE: u64 = 8;
const KEPT: u64 = 4096;
/// A request sent at least this long before a signal was in the server's hands.
const BEFORE: Duration = Duration::from_millis(5);

/// Lowers the limit of descriptors of each process; returns the limits that it had.
fn limited(stand: &Stand) -> Vec<(Pid, Rlimit)> {
    let pids = stand.life.pids().into_iter();
    let lower = |pid: u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let taken = open.flatten().filter_map(|it| it.file_name().to_str()?.parse::<u64>().ok());
        let taken: BTreeSet<u64> = taken.collect();
        // A new descriptor takes the lowest free number.
        let current = (0..).filter(|number| !taken.contains(number)).nth(SPARE as usize);
        let maximum = Some(super::nature::descriptors(pid)?.1);
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let old = prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum }).ok()?;
        Some((pid, old))
    };
    pids.filter_map(lower).collect()
}

pub(super) fn descriptors(stand: &mut Stand) -> Result<Finding, String> {
    let old = limited(stand);
    if old.is_empty() {
        return Err("the limits of its processes cannot be set".to_owned());
    }
    let crowd: Vec<_> = (0..BEYOND * old.len().min(8)).map_while(|_| stand.socket().ok()).collect();
    thread::sleep(Duration::from_millis(300));
    let busy = stand.settled(LOOKS, stand.span(1.0), SPIN);
    for socket in &crowd {
        let _ = sys::socket::set_linger_reset(socket.as_fd());
    }
    let made = crowd.len();
    drop(crowd);
    for (pid, limit) in old {
        // It may have ended.
        let _ = prlimit(Some(pid), Resource::Nofile, limit);
    }
    if let Some(how) = stand.life.ended() {
        return Ok(Finding::fault(
            format!("{made} connections at a limit of {SPARE} more descriptors: {how}"),
            "EMFILE is an event, not an end: clients of all connections are lost",
        ));
    }
    let share = busy.ok_or("its CPU time cannot be read")?;
    let evidence = format!(
        "{made} connections at a limit of {SPARE} more descriptors: busy for {} of a core",
        words::percent(share)
    );
    Ok(match share > SPIN {
        true => Finding::fault(evidence, SPINS),
        false => Finding::good(evidence),
    }
    .measured("busy", share))
}

/// Clients that ask and leave, that reset, and that leave in mid-request.
fn visits(stand: &Stand) -> Result<(), String> {
    for number in 0..VISITS {
        let mut client =
            stand.connect().map_err(|why| format!("a client cannot connect: {why}"))?;
        let request = client.requests(&stand.speech, 1);
        // A server that has closed takes nothing.
        let _ = match number % 3 {
            0 => {
                client.send(&request).and_then(|()| client.reply(&stand.speech, STARVED)).map(drop)
            }
            1 => client.send(&request).map(|()| resets(&client)),
            _ => client.send(&request[..request.len() / 2]),
        };
    }
    Ok(())
}

pub(super) fn leaks(stand: &mut Stand) -> Result<Finding, String> {
    let unseen = || "its descriptors cannot be read".to_owned();
    visits(stand)?;
    // Caches settle before the first count, and leftovers are gone before the next.
    let settle = |stand: &Stand, most: u64| -> Result<(u64, u64), String> {
        let end = Instant::now() + STARVED;
        loop {
            thread::sleep(Duration::from_millis(100));
            let holdings = stand.holdings().ok_or_else(unseen)?;
            if holdings.0 <= most || Instant::now() > end {
                return Ok(holdings);
            }
        }
    };
    let first = settle(stand, 0)?;
    visits(stand)?;
    let second = settle(stand, first.0 + NOISE)?;
    visits(stand)?;
    let third = settle(stand, second.0 + NOISE)?;
    let grown = |old: u64, new: u64| new.saturating_sub(old);
    let descriptors = [grown(first.0, second.0), grown(second.0, third.0)];
    let memory = [grown(first.1, second.1), grown(second.1, third.1)];
    let clients = 2 * VISITS;
    if descriptors.iter().all(|it| *it > NOISE) {
        let all: u64 = descriptors.iter().sum();
        let evidence = format!("{clients} clients left {all} open descriptors behind");
        return Ok(Finding::fault(evidence, "a leak of descriptors"));
    }
    let least = (KEPT * VISITS as u64) >> 10;
    if memory.iter().all(|it| *it > least) {
        let all = words::size(memory.iter().sum::<u64>() as f64);
        let evidence = format!("memory grew by {all} with {clients} clients, in both halves alike");
        return Ok(Finding::attention(evidence, "perhaps a leak of memory"));
    }
    let finding = Finding::good(format!("{clients} clients left nothing behind"));
    Ok(finding.measured("descriptors", third.0 as f64).measured("memory_kb", third.1 as f64))
}

/// The requests of one client until the server ends.
#[derive(Default)]
struct Asked {
    answered: u64,
    /// The last one that got no reply.
    lost_at: Option<Instant>,
}

/// Asks until the server closes or `is_over`.
fn asking(stand: &Stand, is_over: &AtomicBool) -> Asked {
    let mut asked = Asked::default();
    let mut client = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(link) = client.as_mut() else {
            match stand.connect() {
                Ok(fresh) => client = Some(fresh),
                Err(_) => break,
            }
            continue;
        };
        let sent = Instant::now();
        let Ok(reply) = link.ask(&stand.speech, STARVED) else {
            asked.lost_at = Some(sent);
            break;
        };
        asked.answered += 1;
        if reply.closes || !stand.speech.stays {
            client = None;
        }
    }
    asked
}

pub(super) fn sigterm(stand: &mut Stand) -> Result<Finding, String> {
    const CLIENTS: usize = 8;
    let place = &*stand;
    let ask = |_, is_over: &AtomicBool| asking(place, is_over);
    let (signalled, clients) = alongside(CLIENTS, ask, || {
        thread::sleep(place.span(1.0));
        let signalled = Instant::now();
        place.life.signal(Signal::TERM);
        // A server that drains answers what it has, and a client that goes on keeps it alive.
        thread::sleep(Duration::from_millis(300));
        signalled
    });
    let ended = stand.life.wait();
    let answered: u64 = clients.iter().map(|it| it.answered).sum();
    let lost: Vec<Instant> = clients.iter().filter_map(|it| it.lost_at).collect();
    let old =
        lost.iter().filter(|sent| signalled.saturating_duration_since(**sent) >= BEFORE).count();
    let young = lost.iter().filter(|sent| **sent < signalled).count() - old;
    let after = match &ended {
        Some((how, time)) => format!("it ended after {} ({how})", words::span(*time)),
        None => {
            let left = stand.life.pids().len();
            format!("it still ran 10 s later with {left} processes")
        }
    };
    stand.life.bury();
    stand.life.start()?;
    let again = words::span(stand.life.boot);
    let evidence = format!(
        "{old} of {answered} requests were sent before SIGTERM and never answered, {young} more \
         within {} of it; {after}; ready again in {again}",
        words::span(BEFORE)
    );
    Ok(match ended {
        _ if old > 0 => Finding::fault(evidence, "lost answers: finish requests, then end"),
        None => Finding::attention(evidence, "SIGTERM does not end it in 10 s: a manager kills it"),
        Some(_) if young > 0 => {
            Finding::attention(evidence, "requests that had just come were lost")
        }
        Some(_) => Finding::good(evidence),
    }
    .measured("lost", old as f64)
    .measured("restart_ns", stand.life.boot.as_nanos() as f64))
}

/// The port remembers connections that the server has closed (TIME_WAIT).
pub(super) fn kill(stand: &mut Stand) -> Result<Finding, String> {
    let crowd: Vec<_> = (0..16).map_while(|_| stand.connect().ok()).collect();
    stand.life.signal(Signal::KILL);
    stand.life.wait();
    drop(crowd);
    stand.life.bury();
    let begun = Instant::now();
    if let Err(why) = stand.life.start() {
        return Ok(Finding::fault(
            format!("after SIGKILL it does not start again: {why}"),
            "a restart must find its port: set SO_REUSEADDR",
        ));
    }
    let evidence = format!("after SIGKILL it listens again in {}", words::span(begun.elapsed()));
    Ok(Finding::good(evidence).measured("restart_ns", begun.elapsed().as_nanos() as f64))
}
