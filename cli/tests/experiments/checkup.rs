//! A check-up by the command: its exit codes, its page, its JSON, and nothing left behind.

use crate::{BINARY, Room, root};
use document::{Checkup, Judgement};
use testkit::has;

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

/// Each command recognises the protocol of a server; for a server of gRPC alone `ab` and `race` ask
/// for a method, in these words. `how` are the flags of `ab`.
fn check(room: &Room, (server, how): (&str, &str), protocol: &str, refusal: Option<&str>) {
    let words = ["checkup", server, "--quick", "--only", "h2-preface", "--json"];
    let found: Checkup = serde_json::from_str(&room.run(&words).success().out).expect("a check-up");
    assert!(found.protocol.starts_with(protocol), "{found:?}");
    assert_eq!(found.judged(Judgement::Good).count(), 1, "{found:?}");
    let race = room.run(&["race", "--service", server, "--dry-run"]);
    let ab = [&["ab", server, server][..], &how.split(',').collect::<Vec<_>>()].concat();
    let ab = room.run(&ab);
    for ended in [race, ab] {
        match refusal {
            Some(words) => ended.exits(2).says(words),
            None => ended.success().says(&format!("speaks {protocol}")),
        };
    }
}

#[test]
fn servers_of_http_2_alone_are_recognised() {
    let room = Room::shared();
    if has("python3") {
        let source = root().join("lab/checkup/tests/http2.py");
        let server = format!("python3 {} {{port}}", source.display());
        check(&room, (&server, "--dry-run"), "HTTP/2 alone; for gRPC name a method", None);
        let refusal = "speaks gRPC alone: name a method, such as grpc://{address}/PACKAGE.SERVICE";
        let server = format!("{server} grpc");
        check(&room, (&server, "--dry-run"), "gRPC, by calls", Some(refusal));
    }
    if has("nghttpd") {
        let [cert, key] = room.folder.certify("a.org");
        room.folder.file("index.html", "a page");
        // A race appends flags of ours, which the shell leaves out.
        let serves = format!("nghttpd -d {} {{port}} {key} {cert}", room.path().display());
        let server = format!("sh -c 'exec {serves}'");
        let races = "--budget,3s,--fail-if,cpu > 99x old";
        check(&room, (&server, races), "HTTP/2 alone, by ALPN", None);
    }
}
