//! Clients that disturb: slow, silent, gone, greedy or many. Healthy clients next to them are the
//! measure.

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stats::words;

use super::Finding;
use super::life::{LOOKS, SPIN, SPINS};
use crate::acts::alongside;
use crate::client::TrialClient;
use crate::speech::Kind;
use crate::stand::{Health, STARVED, Stand, resets as set_reset};

/// Time before healthy clients come, so that the disturbance has taken hold.
const SETTLED: Duration = Duration::from_millis(300);
/// Bytes of a request or body without an end, and the growth of memory that says that all of it is
/// kept (kB).
const ENDLESS: usize = 16 << 20;
const PART: usize = 64 << 10;
const KEPT_KB: u64 = 12 << 10;
/// Clients that wait this much longer than usual, and at least so long, are an attention.
const SLOWER: u64 = 20;
const SLOW: Duration = Duration::from_millis(200);
/// The receive buffer of a client that does not read (bytes), and the requests that it sends.
const NARROW: usize = 4096;
const UNREAD: usize = 64 << 10;
/// Streams that each server of HTTP/2 should allow at once (RFC 9113 section 6.5.2).
const STREAMS: usize = 100;

const STARVES: &str = "a client that does nothing wrong is starved";

/// The judgement on a disturbance by the waiting of healthy clients.
pub(super) fn judged(what: &str, calm: &Health, health: &Health) -> Finding {
    let time = |ns: u64| words::time(ns as f64);
    let waits = format!(
        "{what}: healthy clients have a p99 of {}, {} without them",
        time(health.p99_ns),
        time(calm.p99_ns)
    );
    let finding = if health.starved > 0 {
        let (starved, asked) = (health.starved, health.asked);
        let evidence = format!(
            "{what}: {starved} of {asked} healthy requests get no reply within {}: {}",
            words::span(STARVED),
            health.example
        );
        Finding::fault(evidence.trim_end_matches([':', ' ']), STARVES)
    } else if health.p99_ns > (SLOWER * calm.p99_ns).max(SLOW.as_nanos() as u64) {
        Finding::attention(waits, "healthy clients wait much longer than without them")
    } else {
        Finding::good(waits)
    };
    finding
        .measured("healthy_p99_ns", health.p99_ns as f64)
        .measured("calm_p99_ns", calm.p99_ns as f64)
}

/// Measures healthy clients while connections made by `open` are held.
fn held(
    stand: &mut Stand,
    what: &str,
    count: usize,
    open: impl Fn(&Stand) -> std::io::Result<TrialClient>,
) -> Result<Finding, String> {
    let calm = stand.calm()?;
    let crowd: Vec<TrialClient> = (0..count).map_while(|_| open(stand).ok()).collect();
    if crowd.is_empty() {
        return Err("no client can connect".to_owned());
    }
    thread::sleep(SETTLED);
    // Work that a server still does for them would be an overload and no disturbance.
    let _ = stand.settled(20, SETTLED / 3, 0.3);
    let health = stand.health()?;
    crowd.iter().for_each(set_reset);
    Ok(judged(what, &calm, &health))
}

pub(super) fn half(stand: &mut Stand) -> Result<Finding, String> {
    held(stand, "64 clients stop in mid-request", 64, |stand| {
        let mut client = stand.connect()?;
        let request = client.requests(&stand.speech, 1);
        client.send(&request[..request.len() / 2]).map(|()| client)
    })
}

pub(super) fn silent(stand: &mut Stand) -> Result<Finding, String> {
    held(stand, "64 clients say nothing", 64, Stand::connect)
}

/// Each sends requests and reads none of the replies.
pub(super) fn slow(stand: &mut Stand) -> Result<Finding, String> {
    held(stand, "16 clients do not read", 16, |stand| {
        let mut client = stand.connect()?;
        let socket = &client.stream.socket;
        sys::socket::SockRef::from(socket).set_recv_buffer_size(NARROW)?;
        socket.set_write_timeout(Some(Duration::from_millis(20)))?;
        // More streams at once than a server of HTTP/2 allows would be refused.
        let most = if stand.speech.kind == Kind::Http2 { STREAMS } else { UNREAD };
        let count = UNREAD / stand.speech.request.len().max(1);
        let requests = client.requests(&stand.speech, count.min(most));
        // A server that does not read either leaves a part unsent.
        let _ = client.send(&requests);
        Ok(client)
    })
}

/// A byte at a time, each by itself; in the end each has its reply.
pub(super) fn bytes(stand: &mut Stand) -> Result<Finding, String> {
    const CLIENTS: usize = 8;
    let calm = stand.calm()?;
    let place = &*stand;
    let slow = |_, _: &AtomicBool| -> std::io::Result<()> {
        let mut client = place.connect()?;
        let request = client.requests(&place.speech, 1);
        let gap = place.span(1.5) / (request.len() as u32).max(1);
        for byte in request.chunks(1) {
            client.send(byte)?;
            thread::sleep(gap.min(Duration::from_millis(20)));
        }
        client.reply(&place.speech, STARVED).map(drop)
    };
    let (health, told) = alongside(CLIENTS, slow, || place.health());
    let answered = told.iter().filter(|it| it.is_ok()).count();
    let health = health?;
    let finding = judged("8 clients send a byte at a time", &calm, &health);
    if answered < CLIENTS && health.starved == 0 {
        let evidence = format!("{answered} of {CLIENTS} requests that came in bytes were answered");
        return Ok(Finding::fault(evidence, "TCP is a stream: a request may come in any pieces"));
    }
    Ok(finding)
}

/// Requests, then a reset while the reply is under way.
pub(super) fn resets(stand: &mut Stand) -> Result<Finding, String> {
    let calm = stand.calm()?;
    let place = &*stand;
    let vanish = |_, is_over: &AtomicBool| {
        let mut made = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            let Ok(mut client) = place.connect() else { continue };
            // Some leave before their request, some in the middle, some before the reply.
            let request = client.requests(&place.speech, 1);
            let part = [0, request.len() / 2, request.len()][made as usize % 3];
            let _ = client.send(&request[..part]);
            set_reset(&client);
            made += 1;
            thread::sleep(Duration::from_millis(5));
        }
        made
    };
    let (health, made) = alongside(1, vanish, || {
        thread::sleep(SETTLED / 3);
        place.health()
    });
    Ok(judged(&format!("{} clients reset their connections", made[0]), &calm, &health?))
}

pub(super) fn pipelining(stand: &mut Stand) -> Result<Finding, String> {
    const COUNT: usize = 50;
    if !stand.speech.stays {
        return Err("the server closes after each reply".to_owned());
    }
    let broken = |why: std::io::Error| format!("a client cannot connect: {why}");
    let mut client = stand.connect().map_err(broken)?;
    // A server that closes early refuses the rest.
    let requests = client.requests(&stand.speech, COUNT);
    let _ = client.send(&requests);
    let (mut replies, mut announced) = (0, false);
    while replies < COUNT && !announced {
        let Ok(reply) = client.reply(&stand.speech, STARVED) else { break };
        announced = reply.closes;
        replies += 1;
    }
    let evidence = format!("{replies} replies to {COUNT} requests in one write");
    Ok(match (replies == COUNT, announced) {
        (true, _) => Finding::good(evidence),
        (false, true) => {
            Finding::attention(evidence, "the server announced the end before the rest")
        }
        (false, false) if stand.speech.kind == Kind::Http => {
            Finding::fault(evidence, "RFC 9112 section 9.3.2: each gets a reply, in order")
        }
        (false, false) => Finding::fault(evidence, "lost answers: each request gets a reply"),
    })
}

/// Connections up to the server's limit of descriptors, or to ours.
pub(super) fn flood(stand: &mut Stand) -> Result<Finding, String> {
    const MOST: usize = 2000;
    let limit =
        stand.life.pids().first().and_then(|pid| super::nature::descriptors(*pid)).map(|it| it.0);
    let wanted = limit.map_or(MOST, |limit| MOST.min(limit as usize + 64));
    let own = sys::limits::raise_open_files(wanted as u64 + 256).unwrap_or(1024) as usize;
    let wanted = wanted.min(own.saturating_sub(256));
    let calm = if stand.speech.kind == Kind::Plain { None } else { Some(stand.calm()?) };
    let begin = |_| {
        // The accept queue is short on many servers; this trial is about descriptors.
        thread::sleep(Duration::from_micros(500));
        sys::socket::connect_nonblocking(stand.life.at).ok()
    };
    let crowd: Vec<OwnedFd> = (0..wanted).map_while(begin).collect();
    // A handshake that was dropped is made again after a second.
    thread::sleep(Duration::from_millis(1200));
    let made = crowd.iter().filter(|fd| sys::socket::peer_addr(fd.as_fd()).is_ok()).count();
    let busy = stand.settled(LOOKS, Duration::from_millis(500), SPIN);
    let what = format!("{made} silent connections");
    let health = calm.map(|calm| stand.health().map(|health| (calm, health))).transpose()?;
    for fd in &crowd {
        let _ = sys::socket::set_linger_reset(fd.as_fd());
    }
    drop(crowd);
    if let Some(share) = busy.filter(|share| *share > SPIN) {
        let evidence =
            format!("{what}: the server is busy for {} of a core", words::percent(share));
        return Ok(Finding::fault(evidence, SPINS));
    }
    let is_full = limit.is_some_and(|limit| made as u64 + 16 >= limit);
    Ok(match health {
        None => Finding::good(what),
        // A server without a descriptor can serve nobody new.
        Some((_, health)) if is_full && health.starved > 0 => {
            let evidence = format!("{what}, its limit: further clients get no reply");
            Finding::attention(evidence, "one client can take all descriptors")
        }
        Some((calm, health)) => judged(&what, &calm, &health),
    }
    .measured("connections", made as f64))
}

/// Sends a head, or a line, that does not end.
pub(super) fn endless(stand: &mut Stand) -> Result<Finding, String> {
    let (begin, part, what) = match stand.speech.kind {
        Kind::Http => {
            let head = stand.speech.http_request("GET", "X-Long: ");
            (head[..head.len() - 2].to_vec(), vec![b'a'; PART], "a head")
        }
        Kind::Http2 => {
            let (begin, part) = super::http2::endless_head();
            (begin, part, "a head in CONTINUATION")
        }
        _ => (Vec::new(), vec![b'a'; PART], "a line"),
    };
    let Poured { taken, grown, refusal } = poured(stand, &begin, &part)?;
    let size = words::size((taken >> 10) as f64);
    Ok(match refusal {
        _ if grown >= KEPT_KB => {
            let kept = words::size(grown as f64);
            let rule = "one client without a limit takes all memory (RFC 9110 section 17.5)";
            Finding::fault(format!("{what} of {size} is taken, and {kept} of memory with it"), rule)
        }
        Some(said) => {
            Finding::good(format!("{what} without an end is refused after {size} with {said}"))
        }
        None => {
            let evidence = format!("{what} of {size} is read without a refusal");
            Finding::attention(evidence, "a client can go on for ever")
        }
    })
}

/// A body of the announced length.
pub(super) fn body(stand: &mut Stand) -> Result<Finding, String> {
    let head = stand.speech.http_request("POST", &format!("Content-Length: {ENDLESS}\r\n"));
    let Poured { taken, grown, refusal } = poured(stand, &head, &[b'a'; PART])?;
    let size = words::size((taken >> 10) as f64);
    let said = refusal.map(|said| format!(", then {said}")).unwrap_or_default();
    let evidence = format!("{size} of a body were taken{said}");
    Ok(match grown >= KEPT_KB {
        true => Finding::attention(
            format!("{evidence}; memory grew by {}", words::size(grown as f64)),
            "a body is kept in memory: limit its length",
        ),
        false => Finding::good(evidence),
    })
}

/// The fate of bytes that were poured into a connection.
struct Poured {
    taken: usize,
    /// The growth of the server's memory (kB).
    grown: u64,
    /// The reply, or the end of the connection.
    refusal: Option<String>,
}

/// Pours [`ENDLESS`] bytes of repeated `part` after `begin` into a connection.
fn poured(stand: &mut Stand, begin: &[u8], part: &[u8]) -> Result<Poured, String> {
    let broken = |why: std::io::Error| format!("a client cannot connect: {why}");
    let before = stand.holdings();
    let growth = |stand: &Stand| {
        let grown = stand.holdings().zip(before).map(|(now, then)| now.1.saturating_sub(then.1));
        grown.unwrap_or_default()
    };
    let mut client = stand.connect().map_err(broken)?;
    if stand.speech.kind == Kind::Http2 {
        // The answer to the server's SETTINGS must not come within a head (RFC 9113 section 6.10).
        client.ask(&stand.speech, STARVED).map_err(broken)?;
    }
    client.send(begin).map_err(broken)?;
    let (mut taken, mut grown, mut has_ended, mut said) = (0, 0, false, Ok(None));
    let end = Instant::now() + 2 * STARVED;
    while taken < ENDLESS && !has_ended && matches!(said, Ok(None)) && Instant::now() < end {
        match client.stream.write(&part[taken % part.len()..]) {
            Ok(len) => taken += len,
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(_) => has_ended = true,
        }
        if taken % (4 << 20) < part.len() {
            grown = grown.max(growth(stand));
        }
        // A refusal may come before the connection ends.
        let moment = Instant::now() + Duration::from_micros(1);
        has_ended |= client.receive(moment).is_err() || client.is_closed;
        said = client.whole(&stand.speech);
    }
    let reply = match said {
        Ok(None) => client.reply(&stand.speech, SETTLED),
        Ok(Some(reply)) => Ok(reply),
        Err(why) => Err(why),
    };
    grown = grown.max(growth(stand));
    set_reset(&client);
    let first = |head: &str| {
        format!("`{}`", words::visible(head.lines().next().unwrap_or("").as_bytes(), 40))
    };
    let refusal = match reply {
        Ok(reply) => Some(first(&reply.head)),
        Err(why) if why.kind() == ErrorKind::TimedOut => has_ended.then(|| "its end".to_owned()),
        Err(why) if why.kind() == ErrorKind::Other => Some(why.to_string()),
        Err(_) => Some("the end of the connection".to_owned()),
    };
    Ok(Poured { taken, grown, refusal })
}
