//! Clients that we have not written, one small conversation with every engine: curl, Python's
//! `http.client`, and h11, whose parser takes no liberties.

use std::path::Path;
use std::process::Command;

use crate::house::{House, each, houses};
use crate::room::{GREAT, Room, great, skip};
use crate::tools::{done, has};

/// curl against a path of a server.
fn curl(house: &House, args: &[&str], path: &str) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--http1.1", "--max-time", "30"]).args(args).arg(house.url(path));
    done(&mut command).out
}

#[test]
fn curl_of_every_engine() {
    if !has("curl") {
        return;
    }
    let site = Room::site();
    let (whole, upload) = (great(), site.file("upload", &great()[..1 << 20]));
    let upload = format!("@{}", upload.display());
    let known = site.path().join("a.txt").display().to_string();
    let houses = houses(&site);
    each(&houses, |house| {
        // Two transfers are one connection.
        let both = curl(house, &["-w", " %{num_connects} ", &house.url("/a.txt")], "/plaintext");
        assert_eq!(both.escape_ascii().to_string(), "0123456789 1 Hello, World! 0 ");
        assert!(curl(house, &[], "/great") == whole);
        let tail = format!("bytes={}-", GREAT - 100_000);
        let tail = curl(house, &["-H", &format!("Range: {tail}")], "/great");
        assert!(tail == whole[GREAT - 100_000..]);
        let code = ["-o", "/dev/null", "-w", "%{http_code}"];
        let with = |more: &[&'static str]| [&code[..], more].concat();
        assert_eq!(curl(house, &with(&["-r", "0-1,8-"]), "/a.txt"), b"206");
        assert_eq!(curl(house, &with(&["-r", "10-"]), "/a.txt"), b"416");
        assert_eq!(curl(house, &with(&["--head"]), "/great"), b"200");
        assert_eq!(curl(house, &with(&["-X", "OPTIONS"]), "/"), b"204");
        assert_eq!(curl(house, &with(&["-X", "BREW"]), "/"), b"501");
        let known = [&code[..], &["-z", &known]].concat();
        assert_eq!(curl(house, &known, "/a.txt"), b"304");
        assert_eq!(curl(house, &with(&["--path-as-is"]), "/../../etc/passwd"), b"400");
        // A megabyte with its length waits for 100 Continue; in chunks it may not.
        for more in [&["-H", "Expect: 100-continue"][..], &["-H", "Transfer-Encoding: chunked"]] {
            let args = [&["--data-binary", &upload], more].concat();
            assert!(curl(house, &args, "/") == whole[..1 << 20], "{more:?}");
        }
        assert_eq!(curl(house, &["--http1.0"], "/plaintext"), b"Hello, World!");
    });
    houses.into_iter().for_each(|house| drop(house.close()));
}

/// A Python that can import what is named. The one that comes first may be a private one without
/// the packages of the system.
pub fn python(module: &str) -> Option<&'static str> {
    let can = |python: &&str| {
        let import = format!("import {module}");
        let output = Command::new(*python).args(["-c", &import]).output();
        output.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(can)
}

/// Runs a script of this folder against every engine, all of them in one process.
fn script(python: &str, name: &str) {
    let site = Room::site();
    let houses = houses(&site);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web").join(name);
    let mut command = Command::new(python);
    // A cache of its bytes would lie in the source tree.
    command.arg("-B").arg(path).arg(site.path().join("great"));
    command.args(houses.iter().map(|house| format!("{}={}", house.name, house.address)));
    let said = done(&mut command).text();
    for house in houses {
        assert!(said.contains(&format!("{}: good\n", house.name)), "{}: {said}", house.name);
        house.close();
    }
}

#[test]
fn http_client_of_python_with_every_engine() {
    match python("http.client") {
        Some(python) => script(python, "http_client.py"),
        None => skip("python3"),
    }
}

#[test]
fn h11_with_every_engine() {
    match python("h11") {
        Some(python) => script(python, "h11_client.py"),
        None => skip("h11"),
    }
}
