//! The load generator as a process, against our own servers. The tests check that it
//! detects a stopped server and its own stops, and that both count the same.
//!
//! Bounds on times are wide and relative to the test's own measurements, because the tests run on
//! busy machines. Figures that the generator itself calls invalid are not tested.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::signal::Signal;
use testkit::{Ended, Folder, PATIENCE, Process, Server, Terminal, eventually, run};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.arg("load").args(args);
    command
}

/// A server of ours, and its target.
struct Served {
    server: Server,
    target: String,
    _site: Folder,
}

impl Served {
    fn by(scheme: &str) -> Self {
        let site = Folder::new();
        let names = ["index.html", "a"].into_iter().filter(|_| scheme == "http");
        names.for_each(|name| drop(site.file(name, "Hello, World!")));
        let mut serve = Command::new(EXE);
        serve.args(["serve", scheme, "--engine", "epoll", "--port", "0"]).current_dir(site.path());
        serve.args(["--admin", "127.0.0.1:0"]);
        if scheme == "http" {
            serve.args(["--keep-alive", "60s", "."]);
        }
        let server = Server::start(&mut serve);
        Self { target: format!("{scheme}://{}", server.address), server, _site: site }
    }

    /// Waits until all connections are closed, and compares the server's count with the client's.
    #[track_caller]
    fn counts(self, requests: u64) {
        let admin = self.server.ready["admin"].as_str().expect("the banner names it");
        let admin = admin.trim_start_matches("http://").trim_end_matches('/');
        let mut answered = 0;
        eventually("all is counted", PATIENCE, || {
            let text = get(admin, "/status.json").expect("the administration answers");
            let (_, body) = text.split_once("\r\n\r\n").expect("a head and a body");
            let totals = &serde_json::from_str::<Value>(body).expect("JSON")["totals"];
            let count = |name: &str| totals[name].as_u64().expect("a count");
            // An echo counts bytes; a packet has ten.
            let is_echo = self.target.starts_with("echo");
            answered = if is_echo { count("bytes_in") / 10 } else { count("answered") };
            count("open") == 0 && answered >= requests
        });
        assert_eq!(answered, requests);
    }
}

/// The answer to `GET` if its status is 200.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200 OK").then_some(text)
}

/// Starts `load` with a report in JSON.
fn start(target: &str, flags: &str) -> Process {
    Process::start(command(&[target, "--json"]).args(flags.split_whitespace()))
}

fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

/// Runs `load` to its end.
fn load(target: &str, flags: &str) -> (Value, i32) {
    let ended = start(target, flags).end(PATIENCE);
    (report(&ended), ended.code.expect("it ends by itself"))
}

fn is_invalid(report: &Value) -> bool {
    report["health"]["verdict"] == "invalid"
}

/// Tests that compare times: they run alone.
mod quiet {
    use super::*;

    /// Stops a process for about a second; returns the exact time.
    fn hold(process: &Process) -> Duration {
        process.signal(Signal::STOP);
        let start = Instant::now();
        sleep(Duration::from_secs(1));
        process.signal(Signal::CONT);
        start.elapsed()
    }

    fn seconds(report: &Value, percent: f64) -> f64 {
        let list = report["percentiles"].as_array().expect("a list");
        let found = list.iter().find(|it| it["percent"].as_f64() == Some(percent));
        let found = found.unwrap_or_else(|| panic!("p{percent} in {report}"));
        assert_eq!(found["beyond"], false, "{report}");
        found["ns"].as_f64().expect("a time") / 1e9
    }

    /// Litmus one: a server stops for one of ten seconds. An open client with a thousand requests a
    /// second meets the stop a thousand times and waits half a second on average. A closed loop
    /// would meet it once for each connection, and call it an outlier.
    #[test]
    fn a_server_that_stood_still_is_found_out() {
        let served = Served::by("http");
        let flags = "--open 1000 --arrivals constant --for 10s --warmup 0s -c 20";
        let mut generator = start(&served.target, flags);
        sleep(Duration::from_secs(3));
        let held = hold(&served.server).as_secs_f64();
        let output = generator.end(PATIENCE);
        let report = report(&output);
        assert_eq!(report["response"]["count"], 10_000, "{report}");
        assert_eq!((&report["failed"], &report["censored"]), (&0.into(), &0.into()), "{report}");
        served.counts(10_000);
        if is_invalid(&report) {
            eprintln!("not judged: the machine was too busy for the generator");
            return;
        }
        // Requests that came while it was stopped waited from `held` down to zero, evenly.
        let (p90, p95) = (seconds(&report, 90.0), seconds(&report, 95.0));
        let max = report["response"]["max_ns"].as_f64().expect("a time") / 1e9;
        assert!(p90 < (held - 1.0).max(0.0) + 0.3, "p90 {p90} of {held}: {report}");
        assert!((p95 - (held - 0.5)).abs() < 0.3, "p95 {p95} of {held}: {report}");
        assert!(max > held - 0.2 && max < held + 1.0, "max {max} of {held}: {report}");
        // The generator was in time, although its requests had to wait for connections.
        let tardiness = &report["health"]["tardiness"];
        let own = tardiness["p90_ns"].as_f64().expect("a time") / 1e9;
        assert!(own < 0.1, "{report}");
    }

    /// Litmus two: the generator is stopped. It reports that its figures show its own stop.
    fn check_generator_held(model: &str) {
        let served = Served::by("http");
        let flags = format!("{model} --for 4s --warmup 0s -c 4");
        let mut generator = start(&served.target, &flags);
        sleep(Duration::from_millis(1500));
        let held = hold(&generator).as_nanos() as f64;
        let output = generator.end(PATIENCE).exits(98);
        let report = report(&output);
        assert!(is_invalid(&report), "{report}");
        let stalled = report["health"]["stall_ns_max"].as_f64().expect("a time");
        assert!(stalled > 0.8 * held, "{report}");
        if report["model"] == "open" {
            let tardy = report["health"]["tardiness"]["max_ns"].as_f64().expect("a time");
            assert!(tardy > 0.8 * held, "{report}");
            let late = report["lateness"]["max_ns"].as_f64().expect("a time");
            assert!(late > 0.8 * held, "{report}");
            assert_eq!(report["response"]["count"], 4000, "{report}");
            served.counts(4000);
        }
    }

    #[test]
    fn a_generator_that_stood_still_finds_itself_out() {
        check_generator_held("--open 1000 --arrivals constant");
    }

    #[test]
    fn a_closed_loop_that_stood_still_finds_itself_out() {
        check_generator_held("");
    }
}

/// The server and the client have the same count in each model.
fn check_counts(scheme: &'static str, probes: u64) {
    let served = Served::by(scheme);
    let mut asked = 0;
    for flags in [
        "--closed 8 --for 200ms",
        "--closed 4 --depth 8 --for 200ms --kinds",
        "--closed 7 --for 200ms --requests-per-connection 3",
        "--closed 6 -t 3 --for 200ms",
        "--closed 5 -n 501",
        "--closed 20 --ramp 100/s --think exp:5ms --for 200ms",
        "--open 500 --for 300ms --idle 5 --source 127.0.0.2,127.0.0.3",
        "--open 500 --for 300ms --depth 4 -c 2 --requests-per-connection 5",
        "--open 300 --arrivals constant -n 100",
        "--sessions 50 --session-requests 4 --think 2ms --for 300ms",
    ] {
        let (report, code) = load(&served.target, flags);
        assert!(code == 0 || (code == 98 && is_invalid(&report)), "{flags}: {code} {report}");
        assert_eq!(report["check"]["ok"], true, "{flags}: {report}");
        let stalled = report["health"]["stalled_ns"].as_f64().expect("a time");
        assert!(stalled < 60e9, "since the boot of the machine? {flags}: {report}");
        let unanswered = ["lost", "censored", "dropped", "wrong"].map(|key| &report[key]);
        assert!(unanswered.iter().all(|count| **count == 0), "{flags}: {report}");
        asked += report["requests_total"].as_u64().expect("a count") + probes;
    }
    served.counts(asked);
}

#[test]
fn server_and_client_count_the_same_trades() {
    // The generator requests a market's rows before and after.
    check_counts("stock", 2);
}

#[test]
fn server_and_client_count_the_same_pages() {
    check_counts("http", 0);
}

#[test]
fn server_and_client_count_the_same_echoes() {
    check_counts("echo", 0);
}

#[test]
fn an_objective_has_an_exit_code() {
    let served = Served::by("echo");
    let (report, code) = load(&served.target, "-n 200 -c 2 --slo 50%<30s");
    assert!(code == 0 || is_invalid(&report), "{code} {report}");
    let (report, code) = load(&served.target, "-n 200 -c 2 --slo p50<30s,99.9%<1us");
    assert!(code == 99 || is_invalid(&report), "{code} {report}");
    let met: Vec<_> = report["slo"].as_array().expect("two").iter().map(|it| &it["met"]).collect();
    assert_eq!(met, [&Value::Bool(true), &Value::Bool(false)]);
}

#[test]
fn unanswered_requests_stand_behind_every_percentile() {
    let served = Served::by("echo");
    let flags = "--open 200 --arrivals constant --for 2s --warmup 0s --drain 100ms";
    let mut generator = start(&served.target, flags);
    sleep(Duration::from_millis(500));
    served.server.signal(Signal::STOP);
    let output = generator.end(PATIENCE);
    served.server.signal(Signal::CONT);
    let report = report(&output);
    let censored = report["censored"].as_u64().expect("a count");
    let answered = report["response"]["count"].as_u64().expect("a count");
    assert_eq!(censored + answered, 400, "{report}");
    assert!(censored > 100, "{report}");
    let list = report["percentiles"].as_array().expect("a list");
    let median = &list[0];
    if censored > 220 {
        assert_eq!(
            (&median["percent"], &median["beyond"]),
            (&50.0.into(), &true.into()),
            "{report}"
        );
    }
}

#[test]
fn the_schema_is_printed() {
    let output = run(&mut command(&["--schema"]));
    let schema = report(&output);
    assert_eq!(schema["properties"]["schema"]["const"], "roundhouse.load/1");
}

/// Shows a run on a terminal, ends it, and checks the terminal's state afterwards.
fn check_screen(end: impl FnOnce(&mut Terminal)) {
    let served = Served::by("echo");
    let mut terminal =
        Terminal::start(&mut command(&[&served.target, "--open", "500", "-d", "600s"]));
    // The screen skips blanks instead of drawing them.
    for word in ["\x1b[?1049h", "response", "outstanding", "connections", "generator"] {
        terminal.shows(0, word);
    }
    assert!(!terminal.is_usual());
    end(&mut terminal);
    let left = terminal.shows(0, "\x1b[?1049l");
    terminal.shows(left, "the run was stopped early");
    let status = terminal.ended();
    let shown = terminal.shown();
    assert!(status.code().is_some(), "{status}: {shown}");
    let after = &shown[left..];
    assert!(after.contains("\x1b[?25h") && after.contains("requests      "), "{after}");
}

#[test]
fn a_key_ends_the_live_view_and_the_terminal_is_as_before() {
    check_screen(|terminal| terminal.press(b"q"));
}

#[test]
fn an_interrupt_ends_the_live_view_and_the_terminal_is_as_before() {
    check_screen(|terminal| terminal.signal(Signal::INT));
}

#[test]
fn elsewhere_there_are_plain_lines() {
    let served = Served::by("echo");
    let said = run(&mut command(&[&served.target, "--plain", "-c", "2", "-d", "2500ms"])).err;
    assert!(said.contains(" of 2.5 s · ") && said.contains("p50 "), "{said}");
    assert!(!said.contains('\x1b'), "{said}");
    let silent = run(&mut command(&[&served.target, "-c", "2", "-d", "1s", "--json"]));
    assert_eq!(silent.err, "");
}

fn check_refused(args: &[&str], code: i32, parts: &[&str]) {
    let output = run(&mut command(args));
    let said = &output.err;
    assert_eq!(output.code, Some(code), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: expected {part:?} in {said:?}");
    }
}

#[test]
fn errors_say_what_to_do() {
    check_refused(&["ftp://127.0.0.1:1"], 2, &["stock://", "http://", "echo://", "line://"]);
    // Port 1 is reserved for a service that has been out of use for decades.
    check_refused(&["http://127.0.0.1:1"], 1, &["refused", "start one"]);
    check_refused(&["stock://127.0.0.1:1", "--mix", "hold=1"], 2, &["show=5,buy=50,sell=45"]);
    let foreign = ["http://127.0.0.1:1", "--framing", "eof", "--lenient", "-c", "2"];
    check_refused(&foreign, 2, &["--framing, --lenient:", "http://127.0.0.1:1"]);
    check_refused(&["stock://127.0.0.1:1", "-m", "POST"], 2, &["--method"]);
    let served = Served::by("echo");
    let target = &served.target;
    check_refused(&[target, "--source", "192.0.2.1"], 2, &["--source", "192.0.2.1"]);
    check_refused(&[target, "-c", "100000000"], 1, &["open files", "ulimit"]);
}

/// The file of all requests as Python's module for CSV reads it.
#[test]
fn every_request_is_a_row_that_python_reads() {
    if !testkit::has("python3") {
        return;
    }
    let (served, folder) = (Served::by("http"), Folder::new());
    let (url, file) = (format!("{}/a?b=\"c,d\"", served.target), folder.path().join("rows.csv"));
    let flags = format!("-c 4 -t 2 -d 300ms --requests-csv {}", file.display());
    let (report, _) = load(&url, &flags);
    let script = "import csv, sys\n\
                  rows = list(csv.DictReader(open(sys.argv[1])))\n\
                  sure = [row for row in rows if row['url'] == sys.argv[2]\n\
                  and row['status'] == '200' and float(row['metric_value']) > 0]\n\
                  print(len(rows), len(sure), sum(row['scenario'] == 'window' for row in rows))";
    let mut python = Command::new("python3");
    let counts = run(python.args(["-c", script]).arg(&file).arg(&url)).success().out;
    let (all, window) = (&report["requests_total"], &report["requests"]);
    assert_eq!(counts.trim(), format!("{all} {all} {window}"), "{report}");
    served.counts(all.as_u64().expect("a count"));
    check_refused(&["http://127.0.0.1:1", "--requests-csv", "/dev/full"], 2, &["cannot write"]);
    check_refused(&["echo://127.0.0.1:1", "--requests-csv", "x"], 2, &["with http://"]);
}

/// A scraper sees counters that grow, and in the end those of the report.
#[test]
fn a_scraper_gets_the_counts_of_the_report() {
    let served = Served::by("http");
    let address = format!("127.0.0.1:{}", testkit::free_port());
    let value = |text: &str, name: &str| {
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|line| line.0 == name).map_or(0.0, |line| line.1.parse().expect("a number"))
    };
    let flags = format!("-c 4 -t 2 -d 1s --prometheus {address}");
    let mut generator = start(&served.target, &flags);
    let (begin, mut texts) = (Instant::now(), Vec::new());
    while generator.is_running() && begin.elapsed() < PATIENCE {
        texts.extend(get(&address, "/metrics"));
        sleep(Duration::from_millis(20));
    }
    let report = report(&generator.end(PATIENCE));
    let counts = |name: &str| texts.iter().map(|it| value(it, name)).collect::<Vec<_>>();
    let requests = counts("roundhouse_load_requests_total");
    assert!(requests.is_sorted() && requests.first() < requests.last(), "{requests:?}");
    let all = report["requests_total"].as_f64();
    assert_eq!(requests.last().copied(), all);
    served.counts(report["requests_total"].as_u64().expect("a count"));
    for name in [
        "roundhouse_load_replies_total{status=\"200\"}",
        "roundhouse_load_response_seconds_count",
        "roundhouse_load_response_seconds_bucket{le=\"+Inf\"}",
    ] {
        assert_eq!(counts(name).last().copied(), all, "{name} in {}", texts[texts.len() - 1]);
    }
    assert_eq!(counts("roundhouse_load_connections").last(), Some(&0.0));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("bound").to_string();
    let refused = ["http://127.0.0.1:1", "--prometheus", &taken];
    check_refused(&refused, 2, &["--prometheus: cannot listen", &taken]);
}

/// Endless or overlong files are refused with the bound, wherever a command reads a whole file.
#[test]
fn an_endless_file_is_refused() {
    let load = ["load", "http://127.0.0.1:1/"];
    for (before, flag) in [
        (&load[..], "--urls"),
        (&load[..], "--har"),
        (&load[..], "--body-file"),
        (&["load"][..], "--turns"),
        (&["serve", "http", "."][..], "--config"),
        (&["path", "find", "--from", "0,0", "--to", "1,1"][..], "--map"),
    ] {
        let (place, words) = (["/dev/zero"], [flag]);
        let is_map = flag == "--map";
        let words = if is_map { &[][..] } else { &words[..] };
        let ended = run(Command::new(EXE).args(before).args(words).args(place));
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code != Some(0) && said.contains("expected at most"), "{flag}: {said}");
    }
}

/// The flow of the example `todo`.
const TODO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/roundhouse/examples/todo.toml");

/// The counts of each kind of request.
fn kinds(report: &Value, of: &str) -> Vec<u64> {
    let list = report["kinds"].as_array().expect("a list").iter();
    list.map(|kind| kind[of].as_u64().expect("a count")).collect()
}

/// The users of `todo` log in, list, create, read back and delete at `target`. A wrong password is
/// an error of its step.
#[track_caller]
fn check_todo(target: &str) {
    for model in ["-c 4 -n 200", "--sessions 100 -d 500ms --warmup 0s"] {
        let (report, code) = load(target, &format!("--flow {TODO} {model}"));
        assert!(report["check"]["ok"] == true && [0, 98].contains(&code), "{report}");
        let counts = kinds(&report, "requests");
        assert!(counts.len() == 5 && counts.is_sorted_by(|one, two| one >= two), "{report}");
        assert!(model.starts_with("--") || counts.iter().sum::<u64>() == 200, "{report}");
    }
    let text = std::fs::read_to_string(TODO).expect("the flow of the example");
    let (_folder, wrong) = Folder::with("wrong.toml", text.replace("\"sesame\"", "\"guess\""));
    let (report, code) = load(target, &format!("--flow {} -c 2 -n 50", wrong.display()));
    let error = "login: expected status 200 to 399, found 401";
    assert_eq!((code, &report["kinds"][0]["error"]), (1, &error.into()), "{report}");
    assert_eq!(kinds(&report, "wrong"), [50], "nothing comes after: {report}");
}

#[test]
fn a_flow_asks_a_service_in_another_language() {
    if !testkit::has("python3") {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/programs/todo.py");
    let port = testkit::free_port();
    let mut python = Process::start(Command::new("python3").args([program, &port.to_string()]));
    eventually("it listens", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    check_todo(&format!("http://127.0.0.1:{port}"));
    python.kill();
}

/// The same on each kind of engine; a server that forgets is an error of its steps.
#[test]
fn a_flow_names_the_step_that_fails() {
    let Some(todo) = testkit::example("todo") else { return };
    let serve = |engine: &str, environment: &[(&str, &str)]| {
        let mut command = Command::new(&todo);
        command.args(["--port", "0", "--engine", engine]).envs(environment.iter().copied());
        let server = Server::start(&mut command);
        let target = format!("http://{}", server.address);
        (server, target)
    };
    let engines = ["epoll", "uring", "thread"];
    for engine in engines.into_iter().filter(|engine| *engine != "uring" || testkit::has_uring()) {
        let (server, target) = serve(engine, &[]);
        check_todo(&target);
        server.stop();
        let (server, target) = serve(engine, &[("FORGET", "1")]);
        let (report, code) = load(&target, &format!("--flow {TODO} -c 1 -n 10"));
        let error = "read: expected status 200 to 399, found 404";
        assert_eq!((code, &report["kinds"][3]["error"]), (1, &error.into()), "{engine}: {report}");
        assert_eq!(kinds(&report, "wrong"), [0, 0, 0, 2, 2], "{report}");
        let detail = "4 of 10 replies are not as expected: read 2, delete 2";
        assert_eq!(report["check"]["detail"], detail);
        server.stop();
    }
}

#[test]
fn a_recording_is_written_as_a_flow() {
    let entry = r#"{"request":{"method":"GET","url":"http://127.0.0.1:1/a","headers":[]}}"#;
    let har = format!(r#"{{"log":{{"entries":[{entry},{entry}]}}}}"#);
    let (folder, har) = Folder::with("page.har", har);
    let (har, flow) = (har.to_str().expect("text"), folder.path().join("flow.toml"));
    let mut words = command(&["http://127.0.0.1:1", "--har", har, "--write-flow"]);
    let said = run(words.arg(&flow)).success().out;
    assert!(said.ends_with("flow.toml: 2 steps\n"), "{said}");
    let served = Served::by("http");
    let flow = flow.to_str().expect("text");
    let (report, code) = load(&served.target, &format!("--flow {flow} -c 1 -n 20"));
    assert!([0, 98].contains(&code) && report["kinds"][1]["name"] == "GET /a (2)", "{report}");
    for (more, part) in [
        ("--open 10", "found --open; say --sessions RATE for iterations a second"),
        ("--depth 2", "found --depth; use more users (-c)"),
        ("--http2", "leave --http2 out"),
        ("--mix /", "cannot be used with"),
    ] {
        let words: Vec<&str> = more.split(' ').collect();
        check_refused(&[&["http://127.0.0.1:1", "--flow", flow], &words[..]].concat(), 2, &[part]);
    }
}

/// Hundreds of kinds take little more memory than one.
#[test]
fn kinds_take_memory_for_what_was_seen() {
    let served = Served::by("http");
    let lines: String = (0..4000).map(|at| format!("/?{at}\n")).collect();
    let (_folder, urls) = Folder::with("urls.txt", lines);
    let target = &served.target;
    let urls = urls.to_str().expect("text");
    let words = ["load", target, "--urls", urls, "--kinds", "-c", "1", "-n", "1000", "--json"];
    // 3 GB would be needed for full histograms.
    let limit = format!("ulimit -v {} && exec \"$0\" \"$@\"", 1 << 20);
    let mut command = Command::new("sh");
    command.args(["-c", &limit, EXE]).args(words);
    let ended = run(&mut command).loaded();
    let report: Value = serde_json::from_str(&ended.out).expect("a report");
    let kinds = report["kinds"].as_array().expect("a list");
    let sum: u64 = kinds.iter().filter_map(|kind| kind["requests"].as_u64()).sum();
    assert!(kinds.len() <= 4000 && sum == 1000, "{} kinds, {sum} requests", kinds.len());
}
