//! The load generator over TLS: our server and nginx, names that a certificate lacks, lists of
//! requests.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;

use serde_json::Value;
use testkit::{Folder, PATIENCE, Process, Server, eventually, free_port, has, run};

const EXE: &str = env!("CARGO_BIN_EXE_roundhouse");

/// A site with a certificate for `localhost`, and its server.
pub struct Site {
    folder: Folder,
    pub cert: String,
    pub key: String,
}

impl Site {
    pub fn new() -> Site {
        let folder = Folder::new();
        std::fs::create_dir(folder.path().join("www")).expect("a temporary directory");
        let [cert, key] = folder.certify("localhost");
        for (name, body) in [("a", "0123456789"), ("b", "bb"), ("great", &"x".repeat(1 << 20))] {
            folder.file(&format!("www/{name}"), body);
        }
        Site { folder, cert, key }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Our server; its log is in the file `log`.
    fn serve(&self, more: &[&str]) -> Server {
        let mut command = Command::new(EXE);
        command.args(["serve", "http", &self.path("www"), "--port", "0", "--engine", "epoll"]);
        command.args(["--access-log", &self.path("log"), "--log-format", "json"]).args(more);
        Server::start(&mut command)
    }

    pub fn serve_tls(&self, more: &[&str]) -> Server {
        self.serve(&[&["--tls-cert", &self.cert, "--tls-key", &self.key], more].concat())
    }

    /// nginx with these servers, once it listens at the port of one.
    pub fn nginx(&self, port: u16, servers: &str) -> Process {
        let root = self.folder.path().display();
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log stderr; events {{}}\n\
             http {{ access_log off; client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
             fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
             root {root}/www; {servers} }}"
        );
        let config = self.folder.file("nginx.conf", config).display().to_string();
        let nginx = Process::start(Command::new("nginx").args(["-e", "stderr", "-c", &config]));
        eventually("nginx listens", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        nginx
    }

    /// Loads `path` of the server at a port by its name.
    pub fn load(&self, host: &str, port: u16, path: &str, flags: &str) -> Loaded {
        load(&format!("https://{host}:{port}{path}"), flags)
    }

    pub fn trusted(&self, flags: &str) -> String {
        format!("--cacert {} {flags}", self.cert)
    }
}

/// The report of a load, the exit code and what was said.
type Loaded = (Value, Option<i32>, String);

/// Loads a target.
pub fn load(target: &str, flags: &str) -> Loaded {
    let mut command = Command::new(EXE);
    let ended = run(command.args(["load", target, "--json"]).args(flags.split_whitespace()));
    let report = serde_json::from_str(&ended.out).unwrap_or(Value::Null);
    // A busy machine makes the times invalid (98), but not the replies.
    let code = if ended.code == Some(98) { Some(0) } else { ended.code };
    (report, code, ended.err)
}

/// Counted requests, over connections that are kept and that are renewed, of small and great pages.
fn check_loaded(site: &Site, port: u16) {
    let (report, code, err) =
        site.load("localhost", port, "/a", &site.trusted("-n 500 -c 4 --expect-length 10"));
    assert_eq!((code, &report["requests"]), (Some(0), &500.into()), "{err}{report}");
    let tls = &report["tls"];
    assert_eq!((&tls["checked"], &tls["handshake"]["count"]), (&true.into(), &4.into()), "{tls}");
    let renewed = "-n 200 -c 2 --requests-per-connection 10 --idle 3";
    for (more, resumes) in [("", true), (" --no-resume", false)] {
        let flags = site.trusted(&format!("{renewed}{more}"));
        let (report, code, err) = site.load("localhost", port, "/a", &flags);
        let tls = &report["tls"];
        assert_eq!((code, &report["idle"]), (Some(0), &3.into()), "{err}{report}");
        assert!(tls["handshake"]["count"].as_u64() >= Some(20), "{tls}");
        assert_eq!(tls["resumed"].as_u64() > Some(0), resumes, "{tls}");
    }
    let deep = site.trusted("-n 40 -c 2 --depth 4 --open 2000 --expect-length 1048576");
    let (report, code, err) = site.load("localhost", port, "/great", &deep);
    assert_eq!((code, &report["requests"]), (Some(0), &40.into()), "{err}{report}");
}

#[test]
fn our_server_is_loaded_over_tls() {
    let site = Site::new();
    let server = site.serve_tls(&[]);
    check_loaded(&site, server.port());
    server.stop();
}

#[test]
fn nginx_is_loaded_over_tls() {
    if !has("nginx") {
        return;
    }
    let (site, port) = (Site::new(), free_port());
    let mut nginx = site.nginx(
        port,
        &format!(
            "server {{ listen 127.0.0.1:{port} ssl http2;\n\
             ssl_certificate {}; ssl_certificate_key {}; ssl_session_cache shared:a:1m; }}",
            site.cert, site.key
        ),
    );
    check_loaded(&site, port);
    // It leaves with GOAWAY after a thousand requests.
    let flags = site.trusted("--http2 -n 3000 -c 2 --depth 8 --expect-length 10");
    let (report, code, err) = site.load("localhost", port, "/a", &flags);
    assert_eq!((code, &report["requests"]), (Some(0), &3000.into()), "{err}{report}");
    nginx.kill();
}

#[test]
fn a_certificate_is_checked_unless_told_not_to() {
    let site = Site::new();
    let server = site.serve_tls(&[]);
    let check = |host: &str, flags: &str, want: &str| {
        let (_, code, err) = site.load(host, server.port(), "/a", flags);
        assert!(code == Some(1) && err.contains(want), "{host} {flags}: {code:?} {err}");
    };
    check("localhost", "-n 9", "trust its issuer by --cacert");
    check("127.0.0.1", &site.trusted("-n 9"), "use the name that the certificate has");
    let (report, code, err) = site.load("127.0.0.1", server.port(), "/a", "-n 9 --insecure");
    assert_eq!((code, &report["tls"]["checked"]), (Some(0), &false.into()), "{err}");
    let plain = site.serve(&[]);
    let (_, code, err) = site.load("127.0.0.1", plain.port(), "/a", "-n 9 --insecure");
    assert!(code == Some(1) && err.contains("the port does not speak TLS"), "{code:?} {err}");
    let (_, code, err) = site.load("localhost", 1, "/", "--cacert /no/such.pem");
    assert!(code == Some(2) && err.contains("/no/such.pem"), "{code:?} {err}");
}

/// A proxy at a port: it makes tunnels to `port` for a user with a password.
fn proxy(port: u16) -> SocketAddr {
    testkit::listen(move |mut client| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head);
        assert!(head.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{head}");
        if !head.contains("\r\nProxy-Authorization: Basic dG9tOnNlY3JldA==\r\n") {
            return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        }
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (mut up, mut down) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut up, &mut down);
            down.shutdown(Shutdown::Write)
        });
        std::io::copy(&mut server, &mut client)?;
        client.shutdown(Shutdown::Write)
    })
}

#[test]
fn a_proxy_makes_tunnels_for_its_user() {
    let site = Site::new();
    let server = site.serve_tls(&[]);
    let port = server.port();
    let proxy = proxy(port);
    let load = |user: &str, more: &str| {
        let flags = format!("-n 200 -c 2 --expect-length 10 --proxy {user}@{proxy} {more}");
        site.load("localhost", port, "/a", &site.trusted(&flags))
    };
    for more in ["", "--depth 4 --requests-per-connection 10", "--http2 --depth 4"] {
        let (report, code, err) = load("tom:secret", more);
        assert_eq!((code, &report["statuses"]["200"]), (Some(0), &200.into()), "{more}: {err}");
        assert!(!report.to_string().contains("secret"), "{report}");
    }
    let (_, code, err) = load("tom:decret", "");
    assert!(code == Some(1) && err.contains("`HTTP/1.1 407 Proxy Authentication"), "{err}");
    assert!(!err.contains("cret") && err.contains("check the user of --proxy"), "{err}");
    server.stop();
}

/// Lines that come back over TLS, from a server that others wrote.
#[test]
fn lines_are_loaded_over_tls() {
    if !has("openssl") {
        return;
    }
    let (site, port) = (Site::new(), free_port());
    let mut openssl = Command::new("openssl");
    openssl.args(["s_server", "-quiet", "-rev", "-accept", &format!("127.0.0.1:{port}")]);
    let mut openssl = Process::start(openssl.args(["-cert", &site.cert, "-key", &site.key]));
    let target = format!("line+tls://localhost:{port}");
    let load = || {
        let mut command = Command::new(EXE);
        command.args(["load", &target, "--request", "abc", "--expect-prefix", "cba", "-c", "1"]);
        run(command.args(["-n", "50", "--cacert", &site.cert]))
    };
    eventually("openssl answers", PATIENCE, || load().code == Some(0));
    openssl.kill();
}

/// How many requests of each request line the server's log has.
fn logged(site: &Site, line: &str) -> usize {
    let log = std::fs::read_to_string(site.folder.path().join("log")).expect("the log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|it| it["request"] == format!("{line} HTTP/1.1")).count()
}

#[test]
fn lists_of_requests_are_what_the_server_sees() {
    let site = Site::new();
    let server = site.serve_tls(&[]);
    let port = server.port();
    let origin = format!("https://localhost:{port}");
    let urls = site.folder.file("urls", format!("/a 3\n{origin}/b?x\nHEAD /a\n"));
    let flags = site.trusted(&format!("--urls {} -n 500 -c 2 --warmup 0s", urls.display()));
    let (_, code, err) = site.load("localhost", port, "/", &flags);
    assert_eq!(code, Some(0), "{err}");
    let other = r#"{"request":{"method":"GET","url":"http://b.org/"}}"#;
    let mut entries = String::new();
    for (method, url) in [("GET", "/a?1"), ("GET", "/b?2"), ("HEAD", "/a?3")] {
        let url = format!("{origin}{url}");
        let _ = write!(entries, r#"{{"request":{{"method":"{method}","url":"{url}"}}}},"#);
    }
    let har = format!(r#"{{"log":{{"entries":[{entries}{other}]}}}}"#);
    let har = site.folder.file("har", har);
    let flags = site.trusted(&format!("--har {} -n 100 -c 1", har.display()));
    let (report, code, err) = site.load("localhost", port, "/", &flags);
    assert_eq!((code, &report["requests"]), (Some(0), &100.into()), "{err}");
    assert!(err.contains("3 requests; 1 to other origins are left out: http://b.org (1)"), "{err}");
    server.stop();
    let drawn = ["GET /a", "GET /b?x", "HEAD /a"].map(|line| logged(&site, line));
    // Five standard deviations of 500 draws of three in five.
    assert!(drawn.iter().sum::<usize>() == 500 && drawn[0].abs_diff(300) < 55, "{drawn:?}");
    let recorded = ["GET /a?1", "GET /b?2", "HEAD /a?3"].map(|line| logged(&site, line));
    assert_eq!(recorded, [34, 33, 33]);
}
