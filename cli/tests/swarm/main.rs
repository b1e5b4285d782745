//! `roundhouse swarm` under real Locust masters: the master reports the counts of the workers.
//!
//! The tests find masters in `ROUNDHOUSE_LOCUST` (paths of `locust`, separated by colons) or else
//! on the path; without one they report that and pass. Each test has its own master, market and
//! workers on free ports. Every wait has a limit.

mod stage;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use stage::{
    EXE, LOCUSTFILE, Master, Relay, Scene, Worker, field, free_ports, locusts, number, wait,
};
use sys::signal::Signal;
use testkit::{Folder, PATIENCE, Process, chromium};

/// The master's file has exactly the workers' counts; returns the number.
#[track_caller]
fn check_sums(master: &Master, workers: &[&Worker], test: u64) -> u64 {
    let sum = |key: &str| -> u64 {
        let counts = workers.iter().map(|worker| worker.account(test)[key].as_u64());
        counts.map(|count| count.expect("a number")).sum()
    };
    let rows = master.csv("/stats/requests/csv");
    let (total, rows) = rows.split_last().expect("a row of sums");
    assert_eq!(total.0, "Aggregated");
    for (heading, key) in [("Request Count", "requests"), ("Failure Count", "failures")] {
        let (said, counted) = (number(total, heading) as u64, sum(key));
        assert_eq!(said, counted, "test {test}: {heading} of {total:?}");
        let parts: f64 = rows.iter().map(|row| number(row, heading)).sum();
        assert_eq!(parts as u64, said, "{heading} of {rows:?}");
    }
    sum("requests")
}

/// Times have fractions of a millisecond: not all of several medians are whole numbers.
#[track_caller]
fn check_times(master: &Master) {
    let rows = master.csv("/stats/requests/csv");
    let medians: Vec<f64> = rows.iter().map(|row| number(row, "Median Response Time")).collect();
    assert!(medians.len() > 2, "a row for each command: {rows:?}");
    assert!(medians.iter().all(|&ms| ms > 0.0), "{medians:?}");
    assert!(medians.iter().any(|ms| ms.fract() != 0.0), "{medians:?}");
    let times = master.csv("/roundhouse/times.csv");
    let response = times.iter().find(|row| row.0 == "StockUser response").expect("a row");
    assert!(number(response, "p50") > 0.0 && number(response, "count") > 0.0, "{times:?}");
}

#[test]
fn two_workers_are_one_swarm_under_every_master() {
    let locusts = locusts();
    for locust in &locusts {
        let scene = Scene::new();
        let master = Master::start(locust);
        let mut workers = ["w1", "w2"].map(|name| Worker::start(master.port, name));
        let both = || workers.each_ref();
        master.wait_for_workers(2);
        master.swarm(8, &scene.market, "model=closed&think=2ms&depth=2&seed=7");
        master.wait_for_users(8);
        master.wait_for_requests(300);
        for users in [14, 3] {
            master.swarm(users, &scene.market, "");
            master.wait_for_users(users);
        }
        master.wait_for_requests(100);
        master.stop();
        assert!(check_sums(&master, &both(), 1) > 400);
        check_times(&master);
        for row in master.csv("/roundhouse/generator.csv") {
            assert_eq!(field(&row, "offered_per_s"), "–", "a closed loop offers no rate: {row:?}");
        }

        master.wait_for_workers(2);
        master.swarm(10, &scene.market, "model=open&rate_per_user=20&depth=1&connections=4");
        master.wait_for_users(10);
        master.wait_for_requests(300);
        let generators = master.csv("/roundhouse/generator.csv");
        assert_eq!(generators.len(), 2, "{generators:?}");
        for row in &generators {
            assert_eq!(field(row, "model"), "open");
            assert_eq!(number(row, "offered_per_s"), 100.0, "5 users of 20 a second: {row:?}");
        }
        master.stop();
        assert!(check_sums(&master, &both(), 2) > 300);
        check_times(&master);
        // A browser is slow, so it opens the newest master only.
        if locusts.last() == Some(locust) {
            check_page(&master);
        }
        let exceptions: serde_json::Value = serde_json::from_str(&master.get("/exceptions"))
            .expect("the page's exceptions are JSON");
        assert_eq!(exceptions["exceptions"], serde_json::json!([]));

        master.process.signal(Signal::TERM);
        for worker in &mut workers {
            assert_eq!(worker.wait_for_end(), Some(0), "{}", worker.process.said());
        }
    }
}

/// The page has our fields, and a browser shows our numbers on it.
fn check_page(master: &Master) {
    let page = master.get("/");
    for field in ["model", "rate_per_user", "depth", "mix", "seed", "think"] {
        assert!(page.contains(&format!("\"{field}\"")), "expected the field {field} in {page}");
    }
    // Locust answers what its page asks for from a cache of two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let rows = master.csv("/stats/requests/csv");
    let total = rows.last().expect("a row of sums");
    let Some(shown) = browse(master, "stats") else { return };
    for text in ["STOCK", "Aggregated", field(total, "Request Count"), "Generator", "Times"] {
        assert!(shown.contains(&format!(">{text}<")), "expected {text} in {shown}");
    }
    let shown = browse(master, "generator").expect("it was there before");
    for text in ["w1 / StockUser", "w2 / StockUser", "Verdict", "open"] {
        assert!(shown.contains(&format!(">{text}<")), "expected {text} in {shown}");
    }
}

/// A tab as a browser shows it, as text of its elements; a picture is left in the target
/// directory. `None` where there is no browser.
fn browse(master: &Master, tab: &str) -> Option<String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let picture = target.join(format!("swarm-{tab}.png"));
    let _ = std::fs::remove_file(&picture);
    let (program, profile) = (chromium()?, Folder::new());
    let url = format!("http://{}/?tab={tab}", master.web);
    let run = |what: &str| {
        let mut command = Command::new(&program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--window-size=1500,700", "--virtual-time-budget=8000"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        Process::start(command.args([what, &url])).end(PATIENCE).out
    };
    // A browser on a busy machine may give up once.
    let shown = wait("the browser shows the page", || {
        Some(run("--dump-dom")).filter(|shown| shown.contains(">Aggregated<") || tab != "stats")
    });
    run(&format!("--screenshot={}", picture.display()));
    let size = std::fs::metadata(&picture).map_or(0, |file| file.len());
    assert!(size > 10_000, "expected a picture at {}, found {size} bytes", picture.display());
    Some(shown)
}

#[test]
fn a_killed_worker_is_missed_and_the_rest_goes_on() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let master = Master::start(&locust);
    let (mut killed, left) = (Worker::start(master.port, "w1"), Worker::start(master.port, "w2"));
    master.wait_for_workers(2);
    master.swarm(6, &scene.market, "think=2ms");
    master.wait_for_users(6);
    master.wait_for_requests(50);
    killed.process.kill();
    master.wait_for("the killed worker is missed", |stats| {
        let workers = stats["workers"].as_array().expect("workers");
        workers.iter().any(|worker| worker["id"] == "w1" && worker["state"] == "missing")
    });
    master.wait_for_requests(50);
    master.stop();
    master.wait_for_workers(1);
    master.swarm(6, &scene.market, "think=2ms");
    master.wait_for_users(6);
    master.wait_for_requests(50);
    master.stop();
    check_sums(&master, &[&left], 2);
    assert_eq!(left.account(2)["users_max"], 6, "all users of the second test");
}

#[test]
fn a_frozen_worker_comes_back_by_itself() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let master = Master::start(&locust);
    let workers = ["w1", "w2"].map(|name| Worker::start(master.port, name));
    master.wait_for_workers(2);
    master.swarm(6, &scene.market, "think=2ms");
    master.wait_for_users(6);
    workers[0].process.signal(Signal::STOP);
    master.wait_for_workers(1);
    workers[0].process.signal(Signal::CONT);
    master.wait_for_workers(2);
    master.wait_for_users(6);
    master.wait_for_requests(50);
    master.stop();
    check_sums(&master, &workers.each_ref(), 1);
}

#[test]
fn a_master_that_was_killed_finds_its_workers_when_it_is_back() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let master = Master::start(&locust);
    let mut workers = ["w1", "w2"].map(|name| Worker::start(master.port, name));
    master.wait_for_workers(2);
    let master = master.again();
    master.wait_for_workers(2);
    master.swarm(4, &scene.market, "think=2ms");
    master.wait_for_users(4);
    master.wait_for_requests(50);
    master.stop();
    check_sums(&master, &workers.each_ref(), 1);
    workers[0].process.signal(Signal::TERM);
    assert_eq!(workers[0].wait_for_end(), Some(0));
    master.wait_for_workers(1);
}

#[test]
fn over_a_connection_that_falls_silent_nothing_is_lost() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let master = Master::start(&locust);
    let relay = Relay::new(SocketAddr::from(([127, 0, 0, 1], master.port)));
    // The other worker keeps the test alive in the meantime.
    let other = Worker::start(master.port, "w1");
    let worker = Worker::start_with(relay.port, "w2", &["--silence", "5s"]);
    master.wait_for_workers(2);
    master.swarm(4, &scene.market, "think=2ms");
    master.wait_for_users(4);
    master.wait_for_requests(50);
    relay.cut();
    wait("the worker notices", || worker.process.said().contains("silent").then_some(()));
    wait("it is known again", || {
        (worker.process.said().matches("known to the master").count() > 1).then_some(())
    });
    master.wait_for_workers(2);
    master.wait_for_users(4);
    master.wait_for_requests(50);
    master.stop();
    check_sums(&master, &[&other, &worker], 1);
}

#[test]
fn what_makes_no_sense_is_told_on_the_page() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let master = Master::start(&locust);
    let worker = Worker::start(master.port, "w1");
    master.wait_for_workers(1);
    master.swarm(2, &scene.market, "mix=foo");
    wait("the reason is told", || {
        master.get("/exceptions").contains("expected a mix").then_some(())
    });
    master.stop();
    let [nobody, _] = free_ports();
    master.wait_for_workers(1);
    master.swarm(2, &format!("stock://127.0.0.1:{nobody}"), "mix=buy=1");
    wait("the reason is told", || {
        let told = master.get("/exceptions") + &master.get("/stats/requests");
        told.to_lowercase().contains("refused").then_some(())
    });
    master.stop();
    check_sums(&master, &[&worker], 2);
}

#[test]
fn a_run_without_a_page_ends_by_itself_with_files() {
    let Some(locust) = locusts().pop() else { return };
    let scene = Scene::new();
    let folder = Folder::new();
    let [port, _] = free_ports();
    let mut worker = Worker::start(port, "w1");
    let mut command = Command::new(locust);
    command.args(["--master", "--headless", "-f", LOCUSTFILE, "StockUser", "--think", "2ms"]);
    command.args(["--master-bind-host", "127.0.0.1", "--master-bind-port", &port.to_string()]);
    command.args(["--expect-workers", "1", "-u", "4", "-r", "4", "-t", "6s", "--csv", "out"]);
    command.args(["--host", &scene.market]).current_dir(folder.path());
    testkit::run(&mut command).success();
    assert_eq!(worker.wait_for_end(), Some(0), "{}", worker.process.said());
    assert!(worker.account(1)["requests"].as_u64() > Some(0), "{}", worker.name);
    for file in ["out_stats.csv", "out_generator.csv", "out_times.csv"] {
        let text = folder.text(file);
        assert!(text.lines().count() > 1, "{file}: {text}");
    }
}

#[test]
fn a_worker_without_a_master_says_what_to_do() {
    let [nobody, _] = free_ports();
    let mut worker = Worker::start_with(nobody, "w1", &["--patience", "1s"]);
    assert_eq!(worker.wait_for_end(), Some(1));
    wait("the reason", || worker.process.said().contains("--master").then_some(()));
    testkit::run(Command::new(EXE).args(["swarm", "--master", "a:b"])).exits(2);
}
