//! The web server sends the same bytes on every engine.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use ::web::{Journal, Options, Web};
use memory::Region;
use sim::Talk;
use tools::serve::WALL_CLOCK;
use tools::serve::site::Site;

use crate::arms::{Arm, EPOLL};
use crate::harness::{Client, Folder, PATIENCE, Plan, Server, ms, skip};

/// The modification time of the tests' files, in seconds and nanoseconds since 1970.
const CHANGED: Duration = Duration::new(784_111_777, 1);
/// Bytes of the great file.
const GREAT: usize = 10 << 20;
/// The allowed growth of the server's memory for a client that does not read a large file: its
/// output (128 KiB) and a piece (64 KiB) with room for the allocator; the file itself is larger.
const GROWTH_MAX: u64 = 4 << 20;

/// A folder with a site, which has links to a secret file outside it, and the path of the site.
pub fn site() -> (Folder, String) {
    let folder = Folder::new();
    let root = folder.path().join("site");
    std::fs::create_dir_all(root.join("d")).expect("a temporary directory");
    folder.file("secret", "secret");
    let files =
        [("a.txt", "0123456789"), ("b.css", "body {}"), ("b.css.gz", "packed"), ("d/e", "")];
    for (name, text) in files {
        let path = folder.file(&format!("site/{name}"), text);
        let file = File::options().append(true).open(path).expect("just written");
        file.set_modified(UNIX_EPOCH + CHANGED).expect("our own file");
    }
    std::os::unix::fs::symlink("../secret", root.join("leak")).expect("a link");
    let root = root.display().to_string();
    (folder, root)
}

/// The server of a site, with the routes of the demonstration.
fn serve(arm: &Arm, root: &str, more: &[&str]) -> Server {
    Plan::new(arm, "http").with(&["--demo", root]).with(more).start()
}

pub fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// The replies without the lines of the date.
pub fn undated(replies: &[u8]) -> String {
    let replies = String::from_utf8_lossy(replies);
    replies.split_inclusive('\n').filter(|line| !line.starts_with("Date: ")).collect()
}

/// The tag of a file as the server sends it.
fn tag_of(server: &Server, target: &str) -> String {
    let mut client = server.client();
    client.send(get(target, "Connection: close\r\n"));
    let reply = String::from_utf8_lossy(&client.rest()).into_owned();
    let tag = reply.lines().find_map(|line| line.strip_prefix("ETag: "));
    tag.unwrap_or_else(|| panic!("no tag in {reply}")).to_owned()
}

/// Requests of every kind; the last ends the conversation. `tag` is that of `/a.txt`.
fn conversation(tag: &str) -> String {
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    let expects = "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n";
    [
        get("/", ""),
        "HEAD /json HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        format!("{post}Content-Length: 5\r\n\r\nhello"),
        format!("{post}{expects}{chunks}"),
        get("/echo", "X-Y: z\r\n"),
        get("/cookie", "Cookie: a=b; c=d\r\n"),
        get("/work?ms=2", ""),
        get("/sleep?ms=2", ""),
        get("/a.txt", ""),
        get("/a.txt", &format!("If-None-Match: {tag}\r\n")),
        get("/b.css", "Accept-Encoding: gzip\r\n"),
        get("/d/", ""),
        get("/d", ""),
        get("/%61.txt", "Range: bytes=-3\r\n"),
        get("/a.txt", "Range: bytes=0-1,9-\r\n"),
        get("/leak", ""),
        get("/none", ""),
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned() + &get("/", ""),
    ]
    .concat()
}

/// The statuses of its replies.
const STATUSES: &str =
    "200 200 200 100 200 200 200 200 200 200 304 200 200 301 206 206 403 404 405 204 400";

/// The replies of the service itself, without an engine.
fn simulated(root: &str, input: &str) -> String {
    let options = Options { demo: true, files: true, wall: WALL_CLOCK, ..Options::default() };
    let web = Web::new(options, Site::open(Path::new(root), false).expect("our own folder"));
    undated(Talk::new(&web, &Region::<Journal>::alone(&[])).say(input).as_bytes())
}

/// Every kind of request in one burst: the same bytes from every engine as from the service alone.
pub fn the_same_answers(arm: &Arm) {
    let (_folder, root) = site();
    let server = serve(arm, &root, &[]);
    let input = conversation(&tag_of(&server, "/a.txt"));
    let wanted = simulated(&root, &input);
    let statuses = wanted.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..3]);
    assert_eq!(statuses.collect::<Vec<_>>().join(" "), STATUSES, "{wanted}");
    let mut client = server.client();
    client.send(input);
    let heard = undated(&client.rest());
    let differs = heard.bytes().zip(wanted.bytes()).position(|(heard, wanted)| heard != wanted);
    let at = differs.unwrap_or(heard.len().min(wanted.len())).saturating_sub(60);
    let near =
        |text: &str| String::from_utf8_lossy(&text.as_bytes()[at.min(text.len())..]).into_owned();
    assert!(heard == wanted, "expected ..{:.300}, found ..{:.300}", near(&wanted), near(&heard));
    drop(client);
    server.stop();
}

/// A file that is replaced by one of the same length and the same modification time, as in an image
/// or a package store, has another tag, and no date that would name both.
#[test]
fn tags_change_with_the_content() {
    let (folder, root) = site();
    let server = serve(&EPOLL, &root, &[]);
    let place = |text: &str| {
        let path = folder.file("site/next.txt", text);
        let file = File::options().append(true).open(&path).expect("just written");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).expect("our own file");
        std::fs::rename(&path, path.with_file_name("fixed.txt")).expect("a name in one folder");
        tag_of(&server, "/fixed.txt")
    };
    let (old, new) = (place("v1"), place("v2"));
    assert_ne!(old, new);
    let since = "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n";
    for fields in [since, &format!("If-None-Match: {old}\r\n")] {
        let mut client = server.client();
        client.send(get("/fixed.txt", fields));
        assert_eq!(body(&mut client), b"v2", "{fields} is not a validator");
    }
}

/// curl unpacks to the same bytes what was compressed on the fly, before and after a change of the
/// file.
pub fn compressed(arm: &Arm) {
    let (folder, root) = site();
    let server = Plan::new(arm, "http").with(&[root.as_str(), "--compress"]).start();
    let url = format!("http://{}/page.html", server.address);
    for round in 0..2 {
        let page: String = (0..30_000 + round).map(|number| format!("<p>{number}\n")).collect();
        folder.file("site/page.html", &page);
        for coding in ["gzip", "br", "zstd", "gzip", "br", "zstd"] {
            let accept = format!("Accept-Encoding: {coding}");
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--http1.1", "--max-time", "20", "-D", "-", "--compressed"]);
            let Ok(output) = curl.args(["-H", &accept, &url]).output() else {
                return skip("curl");
            };
            let heard = String::from_utf8_lossy(&output.stdout);
            let (head, body) = heard.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("\r\nContent-Encoding: {coding}")), "{head}");
            assert!(body == page, "{coding}: {} bytes, expected {}", body.len(), page.len());
        }
    }
    server.stop();
}

/// Asks at a socket in the file system for the file with ten digits.
#[track_caller]
pub fn check_digits(path: &Path, fields: &str) {
    let mut client = UnixStream::connect(path).expect("a server");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = get("/a.txt", &format!("Connection: close\r\n{fields}"));
    client.write_all(request.as_bytes()).expect("it listens");
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).expect("a reply");
    assert!(heard.ends_with(b"\r\n\r\n0123456789"), "{}", undated(&heard));
}

/// A socket in the file system: a dead one is replaced, a living one is not, and it is gone at the
/// end. Its clients have no address but the one that a trusted proxy gives them.
pub fn a_socket_in_the_file_system(arm: &Arm) {
    let (folder, root) = site();
    let log = folder.path().join("log").to_str().expect("text").to_owned();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).expect("a name"));
    let host = format!("unix:{}", path.display());
    let place = ["--host", &host, "--socket-mode", "640"];
    let more = [root.as_str(), "--access-log", &log, "--trust", "unix"];
    let plan = || Plan::new(arm, "http").with(&place).with(&more);
    let (server, ready) = plan().announce();
    assert_eq!(ready["listening"], host.as_str());
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    plan().fail().says("another server listens there");
    for _ in 0..3 {
        check_digits(&path, "X-Forwarded-For: 192.0.2.7\r\n");
    }
    server.stop();
    assert!(!path.exists(), "the socket is removed");
    let log = std::fs::read_to_string(log).expect("the log");
    assert_eq!(log.lines().filter(|line| line.starts_with("192.0.2.7 - ")).count(), 3, "{log}");
}

/// The operator's rules: fields, lifetimes, origins, a redirection, a fallback, from flags and a
/// file; and an address by its name.
#[test]
fn rules_come_from_flags_and_a_file() {
    let (folder, root) = site();
    let text = "header = ['X-One: 1', '/d X-Two: 2']\nredirect = ['308 /old/*=/d/*']\n";
    let config = folder.file("rules.toml", text);
    let flags = ["--cors", "*", "--cache-control", "*.txt=no-cache", "--fallback", "/a.txt"];
    let config = ["--config", config.to_str().expect("text"), "--host", "localhost"];
    let plan = Plan::new(&EPOLL, "http").with(&[root.as_str()]).with(&flags).with(&config);
    let server = plan.start();
    let mut client = server.client();
    let asks = "Origin: http://b\r\nAccess-Control-Request-Method: GET\r\n";
    let preflight = format!("OPTIONS /d/ HTTP/1.1\r\nHost: a\r\n{asks}Connection: close\r\n\r\n");
    client.send(get("/old/x?y", "") + &get("/no/such/file", "") + &preflight);
    let heard = undated(&client.rest());
    for part in [
        "HTTP/1.1 308 Permanent Redirect\r\n",
        "\r\nLocation: /d/x?y\r\n",
        "\r\nCache-Control: no-cache\r\n",
        "\r\n\r\n0123456789HTTP/1.1 204 No Content\r\n",
        "\r\nAccess-Control-Max-Age: 7200\r\n",
        "\r\nX-Two: 2\r\n",
    ] {
        assert_eq!(heard.matches(part).count(), 1, "{part:?} in {heard}");
    }
    for part in ["\r\nX-One: 1\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n"] {
        assert_eq!(heard.matches(part).count(), 3, "{part:?} in {heard}");
    }
    drop(client);
    server.stop();
}

/// The body of the next answer, found by its length.
pub fn body(client: &mut Client) -> Vec<u8> {
    let mut len = None;
    loop {
        let line = client.line();
        match line.trim_end() {
            "" => return client.exact(len.expect("a Content-Length")),
            line => {
                let value = line.strip_prefix("Content-Length: ");
                len = value.map(|value| value.parse().expect("digits")).or(len);
            }
        }
    }
}

/// A client that does not read costs little, and gets every byte when it does.
pub fn a_great_file_to_a_slow_reader(arm: &Arm) {
    let (folder, root) = site();
    let great: Vec<u8> = (0..GREAT as u32).map(|number| (number % 251) as u8).collect();
    folder.file("site/great", &great);
    let server = serve(arm, &root, &[]);
    let mut first = server.client();
    first.send(get("/a.txt", ""));
    assert_eq!(body(&mut first), b"0123456789");
    let memory = server.family().memory();
    first.narrow(64 * 1024);
    first.send(get("/great", "").repeat(2) + &get("/plaintext", "Connection: close\r\n"));
    std::thread::sleep(ms(100));
    let grown = server.family().memory().saturating_sub(memory);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
    for round in 0..2 {
        assert!(body(&mut first) == great, "round {round}");
    }
    assert_eq!(body(&mut first), b"Hello, World!");
    assert_eq!(first.rest(), b"");
    drop(first);
    server.stop();
}

/// A client that is too slow with a head or a body gets 408; one that is silent between two
/// requests is closed without a reply.
pub fn the_slow_are_told(arm: &Arm) {
    let (_folder, root) = site();
    let times = ["--head-time", "300ms", "--keep-alive", "300ms", "--body-grace", "300ms"];
    let server = serve(arm, &root, &[&times[..], &["--body-rate", "1000000"]].concat());
    for begun in [
        "GET / HTTP/1.1\r\nHost: a\r\nX: y".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello".to_owned(),
        get("/", "") + "G",
    ] {
        let begin = Instant::now();
        let mut client = server.client();
        client.send(&begun);
        let heard = undated(&client.rest());
        let waited = begin.elapsed();
        let told = heard.find("HTTP/1.1 408 Request Timeout\r\n");
        assert!(told.is_some() && heard.contains("Connection: close"), "{begun:?}: {heard}");
        assert!((ms(250)..PATIENCE).contains(&waited), "told after {waited:?}");
    }
    let mut silent = server.client();
    silent.send(get("/", ""));
    assert_eq!(body(&mut silent), b"OK");
    assert_eq!(silent.rest(), b"");
    drop(silent);
    server.stop();
}

/// A client that ends its output and does not read yet costs no CPU, and gets the whole file when
/// it reads (RFC 9112 9.6: a half close is not a loss of interest).
pub fn a_half_closed_client_waits_for_free(arm: &Arm) {
    const LEN: u64 = 60 << 20;
    let (folder, root) = site();
    let great = File::create(folder.path().join("site/great")).expect("a temporary directory");
    great.set_len(LEN).expect("a file with a hole");
    let server = serve(arm, &root, &[]);
    let mut client = server.client();
    client.narrow(64 * 1024);
    client.send(get("/great", "Connection: close\r\n"));
    client.finish();
    let cpu = idle_cpu(&server);
    assert!(cpu < ms(100), "{cpu:?} of CPU for a client that does not read");
    let mut len = 0;
    while client.try_receive().expect("the file") {
        len += client.take().len() as u64;
        let wait = if len < 1 << 20 { ms(2) } else { ms(0) };
        std::thread::sleep(wait);
    }
    assert!(len > LEN && len < LEN + 1000, "{len} bytes with the head");
    drop(client);
    server.stop();
}

/// The CPU time that the server takes in half a second, after the current burst of work.
pub fn idle_cpu(server: &Server) -> Duration {
    std::thread::sleep(ms(200));
    let family = server.family();
    let before = family.cpu();
    std::thread::sleep(ms(500));
    family.cpu().saturating_sub(before)
}

/// Every request has its line, also those of the last moment before a stop.
pub fn no_line_of_the_log_is_lost(arm: &Arm) {
    let (folder, root) = site();
    let log = folder.path().join("access.log").display().to_string();
    let server = serve(arm, &root, &["--access-log", &log, "--log-format", "json"]);
    for round in 0..4 {
        let mut client = server.client();
        client.send(get(&format!("/a.txt?{round}"), "").repeat(50));
        for _ in 0..50 {
            assert_eq!(body(&mut client), b"0123456789");
        }
    }
    server.stop();
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert_eq!(lines.len(), 200, "{text:.500}");
    for (number, line) in lines.iter().enumerate() {
        assert!(line["status"] == 200 && line["bytes"] == 10, "line {number}: {line}");
    }
    let round = |round: usize| format!("GET /a.txt?{round} HTTP/1.1");
    for wanted in (0..4).map(round) {
        let count = lines.iter().filter(|line| line["request"] == wanted.as_str()).count();
        assert_eq!(count, 50, "{wanted}");
    }
}

/// The same over TLS: what curl asks for over both versions, in both directions.
pub fn sealed(arm: &Arm) {
    let (folder, root) = site();
    let great: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 11) as u8).collect();
    std::fs::write(folder.path().join("site/great"), &great).expect("a temporary directory");
    let [cert, key] = folder.certify("localhost");
    let challenges = folder.path().join("site/.well-known/acme-challenge");
    std::fs::create_dir_all(&challenges).expect("a temporary directory");
    std::fs::write(challenges.join("x"), "answer").expect("a temporary directory");
    let server = serve(arm, &root, &["--tls-cert", &cert, "--tls-key", &key]);
    let port = server.address.port();
    let url = |path: &str| format!("https://localhost:{port}{path}");
    let pin = format!("localhost:{port}:127.0.0.1");
    let curl = |args: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--http1.1", "--max-time", "20", "--cacert", &cert]);
        let output = command.args(["--resolve", &pin]).args(args).output().ok()?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {complaint}");
        Some(output.stdout)
    };
    let Some(page) = curl(&["--tls-max", "1.2", &url("/a.txt"), &url("/json")]) else {
        return skip("curl");
    };
    assert_eq!(page, b"0123456789{\"message\":\"Hello, World!\"}");
    assert!(curl(&["--tlsv1.3", &url("/great")]).is_some_and(|heard| heard == great));
    let posted = curl(&["-H", "Transfer-Encoding: chunked", "--data-binary", "hello", &url("/")]);
    assert_eq!(posted.as_deref(), Some(&b"hello"[..]));
    // A client without TLS gets an alert and the end.
    let mut plain = server.client();
    plain.send(get("/", ""));
    assert_eq!(plain.rest().first(), Some(&21));
    server.stop();
    let more = ["--tls-cert", &cert, "--tls-key", &key, "--https-redirect", "8443"];
    let server = serve(arm, &root, &more);
    let mut plain = server.client();
    plain.send(
        get("/a.txt?b=c", "") + &get("/.well-known/acme-challenge/x", "Connection: close\r\n"),
    );
    let heard = undated(&plain.rest());
    assert!(heard.starts_with("HTTP/1.1 308 "), "{heard}");
    assert!(heard.contains("\r\nLocation: https://a:8443/a.txt?b=c\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nanswer"), "{heard}");
    let mut sealed = Command::new("curl");
    sealed.args(["-sk", &format!("https://127.0.0.1:{}/a.txt", server.address.port())]);
    assert_eq!(sealed.output().expect("it ran before").stdout, b"0123456789");
    server.stop();
}

/// Slow heads take every worker. The longest silent one gives its place to a client that waits,
/// long before the time of a head is over.
pub fn the_silent_make_room(arm: &Arm) {
    let (_folder, root) = site();
    let more = ["--head-time", "200s", "--max-connections", "2"];
    // Where each connection gets a worker, the limit makes them few.
    let few = if arm.crowd > 100 { &more[..] } else { &more[..2] };
    let server = serve(arm, &root, few);
    let begun: Vec<Client> = (0..arm.crowd.min(16))
        .map(|_| {
            let mut client = server.client();
            client.send("GET / HTTP/1.1\r\nX");
            client
        })
        .collect();
    let mut waiting = server.client();
    waiting.send(get("/plaintext", "Connection: close\r\n"));
    assert_eq!(body(&mut waiting), b"Hello, World!");
    drop(begun);
    server.stop();
}
