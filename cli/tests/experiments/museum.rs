//! Exhibits of which a busy machine changes no finding, each at its smallest size, from the real
//! binary: web servers are counted, and a client that finds a queue full waits for a timer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sys::process::Pid;
use sys::signal::Signal;
use testkit::{Ended, PATIENCE, Process, eventually, locust, skip};

use crate::Room;

/// Longer than any exhibit at these sizes takes on a machine with other things to do.
const LONGEST: Duration = Duration::from_secs(240);

/// Tries of an exhibit until its artefact shows. A busy machine can stall for a whole window; three
/// stalls in a row are a fault.
const VISITS: usize = 3;

/// The range of a finding's value.
pub type Wanted<'a> = (&'a str, f64, f64);

impl Room {
    fn start(&self, words: &str) -> Process {
        let mut command = self.command(&["museum"]);
        command.args(words.split_whitespace()).env_remove("ROUNDHOUSE_MAPS");
        Process::start(&mut command)
    }

    pub fn museum(&self, words: &str) -> Ended {
        self.start(words).end(LONGEST)
    }

    /// Runs an exhibit and returns what `--json` says.
    pub fn visit(&self, words: &str) -> Value {
        let Ended { out, err, .. } = self.museum(&format!("{words} --json")).success();
        println!("{err}");
        let found: Value = serde_json::from_str(&out).expect("one JSON document on stdout");
        assert_eq!(found["schema"], "roundhouse.museum/3");
        assert_eq!(found["interrupted"], false);
        found
    }

    /// The rows of that kind in the raw file of an exhibit.
    pub fn rows(&self, exhibit: &str, kind: &str) -> Vec<Value> {
        let raw = self.text(&format!("museum-{exhibit}.jsonl"));
        let rows = raw.lines().map(|it| serde_json::from_str::<Value>(it).expect("JSON lines"));
        rows.filter(|row| row["row"] == kind).collect()
    }

    /// Visits until every wanted value is there.
    pub fn shows(&self, words: &str, wanted: &[Wanted<'_>]) -> Value {
        let mut missed = Vec::new();
        for _ in 0..VISITS {
            let found = self.visit(words);
            let off: Vec<String> = wanted.iter().filter_map(|it| off(&found, it)).collect();
            if off.is_empty() {
                return found;
            }
            missed.push(off.join("; "));
        }
        panic!("{words}: {missed:#?}");
    }
}

/// The deviation of a finding from its range, if any.
fn off(visit: &Value, &(name, low, high): &Wanted<'_>) -> Option<String> {
    let findings = visit["findings"].as_array().expect("findings");
    let found = findings.iter().find(|it| it["name"] == name);
    match found.and_then(|it| it["value"].as_f64()) {
        Some(value) if (low..=high).contains(&value) => None,
        other => Some(format!("{name}: expected {low} to {high}, found {other:?}")),
    }
}

#[test]
fn exhibits_are_listed_with_how_long_they_take() {
    let room = Room::shared();
    let told = room.museum("").success().out;
    for want in ["think-time", "staircase", "accept-queue", "workload", "stock-lock", " min"] {
        assert!(told.contains(want), "expected `{want}` in\n{told}");
    }
    let json = room.museum("--json --scale 0.1").success().out;
    let rows: Vec<Value> = serde_json::from_str(&json).expect("a JSON list");
    assert!(rows.len() >= 5 && rows.iter().all(|row| row["seconds"].as_f64() > Some(1.0)));
    room.museum("mona-lisa").exits(2).says("expected one of think-time");
    assert_eq!(room.museum("staircase --scale 2").code, Some(2));
}

#[test]
fn a_client_that_finds_the_queue_full_waits_for_a_timer() {
    let room = Room::shared();
    // Of 40 clients of a stopped server, a queue of 10 makes 29 retry, one of 4096 none.
    let wanted = [("turned-away", 8.0, 40.0), ("kernel-counted", 1.0, 1e9), ("let-in", 0.0, 7.0)];
    let found = room.shows("accept-queue --scale 0.02 --clients 40 --blocks 1", &wanted);
    let facts = found["facts"].to_string();
    assert!(facts.contains("15.4 ms for each client"), "the delay is printed: {facts}");
}

/// Whether Apache is installed; reports why its part is left out.
fn has_apache() -> bool {
    let found = peers::apache::is_here();
    if let Err(why) = &found {
        println!("{why}");
        skip("apache2");
    }
    found.is_ok()
}

/// The rows about a web server and its clients.
fn met(room: &Room, exhibit: &str) -> Vec<Value> {
    room.rows(exhibit, "web")
}

/// Requests that the servers of that name answered.
fn answered(rows: &[Value], server: &str) -> u64 {
    let mine =
        rows.iter().filter(|row| row["server"].as_str().is_some_and(|it| it.contains(server)));
    mine.filter_map(|row| row["run"]["load"]["requests_total"].as_u64()).sum()
}

#[test]
fn servers_that_join_and_a_client_without_descriptors_are_kept_apart() {
    let room = Room::shared();
    let found = room.visit("three-servers --quick");
    let rows = met(&room, "three-servers");
    assert!(answered(&rows, "ours, epoll") > 0, "{rows:#?}");
    if found["doubts"].to_string().contains("No python3") {
        return skip("python3");
    }
    // As listed no reply is valid, and one server ends none at all.
    assert_eq!(off(&found, &("never-ends", 0.0, 0.0)), None);
    let holds = |name: &str| {
        let findings = found["findings"].as_array().expect("findings");
        findings.iter().any(|it| it["name"] == name && it["came_out"] == "yes")
    };
    assert!(holds("invalid"), "{}", found["findings"]);
    assert!(room.text("museum-three-servers.html").contains("one process"));
    if locust().is_some() {
        let runs = room.rows("three-servers", "locust");
        // In a second on a busy machine its users may send nothing; their count is there.
        assert!(runs.iter().all(|row| row["run"]["requests"].is_u64()), "{runs:#?}");
        assert!(!runs.is_empty());
    }
}

/// Both exhibits about computing: every server has answered and logged its times.
fn computes(room: &Room, exhibit: &str) {
    let facts = room.visit(&format!("{exhibit} --quick"))["facts"].to_string();
    assert!(facts.contains("1/200"), "the scale is printed: {facts}");
    let rows = met(room, exhibit);
    let real = has_apache().then_some("Apache, prefork");
    for server in ["ours, processes", "ours, threads"].into_iter().chain(real) {
        assert!(answered(&rows, server) > 0, "{exhibit}, {server}: {rows:#?}");
    }
    let is_noted = |row: &Value| row["run"]["inside"]["count"].as_u64() >= Some(1);
    assert!(rows.iter().all(is_noted), "{exhibit}: {rows:#?}");
}

#[test]
fn servers_that_compute_longer_follow_a_division() {
    let room = Room::shared();
    computes(&room, "computing-time");
    let page = room.text("museum-computing-time.html");
    for want in ["1200 s / computing", "600", "Journal of KISS"] {
        assert!(page.contains(want), "expected `{want}` in the page");
    }
}

#[test]
fn servers_that_compute_for_many_follow_a_division() {
    computes(&Room::shared(), "concurrent-clients");
}

/// Both exhibits about spare threads: they were counted, and their server has answered.
fn counts(exhibit: &str) {
    let room = Room::shared();
    let visit = room.visit(&format!("{exhibit} --quick"));
    let rows = met(&room, exhibit);
    let told = visit["flawed"]["numbers"]["rows"].as_array().expect("a table");
    assert!(rows.len() >= 2 && !told.is_empty(), "{exhibit}: {rows:#?}");
    for row in rows {
        let looks = row["run"]["churn"]["looks"].as_array().expect("looks");
        let threads = looks.iter().filter_map(|it| it[2].as_u64()).max();
        let is_served = row["run"]["load"]["requests_total"].as_u64() >= Some(1);
        assert!(threads >= Some(50) && is_served, "{exhibit}: {row}");
    }
}

#[test]
fn spare_threads_of_directives_are_counted() {
    counts("directives");
}

#[test]
fn spare_threads_that_come_and_go_are_counted() {
    counts("spare-band");
}

#[test]
fn switches_of_processes_and_threads_are_counted_apart() {
    let room = Room::shared();
    room.visit("mixes --quick --md kept.md");
    let rows = met(&room, "mixes");
    let count = |server: &str, whose: &str| -> u64 {
        let mine = rows.iter().filter(|row| row["server"] == server);
        mine.filter_map(|row| row["run"]["switches"][whose].as_u64()).sum()
    };
    assert!(count("ours, prefork", "processes") > 0 && count("ours, worker", "threads") > 0);
    let prefork = ["threads", "processes"].map(|whose| count("ours, prefork", whose));
    assert!(prefork[0] < prefork[1], "a process of ours has one thread: {prefork:?}");
    if has_apache() {
        assert!(count("Apache, worker", "threads") > 0, "{rows:#?}");
        assert!(rows.iter().any(|row| row["run"]["rest_switches"].as_u64() > Some(0)));
    }
    assert!(room.text("museum-mixes.html").contains("50,902"));
    let kept = room.text("kept.md");
    for want in ["# Static and dynamic documents", "| 100 | 50,902 | 50,214 | 31,068 | 0.02 |"] {
        assert!(kept.contains(want), "expected `{want}` in\n{kept}");
    }
}

#[test]
fn a_kept_run_is_judged() {
    let room = Room::shared();
    let words = "staircase --scale 0.02 --clients 11,20 --report kept/museum-staircase.html";
    room.museum(words).exits(0);
    // A machine with other tests is not quiet: then nothing is a claim.
    let judged = room.museum("verify kept --out kept");
    assert!([Some(0), Some(98)].contains(&judged.code), "{}", judged.err);
    for want in ["Five documents", "The staircase", "CSE4100", "museum-staircase.jsonl"] {
        assert!(room.text("kept/index.html").contains(want), "{want}");
        assert!(room.text("kept/README.md").contains(want), "{want}");
    }
    let again = room.museum("verify kept --json");
    assert_eq!(again.code, judged.code, "{}", again.err);
    let rows: Vec<Value> = serde_json::from_str(&again.out).expect("a JSON list");
    assert_eq!((&rows[0]["exhibit"], rows.len()), (&"staircase".into(), 1));
    assert!(rows[0]["published"]["source"].to_string().contains("CSE4100"));
    room.museum("verify nowhere").exits(1);
    room.museum("path-ladder --clients 3").exits(2).says("none of its variables");
}

#[test]
fn an_interrupted_visit_shows_its_results_and_leaves_no_process() {
    let room = Room::shared();
    let mut visit = room.start("staircase --clients 11 --json");
    let pid = visit.pid();
    eventually("its server is up", PATIENCE, || !processes(pid).is_empty());
    visit.signal(Signal::INT);
    let ended = visit.end(LONGEST);
    let found: Value = serde_json::from_str(&ended.out).expect("a document all the same");
    assert_eq!((ended.code, &found["interrupted"]), (Some(130), &true.into()));
    assert!(room.text("museum-staircase.html").contains("stopped before its end"));
    eventually("no process is left", PATIENCE, || processes(pid).is_empty());
    let folder = fs::read_dir(std::env::temp_dir()).expect("it is there").flatten();
    let left = folder.map(|it| it.path()).find(|it| it.to_string_lossy().starts_with(&place(pid)));
    assert_eq!(left, None, "its files are gone");
}

/// The path of the directory in which that process keeps its files, but for its random end.
fn place(pid: Pid) -> String {
    std::env::temp_dir().join(format!("roundhouse-museum-{pid}-")).display().to_string()
}

/// Command lines of processes in the directory of that process.
fn processes(pid: Pid) -> Vec<String> {
    let place = place(pid);
    let all = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let lines = all.filter_map(|it| fs::read(Path::new(&it.path()).join("cmdline")).ok());
    let lines = lines.map(|it| String::from_utf8_lossy(&it).replace('\0', " "));
    lines.filter(|line| line.contains(&place)).collect()
}
