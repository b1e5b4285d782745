//! `roundhouse grade` of a class.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::server::{BINARY, run};
use testkit::Folder;

/// One submission kills its parent, one is absent, one is sound: each has a line, a report and a
/// row, and none is tried twice.
#[test]
fn a_hostile_submission_loses_its_own_points_only() {
    let folder = Folder::new();
    let program = |name: &str, text: &str| {
        let path = folder.file(name, format!("#!/bin/sh\n{text}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("our own file");
        path
    };
    let hostile = program("hostile", "kill -9 $PPID");
    let sound = program("sound", &format!("exec {BINARY} stockserver \"$1\""));
    let (reports, lines) = (folder.path().join("reports"), folder.path().join("class.jsonl"));
    let grade = || {
        let mut command = Command::new(BINARY);
        command.arg("grade").args([&hostile, &folder.path().join("absent"), &sound]);
        command.args(["--only", "wording,exit", "--jobs", "2"]);
        run(command.arg("--reports").arg(&reports).arg("--resume").arg(&lines), "").success()
    };
    let first = grade().out;
    let line = |name: &str| first.lines().find(|line| line.contains(name)).unwrap_or_default();
    assert!(line("/hostile\"").contains("does the server kill its parent"), "{first}");
    assert!(line("/absent\"").contains("cannot be started"), "{first}");
    assert!(line("/sound\"").contains("\"points\":3,\"of\":3"), "{first}");
    assert!(line("summary").contains("\"servers\":3"), "{first}");
    let table = std::fs::read_to_string(reports.join("points.csv")).expect("a table");
    assert!(table.starts_with("server,points,of,obstacle,wording,exit\n"), "{table}");
    let row = table.lines().find(|row| row.contains("/sound\"")).unwrap_or_default();
    assert!(row.ends_with(",3,3,\"\",2,1"), "{table}");
    assert_eq!(std::fs::read_dir(&reports).expect("a folder").count(), 4);
    let both = [&hostile, &sound].map(|path| path.as_os_str());
    let words = "expected one server with --autolab";
    run(Command::new(BINARY).args(["grade", "--autolab"]).args(both), "").exits(2).says(words);
    let again = grade().out;
    assert_eq!(again.lines().count(), 1, "{again}");
    assert!(again.contains("\"servers\":3"), "{again}");
}
