//! Servers' reports about themselves: counts against the served requests, exits with their reasons,
//! metrics by a strict reader, orders, reloads. A client of the administration delays no other
//! client.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;
use sys::process;
use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Plan, Raise, Server, eventually, ms};
use crate::market::book;
use crate::web::body;

/// A server with an administration socket.
pub struct Told {
    pub server: Server,
    path: PathBuf,
}

impl Told {
    pub fn start(plan: Plan<'_>) -> Told {
        Told::of(plan.announce())
    }

    /// A server that has announced itself.
    pub fn of((server, ready): (Server, Value)) -> Told {
        let place = ready["admin"].as_str().expect("the banner names the administration");
        let path = place.strip_prefix("unix:").expect("a socket by default").into();
        Told { server, path }
    }

    pub fn ask(&self, method: &str, path: &str) -> String {
        ask(&self.path, method, path)
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/status.json")).expect("JSON")
    }

    /// The status as soon as all connections are closed and all is counted.
    fn settled(&self, answered: u64) -> Value {
        let mut status = Value::Null;
        eventually("all is counted", PATIENCE, || {
            status = self.status();
            let totals = &status["totals"];
            totals["open"] == 0 && totals["answered"].as_u64() >= Some(answered)
        });
        status
    }
}

/// The body of an answer that says 200.
fn ask(at: &Path, method: &str, path: &str) -> String {
    let mut stream = UnixStream::connect(at).expect("the administration listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("our own socket");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("he listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{method} {path}: {answer}");
    body.to_owned()
}

/// The count of `reason` in a list of pairs.
fn counted(pairs: &Value, reason: &str) -> u64 {
    let mut pairs = pairs.as_array().expect("a list").iter();
    let found = pairs.find(|pair| pair[0] == reason);
    found.map_or(0, |pair| pair[1].as_u64().expect("a count"))
}

/// Every event of a stage is counted, with its wait.
pub fn queues_are_told(arm: &Arm) {
    const ORDERS: u64 = 20;
    let told = Told::start(arm.book(book(3, 1000)));
    let mut client = told.server.client();
    for _ in 0..ORDERS {
        assert_eq!(client.ask("buy 1 1"), "[buy] success");
    }
    let status = told.status();
    let gauges = status["gauges"].as_array().expect("a list");
    let of = |name: &str, stage: &str| {
        let labels = serde_json::json!([["stage", stage]]);
        let found = gauges.iter().find(|it| it["name"] == name && it["labels"] == labels);
        found.and_then(|it| it["value"].as_f64()).unwrap_or_else(|| panic!("{name} of {stage}"))
    };
    for stage in ["read", "step", "write"] {
        assert!(of("stage_events", stage) >= ORDERS as f64, "{stage}: {gauges:?}");
        assert!(of("stage_wait_seconds_max", stage) >= of("stage_wait_seconds", stage));
        assert!(of("stage_queue_length_max", stage) >= 1.0 && of("stage_threads", stage) >= 1.0);
    }
    let words = told.ask("GET", "/metrics");
    assert!(words.contains("roundhouse_stage_events_total{stage=\"step\"}"), "{words}");
}

/// Few clients, few orders: every count is exact, in the status and in the metrics.
pub fn counts_agree_with_what_was_served(arm: &Arm) {
    let told = Told::start(arm.book(book(3, 1000)));
    let (mut sent, mut received, clients, orders) = (0, 0, 3, 4);
    for _ in 0..clients {
        let mut client = told.server.client();
        for _ in 0..orders {
            let reply = client.ask("sell 1 1");
            (sent, received) = (sent + "sell 1 1\n".len(), received + reply.len() + 1);
        }
    }
    let answered = clients * orders;
    let status = told.settled(answered);
    let totals = &status["totals"];
    let found = ["accepted", "answered", "bytes_in", "bytes_out"].map(|name| &totals[name]);
    assert_eq!(found, [clients, answered, sent as u64, received as u64], "{status}");
    assert_eq!(status["phase"], "ready");
    let workers = status["workers"].as_array().expect("a list");
    let letters: String = workers.iter().filter_map(|worker| worker["letter"].as_str()).collect();
    assert!(letters.chars().all(|letter| "_RBWC-".contains(letter)), "{letters}");
    let metrics = metrics(&told.ask("GET", "/metrics"));
    let of = |name: &str| metrics.get(name).copied();
    let requests = "roundhouse_requests_total{service=\"stock\"}";
    assert_eq!(of(requests), Some(answered as f64));
    assert_eq!(of("roundhouse_connections_accepted_total"), Some(clients as f64));
    assert_eq!(of("roundhouse_received_bytes_total"), Some(sent as f64));
    assert!(of("process_resident_memory_bytes").is_some_and(|bytes| bytes > 100_000.0));
    assert!(of("roundhouse_kernel_socket_bytes").is_some_and(|bytes| bytes % 4096.0 == 0.0));
    told.server.stop();
    assert!(!told.path.exists(), "the socket goes with its server");
}

/// Reads metrics as strictly as a scraper may, and returns the series with their values.
fn metrics(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("the end is said");
    let (mut name, mut kinds, mut found) = ("", BTreeMap::new(), BTreeMap::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            name = rest.split(' ').next().expect("a name");
            assert!(!kinds.contains_key(name), "told twice: {name}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (typed, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(typed, name, "the type behind its help");
            kinds.insert(name, kind);
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            check_series(series, name, kinds[name]);
            let other = found.insert(series.to_owned(), value.parse().expect("a number"));
            assert_eq!(other, None, "twice: {series}");
        }
    }
    assert!(found.len() > 20, "{text}");
    found
}

fn check_series(series: &str, name: &str, kind: &str) {
    let (own, labels) = series.split_once('{').unwrap_or((series, "}"));
    let rest = own.strip_prefix(name).unwrap_or_else(|| panic!("{series} under {name}"));
    let fits = match kind {
        "counter" => rest == "_total",
        "gauge" => rest.is_empty(),
        "histogram" => ["_sum", "_count", "_bucket"].contains(&rest),
        other => panic!("type {other}"),
    };
    assert!(fits, "{series} as a {kind}");
    let is_name = |text: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(good)
    };
    assert!(is_name(own), "{own}");
    let labels = labels.strip_suffix('}').expect("braces in pairs");
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let (key, value) = label.split_once('=').expect("a label");
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        assert!(is_name(key) && quoted.is_some_and(|it| !it.contains('"')), "{series}");
    }
}

/// A worker is killed: the status lists the exit with its signal, and its successor as a respawn.
pub fn a_death_is_told_with_its_reason(arm: &Arm) {
    let told = Told::start(arm.book(book(3, 1000)));
    let victim = told.server.children()[0];
    process::kill(victim, Signal::KILL).expect("it lives");
    let mut status = Value::Null;
    eventually("the death is told", PATIENCE, || {
        status = told.status();
        counted(&status["exited"], "signal_9") == 1 && counted(&status["spawned"], "respawn") == 1
    });
    let events = status["events"].as_array().expect("a list");
    let exit = events.iter().find(|event| event["what"] == "exited").expect("it happened");
    assert_eq!(exit["pid"], victim.number(), "{exit}");
    assert_eq!(exit["is_fault"], true);
    assert!(exit["why"].as_str().is_some_and(|why| why.contains("SIGKILL")), "{exit}");
    let posts = told.server.posts as u64;
    assert_eq!(counted(&status["spawned"], "start"), posts, "{}", status["spawned"]);
    told.server.stop();
}

/// Clients that neither send nor read occupy all places of the administration. Workers are still
/// reaped and replaced, and clients served. When the time of those clients is over, others get
/// replies.
pub fn a_stuck_visitor_hinders_nobody(arm: &Arm) {
    let told = Told::start(arm.book(book(3, 1000)));
    let visitor = |words: &str| {
        let mut stream = UnixStream::connect(&told.path).expect("the door's own queue takes him");
        stream.write_all(words.as_bytes()).expect("a small request");
        stream
    };
    let silent: Vec<UnixStream> = (0..8).map(|_| visitor("")).collect();
    let half: Vec<UnixStream> = (0..8).map(|_| visitor("GET /status.json HT")).collect();
    let deaf: Vec<UnixStream> =
        (0..8).map(|_| visitor("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
    for round in 0..3 {
        let victim = told.server.children()[0];
        process::kill(victim, Signal::KILL).expect("it lives");
        eventually("it is replaced", PATIENCE, || {
            let children = told.server.children();
            !children.contains(&victim) && children.len() >= told.server.posts
        });
        assert_eq!(told.server.ask("sell 1 1"), "[sell] success", "round {round}");
    }
    // A client that waits longer than a place may be held gets its reply.
    let status = told.status();
    assert_eq!(counted(&status["exited"], "signal_9"), 3, "{status}");
    drop((silent, half, deaf));
    told.server.stop();
}

/// Orders: a drain ends well, a quit cuts connections off.
pub fn orders_are_obeyed(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(3, 1000));
    let told = Told::start(arm.stock(&data));
    assert!(told.ask("POST", "/drain").contains("the server is draining"));
    assert_eq!(told.server.ended(PATIENCE).code, Some(0));
    let told = Told::start(arm.stock(&data));
    let mut inside = told.server.client();
    assert_eq!(inside.ask("sell 1 1"), "[sell] success");
    assert!(told.ask("POST", "/quit").contains("the server is forced"));
    told.server.ended(PATIENCE).exits(1).says("by force, as ordered");
}

/// The log is moved away and the server notified, repeatedly and under load. Each request has its
/// line in one of the files, and the server does not touch a moved file again.
pub fn a_log_that_is_moved_loses_no_line(arm: &Arm) {
    let folder = Folder::new();
    let log = folder.path().join("access.log");
    let name = log.to_str().expect("a temporary path is text");
    let flags = ["--demo", "--access-log", name, "--log-format", "json"];
    let told = Told::start(Plan::new(arm, "http").with(&flags));
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let moved = |round: usize| folder.path().join(format!("access.log.{round}"));
    std::thread::scope(|scope| {
        let raise = Raise(&over);
        for _ in 0..arm.crowd(3) {
            scope.spawn(|| {
                let mut client = told.server.client();
                while !over.load(Ordering::Relaxed) {
                    client.send("GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n");
                    body(&mut client);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..4 {
            let before = asked.load(Ordering::Relaxed);
            eventually("some are asked", PATIENCE, || asked.load(Ordering::Relaxed) > before + 20);
            std::fs::rename(&log, moved(round)).expect("the server has made it");
            told.server.signal(Signal::HUP);
            eventually("a new one is there", PATIENCE, || log.exists());
        }
        drop(raise);
    });
    told.server.stop();
    let lines = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("a log");
        assert!(text.is_empty() || text.ends_with('\n'), "half a line in {}", path.display());
        text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count()
    };
    let all: usize = (0..4).map(|round| lines(&moved(round))).sum::<usize>() + lines(&log);
    assert_eq!(all, asked.load(Ordering::Relaxed));
}

/// The settings file changes: reloadable settings apply to open connections too, the server names
/// the others, and a mistake changes nothing.
pub fn settings_are_reloaded(arm: &Arm) {
    let (folder, data) = Folder::with("stock.txt", book(3, 1000));
    let write = |text: &str| folder.file("server.toml", text);
    let config = write("idle = \"1h\"\nmax-connections = 100\n");
    let config = config.to_str().expect("a temporary path is text");
    let told = Told::start(arm.stock(&data).with(&["--config", config]));
    let mut inside = told.server.client();
    assert_eq!(inside.ask("sell 1 1"), "[sell] success");
    write("idle = \"never\"\n");
    told.server.signal(Signal::HUP);
    told.server.says("the settings stay as they are");
    write("idle = \"1h\"\nmax-connections = 64\nwrite-stall = \"9s\"\norder = \"sorted\"\n");
    let said = told.ask("POST", "/reload");
    for words in ["max-connections is 64, was 100", "write-stall is 9s, was 60s", "order stays"] {
        assert!(said.contains(words), "expected {words:?} in {said}");
    }
    let limits = &told.status()["limits"];
    assert_eq!((&limits["connections"], &limits["edition"]), (&64.into(), &2.into()), "{limits}");
    let settings = limits["settings"].as_array().expect("a list");
    assert!(settings.contains(&serde_json::json!(["write-stall", "9s"])), "{limits}");
    // Every worker hears of it, and the one with this client ends the connection.
    write("idle = \"300ms\"\nmax-connections = 64\n");
    told.server.signal(Signal::HUP);
    told.server.says("idle is 300ms");
    assert_eq!(inside.rest(), b"", "sent home");
    assert_eq!(told.server.ask("sell 1 1"), "[sell] success", "others are served");
    told.server.stop();
}

/// A client of the administration reads the end of its reply at once, even if workers that were
/// forked in the meantime have a copy of its connection.
pub fn the_end_is_heard_behind_a_fork(arm: &Arm) {
    let told = Told::start(arm.book(book(3, 1000)));
    let mut early = UnixStream::connect(&told.path).expect("the administration listens");
    early.write_all(b"GET /status.js").expect("he listens");
    early.set_read_timeout(Some(ms(4000))).expect("our own socket");
    // The client is accepted before the next worker is forked.
    std::thread::sleep(ms(50));
    let mut clients: Vec<Client> = (0..arm.crowd(3)).map(|_| told.server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("sell 1 1"), "[sell] success"));
    early.write_all(b"on HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("he listens");
    let mut answer = String::new();
    early.read_to_string(&mut answer).expect("the end");
    assert!(answer.contains("\"answered\":"), "{answer}");
    told.server.stop();
}
