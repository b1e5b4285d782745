//! The shell blocks of the README, the tutorials and some guides, run as a reader types them: in a
//! folder with the clone's `data`, on a separate network, so that their fixed ports are free.
//! Lines for cargo are left to CI itself.

use crate::{BINARY, Room, root};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testkit::{Process, has, skip};

/// Enters a user, a network and a process namespace; their end takes the servers with it.
const APART: [&str; 5] = ["--user", "--map-root-user", "--net", "--pid", "--fork"];

/// Commands that end with 98 if they, or the one that they wait for, measured nothing that holds.
const FIGURES: [&str; 4] = ["roundhouse load ", "roundhouse race ", "roundhouse report ", "wait "];

/// The lines of all blocks, with the time that a reader takes after starting a server.
fn script(page: &str) -> String {
    let mut script = String::from("set -euo pipefail\nip link set lo up\n");
    let page = page.replace("\\\n", "");
    let blocks = page.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    for line in blocks.flat_map(str::lines) {
        let command = line.split(" #").next().unwrap_or_default().trim_end();
        if !command.starts_with("cargo ") && !command.starts_with("alias ") {
            // A machine that runs other tests may be too busy for a figure that holds.
            let is_figure = FIGURES.iter().any(|words| command.starts_with(words));
            let busy = if is_figure && !command.ends_with('&') { " || [ $? = 98 ]" } else { "" };
            _ = writeln!(script, "{command}{busy}");
        }
        if command.ends_with(" &") {
            script.push_str("sleep 0.7\n");
        }
    }
    script
}

/// Runs the blocks of a page with this binary as `roundhouse`.
#[track_caller]
fn follow(page: &str) {
    for program in ["unshare", "ffmpeg", "curl", "python3", "strace", "nc"] {
        if !has(program) {
            return;
        }
    }
    let probe = Command::new("unshare").args(APART).arg("true").status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("a separate network");
    }
    let room = Room::shared();
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
    std::os::unix::fs::symlink(root().join("data"), room.path().join("data")).expect("a link");
    if page.ends_with("own-service.md") {
        // By then a reader has built a service of lines, such as this one.
        let Some(hello) = testkit::example("hello") else { return };
        let built = room.path().join("target/release");
        std::fs::create_dir_all(&built).expect("a folder");
        std::os::unix::fs::symlink(hello, built.join("counter")).expect("a link");
    }
    let script = script(&text);
    assert!(!script.contains("|| true"), "{page}: a block may not hide a failed command");
    let folder = Path::new(BINARY).parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("unshare");
    shell.args(APART).args(["--kill-child", "--mount-proc", "bash", "-c", &script]);
    shell.current_dir(room.path()).env("PATH", path).env("TMPDIR", room.path());
    Process::start(&mut shell).end(Duration::from_secs(180)).success();
}

macro_rules! pages {
    ($($name:ident: $path:literal;)+) => {
        $(#[test]
        fn $name() {
            follow($path);
        })+
    };
}

pages! {
    readme: "README.md";
    tour: "docs/tour.md";
    readme_in_korean: "docs/ko/README.md";
    own_service: "docs/own-service.md";
    config: "docs/config.md";
    durability: "docs/durability.md";
    path: "docs/path.md";
    first_race: "docs/tutorials/first-race.md";
    streaming: "docs/tutorials/streaming.md";
    game_world: "docs/tutorials/game-world.md";
    web_server: "docs/tutorials/web-server.md";
    load_test: "docs/tutorials/load-test.md";
    course: "docs/tutorials/course.md";
}

/// The first screen shows what the program prints today of two records that are kept.
#[test]
fn the_outputs_in_the_readme_are_those_of_its_records() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the page");
    for (record, lines) in [("ab", 11), ("race", 6)] {
        let record = root().join(format!("runs/front/{record}.jsonl.gz"));
        let mut report = Command::new(BINARY);
        report.arg("report").arg(&record).env("COLUMNS", "80").env("LC_ALL", "C");
        let shown = Process::start(&mut report).end(Duration::from_secs(60)).success();
        let head: Vec<&str> = shown.out.lines().take(lines).map(str::trim_end).collect();
        let head = head.join("\n");
        assert!(readme.contains(head.trim_end()), "README lacks this:\n{head}");
    }
}

#[test]
fn a_script_has_every_line_but_those_for_cargo() {
    let page = "a\n```sh\ncargo build\nx serve &   # starts\nroundhouse load \\\na:b\n```\n\
        ```text\nz\n```\n";
    let expected = "set -euo pipefail\nip link set lo up\nx serve &\nsleep 0.7\n\
                    roundhouse load a:b || [ $? = 98 ]\n";
    assert_eq!(script(page), expected);
}
