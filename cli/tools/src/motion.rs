//! Records an engine call by call: three clients, and the server under strace(1).
//!
//! The server runs as it always does; without strace it has no trace point that could cost. Server
//! and clients take their times from the same clock (`CLOCK_REALTIME`), which strace prints.

mod strace;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use engines::status::Gauge;
use engines::{PRESETS, Refused};
use lab::census::OwnFigures;
use lab::plan::Arm;
use lab::server::{LOCALHOST, Server};
use pages::motion::{RecordedClient, RecordedRequest, Recording};

use strace::{TracedCall, Tracing};

use crate::top::link::Link;

/// The time that a reply, the ready line and the end of a server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Microseconds that the recording goes on after the last client has left.
const AFTERWARDS: i64 = 3000;

/// A line and the millisecond at which its client sends it, if the reply before has come.
type Step = (u64, &'static str);
/// The clients: the millisecond of the connection, the requests, the millisecond of the close.
/// Requests overlap, so that architectures differ in who waits.
const PLAN: [(u64, [Step; 2], u64); 3] = [
    (0, [(20, "show"), (90, "buy 1 1")], 110),
    (10, [(40, "buy 2 1"), (70, "sell 2 1")], 120),
    (30, [(55, "show"), (100, "sell 1 1")], 130),
];

/// Starts the stock market on `engine` under strace, plays the clients, and returns what happened.
pub fn record(engine: &str, exe: &Path, room: &Path) -> Result<Recording> {
    let Some(preset) = PRESETS.iter().find(|preset| preset.name == engine) else {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let why = format!("expected an engine of {}, found `{engine}`", names.join(", "));
        return Err(Refused(why).into());
    };
    if preset.needs_interface() {
        bail!(
            "expected an engine that serves clients of this machine by system calls, found \
             `{engine}`, which needs --interface: leave --page out to see where its time goes"
        );
    }
    if which::which("strace").is_err() {
        bail!("expected strace(1), which records system calls, found none: install it");
    }
    let file = room.join(format!("{engine}.strace"));
    let server = start(engine, exe, room, &file)?;
    let start = Instant::now() + Duration::from_millis(20);
    let address = sys::resolve::server(&server.address)?;
    let clients: Vec<Result<RecordedClient>> = std::thread::scope(|threads| {
        let play = |plan| threads.spawn(move || play(address, start, plan));
        let all: Vec<_> = PLAN.iter().map(play).collect();
        let joined = all
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    });
    let queues = own_figures(server.root()).unwrap_or_default().queues;
    server.process.stop(PATIENCE);
    let clients = clients.into_iter().collect::<Result<Vec<RecordedClient>>>()?;
    let text = fs::read_to_string(&file).context("cannot read what strace wrote")?;
    let traced = strace::parse(&text);
    let (container, accept, wait) = preset.point();
    let about = format!("{container} × {accept} × {wait}: {}", preset.from);
    if traced.is_empty() {
        bail!("expected system calls of the server, found none: may strace trace processes here?");
    }
    let engine = engine.to_owned();
    Ok(joined(Recording { engine, about, clients, queues, ..Recording::default() }, traced))
}

/// The figures that process `pid`, a server of ours, tells about itself; `None` if it is none, or
/// has no administration.
pub fn own_figures(pid: u32) -> Option<OwnFigures> {
    let sample = Link::named(&pid.to_string()).and_then(|link| link.sample()).ok()?.sample;
    let stack_switches = sample.totals.stack_switches;
    Some(OwnFigures { stack_switches, queues: queues(&sample.gauges) })
}

/// A line for each queue between the stages of a server.
fn queues(gauges: &[Gauge]) -> Vec<String> {
    let stages = gauges.iter().filter(|gauge| gauge.name == "stage_queue_length_max");
    let line = |stage: &Gauge| {
        let of = |name: &str| {
            let found = gauges.iter().find(|it| it.name == name && it.labels == stage.labels);
            found.map_or(0.0, |gauge| gauge.value)
        };
        format!(
            "queue {}: at most {} events, wait {:.0} µs on average and at most {:.0} µs",
            stage.labels.iter().map(|(_, value)| value.as_str()).collect::<String>(),
            stage.value,
            of("stage_wait_seconds") * 1e6,
            of("stage_wait_seconds_max") * 1e6
        )
    };
    stages.map(line).collect()
}

/// Puts calls and clients onto one scale, and finds what each call did for which client.
fn joined(mut it: Recording, traced: Vec<Tracing>) -> Recording {
    it.clients.sort_by_key(|client| client.connect);
    let zero = it.clients.first().map_or(0, |client| client.connect);
    it.end = it.clients.iter().map(|client| client.close).max().unwrap_or(zero) - zero + AFTERWARDS;
    for client in &mut it.clients {
        client.connect -= zero;
        client.close -= zero;
        for request in &mut client.requests {
            request.sent -= zero;
            request.replied = request.replied.map(|at| at - zero);
        }
    }
    for task in traced {
        let number = it.tasks.len();
        it.tasks.push(task.task);
        for TracedCall { mut call, result, accepts } in task.calls {
            call.from -= zero;
            call.to -= zero;
            if call.to < 0 || call.from > it.end {
                continue;
            }
            call.task = number;
            let of = |port: u16| it.clients.iter().position(|client| client.port == port);
            call.client = strace::ports(&call.text).find_map(of);
            if let Some(client) = call.client {
                let client = &mut it.clients[client];
                if accepts && result >= 0 {
                    client.accepted = client.accepted.or(Some(call.to));
                }
                let waits = client.requests.iter_mut().find(|request| {
                    request.taken.is_none()
                        && request.sent <= call.to
                        && request.replied.is_none_or(|at| call.from < at)
                });
                if let (Some(request), true, "receive") = (waits, result > 0, &*call.kind) {
                    request.taken = Some(call.to);
                }
            }
            it.calls.push(call);
        }
    }
    it.calls.sort_by_key(|call| call.from);
    for call in &it.calls {
        match it.counts.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, count)) => *count += 1,
            None => it.counts.push((call.name.clone(), 1)),
        }
    }
    it.counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    it.counts.truncate(8);
    it
}

/// Microseconds of the clock that strace prints.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Plays one client, which sends a request at its moment, or when the last reply is there.
fn play(
    address: SocketAddr,
    start: Instant,
    (connect, requests, close): &(u64, [Step; 2], u64),
) -> Result<RecordedClient> {
    let until = |at: u64| {
        let left = (start + Duration::from_millis(at)).saturating_duration_since(Instant::now());
        std::thread::sleep(left);
    };
    until(*connect);
    let mut client = RecordedClient { connect: now(), ..RecordedClient::default() };
    let stream = TcpStream::connect_timeout(&address, PATIENCE).context("connect to the server")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    client.port = stream.local_addr()?.port();
    let mut lines = BufReader::new(&stream).lines();
    for (at, text) in requests {
        until(*at);
        let sent = now();
        (&stream).write_all(format!("{text}\n").as_bytes()).context("send a request")?;
        let mut next = || lines.next().unwrap_or_else(|| Ok(String::new())).context("read a reply");
        let reply = next()?;
        // The list of stocks ends with an empty line.
        while *text == "show" && !next()?.is_empty() {}
        let (text, replied) = ((*text).into(), Some(now()));
        client.requests.push(RecordedRequest { text, sent, taken: None, replied, reply });
    }
    until(*close);
    client.close = now();
    Ok(client)
}

/// Starts the stock market on `engine` under strace, which writes to `file`. By `-D` the server is
/// our child, and not strace.
fn start(engine: &str, exe: &Path, room: &Path, file: &Path) -> Result<Server> {
    let [exe, file] = [exe, file].map(|path| path.display().to_string());
    let strace = ["strace", "-D", "-f", "-ttt", "-T", "-yy", "-s", "48", "-o", &file];
    let serve = [&exe, "serve", "stock", "--port", "0", "--engine", engine];
    let arm = Arm { command: serve.map(String::from).to_vec(), ..Arm::default() };
    let place = (LOCALHOST, 0);
    let server = Server::boot(place, &strace.map(String::from), &arm, room, engine, PATIENCE);
    server.map_err(|why| anyhow!("expected a server on {engine} under strace: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_between_stages_has_a_line() {
        let figure = |name, value| Gauge::now(name, "", value).with("stage", "step");
        let gauges = [
            figure("stage_queue_length_max", 3.0),
            figure("stage_wait_seconds", 20e-6),
            figure("stage_wait_seconds_max", 5e-4),
            Gauge::now("stage_wait_seconds", "", 9.0).with("stage", "read"),
            Gauge::now("held_bytes", "", 1.0),
        ];
        let line = "queue step: at most 3 events, wait 20 µs on average and at most 500 µs";
        assert_eq!(queues(&gauges), [line]);
    }

    #[test]
    fn calls_find_their_clients_and_requests_their_receivers() {
        let text = "7 10.000100 accept4(3<TCP:[127.0.0.1:1]>, NULL, NULL, 0) = \
            5<TCP:[127.0.0.1:1->127.0.0.1:40]> <0.000050>\n\
            7 10.000200 read(5<TCP:[127.0.0.1:1->127.0.0.1:40]>, \"show\\n\", 64) = 5 <0.000100>\n\
            7 10.000400 read(5<TCP:[127.0.0.1:1->127.0.0.1:40]>, \"\", 64) = 0 <0.000100>\n";
        let request = |sent, replied| RecordedRequest {
            sent,
            replied: Some(replied),
            ..RecordedRequest::default()
        };
        let requests = vec![request(10_000_250, 10_000_350), request(10_000_380, 10_000_600)];
        let client = RecordedClient {
            port: 40,
            connect: 10_000_000,
            requests,
            close: 10_000_700,
            ..RecordedClient::default()
        };
        let recording = Recording { clients: vec![client], ..Recording::default() };
        let found = joined(recording, strace::parse(text));
        assert_eq!(found.clients[0].accepted, Some(150));
        assert_eq!(found.clients[0].requests[0].taken, Some(300));
        assert_eq!(found.clients[0].requests[1].taken, None, "an empty read received nothing");
        assert_eq!(found.counts, [("read".to_owned(), 2), ("accept4".to_owned(), 1)]);
        assert!(found.calls.iter().all(|call| call.client == Some(0)));
    }
}
