//! `race` and `duet`, their plans and their reports.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use sys::signal::Signal;
use testkit::{Ended, PATIENCE, Process, run};

use crate::{BINARY, Room, root};

const SMALL: [&str; 8] =
    ["--blocks", "1", "--depths", "1,4", "--window", "50ms", "--warmup", "20ms"];

impl Room {
    /// Runs a race at its smallest size.
    #[track_caller]
    fn race(&self, words: &[&str]) -> Ended {
        self.run(&[&["race"], words, &SMALL[..]].concat())
    }

    /// The first race in its file of raw data.
    #[track_caller]
    fn raced(&self) -> lab::record::Run {
        lab::record::read(&self.path().join("report.jsonl")).expect("raw data").remove(0)
    }
}

#[test]
fn a_race_writes_its_report_and_an_arm_that_is_refused_has_its_row() {
    let room = Room::shared();
    let steam = ["--arm", "steam=@epoll --framing fixed:10"];
    let arms = ["stock", "--full", "--arms", "iterative,epoll"];
    let Ended { out: said, err: told, .. } = room.race(&[&arms[..], &steam].concat()).success();
    for want in ["depth 1", "depth 4", "iterative", "(twin)", "steam: not measured: ", "fixed:10"] {
        assert!(said.contains(want), "expected `{want}` in\n{said}\n{told}");
    }
    let run = room.raced();
    let measured = run.trials.iter().filter_map(|trial| trial.result());
    for load in measured.clone() {
        let check = load.checked().expect("the market's books are compared");
        assert!(check.ok && load.requests > 0, "{load:?}");
        assert!(load.server.is_some() && load.generator.is_some(), "{load:?}");
    }
    assert_eq!(measured.count(), 6, "two arms and a twin at two depths");
    let page = room.text("report.html");
    assert!(page.contains("Verdict against epoll") && page.len() < 4_000_000);
}

#[test]
fn every_server_has_its_place_in_the_shortest_race() {
    let room = Room::shared();
    room.run(&["race", "--blocks", "1", "--warmup", "50ms", "--window", "100ms"]).success();
    assert!(!room.text("report.html").is_empty() && !room.text("report.jsonl").is_empty());
}

#[test]
fn a_service_of_ones_own_is_raced_on_its_engines() {
    let room = Room::shared();
    let service = format!("{BINARY} serve stock");
    let own = ["--service", &service, "--target", "line://{address}"];
    let own = [&own[..], &["--request", "sell 1 1", "--engines", "epoll,thread"]].concat();
    let said = room.race(&[&own[..], &["--load", "--expect-prefix ["]].concat()).success().out;
    for want in ["depth 4", "thread  "] {
        assert!(said.contains(want), "expected `{want}` in\n{said}");
    }
    assert!(room.text("report.html").contains("best: epoll or thread?"));
    room.race(&[&own[..], &["--engines", "epol"]].concat()).exits(2).says("did you mean epoll?");
    // Its protocol is found out; without a service the engines are raced on the market.
    let asked = room.run(&["race", "--service", &service, "--dry-run"]).success();
    asked.says("the service speaks the stock market");
    let engines = room.run(&["race", "--engines", "poll", "--dry-run"]).success().out;
    assert!(engines.contains("serve stock") && engines.contains("--engine poll"), "{engines}");

    // The program itself starts the race.
    let Some(hello) = testkit::example("hello") else { return };
    let mut itself = std::process::Command::new(hello);
    itself.args(["race", "--target", "line://{address}", "--request", "a", "--engines", "epoll"]);
    let folder = Path::new(BINARY).parent().expect("a file is in a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = run(itself.args(SMALL).env("PATH", path).current_dir(room.path()));
    output.success();
    assert!(room.text("report.html").contains("hello"), "the command is in the question");
}

#[test]
fn a_second_race_is_appended_and_json_is_one_document() {
    let room = Room::shared();
    for _ in 0..2 {
        let said = room.race(&["--arms", "epoll", "--no-twin", "--json", "--out", "kept"]).out;
        let json: lab::verdict::Summary = serde_json::from_str(&said).expect("one JSON document");
        assert_eq!(json.points.len(), 2);
        assert_eq!(json.broken, Vec::<String>::new());
    }
    let runs = lab::record::read(&room.path().join("kept/report.jsonl")).expect("the raw data");
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].manifest.plan_hash, runs[1].manifest.plan_hash);
}

/// Answers `success` to every order and always shows the same book.
fn lie(client: TcpStream) -> io::Result<()> {
    for line in BufReader::new(client.try_clone()?).lines() {
        let reply = match line?.split(' ').next() {
            Some("show") | None => "1 1000 5\n\n".to_owned(),
            Some(side) => format!("[{side}] success\n"),
        };
        (&client).write_all(reply.as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_server_that_lies_about_its_books_makes_the_race_fail_loudly() {
    let room = Room::shared();
    let address = testkit::listen(lie);
    // The lab watches and stops that process; the false replies come from this one.
    let arm = format!(r#"liar=sh -c 'echo "{{\"listening\":\"{address}\"}}"; exec sleep 60'"#);
    let words = ["--arms", "epoll", "--arm", &arm, "--mix", "buy=1", "--vs", "epoll"];
    room.race(&words).exits(1).says("MODEL CHECK FAILED: liar, depth 1, block 1");
    assert!(room.text("report.html").contains("The speeds below must not be used"));
}

#[test]
fn a_server_of_the_course_is_reached_by_its_framing() {
    let room = Room::shared();
    let flags = "--port {port} --data {dir}/stock.txt --framing fixed:8192";
    let mine = format!("mine=sh -c 'exec {BINARY} serve stock {flags}'");
    let words = ["--arms", "epoll", "--arm", &mine, "--no-twin"];
    let said = room.race(&[&words[..], &["--framing", "fixed:8192"]].concat()).success().out;
    assert!(!said.contains("not measured"), "{said}");
    let other = Room::shared();
    // A probe of a silent server takes ten seconds.
    let one_point = SMALL.map(|word| if word == "1,4" { "1" } else { word });
    other
        .run(&[&["race"], &words[..], &one_point].concat())
        .exits(2)
        .says("mine cannot be raced")
        .says("--framing mine=fixed:8192");
}

/// A plan of every kind of load point, as small as they get.
const EVERY_KIND: &str = r#"
question = "Does every load point work?"
blocks = 1
twin = false
warmup = "20ms"
window = "60ms"
[[arm]]
engine = "epoll"
[[arm]]
name = "edge"
engine = "epoll"
args = ["--edge"]
[[point]]
connections = [1, 2, 4]
requests_per_connection = 64
[[point]]
rate = 0.2
[[point]]
overload = 1.5
[[point]]
promise = "p50 < 1s"
resolution = 0.9
[[point]]
idle = 50
[[point]]
name = "churn"
requests_per_connection = 1
connections = 2
"#;

#[test]
fn a_plan_file_runs_every_kind_of_load_point() {
    let room = Room::shared();
    std::fs::write(room.path().join("plan.toml"), EVERY_KIND).expect("the room is writable");
    let said = room.run(&["race", "plan.toml"]).success().out;
    let run = room.raced();
    assert!(run.finished && run.pilots.len() == 2, "{:?}", run.pilots);
    assert_eq!(run.trials.len(), 16, "eight load points and two arms");
    for trial in &run.trials {
        let load = trial.result().unwrap_or_else(|| panic!("{trial:?}"));
        assert!(load.requests_total > 0, "{trial:?}");
        let cost = trial.seen.cost.as_ref().expect("every server is watched");
        assert!(cost.user_ns + cost.system_ns > 0, "{trial:?}");
    }
    let of = |kind: &str| {
        let found = run.trials.iter().find(|trial| trial.point.contains(kind));
        found.unwrap_or_else(|| panic!("no {kind}")).seen.clone()
    };
    assert!(of("of the slowest").offered_rps.is_some_and(|rate| rate > 1.0));
    let idle = of("idle").idle.expect("idle connections");
    assert_eq!((idle.opened, idle.kept), (50, 50), "{idle:?}");
    let recovery = of("overload").recovery.expect("an overload");
    assert!(recovery.kept_share.is_some_and(|share| share > 0.0), "{recovery:?}");
    let search = of("p50 < 1s").search.expect("a search");
    assert!(!search.probes.is_empty(), "{search:?}");
    assert!(said.contains("closed sweep"), "{said}");
}

#[test]
fn a_race_that_was_stopped_goes_on_and_can_be_drawn_again() {
    let room = Room::shared();
    let size = ["--blocks", "2", "--depths", "1", "--window", "50ms", "--warmup", "20ms"];
    let words = [&["race", "--arms", "epoll,iterative", "--no-twin"], &size[..]].concat();
    let mut race = Process::start(&mut room.command(&words));
    // The second block begins when two trials are there.
    race.says("block 2");
    race.signal(Signal::INT);
    let stopped = race.end(PATIENCE);
    let raw = room.path().join("report.jsonl");
    let before = lab::record::read(&raw).expect("raw data");
    let told = &room.run(&words).success().err;
    let after = lab::record::read(&raw).expect("raw data");
    let counted = after[0].trials.len();
    if !before[0].finished {
        assert_eq!(stopped.code, Some(130), "{}", stopped.err);
        assert!(told.contains("going on with the race of"), "{told}");
        assert_eq!((after.len(), after[0].resumed.len(), counted), (1, 1, 4));
    }
    assert!(after[0].finished);

    let files = ["--md", "r.md", "--json", "r.json", "--junit", "r.xml"];
    let words = [&["report", "--html", "r.html", "--run", "1"], &files[..]].concat();
    room.run(&words).success();
    for (file, want) in [
        ("r.md", "## depth 1"),
        ("r.json", "\"roundhouse.report/1\""),
        ("r.xml", "<testsuite "),
        ("r.html", "epoll"),
    ] {
        assert!(room.text(file).contains(want), "{file}");
    }
    room.run(&["race", "report.jsonl", "--out", "second"]).success();
    assert!(room.text("second/report.html").contains("iterative"));
}

#[test]
fn a_planted_difference_is_found_and_fails_the_build() {
    let room = Room::shared();
    let arm = |name: &str, flags: &str| {
        format!("{name}={BINARY} serve stock --port 0 --data {{dir}}/stock.txt --engine {flags}")
    };
    let (quick, slow) = (arm("quick", "epoll"), arm("slow", "iterative"));
    let words = ["race", "--arm", &quick, "--arm", &slow, "--blocks", "6", "--depths", "1"];
    let size = ["--window", "80ms", "--warmup", "20ms", "--connections", "4"];
    let fail = ["--fail-if", "slow rps < 0.95x quick", "--fail-if", "slow rps > 1.5x quick"];
    let output = room.run(&[&words[..], &size[..], &fail[..]].concat());
    let told = &output.err;
    let (mut ratios, run) = (Vec::new(), room.raced());
    assert_eq!(run.manifest.plan.baseline, "quick", "the first arm is the baseline");
    for block in 0..6 {
        let rate = |arm: &str| {
            let mine = run.trials.iter().find(|it| it.arm == arm && it.block == block);
            mine.and_then(|trial| trial.result()).map(|load| load.throughput_rps)
        };
        ratios.extend(rate("slow").zip(rate("quick")).map(|(slow, quick)| slow / quick));
    }
    // On a busy machine a block may have the opposite sign. If all blocks agree, the exit code must
    // agree too.
    if ratios.len() == 6 && ratios.iter().all(|ratio| *ratio < 0.95) {
        assert_eq!(output.code, Some(99), "{ratios:?}\n{told}");
        assert!(told.contains("FAILED: slow rps < 0.95x quick at depth 1"), "{told}");
    } else {
        assert_ne!(output.code, Some(1), "{ratios:?}\n{told}");
    }
}

/// The shipped plans resolve. The plan that would have to build a Go program first is covered by
/// the tests of its arms.
#[test]
fn every_shipped_plan_is_one() {
    let room = Room::shared();
    let mut seen = 0;
    let plans = std::fs::read_dir(root().join("experiments")).expect("it is in the repository");
    for path in plans.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let told = std::fs::read_to_string(&path).expect("it can be read");
        if told.contains("\"go\"") {
            continue;
        }
        let words = ["race", path.to_str().expect("a path of ours"), "--dry-run"];
        let Ended { out: said, err: told, .. } = room.run(&words).success();
        assert!(said.contains("load points") && said.contains("blocks · "), "{said}");
        let plan = path.display();
        assert!(!told.contains("doubt: "), "{plan}: no verdict could be reached: {told}");
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} plans were found");
    assert!(!room.path().join("report.jsonl").exists(), "a dry run writes nothing");
}

#[test]
fn the_doctor_looks_at_everything() {
    let room = Room::shared();
    let said = room.run(&["doctor", "--quick", "--json"]).out;
    let found: serde_json::Value = serde_json::from_str(&said).expect("one JSON document");
    assert_eq!(found["schema"], "roundhouse.doctor/1");
    assert!(found["checks"].as_array().is_some_and(|checks| checks.len() > 15), "{found}");
}

#[test]
fn plans_that_make_no_sense_are_usage_errors() {
    fn check(words: &[&str], want: &str) {
        let room = Room::shared();
        std::fs::write(room.path().join("plan.toml"), "arms.a = 'a'").expect("a folder");
        room.run(words).exits(2).says(want);
    }
    check(&["race", "--vs", "steam"], "expected the baseline to be one of iterative, fork");
    check(&["race", "--blocks", "0"], "expected 1 block or more");
    check(&["race", "--arm", "nothing"], "expected NAME=COMMAND");
    check(&["race", "nowhere"], "expected stock, web, echo, a plan (FILE.toml)");
    check(&["race", "nowhere.toml"], "cannot read nowhere.toml");
    check(&["race", "--fail-if", "steam p99 > 2x epoll"], "expected an arm out of iterative");
    check(&["race", "plan.toml", "--depths", "1"], "--depths has no effect on plan.toml");
    check(&["race", "plan.toml", "--full"], "--full has no effect on plan.toml");
    check(&["race", "plan.jsonl", "--arms", "epoll"], "--arms has no effect on plan.jsonl");
    check(&["race", "--arms", "epol"], "found `epol`; did you mean epoll?");
    check(&["race", "--arm", "x=@preforc --workers 2"], "did you mean prefork?");
    check(&["race", "--framing", "x=eof"], "expected --framing of one of iterative");
    check(&["race", "web", "--framing", "eof"], "leave it out of this race");
    check(&["race", "--fail-if", "quick"], "no comparison");
    check(&["race", "--budget", "1ms"], "the length of one block");
    check(&["race", "web", "--arms", "redis,tokio"], "tokio does not serve web");
    check(&["ab", "127.0.0.1:1", "true"], "found none on this machine");
    check(&["ab", "true", "true"], "ended before it was ready (exit 0)");
    check(&["ab", "sleep 9", "sleep 9", "index.html"], "expected /PATH or SCHEME://");
    check(&["tune", "pge"], "did you mean page?");
    check(&["tune", "page", "--slo", "mean < 5ms"], "expected one percentile");
    check(&["tune", "page", "--rate", "0"], "expected a rate above 0");
    check(&["tune", "page", "--servers", "epol"], "expected servers that fit this load");
    check(&["tune", "page", "--preset", "caddy"], "expected nginx, apache-worker");
    check(&["tune", "http://localhost/"], "expected --slo");
}

#[test]
fn a_tune_shows_its_plan() {
    let out = Room::shared().run(&["tune", "downstream", "--dry-run"]).success().out;
    assert!(out.contains("p99 < 40ms") && out.contains("  thread\n"), "{out}");
}
