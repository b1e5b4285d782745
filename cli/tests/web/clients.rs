//! Foreign clients in one small conversation with every engine: curl, Python's `http.client`, and
//! h11, whose parser is strict.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, each, servers};
use crate::site::{GREAT, great, site};
use testkit::{has, run, skip};

/// curl against a path of a server.
fn curl(server: &Server, args: &[&str], path: &str) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--http1.1", "--max-time", "30"]).args(args).arg(server.url(path));
    run(&mut command).success().bytes
}

#[test]
fn curl_of_every_engine() {
    if !has("curl") {
        return;
    }
    let site = site();
    let (whole, upload) = (great(), site.file("upload", &great()[..1 << 20]));
    let upload = format!("@{}", upload.display());
    let known = site.path().join("a.txt").display().to_string();
    let servers = servers(&site);
    each(&servers, |server| {
        // Two transfers are one connection.
        let both = curl(server, &["-w", " %{num_connects} ", &server.url("/a.txt")], "/plaintext");
        assert_eq!(both.escape_ascii().to_string(), "0123456789 1 Hello, World! 0 ");
        assert!(curl(server, &[], "/great") == whole);
        let tail = format!("bytes={}-", GREAT - 100_000);
        let tail = curl(server, &["-H", &format!("Range: {tail}")], "/great");
        assert!(tail == whole[GREAT - 100_000..]);
        let code = ["-o", "/dev/null", "-w", "%{http_code}"];
        let with = |more: &[&'static str]| [&code[..], more].concat();
        assert_eq!(curl(server, &with(&["-r", "0-1,8-"]), "/a.txt"), b"206");
        assert_eq!(curl(server, &with(&["-r", "10-"]), "/a.txt"), b"416");
        assert_eq!(curl(server, &with(&["--head"]), "/great"), b"200");
        assert_eq!(curl(server, &with(&["-X", "OPTIONS"]), "/"), b"204");
        assert_eq!(curl(server, &with(&["-X", "BREW"]), "/"), b"501");
        let known = [&code[..], &["-z", &known]].concat();
        assert_eq!(curl(server, &known, "/a.txt"), b"304");
        assert_eq!(curl(server, &with(&["--path-as-is"]), "/../../etc/passwd"), b"400");
        // A megabyte with its length waits for 100 Continue; in chunks it may not.
        for more in [&["-H", "Expect: 100-continue"][..], &["-H", "Transfer-Encoding: chunked"]] {
            let args = [&["--data-binary", &upload], more].concat();
            assert!(curl(server, &args, "/") == whole[..1 << 20], "{more:?}");
        }
        assert_eq!(curl(server, &["--http1.0"], "/plaintext"), b"Hello, World!");
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}

/// A Python that can import the module. The first one on the path may be a private one without the
/// packages of the system.
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
    let site = site();
    let servers = servers(&site);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web").join(name);
    let mut command = Command::new(python);
    // Python would write its bytecode cache into the source tree.
    command.arg("-B").arg(path).arg(site.path().join("great"));
    command.args(servers.iter().map(|server| format!("{}={}", server.name, server.address)));
    let said = run(&mut command).success().out;
    for server in servers {
        assert!(said.contains(&format!("{}: good\n", server.name)), "{}: {said}", server.name);
        server.close();
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
