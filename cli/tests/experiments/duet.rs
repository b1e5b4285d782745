//! `duet` from the real binary, at the smallest size: plans become tables with goals.

use lab::duet::Findings;
use sys::signal::Signal;
use testkit::{PATIENCE, Process, has_uring, run};

use crate::{Room, root};

#[test]
fn a_stopped_duet_shows_what_is_known() {
    let room = Room::shared();
    let plan = root().join("experiments/duets/engines.toml").display().to_string();
    let words = ["duet", &plan, "--only", "epoll-edge", "--windows", "5", "--pairs", "99"];
    let mut duet = Process::start(&mut room.command(&words));
    duet.says("pair 1: ");
    duet.signal(Signal::INT);
    let stopped = duet.end(PATIENCE).exits(130);
    assert!(stopped.out.contains("CPU per request"), "{}", stopped.out);
}

#[test]
fn every_plan_of_duets_plays() {
    fn check(plan: &str, only: &str) {
        let room = Room::shared();
        let path = root().join("experiments/duets").join(plan).with_extension("toml");
        let mut command = room.command(&["duet", "--json", "--pairs", "1", "--windows", "1"]);
        command.args(["--window", "20ms", "--warmup", "10ms", "--only", only]).arg(path);
        // Commands of bare loops begin there; without a compiler they are skipped.
        let output = run(command.current_dir(root()));
        let found: Findings = serde_json::from_str(&output.out).expect("one JSON document");
        assert!(!found.figures.is_empty());
        // A plan of which nothing could be measured does not succeed.
        let is_measured = found.figures.iter().any(|figure| !figure.skipped);
        assert_eq!(output.code, Some(i32::from(!is_measured)), "{plan}: {}", output.err);
        for figure in &found.figures {
            // A server's part of the program's pages shrinks when other tests start the program.
            let least = if figure.is_ratio() { f64::MIN_POSITIVE } else { 0.0 };
            let fits = figure.value.is_some_and(|value| value >= least) || figure.skipped;
            assert!(fits, "{plan}: {figure:?}\n{}", output.err);
        }
    }
    check("engines", "epoll-edge,redis");
    check("echo", "reactor");
    check("idle", "select,bare-select");
    check("churn", "poll");
    if has_uring() {
        check("web", "nginx,bare-web");
    }
    check("web", "apache-prefork");
}

#[test]
fn a_plan_is_a_table_with_goals_and_its_exit_code_tells_them() {
    let plan = |goal: &str| {
        let room = Room::shared();
        let text = format!(
            "question = 'What?'\npairs = 6\nwindows = 1\nwindow = '10ms'\nwarmup = '5ms'\n\
             arms.gone = '/no/such/server'\n\
             [[arm]]\nengine = 'epoll'\n[[arm]]\nengine = 'poll'\n\
             [[point]]\nname = 'small'\nconnections = 2\nmix = 'buy=1'\n\
             [[duet]]\nleft = ['epoll', 'gone']\nright = 'poll'\ngoal = '{goal}'\n"
        );
        std::fs::write(room.path().join("plan.toml"), text).expect("the folder is writable");
        let output = room.run(&["duet", "plan.toml", "--out", "kept", "--label", "Commit 1."]);
        (output, room.text("kept/plan.md"), room.text("kept/plan.json"))
    };
    let (output, markdown, json) = plan(">= 0.0001");
    let shown = output.success().out;
    for want in ["small · CPU per request", "epoll / poll", ">= 0.0001", "reached"] {
        assert!(shown.contains(want), "expected `{want}` in\n{shown}");
    }
    assert!(shown.contains("skipped: gone / poll, small, CPU per request: the program"), "{shown}");
    let is_prose = |line: &&str| line.starts_with("skipped") || line.starts_with("doubt");
    let table = shown.lines().filter(|line| !is_prose(line));
    assert!(table.map(|line| line.chars().count()).max() <= Some(80), "{shown}");
    assert!(markdown.contains("Commit 1.") && markdown.contains("| epoll / poll | small |"));
    let kept: Findings = serde_json::from_str(&json).expect("one JSON document");
    assert_eq!(kept.figures[0].pairs.len(), 6);
    let (output, ..) = plan(">= 9999");
    assert_eq!(output.code, Some(99), "{}{}", output.out, output.err);
}

#[test]
fn a_plan_that_is_none_says_what_to_do() {
    fn check(words: &[&str], want: &str) {
        let room = Room::shared();
        let text = "arms.a = 'a'\narms.b = 'b'\n[[point]]\nname = 'x'\n\
                    [[duet]]\nleft = 'a'\nright = 'b'\n";
        std::fs::write(room.path().join("duets.toml"), text).expect("the folder is writable");
        std::fs::write(room.path().join("race.toml"), "arms.a = 'a'").expect("as above");
        room.run(words).exits(2).says(want);
    }
    check(&["duet"], "PLAN");
    check(&["duet", "no.toml"], "cannot read no.toml");
    check(&["duet", "race.toml"], "`race` runs other plans");
    check(&["race", "duets.toml"], "`roundhouse duet FILE`");
    check(&["duet", "duets.toml", "--only", "c"], "expected arms out of a, b, found `c`");
    check(&["duet", "duets.toml", "--quick", "--pairs", "3"], "cannot be used with");
}
