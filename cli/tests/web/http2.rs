//! HTTP/2 with clients that others have written: curl and h2load, without TLS on every engine, and
//! over TLS; and with our load generator.

use std::process::Command;

use serde_json::Value;
use testkit::{has, run};

use crate::https::Site;
use crate::server::{Server, each, servers_with};
use crate::site::{GREAT, great, site};

/// curl with these arguments; it ends with the version that was spoken.
fn curl(args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sSk", "--max-time", "60", "-w", " %{http_version}"]).args(args);
    run(&mut command).success().bytes
}

#[test]
fn curl_speaks_http_2_with_every_engine() {
    if !has("curl") {
        return;
    }
    let site = site();
    let (whole, upload) = (great(), site.file("upload", &great()[..1 << 20]));
    let upload = format!("@{}", upload.display());
    let servers = servers_with(&site, |_| vec!["--h2c".to_owned()]);
    each(&servers, |server| {
        let ask = |args: &[&str], path: &str| {
            curl(&[&["--http2-prior-knowledge", &server.url(path)], args].concat())
        };
        let with_version = |bytes: &[u8]| [bytes, b" 2"].concat();
        assert_eq!(ask(&[], "/a.txt"), b"0123456789 2");
        assert!(ask(&[], "/great") == with_version(&whole));
        let tail = format!("Range: bytes={}-", GREAT - 100_000);
        assert!(ask(&["-H", &tail], "/great") == with_version(&whole[GREAT - 100_000..]));
        let code = |args: &[&str], path: &str| {
            ask(&[&["-o", "/dev/null", "-w", "%{http_code}"], args].concat(), path)
        };
        assert_eq!(code(&["--head"], "/great"), b"200");
        assert_eq!(code(&["-X", "BREW"], "/"), b"501");
        assert_eq!(code(&[], "/none"), b"404");
        assert_eq!(code(&["--path-as-is"], "/../../etc/passwd"), b"400");
        for more in [&["-H", "Expect: 100-continue"][..], &["-H", "Content-Type: a/b"]] {
            let sent = ask(&[&["--data-binary", &upload], more].concat(), "/");
            assert!(sent == with_version(&whole[..1 << 20]), "{more:?}");
        }
        assert_eq!(curl(&["--http1.1", &server.url("/a.txt")]), b"0123456789 1.1");
    });
    servers.into_iter().for_each(|server| drop(server.close()));
}

#[test]
fn tls_offers_both_versions() {
    if !has("curl") {
        return;
    }
    let site = Site::new();
    for (flags, wanted) in [(&[][..], "2"), (&["--no-http2"], "1.1")] {
        let server = site.serve_tls(flags);
        let url = format!("https://{}/a", server.address);
        let spoken = |version: &str| String::from_utf8(curl(&[version, &url])).unwrap();
        assert_eq!(spoken("--http2"), format!("0123456789 {wanted}"));
        assert_eq!(spoken("--http1.1"), "0123456789 1.1");
        // Streams of one connection. (curl 7.88 uses none again that it began with prior
        // knowledge, with other servers neither.)
        let connects = curl(&["--http2", "-w", " %{num_connects} ", &url, &url]);
        assert_eq!(connects, b"0123456789 1 0123456789 0 ");
        let many = curl(&["-Z", "--http2", "-w", "", &format!("{url}?[1-40]")]);
        assert_eq!(String::from_utf8(many).unwrap(), "0123456789".repeat(40));
        server.stop().success();
    }
}

#[test]
fn a_flag_without_use_is_refused() {
    let check = |flag: &str, site: &Site, args: &[&str], wanted: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
        command.args(["serve", "http", &site.path("www"), "--port", "0", flag]).args(args);
        run(&mut command).exits(2).says(wanted);
    };
    let site = Site::new();
    check("--no-http2", &site, &[], "expected --no-http2 with a certificate");
    let certificate = ["--tls-cert", &site.cert, "--tls-key", &site.key];
    check("--h2c", &site, &certificate, "expected --h2c without a certificate");
}

#[test]
fn h2load_finds_no_error_in_streams() {
    if !has("h2load") {
        return;
    }
    let check = |url: &str| {
        let args = ["-t", "1", "-n", "2000", "-c", "4", "-m", "32", url];
        let said = run(Command::new("h2load").args(args)).success().out;
        let wanted = "2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored";
        assert!(said.contains(wanted), "{said}");
    };
    let files = site();
    for engine in ["epoll", "thread"] {
        let server = Server::open(engine, &files, &["--h2c"]);
        check(&server.url("/plaintext"));
        check(&server.url("/a.txt"));
        server.close();
    }
    let site = Site::new();
    let server = site.serve_tls(&[]);
    check(&format!("https://{}/b", server.address));
    server.stop().success();
}

#[test]
fn our_load_generator_speaks_http_2() {
    let files = site();
    let upload = files.file("upload", &great()[..100_000]).display().to_string();
    let post = format!("-m POST --body-file {upload} -n 40 -c 2 --depth 3 --expect-");
    let (echoed, refused) = (format!("{post}length 100000"), format!("{post}status 405"));
    let get = "-n 3000 -c 2 --depth 150 --expect-length 10";
    for engine in ["epoll", "thread"] {
        let server = Server::open(engine, &files, &["--h2c"]);
        for (path, flags, count) in [("/a.txt", get, 3000), ("/", &echoed[..], 40)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
            command.args(["load", &server.url(path), "--http2", "--json"]);
            let ended = run(command.args(flags.split_whitespace()));
            let report: Value = serde_json::from_str(&ended.out).unwrap_or_default();
            assert_eq!(report["statuses"]["200"], count, "{}{}", ended.err, ended.out);
            assert_eq!(report["errors"], Value::Array(Vec::new()), "{report}");
        }
        server.close();
    }
    let site = Site::new();
    let server = site.serve_tls(&[]);
    let load = |path: &str, flags: &str| {
        let flags = site.trusted(&format!("--http2 {flags}"));
        site.load("localhost", server.address.port(), path, &flags)
    };
    let many = "-n 40 -c 2 --depth 20 --expect-length 1048576";
    for (path, flags, count) in [("/a", get, 3000), ("/great", many, 40), ("/", &refused, 40)] {
        let (report, code, err) = load(path, flags);
        assert_eq!((code, &report["requests"]), (Some(0), &count.into()), "{err}{report}");
    }
    server.stop().success();
    let server = site.serve_tls(&["--no-http2"]);
    let flags = site.trusted("--http2 -n 9");
    let (_, code, err) = site.load("localhost", server.address.port(), "/a", &flags);
    assert!(code == Some(1) && err.contains("asked for by --http2"), "{code:?} {err}");
    server.stop().success();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    let ended = run(command.args(["load", "echo://127.0.0.1:1", "--http2"]));
    ended.exits(2).says("expected --http2 with http:// or https://");
}
