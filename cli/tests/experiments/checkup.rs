//! A check-up by the command: its exit codes, its page, its JSON, and nothing left behind.

use crate::{BINARY, Room};
use document::{Checkup, Judgement};

#[test]
fn a_checkup_writes_its_forms_and_ends_by_its_conditions() {
    let room = Room::shared();
    let site = room.path().display().to_string();
    std::fs::write(room.path().join("index.html"), "hello").expect("a file");
    let server = format!("{BINARY} serve http {site} --port {{port}}");
    let base = ["checkup", &server, "--quick", "--only", "date,close,kill"];
    let words = [&base[..], &["--json", "--junit", "c.xml", "--fail-if", "date"]].concat();
    let ended = room.run(&words).success();
    let found: Checkup = serde_json::from_str(&ended.out).expect("a check-up");
    assert_eq!(found.judged(Judgement::Good).count(), 3, "{found:?}");
    assert!(room.text("c.xml").contains("failures=\"0\""));
    assert!(room.text("checkup.html").contains("0 faults"));
    std::fs::write(room.path().join("old.json"), &ended.out).expect("a file");
    let serves = |entry: std::io::Result<std::fs::DirEntry>| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(&site).then_some(())
    };
    let left = std::fs::read_dir("/proc").expect("it is mounted").filter_map(serves).count();
    assert_eq!(left, 0, "processes of the check-up");
    let other =
        ["checkup", &server, "--only", "date", "--fail-if", "kill", "--against", "old.json"];
    let ended = room.run(&other).exits(98);
    assert!(ended.out.contains("1 good"), "{ended:?}");
    room.run(&["checkup", &server, "--only", "dates"]).exits(2);
    room.run(&["checkup", "http://192.0.2.1/", "--only", "date"]).exits(2);
    room.run(&["checkup", "false", "--only", "date"]).exits(1);
}
