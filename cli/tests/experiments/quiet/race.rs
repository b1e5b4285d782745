//! Verdicts of `race` that a busy machine would change.

use testkit::{Ended, has};

use crate::Room;

#[test]
fn servers_in_turn_are_answered_in_one_sentence() {
    let room = Room::shared();
    let words = ["race", "--arms", "epoll,select,iterative", "--blocks", "6", "--depths", "1,16"];
    let size = ["--window", "20ms", "--warmup", "5ms"];
    let Ended { out: said, err: told, .. } = room.run(&[&words[..], &size[..]].concat()).success();
    let answer = said.split("\n\n").next().unwrap_or_default();
    assert!(answer.contains("epoll") && answer.ends_with('.'), "{said}\n{told}");
    for line in said.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let run = lab::record::read(&room.path().join("report.jsonl")).expect("the raw data").remove(0);
    assert_eq!(run.trials.len(), 6 * 2 * 4, "three arms and a twin at two depths");
    let answer = lab::verdict::analyse(&run).answer;
    for cost in &answer.costs {
        assert_eq!(cost.ranks.len(), 3, "{cost:?}");
        assert!(cost.ranks.windows(2).all(|it| it[0].over_baseline.0 <= it[1].over_baseline.0));
    }
    let room_of = |arm: &str| answer.rooms.iter().find(|it| it.arm == arm).expect("it has a row");
    assert_eq!((room_of("epoll").answered, room_of("epoll").wanted), (100.0, 100));
    // One client at a time: the first silent one keeps the server.
    assert!(room_of("iterative").answered <= 1.0, "{:?}", answer.rooms);
    for trial in &run.trials {
        let load = trial.result().unwrap_or_else(|| panic!("{:?}", trial.ending));
        assert!(load.checked().is_some_and(|check| check.ok) && trial.exit_clean, "{trial:?}");
    }
    let page = room.text("report.html");
    assert!(page.contains("Verdict against epoll"));
}

/// Whether the kernel lets this user count what a program allocates.
fn allocations_count() -> bool {
    let tree = meter::TreeCost::read(std::process::id()).expect("this process");
    meter::TreeEvents::open(&tree).has_allocations()
}

/// Five servers that each waste something else, and one that forks, are set apart from one that
/// wastes nothing.
#[test]
fn planted_causes_are_found() {
    if !has("strace") {
        return;
    }
    let Some(server) = testkit::example("wasteful") else { return };
    let room = Room::alone();
    let wastes = [
        ("calls", "stays", "system calls"),
        ("switches", "stays", "context switches"),
        ("wakes", "stays", "hand-overs"),
        ("code", "stays", "own code"),
        ("allocations", "stays", if allocations_count() { "allocations" } else { "own code" }),
        ("fork", "comes and goes", "connections"),
    ];
    let arm = |name: &str| {
        let engine = if name == "fork" { "fork" } else { "epoll" };
        format!(
            "[[arm]]\nname = \"{name}\"\n\
             command = \"env WASTE={name} {} --port 0 --engine {engine}\"\n\
             target = \"line://{{address}}\"\nload = [\"--request\", \"x\", \"--expect-prefix\", \
             \"done\"]\n",
            server.display()
        )
    };
    let arms: Vec<String> =
        ["nothing"].into_iter().chain(wastes.iter().map(|it| it.0)).map(arm).collect();
    let head =
        "baseline = \"nothing\"\nblocks = 6\nwindows = 4\nwindow = \"40ms\"\nwarmup = \"30ms\"\n";
    let point = "[[point]]\nname = \"stays\"\nconnections = 4\ndepth = 1\n\
        [[point]]\nname = \"comes and goes\"\nconnections = 4\ndepth = 1\n\
        requests_per_connection = 20\n";
    std::fs::write(room.path().join("plan.toml"), format!("{head}{}{point}", arms.concat()))
        .expect("a folder");
    room.run(&["race", "plan.toml"]).success();
    let Ended { out: said, .. } = room.run(&["explain"]).success();
    let run = lab::record::read(&room.path().join("report.jsonl")).expect("the raw data").remove(0);
    let answer = lab::verdict::analyse(&run).answer;
    for (arm, point, cause) in wastes {
        let mut reasons = answer.reasons.iter();
        let reason = reasons.find(|it| it.arm == arm && it.point == point).unwrap_or_else(|| {
            panic!("{arm} has no reason in\n{said}");
        });
        let first = reason.causes.first().map(|it| it.name.as_str());
        assert_eq!(first, Some(cause), "{said}");
        // Where connections come and go, 40 calls are too few to tell `calls` from `nothing`.
        assert!(reason.than == "nothing" || arm == "fork", "{said}");
    }
    let page = room.text("report.html");
    assert!(said.contains("`code` takes") && page.contains("code takes"), "{said}");
}
